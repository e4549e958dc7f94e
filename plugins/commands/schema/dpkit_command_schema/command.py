"""``dpkit schema``: the start of a schema file, for the user to complete."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from dpkit_cli.options import STANDARD, ReadingOptions, grouped, note

if TYPE_CHECKING:
    import pyarrow as pa

    from dpkit_command_schema.guess import Guess
    from dpkit_core.data.source import Source

_HEADER = """\
# Public facts about {called}, for dpkit.
# {looked}
#
# Fill in what you know about the columns from elsewhere: a codebook, a law, physics. Everything in this file
# counts as public and is used without noise, so bounds or categories taken from the data would leak it.
# Parts that need bounds say so; leave the others commented out. A column that you remove is not used.
#
# If a number or a date may be missing, give its column a rule: missing = "indicator" or "constant", with
# fill = the value to use instead, or "drop", which leaves the record out. Without a rule, dpkit refuses the
# table. A missing category counts as none of the list, unless there is a rule.
"""

_READ = "Column names and kinds come from the table; no value was read."

_GUESSED = """\
Column names come from the table. Kinds, and the formats of dates and numbers, were guessed from at most
# {rows} records at its beginning: check each of them. This file contains no value of a record."""

_BLANKS = {
    "numeric": ("# lower = ", "# upper = ", '# missing = "indicator"'),
    "categorical": ('# categories = ["...", "..."]  # or "hashed", with buckets = 32',),
    "date": ('# lower = "2000-01-01"', '# upper = "2000-01-01"', '# missing = "indicator"'),
}

# Of a target, a rule for missing values adds no feature.
_BLANKS_OF_TARGET = {
    "numeric": ("# lower = ", "# upper = ", '# missing = "drop"'),
    "categorical": (
        '# categories = ["...", "..."]  # of two, the second is predicted; with more, each is a class',
        '# positive = "..."  # or the category to predict, against all others',
    ),
    "date": ('# lower = "2000-01-01"', '# upper = "2000-01-01"', '# missing = "drop"'),
}

_UNIT = """\
# [unit]
# column = {column}
# most_records = 1  # how many of each are used: chosen without the data, and the noise grows with it"""


@grouped
def schema(
    data: Annotated[
        str,
        typer.Argument(metavar="DATA", help="A table in any format that compose reads; - is standard input."),
    ],
    target: Annotated[
        str | None, typer.Option("--target", metavar="COLUMN", help="The column to predict.")
    ] = None,
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="File to write, such as visits.schema.toml next to visits.csv.",
            show_default="-, standard output",
        ),
    ] = STANDARD,
    force: Annotated[bool, typer.Option("--force", help="Overwrite --output.")] = False,
    *,
    reading: ReadingOptions,
) -> None:
    """Draft a schema as TOML: names and kinds of columns, and blanks for you to fill in.

    A text file does not say what its columns hold. So kinds, date formats, symbols such as € and thousands
    separators are guessed from its first records, for you to check.
    """
    import contextlib

    from dpkit_command_schema.guess import guesses
    from dpkit_core.files.writing import reserved
    from dpkit_core.plugins.sources import open_source

    options = reading.read_options()
    with contextlib.closing(open_source(data, options)) as source:
        text = draft(source, target, guesses(source, options.written))
    if output == STANDARD:
        print(text, end="")
        return
    with reserved(output, replace=force) as file:
        file.write(text)
    note(f"wrote {output}: fill it in, and pass it to compose with --schema")


def draft(source: Source, target: str | None, guessed: Mapping[str, Guess]) -> str:
    """Return a schema file with names and kinds filled in and everything else left blank."""
    from dpkit_command_schema.guess import LOOKED_AT, identifying
    from dpkit_core.data.encode import can_identify
    from dpkit_core.data.fields import find
    from dpkit_core.data.source import is_untyped
    from dpkit_core.files.documents import to_toml
    from dpkit_core.privacy.budget import Neighboring

    if target is None:
        named = '# target = "..."  # the column to predict, unless --target names it'
    else:
        named = to_toml({"target": find(source, target, "target").name}).rstrip()
    default = Neighboring.ADD_OR_REMOVE_ONE
    relation = to_toml({"neighboring": default.value}).rstrip()
    others = ", ".join(other.value for other in Neighboring if other is not default)
    called = source.called if "://" in source.called else Path(source.called).name
    looked = _GUESSED.format(rows=LOOKED_AT) if guessed else _READ
    lines = [
        _HEADER.format(called=" ".join(called.split()), looked=looked),
        f"{relation}  # or {others}",
        named,
        "# records_about = 50000  # roughly how many, as one digit and zeros, and only if that is public",
    ]
    could = [field.name for field in source.fields if is_untyped(field) or can_identify(field.type)]
    whose = identifying(name for name in could if name != target)
    if whose:
        lines += ["", _unit(whose)]
    for field in source.fields:
        if field.name not in whose:
            lines += _entry(field, guessed.get(field.name), is_target=field.name == target)
    return "\n".join(lines) + "\n"


def _unit(names: Sequence[str]) -> str:
    """Return the lines that ask whom the release protects."""
    from dpkit_core.files.documents import to_toml

    sentence = (
        f"{' and '.join(map(repr, names))}: no feature, because the name seems to say who or what a record "
        "is of. Decide whom the release protects: if one of them may have several records, uncomment the "
        "table."
    )
    spelled = [to_toml({"": name}).partition(" = ")[2].rstrip() for name in names]
    lines = textwrap.wrap(sentence, 106, break_long_words=False, break_on_hyphens=False)
    return "\n".join([*(f"# {line}" for line in lines), _UNIT.format(column="  # or ".join(spelled))])


def _entry(field: pa.Field, guess: Guess | None, *, is_target: bool) -> Iterator[str]:
    import pyarrow as pa

    from dpkit_core.data.encode import kind_of
    from dpkit_core.data.fields import type_of
    from dpkit_core.files.documents import to_toml

    kind = kind_of(field.type) if guess is None else guess.kind
    yield ""
    if kind is None:
        yield f"# Column {field.name!r} holds {type_of(field)}: convert it to numbers or text to use it."
        return
    said: dict[str, object] = {} if guess is None else dict(guess.said)
    blanks = (_BLANKS_OF_TARGET if is_target else _BLANKS)[kind]
    if guess is None and pa.types.is_boolean(field.type):  # false is 0 and true is 1
        said = {"lower": 0.0, "upper": 1.0}
        blanks = blanks[2:]
    yield to_toml({"columns": {field.name: {"kind": kind, **said}}}).rstrip()
    if guess is not None and guess.remark:
        yield f"# {guess.remark}"
    for place, facts in enumerate(() if guess is None else guess.either):
        yield "# Uncomment one of these:" if place == 0 else "# or"
        yield from (f"# {fact}" for fact in to_toml(facts).splitlines())
    yield from blanks
