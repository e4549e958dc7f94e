"""``dpkit run``: a saved plan, run on a table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dpkit_core.cli._options import (
    AccountOption,
    ChargeOption,
    DecimalOption,
    DelimiterOption,
    ForceOption,
    LedgerOption,
    MissingOption,
    SeedOption,
    SignOption,
)
from dpkit_core.commands.options import Format, FormatOption, note


def run(
    plan: Annotated[Path, typer.Argument(metavar="PLAN", help="A plan written by `dpkit compose --save`.")],
    data: Annotated[
        list[Path],
        typer.Argument(
            metavar="DATA...",
            help="The private table: .csv, .tsv, .parquet, a folder of .parquet files, .npz. For the plan of "
            "a stream, its batches in the order of their arrival.",
        ),
    ],
    *,
    ledger: LedgerOption = None,
    account: AccountOption = None,
    charge: ChargeOption = None,
    sign: SignOption = None,
    delimiter: DelimiterOption = None,
    decimal: DecimalOption = ".",
    missing: MissingOption = None,
    seed: SeedOption = None,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="Where to write the release.")
    ] = Path("release.json"),
    force: ForceOption = False,
    format: FormatOption = Format.TABLE,
) -> None:
    """Run a saved PLAN on DATA.

    The installed parts plan again; if their events are not those of the file, nothing runs.

    Exit codes as for compose.
    """
    import contextlib
    import sys

    from dpkit_core.cli import _execute
    from dpkit_core.cli._inputs import note_unused, records_of, require_tables
    from dpkit_core.data.readers import Dialect, read_table
    from dpkit_core.pipeline.planfile import read_plan

    paid_by = _execute.payer(ledger, account, charge)
    with _execute.claimed(output, force=force, inputs=(plan, *data)) as release:
        with contextlib.redirect_stdout(sys.stderr):
            agreed = read_plan(plan, report=note)
        require_tables(data, agreed.batches)
        dialect = Dialect(delimiter, decimal, missing)
        tables = [read_table(path, batch=len(data) > 1, dialect=dialect) for path in data]
        records = records_of(tables, agreed.schema, agreed.assembly.forms)
        note_unused(tables[0], agreed.schema, by="the plan")
        if format is Format.TABLE:
            _execute.show_plan(agreed, paid_by)
        _execute.execute(
            agreed,
            records,
            seed=seed,
            output=release,
            path=output,
            format=format,
            paid_by=paid_by,
            signer=_execute.signer(sign),
        )
