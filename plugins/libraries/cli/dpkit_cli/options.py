"""What commands share: options and how they are parsed, messages, completion, and how errors are reported.

A command is a function that typer reads, offered by the entry point group ``dpkit.commands``::

    from typing import Annotated

    import typer

    from dpkit_cli.options import Format, FormatOption, note

    def rows(table: Annotated[Path, typer.Argument()], format: FormatOption = Format.TABLE) -> None:
        \"\"\"Count the rows of TABLE.\"\"\"

Results go to standard output and everything else to standard error, by ``note``. What a command raises is
reported in a sentence and becomes the exit code: 2 for a ``DpkitError`` or ``OSError``, 4 for a
``BudgetSpent``, 1, as a fault of the program, for anything else. ``typer.Exit(code)`` ends with another code.
``dpkit_cli.render`` draws headings, tables and progress.

``dpkit --help`` imports this module, so it loads no numerical library, and neither should a command before it
runs: what does the work is imported within the function.
"""

from __future__ import annotations

import csv
import enum
import functools
import inspect
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TextIO, get_type_hints

import attrs
import typer

from dpkit_core.errors import InvalidOption
from dpkit_core.plugins.kinds import PARTS
from dpkit_core.plugins.resources import require_resource, resources

if TYPE_CHECKING:
    from dpkit_core.data.source import ReadOptions
    from dpkit_core.ledger.ledger import Payer
    from dpkit_core.privacy.budget import Budget


class Format(enum.StrEnum):
    """How results are printed: for people, or for machines."""

    TABLE = "table"
    JSON = "json"


#: The annotation of a parameter ``format`` whose default is ``Format.TABLE``: the option ``--format``.
FormatOption = Annotated[
    Format, typer.Option("--format", help="table for people; json prints one object and nothing else.")
]

#: What stands for standard output where a file is named.
STANDARD = Path("-")

