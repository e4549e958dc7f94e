"""``dpkit run``: a saved plan, run on a table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dpkit_core.cli._options import ForceOption, Format, FormatOption, SeedOption


def run(
    plan: Annotated[Path, typer.Argument(metavar="PLAN", help="A plan written by `dpkit compose --save`.")],
    data: Annotated[Path, typer.Argument(metavar="DATA", help="The private table: .csv, .parquet, or .npz.")],
    *,
    seed: SeedOption = None,
    output: Annotated[
        Path, typer.Option("--output", metavar="FILE", help="Where to write the release.")
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
    from dpkit_core.cli._inputs import dataset
    from dpkit_core.planfile import read_plan
    from dpkit_core.tables import read_table

    _execute.require_writable(output, inputs=(plan, data))
    _execute.require_unpaid(output, force=force)
    with contextlib.redirect_stdout(sys.stderr):
        agreed = read_plan(plan)
    records = dataset(read_table(data), agreed.schema, agreed.pipeline.forms)
    if format is Format.TABLE:
        _execute.show_plan(agreed)
    _execute.execute(agreed, records, seed=seed, output=output, format=format)
