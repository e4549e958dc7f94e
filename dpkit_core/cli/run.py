"""``dpkit run``: a saved plan, run on a table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dpkit_core.cli._requests import OutputOption
from dpkit_core.commands.options import (
    AccountOption,
    ChargeOption,
    DecimalOption,
    DelimiterOption,
    EncodingOption,
    ForceOption,
    Format,
    FormatOption,
    LedgerOption,
    MissingOption,
    SeedOption,
    SignOption,
    SpoolOption,
    TableOption,
    ThousandsOption,
    note,
)


def run(
    plan: Annotated[Path, typer.Argument(metavar="PLAN", help="A plan written by `dpkit compose --save`.")],
    data: Annotated[
        list[str],
        typer.Argument(
            metavar="DATA...",
            help="The private table, as for compose. For the plan of a stream, its batches in the order of "
            "their arrival.",
        ),
    ],
    *,
    ledger: LedgerOption = None,
    account: AccountOption = None,
    charge: ChargeOption = None,
    sign: SignOption = None,
    delimiter: DelimiterOption = None,
    decimal: DecimalOption = ".",
    thousands: ThousandsOption = "",
    missing: MissingOption = None,
    encoding: EncodingOption = None,
    table: TableOption = None,
    spool: SpoolOption = None,
    seed: SeedOption = None,
    output: OutputOption = Path("release.json"),
    force: ForceOption = False,
    format: FormatOption = Format.TABLE,
) -> None:
    """Run a saved PLAN on DATA.

    The installed parts plan again; if their events are not those of the file, nothing runs.

    Exit codes as for compose.
    """
    from dpkit_core.cli import _execute
    from dpkit_core.cli._outputs import outputs
    from dpkit_core.data.source import ReadOptions
    from dpkit_core.pipeline.request import agreed_in

    reading = ReadOptions(
        table=table,
        delimiter=delimiter,
        encoding=encoding,
        decimal=decimal,
        thousands=thousands,
        missing=missing or (),
        spool=spool,
    )
    paid_by = _execute.payer(ledger, account, charge)
    with outputs(output, force=force, inputs=(plan, *data)) as files:
        with _execute.aside():
            agreed = agreed_in(plan, data, reading=reading, report=note)
        _execute.execute(agreed, files, seed=seed, format=format, paid_by=paid_by, sign=sign)
