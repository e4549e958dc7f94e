"""Eleven false accountants, each with what is false and where it is seen."""

from __future__ import annotations

import functools
import math
from typing import Any, ClassVar, Self

import attrs
import numpy as np
from scipy.special import ndtr

from dpkit_core import Neighboring
from dpkit_core.privacy.budget import add_up, amplified
from dpkit_core.privacy.composition import (
    elements,
    obstacle,
    pair_of,
    require_delta,
    require_epsilon,
    require_supported,
    steps,
    unpaired,
)
from dpkit_core.privacy.events import (
    EVENT_TYPES,
    ApproxDP,
    Event,
    ExponentialMechanism,
    Gaussian,
    Laplace,
    NonSphericalGaussian,
    PoissonSampled,
    PureDP,
    Repeated,
    Sequence,
    walk,
)
from dpkit_core.privacy.renyi import ORDERS, RenyiCurve, curve_of, unbounded
from dpkit_core.privacy.tight import tight_delta, tight_epsilon, undominated
from zoo.unseen.round13.accountants import PROOF, Spent, relation, spent, total


def inverse(epsilon_at: Any, epsilon: float) -> float:
    """The least delta found whose epsilon is at most this, on the safe side; 1 if there is none."""
    low, high = -745.0, 0.0
    if epsilon_at(0.0) <= epsilon:
        return 0.0
    for _ in range(40):
        middle = (low + high) / 2
        if middle < 0 and epsilon_at(math.exp(middle)) <= epsilon:
            high = middle
        else:
            low = middle
    return 1.0 if high == 0.0 else math.exp(high)


@attrs.frozen
class SpentAccountant:
    """What the accountants below are made of: mechanisms with counts, and a total that is theirs."""

    neighboring: Neighboring = relation()
    spent: Spent = spent()

    def supports(self, event: Event, /) -> bool:
        return obstacle(event, self.neighboring, self.reason) is None

    def compose(self, event: Event, count: int = 1, /) -> Self:
        require_supported("this", event, count, self.neighboring, self.reason)
        return attrs.evolve(self, spent=(*self.spent, *self.inside(event, count)))

    def inside(self, event: Event, count: int) -> Any:
        return elements(event, count)

    def reason(self, event: Event) -> str | None:
        return undominated(event)

    def epsilon(self, delta: float, /) -> float:
        return tight_epsilon(self.spent, delta)

    def delta(self, epsilon: float, /) -> float:
        return tight_delta(self.spent, epsilon)


@attrs.frozen
class ConvertedAccountant:
    """Zero-concentrated privacy: Gaussians and pure mechanisms by one number rho.

    FALSE: it is converted by rho + sqrt(2 rho log(1 / delta)); the theorem says rho + 2 sqrt(rho log(1 /
    delta)) (Bun and Steinke 2016, Proposition 1.3).
    Seen: of Gaussians, below their exact total.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "Bun and Steinke 2016"

    neighboring: Neighboring = relation()
    rho: float = total()
    pure: float = total()

    @staticmethod
    def _reason(event: Event) -> str | None:
        if isinstance(event, Gaussian | NonSphericalGaussian | Laplace | PureDP | ExponentialMechanism):
            return None
        return None if isinstance(event, Repeated | Sequence) else f"{event} has no rho here"

    def supports(self, event: Event, /) -> bool:
        return obstacle(event, self.neighboring, self._reason) is None

    def compose(self, event: Event, count: int = 1, /) -> Self:
        require_supported("converted", event, count, self.neighboring, self._reason)
        rho, pure = self.rho, self.pure
        for inner, times in elements(event, count):
            if isinstance(inner, Gaussian):
                rho, pure = add_up(rho, times, 0.5 / inner.noise_multiplier**2), math.inf
            else:
                epsilon = pair_of(inner)[0]
                rho, pure = add_up(rho, times, epsilon * epsilon / 2), add_up(pure, times, epsilon)
        return attrs.evolve(self, rho=rho * (1 + 1e-12), pure=pure)

    def epsilon(self, delta: float, /) -> float:
        require_delta(delta)
        if delta == 0 or self.rho == 0:
            return self.pure
        return min(self.pure, self.rho + math.sqrt(2 * self.rho * math.log(1 / delta)))

    def delta(self, epsilon: float, /) -> float:
        require_epsilon(epsilon)
        if epsilon >= self.pure:
            return 0.0
        above = epsilon - self.rho
        return 1.0 if above <= 0 or self.rho == 0 else math.exp(-above * above / (2 * self.rho))


@attrs.frozen
class TwiceAmplifiedAccountant:
    """Basic composition; what is on a sample is amplified.

    FALSE: the pair of a sampled event is amplified already, and it amplifies it once more.
    Seen: of pure and approximate events on a sample.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "Li, Qardaji and Su 2012"

    neighboring: Neighboring = relation()
    total_epsilon: float = total()
    total_delta: float = total()

    def supports(self, event: Event, /) -> bool:
        return obstacle(event, self.neighboring, unpaired) is None

    def compose(self, event: Event, count: int = 1, /) -> Self:
        require_supported("twice", event, count, self.neighboring, unpaired)
        epsilon, delta = pair_of(event)
        if isinstance(event, PoissonSampled):
            epsilon, delta = amplified(event.rate, epsilon), event.rate * delta
        return attrs.evolve(
            self,
            total_epsilon=add_up(self.total_epsilon, count, epsilon),
            total_delta=add_up(self.total_delta, count, delta),
        )

    def epsilon(self, delta: float, /) -> float:
        require_delta(delta)
        return self.total_epsilon if delta >= self.total_delta else math.inf

    def delta(self, epsilon: float, /) -> float:
        require_epsilon(epsilon)
        return min(1.0, self.total_delta) if epsilon >= self.total_epsilon else 1.0


