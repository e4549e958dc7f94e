"""The exact chance of a pick, found by choosing the noise instead of drawing it.

A selector that adds noise of a known law to each candidate's score is, for given noise, a function. With the
noise of one candidate held fixed, the other wins from some level of its own noise on; that level is found by
halving, at several places, and the chance of winning is an integral over known laws. So the far tails are
seen, which no sampling reaches: a pick without noise, tails that are cut, a scale that rounds to nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import attrs
import numpy as np
import numpy.typing as npt
from scipy import special

from dpkit_core.noise.randomness import Randomness
from dpkit_core.privacy.budget import Neighboring
from dpkit_core.protocols import StagePlan
from dpkit_core.testing.drive import QuickMeter, QuickSampler

Floats = npt.NDArray[np.float64]

#: Noise is chosen between these, in units of its scale: what lies beyond has probability below 1e-26.
REACH = {
    "gumbel": (-4.2, 60.0),
    "exponential": (0.0, 60.0),
    "laplace": (-60.0, 60.0),
    "gaussian": (-12.0, 12.0),
}

#: Halvings of that reach, and how far a level may be off for it.
HALVINGS = 26
PRECISION = 4e-6

#: Points of the integral, and places at which levels are found where they do not move with the noise.
POINTS, PLACES = 6001, 41


class NotProbed(Exception):
    """A selector whose draws are not one number of a known law for each candidate."""


@attrs.define(eq=False)
class Script:
    """Which noise is given: to each candidate that is left, in units of its scale."""

    left: npt.NDArray[np.int64]
    noise: Floats
    law: str = ""
    scale: float = 1.0

    def give(self, law: str, scale: float, size: Any) -> Floats:
        """Return the noise that was chosen."""
        shape = (size,) if isinstance(size, int | np.integer) else tuple(size)
        if shape != (len(self.left),):
            raise NotProbed
        self.law, self.scale = law, scale
        return self.noise


@attrs.frozen
class _Scripted(QuickSampler):
    script: Script

    def gumbel(self, size: Any = ()) -> Any:
        """Return what was chosen."""
        return self.script.give("gumbel", 1.0, size)

    def exponential(self, size: Any = ()) -> Any:
        """Return what was chosen."""
        return self.script.give("exponential", 1.0, size)

    def discrete_laplace(self, scale: Any, size: Any = ()) -> Any:
        """Return what was chosen, in whole steps; coarse noise is not a continuous law."""
        return self._whole("laplace", float(scale), size)

    def discrete_gaussian(self, sigma: Any, size: Any = ()) -> Any:
        """Return what was chosen, in whole steps; coarse noise is not a continuous law."""
        return self._whole("gaussian", float(sigma), size)

    def permutation(self, items: Any) -> Any:
        """Return the items as they are: for continuous noise, no order among ties matters."""
        return np.arange(items) if isinstance(items, int | np.integer) else np.array(items)

    def _whole(self, law: str, scale: float, size: Any) -> Any:
        if scale < 2**10:
            raise NotProbed
        return np.rint(self.script.give(law, scale, size) * scale).astype(np.int64)

    @property
    def generator(self) -> np.random.Generator:
        """Refuse: other draws have no noise that could be chosen."""
        raise NotProbed


class _Coins:
    """Public coins of which only an order is asked, which is left as it is."""

    def permutation(self, items: Any) -> Any:
        """Return the items as they are."""
        return np.arange(items) if isinstance(items, int | np.integer) else np.array(items)

    def __getattr__(self, name: str) -> Any:
        raise NotProbed


class ScriptedNoise(QuickMeter):
    """A meter whose mechanisms of a part's own get the noise of a script."""

    def __init__(self, script: Script, plan: StagePlan, neighboring: Neighboring) -> None:
        super().__init__(np.random.default_rng(0), _NEVER_DRAWN, plan, neighboring)
        self._sampler = _Scripted(self._generator, script)

    def follow(self, script: Script) -> None:
        """Take the noise of ``script`` from now on."""
        self._sampler = _Scripted(self._generator, script)

    @property
    def coins(self) -> Any:
        """Coins that leave every order as it is."""
        return _Coins()

    def select(self, *arguments: Any, **options: Any) -> Any:
        """Refuse: the law of what the meter selects is known."""
        raise NotProbed


