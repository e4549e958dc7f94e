"""Measures how often 95% intervals of coefficients and scores hold the truth: ``tables/intervals*.csv``.

The truth is what the intervals are about: the projection of the clipped target on the clipped features, given
the released bounds, over the population, a table of 400 000 records or, for diamonds, all of them::

    uv run python docs/results/intervals.py

Those of a score are about the capped R^2 of a model that was not fitted to the records, for themselves and
for the population; noise is normal, of the planned deviation, and center and cap are fixed. Of ``whole``
runs, all of them are as released. ``lines``, ``robust``, ``categories``, ``scores`` or ``whole`` after the
name of the script measures these alone.
"""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import attrs
import numpy as np
from dpkit_model_lines import WinsorizedLinearModel
from pages import keep

from dpkit_core import (
    Block,
    Budget,
    Column,
    Dataset,
    Matrix,
    Randomness,
    Schema,
    Vector,
    compose,
    open_source,
    plan_evaluation,
)
from dpkit_core.mechanisms.moments import flatten
from dpkit_core.mechanisms.scores import NORM, SAID, score_events, score_rows
from dpkit_core.release.estimates import Estimate, auc
from dpkit_core.release.evaluation import CAPPED_R2, Evaluation

DATA = Path(__file__).parents[1] / "data"
RUNS, MANY = 300, 1000

Records = tuple[Matrix, Vector]
Population = Callable[[int, np.random.Generator], Records]


def even(n: int, rng: np.random.Generator) -> Records:
    """Return four features, two of them correlated, and residuals of equal variance."""
    X = rng.uniform(size=(n, 4))
    X[:, 1] = 0.6 * X[:, 0] + 0.4 * X[:, 1]
    return X, X @ [3.0, -2.0, 1.0, 0.0] + 5 + rng.uniform(-2, 2, n)


def normal(n: int, rng: np.random.Generator) -> Records:
    """Return three features of different scales, without bounds."""
    X = rng.normal(size=(n, 3)) * [1, 5, 0.2] + [0, 10, 1]
    return X, X @ [2.0, -0.5, 4.0] + rng.normal(0, 2, n)


def several(n: int, rng: np.random.Generator) -> Records:
    """Return six features of different scales: as many as lead to refits of residuals."""
    X = rng.normal(size=(n, 6))
    y = X @ [3.0, -2.0, 1.0, 0.0, 1.5, 0.5] + rng.normal(0, 2, n)
    return X * [1, 5, 0.2, 1, 1, 2] + [0, 10, 1, 0, 0, 3], y


def uneven(n: int, rng: np.random.Generator) -> Records:
    """Return residuals whose deviation is ten times as large where the first feature is."""
    X = rng.uniform(size=(n, 2))
    return X, X @ [2.0, 1.0] + rng.normal(0, 1, n) * (0.2 + 2 * X[:, 0] ** 2)


def level(n: int, rng: np.random.Generator) -> Records:
    """Return the same with residuals of one deviation."""
    X = rng.uniform(size=(n, 2))
    return X, X @ [2.0, 1.0] + rng.normal(0, 0.5, n)


def kinds(n: int, rng: np.random.Generator) -> Records:
    """Return a number and two columns of categories, and residuals of equal variance."""
    first, second = rng.choice(3, n, p=[0.6, 0.3, 0.1]), rng.choice(2, n)
    X = np.column_stack([rng.uniform(size=n), np.eye(3)[first], np.eye(2)[second]])
    return X, X @ [2.0, 1.0, 0.5, -1.5, 0.25, -0.25] + 3 + rng.normal(0, 0.7, n)


def uneven_kinds(n: int, rng: np.random.Generator) -> Records:
    """Return the same with residuals four times as large in the rarest category."""
    X, y = kinds(n, rng)
    return X, y + X[:, 3] * rng.normal(0, 2.7, n)


