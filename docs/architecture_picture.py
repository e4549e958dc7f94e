"""Draws ``architecture.svg``: the rooms of the core on their floors, and the way of one row through them.

The floors are those of the import contract in pyproject.toml and the sentences those of the packages, so the
picture says what the code says. The steps of the way are written here; which module hands the row to the next
room is read from the imports::

    uv run python docs/architecture_picture.py
"""

from __future__ import annotations

import ast
import re
import textwrap
import tomllib
from pathlib import Path
from xml.sax.saxutils import escape

ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "docs/architecture.svg"

#: What hands the row to the core: a module of the command line, or any other program.
START = "dpkit_cli.request"

#: The modules that one private row passes, in that order, and what happens in each.
WAY = (
    ("pipeline.compose", "2 planned for, from public facts alone"),
    ("plugins.sources", "1 read by its source"),
    ("data.dataset", "1 encoded, by itself"),
    ("pipeline.runner", ""),
    ("protocols", "3 to 6 handed to the parts"),
    ("pipeline.meter", "5 noise drawn and recorded, in one call"),
    ("noise.sampler", "5 by exact noise"),
    ("release.certificate", "7 certified"),
)
PARTS = ("1 asked for", "3 scored", "4 selected on", "6 fitted", "8 shown")

WIDTH, CORE, MARGIN, GAP = 960, 740, 16, 10
ROOM, PITCH, TOP = 74, 86, 64
LETTERS_PER_PIXEL = 0.172
INK, LINE, ROOM_FILL, PART_FILL, WAY_FILL = "#1f2933", "#9aa5b1", "#eef2f7", "#fdf3e1", "#b4540a"


def floors() -> list[list[str]]:
    """Return the rooms of each floor, from the pipeline down to the errors."""
    document = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (contract,) = (c for c in document["tool"]["importlinter"]["contracts"] if c["type"] == "layers")
    return [floor.split(" | ") for floor in contract["layers"]]


def imported(module: str) -> set[str]:
    """Return the modules of the core that a module of it, or ``START``, imports."""
    path = ROOT / ("plugins/libraries/cli" if module == START else "dpkit_core") / module.replace(".", "/")
    tree = ast.parse(path.with_suffix(".py").read_text("utf-8"))
    found = [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    return {name.removeprefix("dpkit_core.") for name in found}


def entries() -> dict[str, tuple[str, str]]:
    """Return room -> the module that the row enters it by, and the one that imports it and hands the row on.

    Raises
    ------
    StopIteration
        If no module that the row has passed imports the first one of a room.
    """
    found: dict[str, tuple[str, str]] = {}
    passed = [START]
    for module, _ in WAY:
        room = module.partition(".")[0]
        if room not in found:
            found[room] = module, next(earlier for earlier in reversed(passed) if module in imported(earlier))
        passed.append(module)
    return found


def sentence(room: str) -> str:
    """Return the first sentence of a room's docstring."""
    folder = ROOT / "dpkit_core" / room
    path = folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")
    text = " ".join(
        (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").split("\n\n")[0].split()
    )
    return text.partition(". ")[0].rstrip(".:").replace("``", "")


def wrapped(text: str, width: float) -> list[str]:
    """Return the lines of a text in a box of that width."""
    return textwrap.wrap(text, int((width - 16) * LETTERS_PER_PIXEL))


def frame(x: float, y: float, width: float, height: float, fill: str) -> str:
    """Return a rectangle."""
    place = f'x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}"'
    return f'<rect {place} rx="6" fill="{fill}" stroke="{LINE}"/>'


def box(x: float, y: float, width: float, name: str) -> list[str]:
    """Return a room: its name, what it is for, and what happens to the row there."""
    said = sentence(name)
    lines = wrapped(said, width)
    if len(lines) > 2:
        lines = wrapped(re.split("[:,]", said)[0], width)[:2]
    done = "; ".join(step for module, step in WAY if module.partition(".")[0] == name and step)
    parts = [
        frame(x, y, width, ROOM, ROOM_FILL),
        f'<text x="{x + 8:g}" y="{y + 18:g}" class="name">{escape(name)}</text>',
    ]
    parts += [
        f'<text x="{x + 8:g}" y="{y + 34 + 13 * i:g}" class="said">{escape(line)}</text>'
        for i, line in enumerate(lines)
    ]
    if done:
        parts.append(f'<text x="{x + 8:g}" y="{y + ROOM - 8:g}" class="way">{escape(done)}</text>')
        entered, by = entries()[name]
        parts.append(
            f'<text x="{x + width - 8:g}" y="{y + 18:g}" class="way" text-anchor="end">'
            f"{escape(f'{by} → {entered}')}</text>"
        )
    return parts


def picture() -> str:
    """Return the SVG."""
    storeys = floors()
    height = TOP + PITCH * len(storeys) + MARGIN
    body = [
        f'<text x="{MARGIN}" y="26" class="title">dpkit_core: rooms import from the floors below only</text>',
        f'<text x="{MARGIN}" y="46" class="said">The numbers are the way of one private row, from a CSV '
        "file to its certificate; it enters each room once, by the import in the corner.</text>",
        f'<text x="{CORE + 2 * MARGIN}" y="26" class="title">plugins/</text>',
        f'<text x="{CORE + 2 * MARGIN}" y="46" class="said">distributions of their own</text>',
    ]
    top = {}
    for number, rooms in enumerate(storeys):
        width = (CORE - MARGIN - GAP * (len(rooms) - 1)) / len(rooms)
        y = TOP + PITCH * number
        top.update(dict.fromkeys(rooms, y))
        for place, room in enumerate(rooms):
            x = MARGIN + place * (width + GAP)
            body += box(x, y, width, room)
    # Parts stand beside the floors whose public names they import.
    x, y, width = CORE + 2 * MARGIN, top["plugins"], WIDTH - CORE - 3 * MARGIN
    bottom = TOP + PITCH * len(storeys) - (PITCH - ROOM)
    said = "Scorers, selectors, regressors, accountants, commands: public names of core and libraries alone"
    body += [
        frame(x, y, width, bottom - y, PART_FILL),
        f'<text x="{x + 8}" y="{y + 18}" class="name">parts</text>',
    ]
    lines = wrapped(said, width)
    body += [
        f'<text x="{x + 8}" y="{y + 34 + 13 * i}" class="said">{line}</text>' for i, line in enumerate(lines)
    ]
    start = y + 34 + 13 * len(lines) + 14
    body += [
        f'<text x="{x + 8}" y="{start + 18 * i}" class="way">{line}</text>' for i, line in enumerate(PARTS)
    ]
    body.append(
        f'<path d="M {x} {(y + bottom) / 2:g} h {CORE - x + 4}" stroke="{INK}" marker-end="url(#arrow)"/>'
    )
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" '
            f'height="{height}" role="img" aria-label="The rooms of dpkit_core on their floors">',
            f"<style>text {{ font-family: system-ui, sans-serif; fill: {INK} }} .title {{ font-size: 15px; "
            "font-weight: 600 } .name { font-size: 13px; font-weight: 600 } .said { font-size: 11px } "
            f".way {{ font-size: 11px; font-weight: 600; fill: {WAY_FILL} }}</style>",
            '<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" '
            f'orient="auto"><path d="M0 0 L8 4 L0 8 z" fill="{INK}"/></marker></defs>',
            f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
            *body,
            "</svg>",
            "",
        ]
    )


if __name__ == "__main__":
    PICTURE.write_text(picture(), encoding="utf-8")
