"""The exact chance of a pick, found by choosing the noise instead of drawing it.

For given noise, a selector that adds noise of a known law to each candidate's score is a function. With the
noise of one candidate fixed, another wins above some level of its own noise; bisection finds that level at
several places, and the probability of winning is an integral over known laws. This reaches far tails that no
sampling does: a pick without noise, tails that are cut, a scale that rounds to 0.
"""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

import attrs
import numpy as np
import numpy.typing as npt
import scipy

from dpkit_check.instrument import Answers, QuickSampler
from dpkit_check.laws import exponential_law, gumbel_law, ordered_law
from dpkit_core.arrays import Floats

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


Size: TypeAlias = int | tuple[int, ...]
"""How many numbers a sampler is asked for."""


def _shape(size: Size) -> tuple[int, ...]:
    return (size,) if isinstance(size, int | np.integer) else tuple(size)


def in_order(items: int | npt.ArrayLike) -> npt.NDArray[Any]:
    """Return the items in their order: for continuous noise, no order among ties matters."""
    return np.arange(items) if isinstance(items, int | np.integer) else np.array(items)


@attrs.define(eq=False)
class Script:
    """Which noise is given: to each candidate that is left, in units of its scale."""

    left: npt.NDArray[np.int64] = attrs.field(factory=lambda: np.zeros(0, dtype=np.int64))
    noise: Floats = attrs.field(factory=lambda: np.zeros(0))
    law: str = ""
    scale: float = 1.0

    def give(self, law: str, scale: float, size: Size) -> Floats:
        """Return the noise that was chosen, once: the sum of two draws has another law than either."""
        if _shape(size) != (len(self.left),) or self.law:
            raise NotProbed
        self.law, self.scale = law, scale
        return self.noise

    def order(self, items: Any) -> Any:
        """Return the items in their order."""
        return in_order(items)


@attrs.define(eq=False)
class FirstAhead(Script):
    """The noise of a round that is not looked at, of as many numbers as are asked for: the first is ahead."""

    def give(self, law: str, scale: float, size: Size) -> Floats:
        """Return zeros, and one large number."""
        noise = np.zeros(_shape(size))
        noise[(0,) * noise.ndim] = 50.0
        return noise


@attrs.define(eq=False)
class OneDraw(Script):
    """The noise of a single draw, of as many numbers as the selector asks for: one for each list, perhaps."""

    size: int = 0
    taken: tuple[int, ...] | None = None
    """Places of the sample of candidates that is chosen; the first ones where it is to be seen how many."""
    sampled: tuple[int, int] | None = None
    """Of how many candidates how many were asked for."""

    def take(self, items: npt.NDArray[Any], size: int) -> npt.NDArray[Any]:
        """Return the sample of ``items`` that was chosen."""
        asked = (len(items), size)
        if self.sampled or self.size or (self.taken is not None and len(self.taken) != size):
            raise NotProbed
        self.sampled = asked
        return items[list(range(size) if self.taken is None else self.taken)]

    def give(self, law: str, scale: float, size: Size) -> Floats:
        """Return the noise that was chosen, or zeros on the first run, which shows how much is needed."""
        shape = _shape(size)
        if len(shape) != 1 or self.size or (self.noise.size and shape != self.noise.shape):
            raise NotProbed
        self.law, self.scale, self.size = law, scale, shape[0]
        return self.noise if self.noise.size else np.zeros(shape)


@attrs.define(eq=False)
class InTurn(Script):
    """The noise of several draws of one law, one after the other; zeros where it ends."""

    given: int = 0
    """How many numbers were asked for."""

    def give(self, law: str, scale: float, size: Size) -> Floats:
        """Return the next numbers."""
        if self.law not in {"", law}:
            raise NotProbed
        shape, first = _shape(size), self.given
        self.law, self.given = law, first + math.prod(shape)
        noise = np.zeros(math.prod(shape))
        known = self.noise[first : self.given]
        noise[: known.size] = known
        return noise.reshape(shape)


@attrs.define(eq=False)
class InStages(Script):
    """The noise of several draws, one array each; of those after them the first number is ahead."""

    draws: Sequence[Floats] = ()
    sizes: list[int] = attrs.field(factory=list)
    """How many numbers each draw was asked for."""

    def give(self, law: str, scale: float, size: Size) -> Floats:
        """Return the noise of the next draw."""
        shape, number = _shape(size), len(self.sizes)
        if len(shape) != 1 or self.law not in {"", law}:
            raise NotProbed
        self.law = law
        self.sizes.append(shape[0])
        if number < len(self.draws):
            if self.draws[number].shape != shape:
                raise NotProbed
            return self.draws[number]
        return np.where(np.arange(shape[0]) == 0, 50.0, 0.0)


@attrs.define(eq=False)
class WholeNumber(Script):
    """One whole number of discrete noise, which a mechanism adds to something itself."""

    value: int = 0

    def whole(self, law: str, scale: float, size: Size) -> npt.NDArray[np.int64]:
        """Return the number, once."""
        if math.prod(_shape(size)) != 1 or self.law:
            raise NotProbed
        self.law, self.scale = law, scale
        return np.full(_shape(size), self.value, dtype=np.int64)


@attrs.define(eq=False)
class Coined(Script):
    """One coin, and for each candidate a number of known law, or the difference of two exponential ones."""

    fall: int = 0
    """The side on which the coin falls."""
    sides: int = 0
    """How many it has; 0 if it was not thrown."""
    turned: int = 0
    """By how many places a secret order is turned."""
    ordered: bool = False
    """Whether such an order was asked for."""
    least: Floats | float = 0.0
    """The smaller of two exponential numbers of each candidate."""
    given: int = 0
    """How often numbers were asked for."""

    def throw(self, bound: int, size: Size | None) -> Any:
        """Return how the coin falls, once."""
        shape = () if size is None else _shape(size)
        if self.sides or math.prod(shape) != 1:
            raise NotProbed
        self.sides = bound
        return np.full(shape, self.fall, dtype=np.int64)

    def order(self, items: Any) -> Any:
        """Return the items, turned."""
        if self.ordered:
            raise NotProbed
        self.ordered = True
        return np.roll(in_order(items), self.turned)

    def give(self, law: str, scale: float, size: Size) -> Floats:
        """Return the numbers, or the next of both."""
        if _shape(size) != self.noise.shape or (self.given and (law, self.given) != ("exponential", 1)):
            raise NotProbed
        self.law, self.scale, self.given = law, scale, self.given + 1
        if law != "exponential":
            return self.noise
        return self.least + np.maximum(self.noise * (-1) ** (self.given - 1), 0.0)


