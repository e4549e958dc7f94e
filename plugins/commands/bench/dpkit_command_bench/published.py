"""Published numbers, for comparison with the results of a suite.

    [[published]]
    source = "Dick, Gillenwater and Joseph 2023, Figure 4"
    metric = "r2"                     the first of the suite's, by default
    k = 5                             also epsilon and delta; any, where one is left out
    [published.values.k-tukey]
    cpu_act = 0.1
    analcatdata_supreme = -inf        the median trial refused

Each value is a median over trials, like the suite's own. A composition without a selection has no k, so the
first entry with a value for it is used.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from dpkit_command_bench.errors import InvalidSuite
from dpkit_command_bench.metrics import METRICS

_KEYS = ("source", "metric", "epsilon", "delta", "k", "values")
_INFINITE = {"inf": math.inf, "-inf": -math.inf}  # as they are written in JSON


@attrs.frozen
class Published:
    """Medians of one metric from one source.

    Attributes
    ----------
    source
        Publication and figure or table.
    epsilon, delta, k
        The settings of the values; None for any.
    values
        Composition -> table -> median.
    """

    source: str
    metric: str
    values: Mapping[str, Mapping[str, float]]
    epsilon: float | None = None
    delta: float | None = None
    k: int | None = None

    def at(self, epsilon: float, delta: float, k: int | None) -> bool:
        """Return whether the values hold for trials with these settings."""
        return (
            _agree(self.epsilon, epsilon) and _agree(self.delta, delta) and (k is None or self.k in (None, k))
        )

    def to_document(self) -> dict[str, Any]:
        """Return the entry as plain data for strict JSON."""
        values = {
            composition: {
                table: value if math.isfinite(value) else str(value) for table, value in row.items()
            }
            for composition, row in self.values.items()
        }
        facts = {key: getattr(self, key) for key in _KEYS if getattr(self, key) is not None}
        return {**facts, "values": values}

    @classmethod
    def from_document(cls, document: Any, metric: str) -> Published:
        """Return the entry that plain data describes; ``metric`` is the default.

        Raises
        ------
        InvalidSuite
            If the data are invalid; the message says what is allowed.
        """
        if not isinstance(document, Mapping) or not isinstance(document.get("source"), str):
            raise InvalidSuite(
                f"published has {document!r}; write [[published]] with source, the work and its figure"
            )
        what = f"published values of {document['source']!r}"
        for key in document:
            if key not in _KEYS:
                raise InvalidSuite(f"{what}: there is no key {key!r}; use {', '.join(_KEYS)}")
        metric = document.get("metric", metric)
        if metric not in METRICS:
            raise InvalidSuite(f"{what}: there is no metric {metric!r}; metrics are {', '.join(METRICS)}")
        given = document.get("values")
        if not isinstance(given, Mapping) or not all(isinstance(row, Mapping) for row in given.values()):
            raise InvalidSuite(f"{what}: write [published.values.COMPOSITION] with TABLE = MEDIAN")
        values = {
            composition: {table: _median(value, f"{what}, {table}") for table, value in row.items()}
            for composition, row in given.items()
        }
        settings = {key: _setting(document, key, what) for key in ("epsilon", "delta", "k")}
        return cls(document["source"], metric, values, **settings)


@attrs.frozen
class Value:
    """A published median and its source."""

    median: float
    source: str


def find_value(
    published: Sequence[Published],
    *,
    metric: str,
    table: str,
    composition: str,
    epsilon: float,
    delta: float,
    k: int | None,
) -> Value | None:
    """Return what was published for one setting, or None."""
    for entry in published:
        if entry.metric == metric and entry.at(epsilon, delta, k):
            median = entry.values.get(composition, {}).get(table)
            if median is not None:
                return Value(median, entry.source)
    return None


def _agree(published: float | None, ours: float) -> bool:
    # People write 1.0986 for ln 3.
    return published is None or math.isclose(published, ours, rel_tol=1e-3)


def _median(value: Any, what: str) -> float:
    number = _INFINITE.get(value, value) if isinstance(value, str) else value
    if isinstance(number, bool) or not isinstance(number, int | float) or math.isnan(number):
        raise InvalidSuite(f"{what} = {value!r}; it must be a number, or -inf for a refusal")
    return float(number)


def _setting(document: Mapping[str, Any], key: str, what: str) -> Any:
    value = document.get(key)
    expected = int if key == "k" else int | float
    if value is not None and (isinstance(value, bool) or not isinstance(value, expected)):
        raise InvalidSuite(f"{what}: {key} is {value!r}; give one number, or leave it out for any")
    return value
