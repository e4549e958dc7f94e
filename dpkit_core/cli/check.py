"""``dpkit check``: whether a part keeps what it promises, found out by attacking it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dpkit_core.cli._options import kinds
from dpkit_core.commands.options import Format, FormatOption, note

if TYPE_CHECKING:
    from dpkit_core.testing import Report


def _names(incomplete: str) -> list[str]:
    from dpkit_core.plugins.registry import Registry

    return [ref.name for ref in Registry().refs() if ref.name.startswith(incomplete)]


def check(
    part: Annotated[
        str | None,
        typer.Argument(
            metavar="PART",
            help="An installed NAME, module:Class, path.py, or path.py:Class.",
            autocompletion=_names,
        ),
    ] = None,
    *,
    kind: Annotated[
        str | None,
        typer.Option("--kind", help="scorer, selector, accountant or regressor.", autocompletion=kinds),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="OPTION=VALUE",
            help="Attack the part with this value of an option, such as trees=50. Repeatable.",
        ),
    ] = None,
    thorough: Annotated[
        bool,
        typer.Option(
            "--thorough", help="Then try ten times as hard, on larger tables too; says beforehand how long."
        ),
    ] = False,
    expect_failure: Annotated[
        list[str] | None,
        typer.Option(
            "--expect-failure",
            metavar="CHECK=REASON",
            help="A check that the part fails, and why it is published all the same. Repeatable.",
        ),
    ] = None,
    seed: Annotated[
        int, typer.Option("--seed", metavar="N", min=0, help="Seed of everything that is tried.")
    ] = 0,
    report: Annotated[
        Path | None, typer.Option("--report", metavar="FILE", help="Also write an HTML report.")
    ] = None,
    witness: Annotated[
        Path | None,
        typer.Option("--witness", metavar="FILE", help="Also write what failed, to be replayed."),
    ] = None,
    replay: Annotated[
        Path | None,
        typer.Option(
            "--replay", metavar="FILE", help="Only what failed in the run that wrote this witness, again."
        ),
    ] = None,
    format: FormatOption = Format.TABLE,
) -> None:
    """Try every promise of a PART. Exit code 0 if all checks passed, 2 if one failed."""
    import contextlib
    import json
    import sys

    from dpkit_core.cli._execute import require_elsewhere
    from dpkit_core.cli._options import parse_options
    from dpkit_core.commands import render
    from dpkit_core.errors import InvalidOption
    from dpkit_core.files.writing import reserved
    from dpkit_core.scaffold.leftovers import leftovers
    from dpkit_core.testing import checks_for, run_checks
    from dpkit_core.testing.checks.parts import class_of
    from dpkit_core.testing.locate import find_part
    from dpkit_core.testing.options import with_options
    from dpkit_core.testing.page import report_page
    from dpkit_core.testing.witness import read_witness, witness_of

    only: list[str] = []
    if replay is not None:
        told = read_witness(replay)
        part, kind, seed = part or told.part, kind or told.kind, told.seed
        only, thorough = list(told.checks), told.thorough
    if part is None:
        raise InvalidOption("no PART is given; name one, or give the --replay of a witness")
    if report is not None:
        require_elsewhere(report, [Path(part.partition(":")[0])])
    with contextlib.redirect_stdout(sys.stderr):
        component, role = find_part(part, kind)
    made = with_options(component, parse_options(settings or []))
    expected = _expected(expect_failure or [], [one.name for one in checks_for(role)])

    def run(stage: str, *, thorough: bool) -> Report:
        with contextlib.redirect_stdout(sys.stderr), render.progress() as told:
            return run_checks(
                made,
                role,
                expected_failures=expected,
                thorough=thorough,
                seed=seed,
                only=only,
                progress=lambda one, done, steps: told(stage, done, steps),
            )

    with contextlib.ExitStack() as stack:
        page = None if report is None else stack.enter_context(reserved(report, replace=True))
        kept = None if witness is None else stack.enter_context(reserved(witness, replace=True))
        outcome = run("checks", thorough=thorough and replay is not None)
        if thorough and outcome.ok and replay is None:
            note(f"all checks passed; the thorough run will take about {render.duration(outcome.forecast)}")
            outcome = run("thorough checks", thorough=True)
        if page is not None:
            page.write(report_page(outcome))
            note(f"wrote {report}")
        if kept is not None and not outcome.ok:
            kept.write(witness_of(part, outcome))
            note(f"wrote {witness}: dpkit check --replay {witness} tries what failed again")
    if format is Format.JSON:
        print(json.dumps(outcome.to_document(), indent=2))
    else:
        _print(outcome)
    for sentence in leftovers(class_of(component)):
        note(sentence)
    if not outcome.ok:
        raise typer.Exit(2)


def _expected(given: list[str], checks: list[str]) -> dict[str, str]:
    """Return check -> reason of the options; the prefix ``check_`` may be left out."""
    from dpkit_core.errors import InvalidOption

    expected = {}
    for one in given:
        name, _, reason = one.partition("=")
        name = f"check_{name.strip().removeprefix('check_')}"
        if name not in checks or not reason.strip():
            raise InvalidOption(
                f"--expect-failure {one!r} is not CHECK=REASON with the name of a check and a reason; the "
                f"checks are {', '.join(check.removeprefix('check_') for check in checks)}"
            )
        expected[name] = reason.strip()
    return expected


def _print(report: Report) -> None:
    from dpkit_core.commands import render

    render.heading(f"{report.kind} {report.part}")
    render.table(
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
            render.lines([f"What to do: {result.remedy}"])
    print()
    render.lines([report.statement])
