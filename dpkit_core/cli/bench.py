"""``dpkit bench``: a suite of experiments, on any tables, with whatever is installed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpkit_core.cli._options import Format, FormatOption, names_offered, note
from dpkit_core.errors import InvalidOption

if TYPE_CHECKING:
    from dpkit_core.bench.results import Results
    from dpkit_core.bench.runner import Ran
    from dpkit_core.bench.suite import Setting, Suite
    from dpkit_core.bench.summary import Cell, Standing, Summary

_INTERRUPTED = 130


def bench(
    suite: Annotated[
        str,
        typer.Argument(
            metavar="SUITE",
            help="A suite's file, or a name that `dpkit list suites` prints.",
            autocompletion=names_offered("suites"),
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

    from dpkit_core.bench.results import Results
    from dpkit_core.bench.runner import cluster_workers, local_workers, run
    from dpkit_core.bench.summary import summarize, to_document
    from dpkit_core.cli import _render

    if data_dir is not None and not data_dir.is_dir():
        raise InvalidOption(f"--data-dir {data_dir} is not a folder; name the one with the tables' files")
    if jobs != -1 and jobs < 1:
        raise InvalidOption(f"--jobs is {jobs}; give a number of at least 1, or leave it out for every core")
    with contextlib.redirect_stdout(sys.stderr):
        chosen = _chosen(suite, add or [], only or [])
    if dry_run:
        _show_intention(chosen, data_dir, format)
        return
    store = Results(results or Path("results", chosen.name))
    if store.folder.is_dir() and not resume and any(store.stored("key")):
        raise InvalidOption(
            f"{store.folder} has results already; add --resume to go on there, or choose another --results"
        )
    crew = local_workers(jobs) if scheduler is None else cluster_workers(scheduler)
    try:
        with contextlib.redirect_stdout(sys.stderr), crew as workers, _render.trials() as report:
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
    _show(summaries[0])
    _render.lines(_outcome(ran, store, summaries[0].outcomes))
    _render.lines(_warning(composition, count) for composition, count in others.items())


def _chosen(name: str, add: list[str], only: list[str]) -> Suite:
    from dpkit_core.bench.suite import find_suite

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


def _show_intention(suite: Suite, data_dir: Path | None, format: Format) -> None:
    import contextlib
    import json
    import sys

    from dpkit_core.bench.code import Code
    from dpkit_core.bench.sources import locate
    from dpkit_core.cli import _render
    from dpkit_core.errors import MissingTable

    with contextlib.redirect_stdout(sys.stderr):
        absent = Code.of(suite).missing
    rows, missing = [], {}
    for spec in suite.tables:
        try:
            rows.append((spec.name, locate(spec, data_dir, suite.folder)))
        except MissingTable as error:
            missing[spec.name] = str(error)
            rows.append((spec.name, f"skipped: {error}"))
    trials = sum(
        trial.table.name not in missing and trial.composition.name not in absent for trial in suite.trials()
    )
    if format is Format.JSON:
        skipped = {f"composition {name}": reason for name, reason in absent.items()}
        skipped |= {f"table {name}": reason for name, reason in missing.items()}
        document = {"trials": trials, "skipped": skipped, "suite": suite.to_document()}
        print(json.dumps(document, indent=2, allow_nan=False))
        return
    _render.heading(f"Suite {suite.name}: {trials} trials")
    _render.lines([suite.summary] if suite.summary else [])
    print()
    _render.table(("table", "taken from"), rows)
    parts = [
        (
            recipe.name,
            f"skipped: {absent[recipe.name]}" if recipe.name in absent else " + ".join(recipe.parts.values()),
            _options(recipe.options),
        )
        for recipe in suite.compositions
    ]
    print()
    _render.table(("composition", "parts", "options"), parts)
    grid = {
        "epsilon": suite.epsilon, "delta": suite.delta, "k": suite.k, "splits": [suite.splits],
        "trials": [suite.repeats], "metrics": suite.metrics,
    }  # fmt: skip
    print()
    _render.table(
        ("setting", "values"),
        [
            (key, ", ".join(f"{v:.6g}" if isinstance(v, float) else str(v) for v in vs))
            for key, vs in grid.items()
        ],
    )


def _options(options: Mapping[str, Mapping[str, Any]]) -> str:
    return ", ".join(
        f"{role}.{key}={value}" for role, facts in options.items() for key, value in facts.items()
    )


def _show(summary: Summary) -> None:
    from dpkit_core.cli import _render

    if not summary.cells:
        return
    metric = summary.metric
    _render.heading(f"{metric} on held-out records: median and quartiles of the trials")
    compositions = list(dict.fromkeys(cell.setting.composition for cell in summary.cells))
    columns = _cell_columns(summary.cells)
    if len(compositions) == 1:
        names = {"table": [cell.setting.table for cell in summary.cells]}
        _render.lines([f"composition = {compositions[0]}{_marked(summary.cells[0])}"])
        _varying_table({**names, **columns})
    else:
        _varying_table(_under_tables(summary.cells, columns))
    _show_sources(summary)
    if summary.standings:
        print()
        _render.heading("Private compositions over all tables")
        _varying_table(_standing_columns(summary.standings, positives=metric == "r2"))
    print()
    problems = dict.fromkeys(
        f"{cell.setting.table}, {cell.setting.composition}, k = {_k(cell.setting.k)}: {message}"
        for cell in summary.cells
        if cell.outcomes["impossible"] or cell.outcomes["failed"]
        for message in cell.messages
    )
    if problems:
        _render.heading("Not possible, or failed")
        _render.lines(problems)
        print()


_SETTINGS = ("epsilon", "delta", "k")

Columns = dict[str, list[str]]
"""Header -> what stands below it."""


def _cell_columns(cells: Sequence[Cell]) -> Columns:
    columns = _setting_columns([cell.setting for cell in cells])
    middles = [cell.quartiles for cell in cells]
    columns["median"] = ["-" if middle is None else _number(middle.median) for middle in middles]
    columns["quartiles"] = [
        "-" if middle is None else f"{_number(middle.low)} to {_number(middle.high)}" for middle in middles
    ]
    if any(cell.published for cell in cells):
        columns["published"] = [
            "-" if cell.published is None else _number(cell.published.median) for cell in cells
        ]
    columns["refused"] = [f"{cell.outcomes['refused']} of {cell.trials}" for cell in cells]
    return columns


def _standing_columns(standings: Sequence[Standing], *, positives: bool) -> Columns:
    columns = {"composition": [standing.composition for standing in standings]}
    columns |= _setting_columns(standings)
    facts: dict[str, Callable[[Standing], str]] = {
        "tables": lambda standing: str(standing.tables),
        "first": lambda standing: str(standing.ranks[1]),
        "second": lambda standing: str(standing.ranks[2]),
        "rank": lambda standing: f"{standing.mean_rank:.2f}",
    }
    if positives:
        facts["r2 > 0"] = lambda standing: str(standing.positive)
    for fact, words in facts.items():
        columns[fact] = [
            words(standing) + (f" ({words(standing.published)})" if standing.published else "")
            for standing in standings
        ]
    return columns


def _setting_columns(settings: Sequence[Setting | Standing]) -> Columns:
    return {
        "epsilon": [f"{setting.epsilon:.4g}" for setting in settings],
        "delta": [f"{setting.delta:.3g}" for setting in settings],
        "k": [_k(setting.k) for setting in settings],
    }


def _under_tables(cells: Sequence[Cell], columns: Columns) -> Columns:
    """Return the columns with a line for each table, and its compositions below."""
    shown: Columns = {"table, composition": [], **{name: [] for name in columns}}
    previous = None
    for place, cell in enumerate(cells):
        if cell.setting.table != previous:
            previous = cell.setting.table
            for column in shown.values():
                column.append("")
            shown["table, composition"][-1] = previous
        shown["table, composition"].append(f"  {cell.setting.composition}{_marked(cell)}")
        for name, column in columns.items():
            shown[name].append(column[place])
    return shown


def _varying_table(columns: Columns) -> None:
    """Print a table; a setting that is the same everywhere is said once, above, and not in a column."""
    from dpkit_core.cli import _render

    constant = {
        name: values[0]
        for name in _SETTINGS
        if len(values := sorted({value for value in columns[name] if value})) == 1
    }
    if constant:
        _render.lines([", ".join(f"{name} = {value}" for name, value in constant.items())])
    shown = {name: column for name, column in columns.items() if name not in constant}
    name, *numeric = shown
    _render.table((name, *numeric), list(zip(*shown.values(), strict=True)), numeric=numeric)


def _show_sources(summary: Summary) -> None:
    from dpkit_core.cli import _render

    sources = dict.fromkeys(cell.published.source for cell in summary.cells if cell.published)
    if sources:
        _render.lines(
            [
                f"published: medians of {'; '.join(sources)}. Below, in parentheses: the same counts by "
                "published medians, among the compositions and tables here that have one."
            ]
        )


def _marked(cell: Cell) -> str:
    return "" if cell.private else " (not private)"


def _number(value: float) -> str:
    return f"{value:.3g}"


def _k(k: int | None) -> str:
    return "all" if k is None else str(k)


def _outcome(ran: Ran, store: Results, outcomes: dict[str, int]) -> list[str]:
    counts = ", ".join(f"{count} {outcome}" for outcome, count in outcomes.items()) or "none"
    sentences = [f"Trials: {counts}; {ran.done} run now, {ran.before} done before."]
    if ran.skipped:
        sentences.append(f"Skipped: {ran.trials_skipped} trials, for want of:")
        sentences += [f"{what}: {reason}." for what, reason in ran.skipped.items()]
    sentences.append("Research, not releases: seeded, and scored on held-out private records.")
    sentences.append(f"Rows are in {store.folder}; `dpkit plot {store.folder}` draws them.")
    return sentences


def _warning(composition: str, count: int) -> str:
    return (
        f"Warning: {count} rows of {composition} are not from what is installed now: its parts, dpkit or "
        "NumPy have changed since. Choose another --results to run them anew."
    )