@attrs.frozen
class ReplacedSampleAccountant:
    """Basic composition, with amplification by sampling for both relations.

    FALSE: of a record that is replaced, what a sample without it releases is no neighbor of what one with it
    does, so that nothing is amplified.
    Seen: under replace-one only, of events on a sample.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "Balle, Barthe and Gaboardi 2018"

    neighboring: Neighboring = relation()
    total_epsilon: float = total()
    total_delta: float = total()

    def supports(self, event: Event, /) -> bool:
        known = all(type(inner) in EVENT_TYPES.values() and unpaired(inner) is None for inner in walk(event))
        return known and event.neighboring is self.neighboring

    def compose(self, event: Event, count: int = 1, /) -> Self:
        if not self.supports(event):
            require_supported("replaced", event, count, self.neighboring, unpaired)
        if count < 1:
            raise ValueError(f"count is {count}; an event happens at least once")
        epsilon, delta = pair_of(event)
        return attrs.evolve(
            self,
            total_epsilon=add_up(self.total_epsilon, count, epsilon),
            total_delta=add_up(self.total_delta, count, delta),
        )

    def epsilon(self, delta: float, /) -> float:
        require_delta(delta)
        return self.total_epsilon if delta >= self.total_delta else math.inf

    def delta(self, epsilon: float, /) -> float:
        require_epsilon(epsilon)
        return min(1.0, self.total_delta) if epsilon >= self.total_epsilon else 1.0


@attrs.frozen
class InterpolatingAccountant(SpentAccountant):
    """The tight total at powers of a thousand of delta, and between them by a straight line in log delta.

    FALSE: epsilon bends the other way: a chord lies below it.
    Seen: at a delta between two powers, of Gaussians.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "none"

    def epsilon(self, delta: float, /) -> float:
        require_delta(delta)
        if not 1e-30 < delta < 1e-3:
            return tight_epsilon(self.spent, delta)
        place = -math.log10(delta) / 3
        below, above = math.floor(place), math.ceil(place)
        ends = [tight_epsilon(self.spent, 10.0 ** (-3 * at)) for at in (below, above)]
        if math.inf in ends:
            return tight_epsilon(self.spent, delta)
        return ends[0] + (place - below) * (ends[1] - ends[0])

    def delta(self, epsilon: float, /) -> float:
        require_epsilon(epsilon)
        return inverse(self.epsilon, epsilon)


