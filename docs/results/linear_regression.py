"""Linear regressions beside each other on synthetic tables whose bounds are known.

python docs/results/linear_regression.py

writes ``tables/linear-regression.csv``: test R^2 of least squares, of dpkit's regressors, of twenty lines of
sufficient statistics with noise, and of diffprivlib, which gets an environment of its own from ``uv``. All
see the same tables in one run; noise is seeded, which is research and not a release.
"""

from __future__ import annotations

import math
import statistics
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
from pages import keep, r_squared

from dpkit_core import Budget, Dataset, Randomness, Schema, compose
from dpkit_core.pipeline.observers import Observers

Array = npt.NDArray[np.float64]
Fit = Callable[[Array, Array, float, int], Callable[[Array], Array]]

RECORDS, TEST, RUNS = 10_000, 10_000, 20
FEATURES, EPSILONS, DELTA = (5, 20), (0.1, 1.0, 10.0), 1e-6
SETTINGS = [(features, epsilon) for features in FEATURES for epsilon in EPSILONS]
WEIGHTS = np.array([1.0, -0.5, 0.8, -0.7, 0.3])  # of the first five features; the others do not matter
X_BOUND, Y_BOUND = 1.0, 2.0
DIFFPRIVLIB = ("diffprivlib==0.6.6", "scikit-learn<1.9")  # newer scikit-learn cannot be imported by it

# Runs in the other environment: reads the tables of a folder, writes predictions beside them.
PEER = """
import pathlib, sys, warnings
import numpy as np
from diffprivlib.models import LinearRegression
warnings.simplefilter("ignore")
folder, *epsilons = sys.argv[1:]
for path in pathlib.Path(folder).glob("table-*.npz"):
    table = np.load(path)
    predictions = {}
    for epsilon in epsilons:
        model = LinearRegression(
            epsilon=float(epsilon),
            bounds_X=(-1.0, 1.0),
            bounds_y=(-2.0, 2.0),
            random_state=int(table["seed"]),
        )
        predictions[epsilon] = model.fit(table["X"], table["y"]).predict(table["X_test"])
    np.savez(path.with_name(path.name.replace("table", "prediction")), **predictions)
"""


def table(features: int, seed: int) -> tuple[Array, Array, Array, Array]:
    """Return training and test records: normal features of deviation 1/3 in [-1, 1], targets in [-2, 2]."""
    rng = np.random.default_rng([features, seed])
    X = np.clip(rng.normal(scale=1 / 3, size=(RECORDS + TEST, features)), -X_BOUND, X_BOUND)
    y = np.clip(X[:, :5] @ WEIGHTS + rng.normal(scale=0.1, size=len(X)), -Y_BOUND, Y_BOUND)
    return X[:RECORDS], y[:RECORDS], X[RECORDS:], y[RECORDS:]


def least_squares(X: Array, y: Array, epsilon: float, seed: int) -> Callable[[Array], Array]:
    """Fit without privacy."""
    weights, *_ = np.linalg.lstsq(X, y, rcond=None)
    return lambda Z: np.asarray(Z @ weights)


def regressor(name: str, *, bounds: bool, **options: int) -> Fit:
    """Return the fit of an installed regressor on all features."""

    def fit(X: Array, y: Array, epsilon: float, seed: int) -> Callable[[Array], Array]:
        names = [f"x{j}" for j in range(X.shape[1])]
        known = {**dict.fromkeys(names, (-X_BOUND, X_BOUND)), "y": (-Y_BOUND, Y_BOUND)}
        schema = Schema.numeric(names, "y", known if bounds else {})
        plan = compose(regressor=name, options={"regressor": options}).plan(schema, Budget(epsilon, DELTA))
        data = Dataset.from_arrays(X, y, schema)
        release = plan.run(data, randomness=Randomness.from_seed(seed), observers=Observers.none())
        return release.predict if release.model is not None else lambda Z: np.full(len(Z), np.nan)

    return fit


