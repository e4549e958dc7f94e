r"""The same job in dpkit, diffprivlib, OpenDP and DP-EBM: ``tables/beside.csv``.

R^2 on a tenth of the table that was held out, over ten splits: median, and the lowest and highest. Epsilon 1;
delta 1e-6 where a library has one. Each library is given the same public facts, those of the schema, and what
else its documentation asks for. Those of dpkit are seeded as in ``diamonds.py``, so that both say the same.
Scored on private records: research, not releases::

    uv run --with 'scikit-learn<1.9' --with diffprivlib==0.6.6 --with interpret-core==0.7.8 \
        --with opendp==0.16.0 python docs/results/beside.py
"""

from __future__ import annotations

import statistics
import time
import warnings
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pandas as pd
from pages import keep, r_squared

from dpkit_core import Budget, Dataset, Matrix, Randomness, Schema, Vector, compose, open_source

DATA = Path(__file__).parents[1] / "data"
SPLITS, EPSILON, DELTA = 10, 1.0, 1e-6

#: Fits to training records, and returns what is predicted for others; the number of the split is a seed.
Fit = Callable[["Table", "Table", int], Vector]


@attrs.frozen(eq=False)
class Table:
    """Records in the forms that the libraries take."""

    data: Dataset
    frame: pd.DataFrame
    schema: Schema

    def rows(self, places: Any) -> Table:
        """Return some records."""
        data = attrs.evolve(self.data, X=self.data.X[places], y=self.data.y[places])
        return Table(data, self.frame.iloc[places], self.schema)

    @property
    def bounds(self) -> tuple[Vector, Vector]:
        """Public bounds of the features, as encoded."""
        lower, upper = zip(*(feature.bounds or (0, 1) for feature in self.data.features), strict=True)
        return np.array(lower, dtype=float), np.array(upper, dtype=float)

    @property
    def target_bounds(self) -> tuple[float, float]:
        """Public bounds of the target."""
        assert self.schema.target.bounds is not None
        return self.schema.target.bounds


def dpkit(regressor: str) -> Fit:
    """Return how a regressor of dpkit is fitted; a refusal predicts 0."""

    def fit(training: Table, held: Table, split: int) -> Vector:
        plan = compose(regressor=regressor).plan(training.schema, Budget(EPSILON, DELTA))
        release = plan.run(training.data, randomness=Randomness.from_seed(split))
        return np.zeros(held.data.records) if release.model is None else release.predict(held.data.X)

    return fit


def diffprivlib(training: Table, held: Table, split: int) -> Vector:
    """Return predictions of diffprivlib's LinearRegression: the functional mechanism, pure epsilon."""
    from diffprivlib.models import LinearRegression  # noqa: PLC0415

    model = LinearRegression(
        epsilon=EPSILON, bounds_X=training.bounds, bounds_y=training.target_bounds, random_state=split
    )
    predicted: Vector = model.fit(training.data.X, training.data.y).predict(held.data.X)
    return predicted


def dp_ebm(training: Table, held: Table, split: int) -> Vector:
    """Return predictions of InterpretML's DP-EBM with its defaults, and the columns as they are."""
    from interpret.privacy import DPExplainableBoostingRegressor  # noqa: PLC0415

    numeric = {column.name: column.bounds for column in training.schema.columns if column.kind == "numeric"}
    low, high = training.target_bounds
    model = DPExplainableBoostingRegressor(
        feature_types=["continuous" if c.kind == "numeric" else "nominal" for c in training.schema.columns],
        epsilon=EPSILON,
        delta=DELTA,
        privacy_bounds=numeric,
        privacy_target_min=low,
        privacy_target_max=high,
        random_state=split,
        n_jobs=1,
    )
    predicted: Vector = model.fit(training.frame, training.data.y).predict(held.frame)
    return predicted