@attrs.frozen
class FixedPicksAccountant(SpentAccountant):
    """Equal exponential mechanisms by their optimal composition (Dong, Durfee and Rogers 2020, Theorem 3).

    FALSE: that theorem is for picks that are fixed beforehand; an adversary who chooses each pick knowing the
    ones before can do a little better.
    Seen: of two or more exponential mechanisms of one epsilon.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "Dong, Durfee and Rogers 2020"

    def _equal(self) -> tuple[float, int] | None:
        if len(self.spent) != 1 or not isinstance(self.spent[0][0], ExponentialMechanism):
            return None
        event, count = self.spent[0]
        return (event.epsilon, count) if count <= 200 and event.epsilon * count < 50 else None

    def epsilon(self, delta: float, /) -> float:
        require_delta(delta)
        most = tight_epsilon(self.spent, delta)
        if self._equal() is None or delta == 0:
            return most
        low = 0.0
        for _ in range(40):
            middle = (low + most) / 2
            low, most = (low, middle) if self.delta(middle) <= delta else (middle, most)
        return most

    def delta(self, epsilon: float, /) -> float:
        require_epsilon(epsilon)
        if (equal := self._equal()) is None:
            return tight_delta(self.spent, epsilon)
        return min(tight_delta(self.spent, epsilon), fixed_picks(*equal, epsilon))


@functools.lru_cache(maxsize=4096)
def fixed_picks(epsilon: float, count: int, at: float) -> float:
    """Delta of ``count`` picks whose losses are in [t - epsilon, t], all of one t, the worst."""
    from scipy.stats import binom

    worst = 0.0
    low = np.arange(count + 1)
    for t in np.linspace(0, epsilon, 201)[1:-1]:
        up = -math.expm1(t - epsilon) / -math.expm1(-epsilon)  # of the loss t
        losses = count * t - low * epsilon
        chances = binom.pmf(low, count, 1 - up)
        worst = max(worst, float((chances * np.maximum(0, -np.expm1(at - losses))).sum()))
    return worst * (1 + 1e-9)


@attrs.frozen
class LaplaceRangeAccountant(SpentAccountant):
    """The tight total, of Laplace noise like selections, whose losses lie in an interval of length epsilon.

    FALSE: those of Laplace noise lie between -epsilon and epsilon, which is twice as long.
    Seen: of several releases with Laplace noise at a delta above 0.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "Dong, Durfee and Rogers 2020"

    def inside(self, event: Event, count: int) -> Any:
        for inner, times in elements(event, count):
            if isinstance(inner, Laplace):
                yield ExponentialMechanism(pair_of(inner)[0], inner.neighboring), times
            else:
                yield inner, times


@attrs.frozen
class GroupsAccountant(SpentAccountant):
    """The tight total; of Gaussian noise on groups of coordinates that of the group with least noise.

    As if a record were in one group only. FALSE: a record moves all groups, and precisions add up.
    Seen: of noise on several groups.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "none"

    def inside(self, event: Event, count: int) -> Any:
        if isinstance(event, NonSphericalGaussian):
            yield Gaussian(min(event.noise_multipliers), event.neighboring), count
        elif isinstance(event, Repeated | Sequence):
            for inner, times in event.inner:
                yield from self.inside(inner, count * times)
        else:
            yield from elements(event, count)


@attrs.frozen
class LeadingTermAccountant:
    """Renyi divergences; of a Gaussian on a sample the leading term, rate^2 order / multiplier^2.

    FALSE: that term is the moments accountant's for large multipliers, small rates and orders below
    multiplier^2 log(1 / (rate multiplier)); it is used for all.
    Seen: of sampled Gaussians with little noise.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "Abadi and others 2016, Lemma 3"

    neighboring: Neighboring = relation()
    divergences: Any = attrs.field(
        default=(0.0,) * len(ORDERS), converter=tuple, kw_only=True, repr=False, metadata={"state": True}
    )
    pure: float = total()
    leaked: float = total()

    def supports(self, event: Event, /) -> bool:
        return obstacle(event, self.neighboring, unbounded) is None

    def compose(self, event: Event, count: int = 1, /) -> Self:
        require_supported("leading", event, count, self.neighboring, unbounded)
        curve = self._spent.then(self._curve(event), count)
        return attrs.evolve(
            self, divergences=curve.divergences.tolist(), pure=curve.pure, leaked=curve.leaked
        )

    def _curve(self, event: Event) -> RenyiCurve:
        if isinstance(event, PoissonSampled) and event.rate < 1 and isinstance(event.event, Gaussian):
            scale = event.rate / event.event.noise_multiplier
            return RenyiCurve(ORDERS, np.array(ORDERS) * scale * scale)
        if not steps(event):
            return curve_of(event)
        curve = RenyiCurve.nothing()
        for inner, times in steps(event):
            curve = curve.then(self._curve(inner), times)
        return curve

    def epsilon(self, delta: float, /) -> float:
        return self._spent.epsilon(delta)

    def delta(self, epsilon: float, /) -> float:
        return self._spent.delta(epsilon)

    @property
    def _spent(self) -> RenyiCurve:
        return RenyiCurve(ORDERS, np.array(self.divergences), self.pure, self.leaked)


