"""How far whole-number noise of a part's own must move to hide a record, and what that costs.

A part that draws whole numbers and adds them itself shows nothing of what it adds them to. But noise that is
moved by as much as the values of a neighbor moves the release as much: what a release of one table needs on
the other is the shift that is looked for. Noise that has to move by x of its scales costs a Gaussian of mu =
|x|, in all directions that the release tells, or a loss of |x| of Laplace noise.

Where a fit refuses, noise that is moved further may make it release after all, as a test that passes in vain
does. That has the chance of the noise, and then the same cost.

Where secret coins say which records count, what a shift costs by one throw of them is not what the release
costs. All throws are tried instead. If the released numbers tell all the noise, the density of a release on a
table is the mean over its throws of the density of the noise that leads to it: exact for both neighbors, so
that no proof of amplification may promise less than the logarithm of their ratio.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import attrs
import numpy as np
import numpy.typing as npt
import scipy

from dpkit_check.cases.plans import claimed_mu
from dpkit_check.cases.regressors import RegressorCase, released_numbers
from dpkit_check.cases.scenes import Pair
from dpkit_check.instrument import Answers, QuickSampler
from dpkit_check.reference import gaussian_delta
from dpkit_check.trial import CheckFailed
from dpkit_core.arrays import Matrix, Vector
from dpkit_core.privacy.events import ApproxDP, Event, PureDP, Renyi, StableHistogram
from dpkit_core.protocols import Refusal

# Of more numbers the shifts are left to other checks.
_NUMBERS = 20

# Noise is moved by this share of its scale, to see what becomes of it; and by a share of that, which has to
# do as much in proportion: where the release is rounded, it does not.
_STEP, _FINER = 2.0**-6, 2.0**-4

# Noise is moved by so many scales at most for a fit not to refuse: more is below any delta of the kit.
_FARTHEST = 24.0

# To see whether noise matters at all, it is moved by so many scales, and up to this number.
_ENOUGH, _LARGEST = 1e6, 2.0**60

# How far out a release is looked at that does not tell all its noise, in scales.
_TAIL = 30.0

# By how much slopes may differ, and by which share a shift may be too far for it: the release near a few
# draws is not all of it.
_UNEVEN, _SLACK = 0.05, 1.05

# Throws of secret coins of which all are tried; with noise this many scales from its middle, and as coarse.
_THROWS, _OUTSIDE, _FINE = 4, 40.0, 2.0**10


class _Moved(Answers):
    """Whole-number noise of one seed, moved, and coins; keeps the law and scale of each number.

    Coins fall as given, and 0 where nothing is given; ``bounds`` has of each how many sides it has.
    """

    def __init__(self, seed: int, shifts: Sequence[float] | Vector = (), coins: Sequence[int] = ()) -> None:
        super().__init__([seed, 15])
        self.sampler = _MovedSampler(self.generator, self)
        self.shifts, self.others = shifts, False
        self.thrown = iter(coins)
        self.bounds: list[int] = []
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

    @property
    def generator(self) -> np.random.Generator:
        """The generator; what is drawn from it is neither moved nor tried."""
        self.moved.others = True
        return self.moved.generator

    def integers(self, bound: Any, size: Any = None) -> Any:
        sides = np.broadcast_to(bound, np.shape(bound) if size is None else size)
        self.moved.bounds += sides.ravel().tolist()
        thrown = [next(self.moved.thrown, 0) for _ in range(sides.size)]
        return np.array(thrown, dtype=np.int64).reshape(sides.shape)[()]

    def discrete_laplace(self, scale: Any, size: Any = ()) -> Any:
        drawn = np.asarray(QuickSampler(self.moved.generator).discrete_laplace(scale, size))
        return self.moved.move("laplace", float(scale), drawn)

    def discrete_gaussian(self, sigma: Any, size: Any = ()) -> Any:
        drawn = np.asarray(QuickSampler(self.moved.generator).discrete_gaussian(sigma, size))
        return self.moved.move("gaussian", float(sigma), drawn)

    def _on_grid(self, value: Any) -> Any:
        self.moved.others = True
        return value

    def laplace_on_grid(self, value: Any, **options: Any) -> Any:
        return QuickSampler.laplace_on_grid(self, self._on_grid(value), **options)

    def gaussian_on_grid(self, value: Any, **options: Any) -> Any:
        return QuickSampler.gaussian_on_grid(self, self._on_grid(value), **options)


def _fit(
    case: RegressorCase,
    data: Any,
    seed: int,
    shifts: Sequence[float] | Vector,
    coins: Sequence[int] = (),
) -> tuple[Vector | None, _Moved]:
    answers = _Moved(seed, shifts, coins)
    outcome, _ = case.run(data, answers, released_numbers)
    return (None if isinstance(outcome, Refusal) else np.asarray(outcome, dtype=float)), answers


def noise_matters(case: RegressorCase, data: Any, seed: int) -> bool:
    """Return whether whole-number noise, moved very far, changes a release; True where it is not seen.

    A test that is passed or failed almost surely does not hide that there is noise: enough of it decides.
    """
    first, drawn = _fit(case, data, seed, ())
    if drawn.others or drawn.bounds or not drawn.laws or len(drawn.laws) > _NUMBERS:
        return True
    far = np.minimum(_ENOUGH, _LARGEST / np.array(drawn.scales))
    each = [far, *(far * (np.arange(far.size) == i) for i in range(far.size))]
    moved = [_fit(case, data, seed, sign * shifts)[0] for shifts in each for sign in (1, -1)]
    if first is None:
        return any(one is not None for one in moved)
    return any(one is None or not np.array_equal(one, first) for one in moved)


def shift_share(case: RegressorCase, pair: Pair, seed: int) -> float | None:
    """Return which share of what its one event allows a shift between neighbors costs; None if not seen.

    Raises
    ------
    CheckFailed
        If it costs more.
    """
    if len(case.plan.events) != 1:
        return None
    first, drawn = _fit(case, pair[0], seed, ())
    if drawn.others or len(set(drawn.laws)) != 1 or len(drawn.laws) > _NUMBERS:
        return None
    if drawn.bounds:
        return _share_by_coins(case, pair, seed)
    return _share(case, pair, seed, first, drawn)


def _share(case: RegressorCase, pair: Pair, seed: int, first: Vector | None, drawn: _Moved) -> float | None:
    """Return the share where there are no coins, by a first release and what it drew."""
    (event,), laws, scales = case.plan.events, drawn.laws, np.array(drawn.scales)
    chance, base = 1.0, np.zeros(len(laws))
    if first is None and laws[0] == "laplace":
        chance, base = _pushed(case, pair, seed, len(laws)) or (chance, base)
        first, _ = _fit(case, pair[0], seed, base)
    other, again = _fit(case, pair[1], seed, base)
    if first is None or other is None or first.shape != other.shape or [*again.scales] != [*scales]:
        return None
    columns = []
    for i in range(len(laws)):
        for share in (_STEP * _FINER, _STEP):
            step = max(1.0, np.rint(share * scales[i])) / scales[i]
            moved, _ = _fit(case, pair[1], seed, base + step * (np.arange(len(laws)) == i))
            if moved is None or moved.shape != other.shape:
                return None
            columns.append((moved - other) / step)
    finer, slopes = np.column_stack(columns[::2]), np.column_stack(columns[1::2])
    if np.any(np.linalg.norm(slopes - finer, axis=0) > _UNEVEN * np.linalg.norm(slopes, axis=0)):
        return None
    far = first - other
    shift, *_ = np.linalg.lstsq(slopes, far, rcond=1e-6)
    there, _ = _fit(case, pair[1], seed, base + shift)
    near = 0.02 * np.linalg.norm(far)
    if not np.linalg.norm(far) or there is None or np.linalg.norm(there - first) > near:
        return None
    told = np.linalg.matrix_rank(slopes, tol=1e-6 * np.abs(slopes).max())
    whole = told == np.count_nonzero(np.any(slopes, axis=0))
    pure = (known := event.pair()) is not None and not known[1]
    if pure and not whole and set(laws) == {"laplace"}:
        shift, whole = _least(slopes, far)
        farther = base + shift * _TAIL / np.abs(shift).sum()
        (one, _), (two, _) = _fit(case, pair[0], seed, farther), _fit(case, pair[1], seed, farther + shift)
        whole = whole and one is not None and two is not None and bool(np.linalg.norm(one - two) <= near)
    share, said = _cost(event, laws[0], shift, chance, whole=whole)
    if _cost(event, laws[0], shift / _SLACK, chance, whole=whole)[0] > 1:
        raise CheckFailed(f"{said}, between {case.beside(pair)} ({case.name})")
    return share


def _least(slopes: Matrix, far: Vector) -> tuple[Vector, bool]:
    """Return the shift of least L1 norm that moves a release so far, and whether there is one.

    Where released numbers do not tell all the noise, that is the largest loss: the density of A z, for
    Laplace noise z, falls as exp(-n(t)), with n(t) the least L1 norm of what leads to t, and n(t + A s) -
    n(t) comes near to n(A s) far out in the direction of A s.
    """
    d = slopes.shape[1]
    size = np.abs(slopes).max()
    found = scipy.optimize.linprog(
        np.ones(2 * d), A_eq=np.column_stack([slopes, -slopes]) / size, b_eq=far / size, bounds=(0, None)
    )
    return (found.x[:d] - found.x[d:], True) if found.success else (np.ones(d), False)


@attrs.frozen(eq=False)
class _Throw:
    """One of equally likely throws of the coins on one of two neighbors."""

    data: Any
    coins: tuple[int, ...]


def _throws(bounds: Sequence[int], data: Any) -> list[_Throw]:
    """Return all throws of coins with so many sides each; none where they are too many."""
    if math.prod(bounds) > _THROWS:
        return []
    return [_Throw(data, coins) for coins in itertools.product(*map(range, bounds))]


def _share_by_coins(case: RegressorCase, pair: Pair, seed: int) -> float | None:
    """Return which share of a pure event the density of a release uses, over all throws; None if not seen.

    Raises
    ------
    CheckFailed
        If more than all.
    """
    pure = case.plan.events[0].pair()
    drawn = [_fit(case, data, seed, ())[1] for data in pair]
    first, scales = drawn[0], np.array(drawn[0].scales)
    if pure is None or pure[1] or first.laws[0] != "laplace" or scales.min() < _FINE:
        return None
    throws = [_throws(one.bounds, data) for one, data in zip(drawn, pair, strict=True)]
    if not all(throws):
        return None
    there = _leading_there(case, throws, seed, np.zeros(scales.size))
    if there is None:
        return None
    own, worst = np.array(first.drawn) / scales, 0.0
    farthest = max(np.vstack(there), key=lambda shift: float(np.abs(shift).sum()))
    for side in (-_OUTSIDE, _OUTSIDE):
        base = np.where(farthest == 0, 0.0, side * np.sign(farthest) - own)
        found = _leading_there(case, throws, seed, base)
        if found is None:
            continue
        ratio = math.fsum(
            sign * np.logaddexp.reduce(-np.abs(own + base + moves).sum(axis=1)) - sign * math.log(len(moves))
            for sign, moves in zip((1, -1), found, strict=True)
        )
        worst = max(worst, abs(ratio) / pure[0])
    if worst > _SLACK:
        raise CheckFailed(
            f"over all throws of its coins, the density of a release differs by epsilon "
            f"{worst * pure[0]:.4g}, planned is {pure[0]:.4g}, between {case.beside(pair)} ({case.name})"
        )
    return worst


def _leading_there(
    case: RegressorCase, throws: Sequence[Sequence[_Throw]], seed: int, base: Vector
) -> list[Matrix] | None:
    """Return by how many scales noise must move, by each throw on each table, for the first one's release.

    None where the release is not seen to follow from the noise, all of it and by each throw in one way.
    """
    start = throws[0][0]
    first, drawn = _fit(case, start.data, seed, base, start.coins)
    if first is None:
        return None
    columns = []
    for i in range(base.size):
        moved, _ = _fit(case, start.data, seed, base + _STEP * (np.arange(base.size) == i), start.coins)
        if moved is None or moved.shape != first.shape:
            return None
        columns.append((moved - first) / _STEP)
    slopes = np.column_stack(columns)
    if np.linalg.matrix_rank(slopes, tol=1e-6 * np.abs(slopes).max()) < base.size:
        return None

    def moves(throw: _Throw) -> Vector | None:
        here, own = _fit(case, throw.data, seed, base, throw.coins)
        if here is None or here.shape != first.shape or own.scales != drawn.scales or own.others:
            return None
        shift, *_ = np.linalg.lstsq(slopes, first - here, rcond=1e-6)
        there, _ = _fit(case, throw.data, seed, base + shift, throw.coins)
        near = 1e-3 * np.linalg.norm(first - here) + 1e-9
        return None if there is None or np.linalg.norm(there - first) > near else np.asarray(shift)

    found = [[moves(throw) for throw in each] for each in throws]
    if any(one is None for each in found for one in each):
        return None
    return [np.array(each) for each in found]


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
