"""Theorem 3.8 of DPKendall beside what is measured: ``dpkendall-recovery.csv`` and its picture.

python docs/results/recovery.py

Of d columns, k are independent and normal and make the target; others are copies of them, or do not matter.
Recovered is a selection of k columns: one of each of the k or its copies. The theorem promises that with the
mean of resemblances as penalty, and is false: where one weight dwarfs the others, as in the second world
here, a copy of its column keeps (n/2) (tau - 1/(t - 1)) in round t. For their maximum it is true:

*Statistics.* Each t(u, v), of the target and c distinct columns, is n/2 times a U-statistic of order 2 with
values in [-1, 1]. So (Hoeffding 1963, section 5) all c (c + 1) / 2 are within a of their means, but with
probability c (c + 1) exp(-floor(n/2) (2 a / n)^2 / 2).

*Gaps.* Then a column of which neither it nor a copy is selected scores at least (n/2) tau - 2 a, tau being
the smallest of the k columns' correlations (Lemma 3.5); a copy of a selected one at most n/2 - n/2, and one
that does not matter at most a. So the right ones lead by at least g = (n/2) tau - 3 a.

*Choices.* Each of the k choices takes a given wrong column with at most exp(-epsilon g / (k R)) times the
probability of the best one, R being the range sensitivity of its round, 5/2 or 5. So a selection fails with
at most the probability above plus d - 1 times the sum of these over rounds, at the best a.

Seeded: research.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import attrs
import numpy as np
from dp_sis import prepare, select
from pages import keep
from scipy.optimize import minimize_scalar

from dpkit_core import Budget, Dataset, Plan, Schema, compose

HERE = Path(__file__).parent
RECORDS = (300, 1000, 3000, 10000, 30000, 100000)
EPSILON, TABLES, SELECTIONS = 1.0, 3, 5
COPIES, OTHERS = 2, 9
RANGES = (5 / 2, 5.0)  # of the first round, and of later ones
PENALTIES = ("max", "mean")


@attrs.frozen
class World:
    """Weights of independent standard normal columns, and the deviation of what is added to the target."""

    name: str
    weights: tuple[float, ...]
    noise: float

    @property
    def columns(self) -> int:
        """Return d."""
        return len(self.weights) * (1 + COPIES) + OTHERS

    def tau(self) -> float:
        """Return the smallest of Kendall's correlations with the target, by Lemma 3.5."""
        squares = sum(weight**2 for weight in self.weights) + self.noise**2
        return min(2 / math.pi * math.atan(abs(b) / math.sqrt(squares - b**2)) for b in self.weights)

    def plan(self, penalty: str) -> Plan:
        """Return the plan of a selection."""
        pipeline = compose(
            scorer="kendall", selector="peel", accountant="basic", options={"scorer": {"penalty": penalty}}
        )
        return pipeline.plan(self.schema, Budget(EPSILON, 0.0), k=len(self.weights))

    @property
    def schema(self) -> Schema:
        """The public facts."""
        return Schema.numeric([f"x{j}" for j in range(self.columns)], "y")

    def table(self, records: int, seed: int) -> Dataset:
        """Return a table: each column, its copies, then columns that do not matter."""
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((records, len(self.weights)))
        y = X @ np.array(self.weights) + self.noise * rng.standard_normal(records)
        others = rng.standard_normal((records, OTHERS))
        return Dataset.from_arrays(np.hstack([np.repeat(X, 1 + COPIES, axis=1), others]), y, self.schema)

    def recovered(self, picked: list[int]) -> bool:
        """Return whether the selection has one of each column and its copies."""
        return sorted(j // (1 + COPIES) for j in picked) == list(range(len(self.weights)))


WORLDS = (
    World("weights 1, 1, 1, 1, 1", (1.0,) * 5, 1.0),
    World("weights 5, .5, .5", (5.0, 0.5, 0.5), 0.1),
)


def promised(world: World, n: int) -> float:
    """Return with at least which probability a selection by the largest resemblance recovers."""
    k, d, distinct = len(world.weights), world.columns, len(world.weights) + OTHERS

    def failure(share: float) -> float:
        """Return the bound where 3 a is that share of (n/2) tau."""
        a = share * n / 2 * world.tau() / 3
        gap = (1 - share) * n / 2 * world.tau()
        statistics = distinct * (distinct + 1) * math.exp(-(n // 2) * (2 * a / n) ** 2 / 2)
        rounds = [RANGES[0], *[RANGES[1]] * (k - 1)]
        return statistics + (d - 1) * sum(math.exp(-EPSILON * gap / (k * width)) for width in rounds)

    best = minimize_scalar(failure, bounds=(0.0, 1.0), method="bounded").fun
    return max(0.0, 1 - float(best))


def rows() -> Iterator[dict[str, str]]:
    """Yield a row for each world and number of records."""
    for world in WORLDS:
        plans = {penalty: world.plan(penalty) for penalty in PENALTIES}
        for n in RECORDS:
            row = {"world": world.name, "features": str(world.columns), "records": str(n)}
            for penalty, plan in plans.items():
                found = []
                for seed in range(TABLES):
                    prepared = prepare(plan, world.table(n, seed))
                    found += [
                        world.recovered(select(plan, prepared, 100 * seed + s)) for s in range(SELECTIONS)
                    ]
                row[penalty] = f"{np.mean(found):.2f}"
            yield row | {"promised for max": f"{promised(world, n):.2f}"}


def draw(found: list[dict[str, str]]) -> None:
    """Draw what is recovered against the number of records, a panel for each world."""
    import matplotlib as mpl  # noqa: PLC0415

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "dpkendall"
    import matplotlib.pyplot as plt  # noqa: PLC0415

    figure, panels = plt.subplots(1, len(WORLDS), figsize=(8, 3), sharey=True)
    lines = {"max": ("C0", "-"), "mean": ("C1", "-"), "promised for max": ("C0", ":")}
    for axes, world in zip(panels, WORLDS, strict=True):
        of = [row for row in found if row["world"] == world.name]
        for name, (color, style) in lines.items():
            label = {"mean": "mean (the paper's)"}.get(name, name)
            values = [float(row[name]) for row in of]
            axes.semilogx([int(row["records"]) for row in of], values, style, color=color, label=label)
        axes.set_title(world.name, fontsize=10)
        axes.set_xlabel("records")
    panels[0].set_ylabel("recovered")
    panels[0].legend(frameon=False, fontsize=8)
    figure.tight_layout()
    figure.savefig(HERE / "dpkendall-recovery.svg", metadata={"Date": None})


def main() -> None:
    """Measure, write and draw."""
    found = list(rows())
    keep("dpkendall-recovery", [*found[0]], [[*row.values()] for row in found])
    draw(found)


if __name__ == "__main__":
    main()
