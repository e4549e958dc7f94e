"""``dpkit categories``: the common values of columns whose categories nobody may list."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import attrs
import typer
from dpkit_cli.options import (
    AnywayOption,
    ForceOption,
    Format,
    FormatOption,
    LedgerOptions,
    OutputOption,
    ReadingOptions,
    SeedOption,
    aside,
    grouped,
    names_of,
    note,
    split_names,
)

from dpkit_core.privacy.budget import Budget

if TYPE_CHECKING:
    from dpkit_cli.facts import Facts
    from dpkit_cli.outputs import Outputs
    from dpkit_cli.request import Agreed

    from dpkit_core import Release
    from dpkit_core.files.writing import Output


@attrs.frozen
class CostOptions:
    """What the release may cost."""

    panel: ClassVar[str] = "Privacy"
    epsilon: Annotated[float, typer.Option(metavar="E", help="Privacy loss allowed.")] = 0.1
    delta: Annotated[
        float,
        typer.Option(metavar="D", help="Probability with which that may fail: well below 1 / records."),
    ] = 1e-6
    accountant: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Computes the total from the events.",
            autocompletion=names_of("accountants"),
            show_default="tight where it is installed, else rdp",
        ),
    ] = None
    seed: SeedOption = None


@attrs.frozen
class FilesOptions:
    """What is written, and where."""

    panel: ClassVar[str] = "Writing"
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the plan and stop. Nothing is spent.")] = (
        False
    )
    output: OutputOption = Path("categories.json")
    filled: Annotated[
        Path,
        typer.Option(metavar="FILE", help="Where to write the schema with the categories filled in."),
    ] = Path("found.schema.toml")
    force: ForceOption = False
    anyway: AnywayOption = False


@grouped
def categories(
    data: Annotated[
        str,
        typer.Argument(metavar="DATA", help="The private table, in any format that compose reads."),
    ],
    *,
    column: Annotated[
        list[str], typer.Option(metavar="A,B,C", help="The columns to find categories of. Repeatable.")
    ],
    schema: Annotated[
        Path, typer.Option(metavar="FILE", help="Public facts, which list no categories of these columns.")
    ],
    frequencies: Annotated[
        bool, typer.Option("--frequencies", help="Also release how common each is; it costs nothing more.")
    ] = False,
    cost: CostOptions,
    ledger: LedgerOptions,
    reading: ReadingOptions,
    files: FilesOptions,
    format: FormatOption = Format.TABLE,
) -> None:
    """Find the common values of columns whose categories nobody may list, and fill them into the schema.

    This is a private release of its own, with a certificate for `dpkit verify`. A value that few have is not
    found: the plan says how many it takes.

    Exit codes as for compose.
    """
    from dpkit_cli.execute import execute
    from dpkit_cli.facts import Facts

    paid_by, names = ledger.payer(Budget(cost.epsilon, cost.delta)), split_names(column, "--column")
    with ExitStack() as opened:
        written, target = _reserved(opened, files, (data, schema))
        agreed = _agreed(
            opened,
            data,
            facts=Facts(schema, features=names),
            cost=cost,
            reading=reading,
            frequencies=frequencies,
        )
        execute(
            agreed,
            written,
            seed=cost.seed,
            format=format,
            paid_by=paid_by,
            sign=ledger.sign,
            anyway=files.anyway,
            afterwards=partial(_fill, schema, target),
        )


def _reserved(
    opened: ExitStack, files: FilesOptions, inputs: tuple[str | Path, ...]
) -> tuple[Outputs, Output | None]:
    """Return the files of the release and, for a run, of the schema that is filled in, reserved."""
    from dpkit_cli.options import STANDARD, require_elsewhere
    from dpkit_cli.outputs import outputs

    from dpkit_core.errors import InvalidOption
    from dpkit_core.files.writing import reserved

    release = None if files.dry_run else files.output
    if files.filled == STANDARD:
        raise InvalidOption("--filled is -, but only a release can go to standard output; name a file")
    require_elsewhere(files.filled, (*inputs, release))
    written = opened.enter_context(outputs(release, force=files.force, inputs=inputs))
    if files.dry_run:
        return written, None
    return written, opened.enter_context(reserved(files.filled, replace=files.force))


def _agreed(
    opened: ExitStack,
    data: str,
    *,
    facts: Facts,
    cost: CostOptions,
    reading: ReadingOptions,
    frequencies: bool,
) -> Agreed:
    """Return the plan and its table, which is closed with ``opened``."""
    from dpkit_cli.request import Agreed

    from dpkit_command_categories.entries import Entries
    from dpkit_command_categories.planned import plan_of
    from dpkit_core.plugins.sources import open_source

    options = reading.read_options()
    with aside():
        source = open_source(data, options)
        opened.callback(source.close)
        budget = Budget(cost.epsilon, cost.delta)
        schema = facts.about(source, note)
        plan = plan_of(schema, budget, accountant=cost.accountant, frequencies=frequencies)
    return Agreed(plan, (source,), options, read=Entries.from_source)


def _fill(schema: Path, target: Output | None, made: Release) -> None:
    """Write the schema with the categories of a release."""
    from dpkit_command_categories.filled import filled_in

    if target is not None:
        target.write(filled_in(schema, made))
        note(f"wrote {target.called}, the schema with the categories filled in")
