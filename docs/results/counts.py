"""Poisson loss beside squared loss: boosted trees on counts and other targets of no less than 0.

uv run --with statsmodels==0.15.0 python docs/results/counts.py FOLDER [--kept RESULTS.jsonl]
python docs/results/counts.py --smallest

takes tables of FOLDER, which is that of ``trees.py``, one that statsmodels has, and synthetic ones, and
writes ``tables/trees-counts-{r2,deviance}.csv``: mean test R^2, and mean Poisson deviance, over the first
splits of a 5-fold cross-validation. Noise is seeded, which is research and not a release. What has been
computed is kept in RESULTS.jsonl and not computed again. ``--smallest`` needs no folder, writes nothing and
shows no more than that it runs.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import attrs
import numpy as np
import numpy.typing as npt
from pages import keep, r_squared, short
from sklearn.ensemble import HistGradientBoostingRegressor
from trees import named, read
from trees import tables as tables_of

from dpkit_core import Budget, Dataset, Randomness, Schema, compose
from dpkit_core.pipeline.observers import Observers

Array = npt.NDArray[np.float64]
Table = tuple[Array, Array, Schema]
Fit = Callable[[Array, Array, Schema, float, int], Callable[[Array], Array]]

FOLDS, SPLITS, DELTA = 5, 3, 1e-5
EPSILONS = (0.1, 1.0, 10.0)

#: A prediction of 0 where something is counted has no finite deviance: in it, predictions are at least such a
#: share of the mean of the training records, for all methods.
LEAST_SHARE = 1 / 20


def synthetic(kind: str, n: int) -> Table:
    """Return counts of eight uniform columns, three of which do nothing."""
    rng = np.random.default_rng([n, len(kind)])
    X = rng.uniform(-1, 1, (n, 8))
    score = X[:, 0] + 0.8 * (X[:, 1] > 0.3) - 0.7 * np.abs(X[:, 2]) + 0.6 * (X[:, 3] > 0) * X[:, 4]
    match kind:
        case "Poisson":
            mean = np.exp(1 + score)
        case "overdispersed":  # negative binomial: variance mean + mean^2
            mean = np.exp(2 + score) * rng.gamma(1.0, 1.0, n)
        case "zero-inflated":
            mean = np.exp(1 + score) * (rng.random(n) < 0.3 + 0.3 * (X[:, 1] > 0))
        case _:  # rare: nineteen in twenty are 0
            mean = np.exp(-3 + score)
    return X, rng.poisson(mean).astype(float), Schema.numeric([f"x{j}" for j in range(8)], "y")


SYNTHETIC = {
    f"{kind}, {n}": (kind, n)
    for kind, n in (
        ("Poisson", 1000),
        ("Poisson", 20_000),
        ("overdispersed", 20_000),
        ("zero-inflated", 20_000),
        ("rare", 20_000),
    )
}


#: Tables of ``trees.py`` whose targets are counts, or at least not below 0.
REAL = {"Bike": "Bike_Sharing_Demand", "wine": "wine_quality", "abalone": "abalone", "cpu_act": "cpu_act"}
DIAMONDS = Path(__file__).parents[1] / "data/diamonds.parquet"


def visits() -> Table:
    """Return visits to a doctor and nine facts of a person, of the RAND health insurance experiment."""
    from statsmodels.datasets import randhie  # noqa: PLC0415 - for this alone

    found = randhie.load_pandas()
    X, y = found.exog.to_numpy(np.float64), found.endog.to_numpy(np.float64)
    return X, y, Schema.numeric([*found.exog.columns], found.endog.name)


def told(table: Table, *, ranges: bool) -> Table:
    """Return a table whose ranges are public, the target's from 0, or one of which nothing is known."""
    X, y, schema = table
    if not ranges:
        return table
    columns, first = [], 0
    for column in schema.columns:
        width = len(column.categories) or 1
        values, first = X[:, first : first + width], first + width
        low, high = float(values.min()), float(values.max())
        if column.kind == "numeric" and low < high:
            column = attrs.evolve(column, lower=low, upper=high)  # noqa: PLW2901 - the same, with its range
        columns.append(column)
    target = attrs.evolve(schema.target, lower=0.0, upper=float(y.max()))
    return X, y, attrs.evolve(schema, columns=columns, target=target)


def private(loss: str) -> Fit:
    """Return the fit of boosted trees with a loss."""
    pipeline = compose(regressor="boosted_trees", options={"regressor": {"loss": loss}})

    def fit(X: Array, y: Array, schema: Schema, epsilon: float, seed: int) -> Callable[[Array], Array]:
        plan = pipeline.plan(schema, Budget(epsilon, DELTA))
        data = Dataset.from_arrays(X, y, schema)
        release = plan.run(data, randomness=Randomness.from_seed(seed), observers=Observers.none())
        return (lambda Z: np.full(len(Z), np.nan)) if release.model is None else release.predict

    return fit