def projection(model: WinsorizedLinearModel, X: Matrix, y: Vector, schema: Schema) -> Vector:
    """Return slopes and intercept of the line that is estimated, over a population."""
    z = np.clip((X - list(model.centers)) / list(model.widths), -1, 1)
    lengths = np.maximum(np.sqrt(np.square(z).sum(axis=1, keepdims=True)), 1e-12)
    rows = np.column_stack([np.ones(len(z)), z * np.minimum(1, model.radius / lengths)])
    names = ["(intercept)", *model.features]
    sums = [[name in column for name in names] for column in schema.one_of_each]
    basis = np.linalg.svd(np.array([*sums, [False] * len(names)], float))[2][len(sums) :].T
    line = basis @ np.linalg.lstsq(rows @ basis, np.clip(y, *model.bounds))[0]
    slopes = line[1:] / list(model.widths)
    return np.append(slopes, line[0] - slopes @ list(model.centers))


def row(  # noqa: PLR0917 - a row of the table below
    name: str,
    schema: Schema,
    sample: Population,
    population: Records,
    n: int,
    epsilon: float,
    runs: int = RUNS,
    **options: str,
) -> list[str]:
    """Return a row of the table."""
    pipeline = compose(regressor="winsorized_least_squares", options={"regressor": options})
    plan = pipeline.plan(schema, Budget(epsilon, 1e-6))
    held: list[Vector] = []
    told: list[Vector] = []
    for run in range(runs):
        data = Dataset.from_arrays(*sample(n, np.random.default_rng(run)), schema)
        release = plan.run(data, randomness=Randomness.from_seed(run))
        assert isinstance(release.model, WinsorizedLinearModel)
        truth = projection(release.model, *population, schema)
        lower, upper = release.intervals().bounds.T
        held.append(np.asarray((lower <= truth) & (truth <= upper), dtype=np.float64))
        told.append(np.isfinite(upper - lower))
    each, finite = 100 * np.mean(held, axis=0), 100 * np.mean(told)
    return [name, f"{n}", f"{epsilon:g}", f"{each.mean():.1f}%", f"{each.min():.1f}%", f"{finite:.0f}%"]


def robust() -> Iterator[list[str]]:
    """Yield the rows of intervals that do not take variances to be equal."""
    public = Schema.numeric("ab", "y", bounds={"a": (0, 1), "b": (0, 1), "y": (-8, 12)})
    rng = np.random.default_rng(7)
    for name, sample in (("unequal", uneven), ("equal", level)):
        population = sample(400_000, rng)
        yield row(f"{name} variance", public, sample, population, 20_000, 1.0, MANY, intervals="robust")


def categories() -> Iterator[list[str]]:
    """Yield the rows of columns of categories."""
    columns = (
        Column("size", lower=0.0, upper=1.0),
        *(
            Column(name, "categorical", categories=list(listed))
            for name, listed in (("kind", "abc"), ("place", "de"))
        ),
    )
    schema = Schema(columns, Column("y", lower=-8.0, upper=14.0))
    for name, sample, options in (
        ("two columns of categories", kinds, {}),
        ("two columns of categories, unequal variance, robust", uneven_kinds, {"intervals": "robust"}),
    ):
        population = sample(400_000, np.random.default_rng(3))
        yield row(name, schema, sample, population, 20_000, 1.0, MANY, **options)


def score(name: str, sample: Population, n: int, mu: float) -> list[str]:
    """Return a row of the table of scores, by ``n`` records that were held out."""
    events = score_events(mu * mu, None)
    deviation = events[-1].noise_multiplier * NORM**2
    slopes = np.array([1.8, 1.0])
    center, cap = 1.5, 4.0

    def moments(X: Matrix, y: Vector) -> Vector:
        v = score_rows(Block(X, y), lambda X: X @ slopes, center, cap)
        return flatten(v.T @ v)

    def found(numbers: Vector, noise: float) -> Evaluation:
        return Evaluation(CAPPED_R2, numbers.tolist(), noise, center, cap, 0.0)

    rng = np.random.default_rng(n)
    truth = found(moments(*sample(1_000_000, rng)), 1e-9).score()
    held, none, wide = np.zeros(2), 0, 0.0
    for _ in range(MANY):
        exact = moments(*sample(n, rng))
        noisy = found(exact + rng.normal(size=exact.size) * deviation, deviation)
        own, wider, of_these = noisy.score(), noisy.score(population=True), found(exact, 1e-9).score()
        if own is None or wider is None or of_these is None or truth is None:
            none += 1
            continue
        held += own.low <= of_these.value <= own.high, wider.low <= truth.value <= wider.high
        wide += (wider.high - wider.low) / 2
    rates = (f"{100 * rate:.1f}%" for rate in held / (MANY - none))
    return [name, f"{n}", f"{mu:g}", f"{none}", *rates, f"{wide / (MANY - none):.3f}"]


