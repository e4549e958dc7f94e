"""``dpkit check``: whether a part keeps what it promises, found out by attacking it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dpkit_core.cli._options import Format, FormatOption, kinds, note

if TYPE_CHECKING:
    from dpkit_core.testing import Report


def _names(incomplete: str) -> list[str]:
    from dpkit_core.registry import Registry

    return [ref.name for ref in Registry().refs() if ref.name.startswith(incomplete)]


def check(
    part: Annotated[
        str,
        typer.Argument(
            metavar="PART",
            help="An installed NAME, module:Class, path.py, or path.py:Class.",
            autocompletion=_names,
        ),
    ],
    *,
    kind: Annotated[
        str | None,
        typer.Option("--kind", help="scorer, selector, accountant or regressor.", autocompletion=kinds),
    ] = None,
    thorough: Annotated[
        bool, typer.Option("--thorough", help="Then try ten times as hard; says beforehand how long.")
    ] = False,
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="Seed of everything that is tried.")] = 0,
    report: Annotated[
        Path | None, typer.Option("--report", metavar="FILE", help="Also write an HTML report.")
    ] = None,
    format: FormatOption = Format.TABLE,
) -> None:
    """Try every promise of a PART. Exit code 0 if all checks passed, 2 if one failed."""
    import contextlib
    import json
    import sys

    from dpkit_core.cli import _render
    from dpkit_core.testing import run_checks
    from dpkit_core.testing.kit import THOROUGH
    from dpkit_core.testing.locate import find_part
    from dpkit_core.testing.page import report_page

    with contextlib.redirect_stdout(sys.stderr), _render.progress() as told:
        component, role = find_part(part, kind)
        outcome = run_checks(
            component, role, seed=seed, progress=lambda one, done, steps: told("checks", done, steps)
        )
    if thorough and outcome.ok:
        seconds = THOROUGH * outcome.seconds
        note(f"all checks passed; the thorough run will take about {seconds:.0f} s")
        with contextlib.redirect_stdout(sys.stderr), _render.progress() as told:
            outcome = run_checks(
                component,
                role,
                thorough=True,
                seed=seed,
                progress=lambda one, done, steps: told("thorough checks", done, steps),
            )
    if report is not None:
        report.write_text(report_page(outcome), encoding="utf-8")
        note(f"wrote {report}")
    if format is Format.JSON:
        print(json.dumps(outcome.to_document(), indent=2))
    else:
        _print(outcome)
    if not outcome.ok:
        raise typer.Exit(2)


def _print(report: Report) -> None:
    from dpkit_core.cli import _render

    _render.heading(f"{report.kind} {report.part}")
    _render.table(
        ("status", "check", "seconds", "finding"),
        (
            (r.status, r.check.removeprefix("check_"), f"{r.seconds:.1f}", r.detail.partition("\n")[0])
            for r in report.results
        ),
        numeric=("seconds",),
        whole=("check",),
    )
    for result in report.results:
        if result.status == "failed":
            print(f"\n{result.check} failed: {result.detail}\n")
            _render.lines([f"What to do: {result.remedy}"])
    print()
    _render.lines([report.statement])