OutputOption = Annotated[
    Path,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        help="Where to write the release; - is standard output.",
        rich_help_panel="Writing",
    ),
]
ForceOption = Annotated[
    bool,
    typer.Option(
        "--force",
        help="Overwrite --output, even if it holds a release that was paid for.",
        rich_help_panel="Writing",
    ),
]
AnywayOption = Annotated[
    bool,
    typer.Option(
        "--anyway",
        help="Run even if the plan warns that the budget is likely to be wasted. Else a person at a terminal "
        "is asked, and any other run stops before anything is spent.",
    ),
]
SeedOption = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        help="Make the run reproducible. For tests and papers: the release is then NOT private, and says so.",
        rich_help_panel="Privacy",
    ),
]


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command in which each parameter that takes a group of options becomes these options.

    A group is an attrs class such as ``ReadingOptions``: its fields are annotated like the parameters of a
    command, and its ``panel`` is the heading above them in the help text.
    """
    hints = get_type_hints(command, include_extras=True)
    groups = {name: hint for name, hint in hints.items() if attrs.has(hint)}

    @functools.wraps(command)
    def flat(**given: Any) -> None:
        for name, group in groups.items():
            given[name] = group(**{field.name: given.pop(field.name) for field in attrs.fields(group)})
        command(**given)

    parameters: list[inspect.Parameter] = []
    for parameter in inspect.signature(command, eval_str=True).parameters.values():
        group = groups.get(parameter.name)
        parameters += [parameter] if group is None else _options_of(group)
    keywords = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in parameters]
    vars(flat)["__signature__"] = inspect.Signature(keywords)
    flat.__annotations__ = {parameter.name: parameter.annotation for parameter in keywords}
    return flat


def _options_of(group: type[Any]) -> Iterator[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    for field in attrs.fields(group):
        (option,) = hints[field.name].__metadata__
        option.rich_help_panel = group.panel
        yield inspect.Parameter(
            field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=hints[field.name]
        )


@attrs.frozen
class ReadingOptions:
    """How a table is read, for every command that reads one; see ``dpkit_core.data.source.ReadOptions``."""

    panel: ClassVar[str] = "Reading"
    delimiter: Annotated[
        str | None,
        typer.Option(
            metavar="CHAR",
            help="Column separator of a text file, such as ';' or tab.",
            show_default="a comma; in .tsv, a tab",
        ),
    ] = None
    decimal: Annotated[
        str,
        typer.Option(metavar="CHAR", help="Decimal sign of numbers in text: a point or a comma."),
    ] = "."
    thousands: Annotated[
        str,
        typer.Option(
            metavar="CHAR",
            help="Thousands separator of numbers in text, such as the comma in 4,011.56.",
            show_default="nothing",
        ),
    ] = ""
    missing: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TEXT", help="Another text that means a missing value, such as '?'. Repeatable."
        ),
    ] = None
    encoding: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Character encoding of a text file, such as latin-1.",
            show_default="UTF-8, or UTF-16 if the file has a byte order mark",
        ),
    ] = None
    table: Annotated[
        str | None, typer.Option(metavar="NAME", help="Table or view to read from a database.")
    ] = None
    spool: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Folder for input that can be read only once and does not fit in memory. The records stay "
            "there, unencrypted, until the command ends.",
        ),
    ] = None

    def read_options(self) -> ReadOptions:
        """Return the options as ``open_source`` takes them.

        Raises
        ------
        InvalidOption
            If one cannot be used, or two contradict each other.
        """
        from dpkit_core.data.source import ReadOptions

        return ReadOptions(**(attrs.asdict(self) | {"missing": self.missing or ()}))


@attrs.frozen
class LedgerOptions:
    """Who pays for a run, and who signs its release."""

    panel: ClassVar[str] = "Ledger"
    ledger: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Charge the run to this ledger before any part sees data: a file made by `dpkit ledger "
            "create`, or a URL.",
            show_default="the site's, if it demands one",
        ),
    ] = None
    account: Annotated[
        str | None, typer.Option(metavar="NAME", help="The account that pays for the run.")
    ] = None
    charge: Annotated[
        str | None,
        typer.Option(
            metavar="ID",
            help="Identifies the charge, such as the name of a job; a second run with it is declined.",
            show_default="a new one",
        ),
    ] = None
    sign: Annotated[
        Path | None,
        typer.Option(metavar="KEY", help="Sign the release with this private key, made by `dpkit key new`."),
    ] = None

    def payer(self, budget: Budget | None = None) -> Payer | None:
        """Return the account that pays, in the given ledger or the one the site demands; None for neither.

        A ``budget`` that the site does not allow is refused here, before a part is loaded or a table read.

        Raises
        ------
        InvalidOption
            If there is an account without a ledger, or a ledger without an account.
        """
        from dpkit_core.ledger.ledger import Ledger
        from dpkit_core.pipeline.policy import Policy

        policy = Policy.of_site()
        if budget is not None:
            policy.require_budget(budget)
        where = policy.ledger if self.ledger is None else self.ledger
        if where is None:
            for option, value in (("--account", self.account), ("--charge", self.charge)):
                if value is not None:
                    raise InvalidOption(
                        f"{option} is given without --ledger, which says where the account is"
                    )
            return None
        ledger = Ledger.open(where)
        if self.account is None:
            names = [each.account.name for each in ledger.accounts()]
            raise InvalidOption(
                f"which account of the ledger pays? Give --account {' or '.join(names)}"
                if names
                else "the ledger has no account that could pay; create one with `dpkit ledger create`"
            )
        return ledger.payer(self.account, charge=self.charge)


def note(message: str) -> None:
    """Print a message to the user on standard error; standard output is for results."""
    with suppress(OSError):  # standard error may be closed
        print(f"dpkit: {message}", file=sys.stderr)


def print_json(document: object) -> None:
    """Print a document on standard output, where a program reads it."""
    print(json.dumps(document, indent=2, default=str))


def aside() -> redirect_stdout[TextIO]:
    """Return a block in which what a part prints goes to standard error: standard output is for results."""
    return redirect_stdout(sys.stderr)


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
    """End printing quietly if the reader of standard output has gone away, as ``head`` does.

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
    """Discard what a stream still holds and all that follows; else the interpreter would fail at exit."""
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
            raise InvalidOption(f"{option} is {text!r}; give column names separated by commas, such as a,b,c")
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
    for name, value in _assigned(settings, r"[^.]+\..+", "ROLE.OPTION=VALUE, such as scorer.penalty=mean"):
        role, _, option = name.partition(".")
        options.setdefault(role, {})[option] = value
    return options


def parse_options(settings: Sequence[str]) -> dict[str, Any]:
    """Return option -> value of ``OPTION=VALUE`` settings of one part; values as in TOML, or bare words.

    >>> parse_options(["trees=50", "loss=squared"])
    {'trees': 50, 'loss': 'squared'}
    """
    return dict(_assigned(settings, r"[^\W\d]\w*", "OPTION=VALUE, such as trees=50"))


def _assigned(settings: Sequence[str], names: str, form: str) -> Iterator[tuple[str, Any]]:
    """Yield the name and the value of each setting; names match the pattern ``names``, each only once."""
    known = set()
    for setting in settings:
        name, equals, text = setting.partition("=")
        name = name.strip()
        if not equals or not re.fullmatch(names, name):
            raise InvalidOption(f"--set {setting!r} is not {form}")
        if name in known:
            raise InvalidOption(f"--set gives {name} twice; give it once")
        known.add(name)
        yield name, _value(text.strip())


def _value(text: str) -> Any:
    import tomllib

    from dpkit_core.files.documents import parse_toml

    try:
        document = parse_toml(f"value = {text}", f"--set {text!r}", InvalidOption)
    except InvalidOption as error:
        if isinstance(error.__cause__, tomllib.TOMLDecodeError):
            return text
        raise
    return document["value"] if document.keys() == {"value"} else text
