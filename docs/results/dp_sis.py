"""Recall of private feature selection, one combination of scorer and selector a row: ``dp-sis.csv``.

python docs/results/dp_sis.py [FOLDER of NPZ microarrays with arrays x and y]

Scores are computed once a table, selections are drawn again and again, each at the whole budget. Writes
``dp-sis.csv`` beside this file, with seeded noise, and ``tables/dp-sis-*.csv``.
"""

from __future__ import annotations

import csv
import itertools
import math
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import numpy.typing as npt
from dpkit_check import StageMeter
from dpkit_command_bench.generators import fan_lv
from dpkit_command_bench.selection_metrics import top_k_accuracy
from pages import keep

from dpkit_core import (
    Budget,
    Dataset,
    Plan,
    Randomness,
    Schema,
    Scores,
    StagePlan,
    Vector,
    compose,
)

EPSILONS = (0.5, 1.0, 2.0, 5.0, 10.0, 20.0)
DELTA = 1e-6
TRIALS = 100
TABLES = 20  # synthetic tables, with TRIALS / TABLES selections each

# Bounds are four standard deviations, so clip = 3/4 is three of them, 1/4 is one and 1/8 is half a one.
SCORERS: dict[str, tuple[str, dict[str, Any]]] = {
    "correlation, published (not private)": ("correlation", {"calibration": "published"}),
    "correlation, clip 3 sd": ("correlation", {"clip": 0.75}),
    "correlation, clip 1 sd": ("correlation", {"clip": 0.25}),
    "correlation, clip 1/2 sd": ("correlation", {"clip": 0.125}),
    "correlation, sign": ("correlation", {"statistic": "sign"}),
    "kendall": ("kendall", {}),
    "lasso_votes": ("lasso_votes", {}),
}
SELECTORS: dict[str, tuple[str, float]] = {
    "canonical_lipschitz": ("canonical_lipschitz", 0.0),
    "joint": ("joint", 0.0),
    "oneshot_laplace": ("oneshot_laplace", 0.0),
    "peel": ("peel", 0.0),
    "peel, delta 1e-6": ("peel", DELTA),
}

#: The combinations that are shown for each microarray.
SHOWN = (
    ("correlation, published (not private)", "canonical_lipschitz"),
    ("correlation, clip 3 sd", "canonical_lipschitz"),
    ("correlation, clip 1 sd", "canonical_lipschitz"),
    ("correlation, clip 1 sd", "peel, delta 1e-6"),
    ("correlation, clip 1/2 sd", "peel, delta 1e-6"),
    ("correlation, sign", "peel, delta 1e-6"),
)

# Selections by kendall, which ranks a column anew after each pick, are a fifth as many.
SLOWER = 5

#: Records and features.
SYNTHETIC = {
    "synthetic, n = 100, d = 2000, k = 8": (100, 2000),
    "synthetic, n = 1000, d = 1000, k = 8": (1000, 1000),
}

# One pick a round, as for kendall, leaves these nothing of their own.
NOT_ADAPTIVE = ("joint", "oneshot_laplace")


@attrs.frozen(eq=False)
class Task:
    """A table, its public facts, and the features that are to be found."""

    data: Dataset
    schema: Schema
    best: tuple[int, ...]


def task(X: npt.ArrayLike, y: npt.ArrayLike, best: Sequence[int], target: tuple[float, float]) -> Task:
    """Return the task of a table whose features have mean 0 and standard deviation 1."""
    matrix = np.asarray(X, dtype=np.float64)
    names = [f"x{j}" for j in range(matrix.shape[1])]
    bounds = {**dict.fromkeys(names, (-4.0, 4.0)), "y": target}
    schema = Schema.numeric(names, "y", bounds)
    return Task(Dataset.from_arrays(matrix, y, schema), schema, tuple(best))


def synthetic(records: int, features: int) -> Iterator[Task]:
    """Yield tables of DP-SIS, section 5; to be found are the features with weights."""
    for seed in range(TABLES):
        table = fan_lv(np.random.default_rng(seed), rows=records, features=features)
        reach = 4 * math.sqrt(float(table.weights @ table.weights) + 1.5)
        yield task(table.X, table.y, table.relevant, (-reach, reach))


def microarray(path: Path) -> Iterator[Task]:
    """Yield a microarray with standardized columns; to be found are the 5 largest Pearson correlations."""
    with np.load(path, allow_pickle=False) as archive:
        X, y = archive["x"].astype(np.float64), archive["y"].astype(np.float64)
    X = (X - X.mean(axis=0)) / np.maximum(X.std(axis=0), 1e-12)
    best = np.argsort(-np.abs(X.T @ (y - y.mean())))[:5]
    yield task(X, y, best.tolist(), (float(y.min()), float(y.max())))


def prepare(plan: Plan, data: Dataset, seed: int = 0) -> Callable[[Sequence[int]], Vector]:
    """Return the scores of ``data``; what the scorer draws or releases, if it does, is seeded."""
    assert plan.assembly.scorer is not None
    stage = plan.stage("scoring")
    planned = StagePlan(()) if stage is None else stage.plan
    meter = StageMeter("scoring", planned, plan.schema.neighboring, Randomness.from_seed(seed))
    return plan.assembly.scorer.instance.prepare(data, planned, meter)


