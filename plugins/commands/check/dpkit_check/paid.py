"""What a delta pays for: the answers after which neighbors do something else.

Let E be the answers after which two neighbors release something else, or ask what no noise covers. Where the
answers alone are (epsilon, 0)-close, the chance of an outcome on one of them is at most e^epsilon times that
on the other, plus the chance of E: outside of E the release is the same function of the answers. So the
chance of E has to be at most the delta that was planned, in both orders. Where E is a half-line of one
Laplace answer, which is the first, that chance is exact; elsewhere, runs that all end in E refute it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np

from dpkit_check.instrument import Transcript
from dpkit_core.privacy.events import expand, walk
from dpkit_core.protocols import StagePlan

Outcome: TypeAlias = tuple[bool, Transcript, Transcript]
"""Whether neighbors differed after the same answers, and what both asked."""

Runs: TypeAlias = Callable[[Sequence[Any], int], Outcome]
"""Runs both neighbors with the first answers given and a seed for the others; the first of them draws."""

# Runs that all differ, although each may with a chance of delta at most.
_CERTAIN = 1e-12
MOST_RUNS = 60

# Scales beyond which noise does not come, and steps until its chance is exact.
_FAR, _HALVINGS = 200.0, 60

# Scales beyond the place where E begins, at which it must not end.
_BEYOND = (0.0, 1e-6, 0.1, 0.5, 1.0, 2.0, 5.0, 20.0, 100.0)

# Scales about the center at which other answers must not matter; and how far outside of where they would.
_AMONG, _JUST = (-2.0, 0.0, 2.0), 1e-6


def planned_delta(plan: StagePlan) -> float:
    """Return the sum of the deltas of all events."""
    return math.fsum(getattr(one, "delta", 0.0) for event in expand(plan.events) for one in walk(event))


def certain(delta: float) -> int:
    """Return in how many runs a delta does not fail each time."""
    return max(1, math.ceil(math.log(_CERTAIN) / math.log(delta))) if 0 < delta < 1 else 2 * MOST_RUNS


def unpaid(runs: Runs, delta: float, seed: int = 0) -> str:
    """Return why the delta does not pay for how neighbors differ; nothing where it does, or may."""
    needed = certain(delta)
    differs, first, second = runs((), seed)
    if first.opaque or second.opaque:
        return ""
    more = range(1, needed if needed <= MOST_RUNS else 0)
    if differs and more and all(runs((), seed + 7919 * number)[0] for number in more):
        return f"neighbors differ in each of {needed} runs, and delta {delta:.3g} pays for few"
    for chance, place in _half_lines(runs, first, second, seed, delta * (1 + 1e-6)):
        return (
            f"neighbors differ after answers beyond {place:.6g}, which have a chance of {chance:.3g}: "
            f"{chance / delta:.4g} times the delta that is planned, {delta:.3g}"
        )
    if (chance := _of_several(runs, first, second, seed, delta)) > delta * (1 + 1e-6):
        return (
            f"neighbors differ after any of {len(first.mine)} answers beyond a place, which have a chance of "
            f"{chance:.3g}: {chance / delta:.4g} times the delta that is planned, {delta:.3g}"
        )
    return ""


def _of_several(runs: Runs, first: Transcript, second: Transcript, seed: int, delta: float) -> float:
    """Return the chance of any of a part's own Laplace answers after which neighbors differ; 0 if unknown.

    Each is in a half-line by itself, wherever all others are outside of theirs. The noise of each is its own,
    so that the chances of none multiply; unless what is asked depends on answers before.
    """
    ones, others = _laplace(first), _laplace(second)
    if len(ones) < 2 or [one[::2] for one in ones] != [other[::2] for other in others]:
        return 0.0
    shapes, scales = [one[0] for one in ones], [one[2] for one in ones]
    depends = False

    def differ(answers: Sequence[float]) -> bool:
        nonlocal depends
        found = runs([np.full(s, a)[()] for s, a in zip(shapes, answers, strict=True)], seed)
        depends = depends or not (_as_before(found[1], first) and _as_before(found[2], second))
        return found[0]

    for sign in (1.0, -1.0):
        nearer = [max(sign * one[1], sign * other[1]) for one, other in zip(ones, others, strict=True)]
        far, begin = (
            [sign * (near + scale * steps) for near, scale in zip(nearer, scales, strict=True)]
            for steps in (-_FAR, _quantile(delta / len(ones)))
        )
        if differ(far) or not differ(begin):
            continue
        ends: dict[int, float] = {}
        for i, scale in enumerate(scales):

            def alone(answer: float, i: int = i, far: Sequence[float] = far) -> bool:
                return differ([*far[:i], answer, *far[i + 1 :]])

            if all(alone(begin[i] + sign * step * scale) for step in _BEYOND):
                ends[i] = _end(alone, far[i], begin[i])
        # The others where they mostly are, and just outside of their half-lines.
        for steps in (*_AMONG, _FAR):
            beside = [
                sign * min(near + scale * steps, sign * ends.get(j, sign * near) - scale * _JUST)
                for j, (near, scale) in enumerate(zip(nearer, scales, strict=True))
            ]
            ends = {i: end for i, end in ends.items() if differ([*beside[:i], end, *beside[i + 1 :]])}
        if ends and not depends:
            beyond = [_tail((sign * end - nearer[i]) / scales[i]) for i, end in ends.items()]
            return -math.expm1(math.fsum(math.log1p(-min(chance, 1 - 2.0**-53)) for chance in beyond))
    return 0.0


def _as_before(transcript: Transcript, before: Transcript) -> bool:
    """Return whether a run asked for the same numbers as one before, which it may have ended ahead of."""
    both = zip(transcript.asked, before.asked, strict=False)
    return all(
        one is not None
        and other is not None
        and one.scale == other.scale
        and np.array_equal(one.values, other.values)
        for one, other in both
    )


def _laplace(transcript: Transcript) -> list[tuple[tuple[int, ...], float, float]]:
    """Return shape, center and scale of each answer, if all are the part's own numbers with Laplace noise."""
    asked = [one for one in transcript.asked if one is not None and one.norm == "l1" and one.values.size == 1]
    found = [(one.values.shape, float(one.values.ravel()[0]), one.scale) for one in asked if one.scale]
    return found if transcript.mine == [*range(len(found))] == [*range(len(transcript.asked))] else []


