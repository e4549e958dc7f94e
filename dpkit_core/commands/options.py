"""What commands have in common: options, how they are read, notes, completions, and what becomes of an error.

A command is a function that typer reads, offered by the entry point group ``dpkit.commands``::

    from typing import Annotated

    import typer

    from dpkit_core.commands.options import Format, FormatOption, note

    def rows(table: Annotated[Path, typer.Argument()], format: FormatOption = Format.TABLE) -> None:
        \"\"\"Count the rows of TABLE.\"\"\"

Results go to standard output and everything else to standard error, by ``note``. What a command raises is
reported in a sentence and becomes the exit code: 2 for a ``DpkitError`` or ``OSError``, 4 for a
``BudgetSpent``, 1, as a fault of the program, for anything else. ``typer.Exit(code)`` ends with another code.
``dpkit_core.commands.render`` draws headings, tables and progress.

Whoever asks for help imports this module, so it loads no numerical library, and neither should a command
before it runs: what does the work is imported within the function.
"""

from __future__ import annotations

import csv
import enum
import os
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any, TextIO

import typer

from dpkit_core.errors import InvalidOption
from dpkit_core.files.documents import parse_toml
from dpkit_core.plugins.kinds import PARTS
from dpkit_core.plugins.resources import require_resource, resources


class Format(enum.StrEnum):
    """How results are printed: for people, or for machines."""

    TABLE = "table"
    JSON = "json"


#: The annotation of a parameter ``format`` whose default is ``Format.TABLE``: the option ``--format``.
FormatOption = Annotated[
    Format, typer.Option("--format", help="table for people; json prints one object and nothing else.")
]

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


def note(message: str) -> None:
    """Tell the user something on standard error; standard output is for results."""
    with suppress(OSError):  # nobody can be told
        print(f"dpkit: {message}", file=sys.stderr)


def names_of(kind: str) -> Callable[[str], list[str]]:
    """Return a completion of the installed names of a kind of part or resource; imports none.

    >>> complete = names_of("accountants")
    >>> sorted({"basic", "rdp"} & set(complete("")))
    ['basic', 'rdp']
    """

    def complete(incomplete: str) -> list[str]:
        return [ref.name for ref in resources(kind) if ref.name.startswith(incomplete)]

    return complete


def keys(option: str) -> Any:
    """Return the module with the classes of keys, for an option that needs one.

    Raises
    ------
    MissingDependency
        If the distribution that has it is not installed.
    """
    return require_resource("signers", "ed25519", of="dpkit-command-sign", purpose=option, extra="signing")


def require_elsewhere(path: Path, inputs: Iterable[Path | str | None]) -> None:
    """Raise if an output is also an input."""
    read = [Path(other) for other in inputs if other]
    if path.exists() and any(other.exists() and path.samefile(other) for other in read):
        raise InvalidOption(f"cannot write {path}: it is also an input; write to another file")


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
    return [kind.plural for kind in PARTS.values() if kind.plural.startswith(incomplete)]


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
