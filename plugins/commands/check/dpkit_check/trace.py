"""Compares the noise that a part asks for on two datasets, without looking at any value.

Which mechanism is called how often, with which scale, on how many numbers: all of that is visible, or follows
from public facts, or the plan would not hold. If it differs between two datasets, then it was computed from
private data, as when a scale is divided by the number of records. One run finds what no sampling would.
"""

from __future__ import annotations

from collections.abc import Sequence

from dpkit_core.pipeline.meter import Draw
from dpkit_core.text import number_of


def trace_difference(first: Sequence[Draw], second: Sequence[Draw], *, refused: bool = False) -> str | None:
    """Return a sentence on the first difference between two traces, or None where they agree.

    Parameters
    ----------
    first, second
        Draws of two runs with the same seed.
    refused
        Whether one of the runs ended in a refusal, after which nothing more is drawn.

    Examples
    --------
    >>> from dpkit_core.privacy.events import Laplace
    >>> trace_difference([Draw(Laplace(1.0), 1.0, ())], [Draw(Laplace(1.0), 0.95, ())])
    'draw 1 has scale 1.0 on one dataset and 0.95 on the other'
    """
    for number, (one, other) in enumerate(zip(first, second, strict=False), start=1):
        for fact in ("event", "scale", "shape"):
            if getattr(one, fact) != getattr(other, fact):
                return (
                    f"draw {number} has {fact} {getattr(one, fact)} on one dataset and "
                    f"{getattr(other, fact)} on the other"
                )
        if not refused and _scales(one) != _scales(other):
            return f"draw {number} has noise of other scales inside it: {_scales(one)} and {_scales(other)}"
    if len(first) != len(second) and not refused:
        return f"{number_of(len(first), 'draw')} on one dataset and {len(second)} on the other"
    return None


def _scales(draw: Draw) -> set[tuple[str, float]]:
    """Return the noise with a scale that a custom mechanism drew; how often may depend on the data."""
    return {(call.method, call.scale) for call, _ in draw.calls if call.scale is not None}