_NEVER_DRAWN = Randomness.from_seed(0)

Wins = Callable[[Script], bool]
"""Whether the candidate that is left last wins, for noise that was chosen."""


def chances(wins: Wins, left: int) -> tuple[float, float]:
    """Return the chances with which the last of ``left`` candidates wins, and loses.

    Where there are more than two, all others have equal scores, of which the one with the most noise counts.

    Raises
    ------
    NotProbed
        If the selector draws in another way.
    """
    script = Script(np.arange(left), np.zeros(left))
    wins(script)
    law = script.law
    if law not in REACH:
        raise NotProbed
    low, high = REACH[law]

    def level(other: float) -> float:
        """Return the noise from which on the last candidate wins, where the best other one has ``other``."""

        def won(own: float) -> bool:
            noise = np.full(left, low)
            noise[0], noise[-1] = other, own
            return wins(Script(np.arange(left), noise))

        if not won(high):
            return math.inf
        if won(low):
            return -math.inf
        bottom, top = low, high
        for _ in range(HALVINGS):
            middle = (bottom + top) / 2
            bottom, top = (bottom, middle) if won(middle) else (middle, top)
        return top

    places = [low + share * (high - low) for share in (0.08, 0.2, 0.5)]
    gaps = [(place, level(place) - place) for place in places]
    known = [(place, gap) for place, gap in gaps if math.isfinite(gap)]
    # A level that is out of reach is so for additive noise as well, where the gap says so.
    additive = bool(known) and all(
        abs(gap - known[0][1]) < 20 * PRECISION * (high - low)
        if math.isfinite(gap)
        else not low < place + known[0][1] < high
        for place, gap in gaps
    )
    grid = np.linspace(low, high, POINTS)
    if additive:
        levels = grid + known[0][1]
    elif left > 2:
        raise NotProbed
    else:
        at = np.concatenate((np.linspace(low, low + (high - low) / 4, PLACES), np.linspace(low, high, 9)))
        found = sorted((float(place), level(float(place))) for place in np.unique(at))
        levels = np.interp(grid, [place for place, _ in found], [own for _, own in found])
    below = _below(law, grid) ** (left - 1)
    weight = np.diff(below)
    middles = (levels[1:] + levels[:-1]) / 2
    return math.fsum(weight * _above(law, middles)), math.fsum(weight * _below(law, middles))


def _below(law: str, x: Floats) -> Floats:
    with np.errstate(over="ignore", invalid="ignore"):
        found: Floats
        match law:
            case "gumbel":
                found = np.exp(-np.exp(-x))
            case "exponential":
                found = np.where(x > 0, -np.expm1(-np.maximum(x, 0)), 0.0)
            case "laplace":
                found = np.where(x < 0, np.exp(np.minimum(x, 0)) / 2, 1 - np.exp(-np.maximum(x, 0)) / 2)
            case _:
                found = special.ndtr(x)
    return found


def _above(law: str, x: Floats) -> Floats:
    with np.errstate(over="ignore", invalid="ignore"):
        found: Floats
        match law:
            case "gumbel":
                found = -np.expm1(-np.exp(-x))
            case "exponential":
                found = np.where(x > 0, np.exp(-np.maximum(x, 0)), 1.0)
            case _:
                found = _below(law, -x)
    return found


def largest_ratio(pairs: Iterable[tuple[tuple[float, float], tuple[float, float]]]) -> float:
    """Return the largest |log| of the ratio of chances, of winning or of losing, between neighbors."""
    worst = 0.0
    for one, other in pairs:
        for p, q in zip(one, other, strict=True):
            if max(p, q) > 1e-18:
                worst = max(worst, abs(math.log(p / q)) if min(p, q) > 0 else math.inf)
    return worst
