"""The page about a folder of results: the content from a reader of the folder, drawn line by line.

A reader is a function by an entry point of the group ``dpkit.reports``. Given a folder, it returns None if
the folder is not one of its own, or plain data: ``title``; ``notes``, sentences; ``metric``; ``larger``,
whether larger is better; ``tables``, each with ``name``, ``facts``, ``reference`` (None, or ``name`` and
``value`` without privacy) and ``lines``, each with ``name``, ``epsilon``, ``quartiles`` (None, or three
numbers, of which any may be infinite), ``trials``, ``refused`` and ``failed``; and ``ranking``, a ``header``
and ``rows`` of texts.

A line is drawn from its lower to its upper quartile with a dot at the median, the reference as a line across,
and the share of refused trials as stripes, since a refusal has no value.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import attrs

from dpkit_command_report.page import template
from dpkit_core.errors import InvalidOption, install
from dpkit_core.plugins.registry import load_target
from dpkit_core.plugins.resources import resources

#: The least value of a picture if larger is better and 1 is best, as for R2; worse values are drawn there.
FLOOR = -0.25


def read_results(folder: Path) -> Mapping[str, Any]:
    """Return the content of a folder, from the first installed reader that recognizes it.

    Raises
    ------
    InvalidOption
        If no installed reader does.
    """
    for ref in resources("reports"):
        found: Mapping[str, Any] | None = load_target(ref)(folder)
        if found is not None:
            return found
    raise InvalidOption(
        f"no installed plugin reads the folder {folder}; give a release file, or a folder that `dpkit bench` "
        f"wrote, with this installed: {install('[bench]')}"
    )


@attrs.frozen
class PictureScale:
    """A map from values to positions in a picture, in percent of its width."""

    low: float
    high: float

    @classmethod
    def of(cls, values: Iterable[float], *, larger: bool) -> PictureScale:
        """Return the scale of values, from 0 or the least value shown, to the largest finite one."""
        finite = [value for value in values if math.isfinite(value)] or [1.0]
        low = max(min(0.0, *finite), FLOOR) if larger else 0.0
        return cls(low, max(*finite, low + 1e-9, 1.0 if larger else low))

    def place(self, value: float) -> float:
        """Return the position of a value, clipped to the ends."""
        share = (value - self.low) / (self.high - self.low) if math.isfinite(value) else float(value > 0)
        return round(100 * min(max(share, 0.0), 1.0), 3)


@attrs.frozen
class PictureLine:
    """A line of a table, as text and as positions."""

    name: str
    epsilon: str
    median: str
    between: str
    refused: str
    places: tuple[float, ...] | None
    stripes: float
    says: str


@attrs.frozen
class Picture:
    """The lines of one table."""

    name: str
    facts: str
    lines: tuple[PictureLine, ...]
    reference: str | None
    across: float | None
    low: str
    high: str


def page_of_results(document: Mapping[str, Any], name: str) -> str:
    """Return the page about a folder called ``name``, with the content ``document``."""
    return template("results.html").render(
        name=name,
        title=document["title"],
        notes=document["notes"],
        metric=document["metric"],
        ranking=document["ranking"],
        pictures=[_picture(table, larger=document["larger"]) for table in document["tables"]],
    )


def _picture(table: Mapping[str, Any], *, larger: bool) -> Picture:
    reference = table["reference"]
    values = [value for line in table["lines"] for value in line["quartiles"] or ()]
    values += [] if reference is None else [reference["value"]]
    scale = PictureScale.of(values, larger=larger)
    return Picture(
        table["name"],
        table["facts"],
        tuple(_line(line, scale) for line in table["lines"]),
        None if reference is None else f"{reference['name']}: {_number(reference['value'])}",
        None if reference is None else scale.place(reference["value"]),
        _number(scale.low),
        _number(scale.high),
    )


def _line(line: Mapping[str, Any], scale: PictureScale) -> PictureLine:
    quartiles, trials, refused = line["quartiles"], line["trials"], line["refused"]
    lost = [f"{count} {word}" for word in ("refused", "failed") if (count := line[word])]
    told = f"{' and '.join(lost)} of {trials}" if lost else "none"
    unreached = quartiles is None or not math.isfinite(quartiles[1])
    median = "refused" if unreached and refused else "none" if unreached else _number(quartiles[1])
    between = "" if unreached else f"{_number(quartiles[0])} to {_number(quartiles[2])}"
    epsilon = "" if line["epsilon"] is None else f"{line['epsilon']:g}"
    return PictureLine(
        line["name"],
        epsilon,
        median,
        between,
        told,
        None if unreached else tuple(map(scale.place, quartiles)),
        round(100 * refused / trials, 3) if trials else 0.0,
        f"{line['name']} at epsilon {epsilon}: median {median}, quartiles {between or 'none'}, refused or "
        f"failed: {told}",
    )


def _number(value: float) -> str:
    return f"{value:.3g}" if math.isfinite(value) else "refused"
