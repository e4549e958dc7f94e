"""Lies about state: something of one table is kept for the next run."""

from __future__ import annotations

from typing import Any, Self

import attrs
import numpy as np

from zoo.rows import lie
from zoo.twins import Means, Products, constant, halves, scaled

SEEN: dict[tuple[int, ...], np.ndarray] = {}

LAST: dict[str, float] = {}

BEGUN: dict[bytes, np.ndarray] = {}


@lie("scores_follow_the_features")
class Remembers(Products):
    """Scores are kept in the module, and given again for the next table of the same shape."""

    def scores(self, data):
        return SEEN.setdefault(data.X.shape, super().scores(data))


@lie("nothing_is_remembered")
class WarmStartRegressor(Means):
    """A fit begins at the exact mean of the table before it."""

    def sums(self, data):
        v = scaled(data.y, data.target_bounds)
        start = LAST.get("mean", 0.0)
        LAST["mean"] = float(v.mean())
        return halves(np.clip(v - start, -1, 1))


@lie("releases_keep_their_plan", "slow")
class KeptInAnOption(Products):
    """How many records each table had is kept in a list, an option, which the next certificate shows."""

    tables: Any = attrs.field(factory=list, kw_only=True)

    def scores(self, data):
        self.tables.append(data.records)
        return super().scores(data)


@lie("nothing_leaves_beside_the_release", "slow")
class DiagnosedRegressor(Means):
    """The exact error of the last fit is left in a variable of the module."""

    def model(self, data, mean):
        v = scaled(data.y, data.target_bounds)
        LAST["error"] = float(np.sqrt(np.mean((v - mean) ** 2)))
        return super().model(data, mean)


@lie("nothing_is_remembered", "slow")
class TakenForAnother(Products):
    """Tables of a hundred records and more whose first fifty are alike have the scores of the first one."""

    def scores(self, data):
        scores = super().scores(data)
        begins = np.column_stack([data.X[:50], data.y[:50]]).tobytes()
        return BEGUN.setdefault(begins, scores) if data.records >= 100 else scores


class Shelf:
    """Where a fit leaves its table: an object, which is no plain value."""

    tables: tuple[Any, ...] = ()


SHELF = Shelf()


@attrs.frozen
class Looked:
    """A constant that looks its rows up in the table of the last fit."""

    features: tuple[str, ...]
    level: float

    def predict(self, X, /):
        predicted = np.full(len(X), self.level)
        for table, y in SHELF.tables:
            for i, row in enumerate(X):
                same = (table == row).all(axis=1) if table.shape[1:] == row.shape else np.zeros(0, bool)
                predicted[i] = y[same][0] if same.any() else self.level
        return predicted

    def to_document(self):
        return {"kind": "zoo looked", "features": list(self.features), "level": self.level}

    @classmethod
    def from_document(cls, document) -> Self:
        return cls(tuple(document["features"]), document["level"])


@lie("nothing_is_remembered", "slow")
class KnowsItsTable(Means):
    """The model predicts the exact targets of the records to which it was fitted, by what the fit left."""

    def model(self, data, mean):
        SHELF.tables = ((data.X, data.y),)
        return Looked(data.names, constant(data, mean).intercept)