@attrs.define(eq=False)
class OneFair(Script):
    """One fair whole number below a bound, from which all follows."""

    value: int = 0
    bound: int = 0
    """What it is below; 0 if it was not asked for."""

    def throw(self, bound: int, size: Size | None) -> Any:
        """Return the number, once."""
        shape = () if size is None else _shape(size)
        if self.bound or math.prod(shape) != 1:
            raise NotProbed
        self.bound = bound
        return np.full(shape, self.value, dtype=np.int64)

    def order(self, items: Any) -> Any:
        """Refuse: picks in a secret order do not follow from the number."""
        raise NotProbed


@attrs.define(eq=False)
class OneByOne(Script):
    """Laplace noise, number after number, or in any pieces; and a secret order of the candidates."""

    secret: npt.NDArray[np.int64] = attrs.field(factory=lambda: np.zeros(0, dtype=np.int64))
    """The candidates in that order."""
    least: Floats | float = 0.0
    """The smaller of two exponential numbers whose difference each number is."""
    given: int = 0
    """How many numbers were asked for."""
    half: int = 0
    """Of how many numbers the first of two exponential ones was asked for, and not yet the other."""

    def order(self, items: Any) -> Any:
        """Return the items in the secret order."""
        found = in_order(items)
        if len(found) != len(self.secret):
            raise NotProbed
        return found[self.secret]

    def give(self, law: str, scale: float, size: Size) -> Floats:
        """Return the next numbers, or one of the two whose difference they are."""
        count = math.prod(_shape(size))
        if self.law not in {"", law} or law not in {"laplace", "exponential"} or self.half not in {0, count}:
            raise NotProbed
        if self.given + count > self.noise.size:
            raise NotProbed
        self.law = law
        taken = slice(self.given, self.given + count)
        sign = -1.0 if self.half else 1.0
        self.half = count if law == "exponential" and not self.half else 0
        self.given += 0 if self.half else count
        found = self.noise[taken]
        if law == "exponential":
            found = np.broadcast_to(self.least, self.noise.shape)[taken] + np.maximum(sign * found, 0.0)
        return found.reshape(_shape(size))


@attrs.define(eq=False)
class WholeNumbers(Script):
    """Whole numbers of one draw of discrete noise, which a mechanism adds to something; zeros at first."""

    backwards: bool = False
    """Whether a secret order is that of the items reversed."""
    ordered: bool = False
    """Whether such an order was asked for."""
    size: int = 0
    """How many numbers were."""

    def order(self, items: Any) -> Any:
        """Return the items in their order, or from the last to the first."""
        self.ordered = True
        return in_order(items)[:: -1 if self.backwards else 1]

    def whole(self, law: str, scale: float, size: Size) -> npt.NDArray[np.int64]:
        """Return the numbers, once."""
        shape = _shape(size)
        if len(shape) != 1 or self.law or self.noise.shape not in {(0,), shape}:
            raise NotProbed
        self.law, self.scale, self.size = law, scale, shape[0]
        return np.zeros(shape, dtype=np.int64) if not self.noise.size else self.noise.astype(np.int64)


@attrs.define(eq=False)
class OneTest(Script):
    """The noise of a private test, and the sample drawn if it fails: the first candidates, or the last."""

    noise: Floats = attrs.field(factory=lambda: np.zeros(1))
    last: bool = False
    of: int = 1
    """How many samples there were to draw from."""

    def take(self, items: npt.NDArray[Any], size: int) -> npt.NDArray[Any]:
        """Return a sample of ``items``."""
        self.of *= math.comb(len(items), size)
        return items[-size:] if self.last else items[:size]

    def give(self, law: str, scale: float, size: Size) -> Floats:
        """Return the number, once."""
        if math.prod(_shape(size)) != 1 or self.law:
            raise NotProbed
        self.law = law
        return np.full(_shape(size), self.noise[0])


@attrs.define(eq=False)
class OneNumber(Script):
    """One number of Laplace noise, drawn as such or as the difference of two exponential numbers."""

    value: float = 0.0
    least: float = 0.0
    """The smaller of two exponential numbers."""
    given: int = 0

    @property
    def whole(self) -> bool:
        """Whether the number was asked for, all of it and once."""
        return (self.law, self.given) in {("laplace", 1), ("exponential", 2)}

    def order(self, items: Any) -> Any:
        """Refuse: picks in a secret order do not follow from the number."""
        raise NotProbed

    def give(self, law: str, scale: float, size: Size) -> Floats:
        """Return the number, or the next of the two."""
        if math.prod(_shape(size)) != 1 or self.law not in {"", law} or self.whole:
            raise NotProbed
        value = self.value if law == "laplace" else self.least + max(0.0, self.value * (-1) ** self.given)
        self.law, self.given = law, self.given + 1
        return np.full(_shape(size), value)


