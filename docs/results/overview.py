"""dpkit, DP-EBM, diffprivlib and no privacy on twelve tables at epsilon 1: ``overview.svg``.

uv run --with diffprivlib==0.6.6 --with "scikit-learn<1.9" python docs/results/overview.py TABLES

draws what ``tables/trees-one-split.csv`` and ``tables/trees-dp-ebm.csv`` have, and measures diffprivlib's
linear regression on the same split, the median of five seeds: ``tables/overview-diffprivlib.csv``. Without
TABLES it only draws. All private ones but ``winsorized`` are told the ranges of the data; research, not
releases.
"""

from __future__ import annotations

import csv
import statistics
import sys
import warnings
from pathlib import Path

import numpy as np
from pages import keep, r_squared
from trees import FOLDS, named, read
from trees import tables as tables_of

HERE = Path(__file__).parent / "tables"
EPSILON, SEEDS = 1.0, 5
LEAST = -0.06  # what is below is off the picture
PEER = HERE / "overview-diffprivlib.csv"
#: Label, file, column, what of a cell with a slash, and how it is drawn: round for trees, square for lines.
SERIES = (
    ("trees, no privacy", "trees-one-split.csv", "HGBR", 0, ("o", "black", False)),
    ("line, no privacy", "trees-one-split.csv", "OLS", 0, ("s", "black", False)),
    ("dpkit's trees", "trees-one-split.csv", "1 told ranges", 0, ("o", "C0", True)),
    (
        "dpkit's line",
        "trees-one-split.csv",
        "1 winsorized",
        0,
        ("s", "C0", True),
    ),
    ("DP-EBM, best of 13 settings", "trees-dp-ebm.csv", "1", 1, ("o", "C1", True)),
    ("DP-EBM, defaults", "trees-dp-ebm.csv", "1", 0, ("o", "C1", False)),
    ("diffprivlib's line", PEER.name, "R2", 0, ("s", "C2", True)),
)


def measured(folder: Path) -> dict[str, float]:
    """Return R^2 of diffprivlib's regression by table."""
    from diffprivlib.models import LinearRegression  # noqa: PLC0415

    found = {}
    for path in tables_of(folder, np.inf):
        X, y, _ = read(path, ranges=True)
        test = np.random.default_rng(0).permutation(len(y))[0::FOLDS]
        train = np.setdiff1d(np.arange(len(y)), test)
        low, high = X.min(axis=0), X.max(axis=0)
        bounds = (low, np.where(high > low, high, low + 1))
        scores = []
        for seed in range(SEEDS):
            model = LinearRegression(
                epsilon=EPSILON, bounds_X=bounds, bounds_y=(y.min(), y.max()), random_state=seed
            )
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                predicted = model.fit(X[train], y[train]).predict(X[test])
            scores.append(r_squared(y[test], predicted))
        found[named(path)] = statistics.median(scores)
    return found


def values(file: str, column: str, part: int) -> dict[str, float]:
    """Return the numbers of a column by table; refusals are left out."""
    with (HERE / file).open(encoding="utf-8", newline="") as opened:
        rows = list(csv.DictReader(opened))
    cells = {row["table"]: row[column].split(" / ")[part] for row in rows}
    return {table: float(cell) for table, cell in cells.items() if cell != "refused"}


def draw() -> None:
    """Draw a row for each table, and a mark for each method."""
    import matplotlib as mpl  # noqa: PLC0415

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "overview"
    import matplotlib.pyplot as plt  # noqa: PLC0415

    order = sorted(values(*SERIES[0][1:4]), key=values(*SERIES[0][1:4]).__getitem__)
    figure, axes = plt.subplots(figsize=(8, 4.5))
    for label, file, column, part, (marker, color, filled) in SERIES:
        found = values(file, column, part)
        style = {"edgecolor": color, "facecolor": color if filled else "none", "zorder": 3 + (not filled)}
        axes.scatter([], [], marker=marker, label=label, **style)
        for table, score in found.items():
            shape, place = (marker, score) if score > LEAST else ("<", LEAST)
            axes.scatter(place, order.index(table), marker=shape, s=36 if filled else 52, **style)
    axes.set_yticks(range(len(order)), order)
    axes.grid(axis="y", color="0.9")
    axes.axvline(0, color="0.7", linewidth=0.8)
    axes.set_xlim(LEAST - 0.03, 1.02)
    axes.set_xlabel("R² on records held out, epsilon 1 (◂ below 0)")
    axes.legend(frameon=False, fontsize=8, loc="upper center", bbox_to_anchor=(0.4, 1.17), ncols=4)
    figure.tight_layout()
    figure.savefig(Path(__file__).with_name("overview.svg"), metadata={"Date": None})


def main(folder: Path | None) -> None:
    """Measure diffprivlib where there are tables, and draw."""
    if folder is not None:
        keep(PEER.stem, ["table", "R2"], ([name, f"{score:.3g}"] for name, score in measured(folder).items()))
    draw()


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
