"""The end of ``compose`` and ``run``: spend what a plan says, write the release, show it."""

from __future__ import annotations

import contextlib
import json
import sys
import textwrap
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import typer

from dpkit_cli import render
from dpkit_cli.options import Format, aside, keys, note, print_json, until_nobody_reads
from dpkit_cli.outputs import Outputs, StandardOutput
from dpkit_cli.planfile import forecast_document, plan_document
from dpkit_cli.process import undisturbed, unheard
from dpkit_cli.request import Agreed
from dpkit_core.data.engine import Elsewhere
from dpkit_core.errors import Interrupted, LikelyWasted, ReleaseNotShown, ReleaseNotWritten
from dpkit_core.files.writing import Output
from dpkit_core.ledger.ledger import Payer
from dpkit_core.noise.randomness import Randomness
from dpkit_core.pipeline.observers import Observers
from dpkit_core.pipeline.payment import price_in_words
from dpkit_core.pipeline.plan import (
    Plan,
    cost_lines,
    missing_lines,
    reading_lines,
    stage_rows,
    title,
)
from dpkit_core.privacy.events import event_to_json
from dpkit_core.release.release import Release

REFUSED = 3

# As wide as the longest name of a part of dpkit's: on 80 columns, what is released has to share the rest.
_PART = 24


def execute(
    agreed: Agreed,
    files: Outputs,
    *,
    seed: int | None,
    format: Format,
    paid_by: Payer | None = None,
    sign: Path | None = None,
    anyway: bool = False,
    afterwards: Callable[[Release], None] = lambda release: None,
    run: Callable[..., Release] | None = None,
) -> None:
    """Print the plan; run it unless this is a dry run; exit with 3 if it is refused.

    Where waste is foretold, a person at a terminal is asked whether to go on, unless ``anyway``. ``sign`` is
    where the key is that signs what is written, and ``afterwards`` is called with it before it is shown.
    ``run`` takes what ``Plan.run`` does, which is the default.
    """
    with agreed:
        # Unusable data is detected before anything is printed or written.
        with aside(), render.progress() as progress:
            progress("reading the table", 0, 1)
            records = None if files.release is None else agreed.records()
            if isinstance(records, Elsewhere) and records.dashboard is not None:
                note(f"{records.engine} shows its work at {records.dashboard}")
        files.save(agreed.plan)
        _show_agreed(agreed, paid_by, format=format, dry_run=records is None)
        if records is None or files.release is None:
            return
        if agreed.plan.waste and not anyway:
            _ask_whether_to_go_on(agreed.plan)
        signer = None if sign is None else keys("--sign").SigningKey.read(sign)
        running = partial(run or agreed.plan.run, records, paid_by=paid_by)
        release = _released(running, _room(agreed.plan), files.release, seed=seed, signer=signer)
    if not files.to_standard_output:
        note(f"wrote {files.release.called}")
    files.save_page(release)
    afterwards(release)
    _show_written(release, files.release, format)
    if release.refusal is not None:
        raise typer.Exit(REFUSED)


def _ask_whether_to_go_on(plan: Plan) -> None:
    """Raise ``LikelyWasted`` unless a person confirms a plan that is likely to waste its budget."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise LikelyWasted(f"{'; '.join(plan.waste)}. Nothing is spent. Give --anyway to run it as it is")
    if not typer.confirm("The plan warns that the budget is likely to be wasted. Spend it anyway?", err=True):
        raise LikelyWasted("nothing is spent")


def _released(
    run: Callable[..., Release],
    room: int,
    output: Output | StandardOutput,
    *,
    seed: int | None,
    signer: Any,
) -> Release:
    """Run a plan, and return the release that is written; ``room`` is about how many bytes it will have."""
    randomness = Randomness.from_os() if seed is None else Randomness.from_seed(seed)
    output.make_room(room)
    try:
        with aside(), render.progress() as progress:
            observers = Observers.installed(report=note)
            with unheard():
                release = run(randomness=randomness, observers=observers, progress=progress)
        with undisturbed():
            if signer is not None:
                release = signer.sign(release)
            _write(release, output)
    except KeyboardInterrupt as interrupt:
        raise Interrupted(
            "interrupted during the run: nothing is released, and the planned budget counts as spent"
        ) from interrupt
    return release


def _write(release: Release, output: Output | StandardOutput) -> None:
    try:
        output.write(release.to_json())
    except OSError as error:  # it is paid for, so at least it is printed in full
        where = "Keep what is printed" if output.left is None else f"It is complete in {output.left}"
        with contextlib.suppress(OSError), until_nobody_reads():
            _print_document(release)
        raise ReleaseNotWritten(
            f"cannot write {output.called}: {error.strerror or error}. The release is paid for. {where}"
        ) from error


def _show_written(release: Release, output: Output | StandardOutput, format: Format) -> None:
    """Print a release that is in ``output`` already."""
    try:
        with until_nobody_reads():
            if format is Format.TABLE:
                show_release(release)
            elif isinstance(output, Output):
                _print_document(release)
    except KeyboardInterrupt:
        note(f"stopped printing; the release is complete in {output.called}")
    except OSError as error:
        raise ReleaseNotShown(
            f"standard output: {error.strerror or error}. The release is complete in {output.called}"
        ) from error


def _print_document(release: Release) -> None:
    print(release.to_json(), end="")


def _room(plan: Plan) -> int:
    """Return about how many bytes the release will have: what the plan says, and a model of all features."""
    document = {
        "schema": plan.schema.to_document(),
        "events": [event_to_json(item.event) for item in plan.events],
    }
    return 2 * len(json.dumps(document, indent=2)) + 256 * len(plan.schema.features) + 2**14


def _show_agreed(agreed: Agreed, paid_by: Payer | None, *, format: Format, dry_run: bool) -> None:
    """Print what was agreed on: for people; and as JSON, if it is all that there will be."""
    plan = agreed.plan
    if format is Format.TABLE:
        # A run has looked for missing values already.
        because = [*agreed.because, *missing_lines(plan)] if dry_run else agreed.because
        _show_plan(plan, paid_by, because=because)
    elif dry_run:
        document = {
            "plan": plan_document(plan),
            **({"accountant_because": plan.because} if plan.because else {}),
            **({} if agreed.recommended is None else {"recommended": attrs.asdict(agreed.recommended)}),
            "refused_if_missing": list(plan.schema.without_rule),
            "forecasts": [forecast_document(found) for found in plan.forecasts],
            "warnings": list(plan.warnings),
        }
        print_json(document)


def _show_plan(plan: Plan, paid_by: Payer | None, *, because: Sequence[str]) -> None:
    """Print what each part will spend, and what the account that pays will have spent then.

    ``because`` says why these parts were composed, if the user did not name them.
    """
    price = [] if paid_by is None else [f"{price_in_words(plan, paid_by)}."]
    with until_nobody_reads():
        render.heading(title(plan))
        render.table(
            ("stage", "part", "releases", "epsilon\nalone", "share"),
            [(stage, textwrap.fill(part, _PART), *rest) for stage, part, *rest in stage_rows(plan)],
            numeric=("epsilon\nalone", "share"),
            whole=("stage", "part"),
        )
        print()
        render.lines([*because, *reading_lines(plan), *cost_lines(plan), *price])
        print()


def show_release(release: Release) -> None:
    """Print what was released, and the certificate in words."""
    for number, section in enumerate(release.sections()):
        if number:
            print()
        render.heading(section.heading)
        table = section.table
        if table.header:
            render.table(table.header, table.rows, numeric=table.header[1:])
        render.lines(table.sentences)