def scores() -> Iterator[list[str]]:
    """Yield the rows of the table of scores."""
    for name, sample in (("equal variance", level), ("unequal variance", uneven)):
        for n, mu in ((2000, 0.237), (20_000, 0.237), (20_000, 0.124)):
            yield score(name, sample, n, mu)
    for positive, apart in ((0.4, 1.0), (0.05, 1.5)):
        for n, mu in ((2000, 0.237), (20_000, 0.237), (20_000, 0.124)):
            yield ranking(positive, apart, n, mu)


#: Bounds of the target: none, wide ones, and such as cut off a hundredth of the records or so.
BOUNDS = {"none": None, "wide": (-50.0, 50.0), "narrow": (-1.0, 4.0)}

#: Held out records and epsilon of a score in whole runs.
SETTINGS = ((1000, 4.0), (2000, 1.0), (2000, 4.0))


def whole(
    sample: Population,
    bounds: tuple[float, float] | None,
    n: int,
    epsilon: float,
    seeds: Iterable[int] = range(MANY),
) -> tuple[int, int, int]:
    """Return in how many whole runs a score is told, and how many intervals hold it, own and wider ones.

    Each run scores one line by records of its own, under the center and cap that it releases.
    """
    schema = Schema.numeric("ab", "y", bounds={} if bounds is None else {"y": bounds})
    fit = compose(regressor="winsorized_least_squares").plan(schema, Budget(4.0, 1e-6))
    rng = np.random.default_rng(n)
    release = fit.run(Dataset.from_arrays(*sample(5000, rng), schema), randomness=Randomness.from_seed(0))
    model = release.usable_model
    plan = plan_evaluation(release, Budget(epsilon, 1e-6), "other")
    everyone = sample(100_000, rng)

    def exact(X: Matrix, y: Vector, found: Evaluation) -> float:
        assert found.center is not None
        assert found.cap is not None
        v = score_rows(Block(X, y), model.predict, found.center, found.cap, bounds or (-math.inf, math.inf))
        truth = attrs.evolve(found, released=flatten(v.T @ v).tolist(), deviation=1e-9).score()
        assert truth is not None
        return truth.value

    told = own = wider = 0
    for run in seeds:
        X, y = sample(n, np.random.default_rng([n, run]))
        scored = plan.run(Dataset.from_arrays(X, y, schema), randomness=Randomness.from_seed(run))
        found = scored.evaluation
        assert found is not None
        of_these, of_all = found.score(), found.score(population=True)
        if of_these is None or of_all is None:
            continue
        told += 1
        own += of_these.low <= exact(X, y, found) <= of_these.high
        wider += of_all.low <= exact(*everyone, found) <= of_all.high
    return told, own, wider


def runs() -> Iterator[list[str]]:
    """Yield the rows of the table of whole runs."""
    seeds = itertools.count()  # no two rows share noise
    for name, sample in (("equal variance", level), ("unequal variance", uneven)):
        for called, bounds in BOUNDS.items():
            for n, epsilon in SETTINGS:
                told, own, wider = whole(sample, bounds, n, epsilon, itertools.islice(seeds, MANY))
                rates = (f"{100 * held / told:.1f}%" for held in (own, wider))
                yield [name, called, f"{n}", f"{epsilon:g}", f"{told}", *rates]


