"""What a release tells of noise of a part's own that it clips or rounds: on which side of a step it is.

Slopes show nothing of a number that was clipped, and too much or nothing of a rounded one. But where a
released number rises with one number of noise, and follows no other, it is at least some value from a level
of that noise on, which halving finds on both neighbors. That several are is an event whose chance is the
product of tails, exact on either: no proof may promise less than the two chances show.

Where noise ends, so does the release: whatever one number of noise is, what is released of one table is at
most some value. Of the other table it is above from some noise on. The first table never releases that, so
that it is paid for by delta alone, whatever epsilon is.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

import attrs
import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from dpkit_check.cases.plans import claimed_mu
from dpkit_check.cases.regressors import RegressorCase, released_numbers
from dpkit_check.cases.scenes import Pair, judged
from dpkit_check.chances import REACH, NotProbed, chance_above, chance_below
from dpkit_check.instrument import Answers, QuickSampler
from dpkit_check.trial import CheckFailed
from dpkit_core.arrays import Floats, Vector
from dpkit_core.privacy.events import Event, Renyi
from dpkit_core.protocols import Refusal

# Of more numbers the steps are left to other checks; nor are those looked at of so coarse noise.
_NUMBERS, _COARSE = 20, 2.0**10

# Scales at which steps are looked for, how far noise is moved to see what follows it, tries of all at once.
_STEPS, _FAR, _TRIES = (-6.0, -4.0, -2.0, -1.0, 0.0, 1.0, 2.0, 4.0, 6.0), 3.0, 8

# Scales at which noise that still changes nothing is taken to have ended; in numbers at most so large.
_ENDS, _LARGEST = (2000.0, 4000.0), 2.0**60

_HALVINGS = 24

# Chances below tell nothing, since noise farther out is left out.
_LEAST = 1e-12

# What the law of noise in whole steps leaves open.
_SLACK = 1.02


class _Given(Answers):
    """Noise that is given, in scales; zeros where it ends."""

    def __init__(self, noise: Sequence[float] | Vector) -> None:
        super().__init__(15)
        self.sampler = _GivenSampler(self.generator, self)
        self.noise = noise
        self.drawn: list[tuple[str, float, float]] = []
        """Of each number law, scale, and by how many scales it is rounded at most."""

    def custom(self, event: Event) -> Any:
        return self.sampler

    def noisy(self, value: Any, draw: Any) -> Any:
        raise NotProbed

    def give(self, law: str, scale: float, shape: tuple[int, ...], step: float = 0.0) -> Floats:
        first, size = len(self.drawn), math.prod(shape)
        self.drawn += [(law, scale, step)] * size
        noise = np.array([*self.noise[first : first + size], *[0.0] * size])[:size]
        return noise.reshape(shape)


@attrs.frozen
class _GivenSampler(QuickSampler):
    given: _Given

    @property
    def generator(self) -> np.random.Generator:
        """Refuse: what else is drawn has no such steps."""
        raise NotProbed

    def _whole(self, law: str, scale: float, size: Any) -> npt.NDArray[np.int64]:
        if scale < _COARSE:
            raise NotProbed
        shape = (size,) if isinstance(size, int | np.integer) else tuple(size)
        return np.rint(scale * self.given.give(law, scale, shape, 1 / scale)).astype(np.int64)

    def discrete_laplace(self, scale: Any, size: Any = ()) -> Any:
        return self._whole("laplace", float(scale), size)

    def discrete_gaussian(self, sigma: Any, size: Any = ()) -> Any:
        return self._whole("gaussian", float(sigma), size)

    def _on_grid(self, law: str, value: Any, scale: float) -> Any:
        center = np.asarray(value, dtype=np.float64)
        return center + scale * self.given.give(law, scale, center.shape)

    def laplace_on_grid(self, value: Any, *, sensitivity: float, noise_multiplier: float) -> Any:
        return self._on_grid("laplace", value, sensitivity * noise_multiplier)

    def gaussian_on_grid(self, value: Any, *, sensitivity: float, noise_multiplier: float) -> Any:
        return self._on_grid("gaussian", value, sensitivity * noise_multiplier)


def stepped(case: RegressorCase, pairs: Sequence[Pair]) -> float | None:
    """Return the share of the pair between which a release without noise moves most; None if not seen."""

    def moved(pair: Pair) -> float:
        one, other = (_fit(case, data, ())[0] for data in pair)
        return float(np.abs(one - other).sum()) if one.shape == other.shape else 0.0

    try:
        return steps_apart(case, max(pairs, key=moved))
    except NotProbed:
        return None


@judged("steps_again")
def steps_apart(case: RegressorCase, pair: Pair) -> float | None:
    """Return which share of its one event the sides of steps tell between neighbors; fail if above 1.

    None where no number that is released follows one number of noise alone.
    """
    if len(case.plan.events) != 1:
        return None
    (event,), shares = case.plan.events, list[float]()
    with suppress(NotProbed):
        for p, q in _chances(case, pair):
            shares.append(_share(event, p, q))
            if shares[-1] > _SLACK:
                raise CheckFailed(
                    f"what is released of noise of its own is on one side of some values with probabilities "
                    f"{p:.4g} and {q:.4g}: {shares[-1]:.4g} times what its {type(event).__name__} allows, "
                    f"between {case.beside(pair)} ({case.name})"
                )
    return max(shares, default=None)


def _chances(case: RegressorCase, pair: Pair) -> Iterator[tuple[float, float]]:
    """Yield the chances of events on both neighbors."""
    released, drawn = _fit(case, pair[0], ())
    size = len(drawn)
    if not 0 < size <= _NUMBERS or len({law for law, *_ in drawn}) > 1:
        raise NotProbed
    law, scale, step = drawn[0][0], max(scale for _, scale, _ in drawn), max(step for *_, step in drawn)

    def at(side: int, noise: Vector) -> Vector:
        found, again = _fit(case, pair[side], noise)
        if found.shape != released.shape or again != drawn:
            raise NotProbed
        return found

    follows = [
        np.any([at(0, sign * _FAR * one) != released for sign in (1, -1)], axis=0) for one in np.eye(size)
    ]
    alone = np.sum(follows, axis=0) == 1
    seen = [(j, int(np.argmax(moved & alone))) for j, moved in enumerate(follows) if (moved & alone).any()]
    if not seen:
        raise NotProbed
    noises, numbers = (np.array(each) for each in zip(*seen, strict=True))
    tables = [np.array([at(side, np.full(size, step))[numbers] for step in _STEPS]) for side in (0, 1)]
    signs = np.where(tables[0][-1] >= tables[0][0], 1.0, -1.0)
    rng = np.random.default_rng(0)
    for side, table in enumerate(tables):
        if np.any(np.diff(signs * table, axis=0) < 0):
            raise NotProbed
        for _ in range(_TRIES):
            places = rng.integers(len(_STEPS), size=size)
            if np.any(at(side, np.take(_STEPS, places))[numbers] != table[places[noises], range(len(seen))]):
                raise NotProbed

    def tails(side: int, values: Vector) -> Floats:
        """Return the least and largest chance that each number is at least some value, and that it is not."""
        low, high = (np.full(len(seen), end) for end in REACH[law])
        for _ in range(_HALVINGS):
            middle, noise = (low + high) / 2, np.zeros(size)
            noise[noises] = middle
            there = signs * at(side, noise)[numbers] >= values
            low, high = np.where(there, low, middle), np.where(there, middle, high)
        sooner, later = low - step, high + step
        above = chance_above(law, later), chance_above(law, sooner)
        return np.array([above, (chance_below(law, sooner), chance_below(law, later))])

    # On each neighbor the least and the largest chances, of each step and side of it, of each number.
    found = np.array([[tails(side, values) for side in (0, 1)] for values in signs * tables[0]])
    chances = np.maximum(found, _LEAST).transpose(1, 3, 0, 2, 4)
    for one, other in ((0, 1), (1, 0)):
        p, q = chances[one, 0], chances[other, 1]
        for ps, qs in ((np.concatenate(p), np.concatenate(q)), *zip(p, q, strict=True)):
            best = np.argmax(ps / qs, axis=0), np.arange(len(seen))
            yield math.prod(ps[best]), math.prod(qs[best])
    if size > 1 or _ENDS[-1] * scale > _LARGEST:
        return
    for end, (here, there) in itertools.product((1.0, -1.0), ((0, 1), (1, 0))):
        before, last = (signs * at(there, np.array([end * far]))[numbers] for far in _ENDS)
        beyond = end * signs * at(here, np.array([end * _ENDS[-1]]))[numbers] > end * last
        if before == last and beyond:
            above, below = tails(here, np.nextafter(last, math.inf) if end > 0 else last)
            yield float((above if end > 0 else below)[0, 0]), 0.0


def _fit(
    case: RegressorCase, data: Any, noise: Sequence[float] | Vector
) -> tuple[Vector, list[tuple[str, float, float]]]:
    answers = _Given(noise)
    outcome, _ = case.run(data, answers, released_numbers)
    if isinstance(outcome, Refusal):
        raise NotProbed
    return np.asarray(outcome, dtype=float), answers.drawn


def _share(event: Event, p: float, q: float) -> float:
    """Return which share of an event is used by something of chance p on one neighbor, and q on the other.

    What has no chance at all is paid for by delta alone.
    """
    if not q:
        _, delta = event.pair() or (0.0, 1.0)
        return p / delta if delta else math.inf
    p, q = (min(chance, 1 - _LEAST) for chance in (p, q))  # as floats, chances near 1 are 1
    if isinstance(event, Renyi):
        return max(
            math.log(p**order * q ** (1 - order) + (1 - p) ** order * (1 - q) ** (1 - order))
            / (order - 1)
            / most
            for order, most in zip(event.orders, event.divergences, strict=True)
            if most
        )
    known = event.pair()
    if known is None:
        mu = claimed_mu([event])
        return float(ndtri(p) - ndtri(q)) / mu if mu else 0.0
    epsilon, delta = known
    loss = math.log(p / q)
    return -p * math.expm1(min(0.0, epsilon - loss)) / delta if delta else loss / epsilon