def sufficient_statistics(length: float | None) -> Fit:
    """Return a fit from X'X and X'y with noise, and a ridge of the size of the noise.

    Rows are clipped to ``length``; without it, they are as long as the box allows.
    """

    def fit(X: Array, y: Array, epsilon: float, seed: int) -> Callable[[Array], Array]:
        rng, d = np.random.default_rng(seed), X.shape[1]
        longest = math.sqrt(d) * X_BOUND if length is None else length
        rows = X * np.minimum(1, longest / np.linalg.norm(X, axis=1, keepdims=True))
        labels = np.clip(y, -Y_BOUND, Y_BOUND)
        # One record adds x x' and x y to the sums.
        scale = gaussian_multiplier(epsilon, DELTA) * math.hypot(longest**2, longest * Y_BOUND)
        noise = rng.normal(scale=scale, size=(d, d))
        gram = rows.T @ rows + np.triu(noise) + np.triu(noise, 1).T
        products = rows.T @ labels + rng.normal(scale=scale, size=d)
        weights = np.linalg.solve(gram + 2 * scale * math.sqrt(d) * np.eye(d), products)
        return lambda Z: np.asarray(Z @ weights)

    return fit


def gaussian_multiplier(epsilon: float, delta: float) -> float:
    """Return the smallest noise multiplier that is (epsilon, delta)-private (Balle and Wang 2018)."""
    low, high = 1e-3, 1e3
    for _ in range(100):
        s = math.sqrt(low * high)
        upper, lower = 0.5 / s - epsilon * s, -0.5 / s - epsilon * s
        spent = (math.erfc(-upper / math.sqrt(2)) - math.exp(epsilon) * math.erfc(-lower / math.sqrt(2))) / 2
        low, high = (s, high) if spent > delta else (low, s)
    return high


METHODS: dict[str, Fit] = {
    "least squares, no privacy": least_squares,
    "`winsorized_least_squares`": regressor("winsorized_least_squares", bounds=True),
    "the same without refits": regressor("winsorized_least_squares", bounds=True, refits=0),
    "the same, told no bounds": regressor("winsorized_least_squares", bounds=False),
    "`adassp`": regressor("adassp", bounds=True),
    "`boosted_adassp`": regressor("boosted_adassp", bounds=True),
    "twenty lines": sufficient_statistics(None),
    "twenty lines, told that rows are shorter than 2": sufficient_statistics(2.0),
}


def diffprivlib(
    tables: dict[tuple[int, int], tuple[Array, Array, Array, Array]],
) -> dict[tuple[int, float], float]:
    """Return the median R^2 of diffprivlib by features and epsilon."""
    with tempfile.TemporaryDirectory() as folder:
        for (features, seed), (X, y, X_test, _) in tables.items():
            np.savez(Path(folder, f"table-{features}-{seed}.npz"), X=X, y=y, X_test=X_test, seed=seed)
        packages = [word for package in DIFFPRIVLIB for word in ("--with", package)]
        command = [
            "uv",
            "run",
            "--quiet",
            "--isolated",
            "--no-project",
            *packages,
            "python",
            "-c",
            PEER,
            folder,
        ]
        subprocess.run([*command, *map(str, EPSILONS)], check=True)
        predicted = {
            place: dict(np.load(Path(folder, f"prediction-{place[0]}-{place[1]}.npz"))) for place in tables
        }
    return {
        (features, epsilon): statistics.median(
            r_squared(tables[features, seed][3], predicted[features, seed][str(epsilon)])
            for seed in range(RUNS)
        )
        for features in FEATURES
        for epsilon in EPSILONS
    }


def medians() -> Iterator[tuple[str, dict[tuple[int, float], float]]]:
    """Yield the median R^2 of each method, by features and epsilon."""
    tables = {(features, seed): table(features, seed) for features in FEATURES for seed in range(RUNS)}
    for name, fit in METHODS.items():
        yield (
            name,
            {
                (features, epsilon): statistics.median(
                    r_squared(y_test, fit(X, y, epsilon, seed)(X_test))
                    for seed in range(RUNS)
                    for X, y, X_test, y_test in [tables[features, seed]]
                )
                for features, epsilon in SETTINGS
            },
        )
    yield "diffprivlib 0.6.6, no delta", diffprivlib(tables)


def shown(value: float) -> str:
    """Return a median as it is shown."""
    return "refused" if math.isnan(value) else f"{value:.3g}"


if __name__ == "__main__":
    keep(
        "linear-regression",
        ["", *(f"d = {d}, epsilon {epsilon:g}" for d, epsilon in SETTINGS)],
        ([name, *(shown(found[at]) for at in SETTINGS)] for name, found in medians()),
    )