def ranking(positive: float, apart: float, n: int, mu: float) -> list[str]:
    """Return a row of AUC: of so many who have what is said, normal scores are so many deviations apart."""
    deviation = math.sqrt(2) / mu

    def counts(n: int, rng: np.random.Generator) -> Vector:
        y = rng.random(n) < positive
        odds = math.log(positive / (1 - positive)) + apart * (rng.normal(size=n) + apart * y) - apart**2 / 2
        cells = np.searchsorted(SAID, 1 / (1 + np.exp(-odds)), side="right")
        found: Vector = np.bincount(2 * cells + y, minlength=2 * len(SAID) + 2).astype(np.float64)
        return found

    def found(numbers: Vector, noise: float, *, sampled: int = 0) -> Estimate | None:
        return auc(numbers[::2].tolist(), numbers[1::2].tolist(), noise, 0.95, sampled=sampled)

    rng = np.random.default_rng(n)
    truth = found(counts(1_000_000, rng), 1e-9)
    held, none, wide = np.zeros(2), 0, 0.0
    for _ in range(MANY):
        exact = counts(n, rng)
        noisy = exact + rng.normal(size=exact.size) * deviation
        own, wider, of_these = found(noisy, deviation), found(noisy, deviation, sampled=1), found(exact, 1e-9)
        if own is None or wider is None or of_these is None or truth is None:
            none += 1
            continue
        held += own.low <= of_these.value <= own.high, wider.low <= truth.value <= wider.high
        wide += (wider.high - wider.low) / 2
    rates = (f"{100 * rate:.1f}%" for rate in held / max(MANY - none, 1))
    told = f"{wide / (MANY - none):.3f}" if none < MANY else ""
    return [f"AUC, {100 * positive:g} % have it", f"{n}", f"{mu:g}", f"{none}", *rates, told]


def lines() -> Iterator[list[str]]:
    """Yield the rows of intervals of coefficients."""
    bounded = dict.fromkeys("abcd", (0.0, 1.0))
    public = Schema.numeric("abcd", "y", bounds={**bounded, "y": (-10, 20)})
    rng = np.random.default_rng(99)
    for n, epsilon in ((2000, 3.0), (20_000, 0.3), (20_000, 1.0), (20_000, 3.0), (100_000, 1.0)):
        yield row("equal variance, public bounds", public, even, even(400_000, rng), n, epsilon)
    private = Schema.numeric("abc", "y")
    for epsilon in (0.5, 3.0):
        yield row("equal variance, no bounds", private, normal, normal(400_000, rng), 20_000, epsilon)
    population = several(400_000, rng)
    limits = {"a": (-4, 4), "b": (-10, 30), "c": (0.2, 1.8), "d": (-4, 4), "e": (-4, 4), "f": (-5, 11)}
    public = Schema.numeric("abcdef", "y", bounds={**limits, "y": (-16, 16)})
    for n, epsilon in ((4000, 1.0), (20_000, 1.0)):
        yield row("six features, public bounds", public, several, population, n, epsilon)
    private = Schema.numeric("abcdef", "y")
    for n, epsilon in ((4000, 3.0), (20_000, 1.0)):
        yield row("six features, no bounds", private, several, population, n, epsilon)
    public = Schema.numeric("ab", "y", bounds={"a": (0, 1), "b": (0, 1), "y": (-8, 12)})
    for n, epsilon in ((20_000, 1.0), (20_000, 10.0), (100_000, 3.0)):
        yield row("unequal variance", public, uneven, uneven(400_000, rng), n, epsilon)
    schema = Schema.read(DATA / "diamonds.schema.toml").restrict(["carat"])
    diamonds = Dataset.from_source(open_source(DATA / "diamonds.parquet"), schema)

    def resampled(n: int, rng: np.random.Generator) -> Records:
        chosen = rng.integers(0, diamonds.records, n)
        return diamonds.X[chosen], diamonds.y[chosen]

    for epsilon in (0.3, 1.0, 3.0):
        everything = (diamonds.X, diamonds.y)
        yield row("diamonds, price by carat", schema, resampled, everything, 20_000, epsilon)


HELD = ["table", "records", "epsilon", "intervals that hold the truth", "worst coefficient", "told"]
RATES = ["of these records", "of the population"]
#: What is measured: the name of its table, heads, and rows.
MEASURED: dict[str, tuple[str, list[str], Callable[[], Iterable[list[str]]]]] = {
    "lines": ("intervals", HELD, lines),
    "robust": ("intervals-robust", HELD, robust),
    "categories": ("intervals-categories", HELD, categories),
    "scores": ("intervals-scores", ["table", "held out", "mu", "not told", *RATES, "half width"], scores),
    "whole": ("intervals-whole", ["table", "bounds", "held out", "epsilon", "told", *RATES], runs),
}

if __name__ == "__main__":
    for which in sys.argv[1:] or MEASURED:
        name, heads, measured = MEASURED[which]
        keep(name, heads, measured())
