"""Figures 2 to 8 and Theorem 4.1 of DP-SIS on microarrays: ``dp-sis-{lasso*,grades,records}.csv``.

python docs/results/dp_sis_figures.py FOLDER of NPZ microarrays with arrays x and y

*Figures 2 to 7*: which share of the k largest coefficients of a Lasso (penalty .1) selections find, for k = 5
and the largest whole number up to log d; beside how many the k largest correlations are, without privacy.
Two-stage selection votes with as many groups as the root of the number of records, of each table four times.

*Figure 8*: how often ten features are TOP, GREAT or GOOD by the scores that are selected from.

*Theorem 4.1*: with scores q in order, xi = q_k - q_(k+1), and range sensitivity R, the mechanism releases
another set than the k best with probability at most C(d, k) exp(-epsilon xi / (2 R)): a set with rank h + 1
missing and worst rank t has loss (q_(h+1) - q_t) / 2 >= xi / 2, the best set has 0, and of exponential noise
each of C(d, k) sets overtakes it with probability at most exp(-epsilon xi / (2 R)). Scores grow in
proportion to copies of the table, which stand for more records of the same kind.

Standardized by the data: compares selections, and certifies none.
"""

from __future__ import annotations

import math
import statistics
import sys
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import attrs
import numpy as np
from dp_sis import microarray, prepare, select
from dpkit_command_bench.selection_metrics import is_good, is_great, is_top, top_k_accuracy
from pages import keep
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import Lasso

from dpkit_core import Budget, Matrix, Vector, compose

HERE = Path(__file__).parent
PENALTY = 0.1  # the paper's lambda
TRIALS = 20
EPSILONS = (1.0, 2.0, 5.0, 10.0, 20.0)
COPIES = (1, 3, 10, 30, 100, 300)
# Scorer, its options, selector and delta.
WAYS: dict[str, tuple[str, dict[str, Any], str, float]] = {
    "published (not private)": ("correlation", {"calibration": "published"}, "canonical_lipschitz", 0.0),
    "canonical_lipschitz": ("correlation", {"clip": 0.25}, "canonical_lipschitz", 0.0),
    "peel, delta 1e-6": ("correlation", {"clip": 0.25}, "peel", 1e-6),
    "two-stage": ("lasso_votes", {}, "peel", 0.0),
}
#: R^2 of Table 1.
PAPER = {
    "alon": 0.48,
    "borovecki": 0.90,
    "christensen": 0.79,
    "golub": 0.68,
    "gravier": 0.07,
    "khan": 0.70,
    "shipp": 0.42,
    "west": 0.70,
}
GROUPINGS = 4  # of the records of a table, for two-stage selection
GRADES = {"TOP": is_top, "GREAT": is_great, "GOOD": is_good}


@attrs.frozen(eq=False)
class Array:
    """A microarray: its task, the magnitudes of the Lasso's coefficients, and its R^2.

    ``scaled_r2`` is that of columns and target divided by the largest magnitude, as in Algorithm 1.
    """

    name: str
    task: Any
    coefficients: Vector
    r2: float
    scaled_r2: float


def read(path: Path) -> Array:
    """Return a microarray with standardized columns."""
    (task,) = microarray(path)
    X, y = task.data.X, task.data.y
    lasso = fitted(X, y)
    Z, z = X / np.maximum(np.abs(X).max(axis=0), 1e-12), (y - y.mean()) / np.abs(y - y.mean()).max()
    scores = lasso.score(X, y), fitted(Z, z).score(Z, z)
    return Array(path.stem, task, np.abs(lasso.coef_), *map(float, scores))


def fitted(X: Matrix, y: Vector) -> Any:
    """Return the Lasso, converged or after 5000 passes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return Lasso(alpha=PENALTY, max_iter=5000).fit(X, y)


def best(values: Vector, k: int) -> set[int]:
    """Return the places of the k largest values."""
    return set(np.argsort(-np.abs(values), kind="stable")[:k].tolist())


def planned(way: str, array: Array, epsilon: float, k: int) -> Any:
    """Return the plan of a selection alone."""
    scorer, options, selector, delta = WAYS[way]
    if scorer == "lasso_votes":
        options = {"models": math.isqrt(len(array.task.data.y))}
    pipeline = compose(
        scorer=scorer,
        selector=selector,
        accountant="rdp" if delta else "basic",
        options={"scorer": options},
    )
    return pipeline.plan(array.task.schema, Budget(epsilon, delta), k=k)


def figures(array: Array) -> Iterable[dict[str, Any]]:
    """Yield a row for each k and way: which share of the Lasso's k is found at each epsilon."""
    y = array.task.data.y
    correlations = array.task.data.X.T @ (y - y.mean())
    n, d = array.task.data.X.shape
    for k in (5, int(math.log(d))):
        lasso = best(array.coefficients, k)
        facts = {
            "table": array.name,
            "records": n,
            "features": d,
            "k": k,
            "R2 of the Lasso": f"{array.r2:.3f}",
            "R2, scaled as in Algorithm 1": f"{array.scaled_r2:.3f}",
        }
        shown = f"{len(best(correlations, k) & lasso) / k:.2f}"
        yield {**facts, "way": "correlations, no privacy", **{f"{e:g}": shown for e in EPSILONS}}
        for way in WAYS:
            first = planned(way, array, 1.0, k)
            prepared = [prepare(first, array.task.data, seed) for seed in range(groupings(way))]
            row: dict[str, Any] = {**facts, "way": way}
            for epsilon in EPSILONS:
                plan = planned(way, array, epsilon, k)
                found = [
                    top_k_accuracy(select(plan, prepared[t % len(prepared)], t), tuple(lasso))
                    for t in range(TRIALS)
                ]
                row[f"{epsilon:g}"] = f"{np.mean(found):.2f}"
            yield row


