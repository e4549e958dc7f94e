"""Attacks on noise that a part makes of raw random bits: the kit chooses the bits."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, TypeAlias

import attrs
import numpy as np
import numpy.typing as npt

from dpkit_check.cases.parts import kind_of
from dpkit_check.cases.plans import claiming, failure_allowed
from dpkit_check.cases.regressors import RegressorCase, regressions, released_numbers
from dpkit_check.cases.scenes import Pair
from dpkit_check.cases.selectors import SelectorCase, claimed_selection
from dpkit_check.instrument import QuickSampler, Transcript
from dpkit_check.trial import CheckFailed, Evidence, Factory, NotApplicable, Trial, attack
from dpkit_core.arrays import Vector
from dpkit_core.privacy.events import Event, PureDP, expand
from dpkit_core.protocols import StagePlan
from dpkit_core.text import number_of

# Outputs of one table that are looked for on its neighbor, and how many have to be impossible there.
_OUTPUTS, _LACKING = 12, 2

# Pairs of tables of each plan, and places around the nearest output.
_PAIRS, _AROUND = 3, 3

# What more bits than these cannot reach has a chance that nobody could see.
_FEW = 2**32

# Draws of at most so many values are signs; of one run, no more are looked at, and none after very many.
_SIGNS, _MOST, _ENDLESS = 4, 4, 4000

# By how many sensitivities one of two candidates is behind.
_BEHIND = (0.0, 5.0, 20.0, 100.0, 1000.0)

Chosen: TypeAlias = Mapping[int, int]
"""Number of a draw -> its value; others get a third of their bound: formulas may have poles at the ends."""


class _Unsettled(Exception):
    """A part asks for other randomness than uniform whole numbers, or never has enough of them."""


class _Script(Transcript):
    """Answers of another run, and chosen whole numbers for mechanisms of the part's own."""

    def __init__(self, chosen: Chosen, usual: Callable[[int], int], given: Any = ()) -> None:
        super().__init__(given)
        self.chosen, self.usual = chosen, usual
        self.bounds: list[int] = []

    def custom(self, event: Event) -> Any:
        """Return a sampler of chosen numbers."""
        self.own = True
        return _Bits(self.generator, self)

    def draw(self, bound: int) -> int:
        """Return the next number from 0 to below a bound."""
        number = len(self.bounds)
        if number > _ENDLESS:
            raise _Unsettled
        self.bounds.append(bound)
        return min(max(self.chosen.get(number, self.usual(bound)), 0), bound - 1)


@attrs.frozen
class _Bits(QuickSampler):
    """Hands out chosen numbers, and nothing else."""

    script: _Script

    @property
    def generator(self) -> np.random.Generator:
        """Refuse to draw anything else."""
        raise _Unsettled

    def bits(self, count: int) -> int:
        """Return bits that were chosen."""
        return self.script.draw(1 << count)

    def permutation(self, items: Any) -> Any:
        """Return the items in their order, which is as likely as any."""
        return np.arange(items) if isinstance(items, int | np.integer) else np.array(items)

    def integers(self, bound: npt.ArrayLike, size: Any = None) -> Any:
        """Return numbers that were chosen."""
        bounds = np.broadcast_to(np.asarray(bound), np.shape(bound) if size is None else size)
        drawn = [self.script.draw(int(one)) for one in bounds.ravel()]
        return np.array(drawn, dtype=np.int64).reshape(bounds.shape)


def _third(bound: int) -> int:
    return bound // 3


@attack("privacy", kinds=("selector", "regressor"))
def check_any_output_is_possible_for_neighbors(make: Factory[Any], trial: Trial) -> Evidence:
    """Where a pure mechanism is made of random bits, what one table can release its neighbor can, too.

    The kit chooses the bits. A released number that is monotone in them is looked for among those of the
    neighbor: between two neighboring values of the bits there is none. A candidate that is far behind is
    picked by some bits.

    If this fails: floating-point noise has gaps that depend on the value it is added to, and few bits have no
    tails. Draw by the meter, or by ``discrete_laplace`` and ``laplace_on_grid`` of the sampler, or declare
    the delta.
    """
    found = [*(_of_picks if kind_of(make) == "selector" else _of_fits)(make, trial)]
    if not found:
        raise NotApplicable("it makes no pure mechanism of its own of random bits")
    return Evidence(number_of(len(found), "mechanism"), len(found))


def _pure(plan: StagePlan) -> bool:
    """Return whether no event may fail, and some of them is a pure mechanism of the part's own."""
    return not failure_allowed(plan) and any(isinstance(event, PureDP) for event in expand(plan.events))


def _of_fits(make: Factory[Any], trial: Trial) -> Iterator[None]:
    rng = np.random.default_rng(trial.seed)
    for case in claiming(regressions(make)):
        if not _pure(case.plan):
            continue
        for number in range(_PAIRS * trial.effort):
            pair = case.population.datasets(case.population.pair(rng, int(rng.integers(2, 12))))
            with suppress(_Unsettled):
                if _outputs_looked_for(case, pair, np.random.default_rng([trial.seed, number])):
                    yield