def _end(differ: Callable[[float], bool], outside: float, inside: float) -> float:
    """Return where the half-line of answers begins after which neighbors differ."""
    for _ in range(_HALVINGS):
        middle = outside / 2 + inside / 2
        outside, inside = (outside, middle) if differ(middle) else (middle, inside)
    return inside


def _half_lines(
    runs: Runs, first: Transcript, second: Transcript, seed: int, delta: float
) -> Iterator[tuple[float, float]]:
    """Yield the chance, if above delta, and the end of each half-line after which neighbors differ."""
    # The part's own, or the only one of the meter.
    alone = first.mine == second.mine == [0] or (
        not (first.mine or second.mine) and len(first.asked) == len(second.asked) == 1
    )
    one, other = (first.asked[0], second.asked[0]) if alone else (None, None)
    if one is None or other is None or one.norm != "l1" or one.values.size != 1 or one.scale is None:
        return
    if other.values.size != 1 or other.scale != one.scale:
        return
    shape, scale = one.values.shape, one.scale
    centers = [float(asked.values.ravel()[0]) for asked in (one, other)]

    def differ(answer: float) -> bool:
        return runs([np.full(shape, answer)[()]], seed)[0]

    for sign in (1.0, -1.0):
        nearer = max(sign * center for center in centers)
        # Where the half-line that has a chance of delta begins: one that is as likely, or more, covers it.
        begin = sign * (nearer + scale * _quantile(delta))
        if not all(differ(begin + sign * step * scale) for step in _BEYOND):
            continue
        end = sign * (nearer - _FAR * scale)
        if differ(end):
            yield 1.0, end
            continue
        begin = _end(differ, end, begin)
        yield _tail((sign * begin - nearer) / scale), begin


def _tail(z: float) -> float:
    """Return the chance that standard Laplace noise is at least z."""
    return math.exp(-z) / 2 if z > 0 else 1 - math.exp(z) / 2


def _quantile(chance: float) -> float:
    """Return what standard Laplace noise is at least with this chance."""
    return -math.log(2 * chance) if chance < 0.5 else math.log(2 * (1 - chance))
