"""DP-EBM of ``interpret``, on the records and public facts that dpkit's parts are given.

uv run --with interpret-core python docs/results/dp_ebm.py FOLDER RESULTS.jsonl

writes ``tables/trees-dp-ebm.csv``: test R^2 with its defaults and with the best of its settings, on the first
split and the tables of ``trees.py``, whose FOLDER this is; and ``tables/trees-dp-ebm-means.csv``, beside
``tables/trees-means.csv``. What has been computed is kept in RESULTS.jsonl.

Nori, Caruana, Bu, Shen and Kulkarni 2021, Accuracy, Interpretability, and Differential Privacy via
Explainable Boosting, arXiv:2106.09680. Its library is no dependency of dpkit; ``uv run --with
interpret-core`` has it for one command. Its accounting ("gdp", its default) is taken at its word: the exact
number of records is used and not paid for, and its noise is floating-point noise.
"""

from __future__ import annotations

import csv
import importlib.util
import json
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from pages import keep, short

from dpkit_core import Schema

Array = npt.NDArray[np.float64]

#: What is tried for "tuned", beside the defaults (300 rounds, rate .01, 3 leaves, 32 bins, a tenth of the
#: budget for bins). Of all these the one with the best *test* score counts, for each table and epsilon: more
#: than anybody could choose privately. DP-EBM begins with 0 for all records, so ``centered`` targets have
#: their exact mean taken off, which is not paid for.
SETTINGS: tuple[Mapping[str, Any], ...] = tuple(
    {"centered": True, **settings}
    for settings in (
        {},
        {"bin_budget_frac": 0.03},
        {"max_rounds": 100, "learning_rate": 0.03},
        {"max_rounds": 30, "learning_rate": 0.1},
        {"max_rounds": 30, "learning_rate": 0.03},
        {"max_rounds": 10, "learning_rate": 0.1},
        {"max_rounds": 10, "learning_rate": 0.03},
        {"max_rounds": 3, "learning_rate": 0.3, "max_bins": 8},
        {"max_rounds": 30, "learning_rate": 0.1, "max_leaves": 2},
        {"max_rounds": 30, "learning_rate": 0.1, "max_leaves": 5},
        {"max_rounds": 30, "learning_rate": 0.1, "max_leaves": 2, "max_bins": 8},
        {"max_rounds": 30, "learning_rate": 0.03, "max_bins": 8, "bin_budget_frac": 0.03},
    )
)


def installed() -> bool:
    """Return whether there is an ``interpret`` to compare with."""
    return importlib.util.find_spec("interpret") is not None


def fit(
    X: Array,
    y: Array,
    schema: Schema,
    *,
    epsilon: float,
    delta: float,
    seed: int,
    settings: Mapping[str, Any],
    classify: bool = False,
) -> Callable[[Array], Array]:
    """Return what predicts the target, or the probability of 1, from records as dpkit encodes them."""
    # Most who run these scripts have no interpret.
    from interpret.privacy import (  # noqa: PLC0415
        DPExplainableBoostingClassifier,
        DPExplainableBoostingRegressor,
    )

    numeric = [column.kind == "numeric" for column in schema.columns]
    bounds = {j: column.bounds for j, column in enumerate(schema.columns) if column.bounds is not None}
    options: dict[str, Any] = {
        "feature_types": ["continuous" if each else "nominal" for each in numeric],
        "privacy_bounds": {j: bound for j, bound in bounds.items() if numeric[j]},
        "epsilon": epsilon,
        "delta": delta,
        "random_state": seed,
        "n_jobs": 1,
        **{name: value for name, value in settings.items() if name != "centered"},
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if classify:
            classifier = DPExplainableBoostingClassifier(**options).fit(raw(X, schema), y.astype(np.int64))
            return lambda Z: np.asarray(classifier.predict_proba(raw(Z, schema))[:, -1])
        assert schema.target.bounds is not None
        center = float(y.mean()) if settings.get("centered") else 0.0
        low, high = (bound - center for bound in schema.target.bounds)
        regressor = DPExplainableBoostingRegressor(
            privacy_target_min=low, privacy_target_max=high, **options
        ).fit(raw(X, schema), y - center)
        return lambda Z: np.asarray(regressor.predict(raw(Z, schema))) + center


def raw(X: Array, schema: Schema) -> Array:
    """Return one column for each of the schema: numbers as they are, categories by their position."""
    columns, start = [], 0
    for column in schema.columns:
        width = len(column.categories) if column.kind == "categorical" else 1
        part = X[:, start : start + width]
        columns.append(part.argmax(axis=1).astype(np.float64) if column.kind == "categorical" else part[:, 0])
        start += width
    return np.column_stack(columns)


def main(folder: str, kept: str) -> None:
    """Write the table and its means."""
    from trees import EPSILONS  # noqa: PLC0415 - for this alone

    heads, found = [f"{epsilon:g}" for epsilon in EPSILONS], list[list[tuple[float, float]]]()
    keep("trees-dp-ebm", ["table", *heads], measured(folder, kept, found))
    means = np.mean(found, axis=0).T
    rows = [
        [f"DP-EBM, {name}", *map(short, values)]
        for name, values in zip(("defaults", "tuned"), means, strict=True)
    ]
    with (Path(__file__).parent / "tables/trees-means.csv").open(encoding="utf-8", newline="") as file:
        ours = {name: values for name, *values in csv.reader(file)}
    rows.append(["`boosted_trees`, told the ranges", *ours["told ranges"]])
    keep("trees-dp-ebm-means", ["means over the tables", *heads], rows)


def measured(folder: str, kept: str, found: list[list[tuple[float, float]]]) -> Iterator[list[str]]:
    """Yield the row of each table, and add its scores to what was found."""
    from trees import DELTA, EPSILONS, FOLDS, named, r_squared, read, tables  # noqa: PLC0415

    file = Path(kept)
    known = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    done = {json.dumps(key): score for key, score in known}
    for path in tables(Path(folder), np.inf):
        X, y, schema = read(path, ranges=True)
        order = np.random.default_rng(0).permutation(len(y))
        test, train = order[::FOLDS], np.setdiff1d(order, order[::FOLDS])
        found.append([])
        for epsilon in EPSILONS:
            scores = []
            for settings in ({}, *SETTINGS):
                name = json.dumps([path.stem, epsilon, settings])
                if name not in done:
                    predict = fit(
                        X[train], y[train], schema, epsilon=epsilon, delta=DELTA, seed=0, settings=settings
                    )
                    done[name] = r_squared(y[test], predict(X[test]))
                    with file.open("a") as lines:
                        lines.write(json.dumps([json.loads(name), done[name]]) + "\n")
                scores.append(done[name])
            found[-1].append((scores[0], max(scores)))
        yield [named(path), *(f"{short(default)} / {short(best)}" for default, best in found[-1])]


if __name__ == "__main__":
    main(*sys.argv[1:])
