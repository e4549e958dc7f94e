"""``dpkit bench``, which runs a suite of experiments, and ``dpkit plot``, which draws what came of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dpkit_core.commands.options import Format, FormatOption, names_of, note
from dpkit_core.errors import InvalidOption

if TYPE_CHECKING:
    from dpkit_command_bench.suite import Suite

_INTERRUPTED = 130


def bench(
    suite: Annotated[
        str,
        typer.Argument(
            metavar="SUITE",
            help="A suite's file, or a name that `dpkit list suites` prints.",
            autocompletion=names_of("suites"),
        ),
    ],
    *,
    add: Annotated[
        list[str] | None,
        typer.Option(
            "--add",
            metavar="ROLE=NAME",
            help="Put an installed part beside those of the suite, such as scorer=mine, or recipe=NAME; "
            "repeatable.",
        ),
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(
            "--only",
            metavar="AXIS=VALUE",
            help="Keep one table, composition, epsilon, delta or k, or A,B,C; repeatable.",
        ),
    ] = None,
    data_dir: Annotated[
        Path | None,
        typer.Option(
            "--data-dir", metavar="DIR", help="Where local files of the tables are, by the suite's names."
        ),
    ] = None,
    jobs: Annotated[
        int,
        typer.Option("--jobs", metavar="N", help="Trials side by side.", show_default="one for each core"),
    ] = -1,
    results: Annotated[
        Path | None,
        typer.Option("--results", metavar="DIR", help="Where rows go.", show_default="results/SUITE"),
    ] = None,
    resume: Annotated[
        bool,
        typer.Option("--resume", help="Go on in a folder that has results; what is done is not repeated."),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would run, and stop: reads and downloads nothing.")
    ] = False,
    scheduler: Annotated[
        str | None,
        typer.Option(
            "--scheduler",
            metavar="ADDRESS",
            help="Run on the Dask cluster there, such as tcp://10.0.0.1:8786, instead of on this machine.",
        ),
    ] = None,
    format: FormatOption = Format.TABLE,
) -> None:
    """Run a SUITE of experiments and sum it up. Research, never a release: trials are seeded and say so.

    Each trial's row is written when the trial is done. After an interruption, run again with --resume.
    """
    import contextlib
    import json
    import sys

    from dpkit_command_bench import display
    from dpkit_command_bench.progress import trials
    from dpkit_command_bench.results import Results
    from dpkit_command_bench.runner import cluster_workers, local_workers, run
    from dpkit_command_bench.summary import summarize, to_document

    if data_dir is not None and not data_dir.is_dir():
        raise InvalidOption(f"--data-dir {data_dir} is not a folder; name the one with the tables' files")
    if jobs != -1 and jobs < 1:
        raise InvalidOption(f"--jobs is {jobs}; give a number of at least 1, or leave it out for every core")
    with contextlib.redirect_stdout(sys.stderr):
        chosen = _chosen(suite, add or [], only or [])
    if dry_run:
        display.show_intention(chosen, data_dir, format)
        return
    store = Results(results or Path("results", chosen.name))
    if store.folder.is_dir() and not resume and any(store.stored("key")):
        raise InvalidOption(
            f"{store.folder} has results already; add --resume to go on there, or choose another --results"
        )
    chosen = chosen.going_on(store.suite())
    crew = local_workers(jobs) if scheduler is None else cluster_workers(scheduler)
    try:
        with contextlib.redirect_stdout(sys.stderr), crew as workers, trials() as report:
            ran = run(chosen, store, workers, data_dir=data_dir, report=report)
    except KeyboardInterrupt as interrupt:
        note(f"interrupted; what is done is kept in {store.folder}: go on with --resume")
        raise typer.Exit(_INTERRUPTED) from interrupt
    wanted = {trial.key for trial in chosen.trials()}
    rows = [row for row in store.rows() if row["key"] in wanted] if ran.done or ran.before else []
    summaries = [summarize(rows, metric, chosen.published) for metric in chosen.metrics]
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
    display.show_summary(summaries[0])
    display.show_outcome(ran, store, summaries[0].outcomes, others)


def plot(
    results: Annotated[Path, typer.Argument(metavar="RESULTS", help="A folder that `dpkit bench` wrote.")],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="DIR", help="Where pictures go.", show_default="RESULTS/plots"
        ),
    ] = None,
    metric: Annotated[
        str | None,
        typer.Option("--metric", metavar="NAME", help="What to draw.", show_default="the suite's first"),
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(
            "--against",
            metavar="COMPOSITION",
            help="What heat maps compare the others with.",
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


def _chosen(name: str, add: list[str], only: list[str]) -> Suite:
    from dpkit_command_bench.suite import find_suite

    chosen = find_suite(name)
    for key, value in _pairs("--add", add, "scorer=mine"):
        chosen = chosen.add(key, value)
    kept: dict[str, list[str]] = {}
    for axis, value in _pairs("--only", only, "table=diamonds"):
        kept.setdefault(axis, []).append(value)  # an axis named twice keeps both
    for axis, values in kept.items():
        chosen = chosen.only(axis, ",".join(values))
    return chosen


def _pairs(option: str, words: list[str], example: str) -> Iterator[tuple[str, str]]:
    for word in words:
        key, equals, value = word.partition("=")
        if not (equals and key and value):
            raise InvalidOption(f"{option} {word!r} is not NAME=VALUE, such as {example}")
        yield key.strip(), value.strip()