def select(plan: Plan, prepared: Callable[[Sequence[int]], Vector], seed: int) -> list[int]:
    """Return what the plan's selector picks from scores that are prepared, as the composer does."""
    stage = plan.stage("selection")
    assert stage is not None
    meter = StageMeter("selection", stage.plan, plan.schema.neighboring, Randomness.from_seed(seed))
    candidates = np.ones(len(prepared(())), dtype=bool)
    picked: list[int] = []
    for round_ in stage.rounds:
        scores = Scores(prepared(picked), round_, candidates.copy())
        chosen = [int(j) for j in stage.part.instance.select(scores, stage.plan, meter)]
        candidates[chosen] = False
        picked += chosen
    meter.finish()
    return picked


def plans(scorer: str, task: Task) -> Iterator[tuple[str, float, Plan]]:
    """Yield selector, epsilon and plan of each combination with ``scorer``."""
    part, options = SCORERS[scorer]
    if part == "lasso_votes":
        options = {"models": math.isqrt(len(task.data.y))}  # public, so nothing is spent on the count
    for (name, (selector, delta)), epsilon in itertools.product(SELECTORS.items(), EPSILONS):
        if part == "kendall" and selector in NOT_ADAPTIVE:
            continue
        pipeline = compose(
            scorer=part,
            selector=selector,
            accountant="rdp" if delta else "basic",
            options={"scorer": options},
        )
        # The published calibration claims a pure guarantee, which is not private: plan what it claims.
        claimed = Budget(epsilon, delta)
        yield name, epsilon, pipeline.plan(task.schema, claimed, k=len(task.best))


def recalls(name: str, tasks: Callable[[], Iterator[Task]], trials: int) -> Iterator[tuple[Any, ...]]:
    """Yield a row for each combination: dataset, scorer, selector, epsilon, mean recall, its error."""
    tables = list(tasks())
    for scorer, (part, _) in SCORERS.items():
        combinations = list(plans(scorer, tables[0]))  # the public facts that count are those of all tables
        first = combinations[0][2]
        assert first.assembly.scorer is not None
        prepared = [prepare(first, table.data) for table in tables]
        repeated = range(trials // SLOWER if part == "kendall" else trials)
        for selector, epsilon, plan in combinations:
            values = [
                top_k_accuracy(select(plan, scores, 1000 * number + trial), table.best)
                for number, (table, scores) in enumerate(zip(tables, prepared, strict=True))
                for trial in repeated
            ]
            error = np.std(values) / math.sqrt(len(values))
            yield name, scorer, selector, epsilon, round(float(np.mean(values)), 3), round(float(error), 3)


def keep_table(name: str, rows: Sequence[tuple[Any, ...]]) -> None:
    """Keep the recalls of one dataset, a combination a row and an epsilon a column."""
    groups = itertools.groupby(rows, key=lambda row: row[1:3])
    found = [[*combination, *(f"{row[4]:.2f}" for row in group)] for combination, group in groups]
    keep(f"dp-sis-{name}", ["scorer", "selector", *(f"{e:g}" for e in EPSILONS)], found)


def keep_each(arrays: Mapping[str, Sequence[tuple[Any, ...]]], epsilon: float = 5.0) -> None:
    """Keep the recalls of each microarray by some combinations."""
    found = [
        [name, *(f"{row[4]:.2f}" for pair in SHOWN for row in rows if (row[1:3], row[3]) == (pair, epsilon))]
        for name, rows in arrays.items()
    ]
    heads = [f"{scorer.removeprefix('correlation, ')} + {selector}" for scorer, selector in SHOWN]
    keep("dp-sis-each-microarray", ["microarray", *heads], found)


def main(folder: Path | None) -> None:
    """Run every dataset, and write the file and the tables."""
    datasets: dict[str, tuple[Callable[[], Iterator[Task]], int]] = {
        name: (lambda size=size: synthetic(*size), TRIALS // TABLES)  # type: ignore[misc]
        for name, size in SYNTHETIC.items()
    }
    for path in sorted(folder.rglob("*.npz")) if folder else []:
        datasets[f"{path.stem}, k = 5"] = (lambda path=path: microarray(path)), TRIALS // 2  # type: ignore[misc]
    arrays: dict[str, list[tuple[Any, ...]]] = {}
    with Path(__file__).with_name("dp-sis.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(("dataset", "scorer", "selector", "epsilon", "recall", "standard error"))
        for name, (tasks, trials) in datasets.items():
            start = time.perf_counter()
            rows = list(recalls(name, tasks, trials))
            writer.writerows(rows)
            file.flush()
            if name in SYNTHETIC:
                keep_table(f"{SYNTHETIC[name][0]}-records", rows)
            else:
                arrays[name.partition(",")[0]] = rows
            print(f"{name}: {time.perf_counter() - start:.0f} s", file=sys.stderr)
    if arrays:
        mean = [
            (*group[0][:4], float(np.mean([row[4] for row in group])))
            for group in zip(*arrays.values(), strict=True)
        ]
        keep_table("microarrays", mean)
        keep_each(arrays)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