def _outputs_looked_for(case: RegressorCase, pair: Pair, rng: np.random.Generator) -> bool:
    """Fail where outputs of one table are impossible on the other; return whether they could be judged."""
    first = _Script({}, _third)
    case.run(pair[0], first, leave=released_numbers)
    wide = [number for number, bound in enumerate(first.bounds) if bound > _SIGNS]
    if not wide or len(first.bounds) > 200:
        return False
    varied = max(wide, key=first.bounds.__getitem__)
    top = first.bounds[varied] - 1

    def released(data: Any, chosen: Chosen) -> Vector:
        script = _Script(chosen, _third, first.answers)
        outcome = case.run(data, script, leave=released_numbers)[0]
        if not isinstance(outcome, np.ndarray):
            raise _Unsettled
        return outcome

    ends = [released(pair[0], {varied: bits}) for bits in (top // 64, top - top // 64)]
    if ends[0].shape != ends[1].shape or np.array_equal(ends[0], ends[1]):
        return False
    place = int(np.argmax(np.abs(ends[1] - ends[0])))
    usual = released(pair[0], {})[place]
    others = [i for i, bound in enumerate(first.bounds) if i != varied]
    moving = [i for i in others if released(pair[0], {i: first.bounds[i] // 5})[place] != usual]
    signs = [i for i in others if first.bounds[i] <= _SIGNS]
    if set(moving) - set(signs) or len(signs) > _MOST:
        return False
    choices = [
        dict(zip(signs, chosen, strict=True))
        for chosen in itertools.product(*(range(first.bounds[i]) for i in signs))
    ]
    lacking, shown = 0, ""
    for _ in range(_OUTPUTS):
        bits = int(rng.integers(min(top, 2**62))) * max(1, top >> 62)
        wanted = float(released(pair[0], {varied: bits})[place])
        if wanted in {float(end[place]) for end in ends}:
            continue
        nearest = [_nearest(partial(released, pair[1]), varied, top, place, wanted, one) for one in choices]
        inside = [near for near in nearest if near is not None]
        if inside and all(wanted not in near for near in inside):
            lacking += 1
            shown = f"{wanted!r}, beside which the neighbor has {sorted({*inside[0]})[:2]}"
    if lacking >= _LACKING:
        raise CheckFailed(
            f"{lacking} of {_OUTPUTS} outputs of one table are impossible for its neighbor, whatever the "
            f"{top.bit_length()} bits, such as {shown}, between {case.beside(pair)} ({case.name})"
        )
    return True


def _nearest(  # noqa: PLR0917 - where to look, what for, and with which signs
    released: Callable[[Chosen], Vector], varied: int, top: int, place: int, wanted: float, signs: Chosen
) -> list[float] | None:
    """Return the outputs of bits around those whose output is the nearest; None if it is beyond all."""

    def output(bits: int) -> float:
        return float(released({**signs, varied: bits})[place])

    low, high = 1, top - 1
    rising = output(high) > output(low)
    while low < high:
        middle = (low + high) // 2
        below = output(middle) < wanted if rising else output(middle) > wanted
        low, high = (middle + 1, high) if below else (low, middle)
    near = [output(bits) for bits in range(max(1, low - _AROUND), min(top - 1, low + _AROUND) + 1)]
    in_order = all(a <= b if rising else a >= b for a, b in itertools.pairwise(near))
    if not in_order:
        raise _Unsettled  # the search may have gone astray
    return near if min(near) <= wanted <= max(near) else None


def _of_picks(make: Factory[Any], trial: Trial) -> Iterator[None]:
    case = claimed_selection(make, 2, (1,))
    if case is None or not _pure(case.plan):
        return
    with suppress(_Unsettled):
        seen = {behind: _picked(case, behind) for behind in _BEHIND}
        if len(seen[0.0]) > 1:
            for behind, picks in seen.items():
                if len(picks) == 1:
                    raise CheckFailed(
                        f"a candidate that is {behind:g} sensitivities behind is picked by none of the bits, "
                        f"and by some where it is not: it has no finite epsilon ({case.name})"
                    )
            yield


def _picked(case: SelectorCase, behind: float) -> set[tuple[int, ...]]:
    """Return what is picked of two candidates by any bits, as far as those at their ends tell."""
    values = np.array([behind * case.sensitivities[0].linf, 0.0])

    def picks(chosen: Chosen, usual: Callable[[int], int]) -> tuple[tuple[int, ...], list[int]]:
        script = _Script(chosen, usual)
        return case.selected([values], script), script.bounds

    _, bounds = picks({}, _third)
    if not bounds or max(bounds) > _FEW or len(bounds) > _MOST:
        raise _Unsettled
    corners = [{0, 1, bound // 2, bound - 2, bound - 1} for bound in bounds]
    found = {picks(dict(enumerate(chosen)), _third)[0] for chosen in itertools.product(*corners)}
    # Who settles a close decision by further bits goes on at the same end.
    return found | {picks({}, lambda _: 0)[0], picks({}, lambda bound: bound - 1)[0]}