def without_privacy(
    X: Array, y: Array, schema: Schema, epsilon: float, seed: int
) -> Callable[[Array], Array]:
    """Fit scikit-learn's histogram gradient boosting with Poisson loss, else with its defaults."""
    model = HistGradientBoostingRegressor(loss="poisson", random_state=seed).fit(X, y)
    return lambda Z: np.asarray(model.predict(Z))


#: Heading, whether it is told ranges, how it is fitted, and for which epsilons; none without privacy.
METHODS: tuple[tuple[str, bool, Fit, tuple[float | None, ...]], ...] = (
    ("HGBR", False, without_privacy, (None,)),
    ("ranges squared", True, private("squared"), EPSILONS),
    ("ranges Poisson", True, private("poisson"), EPSILONS),
    ("nothing squared", False, private("squared"), EPSILONS),
    ("nothing Poisson", False, private("poisson"), EPSILONS),
)
COLUMNS = tuple((heading, epsilon) for epsilon in EPSILONS for heading, _, _, at in METHODS if at == EPSILONS)


def deviance(y: Array, prediction: Array) -> float:
    """Return the mean Poisson deviance, 2 (y log(y / prediction) - y + prediction)."""
    ratio = np.where(y > 0, y, prediction) / prediction
    return float(2 * (y * np.log(ratio) - y + prediction).mean())


def scores(
    name: str, table: Table, kept: Path | None, splits: int
) -> Iterator[tuple[str, float | None, list[tuple[float, float]]]]:
    """Yield R^2 and deviance of each split, by method and epsilon."""
    known = [json.loads(line) for line in kept.read_text().splitlines()] if kept and kept.exists() else []
    done = {(method, e, s): (r, d) for here, method, e, s, r, d in known if here == name}
    for heading, ranges, fit, epsilons in METHODS:
        X, y, schema = told(table, ranges=ranges)
        for epsilon in epsilons:
            for split in range(splits):
                if (heading, epsilon, split) in done:
                    continue
                order = np.random.default_rng(0).permutation(len(y))
                test = order[split::FOLDS]
                train = np.setdiff1d(order, test)
                prediction = fit(X[train], y[train], schema, epsilon or 0.0, split)(X[test])
                least = LEAST_SHARE * y[train].mean()
                found = r_squared(y[test], prediction), deviance(y[test], np.maximum(prediction, least))
                done[heading, epsilon, split] = found
                if kept:
                    with kept.open("a") as file:
                        file.write(json.dumps([name, heading, epsilon, split, *found]) + "\n")
            yield heading, epsilon, [done[heading, epsilon, split] for split in range(splits)]


def cells(found: dict[tuple[str, float | None], list[tuple[float, float]]], measure: int) -> list[str]:
    """Return a cell without privacy, and for each epsilon one of each loss, with ranges and without."""

    def mean(heading: str, epsilon: float | None) -> str:
        value = statistics.mean(row[measure] for row in found[heading, epsilon])
        return "refused" if math.isnan(value) else short(value)

    return [mean("HGBR", None), *(mean(*column) for column in COLUMNS)]


def main() -> None:
    """Write both tables."""
    parser = argparse.ArgumentParser(description="Poisson loss beside squared loss.")
    parser.add_argument("folder", type=Path, nargs="?", help="folder with the tables")
    parser.add_argument("--kept", type=Path, help="file for what has been computed")
    parser.add_argument("--smallest", action="store_true", help="see whether it runs")
    given = parser.parse_args()
    if given.folder is None and not given.smallest:
        parser.error("which tables? Name their folder, or say --smallest")
    readers: dict[str, Callable[[], Table]] = {}
    if given.smallest:
        readers["rare, 300"] = partial(synthetic, "rare", 300)
    else:
        paths = {named(path): path for path in tables_of(given.folder, math.inf)}
        readers |= {name: partial(read, paths[table], ranges=False) for name, table in REAL.items()}
        readers |= {"diamonds": partial(read, DIAMONDS, ranges=False), "randhie": visits}
        readers |= {name: partial(synthetic, *facts) for name, facts in SYNTHETIC.items()}
    rows: tuple[list[list[object]], list[list[object]]] = ([], [])
    for name, reader in readers.items():
        table = reader()
        splits = 1 if given.smallest else SPLITS
        found = {(h, e): values for h, e, values in scores(name, table, given.kept, splits)}
        for measure, lines in enumerate(rows):
            lines.append([name, len(table[1]), *cells(found, measure)])
    heads = [f"{epsilon:.3g} {heading}" for heading, epsilon in COLUMNS]
    for measure, title, lines in zip(("r2", "deviance"), ("R²", "Poisson deviance"), rows, strict=True):
        keep("" if given.smallest else f"trees-counts-{measure}", [title, "n", "HGBR", *heads], lines)


if __name__ == "__main__":
    main()
