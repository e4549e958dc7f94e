"""Draws ``engines.svg``: where records, sums, what is kept of records, and noise are, engine by engine.

::

    uv run python docs/engines_picture.py
"""

from __future__ import annotations

from pathlib import Path
from xml.sax.saxutils import escape

import attrs

PICTURE = Path(__file__).parent / "engines.svg"

WIDTH, PANEL, TOP, LINE, GAP = 760, 240, 40, 18, 13
INK, PRIVATE, PUBLIC = "#1f2933", "#f8d9cf", "#d5e8ef"


@attrs.frozen
class Place:
    """A place, what is there, and what goes from there to the next."""

    name: str
    holds: tuple[str, ...]
    private: bool = True
    sends: str = ""


RELEASE = Place("release", ("model, certificate",), private=False)
MACHINE = ("plan, budget, ledger", "sums", "noise, drawn here, once")

#: From left to right; from top to bottom what passes on to what.
PANELS: tuple[tuple[str, tuple[Place, ...]], ...] = (
    (
        "One machine",
        (
            Place("files or memory", ("records",), sends="blocks of records"),
            Place("your process", ("what is kept of records", *MACHINE), sends="noisy sums"),
            RELEASE,
        ),
    ),
    (
        "Dask, Spark",
        (
            Place("workers", ("records", "what is kept of records"), sends="exact sums of each part"),
            Place("your process", MACHINE, sends="noisy sums"),
            RELEASE,
        ),
    ),
    (
        "Federation",
        (
            Place(
                "each party",
                ("its records, what is kept", *MACHINE[:2], "its share of noise"),
                sends="masked",
            ),
            Place("server", ("total of masked sums",), private=False, sends="noisy total, to all parties"),
            RELEASE,
        ),
    ),
)


def box(place: Place, x: float, y: float) -> tuple[list[str], float]:
    """Return a place, and where it ends."""
    height = LINE * (len(place.holds) + 1) + 14
    fill = PRIVATE if place.private else PUBLIC
    texts = [f'<text x="{x + 12}" y="{y + 20}" class="name">{escape(place.name)}</text>']
    texts += [
        f'<text x="{x + 12}" y="{y + 20 + LINE * i}">{escape(held)}</text>'
        for i, held in enumerate(place.holds, start=1)
    ]
    frame = (
        f'<rect x="{x}" y="{y}" width="{PANEL - 16}" height="{height}" rx="6" fill="{fill}" stroke="{INK}"/>'
    )
    return [frame, *texts], y + height


def picture() -> str:
    """Return the SVG."""
    body, lowest = [], 0.0
    for i, (engine, places) in enumerate(PANELS):
        x, y = GAP + i * (PANEL + GAP / 2), float(TOP)
        body.append(f'<text x="{x}" y="{TOP - 14}" class="name">{escape(engine)}</text>')
        for place in places:
            drawn, y = box(place, x, y)
            body += drawn
            if place.sends:
                body.append(f'<path d="M{x + 24} {y} v26 m-5 -8 l5 8 l5 -8" fill="none" stroke="{INK}"/>')
                body.append(f'<text x="{x + 38}" y="{y + 18}">{escape(place.sends)}</text>')
                y += 28
        lowest = max(lowest, y)
    said = "; ".join(
        f"{engine}: " + ", then ".join(f"{p.name} with {', '.join(p.holds)}" for p in places)
        for engine, places in PANELS
    )
    height = lowest + GAP
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:g}" width="{WIDTH}" '
            f'height="{height:g}" role="img" aria-label="{escape(said)}">',
            f"<style>text {{ font-family: system-ui, sans-serif; font-size: 13px; fill: {INK} }} "
            ".name { font-weight: 600 }</style>",
            f'<rect width="{WIDTH}" height="{height:g}" fill="#ffffff"/>',
            *body,
            "</svg>",
            "",
        ]
    )


if __name__ == "__main__":
    PICTURE.write_text(picture(), encoding="utf-8")
