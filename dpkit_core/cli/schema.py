"""``dpkit schema``: the start of a schema file, for a person to complete."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dpkit_core.cli._options import DecimalOption, DelimiterOption, MissingOption

if TYPE_CHECKING:
    from dpkit_core.data.readers import Table, TableColumn

_HEADER = """\
# Public facts about {path}, for dpkit. Names and kinds of columns were read from the file, nothing else.
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


def schema(
    data: Annotated[
        Path,
        typer.Argument(
            metavar="DATA", help="The table: .csv, .tsv, .parquet, a folder of .parquet files, or .npz."
        ),
    ],
    target: Annotated[
        str | None, typer.Option("--target", metavar="COLUMN", help="The column to predict.")
    ] = None,
    *,
    delimiter: DelimiterOption = None,
    decimal: DecimalOption = ".",
    missing: MissingOption = None,
) -> None:
    """Print the start of a schema as TOML: names and kinds of columns, and blanks for a person to fill in."""
    from dpkit_core.data.readers import Dialect, read_table

    table = read_table(data, dialect=Dialect(delimiter, decimal, missing))
    print(draft(table, target), end="")


def draft(table: Table, target: str | None) -> str:
    """Return a schema file with names and kinds filled in and everything else left blank."""
    from dpkit_core.files.documents import to_toml
    from dpkit_core.privacy.budget import Neighboring

    if target is None:
        named = '# target = "..."  # the column to predict, unless --target says it'
    else:
        named = to_toml({"target": table.find(target, "target").name}).rstrip()
    default = Neighboring.ADD_OR_REMOVE_ONE
    relation = to_toml({"neighboring": default.value}).rstrip()
    others = ", ".join(other.value for other in Neighboring if other is not default)
    head = [_HEADER.format(path=Path(table.path).name), f"{relation}  # or {others}", named]
    return "\n".join(head) + "\n" + "".join(map(_entry, table.columns))


def _entry(column: TableColumn) -> str:
    from dpkit_core.data.readers import KIND_OF
    from dpkit_core.files.documents import to_toml

    kind = KIND_OF.get(column.holds)
    if kind is None:
        return f"\n# Column {column.name!r} holds {column.holds}: turn it into numbers or text to use it.\n"
    facts = to_toml({"columns": {column.name: {"kind": kind}}})
    return "\n" + facts + "\n".join(_BLANKS[kind]) + "\n"
