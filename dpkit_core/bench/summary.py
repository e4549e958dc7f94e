"""What the rows of a run say together: quartiles, ranks, counts of positives and of refusals.

The conventions are those of DPKendall, section 4: a refusal counts as the worst value of a metric, methods
are ranked by their median on each table, and only methods that are private are ranked.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import attrs

from dpkit_core.bench.metrics import METRICS
from dpkit_core.bench.suite import Setting
from dpkit_core.bench.trial import Row

OUTCOMES = ("released", "refused", "impossible", "failed")


@attrs.frozen
class Quartiles:
    """The middle of some numbers, which may be infinite."""

    low: float
    median: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Quartiles | None:
        """Return the quartiles by linear interpolation, or None of no numbers."""
        ordered = sorted(value for value in values if not math.isnan(value))
        return cls(*(_quantile(ordered, q) for q in (0.25, 0.5, 0.75))) if ordered else None


def _quantile(ordered: Sequence[float], q: float) -> float:
    position = q * (len(ordered) - 1)
    below, above = ordered[math.floor(position)], ordered[math.ceil(position)]
    if position.is_integer() or math.isinf(below) or math.isinf(above):
        # Between a number and an infinity there is nothing but that infinity.
        return above if math.isinf(above) and not position.is_integer() else below
    return below + (position - math.floor(position)) * (above - below)


@attrs.frozen
class Cell:
    """The trials of one setting."""

    setting: Setting
    metric: str
    private: bool
    outcomes: Counter[str]
    quartiles: Quartiles | None
    seconds: float
    training_records: int
    features: int
    messages: tuple[str, ...]

    @property
    def trials(self) -> int:
        """How many there are."""
        return sum(self.outcomes.values())


@attrs.frozen
class Standing:
    """One private composition over all tables, at one epsilon, delta and k."""

    composition: str
    epsilon: float
    delta: float
    k: int | None
    tables: int
    ranks: Counter[int]
    positive: int

    @property
    def mean_rank(self) -> float:
        """The average rank, 1 being the best."""
        return sum(rank * count for rank, count in self.ranks.items()) / max(1, self.ranks.total())


@attrs.frozen
class Summary:
    """The rows of a run, by setting and by composition."""

    metric: str
    cells: tuple[Cell, ...]
    standings: tuple[Standing, ...]
    outcomes: Counter[str]


def summarize(rows: Iterable[Row], metric: str | None = None) -> Summary:
    """Return the summary of rows by ``metric``; by the first that they have, where none is named."""
    rows = list(rows)
    metric = metric or next(
        (m for m in METRICS if any(row[m] is not None for row in rows)), next(iter(METRICS))
    )
    groups: defaultdict[Setting, list[Row]] = defaultdict(list)
    for row in rows:
        groups[Setting(row["table"], row["composition"], row["epsilon"], row["delta"], row["k"])].append(row)
    cells = tuple(_cell(setting, group, metric) for setting, group in groups.items())
    return Summary(metric, cells, _standings(cells, metric), Counter(row["outcome"] for row in rows))


def _cell(setting: Setting, rows: Sequence[Row], metric: str) -> Cell:
    values = [row[metric] for row in rows if row[metric] is not None]
    seconds = Quartiles.of([row["wall_seconds"] for row in rows])
    return Cell(
        setting,
        metric,
        # What could never be planned is not known to be private or not, and does not take part.
        all(row["mechanism_private"] is not False for row in rows),
        Counter(row["outcome"] for row in rows),
        Quartiles.of(values),
        0.0 if seconds is None else seconds.median,
        rows[0]["training_records"],
        rows[0]["features"],
        tuple(dict.fromkeys(row["message"] for row in rows if row["message"])),
    )


def _standings(cells: Iterable[Cell], metric: str) -> tuple[Standing, ...]:
    arenas: defaultdict[tuple[float, float, int | None], list[Cell]] = defaultdict(list)
    judged = [cell for cell in cells if cell.private and cell.quartiles is not None]
    ks = {cell.setting.k for cell in judged} - {None} or {None}
    for cell in judged:
        s = cell.setting
        for k in [s.k] if s.k is not None else ks:  # without a selection, a method competes at every k
            arenas[s.epsilon, s.delta, k].append(cell)
    return tuple(
        standing
        for (epsilon, delta, k), members in arenas.items()
        for standing in _arena(epsilon, delta, k, members, metric)
    )


def _arena(
    epsilon: float, delta: float, k: int | None, cells: Sequence[Cell], metric: str
) -> Iterable[Standing]:
    medians: defaultdict[str, dict[str, float]] = defaultdict(dict)
    for cell in cells:
        if cell.quartiles is not None:
            medians[cell.setting.table][cell.setting.composition] = cell.quartiles.median
    sign = -1 if METRICS[metric].larger_is_better else 1
    ranks: defaultdict[str, Counter[int]] = defaultdict(Counter)
    positive: Counter[str] = Counter()
    for by_composition in medians.values():
        for composition, median in by_composition.items():
            better = sum(sign * other < sign * median for other in by_composition.values())
            ranks[composition][1 + better] += 1
            positive[composition] += median > 0
    return [
        Standing(composition, epsilon, delta, k, counts.total(), counts, positive[composition])
        for composition, counts in ranks.items()
    ]


def to_document(summary: Summary, skipped: dict[str, str]) -> dict[str, Any]:
    """Return a summary as plain data that strict JSON can hold: an infinite number is text."""
    return {
        "metric": summary.metric,
        "metric_data": "held-out private records; research, not a release",
        "outcomes": {outcome: summary.outcomes[outcome] for outcome in OUTCOMES},
        "skipped_tables": skipped,
        "cells": [
            {
                **attrs.asdict(cell.setting),
                "private_mechanism": cell.private,
                "outcomes": dict(cell.outcomes),
                "quartiles": None
                if cell.quartiles is None
                else [_json(value) for value in attrs.astuple(cell.quartiles)],
                "median_seconds": cell.seconds,
                "messages": list(cell.messages),
            }
            for cell in summary.cells
        ],
        "standings": [
            {**attrs.asdict(standing), "ranks": dict(standing.ranks), "mean_rank": standing.mean_rank}
            for standing in summary.standings
        ],
    }


def _json(value: float) -> float | str:
    return value if math.isfinite(value) else str(value)
