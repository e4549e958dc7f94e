"""Published privacy claims that are false, written small, each with a corrected twin."""

from . import accounts, iterates, laws, mechanisms, parts, sensitivities, trees

PUBLISHED = (
    *sensitivities.ROWS,
    *laws.ROWS,
    *mechanisms.ROWS,
    *parts.ROWS,
    *accounts.ROWS,
    *iterates.ROWS,
    *trees.ROWS,
)


def table():
    """Return the lines of the table in the documentation, one for each claim."""
    return [
        f"| {row.name}: {row.says} | {row.published} | `{row.found_by}` | {row.samples or 'exact'} |"
        for row in PUBLISHED
    ]
