"""``dpkit audit``: what many runs of a plan prove about its epsilon."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from dpkit_cli.options import Format, FormatOption, note

from dpkit_core.text import number_of

if TYPE_CHECKING:
    from dpkit_check.compositions import CompositionAudit

_REFUTED = 2
_SECONDS_OF_RUNS = 180.0  # seconds for the runs, where their number is not given


def audit(
    plan: Annotated[Path, typer.Argument(metavar="PLAN", help="A plan written by `dpkit compose --save`.")],
    samples: Annotated[
        int | None,
        typer.Option(
            "--samples",
            metavar="N",
            min=100,
            help="Runs on each of the two tables; 10000 by default, or what takes a few minutes.",
        ),
    ] = None,
    records: Annotated[
        int | None,
        typer.Option(
            "--records",
            metavar="N",
            min=2,
            help="Number of records in each table. By default small, or the fewest that are not refused.",
        ),
    ] = None,
    format: FormatOption = Format.TABLE,
) -> None:
    """Run a PLAN many times on two neighboring tables and bound its epsilon from below.

    The tables are made for it; no data are needed.

    Exit codes: 0 the claim is not refuted, which proves nothing; 2 it is refuted, or could not be tried.
    """
    import contextlib
    import json
    import sys

    from dpkit_cli import render
    from dpkit_cli.planfile import read_plan

    from dpkit_check.compositions import audit_composition, find_suspects

    with contextlib.redirect_stdout(sys.stderr), render.progress() as told:
        agreed = read_plan(plan, report=note)
        suspects = find_suspects(
            agreed,
            sizes=None if records is None else (records,),
            progress=lambda done, steps: told("looking for the worst pair", done, steps),
        )
    first, second = suspects.records
    samples = samples or suspects.affordable(_SECONDS_OF_RUNS)
    note(
        f"{2 * samples} runs on neighbors with {first} and {number_of(second, 'record')}: about "
        f"{render.duration(2 * samples * suspects.seconds)}"
    )
    with contextlib.redirect_stdout(sys.stderr), render.progress() as told:
        outcome = audit_composition(
            agreed,
            suspects,
            samples=samples,
            progress=lambda done, steps: told("runs", done, steps),
        )
    if format is Format.JSON:
        print(json.dumps(_document(outcome), indent=2))
    else:
        unit, relation = agreed.schema.unit, f"{agreed.schema.neighboring.value} neighbors"
        compared = relation if unit is None else f"{relation} that differ in all records of one {unit}"
        render.heading(f"Audit: {agreed.assembly}, {compared}")
        _show(outcome)
    if outcome.finding.violated:
        raise typer.Exit(_REFUTED)


def _show(outcome: CompositionAudit) -> None:
    from dpkit_cli import render

    finding = outcome.finding
    render.table(
        ("", "at least, by this audit", "claimed by the certificate"),
        (
            ("epsilon", f"{finding.epsilon:.4g}", f"{finding.claimed.epsilon:.4g}"),
            ("delta", f"{finding.delta:.3g}", f"{finding.claimed.delta:.3g}"),
            *([("mu", f"{finding.mu:.4g}", f"{finding.claimed_mu:.4g}")] * math.isfinite(finding.claimed_mu)),
        ),
        numeric=("at least, by this audit", "claimed by the certificate"),
    )
    print()
    first, second = outcome.records
    render.lines(
        [
            f"{finding.samples} runs on each of two neighbors with {first} and "
            f"{number_of(second, 'record')}, in "
            f"{finding.seconds:.1f} s; the bounds hold with confidence {100 * finding.confidence:g}%.",
            *([f"{100 * outcome.refused:.3g}% of the runs ended in a refusal."] * (outcome.refused > 0)),
            outcome.statement,
        ]
    )


def _document(outcome: CompositionAudit) -> dict[str, Any]:
    finding = outcome.finding
    return {
        "refuted": finding.violated,
        "epsilon_at_least": finding.epsilon,
        "delta_at_least": finding.delta,
        "claimed": {"epsilon": finding.claimed.epsilon, "delta": finding.claimed.delta},
        "confidence": finding.confidence,
        "samples": finding.samples,
        "records": list(outcome.records),
        "refused": outcome.refused,
        "seconds": finding.seconds,
        "statement": outcome.statement,
    }
