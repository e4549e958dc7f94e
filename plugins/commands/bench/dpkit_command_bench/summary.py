"""Summaries of the rows of a run: quartiles, ranks, counts of positives and of refusals.

The conventions are those of DPKendall, section 4: a refusal counts as the worst value of a metric, methods
are ranked by their median on each table, and only methods that are private are ranked. Equal medians share
the better rank, except that methods whose median trial refused share the last one, so that no method wins by
refusing. Published medians of the suite are ranked in the same way, on the same tables. One table ranks
nobody: a rank would say less than the medians do.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import attrs

from dpkit_command_bench.metrics import METRICS
from dpkit_command_bench.published import Published, Value, find_value
from dpkit_command_bench.suite import Setting
from dpkit_command_bench.trial import Row

OUTCOMES = ("released", "refused", "impossible", "failed")


@attrs.frozen
class Quartiles:
    """The quartiles of some numbers, which may be infinite."""

    low: float
    median: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Quartiles | None:
        """Return the quartiles by linear interpolation, or None if there are no numbers."""
        ordered = sorted(value for value in values if not math.isnan(value))
        return cls(*(_quantile(ordered, q) for q in (0.25, 0.5, 0.75))) if ordered else None


def _quantile(ordered: Sequence[float], q: float) -> float:
    position = q * (len(ordered) - 1)
    below, above = ordered[math.floor(position)], ordered[math.ceil(position)]
    if position.is_integer() or math.isinf(below) or math.isinf(above):
        # Interpolation between a number and an infinity gives that infinity.
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
    published: Value | None = None

    @property
    def trials(self) -> int:
        """The number of trials."""
        return sum(self.outcomes.values())


@attrs.frozen
class Standing:
    """One private composition over all tables, at one epsilon, delta and k.

    Attributes
    ----------
    tables
        The number of tables on which it was ranked.
    ranks
        How often it had each rank, 1 being the best.
    positive
        The number of tables with a median above 0.
    published
        The same by published medians, for the compositions and tables that have one; None if it has none.
    """

    composition: str
    epsilon: float
    delta: float
    k: int | None
    tables: int
    ranks: Counter[int]
    positive: int
    published: Standing | None = None

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


def summarize(rows: Iterable[Row], metric: str | None = None, published: Sequence[Published] = ()) -> Summary:
    """Return the summary of rows by ``metric``, by default the first metric that they have."""
    rows = list(rows)
    metric = metric or next(
        (m for m in METRICS if any(row[m] is not None for row in rows)), next(iter(METRICS))
    )
    groups: defaultdict[Setting, list[Row]] = defaultdict(list)
    for row in rows:
        groups[Setting(row["table"], row["composition"], row["epsilon"], row["delta"], row["k"])].append(row)
    cells = tuple(
        _cell(setting, group, metric, find_value(published, metric=metric, **attrs.asdict(setting)))
        for setting, group in groups.items()
    )
    standings = _standings(cells, metric, published)
    return Summary(metric, cells, standings, Counter(row["outcome"] for row in rows))


def _cell(setting: Setting, rows: Sequence[Row], metric: str, published: Value | None) -> Cell:
    values = [row[metric] for row in rows if row[metric] is not None]
    seconds = Quartiles.of([row["wall_seconds"] for row in rows])
    return Cell(
        setting,
        metric,
        # A composition that could never be planned is not known to be private, and is left out.
        all(row["mechanism_private"] is not False for row in rows),
        Counter(row["outcome"] for row in rows),
        Quartiles.of(values),
        0.0 if seconds is None else seconds.median,
        rows[0]["training_records"],
        rows[0]["features"],
        tuple(dict.fromkeys(row["message"] for row in rows if row["message"])),
        published,
    )


Medians = dict[str, dict[str, float]]
"""Table -> composition -> median."""


def _standings(cells: Iterable[Cell], metric: str, published: Sequence[Published]) -> tuple[Standing, ...]:
    arenas: defaultdict[tuple[float, float, int | None], list[Cell]] = defaultdict(list)
    judged = [cell for cell in cells if cell.private and cell.quartiles is not None]
    if len({cell.setting.table for cell in judged}) < 2:
        return ()
    ks = {cell.setting.k for cell in judged} - {None} or {None}
    for cell in judged:
        s = cell.setting
        for k in [s.k] if s.k is not None else ks:  # without a selection, a method competes at every k
            arenas[s.epsilon, s.delta, k].append(cell)
    return tuple(
        standing
        for settings, members in sorted(arenas.items(), key=lambda arena: arena[0])
        for standing in _arena(settings, members, metric, published)
    )


def _arena(
    settings: tuple[float, float, int | None],
    cells: Sequence[Cell],
    metric: str,
    published: Sequence[Published],
) -> Iterable[Standing]:
    epsilon, delta, k = settings
    ours: Medians = defaultdict(dict)
    theirs: Medians = defaultdict(dict)
    for cell in cells:
        table, composition = cell.setting.table, cell.setting.composition
        if cell.quartiles is not None:
            ours[table][composition] = cell.quartiles.median
        value = find_value(
            published, metric=metric, table=table, composition=composition, epsilon=epsilon, delta=delta, k=k
        )
        if value is not None:
            theirs[table][composition] = value.median

    def standings(medians: Medians) -> dict[str, Standing]:
        ranks: defaultdict[str, Counter[int]] = defaultdict(Counter)
        positive: Counter[str] = Counter()
        for by_composition in medians.values():
            for composition, rank in _ranks(by_composition, metric).items():
                ranks[composition][rank] += 1
                positive[composition] += by_composition[composition] > 0
        return {
            composition: Standing(
                composition, epsilon, delta, k, counts.total(), counts, positive[composition]
            )
            for composition, counts in ranks.items()
        }

    beside = standings(theirs)
    return [attrs.evolve(mine, published=beside.get(name)) for name, mine in standings(ours).items()]


def _ranks(medians: dict[str, float], metric: str) -> dict[str, int]:
    """Return the rank of each composition on one table."""
    sign = -1 if METRICS[metric].larger_is_better else 1
    losses = {name: sign * median for name, median in medians.items()}
    return {
        name: len(losses) if loss == math.inf else 1 + sum(other < loss for other in losses.values())
        for name, loss in losses.items()
    }


def to_document(summaries: Sequence[Summary]) -> dict[str, Any]:
    """Return summaries of the same rows as plain data for strict JSON: an infinite number is text.

    The first determines the metric by which compositions are ranked.
    """
    first = summaries[0]
    return {
        "metric": first.metric,
        "metric_data": "held-out private records; research, not a release",
        "outcomes": {outcome: first.outcomes[outcome] for outcome in OUTCOMES},
        "cells": [
            {
                **attrs.asdict(cells[0].setting),
                "private_mechanism": cells[0].private,
                "outcomes": dict(cells[0].outcomes),
                "metrics": {cell.metric: _cell_document(cell) for cell in cells},
                "median_seconds": cells[0].seconds,
                "messages": list(cells[0].messages),
            }
            for cells in zip(*(summary.cells for summary in summaries), strict=True)
        ],
        "standings": [
            {
                "composition": standing.composition,
                "epsilon": standing.epsilon,
                "delta": standing.delta,
                "k": standing.k,
                **_standing_document(standing),
                "published": standing.published and _standing_document(standing.published),
            }
            for standing in first.standings
        ],
    }


def _cell_document(cell: Cell) -> dict[str, Any]:
    quartiles, published = cell.quartiles, cell.published
    return {
        "quartiles": quartiles and [_json(value) for value in attrs.astuple(quartiles)],
        "published": published and {"median": _json(published.median), "source": published.source},
    }


def _standing_document(standing: Standing) -> dict[str, Any]:
    return {
        "tables": standing.tables,
        "ranks": dict(standing.ranks),
        "mean_rank": standing.mean_rank,
        "positive": standing.positive,
    }


def _json(value: float) -> float | str:
    return value if math.isfinite(value) else str(value)
