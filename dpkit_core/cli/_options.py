"""What several commands of the core share, beyond what authors of commands have too."""

from __future__ import annotations

import csv
import os
import sys
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any, TextIO

import typer

from dpkit_core.errors import InvalidOption
from dpkit_core.files.documents import parse_toml
from dpkit_core.plugins.kinds import KINDS

_READING = "Reading"

ForceOption = Annotated[
    bool,
    typer.Option(
        "--force",
        help="Overwrite --output, even if it holds a release that was paid for.",
        rich_help_panel="Writing",
    ),
]
DelimiterOption = Annotated[
    str | None,
    typer.Option(
        "--delimiter",
        metavar="CHAR",
        help="Column separator of a text file, such as ';' or tab.",
        show_default="a comma; in .tsv, a tab",
        rich_help_panel=_READING,
    ),
]
DecimalOption = Annotated[
    str,
    typer.Option(
        "--decimal",
        metavar="CHAR",
        help="Decimal sign of numbers in text: a point or a comma.",
        rich_help_panel=_READING,
    ),
]
ThousandsOption = Annotated[
    str,
    typer.Option(
        "--thousands",
        metavar="CHAR",
        help="Thousands separator of numbers in text, such as the comma in 4,011.56.",
        show_default="nothing",
        rich_help_panel=_READING,
    ),
]
MissingOption = Annotated[
    list[str] | None,
    typer.Option(
        "--missing",
        metavar="TEXT",
        help="Another text that means a missing value, such as '?'. Repeatable.",
        rich_help_panel=_READING,
    ),
]
EncodingOption = Annotated[
    str | None,
    typer.Option(
        "--encoding",
        metavar="NAME",
        help="Character encoding of a text file, such as latin-1.",
        show_default="UTF-8, or UTF-16 if the file has a byte order mark",
        rich_help_panel=_READING,
    ),
]
TableOption = Annotated[
    str | None,
    typer.Option(
        "--table",
        metavar="NAME",
        help="Table or view to read from a database.",
        rich_help_panel=_READING,
    ),
]
SpoolOption = Annotated[
    Path | None,
    typer.Option(
        "--spool",
        metavar="FOLDER",
        help="Folder for input that can be read only once and does not fit in memory. The records stay "
        "there, unencrypted, until the command ends.",
        rich_help_panel=_READING,
    ),
]
SeedOption = Annotated[
    int | None,
    typer.Option(
        "--seed",
        metavar="N",
        help="Make the run reproducible. For tests and papers: the release is then NOT private, and says so.",
        rich_help_panel="Privacy",
    ),
]
LedgerOption = Annotated[
    str | None,
    typer.Option(
        "--ledger",
        metavar="FILE",
        help="Charge the run there before any part is given data: a file of `dpkit ledger create`, or a URL.",
        show_default="the site's, if it demands one",
        rich_help_panel="Ledger",
    ),
]
AccountOption = Annotated[
    str | None,
    typer.Option(
        "--account", metavar="NAME", help="The account that pays for the run.", rich_help_panel="Ledger"
    ),
]
ChargeOption = Annotated[
    str | None,
    typer.Option(
        "--charge",
        metavar="ID",
        help="Identity of the charge, such as a job's name: a second run of the same identity is declined.",
        show_default="a new one",
        rich_help_panel="Ledger",
    ),
]

SignOption = Annotated[
    Path | None,
    typer.Option(
        "--sign",
        metavar="KEY",
        help="Sign the release with this private key, made by `dpkit key new`.",
        rich_help_panel="Ledger",
    ),
]


@contextmanager
def until_nobody_reads() -> Iterator[None]:
    """Let printing end early and quietly where the reader of standard output has gone, as ``head`` does.

    Raises
    ------
    OSError
        If standard output cannot be written to for another reason, such as a full disk. What was printed
        last is then dropped, so that nothing fails at it again.
    """
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        print_no_more(sys.stdout)
    except OSError:
        print_no_more(sys.stdout)
        raise
    except BaseException:
        with suppress(OSError):
            sys.stdout.flush()
        raise


def print_no_more(stream: TextIO) -> None:
    """Drop what a stream still holds, and all that follows: the interpreter would fail at it when it ends."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def kinds(incomplete: str) -> list[str]:
    """Return the kinds of parts that complete a word."""
    return [kind for kind in KINDS if kind.startswith(incomplete)]


def split_names(texts: Sequence[str], option: str = "--features") -> list[str] | None:
    """Return the column names in comma-separated lists; a name with a comma is written in double quotes.

    >>> split_names(['carat, "x,y"', "depth"])
    ['carat', 'x,y', 'depth']
    """
    if not texts:
        return None
    names: list[str] = []
    for text in texts:
        listed = [name.strip() for name in next(csv.reader([text], skipinitialspace=True), [])]
        if not all(listed) or not listed:
            raise InvalidOption(f"{option} is {text!r}; give column names with commas between, such as a,b,c")
        names += listed
    doubled = [name for name in names if names.count(name) > 1]
    if doubled:
        raise InvalidOption(f"{option} lists {doubled[0]!r} twice; list each column once")
    return names


def parse_settings(settings: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return role -> option -> value of ``ROLE.OPTION=VALUE`` settings; values as in TOML, or bare words.

    >>> parse_settings(["scorer.penalty=mean", "selector.one_shot=true", "regressor.models=200"])
    {'scorer': {'penalty': 'mean'}, 'selector': {'one_shot': True}, 'regressor': {'models': 200}}
    """
    options: dict[str, dict[str, Any]] = {}
    for setting in settings:
        key, equals, text = setting.partition("=")
        role, dot, option = key.strip().partition(".")
        if not (equals and dot and role and option):
            raise InvalidOption(f"--set {setting!r} is not ROLE.OPTION=VALUE, such as scorer.penalty=mean")
        if option in options.setdefault(role, {}):
            raise InvalidOption(f"--set gives {role}.{option} twice; give it once")
        options[role][option] = _value(text.strip())
    return options


def parse_options(settings: Sequence[str]) -> dict[str, Any]:
    """Return option -> value of ``OPTION=VALUE`` settings of one part; values as in TOML, or bare words.

    >>> parse_options(["trees=50", "loss=squared"])
    {'trees': 50, 'loss': 'squared'}
    """
    options: dict[str, Any] = {}
    for setting in settings:
        option, equals, text = setting.partition("=")
        option = option.strip()
        if not equals or not option.isidentifier():
            raise InvalidOption(f"--set {setting!r} is not OPTION=VALUE, such as trees=50")
        if option in options:
            raise InvalidOption(f"--set gives {option} twice; give it once")
        options[option] = _value(text.strip())
    return options


def _value(text: str) -> Any:
    try:
        document = parse_toml(f"value = {text}", f"--set {text!r}", InvalidOption)
    except InvalidOption as error:
        if isinstance(error.__cause__, tomllib.TOMLDecodeError):
            return text
        raise
    return document["value"] if document.keys() == {"value"} else text