@attrs.frozen
class _Scripted(QuickSampler):
    answers: Chosen

    def gumbel(self, size: Any = ()) -> Any:
        """Return what was chosen."""
        return self.answers.script.give("gumbel", 1.0, size)

    def exponential(self, size: Any = ()) -> Any:
        """Return what was chosen."""
        return self.answers.script.give("exponential", 1.0, size)

    def laplace_on_grid(self, value: Any, *, sensitivity: float, noise_multiplier: float) -> Any:
        """Return numbers with the noise that was chosen."""
        center, scale = np.asarray(value, dtype=np.float64), sensitivity * noise_multiplier
        return center + scale * self.answers.script.give("laplace", scale, center.shape)

    def discrete_laplace(self, scale: Any, size: Any = ()) -> Any:
        """Return what was chosen, in whole steps; coarse noise is not a continuous law."""
        return self._whole("laplace", float(scale), size)

    def discrete_gaussian(self, sigma: Any, size: Any = ()) -> Any:
        """Return what was chosen, in whole steps; coarse noise is not a continuous law."""
        return self._whole("gaussian", float(sigma), size)

    def integers(self, bound: Any, size: Any = None) -> Any:
        """Return how a coin falls, or a fair number, where the script has one."""
        if not isinstance(self.answers.script, Coined | OneFair) or np.ndim(bound):
            raise NotProbed
        return self.answers.script.throw(int(bound), size)

    def permutation(self, items: Any) -> Any:
        """Return the items in the order of the script."""
        return self.answers.script.order(items)

    def subset(self, items: Any, size: int) -> Any:
        """Return the sample that was chosen, which one draw may be made from."""
        if not isinstance(self.answers.script, OneDraw | OneTest):
            raise NotProbed
        return self.answers.script.take(in_order(items), int(size))

    def _whole(self, law: str, scale: float, size: Any) -> Any:
        if isinstance(self.answers.script, WholeNumber | WholeNumbers):
            return self.answers.script.whole(law, scale, size)
        if scale < 2**10:
            raise NotProbed
        return np.rint(self.answers.script.give(law, scale, size) * scale).astype(np.int64)

    @property
    def generator(self) -> np.random.Generator:
        """Refuse: other draws have no noise that could be chosen."""
        raise NotProbed


class _Coins:
    """Public coins that can only be asked for an order, which is left as it is."""

    permutation = staticmethod(in_order)

    def __getattr__(self, name: str) -> Any:
        raise NotProbed


class Chosen(Answers):
    """Answers in which a mechanism of the part's own gets the noise of a script, which may be exchanged."""

    def __init__(self, script: Script) -> None:
        super().__init__(0)
        self.script = script
        self.sampler = _Scripted(self.generator, self)

    @property
    def coins(self) -> Any:
        """Coins that leave every order as it is."""
        return _Coins()

    def picked(self, *arguments: Any) -> tuple[int, ...]:
        """Refuse: the law of what the meter selects is known."""
        raise NotProbed

    def foreign(self, whose: str) -> None:
        """Refuse: somebody else's noise is not chosen."""
        raise NotProbed


#: Scales within which a whole number is tried one by one, and how many these may be: beyond is e^-30.
_WITHIN, MOST_WHOLE = 30.0, 2000

Outcome = TypeVar("Outcome", bound=Hashable)


def whole_reach(released: Callable[[WholeNumber], object]) -> tuple[int, float]:
    """Return up to which number discrete Laplace noise is tried, and its scale.

    Raises
    ------
    NotProbed
        If the release draws anything but one such number, or it is too large to try them all.
    """
    script = WholeNumber()
    released(script)
    reach = math.ceil(_WITHIN * script.scale)
    if script.law != "laplace" or 2 * reach >= MOST_WHOLE:
        raise NotProbed
    return reach, script.scale


def law_of_whole_noise(released: Callable[[WholeNumber], Outcome]) -> dict[Outcome, float]:
    """Return the law of a release that follows from one number of discrete Laplace noise: all are tried."""
    reach, scale = whole_reach(released)
    law: dict[Outcome, float] = {}
    for value in range(-reach, reach + 1):
        outcome = released(WholeNumber(value=value))
        law[outcome] = law.get(outcome, 0.0) + math.exp(-abs(value) / scale) * math.tanh(0.5 / scale)
    return law


#: The chance that one of many numbers is further away than where it is seen that another decides alone.
_ELSEWHERE = 0.01

#: So many times as far as that the noise of each alone is moved, until one decides.
_FARTHER = (1.0, 1.25, 1.5, 2.0, 3.0)

#: How often other numbers are drawn by which that is seen.
ALONE_TRIES = 8


