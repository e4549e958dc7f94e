"""Unusual but sound accountants for dpkit."""

from __future__ import annotations

import functools
import math
from fractions import Fraction
from typing import Any, ClassVar, Self

import attrs

from dpkit_core import Neighboring
from dpkit_core.privacy.budget import add_up, round_up
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
    Event,
    ExponentialMechanism,
    Gaussian,
    Laplace,
    PureDP,
    Repeated,
    Sequence,
)
from dpkit_core.privacy.renyi import curve_of_all, unbounded
from dpkit_core.privacy.tight import tight_delta, tight_epsilon, undominated
from dpkit_core.validators import not_negative

STATE = {"state": True}


def _relation() -> Any:
    return attrs.field(default=Neighboring.ADD_OR_REMOVE_ONE, converter=Neighboring)


def _total() -> Any:
    return attrs.field(default=0.0, converter=float, validator=not_negative, kw_only=True, metadata=STATE)


def _spent() -> Any:
    return attrs.field(default=(), converter=counted, kw_only=True, metadata=STATE)


@attrs.frozen
class DearestAccountant:
    """Charges every step as much as the dearest one: the number of steps times the largest pair.

    With n steps of pairs (e_i, d_i), sum e_i <= n max e_i, and the same of deltas; so basic composition
    (Dwork and Roth 2014, Theorem B.1) gives what is reported. Loose, and simple to check by hand.

    Neighboring relation: that of the ``neighboring`` field. Events: those with an (epsilon, delta).
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "Dwork and Roth 2014, Theorem B.1; a sum is at most the number times the largest"
    reference: ClassVar[str] = "Dwork and Roth 2014, The Algorithmic Foundations of Differential Privacy"

    neighboring: Neighboring = _relation()
    steps: int = attrs.field(default=0, kw_only=True, metadata=STATE)
    dearest: float = _total()
    leakiest: float = _total()

    def supports(self, event: Event, /) -> bool:
        """Return whether every event inside ``event`` has an (epsilon, delta)."""
        return obstacle(event, self.neighboring, unpaired) is None

    def compose(self, event: Event, count: int = 1, /) -> Self:
        """Return the accountant after ``count`` further runs of ``event``."""
        require_supported("dearest", event, count, self.neighboring, unpaired)
        epsilon, delta = pair_of(event)
        return attrs.evolve(
            self,
            steps=self.steps + count,
            dearest=max(self.dearest, epsilon),
            leakiest=max(self.leakiest, delta),
        )

    def _pair(self) -> tuple[float, float]:
        if not self.steps:
            return 0.0, 0.0
        return add_up(0.0, self.steps, self.dearest), add_up(0.0, self.steps, self.leakiest)

    def epsilon(self, delta: float, /) -> float:
        """Return the number of steps times the largest epsilon."""
        require_delta(delta)
        epsilon, leaked = self._pair()
        return epsilon if delta >= leaked else math.inf

    def delta(self, epsilon: float, /) -> float:
        """Return the number of steps times the largest delta, or 1."""
        require_epsilon(epsilon)
        total, leaked = self._pair()
        return min(1.0, leaked) if epsilon >= total else 1.0


def _concentrated(event: Event) -> str | None:
    if isinstance(event, Gaussian | Laplace | PureDP | ExponentialMechanism | Repeated | Sequence):
        return None
    return f"{event}: no zero-concentrated bound is used for it here"


@attrs.frozen
class ZeroConcentratedAccountant:
    """Zero-concentrated privacy, one number, with the classical conversion.

    rho of a Gaussian is 1 / (2 m^2), of a selection of bounded range epsilon^2 / 8 (Cesar and Rogers 2021), of
    any pure mechanism epsilon^2 / 2 (Bun and Steinke 2016, Proposition 3.3). rhos add up, and rho-zCDP is (rho
    + 2 sqrt(rho log(1 / delta)), delta)-DP (their Proposition 1.3). Never less than exact accounting. Where
    delta is 0, nothing is claimed, and epsilon is infinite even for pure mechanisms.

    Neighboring relation: that of the ``neighboring`` field. Events: Gaussians, Laplace noise, pure mechanisms
    and selections, inside ``Repeated`` and ``Sequence``; all others are refused.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "Bun and Steinke 2016, Propositions 1.3, 1.6, 1.7 and 3.3; Cesar and Rogers 2021"
    reference: ClassVar[str] = "Bun and Steinke 2016, Concentrated Differential Privacy, arXiv:1605.02065"

    neighboring: Neighboring = _relation()
    rho: float = _total()

    def supports(self, event: Event, /) -> bool:
        """Return whether every event inside ``event`` is concentrated."""
        return obstacle(event, self.neighboring, _concentrated) is None

    def compose(self, event: Event, count: int = 1, /) -> Self:
        """Return the accountant after ``count`` further runs of ``event``."""
        require_supported("zero_concentrated", event, count, self.neighboring, _concentrated)
        rho = self.rho
        for one, times in elements(event, count):
            if isinstance(one, Gaussian):
                cost = 1 / Fraction(one.noise_multiplier) ** 2 / 2 * (1 + Fraction(1, 2**20))
            else:
                share = 8 if isinstance(one, ExponentialMechanism) else 2
                epsilon = pair_of(one)[0]
                if not math.isfinite(epsilon):
                    return attrs.evolve(self, rho=math.inf)
                cost = Fraction(epsilon) ** 2 / share * (1 + Fraction(1, 2**20))
            rho = add_up(rho, times, round_up(cost))
        return attrs.evolve(self, rho=rho)

    def epsilon(self, delta: float, /) -> float:
        """Return rho + 2 sqrt(rho log(1 / delta)), rounded up."""
        require_delta(delta)
        if not self.rho:
            return 0.0
        if not delta or not math.isfinite(self.rho):
            return math.inf
        return (self.rho + 2 * math.sqrt(self.rho * -math.log(delta))) * (1 + 2.0**-40)

    def delta(self, epsilon: float, /) -> float:
        """Return exp(-(epsilon - rho)^2 / (4 rho)), rounded up; 1 for epsilon below rho."""
        require_epsilon(epsilon)
        if not self.rho:
            return 0.0
        if epsilon <= self.rho or not math.isfinite(self.rho):
            return 1.0
        spare = (epsilon - self.rho) * (1 - 2.0**-40)
        exponent = spare * spare / (4 * self.rho)
        return min(1.0, math.exp(-exponent * (1 - 2.0**-40)) * (1 + 2.0**-40) + 5e-324)


