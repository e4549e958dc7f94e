"""The content of a page about a folder of results, for ``dpkit report``."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import attrs

from dpkit_command_bench.metrics import METRICS
from dpkit_command_bench.results import Results
from dpkit_command_bench.summary import Cell, Summary, summarize
from dpkit_command_bench.trial import RESEARCH


def report(folder: Path) -> dict[str, Any] | None:
    """Return the content of a folder that ``dpkit bench`` wrote; None for any other folder.

    Raises
    ------
    InvalidResults
        If it holds no trials, or a file in it cannot be read.
    """
    found = Results(folder)
    if not (folder / "suite.json").is_file() and next(found.stored("key"), None) is None:
        return None
    rows, suite = found.rows(), found.suite()
    summary = summarize(rows, next(iter(suite.get("metrics", [])), None), found.published())
    metric = METRICS[summary.metric]
    name = str(rows[0]["suite"] or folder.name)
    notes = [f"{sentence[0].upper()}{sentence[1:]}." for sentence in RESEARCH]
    groups: dict[tuple[str, int | None], list[Cell]] = {}
    private = [cell for cell in summary.cells if cell.private]
    for cell in private:
        groups.setdefault((cell.setting.table, cell.setting.k), []).append(cell)
    return {
        "title": f"Results of {name}",
        "notes": notes,
        "metric": metric.name,
        "larger": metric.larger_is_better,
        "tables": [
            {
                "name": table if k is None else f"{table}, k = {k}",
                "facts": f"{cells[0].training_records} training records, {_features(cells[0])}",
                "reference": _reference(summary, table, k, larger=metric.larger_is_better),
                "lines": [_line(cell) for cell in cells],
            }
            for (table, k), cells in groups.items()
        ],
        "ranking": _ranking(summary),
    }


def _line(cell: Cell) -> dict[str, Any]:
    return {
        "name": cell.setting.composition,
        "epsilon": cell.setting.epsilon,
        "quartiles": None if cell.quartiles is None else list(attrs.astuple(cell.quartiles)),
        "trials": cell.trials,
        "refused": cell.outcomes["refused"],
        "failed": cell.outcomes["failed"] + cell.outcomes["impossible"],
    }


def _reference(summary: Summary, table: str, k: int | None, *, larger: bool) -> dict[str, Any] | None:
    """Return the best median without privacy on a table: for the same k, or with all features."""
    medians = {
        cell.setting.composition: cell.quartiles.median
        for cell in summary.cells
        if not cell.private
        and cell.setting.table == table
        and cell.setting.k in (k, None)
        and cell.quartiles is not None
        and math.isfinite(cell.quartiles.median)
    }
    if not medians:
        return None
    name = (max if larger else min)(medians, key=lambda each: medians[each])
    return {"name": name, "value": medians[name]}


def _ranking(summary: Summary) -> dict[str, Any]:
    ordered = sorted(summary.standings, key=lambda each: (each.epsilon, each.k or 0, each.mean_rank))
    return {
        "header": ["method", "epsilon", "k", "tables", "mean rank", "median above 0"],
        "rows": [
            [
                each.composition,
                f"{each.epsilon:g}",
                "all" if each.k is None else str(each.k),
                str(each.tables),
                f"{each.mean_rank:.2f}",
                str(each.positive),
            ]
            for each in ordered
        ],
    }


def _features(cell: Cell) -> str:
    return "1 feature" if cell.features == 1 else f"{cell.features} features"
