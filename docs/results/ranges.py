"""Trees told nothing, before and after and beside lines: tables and shapes, and small tables many times over.

python docs/results/ranges.py TABLES ROWS [BEFORE] [REGRESSOR] [SPLITS]
python docs/results/ranges.py --small FITS [FIRST] [PROCESSES]

The first prints, in Markdown, the mean test R^2 of REGRESSOR (`boosted_trees`) over six splits, beside those
of BEFORE, the rows of another version or regressor. TABLES is a folder with those of the suite ``dpkendall``;
ROWS is a file that keeps what has been run. The second counts, over that many fits of 20 trees, those with a
test R^2 below -.5, and refusals: of tables as small as ``compose`` lets pass without a warning, to four times
as large; with the noise of the plan, but drawn quickly. Seeded and scored on private records: research, not
releases. The first takes twenty minutes, the second a fortieth of a second a fit.
"""

from __future__ import annotations

import functools
import json
import math
import statistics
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import ClassVar, cast

import attrs
import numpy as np
import numpy.typing as npt
from dpkit_command_bench.sources import load
from dpkit_command_bench.suite import find_suite

from dpkit_core import Budget, Dataset, Meter, Plan, Randomness, Refusal, Schema, compose
from dpkit_core.pipeline.observers import Observers

Array = npt.NDArray[np.float64]
Table = tuple[Array, Array]

DELTA, SPLITS, TESTED = 1e-6, 6, 4000
EPSILONS, SIZES = (0.3, 1.0, 4.0), (2000, 20000)

#: Of small tables: their shapes and budgets.
SMALL = ("friedman1", "line5", "heavy", "nothing", "clusters", "costs", "one_year", "zeros95", "all_scales")
EPSILONS_OF_FEW = (0.5, math.log(3), 2.0, 4.0)


def noisy(rng: np.random.Generator, signal: Array, share: float) -> Array:
    """Return a signal with noise of so many of its deviations."""
    target: Array = signal + share * signal.std() * rng.normal(size=len(signal))
    return target


def friedman1(rng: np.random.Generator, n: int) -> Table:
    """Five columns of ten."""
    X = rng.uniform(size=(n, 10))
    signal = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2 + 10 * X[:, 3] + 5 * X[:, 4]
    return X, noisy(rng, signal, 0.33)


def circuit(rng: np.random.Generator, n: int) -> Array:
    """Return the four columns of Friedman's second and third function."""
    lower, upper = np.array([0, 40 * np.pi, 0, 1]), np.array([100, 560 * np.pi, 1, 11])
    return rng.uniform(lower, upper, size=(n, 4))


def friedman2(rng: np.random.Generator, n: int) -> Table:
    """Positive and skewed."""
    X = circuit(rng, n)
    return X, noisy(rng, np.hypot(X[:, 0], X[:, 1] * X[:, 2] - 1 / (X[:, 1] * X[:, 3])), 0.33)


def friedman3(rng: np.random.Generator, n: int) -> Table:
    """Angles."""
    X = circuit(rng, n)
    return X, noisy(rng, np.arctan((X[:, 1] * X[:, 2] - 1 / (X[:, 1] * X[:, 3])) / X[:, 0]), 0.33)


def sparse100(rng: np.random.Generator, n: int) -> Table:
    """Ten of a hundred columns, a line."""
    X = rng.normal(size=(n, 100))
    return X, noisy(rng, X[:, :10] @ np.array([3, -2.5, 2, -2, 1.5, -1.5, 1, -1, 1, 0.5]), 0.4)


def nonlinear100(rng: np.random.Generator, n: int) -> Table:
    """Five of a hundred columns, no line."""
    X, y = friedman1(rng, n)
    return np.column_stack([X, rng.uniform(size=(n, 90))]), y


def clusters(rng: np.random.Generator, n: int) -> Table:
    """Two clusters a thousand deviations apart in one column."""
    side = rng.integers(0, 2, n)
    X = rng.normal(size=(n, 8)) + side[:, np.newaxis] * np.array([1e3, 0, 4, 0, 0, 0, 0, 0])
    return X, 2 * X[:, 1] + 10 * side + 3 * np.sin(2 * X[:, 3]) * (1 - side) + rng.normal(size=n)


def heavy(rng: np.random.Generator, n: int) -> Table:
    """Heavy tails on both sides."""
    X = rng.standard_t(2, size=(n, 6))
    y = np.clip(X, -10, 10) @ np.array([2, 1, -1, 0.5, 0, 0]) + 2 * rng.standard_t(2.5, n)
    return X, y


