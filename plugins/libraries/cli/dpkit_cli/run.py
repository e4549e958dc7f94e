"""``dpkit run``: a saved plan, run on a table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

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
    note,
)


@grouped
def run(
    plan: Annotated[Path, typer.Argument(metavar="PLAN", help="A plan written by `dpkit compose --save`.")],
    data: Annotated[
        list[str],
        typer.Argument(
            metavar="DATA...",
            help="The private table, as for compose. For the plan of a stream, its batches in order of "
            "arrival.",
        ),
    ],
    *,
    ledger: LedgerOptions,
    reading: ReadingOptions,
    seed: SeedOption = None,
    output: OutputOption = Path("release.json"),
    force: ForceOption = False,
    anyway: AnywayOption = False,
    format: FormatOption = Format.TABLE,
) -> None:
    """Run a saved PLAN on DATA.

    The installed parts make the plan again; if its events are not those in the file, nothing runs.

    Exit codes as for compose.
    """
    from dpkit_cli.execute import execute
    from dpkit_cli.outputs import outputs
    from dpkit_cli.request import agreed_in

    paid_by = ledger.payer()
    with outputs(output, force=force, inputs=(plan, *data)) as files:
        with aside():
            agreed = agreed_in(plan, data, reading=reading.read_options(), report=note)
        execute(agreed, files, seed=seed, format=format, paid_by=paid_by, sign=ledger.sign, anyway=anyway)
