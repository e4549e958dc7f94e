"""``dpkit check``: attacks a part to find out whether it keeps its promises."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import attrs
import typer
from dpkit_cli.options import Format, FormatOption, grouped, kinds, note

from dpkit_core.text import number_of

if TYPE_CHECKING:
    from dpkit_check import Report, Result


def _names(incomplete: str) -> list[str]:
    from dpkit_core.plugins.registry import Registry

    return [ref.name for ref in Registry().refs() if ref.name.startswith(incomplete)]


@attrs.frozen
class AttackOptions:
    """What is attacked, and how hard."""

    panel: ClassVar[str] = "Attack"
    kind: Annotated[
        str | None,
        typer.Option("--kind", help="scorer, selector, accountant or regressor.", autocompletion=kinds),
    ] = None
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="OPTION=VALUE",
            help="Attack the part with this value of an option, such as trees=50. Repeatable.",
        ),
    ] = None
    thorough: Annotated[
        bool,
        typer.Option(
            "--thorough",
            help="Then try ten times as hard, also on larger tables; prints an estimate of the time first.",
        ),
    ] = False
    expect_failure: Annotated[
        list[str] | None,
        typer.Option(
            "--expect-failure",
            metavar="CHECK=REASON",
            help="A check that the part is known to fail, and why it is published anyway. Repeatable.",
        ),
    ] = None
    seed: Annotated[
        int, typer.Option("--seed", metavar="N", min=0, help="Seed of everything that is tried.")
    ] = 0
    strict: Annotated[
        bool, typer.Option("--strict", help="Fail, too, where code of the part was not attacked.")
    ] = False


@attrs.frozen
class FileOptions:
    """What is written, and read again."""

    panel: ClassVar[str] = "Files"
    report: Annotated[
        Path | None, typer.Option("--report", metavar="FILE", help="Also write an HTML report.")
    ] = None
    witness: Annotated[
        Path | None,
        typer.Option("--witness", metavar="FILE", help="Also write the failures to a file for --replay."),
    ] = None
    replay: Annotated[
        Path | None,
        typer.Option(
            "--replay",
            metavar="FILE",
            help="Run only the tables and seeds on which the part failed when this file was written.",
        ),
    ] = None


@grouped
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
    how: AttackOptions,
    files: FileOptions,
    format: FormatOption = Format.TABLE,
) -> None:
    """Attack every promise of a PART. Exit code 0 if all checks pass, 2 if one fails, 3 if none judges."""
    import json

    from dpkit_cli.options import parse_options

    from dpkit_check.witness import read_witness
    from dpkit_core.errors import InvalidOption
    from dpkit_core.plugins.registry import load_target
    from dpkit_core.plugins.resources import resources

    told = None if files.replay is None else read_witness(files.replay)
    kind, seed, options = how.kind, how.seed, parse_options(how.settings or [])
    if told is not None:
        part, kind, seed = part or told.part, kind or told.kind, told.seed
        options = {**told.options, **options}
    if part is None:
        raise InvalidOption("no PART is given; name one, or pass --replay FILE")
    attack = _Attack.on(part, kind, options, how.expect_failure or [], seed)
    with _reserved(part, files) as write:
        if told is not None:
            outcome = attack.run("witnesses", thorough=told.thorough, only=told.checks, scenes=told.scenes)
        else:
            outcome = attack.in_full(thorough=how.thorough)
        write(outcome)
    if format is Format.JSON:
        print(json.dumps(outcome.to_document(), indent=2))
    else:
        _print(outcome)
    for ref in resources("remarks"):
        for sentence in load_target(ref)(attack.component):
            note(sentence)
    kept = outcome.strict if how.strict else outcome.ok
    if code := 3 * (not outcome.judged) if kept else 2:
        raise typer.Exit(code)


@contextlib.contextmanager
def _reserved(part: str, files: FileOptions) -> Iterator[Callable[[Report], None]]:
    """Give what writes a report to the files that are asked for; whether they can be is known before."""
    from dpkit_cli.options import require_elsewhere

    from dpkit_check.page import report_page
    from dpkit_check.witness import witness_of
    from dpkit_core.files.writing import reserved

    report, witness = files.report, files.witness
    if report is not None:
        require_elsewhere(report, [Path(part.partition(":")[0])])
    with contextlib.ExitStack() as stack:
        page = None if report is None else stack.enter_context(reserved(report, replace=True))
        kept = None if witness is None else stack.enter_context(reserved(witness, replace=True))

        def write(outcome: Report) -> None:
            if page is not None:
                page.write(report_page(outcome))
                note(f"wrote {report}")
            if kept is not None and not outcome.ok:
                kept.write(witness_of(part, outcome))
                note(f"wrote {witness}; dpkit check --replay {witness} shows the failures again")

        yield write


# Characters of a line that the table of a report needs besides its findings.
_BESIDE = 26


@attrs.frozen
class _Attack:
    """A part that is to be checked, and how."""

    component: type[Any]
    role: str
    make: Callable[..., Any]
    expected: dict[str, str]
    seed: int

    @classmethod
    def on(
        cls, part: str, kind: str | None, options: dict[str, Any], expected: list[str], seed: int
    ) -> _Attack:
        """Return the attack on the part that is meant, with its small options where it has some."""
        from dpkit_check import checks_for
        from dpkit_check.locate import find_part
        from dpkit_check.options import with_options

        with contextlib.redirect_stdout(sys.stderr):
            component, role = find_part(part, kind)
            make = with_options(component, options)
        checks = [one.name for one in checks_for(role)]
        return cls(component, role, make, _expected(expected, checks), seed)

    def run(self, stage: str, *, thorough: bool, **what: Any) -> Report:
        """Return the report of one run, whose progress is shown."""
        from dpkit_cli import render

        from dpkit_check import run_checks

        with contextlib.redirect_stdout(sys.stderr), render.progress() as shown:
            return run_checks(
                self.make,
                self.role,
                expected_failures=self.expected,
                thorough=thorough,
                seed=self.seed,
                progress=lambda one, done, steps: shown(stage, done, steps),
                **what,
            )

    def in_full(self, *, thorough: bool) -> Report:
        """Return the report of the default run or, if nothing fails there, of a thorough one."""
        from dpkit_cli import render

        if not thorough:
            return self.run("checks", thorough=False)
        note(self.added)
        outcome = self.run("checks", thorough=False)
        if not outcome.ok:
            return outcome
        note(f"all checks passed; the thorough run will take about {render.duration(outcome.forecast)}")
        return self.run("thorough checks", thorough=True)

    @property
    def added(self) -> str:
        """What a thorough run does beyond the default one."""
        from dpkit_check.kit import THOROUGH

        return (
            "first a default run, which estimates the time of the rest: about "
            f"{THOROUGH} times as long, with {THOROUGH} times as many tables, pairs and runs, and larger ones"
        )


def _expected(given: list[str], checks: list[str]) -> dict[str, str]:
    """Return check -> reason of the options; the prefix ``check_`` may be left out."""
    from dpkit_core.errors import InvalidOption

    expected = {}
    for one in given:
        name, _, reason = one.partition("=")
        name = f"check_{_short(name.strip())}"
        if name not in checks or not reason.strip():
            raise InvalidOption(
                f"--expect-failure {one!r} must be CHECK=REASON, with the name of a check and a reason; the "
                f"checks are {', '.join(map(_short, checks))}"
            )
        expected[name] = reason.strip()
    return expected


def _print(report: Report) -> None:
    from dpkit_cli import render

    render.heading(f"{report.kind} {report.part}")
    found = "check, and what it found"
    tried = [result for result in report.results if result.status != "skipped"]
    render.table(
        ("status", found, "seconds"),
        ((r.status, _found(r, render.width() - _BESIDE), f"{r.seconds:.1f}") for r in tried),
        numeric=("seconds",),
        whole=(found,),
    )
    if skipped := _skipped(report):
        print()
        render.lines(skipped)
    if report.reach.unreached:
        print()
        render.lines(["Not attacked:", *(f"  {place}" for place in report.reach.unreached)])
    if report.reach.not_read:
        print()
        render.lines(["Not read:", *(f"  {function}" for function in report.reach.not_read)])
    for result, others in report.causes:
        print(f"\n{result.check} failed: {result.detail}\n")
        follow = f"and {number_of(len(others), 'check')} that may follow from it: "
        names = ", ".join(_short(other.check) for other in others)
        render.lines([f"What to do: {result.remedy}", *([follow + names] * bool(others))])
    print()
    render.lines([report.statement])
    if report.causes:
        render.lines([_verdict(report)])


def _short(check: str) -> str:
    return check.removeprefix("check_")


def _found(result: Result, width: int) -> str:
    """Return the name of a check, and below it the first line of what it found, in lines of a width.

    What failed is printed in full below the table.
    """
    import textwrap

    if result.status == "failed":
        return f"{_short(result.check)}\n  see below"
    found = textwrap.wrap(result.detail.partition("\n")[0], max(width, 20))
    return "\n".join([_short(result.check), *(f"  {line}" for line in found)])


def _skipped(report: Report) -> list[str]:
    """Return a sentence for each reason why checks were skipped, with their names."""
    checks: dict[str, list[str]] = {}
    for result in report.results:
        if result.status == "skipped":
            checks.setdefault(result.detail, []).append(_short(result.check))
    return [f"Skipped ({reason}): {', '.join(names)}" for reason, names in checks.items()]


def _verdict(report: Report) -> str:
    """Return the last sentence of a report: all that a log cut to its end still shows."""
    failed = [result for result in report.results if result.status == "failed"]
    names = ", ".join(_short(result.check) for result in failed)
    again = "; pass --witness FILE to keep the tables for --replay FILE"
    kept = again if any(result.scene for result in failed) else ""
    return f"FAILED, {report.verdict}: {names}. See above for what failed and what to do{kept}."
