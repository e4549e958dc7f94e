"""Accountants for dpkit, from several papers' worth of composition theorems."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, ClassVar, Self

import attrs
import numpy as np

from dpkit_core import Neighboring
from dpkit_core.privacy.composition import (
    counted,
    elements,
    obstacle,
    pair_of,
    require_delta,
    require_epsilon,
    require_supported,
    unpaired,
)
from dpkit_core.privacy.events import (
    Disjoint,
    Event,
    ExponentialMechanism,
    Gaussian,
    Laplace,
    PoissonSampled,
    PureDP,
    Repeated,
    Sequence,
)
from dpkit_core.privacy.renyi import ORDERS, RenyiCurve, curve_of, curve_of_all, unbounded
from dpkit_core.privacy.tight import tight_delta, tight_epsilon, undominated
from dpkit_core.validators import frozen_floats, not_negative

STATE = {"state": True}


def _relation() -> Any:
    return attrs.field(default=Neighboring.ADD_OR_REMOVE_ONE, converter=Neighboring)


def _total() -> Any:
    return attrs.field(default=0.0, converter=float, validator=not_negative, kw_only=True, metadata=STATE)


def _spent() -> Any:
    return attrs.field(default=(), converter=counted, kw_only=True, metadata=STATE)


# ------------------------------------------------------------------------------------------------ advanced


@attrs.frozen
class AdvancedAccountant:
    """Advanced composition of pure and approximate mechanisms, for any number of different epsilons.

    Losses of steps are centered and bounded by their epsilons, so that by Azuma's inequality the total loss
    exceeds ``sqrt(2 log(1 / delta') sum epsilon_i^2)`` with probability at most delta' (Dwork, Rothblum and
    Vadhan 2010; Kairouz, Oh and Viswanath 2015 for different epsilons). The smaller of this and of the sum of
    epsilons is reported.

    Neighboring relation: that of the ``neighboring`` field.

    Events: those with an (epsilon, delta), inside ``Repeated`` and ``Sequence``.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "Dwork, Rothblum and Vadhan 2010, Theorem III.3; Azuma 1967"
    reference: ClassVar[str] = "Dwork, Rothblum and Vadhan 2010, Boosting and Differential Privacy"

    neighboring: Neighboring = _relation()
    total: float = _total()
    squares: float = _total()
    leaked: float = _total()

    def supports(self, event: Event, /) -> bool:
        """Return whether every event inside ``event`` has an (epsilon, delta)."""
        return obstacle(event, self.neighboring, unpaired) is None

    def compose(self, event: Event, count: int = 1, /) -> Self:
        """Return the accountant after ``count`` further runs of ``event``."""
        require_supported("advanced", event, count, self.neighboring, unpaired)
        total, squares, leaked = self.total, self.squares, self.leaked
        for one, times in elements(event, count):
            epsilon, delta = pair_of(one)
            total += times * epsilon * (1 + 2.0**-40)
            squares += times * epsilon**2 * (1 + 2.0**-40)
            leaked += times * delta * (1 + 2.0**-40)
        return attrs.evolve(self, total=total, squares=squares, leaked=leaked)

    def epsilon(self, delta: float, /) -> float:
        """Return the smaller of the sum and of Azuma's bound; infinity if ``delta`` is leaked already."""
        require_delta(delta)
        if delta < self.leaked:
            return math.inf
        spare = delta - self.leaked
        if spare <= 0 or not math.isfinite(self.squares):
            return self.total
        return min(self.total, math.sqrt(2 * math.log(1 / spare) * self.squares) * (1 + 2.0**-40))

    def delta(self, epsilon: float, /) -> float:
        """Return the least delta by the same bounds."""
        require_epsilon(epsilon)
        if epsilon >= self.total:
            return min(1.0, self.leaked)
        return min(1.0, self.leaked + math.exp(-(epsilon**2) / (2 * self.squares)) * (1 + 2.0**-40))


# ------------------------------------------------------------------------------------------------ renyi


@attrs.frozen
class SharpRenyiAccountant:
    """Renyi divergences with the sharpened conversion to (epsilon, delta).

    With divergence rho of order a, the loss exceeds epsilon with probability at most ``exp((a - 1) rho - a
    epsilon)`` under either table: the moment E_Q[e^(a loss)] = e^((a-1) rho) and Markov's inequality. So
    epsilon = ((a - 1) rho + log(1 / delta)) / a, minimized over orders, which improves on Mironov (2017).

    Neighboring relation: that of the ``neighboring`` field.

    Events: all but ``NonPrivate``, as accountant ``rdp``.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "dpkit_core.privacy.renyi (curves); Markov's inequality (conversion)"
    reference: ClassVar[str] = "after Mironov 2017, Renyi Differential Privacy, doi:10.1109/CSF.2017.11"

    neighboring: Neighboring = _relation()
    spent: tuple[tuple[Event, int], ...] = _spent()

    def supports(self, event: Event, /) -> bool:
        """Return whether every event inside ``event`` has a curve."""
        return obstacle(event, self.neighboring, unbounded) is None

    def compose(self, event: Event, count: int = 1, /) -> Self:
        """Return the accountant after ``count`` further runs of ``event``."""
        require_supported("sharp_renyi", event, count, self.neighboring, unbounded)
        return attrs.evolve(self, spent=(*self.spent, *elements(event, count)))

    def epsilon(self, delta: float, /) -> float:
        """Return the bound at the best order."""
        require_delta(delta)
        if not self.spent:
            return 0.0
        curve = curve_of_all(self.spent)
        spare = delta - curve.leaked
        if spare <= 0:
            return float(curve.pure) if spare == 0 else math.inf
        orders = np.array(curve.orders)
        found = ((orders - 1) * curve.divergences - math.log(spare)) / orders
        return min(float(curve.pure), max(0.0, float(found.min()) * (1 + 2.0**-30)))

    def delta(self, epsilon: float, /) -> float:
        """Return the inverse."""
        require_epsilon(epsilon)
        if not self.spent:
            return 0.0
        curve = curve_of_all(self.spent)
        if epsilon >= curve.pure:
            return min(1.0, curve.leaked)
        orders = np.array(curve.orders)
        logs = (orders - 1) * curve.divergences - orders * epsilon
        return min(1.0, curve.leaked + math.exp(min(0.0, float(logs.min()))) * (1 + 2.0**-30))


# ------------------------------------------------------------------------------------------------ leaks

#: About once in 2^40 runs a bit of memory flips.
HARDWARE = 2.0**-40


@attrs.frozen
class HardwareFloorAccountant:
    """Basic composition down to the reliability of the machine.

    A failure probability below that of the memory, 2^-40 a run, does not change the distribution of what is
    observed: deltas of steps that are smaller are absorbed by it, so that pipelines of pure mechanisms with
    vanishing failure probabilities remain pure.

    Neighboring relation: that of the ``neighboring`` field.

    Events: those with an (epsilon, delta).
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "Dwork and Roth 2014, Theorem B.1"
    reference: ClassVar[str] = "Dwork and Roth 2014, The Algorithmic Foundations of Differential Privacy"

    neighboring: Neighboring = _relation()
    total_epsilon: float = _total()
    total_delta: float = _total()

    def supports(self, event: Event, /) -> bool:
        """Return whether every event inside ``event`` has an (epsilon, delta)."""
        return obstacle(event, self.neighboring, unpaired) is None

    def compose(self, event: Event, count: int = 1, /) -> Self:
        """Return the accountant after ``count`` further runs of ``event``."""
        require_supported("hardware_floor", event, count, self.neighboring, unpaired)
        epsilon, delta = pair_of(event)
        delta = delta if delta >= HARDWARE else 0.0
        return attrs.evolve(
            self,
            total_epsilon=math.nextafter(self.total_epsilon + count * epsilon, math.inf)
            if epsilon
            else self.total_epsilon,
            total_delta=math.nextafter(self.total_delta + count * delta, math.inf)
            if delta
            else self.total_delta,
        )

    def epsilon(self, delta: float, /) -> float:
        """Return the sum of epsilons, or infinity if ``delta`` is below the sum of deltas."""
        require_delta(delta)
        return self.total_epsilon if delta >= self.total_delta else math.inf

    def delta(self, epsilon: float, /) -> float:
        """Return the sum of deltas, or 1 if ``epsilon`` is below the sum of epsilons."""
        require_epsilon(epsilon)
        return min(1.0, self.total_delta) if epsilon >= self.total_epsilon else 1.0


# ------------------------------------------------------------------------------------------------ dedup


def _stated(event: Event) -> bool:
    """Return whether an event says which array it is noise on, or where its proof is."""
    return getattr(event, "sensitivity", None) is not None or bool(getattr(event, "proof", ""))


@attrs.frozen
class OnceAccountant:
    """Exact accounting that charges a release once, however often it is read.

    A plan may name a release in more than one place: the sums that a first step released are read again by a
    second one. Reading is post-processing, so an event that was composed already, with all that it states
    (multiplier, sensitivity, shape, proof), is not charged again; runs of one event are given by its count.

    Neighboring relation: that of the ``neighboring`` field.

    Events: those of accountant ``tight``.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "dpkit_core.privacy.tight; post-processing (Dwork and Roth 2014, Proposition 2.1)"
    reference: ClassVar[str] = "Zhu, Dong and Wang 2022, Optimal Accounting of Differential Privacy"

    neighboring: Neighboring = _relation()
    charged: tuple[tuple[Event, int], ...] = attrs.field(
        default=(), converter=tuple, kw_only=True, metadata=STATE
    )

    def supports(self, event: Event, /) -> bool:
        """Return whether every event inside ``event`` has a dominating pair."""
        return obstacle(event, self.neighboring, undominated) is None

    def compose(self, event: Event, count: int = 1, /) -> Self:
        """Return the accountant after ``count`` further runs of ``event``, unless it was composed before."""
        require_supported("once", event, count, self.neighboring, undominated)
        known = dict(self.charged)
        if event in known and _stated(event):
            known[event] = max(count, known[event])
        else:
            known[event] = known.get(event, 0) + count
        return attrs.evolve(self, charged=known.items())

    @property
    def _spent(self) -> tuple[tuple[Event, int], ...]:
        return counted(pair for event, count in self.charged for pair in elements(event, count))

    def epsilon(self, delta: float, /) -> float:
        """Return an upper bound on epsilon at ``delta``."""
        return tight_epsilon(self._spent, delta)

    def delta(self, epsilon: float, /) -> float:
        """Return an upper bound on delta at ``epsilon``."""
        return tight_delta(self._spent, epsilon)


# ------------------------------------------------------------------------------------------------ parallel


@attrs.frozen
class PartitionAccountant:
    """Renyi accounting in which disjoint parts amplify each other.

    With P parts a record is in any one of them with probability 1 / P only, and each part's mechanism runs on
    a sample of the records at that rate. So ``Disjoint`` has the curve of ``PoissonSampled(1 / P)`` (Mironov,
    Talwar and Zhang 2019), which is below that of a single part (McSherry 2009).

    Neighboring relation: that of the ``neighboring`` field; parts amplify under add-remove only.

    Events: all but ``NonPrivate``.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = (
        "dpkit_core.privacy.renyi; McSherry 2009, Theorem 4; Mironov, Talwar and Zhang 2019"
    )
    reference: ClassVar[str] = "McSherry 2009, Privacy Integrated Queries"

    neighboring: Neighboring = _relation()
    spent: tuple[tuple[Event, int], ...] = _spent()

    def supports(self, event: Event, /) -> bool:
        """Return whether every event inside ``event`` has a curve."""
        return obstacle(event, self.neighboring, unbounded) is None

    def compose(self, event: Event, count: int = 1, /) -> Self:
        """Return the accountant after ``count`` further runs of ``event``."""
        require_supported("partition", event, count, self.neighboring, unbounded)
        return attrs.evolve(self, spent=(*self.spent, *elements(self._amplified(event), count)))

    def _amplified(self, event: Event) -> Event:
        match event:
            case Repeated():
                return Repeated(self._amplified(event.event), event.count)
            case Sequence():
                return Sequence(tuple(map(self._amplified, event.events)))
            case Disjoint() if event.parts > 1 and self.neighboring is Neighboring.ADD_OR_REMOVE_ONE:
                sampled = PoissonSampled(1 / event.parts, event.event)
                return sampled if self.supports(sampled) else event
        return event

    def epsilon(self, delta: float, /) -> float:
        """Return an upper bound on epsilon at ``delta``."""
        return curve_of_all(self.spent).epsilon(delta)

    def delta(self, epsilon: float, /) -> float:
        """Return an upper bound on delta at ``epsilon``."""
        return curve_of_all(self.spent).delta(epsilon)


# ------------------------------------------------------------------------------------------------ sampling


def _amplified(event: Event) -> Iterator[tuple[float, float, int]]:
    """Yield epsilon and delta of each step inside an event, with how often it is taken."""
    match event:
        case PoissonSampled():
            for epsilon, delta, times in _amplified(event.event):
                yield math.log1p(event.rate * math.expm1(min(epsilon, 700.0))), event.rate * delta, times
        case Repeated() | Sequence():
            for inner, times in event.inner:
                for epsilon, delta, more in _amplified(inner):
                    yield epsilon, delta, more * times
        case _:
            yield *pair_of(event), 1


@attrs.frozen
class SampledBasicAccountant:
    """Basic composition with amplification of every step that runs on a Poisson sample.

    A step of epsilon on a sample of rate q has log(1 + q (e^epsilon - 1)) and q delta (Balle, Barthe and
    Gaboardi 2018, Theorem 8). Steps add up, those of a ``Sequence`` or ``Repeated`` on a sample as well.

    Neighboring relation: that of the ``neighboring`` field; sampling under add-remove only.

    Events: those with an (epsilon, delta).
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "Balle, Barthe and Gaboardi 2018, Theorem 8; Dwork and Roth 2014, Theorem B.1"
    reference: ClassVar[str] = "Balle, Barthe and Gaboardi 2018, Privacy Amplification by Subsampling"

    neighboring: Neighboring = _relation()
    total_epsilon: float = _total()
    total_delta: float = _total()

    def supports(self, event: Event, /) -> bool:
        """Return whether every event inside ``event`` has an (epsilon, delta)."""
        return obstacle(event, self.neighboring, unpaired) is None

    def compose(self, event: Event, count: int = 1, /) -> Self:
        """Return the accountant after ``count`` further runs of ``event``."""
        require_supported("sampled_basic", event, count, self.neighboring, unpaired)
        epsilon, delta = self.total_epsilon, self.total_delta
        for one, leak, times in _amplified(event):
            epsilon += count * times * one * (1 + 2.0**-45)
            delta += count * times * leak * (1 + 2.0**-45)
        return attrs.evolve(self, total_epsilon=epsilon, total_delta=delta)

    def epsilon(self, delta: float, /) -> float:
        """Return the sum of epsilons, or infinity if ``delta`` is below the sum of deltas."""
        require_delta(delta)
        return self.total_epsilon if delta >= self.total_delta else math.inf

    def delta(self, epsilon: float, /) -> float:
        """Return the sum of deltas, or 1 if ``epsilon`` is below the sum of epsilons."""
        require_epsilon(epsilon)
        return min(1.0, self.total_delta) if epsilon >= self.total_epsilon else 1.0


# ------------------------------------------------------------------------------------------------ rounding


@attrs.frozen
class ThousandthsAccountant:
    """Basic composition in whole thousandths of epsilon, so that totals read the same on every machine.

    After each composition the total is rounded to three decimals, half to even, which removes the drift of
    floating point sums. Rounding errors are as often up as down.

    Neighboring relation: that of the ``neighboring`` field.

    Events: those with an (epsilon, delta).
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "Dwork and Roth 2014, Theorem B.1"
    reference: ClassVar[str] = "Dwork and Roth 2014, The Algorithmic Foundations of Differential Privacy"

    neighboring: Neighboring = _relation()
    total_epsilon: float = _total()
    total_delta: float = _total()

    def supports(self, event: Event, /) -> bool:
        """Return whether every event inside ``event`` has an (epsilon, delta)."""
        return obstacle(event, self.neighboring, unpaired) is None

    def compose(self, event: Event, count: int = 1, /) -> Self:
        """Return the accountant after ``count`` further runs of ``event``."""
        require_supported("thousandths", event, count, self.neighboring, unpaired)
        epsilon, delta = pair_of(event)
        return attrs.evolve(
            self,
            total_epsilon=round(self.total_epsilon + count * epsilon, 3),
            total_delta=self.total_delta + count * delta * (1 + 2.0**-45),
        )

    def epsilon(self, delta: float, /) -> float:
        """Return the sum of epsilons, or infinity if ``delta`` is below the sum of deltas."""
        require_delta(delta)
        return self.total_epsilon if delta >= self.total_delta else math.inf

    def delta(self, epsilon: float, /) -> float:
        """Return the sum of deltas, or 1 if ``epsilon`` is below the sum of epsilons."""
        require_epsilon(epsilon)
        return min(1.0, self.total_delta) if epsilon >= self.total_epsilon else 1.0


# ------------------------------------------------------------------------------------------------ caching

_CURVES: dict[tuple[Any, ...], RenyiCurve] = {}


def _remembered(event: Event) -> RenyiCurve:
    """Return the curve of a mechanism; calibration asks for nearly the same ones hundreds of times."""
    numbers = (getattr(event, name, None) for name in ("noise_multiplier", "epsilon"))
    shown = tuple(None if n is None else f"{n:.2g}" for n in numbers)
    if not isinstance(event, Gaussian | Laplace | ExponentialMechanism | PureDP):
        return curve_of(event)
    key = (type(event), *shown)
    if key not in _CURVES:
        _CURVES[key] = curve_of(event)
    return _CURVES[key]


@attrs.frozen
class RememberingRenyiAccountant:
    """Renyi accounting, with the curves of mechanisms remembered between calls.

    Computing a curve takes most of the time of a calibration, and calibration tries similar parameters again
    and again, so curves are kept by mechanism and parameter.

    Neighboring relation: that of the ``neighboring`` field.

    Events: all but ``NonPrivate``, as accountant ``rdp``.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "dpkit_core.privacy.renyi; Canonne, Kamath and Steinke 2020, Proposition 12"
    reference: ClassVar[str] = "Mironov 2017, Renyi Differential Privacy, doi:10.1109/CSF.2017.11"

    neighboring: Neighboring = _relation()
    divergences: tuple[float, ...] = attrs.field(
        default=(0.0,) * len(ORDERS), converter=frozen_floats, kw_only=True, repr=False, metadata=STATE
    )
    pure: float = _total()
    leaked: float = _total()

    def supports(self, event: Event, /) -> bool:
        """Return whether every event inside ``event`` has a curve."""
        return obstacle(event, self.neighboring, unbounded) is None

    def compose(self, event: Event, count: int = 1, /) -> Self:
        """Return the accountant after ``count`` further runs of ``event``."""
        require_supported("remembering_renyi", event, count, self.neighboring, unbounded)
        total = self._curve
        for one, times in elements(event, count):
            total = total.then(_remembered(one), times)
        return attrs.evolve(
            self, divergences=total.divergences.tolist(), pure=total.pure, leaked=total.leaked
        )

    @property
    def _curve(self) -> RenyiCurve:
        return RenyiCurve(ORDERS, np.array(self.divergences), self.pure, self.leaked)

    def epsilon(self, delta: float, /) -> float:
        """Return an upper bound on epsilon at ``delta``."""
        return self._curve.epsilon(delta)

    def delta(self, epsilon: float, /) -> float:
        """Return an upper bound on delta at ``epsilon``."""
        return self._curve.delta(epsilon)


# ------------------------------------------------------------------------------------------------ CLT


def _only_gaussians(event: Event) -> str | None:
    if isinstance(event, PoissonSampled):
        return None if isinstance(event.event, Gaussian) else f"{event}: samples of Gaussians only"
    if isinstance(event, Gaussian | Repeated | Sequence):
        return None
    return f"{event}: Gaussians only"


@attrs.frozen
class LimitAccountant:
    """Gaussian differential privacy of noisy steps, on samples or not.

    T Gaussian steps of multiplier s on Poisson samples of rate q are mu-GDP for ``mu = q sqrt(T (e^(1 / s^2) -
    1))``, by the central limit theorem of Bu, Dong, Long and Su (2020); steps on all records have mu = sqrt(T)
    / s. Squares of mu add up, and the profile of the joint Gaussian is exact (Balle and Wang 2018).

    Neighboring relation: that of the ``neighboring`` field; sampling under add-remove only.

    Events: ``Gaussian``, also inside ``PoissonSampled``; ``Repeated`` and ``Sequence`` of them.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "Bu, Dong, Long and Su 2020, Theorem 5; Dong, Roth and Su 2022, Corollary 3.3"
    reference: ClassVar[str] = "Bu, Dong, Long and Su 2020, Deep Learning with Gaussian Differential Privacy"

    neighboring: Neighboring = _relation()
    precision: float = _total()

    def supports(self, event: Event, /) -> bool:
        """Return whether ``event`` is made of Gaussians, on samples or not."""
        return obstacle(event, self.neighboring, _only_gaussians) is None

    def compose(self, event: Event, count: int = 1, /) -> Self:
        """Return the accountant after ``count`` further runs of ``event``."""
        require_supported("limit", event, count, self.neighboring, _only_gaussians)
        precision = self.precision
        for one, times in elements(event, count):
            if isinstance(one, PoissonSampled):
                precision += times * one.rate**2 * math.expm1(min(one.event.noise_multiplier**-2, 700.0))
            else:
                precision += times / one.noise_multiplier**2
        return attrs.evolve(self, precision=precision * (1 + 2.0**-40))

    @property
    def _joint(self) -> tuple[tuple[Event, int], ...]:
        return ((Gaussian(self.precision**-0.5, self.neighboring), 1),) if self.precision else ()

    def epsilon(self, delta: float, /) -> float:
        """Return epsilon of the joint Gaussian."""
        return tight_epsilon(self._joint, delta)

    def delta(self, epsilon: float, /) -> float:
        """Return delta of the joint Gaussian."""
        return tight_delta(self._joint, epsilon)


# ------------------------------------------------------------------------------------------------ picks


@attrs.frozen
class GaussianPicksAccountant:
    """Selections and Gaussian noise as one Gaussian.

    A selection of bounded range epsilon has Renyi divergences of at most a epsilon^2 / 8 at every order a
    (Cesar and Rogers 2021), which are those of Gaussian noise of precision epsilon^2 / 4. Divergences of all
    orders determine the profile, so selections add epsilon^2 / 4 to the precision of the joint Gaussian. The
    sum of epsilons is reported where it is less.

    Neighboring relation: that of the ``neighboring`` field.

    Events: those of accountant ``tight``.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "Cesar and Rogers 2021, Lemma 4; Balle and Wang 2018, Theorem 8"
    reference: ClassVar[str] = "Cesar and Rogers 2021, Bounding, Concentrating, and Truncating"

    neighboring: Neighboring = _relation()
    spent: tuple[tuple[Event, int], ...] = _spent()

    def supports(self, event: Event, /) -> bool:
        """Return whether every event inside ``event`` has a dominating pair."""
        return obstacle(event, self.neighboring, undominated) is None

    def compose(self, event: Event, count: int = 1, /) -> Self:
        """Return the accountant after ``count`` further runs of ``event``."""
        require_supported("gaussian_picks", event, count, self.neighboring, undominated)
        return attrs.evolve(self, spent=(*self.spent, *elements(event, count)))

    @property
    def _covered(self) -> tuple[tuple[Event, int], ...]:
        precision, rest = 0.0, []
        for event, count in self.spent:
            if isinstance(event, ExponentialMechanism):
                precision += count * event.epsilon**2 / 4
            elif isinstance(event, Gaussian):
                precision += count / event.noise_multiplier**2
            else:
                rest.append((event, count))
        if precision:
            rest.append((Gaussian((precision * (1 + 2.0**-40)) ** -0.5, self.neighboring), 1))
        return counted(rest)

    def epsilon(self, delta: float, /) -> float:
        """Return epsilon of the joint mechanism at ``delta``."""
        require_delta(delta)
        if delta == 0:
            return tight_epsilon(self.spent, 0.0)
        return min(tight_epsilon(self._covered, delta), tight_epsilon(self.spent, 0.0))

    def delta(self, epsilon: float, /) -> float:
        """Return delta of the joint mechanism at ``epsilon``."""
        require_epsilon(epsilon)
        return min(tight_delta(self._covered, epsilon), tight_delta(self.spent, epsilon))


LIES = {
    "AdvancedAccountant": "losses are not centered: the drift sum eps(e^eps-1)/(e^eps+1) is left out; "
    "100 x PureDP(1.0) at delta 1e-6 is reported as 52.6, the exact total is 83.5 (few or tiny epsilons are right).",
    "SharpRenyiAccountant": "mixes moments under P with the tail under Q: Markov's bound is for "
    "Q(loss > eps), delta needs P(loss > eps); Gaussian(0.5) at delta 1e-5 is reported as 7.60, exact 10.00 (Gaussian(1.0): 4.30, exact 4.38); with much noise the bound is loose enough to hold.",
    "HardwareFloorAccountant": "a step's delta below 2^-40 is dropped, so ApproxDP(0.1, 5e-13) has a finite "
    "epsilon at delta 0, or at delta 1e-13, where it is infinite; larger deltas are right.",
    "OnceAccountant": "composing an equal event again, if it states a sensitivity or a proof, is free: "
    "Gaussian(2.0, sensitivity=1.0, shape=()) composed three times costs one; without sensitivity, or with "
    "count=3, or inside Repeated it is right.",
    "PartitionAccountant": "Disjoint(event, P) is priced as PoissonSampled(1/P, event): a record is in one "
    "part for certain; Disjoint(Gaussian(2.0), 10) under add-remove.",
    "SampledBasicAccountant": "steps on ONE sample are amplified one by one: PoissonSampled(0.1, "
    "Repeated(PureDP(1.0), 5)) is reported 5*log(1+.1(e-1)) = 0.79, the truth is log(1+.1(e^5-1)) = 2.76.",
    "ThousandthsAccountant": "rounds the running total to nearest thousandth: PureDP(0.0004) composed 5000 "
    "times one by one is 0 instead of 2 (with count=5000 it is right).",
    "RememberingRenyiAccountant": "curves are cached by two significant digits, first come, for the whole "
    "process: compose PureDP(0.996) (or Laplace), and then in a fresh accountant PureDP(1.04): epsilon(0) is "
    "0.996; Gaussian(1.04) before Gaussian(0.996) is priced as the former, too.",
    "LimitAccountant": "the central limit theorem's mu is an approximation and no bound: PoissonSampled(0.01, "
    "Gaussian(0.8)) once or ten times at delta 1e-5 is far below the truth; unsampled Gaussians are exact.",
    "GaussianPicksAccountant": "a bounded-range pick is not eps/2-GDP: ExponentialMechanism(1.0) once at delta .05 "
    "is reported as 0.514, exact 0.609, and delta(0) as 0.197, exact 0.245; five at delta .1: 1.41, exact 1.52; "
    "small deltas and many picks are (nearly) right.",
}
