"""Draws ``pipeline.svg``: how a budget flows through the pipeline of the README.

The shares and the total are those of the plan, so the picture says what the plan says::

    uv run python docs/pipeline_picture.py
"""

from __future__ import annotations

import itertools
from pathlib import Path
from xml.sax.saxutils import escape

from dpkit_core import Budget, Plan, Schema, compose
from dpkit_core.privacy.budget import rounded_up

ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "docs/pipeline.svg"

WIDTH, HEIGHT = 960, 348
BOX, TALL, TOP = 168, 92, 128  # of the boxes of the table and the parts, and where they begin
FLOW = 44  # the width of the whole budget, in pixels
INK, LINE, PRIVATE, PART, PUBLIC, METER = "#1f2933", "#9aa5b1", "#fbe9e7", "#fdf3e1", "#e8f3ec", "#eef2f7"
BUDGET = "#2f7f9d"

#: Name of a box, what it is called there, and what it says; None stands for a part of the plan.
STEPS = (
    ("table", "a private table", ("rows nobody may see", "a public schema")),
    ("scorer", None, ("how relevant is", "each feature?")),
    ("selector", None, ("releases the best,", "by noisy choices")),
    ("regressor", None, ("releases a model", "of these features")),
    ("release", "release.json", ("features, model and", "a certificate")),
)
FILLS = {"table": PRIVATE, "release": PUBLIC}


def plan() -> Plan:
    """Return the plan of the first command of the README."""
    schema = Schema.read(ROOT / "docs/data/diamonds.schema.toml")
    pipeline = compose(scorer="kendall", selector="peel", regressor="tukey")
    return pipeline.plan(schema, Budget(1.0, 1e-6))


def text(x: float, y: float, line: str, style: str) -> str:
    """Return a line of text, centered."""
    return f'<text x="{x:g}" y="{y:g}" class="{style}">{escape(line)}</text>'


def box(x: float, name: str, title: str, lines: tuple[str, ...]) -> list[str]:
    """Return a step of the pipeline."""
    middle = x + BOX / 2
    return [
        f'<rect x="{x:g}" y="{TOP}" width="{BOX}" height="{TALL}" rx="8" fill="{FILLS.get(name, PART)}" '
        f'stroke="{LINE}"/>',
        text(middle, TOP + 24, title, "name"),
        *(text(middle, TOP + 48 + 18 * i, line, "said") for i, line in enumerate(lines)),
    ]


def stream(top: float, x: float, width: float) -> str:
    """Return a part of the budget that leaves the flow at ``top`` and falls into a box at ``x``."""
    return (
        f'<rect x="{x - width / 2:g}" y="{top:g}" width="{width:g}" height="{TOP - top:g}" fill="{BUDGET}"/>'
    )


def picture() -> str:
    """Return the SVG."""
    planned = plan()
    gap = (WIDTH - 32 - BOX * len(STEPS)) / (len(STEPS) - 1)
    left = {name: 16 + i * (BOX + gap) for i, (name, _, _) in enumerate(STEPS)}
    middle = {name: x + BOX / 2 for name, x in left.items()}
    parts = {part.role: part.name for part in planned.parts}
    body: list[str] = []
    for name, title, lines in STEPS:
        body += box(left[name], name, title or f"{name} {parts[name]}", lines)
    for (before, *_), (after, *_) in itertools.pairwise(STEPS):
        start = left[before] + BOX
        body.append(f'<path d="M{start:g} {TOP + TALL / 2} H{left[after] - 2:g}" class="to"/>')

    # The budget enters above the table. Each stage takes its share, drawn as wide as it is large.
    shares = {"selector": planned.select_share, "regressor": 1 - planned.select_share}
    total = f"epsilon {planned.budget.epsilon:g}, delta {planned.budget.delta:g}"
    top, end = 44.0, middle["regressor"]
    narrow = FLOW * shares["selector"]
    wide = FLOW - narrow
    enters = left["table"]
    body += [
        f'<text x="{enters:g}" y="{top - 12:g}" class="name first">the budget: {total}</text>',
        f'<rect x="{enters:g}" y="{top:g}" width="{end + wide / 2 - enters:g}" height="{wide:g}" '
        f'fill="{BUDGET}"/>',
        f'<rect x="{enters:g}" y="{top + wide:g}" width="{middle["selector"] + narrow / 2 - enters:g}" '
        f'height="{narrow:g}" fill="{BUDGET}"/>',
        stream(top + wide, middle["selector"], narrow),
        stream(top, end, wide),
        text(middle["selector"] + 24, TOP - 10, f"{100 * shares['selector']:g}%", "name"),
        text(end + FLOW / 2 + 26, TOP - 10, f"{100 * shares['regressor']:g}%", "name"),
    ]

    # Below: the meter draws all noise, the accountant adds up what the meter noted.
    y = TOP + TALL + 44
    assert planned.epsilon is not None
    meter_end = left["regressor"] + BOX
    body += [
        f'<rect x="{left["selector"]:g}" y="{y}" width="{meter_end - left["selector"]:g}" height="68" rx="8" '
        f'fill="{METER}" stroke="{LINE}"/>',
        text((left["selector"] + meter_end) / 2, y + 28, "the meter", "name"),
        text((left["selector"] + meter_end) / 2, y + 50, "draws all noise, and notes each draw", "said"),
        f'<rect x="{left["release"]:g}" y="{y}" width="{BOX}" height="68" rx="8" fill="{METER}" '
        f'stroke="{LINE}"/>',
        text(middle["release"], y + 28, f"accountant {parts['accountant']}", "name"),
        text(middle["release"], y + 50, f"total: epsilon {rounded_up(planned.epsilon, 5)}", "said"),
        f'<path d="M{meter_end:g} {y + 34} H{left["release"] - 2:g}" class="to"/>',
        f'<path d="M{middle["release"]:g} {y} V{TOP + TALL + 2}" class="to"/>',
    ]
    for name in ("selector", "regressor"):
        body.append(
            f'<path d="M{middle[name]:g} {TOP + TALL + 2} V{y - 2}" stroke="{INK}" marker-end="url(#a)" '
            'marker-start="url(#a)"/>'
        )
    said = (
        "A private table passes a scorer, a selector and a regressor and becomes a release. Of the budget, "
        f"{total}, the selector gets {100 * shares['selector']:g}% and the regressor the rest. The meter "
        "draws all noise, the accountant adds up."
    )
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" '
            f'height="{HEIGHT}" role="img" aria-label="{escape(said)}">',
            f"<style>text {{ font-family: system-ui, sans-serif; fill: {INK}; text-anchor: middle }} "
            ".name { font-size: 14px; font-weight: 600 } .said { font-size: 13px } "
            f".first {{ text-anchor: start }} .to {{ stroke: {INK}; marker-end: url(#a) }}</style>",
            '<defs><marker id="a" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" '
            f'orient="auto-start-reverse"><path d="M0 0 L8 4 L0 8 z" fill="{INK}"/></marker></defs>',
            f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
            *body,
            "</svg>",
            "",
        ]
    )


if __name__ == "__main__":
    PICTURE.write_text(picture(), encoding="utf-8")
