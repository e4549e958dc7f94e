"""Published privacy claims that are false, written small, each with a corrected twin."""

from . import iterates, laws, lists, mechanisms, parts, persons, sensitivities, sums, trees

PUBLISHED = (
    *sensitivities.ROWS,
    *laws.ROWS,
    *mechanisms.ROWS,
    *parts.ROWS,
    *sums.ROWS,
    *iterates.ROWS,
    *trees.ROWS,
    *persons.ROWS,
    *lists.ROWS,
)


def table():
    """Return the lines of the table in the documentation, one for each claim."""
    return [
        f"| {row.name}: {row.says} | {row.published} | `{row.found_by}` | {row.samples or 'exact'} |"
        for row in PUBLISHED
    ]
