"""Published privacy claims that are false, written small, each beside its corrected twin."""

from . import accounts, iterates, laws, mechanisms, parts, sensitivities, trees

SPECIMENS = (
    *sensitivities.SPECIMENS,
    *laws.SPECIMENS,
    *mechanisms.SPECIMENS,
    *parts.SPECIMENS,
    *accounts.SPECIMENS,
    *iterates.SPECIMENS,
    *trees.SPECIMENS,
)


def rows():
    """Return the rows of the table in the documentation, one for each specimen."""
    return [
        f"| {s.name}: {s.bug} | {s.published} | `{s.caught_by}` | {s.samples or 'exact'} |" for s in SPECIMENS
    ]
