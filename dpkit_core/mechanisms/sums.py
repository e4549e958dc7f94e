r"""Noisy sums over groups of records, for which every record answers with one number: its precision.

Every record contributes a vector of whole numbers to one of some groups. A round releases, for each group,
the sum over a Poisson sample of the records that take part, plus discrete Gaussian noise with a deviation of
its own in each coordinate. Two such rounds are a tree: its leaves are the groups, and gradients, or gradients
and numbers of records, are added up. The whole numbers are made of real ones record by record (``quantize``),
before anything is added up. So rounding is part of a record's own contribution, and of its cost. Rounding a
sum would not be: a record of .2 steps can move it by a whole one.

*Add-remove.* A record moves one group by its contribution c, |c_j| <= limit_j: its precision sum c_j^2 /
deviation_j^2 is at most that of the event, sum 1 / multiplier_j^2, which is attained. A record beyond the
limits takes no part, whatever the accountant: a part cannot use more than is charged, because what is charged
is computed from what is used. What the round costs is in ``dpkit_core.privacy.accounts``.

*Replace-one*, without sampling. Where the two contributions are in different groups the squared distance over
variances is at most 2 p, p the precision at the limits; in one group |c_j - c'_j| <= 2 limit_j, but 0 in a
coordinate in which all records contribute the same, so at most 4 (p - p_same). Variances are larger by max(2,
4 (1 - p_same / p)), so that the event holds with the same multipliers; both bounds are attained. Four times
for sums alone; twice for counts alone.

*Coins* of the sample are secret and fresh: the amplification is a statement about an adversary who does not
know them. The comparison with a 32-bit threshold makes the true rate at most the event's.

*Coins by place.* A round draws a key from the meter's stream; the coin of a record is the word at its place
in the table (``dpkit_core.noise.randomness.Coins``), wherever the record is. Keys are disjoint pieces of a
secret stream, words of one key disjoint pieces of another: coins are independent over records and rounds, and
of the noise, for all but those who hold the records, who are trusted and get the key. A share that is
computed again has the same coins, so it does not matter which of two answers is added up; one of them is. A
new attempt has a new key.

*Accounts elsewhere* are kept beside the records and charged by functions of them and of what was released,
not of coins: accounts that are lost are made again by repeating all charges, each once
(``dpkit_core.data.kept``), and that of a record is the same even if its place is another.

*Several parties* draw coins of their own records alone. Step 1 of ``dpkit_core.privacy.accounts`` conditions
on the sample of all other records, so it holds against who knows all coins but that of the record, which a
coalition without its party does not. An attempt that is repeated draws a new sample, and accounts are charged
again: both sums may be seen, and of one sample they would be one sampled round with twice the precision. At
rate .05, multiplier 1 and epsilon 1 that has delta 6.4e-4, two sampled rounds have 2.7e-5.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

import attrs
import numpy as np
import numpy.typing as npt

from dpkit_core.arrays import Booleans, Integers
from dpkit_core.data.kept import Placed
from dpkit_core.data.sums import Sliceable, State, Sum
from dpkit_core.errors import Unsuitable
from dpkit_core.noise.randomness import Coins
from dpkit_core.noise.sampler import SCALE_LIMIT
from dpkit_core.privacy.accounts import TICKS, admitted
from dpkit_core.privacy.budget import Neighboring
from dpkit_core.privacy.events import Gaussian, NonSphericalGaussian, PoissonSampled, same_event

if TYPE_CHECKING:
    from dpkit_core.arrays import Matrix, Vector

T = TypeVar("T", bound=Sliceable)

Sums: TypeAlias = Gaussian | NonSphericalGaussian | PoissonSampled
"""What a round of noisy sums is recorded as; sampled is a Gaussian."""

#: Largest limit: squares of contributions are exact in float64, and so are sums of 2^27 of them.
LARGEST_LIMIT = 2**26

#: Deviations are at least this many steps, as on the grids of all noise of the core: more never hurts.
LEAST_DEVIATION = 2**15

#: Deviations are larger than the multiplier says by this, relatively, so that the largest precision, its cost
#: rounded up, is at most ``TICKS``.
MARGIN = 2.0**-20

# Covers the roundings of a precision computed in float64 from whole numbers.
_SLACK = 2.0**-40


def sums_event(
    multipliers: Sequence[float],
    neighboring: Neighboring,
    *,
    limits: Sequence[int],
    groups: int,
    rate: float = 1.0,
    alike: Sequence[bool] | None = None,
) -> Sums:
    """Return the event of one round, as ``Meter.kept_sums`` records it.

    Parameters
    ----------
    multipliers
        Noise multiplier of each coordinate: deviation over limit under add-remove.
    neighboring
        The relation; the sensitivities that it makes of the limits are in the notes of the module.
    limits
        Largest magnitude of a record's contribution in each coordinate: whole, from 1 to 2^26.
    groups
        How many there are.
    rate
        Of the Poisson sample; 1 for all records.
    alike
        For each coordinate, whether all records contribute the same number, as to a count; none by default.

    Raises
    ------
    Unsuitable
        If records are sampled under replace-one, for which no amplification is proved, or noise is so large
        that its deviation is above 2^50 steps.

    Examples
    --------
    >>> sums_event([40.0], Neighboring.REPLACE_ONE, limits=[1024], groups=8).sensitivity
    2048.0
    """
    alike = [False] * len(limits) if alike is None else alike
    inflation = 1.0
    if neighboring is Neighboring.REPLACE_ONE:
        if rate < 1:
            raise Unsuitable(
                "amplification by Poisson sampling is proved for add-remove neighbors, not for replace-one; "
                "use all records (rate 1), or the other relation"
            )
        inflation = math.sqrt(_inflation(multipliers, alike))
    sensitivities = [inflation * limit for limit in limits]
    if any(m * s * (1 + MARGIN) > SCALE_LIMIT for m, s in zip(multipliers, sensitivities, strict=True)):
        raise Unsuitable(
            f"noise of {max(multipliers):.3g} times what a record contributes is more than can be drawn; "
            "give a larger budget"
        )
    shape = (len(limits), groups)
    noise: Gaussian | NonSphericalGaussian
    if len(limits) == 1:
        noise = Gaussian(multipliers[0], neighboring, sensitivity=sensitivities[0], shape=shape)
    else:
        noise = NonSphericalGaussian(
            tuple(multipliers), neighboring, sensitivities=tuple(sensitivities), shape=shape
        )
    return noise if rate == 1 else PoissonSampled(rate, noise)


def noise_of(event: Sums) -> tuple[tuple[float, ...], tuple[float, ...], tuple[int, ...], float]:
    """Return multipliers, sensitivities and shape of a round, and the rate of its sample.

    Raises
    ------
    ValueError
        If the event is not Gaussian noise with sensitivities and a shape of two axes.
    """
    rate, noise = (event.rate, event.event) if isinstance(event, PoissonSampled) else (1.0, event)
    match noise:
        case Gaussian(sensitivity=float(sensitivity), shape=(_, _) as shape):
            return (noise.noise_multiplier,), (sensitivity,), shape, rate
        case NonSphericalGaussian(sensitivities=tuple(sensitivities), shape=(_, _) as shape):
            return noise.noise_multipliers, sensitivities, shape, rate
    raise ValueError(f"{event} is not a round of noisy sums; make it with sums_event")


def quantize(values: Vector, limit: float, units: int) -> Integers:
    """Return ``values / limit`` clipped to [-1, 1] as whole multiples of 1 / ``units``, towards zero.

    What a sum gets from a record is then a whole number that depends on that record alone, never larger than
    its clipped value.

    >>> quantize(np.array([-9.0, 0.3, 1e-9]), limit=0.5, units=2**15).tolist()
    [-32768, 19660, 0]
    """
    return np.minimum(np.maximum(values * (units / limit), -units), units).astype(np.int64)


def group_sums(
    values: Integers, groups: npt.NDArray[np.intp] | npt.NDArray[np.uint8], count: int
) -> Integers:
    """Return the sum of integers in each of ``count`` groups, exactly.

    Added up in float64, where all partial sums are whole numbers below 2^53: exact in any order.

    Parameters
    ----------
    values
        Integers, whose magnitudes add up to less than 2^53.
    groups
        From 0 to ``count`` - 1, same shape.
    """
    return np.bincount(groups, weights=values, minlength=count).astype(np.int64)


def deviations(multipliers: Sequence[float], sensitivities: Sequence[float]) -> tuple[int, ...]:
    """Return the whole standard deviations of the noise in a round.

    >>> deviations((1.5, 2.0), (2.0**20, 2.0**20))
    (1572866, 2097154)
    """
    return tuple(
        max(math.ceil(multiplier * sensitivity * (1 + MARGIN)), LEAST_DEVIATION)
        for multiplier, sensitivity in zip(multipliers, sensitivities, strict=True)
    )


def tick_costs(contributions: Sequence[npt.NDArray[np.int64]], event: Sums) -> Integers:
    """Return what a round costs each record, in ticks of its largest precision, rounded up.

    Parameters
    ----------
    contributions
        For each coordinate, the whole numbers that the records contribute: shape (n,), or () where all
        contribute the same.
    event
        Of the round, under add-remove.

    Examples
    --------
    >>> event = sums_event([4.0, 2.0], Neighboring.ADD_OR_REMOVE_ONE, limits=[2**20, 2**20], groups=8)
    >>> costs = tick_costs([np.array(2**20), np.array([0, 2**19, 2**20])], event)
    >>> (costs / TICKS).round(3)
    array([0.2, 0.4, 1. ])
    """
    multipliers, sensitivities, *_ = noise_of(event)
    precision = math.fsum((1 / multiplier) ** 2 for multiplier in multipliers)
    total = np.zeros(())
    for column, scale in zip(contributions, deviations(multipliers, sensitivities), strict=True):
        numbers = np.array(column, np.float64)
        numbers *= numbers
        numbers *= TICKS * (1 + _SLACK) / precision / scale / scale
        total = total + numbers
    # A cost that no account can pay may be any number above TICKS.
    return np.ceil(np.minimum(total, 2.0**61)).astype(np.int64)


def with_noise(event: Sums, noisy: Callable[[int, int], Integers]) -> Matrix:
    """Return the sums of a round with its noise, shape (coordinates, groups).

    ``noisy`` returns the sums of one coordinate with discrete Gaussian noise of a given parameter.
    """
    multipliers, sensitivities, shape, _ = noise_of(event)
    result = np.empty(shape)
    for j, scale in enumerate(deviations(multipliers, sensitivities)):
        result[j] = noisy(j, scale)
    return result


def _sums(
    contributions: Sequence[npt.NDArray[np.int64]],
    groups: npt.NDArray[np.integer],
    taken: Booleans,
    event: Sums,
) -> Integers:
    """Return the sums over the records that are taken."""
    *_, shape, _ = noise_of(event)
    those = slice(None) if taken.all() else np.flatnonzero(taken)
    where = groups[those].astype(np.intp)
    result = np.empty(shape, np.int64)
    for j, column in enumerate(contributions):
        if column.ndim == 0:
            result[j] = np.bincount(where, minlength=shape[1]) * int(column)
        else:
            result[j] = group_sums(column[those], where, shape[1])
    return result


#: What records contribute to which groups, of what is kept of them, as for ``Meter.kept_sums``.
Contributed: TypeAlias = Callable[[State], tuple[Sequence[npt.ArrayLike], npt.NDArray[np.integer]]]


@attrs.frozen(eq=False)
class PlacedRound(Generic[State]):
    """A round over what is kept of records, wherever they are.

    Attributes
    ----------
    of
        What the records contribute, and to which groups.
    event, limits
        Of the round.
    coins
        Of the sample; None where all records are in it.
    account
        Number of the filter in the plan, and its limit in ticks; None where there is none.
    """

    of: Contributed[State]
    event: Sums
    limits: tuple[int, ...]
    coins: Coins | None = None
    account: tuple[int, int] | None = None

    @property
    def needs_places(self) -> bool:
        """Whether who takes part depends on more than the record; else its share is a function of it."""
        return self.coins is not None or self.account is not None

    @property
    def sum(self) -> Sum[Placed[State]]:
        """The exact sums over who takes part, and two rows of counts, before the round is charged.

        The first entry of the one row counts the records, that of the other what is wrong with their rows.
        """
        return self._sum(self._share)

    @property
    def sum_without_places(self) -> Sum[State]:
        """The same of a round that needs no places."""
        return self._sum(self._share_without_places)

    def charged(self, placed: Placed[State]) -> Placed[State]:
        """Return the same records when their accounts have paid for the round."""
        return self.played(placed)[1]

    def played(self, placed: Placed[State]) -> tuple[Integers, Placed[State]]:
        """Return what ``sum`` adds up of some records, and them when their accounts have paid."""
        *_, shape, rate = noise_of(self.event)
        result = np.zeros((shape[0] + 2, shape[1]), np.int64)
        result[-2, 0] = len(placed)
        given, groups = self.of(placed.kept)
        columns = [np.asarray(column) for column in given]
        if not (
            _are_rows(columns, groups, len(placed), shape[1]) and _is_round(columns, self.limits, self.event)
        ):
            result[-1, 0] = 1
            return result, placed
        active = _within(columns, groups, self.event)
        if self.account is not None:  # which can only let fewer take part
            number, limit = self.account
            costs = np.broadcast_to(tick_costs(columns, self.event), groups.shape)
            solvent, spent = admitted(placed.account(number), costs, limit)
            active = active & solvent
            placed = attrs.evolve(placed, spent={**placed.spent, number: spent})
        if self.coins is not None:
            active = active & _heads(self.coins, placed.start, len(placed), rate)
        result[:-2] = _sums(columns, groups, active, self.event)
        return result, placed

    def _sum(self, share: Callable[[T], Integers]) -> Sum[T]:
        *_, shape, _ = noise_of(self.event)
        return Sum(share, (shape[0] + 2, shape[1]), bound=max(1, *self.limits))

    def _share(self, placed: Placed[State]) -> Integers:
        return self.played(placed)[0]

    def _share_without_places(self, state: State) -> Integers:
        return self._share(Placed(state, 0))


def has_limits(event: Sums, limits: Sequence[int]) -> bool:
    """Return whether ``event`` may be that of a round with these limits, one for each coordinate."""
    try:
        _, _, (coordinates, _), _ = noise_of(event)
    except ValueError:
        return False
    return coordinates == len(limits) > 0 and all(1 <= limit <= LARGEST_LIMIT for limit in limits)


def _is_round(columns: Sequence[npt.NDArray[Any]], limits: Sequence[int], event: Sums) -> bool:
    """Return whether ``event`` is that of a round with these limits, over what the columns hold."""
    try:
        whole = tuple(operator.index(limit) for limit in limits)
    except TypeError:
        return False
    return len(columns) == len(limits) and _has(event, whole, _alike(columns))


@functools.lru_cache(maxsize=64)  # many rounds have one event
def _has(event: Sums, limits: tuple[int, ...], alike: tuple[bool, ...]) -> bool:
    multipliers, _, (_, groups), rate = noise_of(event)
    try:
        expected = sums_event(
            multipliers, event.neighboring, limits=limits, groups=groups, rate=rate, alike=alike
        )
    except (Unsuitable, ValueError, TypeError):
        return False
    return same_event(expected, event)


def _alike(columns: Sequence[npt.NDArray[Any]]) -> tuple[bool, ...]:
    """Return of which coordinates all records contribute the same."""
    return tuple(column.ndim == 0 for column in columns)


def _are_rows(
    columns: Sequence[npt.NDArray[Any]], groups: npt.NDArray[np.integer], records: int, count: int
) -> bool:
    """Return whether there is a row for each record, of whole numbers, in one of so many groups."""
    shapes = [groups.shape, *(column.shape for column in columns if column.ndim)]
    whole = all(each.dtype.kind in "iu" for each in (groups, *columns))
    known = groups.size == 0 or 0 <= int(groups.min()) <= int(groups.max()) < count
    return whole and known and all(shape == (records,) for shape in shapes)


def _within(
    contributions: Sequence[npt.NDArray[np.int64]], groups: npt.NDArray[np.integer], event: Sums
) -> Booleans:
    """Return which records contribute no more than the limits, and cost no more than a round may."""
    limits, exceeding = _limits(event, _alike(contributions))
    within = np.ones(groups.size, dtype=np.bool_)
    for column, limit in zip(contributions, limits, strict=True):
        if column.size and not -limit <= column.min() <= column.max() <= limit:
            within &= (-limit <= column) & (column <= limit)
    if exceeding:
        within &= tick_costs(contributions, event) <= TICKS
    return within


@functools.lru_cache(maxsize=64)
def _limits(event: Sums, alike: tuple[bool, ...]) -> tuple[list[int], bool]:
    """Return the limits of a round, and whether records within them may cost more than a round may."""
    multipliers, sensitivities, *_ = noise_of(event)
    add_remove = event.neighboring is Neighboring.ADD_OR_REMOVE_ONE
    widening = 1.0 if add_remove else math.sqrt(_inflation(multipliers, alike))
    limits = [round(sensitivity / widening) for sensitivity in sensitivities]
    # What is computed of a cost grows with magnitudes, so that none within the limits costs more than these.
    return limits, add_remove and bool(tick_costs([np.array(limit) for limit in limits], event) > TICKS)


def _inflation(multipliers: Sequence[float], alike: Sequence[bool]) -> float:
    """Return by how much variances are larger under replace-one."""
    precisions = [(1 / multiplier) ** 2 for multiplier in multipliers]
    same = math.fsum(p for p, constant in zip(precisions, alike, strict=True) if constant)
    return max(2.0, 4 * (1 - same / math.fsum(precisions)))


def coins_of(event: Sums, rng: np.random.Generator) -> Coins | None:
    """Return fresh coins for the sample of a round; None where all records are in it."""
    return Coins.drawn(rng) if noise_of(event)[3] < 1 else None


def _heads(coins: Coins, start: int, records: int, rate: float) -> Booleans:
    """Return secret coins, each true with the largest multiple of 2^-32 up to ``rate``, below 1."""
    return coins.words(start, records) < np.uint32(math.floor(Fraction(rate) * 2**32))
