r"""The same job in dpkit, diffprivlib, OpenDP and DP-EBM; prints the tables of ``beside.md``.

R^2 on a tenth of the table that was held out, over ten splits: median, and the lowest and highest. Epsilon 1;
delta 1e-6 where a library has one. Each library is given the same public facts, those of the schema, and what
else its documentation asks for. Scored on private records: research, not releases::

    python -m venv beside
    uv pip install --python beside 'CLONE[starter]' 'scikit-learn<1.6' \
        diffprivlib interpret-core opendp pandas
    beside/bin/python docs/results/beside.py
"""

from __future__ import annotations

import statistics
import time
import warnings
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pandas as pd

from dpkit_core import Budget, Dataset, Matrix, Schema, Vector, compose, open_source

DATA = Path(__file__).parents[1] / "data"
SPLITS, EPSILON, DELTA = 10, 1.0, 1e-6

#: Fits to training records, and returns what is predicted for others.
Fit = Callable[["Table", "Table"], Vector]


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

    def fit(training: Table, held: Table) -> Vector:
        plan = compose(regressor=regressor).plan(training.schema, Budget(EPSILON, DELTA))
        release = plan.run(training.data)
        return np.zeros(held.data.records) if release.model is None else release.predict(held.data.X)

    return fit


def diffprivlib(training: Table, held: Table) -> Vector:
    """Return predictions of diffprivlib's LinearRegression: the functional mechanism, pure epsilon."""
    from diffprivlib.models import LinearRegression  # noqa: PLC0415

    model = LinearRegression(epsilon=EPSILON, bounds_X=training.bounds, bounds_y=training.target_bounds)
    predicted: Vector = model.fit(training.data.X, training.data.y).predict(held.data.X)
    return predicted


def dp_ebm(training: Table, held: Table) -> Vector:
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
        n_jobs=1,
    )
    predicted: Vector = model.fit(training.frame, training.data.y).predict(held.frame)
    return predicted


def theil_sen(training: Table, held: Table) -> Vector:
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

    def narrowed(training: Table, held: Table) -> Vector:
        names = [training.schema.columns[0].name]
        schema = training.schema.restrict(names)
        return fit(*(Table(each.data.select([0]), each.frame[names], schema) for each in (training, held)))

    return narrowed


def least_squares(training: Table, held: Table) -> Vector:
    """Return least squares without privacy."""

    def rows(X: Matrix) -> Matrix:
        return np.column_stack([np.ones(len(X)), X])

    solved = np.linalg.lstsq(rows(training.data.X), training.data.y, rcond=None)[0]
    predicted: Vector = rows(held.data.X) @ solved
    return predicted


def trees(training: Table, held: Table) -> Vector:
    """Return predictions of scikit-learn's boosted trees without privacy."""
    from sklearn.ensemble import HistGradientBoostingRegressor  # noqa: PLC0415

    model = HistGradientBoostingRegressor(random_state=0).fit(training.data.X, training.data.y)
    predicted: Vector = model.predict(held.data.X)
    return predicted


JOBS: dict[str, dict[str, tuple[str, Fit]]] = {
    "A line on weight alone": {
        "dpkit `winsorized_least_squares`": ("1, 1e-6", on_first(dpkit("winsorized_least_squares"))),
        "OpenDP Theil-Sen": ("1, 0", theil_sen),
        "diffprivlib `LinearRegression`": ("1, 0", on_first(diffprivlib)),
        "least squares, no privacy": ("", on_first(least_squares)),
    },
    "A line on all columns": {
        "dpkit `winsorized_least_squares`": ("1, 1e-6", dpkit("winsorized_least_squares")),
        "dpkit `adassp`": ("1, 1e-6", dpkit("adassp")),
        "diffprivlib `LinearRegression`": ("1, 0", diffprivlib),
        "least squares, no privacy": ("", least_squares),
    },
    "Trees on all columns": {
        "dpkit `boosted_trees`": ("1, 1e-6", dpkit("boosted_trees")),
        "DP-EBM": ("1, 1e-6", dp_ebm),
        "scikit-learn's boosted trees, no privacy": ("", trees),
    },
}


def r2(y: Vector, predicted: Vector) -> float:
    """Return the fraction of the variance of y that is predicted."""
    return 1 - float(np.mean((y - predicted) ** 2) / np.var(y))


def main() -> None:
    """Print the tables."""
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
    for job, fits in JOBS.items():
        print(
            f"\n| {job} | epsilon, delta | R², median | lowest and highest | seconds |\n|---|---|---|---|---|"
        )
        for name, (budget, fit) in fits.items():
            found, seconds = [], []
            for split in range(SPLITS):
                order = np.random.default_rng(split).permutation(table.data.records)
                held, kept = np.split(order, [table.data.records // 10])
                started = time.perf_counter()
                predicted = fit(table.rows(kept), table.rows(held))
                seconds.append(time.perf_counter() - started)
                found.append(r2(table.data.y[held], predicted))
            spread = f"{min(found):.3f}, {max(found):.3f}"
            print(
                f"| {name} | {budget} | {statistics.median(found):.3f} | {spread} | "
                f"{statistics.median(seconds):.2g} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
