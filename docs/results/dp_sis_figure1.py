"""Figure 1 of DP-SIS: how often each feature is selected without any privacy, by two-stage and by SIS.

python docs/results/dp_sis_figure1.py

Writes ``dp-sis-figure1.svg`` beside this file and prints the share of the five relevant features. Two-stage
fits a Lasso with penalty 0.1 to each of ten blocks of ten records and selects the five features that are
most often in the supports, ties broken at random.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
import numpy as np
import numpy.typing as npt
from dpkit_command_bench.generators import Synthetic, five_ones
from dpkit_scorer_lasso_votes.lasso_votes import elect
from matplotlib import pyplot as plt

REPETITIONS = 1000
RELEVANT = 5
EXPERIMENTS = {"W1": False, "W1/W2": True}

Counts = npt.NDArray[np.int64]


def sis(table: Synthetic) -> npt.NDArray[np.int64]:
    """Return the features of largest absolute correlation."""
    X, y = table.X - table.X.mean(axis=0), table.y - table.y.mean()
    return np.argsort(-np.abs(X.T @ y) / np.linalg.norm(X, axis=0))[:RELEVANT]


def two_stage(table: Synthetic, rng: np.random.Generator) -> npt.NDArray[np.int64]:
    """Return the features that most blocks of ten records have in the support of their Lasso fit."""
    records, features = table.X.shape
    votes = np.zeros(features)
    for block in np.split(np.arange(records), records // 10):
        votes[elect(table.X[block], table.y[block], 0.1, features)] += 1
    return np.argsort(-votes + rng.random(features) / 2)[:RELEVANT]


def occurrences(outliers: bool) -> tuple[Counts, Counts]:
    """Return how often two-stage and SIS select each feature."""
    two, one = np.zeros(100, dtype=np.int64), np.zeros(100, dtype=np.int64)
    for seed in range(REPETITIONS):
        rng = np.random.default_rng(seed)
        table = five_ones(rng, outliers=outliers)
        one[sis(table)] += 1
        two[two_stage(table, rng)] += 1
    return two, one


def main() -> None:
    """Count, print and draw."""
    # The same counts make the same file.
    mpl.rcParams.update({"svg.hashsalt": "dp-sis", "svg.fonttype": "none"})
    figure, axes = plt.subplots(2, 2, figsize=(9, 4.5), sharex=True, sharey=True, layout="constrained")
    feature = np.arange(1, 101)
    for row, (name, outliers) in zip(axes, EXPERIMENTS.items(), strict=True):
        for axis, method, counts in zip(row, ("two-stage", "SIS"), occurrences(outliers), strict=True):
            share = counts[:RELEVANT].sum() / (RELEVANT * REPETITIONS)
            print(
                f"{name}, {method}: {share:.3f} of the relevant features; features 96 to 100: "
                f"{counts[-RELEVANT:].sum()} times"
            )
            axis.bar(feature, counts, width=1.0, color=["#c44e52"] * RELEVANT + ["#4c72b0"] * 95)
            axis.set_title(f"{name}, {method}: {100 * share:.0f}% of the relevant features", fontsize=10)
            axis.spines[["top", "right"]].set_visible(False)
            axis.set_xlim(0, 101)
            axis.axhline(REPETITIONS, color="0.6", linewidth=0.8, linestyle=":")
    figure.supxlabel("feature; 1 to 5 (red) are relevant", fontsize=10)
    figure.supylabel(f"times selected, of {REPETITIONS}", fontsize=10)
    figure.savefig(Path(__file__).with_name("dp-sis-figure1.svg"), metadata={"Date": None})


if __name__ == "__main__":
    main()
