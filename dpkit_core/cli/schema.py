"""``dpkit schema``: the start of a schema file, for a person to complete."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Annotated

import typer

from dpkit_core.cli._options import DelimiterOption, EncodingOption, SpoolOption, TableOption

if TYPE_CHECKING:
    import pyarrow as pa

    from dpkit_core.data.source import Source

_HEADER = """\
# Public facts about {called}, for dpkit. Names and types of columns were read, nothing else.
#
# Fill in what is known about the columns from elsewhere: a codebook, a law, physics. Whatever is written here
# counts as public and is used without noise, so a bound or a category taken from the data would leak them.
# Where a number may be missing, say what becomes of it: missing = "indicator" or "constant", with fill = the
# number that stands for it, or "drop". Without a rule, a table in which it is missing is refused.
# Parts that need a bound say so; leave the others commented out. A column removed from here is not used.
"""
_BLANKS = {
    "numeric": ("# lower = ", "# upper = ", "# missing = "),
    "categorical": ('# categories = ["...", "..."]',),
    "date": ('# lower = "2000-01-01"', '# upper = "2000-01-01"', "# missing = "),
}


_UNKNOWN = '# or: kind = "categorical", with categories = ["...", "..."]; or kind = "date"'


def schema(
    data: Annotated[str, typer.Argument(metavar="DATA", help="The table, of any kind that compose takes.")],
    target: Annotated[
        str | None, typer.Option("--target", metavar="COLUMN", help="The column to predict.")
    ] = None,
    *,
    delimiter: DelimiterOption = None,
    encoding: EncodingOption = None,
    table: TableOption = None,
    spool: SpoolOption = None,
) -> None:
    """Print the start of a schema as TOML: names and kinds of columns, and blanks for a person to fill in.

    What a text file holds is not looked at: its columns are called numeric, for a person to correct.
    """
    from dpkit_core.data.source import ReadOptions
    from dpkit_core.plugins.sources import open_source

    reading = ReadOptions(table=table, delimiter=delimiter, encoding=encoding, spool=spool)
    with contextlib.closing(open_source(data, reading)) as source:
        print(draft(source, target), end="")


def draft(source: Source, target: str | None) -> str:
    """Return a schema file with names and kinds filled in and everything else left blank."""
    from dpkit_core.data.fields import find
    from dpkit_core.files.documents import to_toml
    from dpkit_core.privacy.budget import Neighboring

    if target is None:
        named = '# target = "..."  # the column to predict, unless --target says it'
    else:
        named = to_toml({"target": find(source, target, "target").name}).rstrip()
    default = Neighboring.ADD_OR_REMOVE_ONE
    relation = to_toml({"neighboring": default.value}).rstrip()
    others = ", ".join(other.value for other in Neighboring if other is not default)
    head = [_HEADER.format(called=source.called), f"{relation}  # or {others}", named]
    return "\n".join(head) + "\n" + "".join(map(_entry, source.fields))


def _entry(field: pa.Field) -> str:
    from dpkit_core.data.encode import kind_of
    from dpkit_core.data.fields import type_of
    from dpkit_core.data.source import is_untyped
    from dpkit_core.files.documents import to_toml

    untyped = is_untyped(field)
    kind = "numeric" if untyped else kind_of(field.type)
    if kind is None:
        return f"\n# Column {field.name!r} holds {type_of(field)}: turn it into numbers or text to use it.\n"
    facts = to_toml({"columns": {field.name: {"kind": kind}}})
    blanks = (_UNKNOWN, *_BLANKS[kind]) if untyped else _BLANKS[kind]
    return "\n" + facts + "\n".join(blanks) + "\n"
