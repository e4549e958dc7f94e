"""Draws pictures of results pages from their tables: a row for each table, a dot for each method.

Numbers are read from ``docs/results/tables``::

    uv run python docs/results_pictures.py
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from xml.sax.saxutils import escape

import attrs

RESULTS = Path(__file__).parent / "results"
INK, GRID = "#1f2933", "#d5dce3"
COLORS = ("#2f7f9d", "#c2410c", "#6b7f2a", "#7b5ea7")
RADII = (6.5, 5.5, 4.5, 3.5)  # a dot on another leaves a ring of it
WIDTH, ROW, TOP, STEP = 470, 19, 54, 175


@attrs.frozen
class Dots:
    """A table to draw: which of its columns are methods, under which names, and between which numbers.

    With ``powers``, dots are at the logarithms to base 10, and ``low`` and ``high`` are exponents.
    """

    table: str
    label: str
    methods: Mapping[str, str]
    low: float = 0.0
    high: float = 1.0
    only: Mapping[str, str] = attrs.field(factory=dict)
    name: tuple[str, ...] = ("table",)
    powers: bool = False


PICTURES = {
    "trees": Dots(
        "trees-one-split",
        "test R² at epsilon 1",
        {
            "OLS": "least squares, no privacy",
            "1 winsorized": "winsorized_least_squares",
            "1 told nothing": "boosted_trees",
            "HGBR": "scikit-learn, no privacy",
        },
    ),
    "s-gbdt-tables": Dots(
        "s-gbdt-other-tables",
        "mean test R² at epsilon 0.5",
        {"dpboost": "dpboost", "winsorized": "winsorized", "DP-EBM": "DP-EBM", "sgbdt": "sgbdt"},
        only={"epsilon": "0.5"},
    ),
    "shapes": Dots(
        "shapes",
        "median test R² of winsorized_least_squares",
        {
            "least squares": "no privacy",
            "0.1, by the rule": "epsilon 0.1",
            "1.1, by the rule": "epsilon ln 3",
        },
    ),
    "dp-sis": Dots(
        "dp-sis-1000-records",
        "share of the relevant features that peel finds, with delta 1e-6",
        {"0.5": "epsilon 0.5", "1": "1", "2": "2", "10": "10"},
        only={"selector": "peel, delta 1e-6"},
        name=("scorer",),
    ),
    "screening": Dots(
        "screening-uncorrelated",
        "synthetic data, epsilon 5",
        {"F1": "F1", "share of coefficients": "share of coefficients kept"},
        name=("",),
    ),
    "features": Dots(
        "penalties-k5",
        "mean test R² with five features",
        {
            "kendall none": "kendall, no penalty",
            "kendall mean": "mean",
            "kendall max": "max (default)",
            "spearman max": "spearman",
        },
    ),
    "intervals": Dots(
        "intervals",
        "share of 95 % intervals that hold the truth",
        {"worst coefficient": "worst coefficient", "intervals that hold the truth": "all coefficients"},
        low=85.0,
        high=100.0,
        name=("table", "records", "epsilon"),
    ),
    "linear-regression": Dots(
        "linear-regression",
        "median test R² of 20 runs, 20 features",
        {"d = 20, epsilon 0.1": "epsilon 0.1", "d = 20, epsilon 1": "1", "d = 20, epsilon 10": "10"},
        name=("",),
    ),
    "units": Dots(
        "units",
        "median test R² of winsorized_least_squares at epsilon 1",
        {
            "most_records 1": "most_records 1",
            "most_records 4": "4",
            "most_records 16": "16",
            "naive factor": "naive factor",
        },
        only={"regressor": "winsorized_least_squares"},
    ),
    "beside": Dots(
        "beside", "median R² on held-out diamonds, epsilon 1", {"R², median": "R²"}, name=("fit",)
    ),
    "elsewhere": Dots(
        "elsewhere",
        "epsilon, by two tables that differ in one record",
        {"claimed": "claimed", "proved": "proved (at least)"},
        high=5.0,
        only={"fault": "proved"},
        name=("function",),
    ),
    "speed": Dots(
        "speed",
        "processor time of the alternative over dpkit's",
        {"reached": "reached", "goal": "goal"},
        low=-2.0,
        high=3.0,
        name=("row",),
        powers=True,
    ),
}


def rows(dots: Dots) -> Iterator[tuple[str, list[float | None]]]:
    """Yield the name of each row and its numbers; None where there is no model."""
    with (RESULTS / "tables" / f"{dots.table}.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if (
                all(row[column] == value for column, value in dots.only.items())
                and row[dots.name[0]] != "mean"
            ):
                found = [re.match(r"-?[\d.]+(e[+-]?\d+)?", row[column]) for column in dots.methods]
                values = [float(f[0]) if f else None for f in found]
                if dots.powers:
                    values = [None if value is None else math.log10(value) for value in values]
                yield ", ".join(row[part] for part in dots.name), values


def picture(name: str) -> str:
    """Return the SVG of a page; a number below the scale is a triangle at its left end."""
    dots = PICTURES[name]
    found = [*rows(dots)]
    bottom = TOP + ROW * len(found)
    left = 24 + 7.3 * max(len(row) for row, _ in found)  # as wide as letters of common fonts are

    def x(value: float) -> float:
        return left + WIDTH * (value - dots.low) / (dots.high - dots.low)

    body = [f'<text x="{left:g}" y="18" class="name">{escape(dots.label)}</text>']
    for i in range(6):
        tick = dots.low + (dots.high - dots.low) * i / 5
        body.append(
            f'<line x1="{x(tick):g}" x2="{x(tick):g}" y1="{TOP - 8}" y2="{bottom - 4}" stroke="{GRID}"/>'
        )
        shown = 10**tick if dots.powers else tick
        body.append(f'<text x="{x(tick):g}" y="{bottom + 12}" text-anchor="middle">{shown:g}</text>')
    for i, (color, told) in enumerate(zip(COLORS, dots.methods.values(), strict=False)):
        body.append(f'<circle cx="{left + 5 + STEP * i:g}" cy="33" r="{RADII[i]}" fill="{color}"/>')
        body.append(f'<text x="{left + 15 + STEP * i:g}" y="37">{escape(told)}</text>')
    for i, (row, values) in enumerate(found):
        y = TOP + ROW * i + 4
        body.append(f'<text x="{left - 12:g}" y="{y + 4}" text-anchor="end">{escape(row)}</text>')
        for color, radius, value in zip(COLORS, RADII, values, strict=False):
            if value is None:
                continue
            if value < dots.low:
                body.append(f'<path d="M{left - 7:g} {y} l9 -5 v10 z" fill="{color}"/>')
            else:
                body.append(f'<circle cx="{x(value):.1f}" cy="{y}" r="{radius}" fill="{color}"/>')
    width = left + max(WIDTH + 30, STEP * len(dots.methods))
    height = bottom + 24
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height}" width="{width:g}" '
            f'height="{height}" role="img" aria-label="{escape(dots.label)}">',
            f"<style>text {{ font-family: system-ui, sans-serif; font-size: 12px; fill: {INK} }} "
            ".name { font-weight: 600 }</style>",
            f'<rect width="{width:g}" height="{height}" fill="#ffffff"/>',
            *body,
            "</svg>",
            "",
        ]
    )


if __name__ == "__main__":
    for page in PICTURES:
        (RESULTS / f"{page}.svg").write_text(picture(page), encoding="utf-8")