def five(lasso: Sequence[dict[str, Any]]) -> Iterable[dict[str, Any]]:
    """Yield a row for each table of what is found of five, at epsilon 1, 5 and 20."""
    for name in dict.fromkeys(row["table"] for row in lasso):
        ways = {row["way"]: row for row in lasso if row["table"] == name and row["k"] == 5}
        exact = ways.pop("correlations, no privacy")
        yield {
            "microarray": name,
            "records, features": f"{exact['records']}, {exact['features']}",
            "R², paper's R²": f"{float(exact['R2 of the Lasso']):.2f}, {PAPER[name]:.2f}",
            "correlations, no privacy": exact["1"],
            **{f"{way}: 1, 5, 20": ", ".join(row[e] for e in ("1", "5", "20")) for way, row in ways.items()},
        }


def groupings(way: str) -> int:
    """Return how often scores are prepared: once where nothing is drawn for them."""
    return GROUPINGS if WAYS[way][0] == "lasso_votes" else 1


def grades(array: Array, k: int = 10) -> Iterable[dict[str, Any]]:
    """Yield a row for each way and grade: how often a selection deserves it."""
    for way in WAYS:
        first = planned(way, array, 1.0, k)
        if groupings(way) > 1:  # votes tie too often for grades to say anything
            continue
        prepared = prepare(first, array.task.data)
        scores = np.asarray(prepared(()), dtype=np.float64)
        picks = {e: [select(planned(way, array, e, k), prepared, t) for t in range(TRIALS)] for e in EPSILONS}
        for grade, deserved in GRADES.items():
            shown = {
                f"{e:g}": f"{statistics.mean(deserved(each, scores) for each in picks[e]):.2f}" for e in picks
            }
            yield {"table": array.name, "k": k, "way": way, "grade": grade, **shown}


def bound(scores: Vector, k: int, epsilon: float, spread: float) -> float:
    """Return Theorem 4.1: with at least which probability exactly the k best are released."""
    ordered = np.sort(scores)[::-1]
    d, gap = len(scores), float(ordered[k - 1] - ordered[k])
    log_sets = math.lgamma(d + 1) - math.lgamma(k + 1) - math.lgamma(d - k + 1)
    return max(0.0, 1 - math.exp(min(0.0, log_sets - epsilon * gap / (2 * spread))))


def records_for(array: Array, scores: Vector, k: int, epsilon: float, spread: float) -> float:
    """Return from how many records of this kind on the theorem promises the k best with probability 1/2."""
    ordered = np.sort(scores)[::-1]
    d, gap = len(scores), float(ordered[k - 1] - ordered[k])
    log_sets = math.lgamma(d + 1) - math.lgamma(k + 1) - math.lgamma(d - k + 1)
    return len(array.task.data.y) * (log_sets + math.log(2)) * 2 * spread / (epsilon * gap)


def growing(array: Array, epsilon: float = 1.0, k: int = 5) -> Iterable[dict[str, Any]]:
    """Yield, for copies of a table, the promise of Theorem 4.1 and what was measured."""
    plan = planned("canonical_lipschitz", array, epsilon, k)
    prepared = prepare(plan, array.task.data)
    scores = np.asarray(prepared(()), dtype=np.float64)
    spread = plan.stage("selection").rounds[0].sensitivity.range
    top = best(scores, k)
    needed = records_for(array, scores, k, epsilon, spread)
    for copies in COPIES:
        picks = [set(select(plan, lambda picked: copies * scores, t)) for t in range(TRIALS)]  # noqa: B023
        yield {
            "table": array.name,
            "records": copies * len(array.task.data.y),
            "recall": f"{np.mean([len(p & top) / k for p in picks]):.2f}",
            "all found": f"{np.mean([p == top for p in picks]):.2f}",
            "Theorem 4.1": f"{bound(copies * scores, k, epsilon, spread):.2f}",
            "needed by the theorem": f"{needed:.3g}",
        }


def draw(found: Sequence[dict[str, Any]]) -> None:
    """Draw recall and the theorem against the number of records, a line for each table."""
    import matplotlib as mpl  # noqa: PLC0415

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "dp-sis"
    import matplotlib.pyplot as plt  # noqa: PLC0415

    figure, axes = plt.subplots(figsize=(7, 3.6))
    for number, name in enumerate(dict.fromkeys(row["table"] for row in found)):
        lines = [row for row in found if row["table"] == name]
        records = [row["records"] for row in lines]
        color = f"C{number}"
        axes.semilogx(records, [float(row["recall"]) for row in lines], color=color, label=name)
        axes.semilogx(records, [float(row["Theorem 4.1"]) for row in lines], color=color, linestyle=":")
    axes.set_xlabel("records of the same kind")
    axes.set_ylabel("found of the five best (dotted: theorem)")
    axes.set_ylim(-0.02, 1.02)
    axes.legend(frameon=False, fontsize=8)
    figure.tight_layout()
    figure.savefig(HERE / "dp-sis-records.svg", metadata={"Date": None})


def main(folder: Path) -> None:
    """Measure on each microarray, and write tables and picture."""
    lasso, records, graded = [], [], []
    for path in sorted(folder.rglob("*.npz")):
        array = read(path)
        lasso += figures(array)
        graded += grades(array)
        records += growing(array)
        sys.stderr.write(f"{array.name} done\n")
    measured = {"lasso": lasso, "lasso-five": [*five(lasso)], "grades": graded, "records": records}
    for name, found in measured.items():
        keep(f"dp-sis-{name}", [*found[0]], [[*row.values()] for row in found])
    draw(records)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