@functools.lru_cache(maxsize=4096)
def _exactly(spent: tuple[tuple[Event, int], ...], delta: float) -> float:
    """Return the exact total; the key is all that it depends on."""
    return tight_epsilon(spent, delta)


@attrs.frozen
class LadderAccountant:
    """Exact accounting, rounded up to the next rung of a public ladder of 2^(i / 8).

    A larger epsilon is implied by a smaller one, so rounding up keeps the claim. Totals are remembered by the
    whole multiset of mechanisms and by delta, which is all that they depend on.

    Neighboring relation: that of the ``neighboring`` field. Events: those of accountant ``tight``.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "dpkit_core.privacy.tight; rounding up"
    reference: ClassVar[str] = "Zhu, Dong and Wang 2022, Optimal Accounting of Differential Privacy"

    neighboring: Neighboring = _relation()
    spent: tuple[tuple[Event, int], ...] = _spent()

    def supports(self, event: Event, /) -> bool:
        """Return whether every event inside ``event`` has a dominating pair."""
        return obstacle(event, self.neighboring, undominated) is None

    def compose(self, event: Event, count: int = 1, /) -> Self:
        """Return the accountant after ``count`` further runs of ``event``."""
        require_supported("ladder", event, count, self.neighboring, undominated)
        return attrs.evolve(self, spent=(*self.spent, *elements(event, count)))

    def epsilon(self, delta: float, /) -> float:
        """Return the first rung that is not below the exact total."""
        total = _exactly(self.spent, delta)
        if not 0 < total < math.inf:
            return total
        rung = math.ceil(8 * math.log2(total)) - 1
        while 2.0 ** (rung / 8) < total:
            rung += 1
        return 2.0 ** (rung / 8)

    def delta(self, epsilon: float, /) -> float:
        """Return the exact delta at epsilon, rounded up to a power of two."""
        exact = tight_delta(self.spent, epsilon)
        if not 0 < exact < 1:
            return exact
        mantissa, exponent = math.frexp(exact)
        return exact if mantissa == 0.5 else min(1.0, math.ldexp(1.0, exponent))


#: Deltas at which the accountant answers.
GRID = tuple(2.0**-i for i in range(1, 101))


@attrs.frozen
class CautiousAccountant:
    """Exact accounting at a grid of deltas only, and for gentle mechanisms only.

    Asked at any delta, it answers with epsilon at the next smaller delta of the grid 2^-1 ... 2^-100, which is
    not below: epsilon does not increase with delta. Below the grid it answers as at delta 0. Mechanisms with
    an epsilon above ``most``, or Gaussians of a multiplier below 1 / ``most``, are not supported.

    Neighboring relation: that of the ``neighboring`` field. Events: those of accountant ``tight``, if gentle.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "dpkit_core.privacy.tight; epsilon does not increase with delta"
    reference: ClassVar[str] = "Zhu, Dong and Wang 2022, Optimal Accounting of Differential Privacy"

    neighboring: Neighboring = _relation()
    most: float = attrs.field(default=4.0, converter=float, validator=attrs.validators.gt(0.0))
    spent: tuple[tuple[Event, int], ...] = _spent()

    def _obstacle(self, event: Event) -> str | None:
        reason = undominated(event)
        if reason is not None:
            return reason
        size = getattr(event, "epsilon", None)
        if size is None and getattr(event, "noise_multiplier", None):
            size = 1 / event.noise_multiplier
        return f"{event}: too harsh for this accountant" if size is not None and size > self.most else None

    def supports(self, event: Event, /) -> bool:
        """Return whether every event inside ``event`` is gentle and has a dominating pair."""
        return obstacle(event, self.neighboring, self._obstacle) is None

    def compose(self, event: Event, count: int = 1, /) -> Self:
        """Return the accountant after ``count`` further runs of ``event``."""
        require_supported("cautious", event, count, self.neighboring, self._obstacle)
        return attrs.evolve(self, spent=(*self.spent, *elements(event, count)))

    def epsilon(self, delta: float, /) -> float:
        """Return epsilon at the next smaller delta of the grid."""
        require_delta(delta)
        return tight_epsilon(self.spent, next((point for point in GRID if point <= delta), 0.0))

    def delta(self, epsilon: float, /) -> float:
        """Return the exact delta at ``epsilon``."""
        return tight_delta(self.spent, epsilon)


