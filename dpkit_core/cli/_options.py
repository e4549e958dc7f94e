"""What several commands share: options, notes on standard error, completion of names."""

from __future__ import annotations

import csv
import enum
import os
import sys
import tomllib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from dpkit_core.errors import InvalidOption
from dpkit_core.registry import KINDS, Registry


class Format(enum.StrEnum):
    """How results are printed."""

    TABLE = "table"
    JSON = "json"


FormatOption = Annotated[
    Format, typer.Option("--format", help="table for people; json prints one object and nothing else.")
]
ForceOption = Annotated[
    bool,
    typer.Option("--force", help="Overwrite the file of --output, though its release may be paid for."),
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


def note(message: str) -> None:
    """Tell the user something on standard error; standard output is for results."""
    print(f"dpkit: {message}", file=sys.stderr)


@contextmanager
def unread_is_fine() -> Iterator[None]:
    """Let printing end early and quietly where the reader of standard output has gone, as ``head`` does."""
    try:
        yield
    except BrokenPipeError:
        _print_no_more()
    finally:
        try:
            sys.stdout.flush()
        except BrokenPipeError:
            _print_no_more()


def _print_no_more() -> None:
    # Else the interpreter would complain when it flushes at its end.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def names_of(kind: str) -> Callable[[str], list[str]]:
    """Return a completion of the installed names of a kind; imports no part."""

    def complete(incomplete: str) -> list[str]:
        return [ref.name for ref in Registry().refs(kind) if ref.name.startswith(incomplete)]

    return complete


def names_offered(kind: str) -> Callable[[str], list[str]]:
    """Return a completion of the installed recipes, suites or generators."""

    def complete(incomplete: str) -> list[str]:
        from dpkit_core.offers import offers

        return [ref.name for ref in offers(kind) if ref.name.startswith(incomplete)]

    return complete


def kinds(incomplete: str) -> list[str]:
    """Return the kinds of parts that complete a word."""
    return [kind for kind in KINDS if kind.startswith(incomplete)]


def split_names(text: str | None) -> list[str] | None:
    """Return the column names in a comma-separated list; a name with a comma is written in double quotes.

    >>> split_names('carat, "x,y"')
    ['carat', 'x,y']
    """
    if text is None:
        return None
    names = [name.strip() for name in next(csv.reader([text], skipinitialspace=True), [])]
    if not all(names) or not names:
        raise InvalidOption(f"--features is {text!r}; give column names with commas between, such as a,b,c")
    doubled = [name for name in names if names.count(name) > 1]
    if doubled:
        raise InvalidOption(f"--features lists {doubled[0]!r} twice; list each column once")
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


def _value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text
