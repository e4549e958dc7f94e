"""What commands have in common: an option, notes, completions, and what becomes of an error.

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

import enum
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Annotated

import typer

from dpkit_core.plugins.registry import Registry
from dpkit_core.plugins.resources import KINDS as RESOURCES
from dpkit_core.plugins.resources import resources


class Format(enum.StrEnum):
    """How results are printed: for people, or for machines."""

    TABLE = "table"
    JSON = "json"


#: The annotation of a parameter ``format`` whose default is ``Format.TABLE``: the option ``--format``.
FormatOption = Annotated[
    Format, typer.Option("--format", help="table for people; json prints one object and nothing else.")
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
        refs = resources(kind) if kind in RESOURCES else Registry().refs(kind)
        return [ref.name for ref in refs if ref.name.startswith(incomplete)]

    return complete