def law_of_one_of_many(
    released: Callable[[WholeNumbers], Outcome],
) -> tuple[dict[Outcome, float], float]:
    """Return the law of a release that is one thing above a level of one of many whole numbers, else another.

    And the chance of all others to be where they do not matter, 1 where they never do. Elsewhere they may
    lead to something else, but never, as far as is tried, to what the number itself does not lead to. So each
    outcome has at most its chance by this law, and at least that share of it.

    Raises
    ------
    NotProbed
        If it follows from anything else, or noise is drawn in another way.
    """
    probe = WholeNumbers()
    released(probe)
    if not 0 < probe.size <= MOST_WHOLE or not 0 < probe.scale <= MOST_WHOLE:
        raise NotProbed
    size, reach = probe.size, math.ceil({"laplace": _WITHIN, "gaussian": 12.0}[probe.law] * probe.scale)
    rng = np.random.default_rng(0)

    def given(place: int, value: float, among: float = 0.0) -> Outcome:
        noise = np.rint(probe.scale * rng.uniform(-among, among, size)) if among else np.zeros(size)
        noise[place] = value
        return released(WholeNumbers(noise=noise))

    def decisive(far: int) -> list[tuple[int, Outcome, Outcome]]:
        ends = ((i, given(i, -far), given(i, far)) for i in range(size))
        return [(i, below, above) for i, below, above in ends if below != above]

    among, share, found = 6.0, 1.0, decisive(reach)
    if len(found) > 1:  # the first that matters, as noise grows
        tail = _ELSEWHERE / size
        among = -math.log(tail) if probe.law == "laplace" else -float(scipy.special.ndtri(tail / 2))
        share = 1 - _ELSEWHERE
        farther = (decisive(math.floor(step * among * probe.scale)) for step in _FARTHER)
        found = next((each for each in farther if each), [])
    if len(found) != 1:
        raise NotProbed
    ((place, below, above),), low, high = found, -reach, reach
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if given(place, middle) == above else (middle, high)
    for _ in range(ALONE_TRIES):
        for far in (0, math.ceil(probe.scale), reach // 2):
            if (given(place, low - far, among), given(place, high + far, among)) != (below, above):
                raise NotProbed
            others = 2 * among
            if given(place, low - far, others) == above or given(place, high + far, others) == below:
                raise NotProbed
    law = np.exp(whole_log_law(probe.law, probe.scale, reach))
    chance = math.fsum(law[high + reach :])
    return {above: chance, below: 1 - chance}, share


def law_of_test(picked: Callable[[OneTest], Outcome]) -> tuple[Outcome, float, int]:
    """Return what is picked if a noisy test passes, the chance of that, and how many samples there are else.

    Raises
    ------
    NotProbed
        If it is not one number of Laplace noise that decides, or a failure does not lead to a random sample.
    """
    low, high = REACH["laplace"]

    def given(noise: float, *, last: bool = False) -> tuple[Outcome, OneTest]:
        script = OneTest(noise=np.array([noise]), last=last)
        return picked(script), script

    (failed, probe), (passed, _) = given(low), given(high)
    if probe.law != "laplace" or failed == given(low, last=True)[0] or passed != given(high, last=True)[0]:
        raise NotProbed
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if given(middle, last=True)[0] == passed else (middle, high)
    return passed, float(chance_above("laplace", np.array(high))), probe.of


def law_of_number(picked: Callable[[OneNumber], Outcome]) -> dict[Outcome, float]:
    """Return the law of what is picked one way above a level of one number of Laplace noise, and one below.

    Raises
    ------
    NotProbed
        If it follows from anything else, or is the same for all numbers.
    """

    def given(value: float, least: float = 0.0) -> Outcome:
        script = OneNumber(value=value, least=least)
        outcome = picked(script)
        if not script.whole:
            raise NotProbed
        return outcome

    low, high = REACH["laplace"]
    below, above = given(low), given(high)
    if below == above:
        raise NotProbed
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if given(middle) == above else (middle, high)
    for far in (1e-3, 0.5, 5.0, 20.0):
        for least in (0.0, 2.0):
            if (given(low - far, least), given(high + far, least)) != (below, above):
                raise NotProbed
    chance = float(chance_above("laplace", np.array(high)))
    return {above: chance, below: 1 - chance}


Wins = Callable[[Script], bool]
"""Whether the candidate that is left last wins, for noise that was chosen."""


def chances(wins: Wins, left: int) -> tuple[float, float]:
    """Return the chances with which the last of ``left`` candidates wins, and loses.

    If there are more than two, all others have equal scores, and the one with the most noise counts.

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
            if won(low):
                raise NotProbed  # the least noise wins, and not the most
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
    weight = np.diff(chance_below(law, grid) ** (left - 1))
    middles = (levels[1:] + levels[:-1]) / 2
    return math.fsum(weight * chance_above(law, middles)), math.fsum(weight * chance_below(law, middles))


def chance_behind(leads: Wins, left: int) -> float:
    """Return the chance with which the last of ``left`` candidates, which leads, is not picked.

    All others have equal scores, and one of them wins where its noise is ahead by a gap; noise that is cut
    is so for no noise of the last above some level. With F the law, 1 - F(x + gap)^(left - 1) is integrated
    over noise x of the last up to there. Random noise must agree with who wins.

    Raises
    ------
    NotProbed
        If the selector draws in another way, or the last may be behind however much noise it has.
    """
    script = Script(np.arange(left), np.zeros(left))
    leads(script)
    if script.law not in {"gumbel", "exponential", "laplace"}:
        raise NotProbed
    low, high = REACH[script.law]

    def wins(noise: Floats) -> bool:
        return leads(Script(np.arange(left), noise))

    def level(inside: Callable[[float], bool], bottom: float, top: float) -> float:
        """Return the most that is inside, of what is from ``bottom`` on."""
        for _ in range(2 * HALVINGS):
            middle = (bottom + top) / 2
            bottom, top = (middle, top) if inside(middle) else (bottom, middle)
        return bottom

    def behind(own: float, other: float, place: int = 0) -> bool:
        noise = np.full(left, low)
        noise[place], noise[-1] = other, own
        return not wins(noise)

    if not behind(low, high):
        return 0.0
    last = level(lambda own: behind(own, high), low, high)
    gaps = [
        level(lambda other, own=own: not behind(own, other), low, high) - own  # type: ignore[misc]
        for own in (low, (low + last) / 2)
    ]
    if np.ptp(gaps) > 1e-3 or not low < last + gaps[0] < high - 1:
        raise NotProbed
    rng = np.random.default_rng(0)
    for number in range(2 * LIST_TRIES):
        own = low + (last - low) * rng.random() + (number % 4 == 0) * (last - low)
        noise = np.append(rng.uniform(low, own + gaps[0] - 0.01, left - 1), own)
        if number % 2:
            noise[rng.integers(left - 1)] = own + gaps[0] + 0.01
        if wins(noise) is bool(number % 2 and own < last):
            raise NotProbed
    grid = np.linspace(low, last, POINTS)
    law = np.diff(chance_below(script.law, grid))
    ahead = (grid[1:] + grid[:-1]) / 2 + gaps[0]
    return math.fsum(law * -np.expm1((left - 1) * np.log1p(-chance_above(script.law, ahead))))


#: Sides of a coin that are all tried, and how often it is, who is picked if noise does not matter.
MOST_SIDES, COIN_TRIES = 64, 6


def coined_chances(picked: Callable[[Coined], int], left: int) -> tuple[float, float]:
    """Return the chances with which the last of ``left`` candidates is picked, and not, over a coin's sides.

    By each side either the noise decides, or whoever is at one place of a secret order is picked: anybody,
    with the same chance. The law of the pick is the mean of these laws.

    Raises
    ------
    NotProbed
        If the selector draws in another way, or as ``chances`` knows.
    """
    rng = np.random.default_rng(0)
    probe = Coined(noise=np.zeros(left))
    picked(probe)
    if not 0 < probe.sides <= MOST_SIDES and (probe.law, probe.given) != ("exponential", 2):
        raise NotProbed
    sides, won, lost = max(1, probe.sides), 0.0, 0.0
    for fall in range(sides):
        p, q = _whatever_noise(picked, left, fall, rng) or chances(_known(picked, left, fall, rng), left)
        won, lost = won + p / sides, lost + q / sides
    return won, lost


def _whatever_noise(
    picked: Callable[[Coined], int], left: int, fall: int, rng: np.random.Generator
) -> tuple[float, float] | None:
    """Return the chances of the last candidate where noise does not matter; None where it does."""
    places, ordered = set(), False
    for number in range(COIN_TRIES):
        noise = rng.uniform(-9, 9, left)
        noise[int(rng.integers(left)) if number % 2 else -1] = 50.0
        script = Coined(noise=noise, fall=fall, turned=int(rng.integers(left)))
        found = picked(script)
        ordered = script.ordered
        places.add((found + script.turned) % left if ordered else found)
    if len(places) > 1:
        return None
    p = 1 / left if ordered else float(places.pop() == left - 1)
    return p, 1 - p


def _known(
    picked: Callable[[Coined], int], left: int, fall: int, rng: np.random.Generator
) -> Callable[[Script], bool]:
    """Return whether the last candidate wins, as ``chances`` asks, where a coin falls on one side."""

    def wins(script: Script) -> bool:
        least = rng.exponential(size=left)
        one, other = (Coined(noise=script.noise, fall=fall, least=low) for low in (0.0, least))
        won = picked(one) == left - 1
        if one.given == 2 and won != (picked(other) == left - 1):
            raise NotProbed  # something else than their difference
        script.law = "laplace" if one.given == 2 else one.law
        return won

    return wins


#: Noise of a threshold at which it is seen whom it lets pass; and the integral over it.
_THRESHOLDS, _SCANNED = (-2.0, 0.0, 3.0), np.linspace(-45, 45, 1801)


@attrs.frozen
class Scan:
    """How the first candidates above a noisy threshold are picked, and others where these are too few.

    The threshold and each candidate have Laplace noise of their own. Given that of the threshold, a candidate
    has to be above a level, which rises in proportion. So chances are integrals over one number.

    Attributes
    ----------
    left, picks
        How many candidates there are, and how many are picked.
    slope
        By how much levels rise with the threshold's noise.
    others, last
        The levels of all others, and of the last ``picks``, without it.
    asked, filled
        Whether candidates are asked, and missing ones filled in, in a secret order; else it is public.
    """

    left: int
    picks: int
    slope: float
    others: float
    last: float
    asked: bool
    filled: bool

    @property
    def chance(self) -> float:
        """The chance with which the last candidates, and none of the others, are picked."""
        k, others = self.picks, self.left - self.picks
        weight = np.exp(-np.abs(_SCANNED)) / 2
        (fail, one), (fails, passes) = (
            (chance_below("laplace", level), chance_above("laplace", level))
            for level in (self.others + self.slope * _SCANNED, self.last + self.slope * _SCANNED)
        )
        # All of the last are found, and before any of the others. In a secret order each has a random time.
        ahead = fail**others
        if self.asked:
            nodes, lengths = np.polynomial.legendre.leggauss(self.left // 2 + 1)
            times = (1 + nodes) / 2
            none_yet = np.exp(others * np.log1p(-np.outer(one, times)))
            ahead = none_yet @ (lengths / 2 * k * times ** (k - 1))
        chance = passes**k * ahead
        if self.filled:  # some of them are, none of the others, and those that are filled in are the rest
            chance += fail**others * sum(
                math.comb(k, j) * passes**j * fails ** (k - j) / math.comb(self.left - j, k - j)
                for j in range(k)
            )
        return float(np.trapezoid(weight * chance, _SCANNED))

    def drawn(self, rng: np.random.Generator) -> tuple[OneByOne, set[int]]:
        """Return noise, and who is picked by it."""
        order, places = rng.permutation(self.left), np.arange(self.left)
        line, rest = (order if secret else places for secret in (self.asked, self.filled))
        threshold, passing = rng.uniform(-3, 3), rng.random(self.left) < rng.random() ** 2
        levels = np.where(places < self.left - self.picks, self.others, self.last) + self.slope * threshold
        noise = levels + np.where(passing, 0.01, rng.uniform(-20, -0.01, self.left))
        turn = [*line[passing[line]], *rest[~passing[rest]]]
        least = rng.exponential(size=1 + self.left)
        return OneByOne(noise=np.append(threshold, noise[line]), secret=order, least=least), {
            int(place) for place in turn[: self.picks]
        }


def scan_of(picked: Callable[[OneByOne], Picks], left: int, picks: int) -> Scan:
    """Return how the first above a noisy threshold are picked of ``left``, where all but the last are equal.

    So are the last, of which there are as many as picks. Random noise must agree with who passes.

    Raises
    ------
    NotProbed
        If the selector draws or picks in another way.
    """
    low, high = REACH["laplace"]

    def level(place: int, threshold: float) -> float:
        """Return the noise from which on a candidate passes, where of the others all picks but one do."""
        noise = np.full(1 + left, low)
        noise[0], noise[1:picks] = threshold, high
        bottom, top = low, high
        for _ in range(HALVINGS):
            noise[1 + place] = (bottom + top) / 2
            passes = place in _asked(picked, OneByOne(noise=noise, secret=np.arange(left)))
            bottom, top = (bottom, noise[1 + place]) if passes else (noise[1 + place], top)
        return top

    at = np.array(_THRESHOLDS)
    others, last = (np.array([level(place, one) for one in at]) for place in (left // 2, left - 1))
    slope = (others[-1] - others[0]) / (at[-1] - at[0])
    starts = others - slope * at, last - slope * at
    if not 0 < slope < math.inf or max(np.ptp(one) for one in starts) > 1e-4:
        raise NotProbed
    for asked, filled in itertools.product((False, True), repeat=2):
        scan = Scan(left, picks, float(slope), float(starts[0][0]), float(starts[1][0]), asked, filled)
        rng = np.random.default_rng(0)
        drawn = (scan.drawn(rng) for _ in range(4 * LIST_TRIES))
        if all(set(_asked(picked, script)) == expected for script, expected in drawn):
            return scan
    raise NotProbed


def _asked(picked: Callable[[OneByOne], Picks], script: OneByOne) -> Picks:
    found = picked(script)
    if script.half or not script.given:
        raise NotProbed
    return found


#: Up to this scale all differences of two whole numbers are added up.
MOST_COARSE = 60.0


def whole_chances(wins: Callable[[WholeNumbers], bool]) -> tuple[float, float]:
    """Return the chances with which the last of two candidates wins, and loses, by noise in whole steps.

    If its noise need be ahead of the other's by so many steps, however much that one has, the chance is that
    of a difference of two such numbers. A secret order, by which ties are broken, may be either.

    Raises
    ------
    NotProbed
        If the selector draws in another way, or by more than ``MOST_COARSE`` steps.
    """
    probe = WholeNumbers()
    wins(probe)
    if probe.size != 2 or not 0 < probe.scale <= MOST_COARSE:
        raise NotProbed
    reach = math.ceil({"laplace": 45.0, "gaussian": 12.0}[probe.law] * probe.scale)
    law = np.exp(whole_log_law(probe.law, probe.scale, reach))
    differences = np.convolve(law, law)
    won = lost = 0.0
    for backwards in (False, True):

        def ahead(own: int, other: int, backwards: bool = backwards) -> bool:
            noise = np.array([own, other] if backwards and probe.ordered else [other, own], dtype=np.float64)
            return wins(WholeNumbers(noise=noise, backwards=backwards))

        levels = {_steps_ahead(ahead, other, reach) - other for other in (-(reach // 3), 0, reach // 2)}
        if len(levels) > 1:
            raise NotProbed
        level = levels.pop() + 2 * reach  # the place of a difference of 0
        won += math.fsum(differences[max(0, level) :]) / 2
        lost += math.fsum(differences[: max(0, level)]) / 2
    return won, lost


def _steps_ahead(ahead: Callable[[int, int], bool], other: int, reach: int) -> int:
    """Return from which whole number of noise on the last candidate wins, where the other has ``other``."""
    low, high = -8 * reach, 8 * reach
    if ahead(low, other) or not ahead(high, other):
        raise NotProbed
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if ahead(middle, other) else (middle, high)
    return high


def whole_log_law(law: str, scale: float, reach: int) -> Floats:
    """Return the logarithms of the chances of all whole numbers within ``reach``, by discrete noise."""
    far = np.abs(np.arange(-reach, reach + 1)) / scale
    weights = -far if law == "laplace" else -(far**2) / 2
    found: Floats = weights - scipy.special.logsumexp(weights)
    return found


#: Places at which a fair number is tried first, and random ones that must agree with those between them.
FAIR_PLACES, FAIR_TRIES = 33, 24


def law_of_fair(released: Callable[[OneFair], Outcome]) -> dict[Outcome, float]:
    """Return the law of a release that follows from one fair whole number, and changes at few places.

    Raises
    ------
    NotProbed
        If it draws anything else, or changes more often than is seen.
    """
    probe = OneFair()
    released(probe)
    if not probe.bound:
        raise NotProbed
    of, known = probe.bound, dict[int, Outcome]()

    def at(value: int) -> Outcome:
        if value not in known:
            known[value] = released(script := OneFair(value=value))
            if script.bound != of:
                raise NotProbed
        return known[value]

    starts = [0]
    for end in sorted({(of - 1) * i // (FAIR_PLACES - 1) for i in range(1, FAIR_PLACES)}):
        while at(starts[-1]) != at(end):
            low, high = starts[-1], end
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (middle, high) if at(middle) == at(starts[-1]) else (low, middle)
            starts.append(high)
            if len(starts) > MOST_LISTS:
                raise NotProbed
    for value in np.random.default_rng(0).integers(of, size=FAIR_TRIES).tolist():
        if at(value) != at(starts[bisect.bisect_right(starts, value) - 1]):
            raise NotProbed
    law: dict[Outcome, float] = {}
    for start, end in itertools.pairwise([*starts, of]):
        law[at(start)] = law.get(at(start), 0.0) + (end - start) / of
    return law


#: The characteristic functions of standard noise.
_TRANSFORMS: Mapping[str, Callable[[Floats], Any]] = {
    "gumbel": lambda t: scipy.special.gamma(1 - 1j * t),
    "exponential": lambda t: 1 / (1 - 1j * t),
    "laplace": lambda t: 1 / (1 + t * t),
    "gaussian": lambda t: np.exp(-t * t / 2),
}

#: The most numbers of noise whose sum may decide, and chances below which their integral is not precise.
MOST_SUMMED, SUMMED_PRECISION = 64, 1e-9


def summed_chances(wins: Callable[[InTurn], bool]) -> tuple[float, float]:
    """Return the chances with which one wins, and loses, if a sum of several draws, with weights, is large.

    The weights, in units of what has to be reached, follow from the level of each number alone; random noise
    must agree. By Gil-Pelaez, P(sum > 1) is 1/2 and an integral of the transform of its law.

    Raises
    ------
    NotProbed
        If the selector draws in another way, or who wins does not follow from such a sum.
    """
    probe = InTurn()
    ahead, size = wins(probe), probe.given
    if probe.law not in _TRANSFORMS or not 2 <= size <= MOST_SUMMED:
        raise NotProbed

    def given(noise: Floats) -> bool:
        script = InTurn(noise=noise)
        won = wins(script)
        if script.given != size:
            raise NotProbed
        return won is not ahead

    weights = np.zeros(size)
    for i in range(size):
        one = np.arange(size) == i
        for end in (1e6, -1e6):
            if given(one * end):
                near, far = 0.0, end
                for _ in range(2 * HALVINGS):  # a level of 0 is none
                    middle = (near + far) / 2
                    near, far = (near, middle) if given(one * middle) else (middle, far)
                if abs(far) < 1e-6:
                    raise NotProbed
                weights[i] = 1 / far
                break
    rng = np.random.default_rng(0)
    for _ in range(4 * LIST_TRIES):
        noise = rng.normal(scale=1 / np.abs(weights).max(initial=1e-9), size=size)
        total = float(weights @ noise)
        if abs(total - 1) > 1e-6 and given(noise) is not (total > 1):
            raise NotProbed
    scale = float(np.linalg.norm(weights))
    if not scale:
        raise NotProbed
    t = (np.arange(2**15) + 0.5) * (2.0**-8 / scale)
    transform = np.prod([_TRANSFORMS[probe.law](weight * t) for weight in weights], axis=0)
    if abs(transform[-1]) > SUMMED_PRECISION:
        raise NotProbed
    chance = 0.5 + float((np.imag(np.exp(-1j * t) * transform) / t).sum()) * (t[1] - t[0]) / math.pi
    changed = min(max(chance, 0.0), 1.0)
    return (1 - changed, changed) if ahead else (changed, 1 - changed)


#: Between these, in scales, a candidate is behind whose tails are compared, and the noise of all others.
BEHIND, AMONG = (8.0, 16.0), (0.0, 5.0)

#: Random noise of all others, for which levels must be as far apart.
OTHERS = 3


def slope_of_draws(wins: Callable[[float, InTurn], bool]) -> tuple[int, float]:
    """Return in how many draws a candidate must win, and how fast the log of its chance falls behind.

    ``wins`` says whether it does, so many scales behind all others. If it does where each of m numbers of its
    own is above a level of its own, its chance, given the noise of others, is the product of m tails. Those
    of Gumbel, exponential and Laplace noise are in proportion to exp(-level) far up, and where it is far
    behind all levels are. So log chances fall by as much as the levels rise together.

    Raises
    ------
    NotProbed
        If there is one such number, or it wins in another way.
    """
    probe = InTurn()
    wins(0.0, probe)
    size, (low, high) = probe.given, REACH.get(probe.law, (0.0, 0.0))
    if probe.law not in {"gumbel", "exponential", "laplace"}:
        raise NotProbed

    def won(behind: float, noise: Floats) -> bool:
        script = InTurn(noise=noise)
        return wins(behind, script) and script.given == size

    def at(noise: Floats, places: Iterable[int], values: float | Floats) -> Floats:
        changed = noise.copy()
        changed[list(places)] = values
        return changed

    level = np.ones(size)
    if not won(-0.5, level):
        raise NotProbed
    own = [i for i in range(size) if not won(-0.5, at(level, [i], low))]
    if len(own) < 2:
        raise NotProbed

    def levels(behind: float, others: Floats) -> Floats:
        found = []
        for i in own:
            bottom, top = low, high
            ahead = at(others, own, high)
            if won(behind, at(ahead, [i], bottom)) or not won(behind, at(ahead, [i], top)):
                raise NotProbed
            for _ in range(HALVINGS):
                middle = (bottom + top) / 2
                bottom, top = (bottom, middle) if won(behind, at(ahead, [i], middle)) else (middle, top)
            found.append(top)
        if not won(behind, at(others, own, np.array(found) + 1e-3)):
            raise NotProbed  # a sum of two numbers, say, and not each by itself
        return np.array(found)

    rng = np.random.default_rng(0)
    rises = []
    for _ in range(OTHERS):
        others = rng.uniform(*AMONG, size)
        near, far = (levels(behind, others) for behind in BEHIND)
        rises.append(float((far - near).sum()))
    if np.ptp(rises) > 1e-3:
        raise NotProbed
    return len(own), min(rises) / (BEHIND[1] - BEHIND[0])


Picks = tuple[int, ...]
Selects = Callable[[OneDraw], Picks]
"""What is picked for noise that was chosen."""

#: Lists, sets or candidates that get a noise of their own; halvings of its reach, which are fewer than for
#: one candidate, and random draws by which it is seen that the best noisy one wins.
MOST_LISTS, LIST_HALVINGS, LIST_TRIES = 130, 18, 8

#: The most samples of candidates whose laws are computed one by one.
MOST_SAMPLES = 20

#: How far the logarithm of a ratio of probabilities may be off for these halvings.
LIST_PRECISION = 1e-3


def law_of_lists(selects: Selects, features: int) -> dict[Picks, float]:
    """Return the law of picks at once by a single draw of noise, or of one from a sample of the candidates.

    Either each of some lists has its own noise, and the one with the best noisy utility is selected; or
    each candidate has, and the best are. Utilities, in units of the noise, follow from the level at which
    one begins to beat another. Where the draw is from a uniform sample of the candidates, the law is the mean
    of those of all samples.

    Raises
    ------
    NotProbed
        If the selector draws in another way.
    """
    probe = OneDraw()
    selects(probe)
    if probe.sampled is None:
        return _law_of_sample(selects, features, None)
    of, size = probe.sampled
    if math.comb(of, size) > MOST_SAMPLES:
        raise NotProbed
    found: dict[Picks, float] = {}
    for taken in itertools.combinations(range(of), size):
        for picks, p in _law_of_sample(selects, features, taken).items():
            found[picks] = found.get(picks, 0.0) + p / math.comb(of, size)
    return found


def _law_of_sample(selects: Selects, features: int, taken: tuple[int, ...] | None) -> dict[Picks, float]:
    """Return the law of the picks from one sample of the candidates, or from all of them."""
    probe = OneDraw(taken=taken)
    k, size, law = len(selects(probe)), probe.size, probe.law
    best = {"gumbel": gumbel_law, "exponential": exponential_law}.get(law)
    if best is None or not 2 <= size <= MOST_LISTS:
        raise NotProbed
    low, high = REACH[law]
    each = k > 1 and size == features  # a noise for each candidate, and not for each list

    def selected(places: dict[int, float]) -> Picks:
        noise = np.full(size, low)
        noise[list(places)] = list(places.values())
        return selects(OneDraw(noise=noise, taken=taken))

    def leader(picks: Picks) -> Picks:
        return picks[:1] if each else picks

    names = [leader(selected({i: high})) for i in range(size)]
    half = (low + high) / 2
    utilities = np.zeros(size)
    for i in range(1, size):
        rival = next((j for j in range(i) if names[j] != names[i]), None)
        if rival is None:
            raise NotProbed
        bottom, top = low, high
        for _ in range(LIST_HALVINGS):
            middle = (bottom + top) / 2
            won = leader(selected({rival: half, i: middle})) == names[i]
            bottom, top = (bottom, middle) if won else (middle, top)
        utilities[i] = utilities[rival] + half - (bottom + top) / 2
    rng = np.random.default_rng(0)
    for number in range(LIST_TRIES):
        noise = rng.uniform(0, 5, size) - utilities * (number % 2)
        noise += low - noise.min()
        order = np.argsort(-(utilities + noise))
        picks = selects(OneDraw(noise=noise, taken=taken))
        if picks != (tuple(names[i][0] for i in order[:k]) if each else names[order[0]]):
            raise NotProbed
    if each and law != "gumbel":
        raise NotProbed  # only of Gumbel noise are the best that are left drawn as if anew
    found: dict[Picks, float] = {}
    for chosen, p in ordered_law(utilities, k if each else 1, best).items():
        outcome = tuple(names[i][0] for i in chosen) if each else names[chosen[0]]
        found[outcome] = found.get(outcome, 0.0) + p
    return found


#: Sequences of picks by several draws whose chances are computed.
MOST_STAGES = 150


def law_in_stages(selects: Callable[[InStages], Picks]) -> dict[Picks, float]:
    """Return the law of picks by several draws in turn, in each of which the best noisy utility leads on.

    A pick after another, say, or a group and then one in it: chances of the stages are multiplied.

    Raises
    ------
    NotProbed
        If the selector draws in another way, or in more ways than a few.
    """
    found: dict[Picks, float] = {}
    waiting: list[tuple[tuple[Floats, ...], float]] = [((), 1.0)]
    for _ in range(MOST_STAGES):
        if not waiting:
            return found
        before, chance = waiting.pop()
        script = InStages(draws=before)
        picks = selects(script)
        if len(script.sizes) == len(before):
            found[picks] = found.get(picks, 0.0) + chance
        else:
            waiting += [((*before, one), chance * p) for one, p in _next_stage(selects, before, script)]
    raise NotProbed


def _next_stage(
    selects: Callable[[InStages], Picks], before: tuple[Floats, ...], probe: InStages
) -> list[tuple[Floats, float]]:
    """Return noise by which each number of the next draw is ahead, and the chance that it is."""
    size, best = (
        probe.sizes[len(before)],
        {"gumbel": gumbel_law, "exponential": exponential_law}.get(probe.law),
    )
    if best is None or size > MOST_LISTS:
        raise NotProbed
    low, high = REACH[probe.law]

    def led(noise: Floats) -> tuple[Picks, tuple[int, ...]]:
        script = InStages(draws=(*before, noise))
        return selects(script), tuple(script.sizes)

    def ahead(places: Mapping[int, float]) -> Floats:
        noise = np.full(size, low)
        noise[list(places)] = list(places.values())
        return noise

    alone = [ahead({i: high}) for i in range(size)]
    if size == 1:
        return [(alone[0], 1.0)]
    names, half, utilities = [led(noise) for noise in alone], (low + high) / 2, np.zeros(size)
    if len(set(names)) < size:
        raise NotProbed
    for i in range(1, size):
        bottom, top = low, high
        for _ in range(LIST_HALVINGS):
            middle = (bottom + top) / 2
            bottom, top = (bottom, middle) if led(ahead({0: half, i: middle})) == names[i] else (middle, top)
        utilities[i] = half - (bottom + top) / 2
    rng = np.random.default_rng(0)
    for number in range(LIST_TRIES):
        noise = rng.uniform(0, 5, size) - utilities * (number % 2)
        noise += low - noise.min()
        if led(noise) != names[int(np.argmax(utilities + noise))]:
            raise NotProbed
    return list(zip(alone, best(utilities).tolist(), strict=True))


def chance_below(law: str, x: Floats) -> Floats:
    """Return the chances with which standard noise is below ``x``."""
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
                found = scipy.special.ndtr(x)
    return found


def chance_above(law: str, x: Floats) -> Floats:
    """Return the chances with which standard noise is above ``x``."""
    with np.errstate(over="ignore", invalid="ignore"):
        found: Floats
        match law:
            case "gumbel":
                found = -np.expm1(-np.exp(-x))
            case "exponential":
                found = np.where(x > 0, np.exp(-np.maximum(x, 0)), 1.0)
            case _:
                found = chance_below(law, -x)
    return found


def largest_ratio(pairs: Iterable[tuple[tuple[float, float], tuple[float, float]]]) -> float:
    """Return the largest |log| of the ratio of chances, of winning or of losing, between neighbors."""
    worst = 0.0
    for one, other in pairs:
        for p, q in zip(one, other, strict=True):
            if max(p, q) > 1e-18:
                worst = max(worst, abs(math.log(p / q)) if min(p, q) > 0 else math.inf)
    return worst


def range_of_losses(one: tuple[float, float], other: tuple[float, float]) -> float:
    """Return how far apart the losses of winning and of losing are between neighbors.

    >>> round(range_of_losses((0.5, 0.5), (0.75, 0.25)), 4) == round(math.log(3), 4)
    True
    """
    if min(*one, *other) <= 1e-18:
        return 0.0
    won, lost = (math.log(p / q) for p, q in zip(one, other, strict=True))
    return abs(won - lost)
