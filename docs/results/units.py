"""What it costs to protect all records of a person: panels, synthetic and real, of several records each.

python docs/results/units.py TABLES

writes ``tables/units.csv``: the median test R^2 of three splits, a fifth of the units held out, for
truncation to most_records, and for the naive factor, which keeps all records and pays for as many as the
largest unit has. In TABLES are files of the suite ``dpkendall``. Their units follow from the records: a day
of bicycle hires, or all houses of a place, one square of a grid in latitude and longitude. Seeded and scored
on private records: research, not releases.
"""

from __future__ import annotations

import itertools
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path

import attrs
import numpy as np
from pages import benchmark, keep

from dpkit_core import Budget, Dataset, Matrix, Plan, Randomness, Schema, Unit, Vector, compose
from dpkit_core.arrays import Integers
from dpkit_core.errors import CannotCompose
from dpkit_core.pipeline.observers import Observers

BUDGET, SPLITS, HELD_OUT = Budget(1.0, 1e-6), 3, 0.2
REGRESSORS = ("winsorized_least_squares", "boosted_trees")
MOST = (1, 4, 16)
UNITS, FEATURES = 2000, 8
#: The side of a square of the grid, in degrees, about ten kilometers or one.
SQUARES = {"houses": 0.1, "MiamiHousing2016": 0.01, "house_sales": 0.01}
HIRES = "Bike_Sharing_Demand"


@attrs.frozen
class Panel:
    """A table of which units have several records."""

    name: str
    X: Matrix
    y: Vector
    schema: Schema
    ids: Integers


def synthetic(name: str, counts: Integers, rng: np.random.Generator) -> Panel:
    """Return a panel of which half of the variance of features and of the error is between units."""
    ids = np.repeat(np.arange(len(counts)), counts)
    X = (rng.normal(size=(len(counts), FEATURES))[ids] + rng.normal(size=(len(ids), FEATURES))) / np.sqrt(2)
    slopes = 1 / np.sqrt(1 + np.arange(FEATURES))
    y = X @ slopes + rng.normal(size=len(counts))[ids] + rng.normal(size=len(ids))
    names = [f"x{j}" for j in range(FEATURES)]
    return Panel(name, X, y, Schema.numeric(names, "y"), ids)


def panels(tables: Path) -> Iterator[Panel]:
    """Yield all panels: synthetic ones, then those whose files are in the folder."""
    rng = np.random.default_rng(0)
    yield synthetic("synthetic, Poisson", 1 + rng.poisson(7, UNITS), rng)
    heavy = np.ceil(rng.lognormal(0.8, 1.3, UNITS)).astype(np.int64)
    yield synthetic("synthetic, heavy", np.minimum(heavy, 300), rng)
    for name, loaded in benchmark(tables):
        if name in {HIRES, *SQUARES}:
            X, y = loaded.data.X, loaded.data.y
            names = [feature.name.lower() for feature in loaded.schema.features]
            if name == HIRES:  # in the order of time: a day begins where the hour falls
                ids = np.cumsum(np.diff(X[:, names.index("hour")], prepend=0) < 0)
            else:
                where = [
                    j for j, each in enumerate(names) if each in {"lat", "long", "latitude", "longitude"}
                ]
                squares = np.floor(X[:, where] / SQUARES[name])
                ids = np.unique(squares, axis=0, return_inverse=True)[1].ravel()
            yield Panel(name, X, y, loaded.schema, ids)


def score(panel: Panel, plan: Plan, split: int) -> float:
    """Return the test R^2 on all records of the units that are held out; minus infinity for a refusal."""
    rng = np.random.default_rng(split)
    units = rng.permutation(int(panel.ids.max()) + 1)
    held_out = np.isin(panel.ids, units[: round(HELD_OUT * len(units))])
    X, y, ids = panel.X[~held_out], panel.y[~held_out], panel.ids[~held_out]
    train = Dataset.from_arrays(X, y, plan.schema, units=ids)
    release = plan.run(train, randomness=Randomness.from_seed(split), observers=Observers.none())
    if release.model is None:
        return -np.inf
    y = panel.y[held_out]
    return float(1 - ((y - release.model.predict(panel.X[held_out])) ** 2).mean() / y.var())


def median(panel: Panel, regressor: str, most: int) -> str:
    """Return the median R^2 of the splits, or that it is refused, while planning or by a private test."""
    schema = attrs.evolve(panel.schema, unit=Unit(("unit",), most), records_about=None)
    try:
        plan = compose(regressor=regressor).plan(schema, BUDGET)
    except CannotCompose:
        return "refused"
    middle = statistics.median(score(panel, plan, split) for split in range(SPLITS))
    return "refused" if np.isinf(middle) else f"{middle:.3f}"


def rows(tables: Path) -> Iterator[list[object]]:
    """Yield a row for each regressor and panel."""
    for regressor, panel in itertools.product(REGRESSORS, panels(tables)):
        counts = np.bincount(panel.ids)
        facts = [panel.name, len(counts), int(np.quantile(counts, 0.9)), int(counts.max())]
        yield [*facts, regressor, *(median(panel, regressor, most) for most in (*MOST, int(counts.max())))]


if __name__ == "__main__":
    heads = [*(f"most_records {m}" for m in MOST), "naive factor"]
    facts = ["table", "units", "records of nine in ten", "of the largest", "regressor"]
    keep("units", [*facts, *heads], rows(Path(sys.argv[1])))
