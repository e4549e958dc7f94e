"""Suites and summaries as tables."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from dpkit_cli import render
from dpkit_cli.options import Format

from dpkit_command_bench.code import Code
from dpkit_command_bench.errors import MissingTable
from dpkit_command_bench.metrics import METRICS
from dpkit_command_bench.results import Results
from dpkit_command_bench.runner import RunOutcome
from dpkit_command_bench.sources import locate
from dpkit_command_bench.suite import Setting, Suite
from dpkit_command_bench.summary import Cell, Standing, Summary


def show_intention(suite: Suite, data_dir: Path | None, format: Format) -> None:
    """Print what a run of a suite would do."""
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
    render.heading(f"Suite {suite.name}: {trials} trials")
    render.lines([suite.summary] if suite.summary else [])
    print()
    render.table(("table", "taken from"), rows)
    parts = [
        (
            recipe.name,
            f"skipped: {absent[recipe.name]}" if recipe.name in absent else " + ".join(recipe.parts.values()),
            _options(recipe.options),
        )
        for recipe in suite.compositions
    ]
    print()
    render.table(("composition", "parts", "options"), parts)
    grid = {
        "epsilon": suite.epsilon, "delta": suite.delta, "k": suite.k, "splits": [suite.splits],
        "trials": [suite.repeats], "metrics": suite.metrics,
    }  # fmt: skip
    print()
    render.table(
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


def show_summary(summary: Summary) -> None:
    """Print medians and quartiles, the ranking, and what failed or was impossible."""
    if not summary.cells:
        return
    metric = summary.metric
    render.heading(f"{metric} {METRICS[metric].of}: median and quartiles of the trials")
    compositions = list(dict.fromkeys(cell.setting.composition for cell in summary.cells))
    columns = _cell_columns(summary.cells)
    if len(compositions) == 1:
        names = {"table": [cell.setting.table for cell in summary.cells]}
        render.lines([f"composition = {compositions[0]}{_marked(summary.cells[0])}"])
        _varying_table({**names, **columns})
    else:
        _varying_table(_under_tables(summary.cells, columns))
    _show_sources(summary)
    if summary.standings:
        print()
        render.heading("Private compositions over all tables")
        _varying_table(_standing_columns(summary.standings, positives=metric == "r2"))
    print()
    problems = dict.fromkeys(
        f"{cell.setting.table}, {cell.setting.composition}, k = {_k(cell.setting.k)}: {message}"
        for cell in summary.cells
        if cell.outcomes["impossible"] or cell.outcomes["failed"]
        for message in cell.messages
    )
    if problems:
        render.heading("Not possible, or failed")
        render.lines(problems)
        print()


_SETTINGS = ("epsilon", "delta", "k")

Columns = dict[str, list[str]]
"""Header -> the cells below it."""


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
    """Return the columns with a row for each table, and its compositions below."""
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
    """Print a table; a constant setting is printed once above it, not as a column."""
    constant = {
        name: values[0]
        for name in _SETTINGS
        if len(values := sorted({value for value in columns[name] if value})) == 1
    }
    if constant:
        render.lines([", ".join(f"{name} = {value}" for name, value in constant.items())])
    shown = {name: column for name, column in columns.items() if name not in constant}
    name, *numeric = shown
    render.table((name, *numeric), list(zip(*shown.values(), strict=True)), numeric=numeric)


def _show_sources(summary: Summary) -> None:
    sources = dict.fromkeys(cell.published.source for cell in summary.cells if cell.published)
    if sources:
        words = f"published: medians of {'; '.join(sources)}."
        if summary.standings:
            words += (
                " Below, in parentheses: the same counts by published medians, for the compositions and "
                "tables here that have one."
            )
        render.lines([words])


def _marked(cell: Cell) -> str:
    return "" if cell.private else " (not private)"


def _number(value: float) -> str:
    return f"{value:.3g}"


def _k(k: int | None) -> str:
    return "all" if k is None else str(k)


def show_outcome(
    ran: RunOutcome, store: Results, outcomes: Mapping[str, int], others: Mapping[str, int]
) -> None:
    """Print the number of trials, where their rows are, and which rows are from ``others``, other code."""
    render.lines(_outcome(ran, store, outcomes))
    render.lines(_warning(composition, count) for composition, count in others.items())


def _outcome(ran: RunOutcome, store: Results, outcomes: Mapping[str, int]) -> list[str]:
    counts = ", ".join(f"{count} {outcome}" for outcome, count in outcomes.items()) or "none"
    sentences = [f"Trials: {counts}; {ran.done} run now, {ran.before} done before."]
    if ran.skipped:
        sentences.append(f"Skipped: {ran.trials_skipped} trials, because these are missing:")
        sentences += [f"{what}: {reason}." for what, reason in ran.skipped.items()]
    sentences.append("Research, not releases: seeded, and scored on held-out private records.")
    if ran.done or ran.before:
        sentences.append(f"Rows are in {store.folder}; `dpkit plot {store.folder}` draws them.")
    return sentences


def _warning(composition: str, count: int) -> str:
    return (
        f"Warning: {count} rows of {composition} are from other code: its parts, dpkit or NumPy have changed "
        "since. Choose another --results to run them again."
    )
