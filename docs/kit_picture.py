"""Draws ``kit.svg``: what the conformance kit found of each round of lies when it was first asked.

Read from ``tests/zoo/verdicts.csv``, where first verdicts are kept::

    uv run python docs/kit_picture.py
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from xml.sax.saxutils import escape

import attrs

ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "docs/kit.svg"
VERDICTS = ROOT / "tests/zoo/verdicts.csv"

SQUARE, STEP, ROW, TOP, LEFT = 10, 13, 28, 62, 212
INK, FOUND, MISSED, ALARM = "#1f2933", "#2f7f9d", "#ffffff", "#c2410c"

#: Who wrote the lies of a round, where it was not somebody who had not seen the kit.
KNEW = {1: "the kit of 0.1.0", 2: "knew the repairs", 3: "knew the repairs"}
UNSEEN = "had not seen the kit"


@attrs.frozen
class Round:
    """How many false parts that can be seen from outcomes were found, and honest ones blamed, of how many."""

    number: int
    found: int
    false: int
    blamed: int
    honest: int


def rounds() -> Iterator[Round]:
    """Yield the rounds as first verdicts have them; 0 is none: lies that came with the attack on them."""
    with VERDICTS.open(encoding="utf-8") as file:
        rows = [*csv.DictReader(file)]
    for number in sorted({int(row["round"]) for row in rows} - {0}):
        of_round = [row for row in rows if int(row["round"]) == number]
        false = [row for row in of_round if row["truth"] == "false" and row["seen"] == "outcomes"]
        honest = [row for row in of_round if row["truth"] == "honest"]

        def rejected(parts: list[dict[str, str]]) -> int:
            return sum(row["first verdict"].startswith("rejected") for row in parts)

        yield Round(number, rejected(false), len(false), rejected(honest), len(honest))


def square(x: float, y: float, fill: str, stroke: str) -> str:
    """Return one part."""
    return f'<rect x="{x:g}" y="{y:g}" width="{SQUARE}" height="{SQUARE}" fill="{fill}" stroke="{stroke}"/>'


def picture() -> str:
    """Return the SVG."""
    found = [*rounds()]
    widest = max(r.false for r in found)
    honest = LEFT + widest * STEP + 104
    width = honest + max(r.honest for r in found) * STEP + 16
    body = [
        f'<text x="{LEFT}" y="{TOP - 34}" class="name">false parts</text>',
        f'<text x="{honest}" y="{TOP - 34}" class="name">honest parts</text>',
        square(LEFT, TOP - 26, FOUND, FOUND),
        f'<text x="{LEFT + 19}" y="{TOP - 15}">rejected</text>',
        square(LEFT + 88, TOP - 26, MISSED, INK),
        f'<text x="{LEFT + 107}" y="{TOP - 15}">missed</text>',
        square(honest, TOP - 26, ALARM, ALARM),
        f'<text x="{honest + 19}" y="{TOP - 15}">rejected, too</text>',
    ]
    for i, r in enumerate(found):
        y = TOP + ROW * i
        body.append(f'<text x="16" y="{y + 10}"><tspan class="name">{r.number}</tspan></text>')
        body.append(f'<text x="40" y="{y + 10}">{escape(KNEW.get(r.number, UNSEEN))}</text>')
        body += [
            square(LEFT + STEP * j, y, *((FOUND, FOUND) if j < r.found else (MISSED, INK)))
            for j in range(r.false)
        ]
        told = LEFT + STEP * r.false + 8
        body.append(f'<text x="{told}" y="{y + 10}">{r.found} of {r.false}</text>')
        body += [
            square(honest + STEP * j, y, *((ALARM, ALARM) if j < r.blamed else (MISSED, FOUND)))
            for j in range(r.honest)
        ]
    said = "Of each round of false parts, how many the kit rejected when it was first asked: " + ", ".join(
        f"{r.number}: {r.found} of {r.false}" for r in found
    )
    height = TOP + ROW * len(found)
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
            f'height="{height}" role="img" aria-label="{escape(said)}">',
            f"<style>text {{ font-family: system-ui, sans-serif; font-size: 13px; fill: {INK} }} "
            ".name { font-weight: 600 }</style>",
            f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
            *body,
            "</svg>",
            "",
        ]
    )


if __name__ == "__main__":
    PICTURE.write_text(picture(), encoding="utf-8")