@attrs.frozen
class ComplementAccountant(SpentAccountant):
    """The exact total of Gaussians: 1 - Phi(e / mu - mu / 2) - exp(e) (1 - Phi(e / mu + mu / 2)).

    FALSE: in floats, 1 - Phi(z) is 0 from z = 8.3 on, and so is delta.
    Seen: of Gaussians alone, at a delta below 1e-16.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "Balle and Wang 2018, Theorem 8"

    def _mu(self) -> float | None:
        if not self.spent or not all(isinstance(event, Gaussian) for event, _ in self.spent):
            return None
        return math.sqrt(
            sum(n / event.noise_multiplier**2 for event, n in self.spent if isinstance(event, Gaussian))
        )

    def epsilon(self, delta: float, /) -> float:
        require_delta(delta)
        if (mu := self._mu()) is None or delta == 0 or not 1e-6 < mu < 10:
            return tight_epsilon(self.spent, delta)
        low, high = 0.0, 50 * mu + mu * mu
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (low, middle) if self.delta(middle) <= delta else (middle, high)
        return high

    def delta(self, epsilon: float, /) -> float:
        require_epsilon(epsilon)
        if (mu := self._mu()) is None or not 1e-6 < mu < 10:
            return tight_delta(self.spent, epsilon)
        above = 1 - ndtr(epsilon / mu - mu / 2)
        below = math.exp(min(epsilon, 700)) * (1 - ndtr(epsilon / mu + mu / 2))
        return max(0.0, float(above - below) * (1 + 1e-12))


@attrs.frozen
class FourFiguresAccountant(SpentAccountant):
    """The tight total, of events that read alike: one of them, as often as there are.

    So that a thousand steps are one kind. FALSE: it reads four figures of an epsilon or a multiplier, and
    takes the first event it saw for all that read alike.
    Seen: of two epsilons that agree in four figures, the smaller one first.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "none"

    def compose(self, event: Event, count: int = 1, /) -> Self:
        require_supported("figures", event, count, self.neighboring, self.reason)
        alike = {inner.words(): inner for inner, _ in reversed(self.spent)}
        merged = [(alike.setdefault(inner.words(), inner), n) for inner, n in elements(event, count)]
        return attrs.evolve(self, spent=(*self.spent, *merged))


@attrs.frozen
class OnceLeakedAccountant(SpentAccountant):
    """The tight total, in which an (epsilon, delta) mechanism that is repeated can fail once only.

    The deltas of repetitions are the chance of one failure, it says. FALSE: each repetition may fail.
    Seen: of approximate events inside a ``Repeated``.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = PROOF
    reference: ClassVar[str] = "none"

    def inside(self, event: Event, count: int) -> Any:
        if isinstance(event, Repeated) and isinstance(event.event, ApproxDP):
            yield event.event, count
            if event.count > 1:
                yield PureDP(event.event.epsilon, event.neighboring), count * (event.count - 1)
            return
        yield from elements(event, count)


LIES = (
    ConvertedAccountant,
    TwiceAmplifiedAccountant,
    ReplacedSampleAccountant,
    InterpolatingAccountant,
    FixedPicksAccountant,
    LaplaceRangeAccountant,
    GroupsAccountant,
    LeadingTermAccountant,
    ComplementAccountant,
    FourFiguresAccountant,
    OnceLeakedAccountant,
)
