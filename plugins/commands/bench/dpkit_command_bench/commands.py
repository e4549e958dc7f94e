"""``dpkit bench``, which runs a suite of experiments, and ``dpkit plot``, which draws its results."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from dpkit_cli.options import Format, FormatOption, names_of, note

from dpkit_core.errors import InvalidOption

if TYPE_CHECKING:
    from dpkit_command_bench.results import Results
    from dpkit_command_bench.runner import RunOutcome
    from dpkit_command_bench.suite import Suite

_INTERRUPTED = 130

_SuiteArgument = Annotated[
    str,
    typer.Argument(
        metavar="SUITE",
        help="A suite's file, or a name that `dpkit list suites` prints.",
        autocompletion=names_of("suites"),
    ),
]
_Added = Annotated[
    list[str] | None,
    typer.Option(
        "--add",
        metavar="ROLE=NAME",
        help="Also run an installed part, such as scorer=mine, or recipe=NAME; repeatable.",
    ),
]
_Kept = Annotated[
    list[str] | None,
    typer.Option(
        "--only",
        metavar="AXIS=VALUE",
        help="Run only this table, composition, epsilon, delta or k; several as A,B,C. Repeatable.",
    ),
]
_Quick = Annotated[
    bool,
    typer.Option(
        "--quick", help="Run only the small part that the suite names for it: less than two minutes."
    ),
]
_DataFolder = Annotated[
    Path | None,
    typer.Option(
        "--data-dir", metavar="DIR", help="Folder with local files of the tables, named as in the suite."
    ),
]
_Jobs = Annotated[
    int,
    typer.Option(
        "--jobs", metavar="N", help="Number of trials run in parallel.", show_default="one for each core"
    ),
]
_ResultsFolder = Annotated[
    Path | None,
    typer.Option("--results", metavar="DIR", help="Folder for the rows.", show_default="results/SUITE"),
]
_Resume = Annotated[
    bool,
    typer.Option("--resume", help="Continue in a folder with results; finished trials are not repeated."),
]
_DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Print what would run, and stop: nothing is read or downloaded.")
]
_Scheduler = Annotated[
    str | None,
    typer.Option(
        "--scheduler",
        metavar="ADDRESS",
        help="Run on the Dask cluster there, such as tcp://10.0.0.1:8786, instead of on this machine.",
    ),
]


def bench(
    suite: _SuiteArgument,
    *,
    add: _Added = None,
    only: _Kept = None,
    quick: _Quick = False,
    data_dir: _DataFolder = None,
    jobs: _Jobs = -1,
    results: _ResultsFolder = None,
    resume: _Resume = False,
    dry_run: _DryRun = False,
    scheduler: _Scheduler = None,
    format: FormatOption = Format.TABLE,
) -> None:
    """Run a SUITE of experiments and summarize it. This is research, never a release: trials are seeded.

    Each trial's row is written when the trial ends. After an interruption, run again with --resume.
    """
    import contextlib
    import sys

    from dpkit_command_bench.display import show_intention
    from dpkit_command_bench.progress import trials
    from dpkit_command_bench.results import Results
    from dpkit_command_bench.runner import cluster_workers, local_workers, run

    if data_dir is not None and not data_dir.is_dir():
        raise InvalidOption(f"--data-dir {data_dir} is not a folder; name the one with the tables' files")
    if jobs != -1 and jobs < 1:
        raise InvalidOption(f"--jobs is {jobs}; give a number of at least 1, or omit it to use every core")
    with contextlib.redirect_stdout(sys.stderr):
        chosen = _chosen(suite, add or [], only or [], quick=quick)
    if dry_run:
        show_intention(chosen, data_dir, format)
        return
    store = Results(results or Path("results", chosen.name))
    if store.folder.is_dir() and not resume and any(store.stored("key")):
        raise InvalidOption(
            f"{store.folder} has results already; add --resume to continue there, or choose another --results"
        )
    chosen = chosen.going_on(store.suite())
    crew = local_workers(jobs) if scheduler is None else cluster_workers(scheduler)
    try:
        with contextlib.redirect_stdout(sys.stderr), crew as workers, trials() as report:
            ran = run(chosen, store, workers, data_dir=data_dir, report=report)
    except KeyboardInterrupt as interrupt:
        note(f"interrupted; finished trials are in {store.folder}: continue with --resume")
        raise typer.Exit(_INTERRUPTED) from interrupt
    _show(chosen, store, ran, format)


def plot(
    results: Annotated[Path, typer.Argument(metavar="RESULTS", help="A folder that `dpkit bench` wrote.")],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="DIR", help="Folder for the pictures.", show_default="RESULTS/plots"
        ),
    ] = None,
    metric: Annotated[
        str | None,
        typer.Option("--metric", metavar="NAME", help="Metric to draw.", show_default="the suite's first"),
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(
            "--against",
            metavar="COMPOSITION",
            help="Composition that heat maps compare the others with.",
            show_default="the first",
        ),
    ] = None,
) -> None:
    """Draw RESULTS: metric against epsilon, ranks, positives, differences, time against records.

    Each picture is written as PNG and SVG.
    """
    from dpkit_command_bench.plots import draw
    from dpkit_command_bench.results import Results

    found = Results(results)
    rows = found.rows()
    drawn = draw(
        rows,
        output or results / "plots",
        metric=metric or next(iter(found.suite().get("metrics", [])), None),
        against=against,
        published=found.published(),
    )
    for path in drawn:
        note(f"wrote {path}")


def _show(suite: Suite, store: Results, ran: RunOutcome, format: Format) -> None:
    """Print the summary of a suite's rows, and how the run ended."""
    import json

    from dpkit_command_bench.display import show_outcome, show_summary
    from dpkit_command_bench.summary import summarize, to_document

    wanted = {trial.key for trial in suite.trials()}
    rows = [row for row in store.rows() if row["key"] in wanted] if ran.done or ran.before else []
    summaries = [summarize(rows, metric, suite.published) for metric in suite.metrics]
    others = ran.code.others(rows)
    if format is Format.JSON:
        document = {
            "results": str(store.folder),
            "trials": {"run": ran.done, "done_before": ran.before, "skipped": ran.trials_skipped},
            "skipped": ran.skipped,
            "rows_of_other_code": dict(others),
            **to_document(summaries),
        }
        print(json.dumps(document, indent=2, allow_nan=False))
        return
    show_summary(summaries[0])
    show_outcome(ran, store, summaries[0].outcomes, others)


def _chosen(name: str, add: list[str], only: list[str], *, quick: bool) -> Suite:
    from dpkit_command_bench.suite import find_suite

    chosen = find_suite(name).quickly() if quick else find_suite(name)
    for key, value in _pairs("--add", add, "scorer=mine"):
        chosen = chosen.add(key, value)
    kept: dict[str, list[str]] = {}
    for axis, value in _pairs("--only", only, "table=diamonds"):
        kept.setdefault(axis, []).append(value)  # naming an axis twice keeps both values
    for axis, values in kept.items():
        chosen = chosen.only(axis, ",".join(values))
    return chosen


def _pairs(option: str, words: list[str], example: str) -> Iterator[tuple[str, str]]:
    for word in words:
        key, equals, value = word.partition("=")
        if not (equals and key and value):
            raise InvalidOption(f"{option} {word!r} is not NAME=VALUE, such as {example}")
        yield key.strip(), value.strip()