def nothing(rng: np.random.Generator, n: int) -> Table:
    """A target that has nothing to do with the columns."""
    return rng.normal(size=(n, 10)), rng.normal(size=n)


def zeros95(rng: np.random.Generator, n: int) -> Table:
    """A target that is mostly 0."""
    X = rng.normal(size=(n, 8))
    return X, np.where(X[:, 0] + X[:, 1] / 2 > 1.84, np.exp(4 + X[:, 2] / 2), 0.0)


def line5(rng: np.random.Generator, n: int) -> Table:
    """A line far from 0."""
    X = rng.normal(size=(n, 5))
    return X, X @ np.array([2, -1, 1, 0.5, 0]) + 1.2 * rng.normal(size=n) + 50


def one_year(rng: np.random.Generator, n: int) -> Table:
    """A target within the sixteenth of an octave, and a column of dates."""
    X = np.column_stack([rng.normal(size=(n, 4)), 1.6e9 + 3e7 * rng.random(n)])
    share = 1 / (1 + np.exp(-noisy(rng, X[:, 0] - X[:, 1], 0.3)))
    return X, 2.0**20 * (17 + share) / 16


def all_scales(rng: np.random.Generator, n: int) -> Table:
    """Columns from a millionth to a million."""
    X = rng.normal(size=(n, 13))
    return X * 10.0 ** np.arange(-6, 7), noisy(rng, X @ np.cos(np.arange(13)), 0.5)


def costs(rng: np.random.Generator, n: int) -> Table:
    """Skewed, positive, of one sign."""
    X = rng.lognormal(1.0, 1.0, size=(n, 8))
    return X, noisy(rng, 100 * np.log1p(X[:, :4]).sum(axis=1), 0.4) ** 2 / 1e3


def forty_mixed(rng: np.random.Generator, n: int) -> Table:
    """Forty columns: standardized, in thousands, and yes or no."""
    X = rng.normal(size=(n, 40))
    X[:, 20:30] = 1e3 * np.exp(X[:, 20:30] / 2)
    X[:, 30:] = X[:, 30:] > 0.5
    signal = X[:, 0] * X[:, 1] + X[:, 2] + np.log(X[:, 20]) - X[:, 30] + np.abs(X[:, 3])
    return X, noisy(rng, signal, 0.4)


SHAPES: dict[str, Callable[[np.random.Generator, int], Table]] = {
    shape.__name__: shape
    for shape in (
        *(friedman1, friedman2, friedman3, sparse100, nonlinear100, clusters, heavy, nothing, zeros95, line5),
        *(one_year, all_scales, costs, forty_mixed),  # written after the rule
    )
}


