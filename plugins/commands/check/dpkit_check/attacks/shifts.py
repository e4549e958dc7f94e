"""How far whole-number noise of a part's own must move to hide a record, and what that costs.

A part that draws whole numbers and adds them itself shows nothing of what it adds them to. But noise that is
moved by as much as the values of a neighbor moves the release as much: what a release of one table needs on
the other is the shift that is looked for. Noise that has to move by x of its scales costs a Gaussian of mu =
|x|, in all directions that the release tells, or a loss of |x| of Laplace noise.

Where a fit refuses, noise that is moved further may make it release after all, as a test that passes in vain
does. That has the chance of the noise, and then the same cost.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import attrs
import numpy as np
import numpy.typing as npt

from dpkit_check.cases.plans import claimed_mu
from dpkit_check.cases.regressors import RegressorCase, released_numbers
from dpkit_check.cases.scenes import Pair
from dpkit_check.instrument import Answers, QuickSampler
from dpkit_check.reference import gaussian_delta
from dpkit_check.trial import CheckFailed
from dpkit_core.arrays import Vector
from dpkit_core.privacy.events import ApproxDP, Event, PureDP, Renyi, StableHistogram
from dpkit_core.protocols import Refusal

# Of more numbers the shifts are left to other checks.
_NUMBERS = 20

# Noise is moved by this share of its scale, to see what becomes of it.
_STEP = 2.0**-6

# Noise is moved by so many scales at most for a fit not to refuse: more is below any delta of the kit.
_FARTHEST = 24.0

# The release near a few draws is not all of it.
_SLACK = 1.05


class _Moved(Answers):
    """Whole-number noise of one seed, moved; keeps the law and scale of each number."""

    def __init__(self, seed: int, shifts: Sequence[float] | Vector = ()) -> None:
        super().__init__([seed, 15])
        self.sampler = _MovedSampler(self.generator, self)
        self.shifts, self.others = shifts, False
        self.laws: list[str] = []
        self.scales: list[float] = []
        self.drawn: list[int] = []

    def custom(self, event: Event) -> Any:
        return self.sampler

    def noisy(self, value: Any, draw: Callable[[Any], Any]) -> Any:
        self.others = True
        return super().noisy(value, draw)

    def move(self, law: str, scale: float, drawn: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        first = len(self.scales)
        self.laws += [law] * drawn.size
        self.scales += [scale] * drawn.size
        shifts = np.array([*self.shifts[first : first + drawn.size], *[0.0] * drawn.size])[: drawn.size]
        moved = drawn + np.rint(shifts * scale).astype(np.int64).reshape(drawn.shape)
        self.drawn += moved.ravel().tolist()
        return moved


@attrs.frozen
class _MovedSampler(QuickSampler):
    moved: _Moved

    def discrete_laplace(self, scale: Any, size: Any = ()) -> Any:
        drawn = np.asarray(QuickSampler.discrete_laplace(self, scale, size))
        return self.moved.move("laplace", float(scale), drawn)

    def discrete_gaussian(self, sigma: Any, size: Any = ()) -> Any:
        drawn = np.asarray(QuickSampler.discrete_gaussian(self, sigma, size))
        return self.moved.move("gaussian", float(sigma), drawn)

    def _on_grid(self, value: Any) -> Any:
        self.moved.others = True
        return value

    def laplace_on_grid(self, value: Any, **options: Any) -> Any:
        return QuickSampler.laplace_on_grid(self, self._on_grid(value), **options)

    def gaussian_on_grid(self, value: Any, **options: Any) -> Any:
        return QuickSampler.gaussian_on_grid(self, self._on_grid(value), **options)


def _fit(
    case: RegressorCase, data: Any, seed: int, shifts: Sequence[float] | Vector
) -> tuple[Vector | None, _Moved]:
    answers = _Moved(seed, shifts)
    outcome, _ = case.run(data, answers, released_numbers)
    return (None if isinstance(outcome, Refusal) else np.asarray(outcome, dtype=float)), answers


def shift_share(case: RegressorCase, pair: Pair, seed: int) -> float | None:
    """Return which share of what its one event allows a shift between neighbors costs; None if not seen.

    Raises
    ------
    CheckFailed
        If it costs more.
    """
    if len(case.plan.events) != 1:
        return None
    (event,) = case.plan.events
    first, drawn = _fit(case, pair[0], seed, ())
    laws, scales = drawn.laws, np.array(drawn.scales)
    if drawn.others or len(set(laws)) != 1 or len(laws) > _NUMBERS:
        return None
    chance, base = 1.0, np.zeros(len(laws))
    if first is None and laws[0] == "laplace":
        chance, base = _pushed(case, pair, seed, len(laws)) or (chance, base)
        first, _ = _fit(case, pair[0], seed, base)
    other, again = _fit(case, pair[1], seed, base)
    if first is None or other is None or first.shape != other.shape or [*again.scales] != [*scales]:
        return None
    columns = []
    for i in range(len(laws)):
        step = max(1.0, np.rint(_STEP * scales[i])) / scales[i]
        moved, _ = _fit(case, pair[1], seed, base + step * (np.arange(len(laws)) == i))
        if moved is None or moved.shape != other.shape:
            return None
        columns.append((moved - other) / step)
    slopes, far = np.column_stack(columns), first - other
    shift, *_ = np.linalg.lstsq(slopes, far, rcond=1e-6)
    there, _ = _fit(case, pair[1], seed, base + shift)
    near = 0.02 * np.linalg.norm(far)
    if not np.linalg.norm(far) or there is None or np.linalg.norm(there - first) > near:
        return None
    told = np.linalg.matrix_rank(slopes, tol=1e-6 * np.abs(slopes).max())
    share, said = _cost(event, laws[0], shift, chance, whole=told == np.count_nonzero(np.any(slopes, axis=0)))
    if share > _SLACK:
        raise CheckFailed(f"{said}, between {case.beside(pair)} ({case.name})")
    return share


def _pushed(case: RegressorCase, pair: Pair, seed: int, size: int) -> tuple[float, Vector] | None:
    """Return the chance of noise in one draw with which neither fit refuses, and how it is moved."""
    for i in range(size):
        one = 1.0 * (np.arange(size) == i)

        def fits(push: float, one: Vector = one) -> list[tuple[Vector | None, _Moved]]:
            return [_fit(case, data, seed, push * one) for data in pair]

        refused, push = 0.0, _FARTHEST
        if any(released is None for released, _ in fits(push)):
            continue
        while push - refused > 0.25:
            middle = (refused + push) / 2
            released = all(found is not None for found, _ in fits(middle))
            refused, push = (refused, middle) if released else (middle, push)
        drawn = fits(push)[0][1]
        return math.exp(-max(0.0, drawn.drawn[i] / drawn.scales[i])) / 2, push * one
    return None


def _cost(event: Event, law: str, shift: Vector, chance: float, *, whole: bool) -> tuple[float, str]:
    """Return which share of what an event allows a shift costs, and how to say so."""
    moved = f"noise of its own has to move by {np.array2string(shift, precision=4)} of its scales"
    if law == "gaussian":
        mu = float(np.linalg.norm(shift))
        if isinstance(event, PureDP | ApproxDP):
            epsilon, delta = event.pair()
            spent = gaussian_delta(epsilon, mu)
            return (
                spent / delta if delta else math.inf * (spent > 0),
                f"{moved}: delta {spent:.4g}, planned is {delta:.4g}",
            )
        allowed = _allowed(event)
        return (
            (0.0, "")
            if allowed is None
            else (mu / allowed, f"{moved}: mu {mu:.4g}, planned is {allowed:.4g}")
        )
    known = event.pair()
    if known is None or not whole:
        return 0.0, ""
    epsilon, delta = known
    loss = float(np.abs(shift).sum()) if not delta else float(np.abs(shift).max())
    if not delta:
        return loss / epsilon, f"{moved}: epsilon {loss:.4g}, planned is {epsilon:.4g}"
    # Of one Laplace draw: the most by which chances differ after a factor of e^epsilon.
    spent = chance * max(0.0, -math.expm1((epsilon - loss) / 2))
    return spent / delta, f"{moved}, with a chance of {chance:.3g}: delta {spent:.4g}, planned is {delta:.4g}"


def _allowed(event: Event) -> float | None:
    """Return the largest mu of Gaussian noise that an event allows."""
    if isinstance(event, Renyi):
        return min(math.sqrt(2 * d / a) for a, d in zip(event.orders, event.divergences, strict=True))
    if isinstance(event, StableHistogram):
        return 1 / event.noise_multiplier
    return claimed_mu([event])
