"""A table or view, found by its name in the catalog of a database; never a query."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence

import attrs

from dpkit_core.errors import InvalidOption

_PART = r'"(?:[^"]|"")*"|[^".]+'
_NAME = re.compile(rf"(?:({_PART})\.)?({_PART})")
# As many names as a message may hold.
_MANY = 20


def quoted(name: str) -> str:
    """Return a name quoted for SQL, whatever it contains.

    >>> print(quoted('the "new" ones'))
    "the ""new"" ones"
    """
    return '"' + name.replace('"', '""') + '"'


@attrs.frozen
class Relation:
    """A table or view. ``alone``: its name finds it without that of its schema."""

    schema: str
    name: str
    alone: bool = True

    @property
    def sql(self) -> str:
        """How a query names it."""
        return f"{quoted(self.schema)}.{quoted(self.name)}"

    @property
    def shown(self) -> str:
        """How ``--table`` names it."""
        parts = [self.name] if self.alone else [self.schema, self.name]
        return ".".join(quoted(part) if re.search(r'[".]', part) else part for part in parts)


def chosen(wanted: str | None, there: Sequence[Relation], database: str) -> Relation:
    """Return the relation of exactly this name.

    Parameters
    ----------
    wanted
        ``table`` or ``schema.table``; a part that holds a dot is in quotes.
    there
        The relations of the database, in the order in which a name is looked up.
    database
        Its name in messages.

    Raises
    ------
    InvalidOption
        If no name is given, or no relation has it; lists the relations.
    """
    names = list(dict.fromkeys(relation.shown for relation in there))
    if wanted is None:
        raise InvalidOption(
            f"name the table of {database} that holds the records with --table; {_told(names)}"
        )
    parts = _NAME.fullmatch(wanted)
    if parts is None:
        raise InvalidOption(
            f"--table {wanted} is not a table name; give table or schema.table, with double quotes around "
            f"a name that contains a dot; {_told(names)}. Queries are not accepted: create a view"
        )
    schema, name = (part and _plain(part) for part in parts.groups())
    for relation in there:
        if relation.name == name and (relation.schema == schema if schema else relation.alone):
            return relation
    near = _near(wanted, names)
    raise InvalidOption(
        f"{database} has no table or view {wanted} that you may see; "
        + (f"did you mean {' or '.join(near)}?" if near else _told(names))
        + (". Queries are not accepted: create a view" if wanted.lower().startswith("select ") else "")
    )


def _plain(part: str) -> str:
    return part[1:-1].replace('""', '"') if part.startswith('"') else part


def _near(wanted: str, names: Sequence[str]) -> list[str]:
    folded = {name.lower(): name for name in reversed(names)}
    folded |= {name.rpartition(".")[2].lower(): name for name in reversed(names)}
    found = difflib.get_close_matches(wanted.lower(), folded, n=3, cutoff=0.6)
    return list(dict.fromkeys(folded[name] for name in found))


def _told(names: Sequence[str]) -> str:
    if not names:
        return "it has no table or view visible to you"
    more = f" and {len(names) - _MANY} more" if len(names) > _MANY else ""
    return f"it has {', '.join(names[:_MANY])}{more}"