def tables(folder: Path) -> Iterator[tuple[str, Callable[[int, int], tuple[Table, Table]], Schema]]:
    """Yield what returns training and test records of a seed and size, and the schema, for each table."""
    suite = find_suite("dpkendall")
    for spec in (spec for spec in suite.tables if spec.file):
        found = load(
            spec, data_dir=folder, folder=suite.folder, seed=suite.seed, neighboring=suite.neighboring
        )
        X, y = found.data.X, found.data.y

        def split(seed: int, n: int, X: Array = X, y: Array = y) -> tuple[Table, Table]:
            order = np.random.default_rng([seed, 3]).permutation(len(y))
            here, rest = np.split(order, [min(n, 4 * len(y) // 5)])
            return (X[here], y[here]), (X[rest[:TESTED]], y[rest[:TESTED]])

        yield spec.name, split, found.schema
    for place, (name, shape) in enumerate(SHAPES.items()):

        def drawn(seed: int, n: int, shape=shape, place: int = place) -> tuple[Table, Table]:  # type: ignore[no-untyped-def]
            X, y = shape(np.random.default_rng([seed, place, n]), n + TESTED)
            return (X[:n], y[:n]), (X[n:], y[n:])

        columns = drawn(0, 2)[0][0].shape[1]
        yield name, drawn, Schema.numeric([f"x{j}" for j in range(columns)], "y")


def fit(
    schema: Schema, epsilon: float, regressor: str = "boosted_trees"
) -> Callable[[int, Table, Table], float]:
    """Return what releases a model of a split and scores it by test R^2; NaN for a refusal."""
    return scorer(compose(regressor=regressor).plan(schema, Budget(epsilon, DELTA)))


def scorer(plan: Plan) -> Callable[[int, Table, Table], float]:
    """Return what releases a model by a plan and scores it by test R^2; NaN for a refusal."""

    def score(seed: int, train: Table, test: Table) -> float:
        release = plan.run(
            Dataset.from_arrays(*train, plan.schema),
            randomness=Randomness.from_seed(seed),
            observers=Observers.none(),
        )
        if release.model is None:
            return math.nan
        return r2(release.predict(test[0]), test[1])

    return score


def r2(predicted: Array, y: Array) -> float:
    """Return R^2."""
    return float(1 - ((y - predicted) ** 2).sum() / ((y - y.mean()) ** 2).sum())


def cell(found: list[float]) -> str:
    """Return the mean, refusals as 0, and the worst if it is below -.5."""
    models = [0.0 if math.isnan(value) else value for value in found]
    shown = f"{statistics.mean(max(value, -1.0) for value in models):.3f}"
    refused = sum(map(math.isnan, found))
    worst = f" (worst {min(models):.3g})" if min(models) < -0.5 else ""
    return shown + worst + (f" ({refused} refused)" if refused else "")


def compare(
    folder: Path, kept: Path, before: Path | None, regressor: str = "boosted_trees", splits: int = SPLITS
) -> None:
    """Run what is missing, then print."""
    rows: dict[str, list[float]] = json.loads(kept.read_text()) if kept.exists() else {}
    others = json.loads(before.read_text()) if before else {}
    settings = [(n, epsilon) for n in SIZES for epsilon in EPSILONS]
    print("| table | " + " | ".join(f"{n}, {epsilon:g}" for n, epsilon in settings) + " |")
    print("|---" * (1 + len(settings)) + "|")
    for name, split, schema in tables(folder):
        cells = []
        for n, epsilon in settings:
            key = f"{name}, {n}, {epsilon:g}"
            if key not in rows:
                score = fit(schema, epsilon, regressor)
                rows[key] = [score(seed, *split(seed, n)) for seed in range(splits)]
                kept.write_text(json.dumps(rows))
            cells.append(" → ".join(cell(found[key]) for found in (others, rows) if key in found))
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


def small(fits: int, first: int = 0, processes: int = 1) -> tuple[int, int, float]:
    """Return how many of so many fits are below -.5, how many are refusals, and the worst R^2."""
    each = -(-fits // processes)
    with ProcessPoolExecutor(processes) as pool:
        parts = pool.map(_small, [each] * processes, range(first, first + fits, each))
        below, refused, worst = zip(*parts, strict=True)
    return sum(below), sum(refused), min(worst)


def _small(fits: int, first: int) -> tuple[int, int, float]:
    found = [_of_few(seed) for seed in range(first, first + fits)]
    models = [value for value in found if not math.isnan(value)]
    return sum(value < -0.5 for value in models), len(found) - len(models), min(models, default=math.inf)


def _of_few(seed: int) -> float:
    rng = np.random.default_rng([seed, 11])
    shape = SHAPES[SMALL[seed % len(SMALL)]]
    plan = _few_trees(shape(rng, 2)[0].shape[1], EPSILONS_OF_FEW[seed // len(SMALL) % 4])
    n = math.ceil(max(each.forecast.records or 0.0 for each in plan.forecasts) * 4 ** rng.random())
    X, y = shape(rng, n + 1000)
    (stage,), regressor = plan.stages, plan.assembly.regressor
    assert regressor is not None
    data = Dataset.from_arrays(X[:n], y[:n], plan.schema)
    model = regressor.instance.fit(data, stage.plan, cast("Meter", QuickMeter(rng)))
    return math.nan if isinstance(model, Refusal) else r2(model.predict(X[n:]), y[n:])


@attrs.frozen
class QuickMeter:
    """Gives the noise of a meter, without its checks and its grid of at most 1 / 32000 of a deviation."""

    coins: np.random.Generator
    inflation: ClassVar[float] = 1.0

    def gaussian(self, value: Array, *, sensitivity: float, noise_multiplier: float) -> Array:
        """As ``Meter.gaussian`` says, but for a sampler that is ten times as quick."""
        return value + sensitivity * noise_multiplier * self.coins.standard_normal(value.shape)


@functools.cache
def _few_trees(columns: int, epsilon: float) -> Plan:
    schema = Schema.numeric([f"x{j}" for j in range(columns)], "y")
    recipe = compose(regressor="boosted_trees", options={"regressor": {"trees": 20}})
    return recipe.plan(schema, Budget(epsilon, DELTA))


if __name__ == "__main__":
    if sys.argv[1] == "--small":
        print(small(*map(int, sys.argv[2:])))
    else:
        folder, rows, *rest = sys.argv[1:]
        before, regressor, splits = (*rest, *("", "boosted_trees", str(SPLITS))[len(rest) :])
        compare(Path(folder), Path(rows), Path(before) if before else None, regressor, int(splits))