def theil_sen(training: Table, held: Table, split: int) -> Vector:
    """Return predictions of OpenDP's private Theil-Sen line on the first feature, at pure epsilon."""
    import opendp.prelude as dp  # noqa: PLC0415
    from opendp.extras.sklearn.linear_model import LinearRegression  # noqa: PLC0415

    dp.enable_features("contrib", "honest-but-curious", "idealized-numerics")
    bounds = training.data.features[0].bounds

    def model(scale: float) -> Any:
        return LinearRegression(
            dp.max_divergence(), x_bounds=[bounds], y_bounds=training.target_bounds, scale=scale
        )

    # By OpenDP's own privacy map, for one record that is added or removed.
    scale = dp.binary_search(lambda s: model(s).measurement.map(1) <= EPSILON, bounds=(1e-3, 1e6))
    fitted = model(scale).fit(X=training.data.X[:, :1], y=training.data.y)
    predicted: Vector = np.ravel(fitted.predict(held.data.X[:, :1]))
    return predicted


def on_first(fit: Fit) -> Fit:
    """Return a fit on the first feature alone."""

    def narrowed(training: Table, held: Table, split: int) -> Vector:
        names = [training.schema.columns[0].name]
        schema = training.schema.restrict(names)
        some = (Table(each.data.select([0]), each.frame[names], schema) for each in (training, held))
        return fit(*some, split)

    return narrowed


def least_squares(training: Table, held: Table, split: int) -> Vector:
    """Return least squares without privacy."""

    def rows(X: Matrix) -> Matrix:
        return np.column_stack([np.ones(len(X)), X])

    solved = np.linalg.lstsq(rows(training.data.X), training.data.y, rcond=None)[0]
    predicted: Vector = rows(held.data.X) @ solved
    return predicted


def trees(training: Table, held: Table, split: int) -> Vector:
    """Return predictions of scikit-learn's boosted trees without privacy."""
    from sklearn.ensemble import HistGradientBoostingRegressor  # noqa: PLC0415

    model = HistGradientBoostingRegressor(random_state=0).fit(training.data.X, training.data.y)
    predicted: Vector = model.predict(held.data.X)
    return predicted


FITS: dict[str, Fit] = {
    "weight alone: dpkit `winsorized_least_squares`": on_first(dpkit("winsorized_least_squares")),
    "weight alone: OpenDP Theil–Sen, pure": theil_sen,
    "weight alone: diffprivlib `LinearRegression`, pure": on_first(diffprivlib),
    "weight alone: least squares, no privacy": on_first(least_squares),
    "dpkit `winsorized_least_squares`": dpkit("winsorized_least_squares"),
    "dpkit `adassp`": dpkit("adassp"),
    "diffprivlib `LinearRegression`, pure": diffprivlib,
    "least squares, no privacy": least_squares,
    "dpkit `boosted_trees`": dpkit("boosted_trees"),
    "DP-EBM": dp_ebm,
    "scikit-learn's boosted trees, no privacy": trees,
}


def measured(table: Table) -> Iterator[list[str]]:
    """Yield a row for each fit."""
    for name, fit in FITS.items():
        found, seconds = [], []
        for split in range(SPLITS):
            order = np.random.default_rng(split).permutation(table.data.records)
            held, kept = np.split(order, [table.data.records // 10])
            started = time.process_time()
            predicted = fit(table.rows(kept), table.rows(held), split)
            seconds.append(time.process_time() - started)
            found.append(r_squared(table.data.y[held], predicted))
        low, middle, high = (f"{x:.3g}" if x < -1 else f"{x:.3f}" for x in np.quantile(found, [0, 0.5, 1]))
        yield [name, middle, f"{low}, {high}", f"{statistics.median(seconds):.2g}"]


def main() -> None:
    """Write the table."""
    warnings.simplefilter("ignore")
    schema = Schema.read(DATA / "diamonds.schema.toml")
    frame = pd.read_parquet(DATA / "diamonds.parquet")
    features = frame[[column.name for column in schema.columns]]
    table = Table(
        Dataset.from_source(open_source(DATA / "diamonds.parquet"), schema).dense(), features, schema
    )
    print(
        ", ".join(f"{name} {version(name)}" for name in ("dpkit", "diffprivlib", "interpret-core", "opendp"))
    )
    keep("beside", ["fit", "R², median", "lowest and highest", "CPU s"], measured(table))


if __name__ == "__main__":
    main()