@attrs.frozen
class WholeSideAccountant:
    """Renyi accounting that never trusts sides, parts, or samples: it charges all of them in full.

    What runs on a sample, or on one part of the records, is charged as if it ran on all of them, one after
    the other. A mechanism on a part that follows from the record alone costs at most what it costs on all
    records (McSherry 2009), sampling never costs (quasi-convexity of Renyi divergences), and the composition
    of all parts costs at least what one does.

    Neighboring relation: that of the ``neighboring`` field. Events: those of accountant ``rdp``, but for
    ``PoissonSampled`` inside ``Filtered``, which it leaves as it is.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "dpkit_core.privacy.renyi; parallel composition is at most sequential composition"
    reference: ClassVar[str] = "Mironov 2017, Renyi Differential Privacy, doi:10.1109/CSF.2017.11"

    neighboring: Neighboring = _relation()
    spent: tuple[tuple[Event, int], ...] = _spent()

    def supports(self, event: Event, /) -> bool:
        """Return whether every event inside ``event`` has a curve."""
        return obstacle(event, self.neighboring, unbounded) is None

    def compose(self, event: Event, count: int = 1, /) -> Self:
        """Return the accountant after ``count`` further runs of ``event``."""
        require_supported("whole_side", event, count, self.neighboring, unbounded)
        return attrs.evolve(self, spent=(*self.spent, *elements(_whole(event), count)))

    def epsilon(self, delta: float, /) -> float:
        """Return an upper bound on epsilon at ``delta``."""
        return curve_of_all(self.spent).epsilon(delta)

    def delta(self, epsilon: float, /) -> float:
        """Return an upper bound on delta at ``epsilon``."""
        return curve_of_all(self.spent).delta(epsilon)


def _whole(event: Event) -> Event:
    name = type(event).__name__
    if name == "PoissonSampled":
        return _whole(event.event)
    if name == "Disjoint":
        return Repeated(_whole(event.event), event.parts)
    if name == "Apart":
        return Sequence(tuple(map(_whole, event.events)))
    if name == "Repeated":
        return Repeated(_whole(event.event), event.count)
    if name == "Sequence":
        return Sequence(tuple(map(_whole, event.events)))
    return event


PROOFS = {
    "DearestAccountant": "n times the largest pair is at least the sum of pairs, which is basic composition.",
    "ZeroConcentratedAccountant": "standard zCDP: eps^2/2 for pure, eps^2/8 for bounded range, 1/(2m^2) for "
    "Gaussians, add, convert by Bun-Steinke 1.3; loose by construction.",
    "LadderAccountant": "the tight total rounded up to a public ladder; its cache has the full key.",
    "CautiousAccountant": "tight epsilon at a smaller delta is an upper bound at the delta asked for; refusing "
    "harsh events is allowed.",
    "WholeSideAccountant": "replaces Disjoint, Apart and PoissonSampled by the full sequential composition, "
    "which costs at least as much, and uses RDP.",
}
