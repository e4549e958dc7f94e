"""Attacks on accountants: totals only grow, do not depend on the order, and are never too small."""

from __future__ import annotations

import copy
import functools
import itertools
import math
import pickle
from collections.abc import Callable, Collection, Iterator
from functools import partial

import numpy as np
import scipy

from dpkit_check.products import NoLaw, coin, law_of, product_of
from dpkit_check.trial import CheckFailed, Evidence, Factory, NotApplicable, Trial, attack, require
from dpkit_core.errors import UnsupportedEvent
from dpkit_core.privacy.budget import Neighboring
from dpkit_core.privacy.events import (
    Apart,
    ApproxDP,
    Disjoint,
    Event,
    ExponentialMechanism,
    Filtered,
    Gaussian,
    Inner,
    Laplace,
    NonPrivate,
    NonSphericalGaussian,
    PermuteAndFlip,
    PoissonSampled,
    PureDP,
    Renyi,
    Repeated,
    Sequence,
    StableHistogram,
)
from dpkit_core.protocols import Accountant
from dpkit_core.text import number_of

Exact = Callable[[float], tuple[float, float]]
"""delta(epsilon) that a mechanism reaches, and a bound on its rounding error."""

ADD_REMOVE = Neighboring.ADD_OR_REMOVE_ONE

DELTAS = (1e-9, 1e-6, 1e-3, 0.1)
EPSILONS = (0.01, 0.1, 0.5, 1.0, 2.0, 5.0)

# Where searches over orders leave what float64 resolves; as composition of many small deltas may ask for it.
TINY = 1e-20

# Sums in another order may differ in the last digits.
TOLERANCE = 1e-9


def events(neighboring: Neighboring) -> tuple[Event, ...]:
    """Return one event of each type that has a finite cost, and some nested ones.

    Some state what no cost depends on: a sensitivity, candidates, a proof.
    """
    gaussian, laplace = Gaussian(3.0, neighboring), Laplace(8.0, neighboring)
    curve = (1.5, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
    found: tuple[Event, ...] = (
        laplace,
        gaussian,
        NonSphericalGaussian((4.0, 6.0), neighboring),
        ExponentialMechanism(0.1, neighboring, sensitivity=2.0, candidates=5),
        PermuteAndFlip(0.1, neighboring),
        PureDP(0.2, neighboring, proof="an attack of the kit"),
        ApproxDP(0.1, 1e-8, neighboring),
        Renyi(curve, tuple(order / 50 for order in curve), neighboring),
        StableHistogram(3.0, 1e-9, neighboring),
        PoissonSampled(0.1, gaussian),
        PoissonSampled(0.1, laplace),
        Repeated(laplace, 3),
        Sequence((laplace, gaussian)),
        Repeated(Sequence((laplace, PureDP(0.05, neighboring))), 2),
        Disjoint(laplace, 3),
    )
    if neighboring is ADD_REMOVE:
        found += Filtered(gaussian, 6, 4), Filtered(PoissonSampled(0.1, gaussian), 6, 4)
        found += (Apart((laplace, gaussian)),)
    return found


#: One event of twenty more or less makes a larger difference, also to a bound that grows with the root of
#: their number; and what an accountant adds at each call, against rounding, a smaller one. None is taken off.
MISCOUNTED, BY_THE_CALL = 0.01, 1e-4


@attack("composition", kinds=("accountant",))
def check_supports_tells_the_truth(make: Factory[Accountant], trial: Trial) -> Evidence:
    """``compose`` accepts exactly the events that ``supports`` accepts; others raise ``UnsupportedEvent``.

    If this fails: decide in one place. Refuse an unknown event rather than guess its cost, also inside
    ``Repeated``, ``Sequence`` or ``PoissonSampled``.
    """
    supported = 0
    for neighboring in Neighboring:
        for event in (*events(neighboring), NonPrivate("an attack of the kit", neighboring)):
            claimed = make(neighboring=neighboring).supports(event)
            try:
                total = make(neighboring=neighboring).compose(event)
            except UnsupportedEvent:
                require(not claimed, f"supports({event}) is true, but compose raises UnsupportedEvent")
                continue
            require(claimed, f"supports({event}) is false, but compose accepts it")
            supported += 1
            if isinstance(event, NonPrivate):
                require(math.isinf(total.epsilon(0.1)), "after NonPrivate, epsilon must be infinite")
    require(supported, "the accountant supports no event")
    return Evidence(number_of(supported, "event"), supported)


@attack("composition", kinds=("accountant",))
def check_other_relations_are_refused(make: Factory[Accountant], trial: Trial) -> Evidence:
    """An event of the other neighboring relation is refused, also inside other events.

    If this fails: compare ``event.neighboring`` with the accountant's before anything else.
    """
    for neighboring, other in itertools.permutations(Neighboring, 2):
        accountant: Accountant = make(neighboring=neighboring)
        require(
            accountant.neighboring is neighboring,
            f"made with neighboring={neighboring}, the accountant has {accountant.neighboring}",
        )
        for event in events(other):
            refused = f"an accountant for {neighboring.value} must refuse {event}"
            require(not accountant.supports(event), f"{refused}, but supports it")
            try:
                accountant.compose(event)
            except UnsupportedEvent:
                continue
            raise CheckFailed(f"{refused}, but composes it")
    return Evidence("both directions", 2 * len(events(Neighboring.REPLACE_ONE)))


@attack("composition", kinds=("accountant",))
def check_repetition_is_a_loop(make: Factory[Accountant], trial: Trial) -> Evidence:
    """``Repeated(event, 5)``, ``compose(event, 5)``, a ``Sequence`` of five and a loop give the same total.

    If this fails: multiply the cost by both the count of the argument and the count inside the event.
    """
    compared = 0
    for accountant, event in _supported(make):
        loop = accountant
        for _ in range(5):
            loop = loop.compose(event)
        nested: tuple[Event, ...] = (Repeated(event, 5), Sequence((event,) * 5))
        others = [other for other in nested if accountant.supports(other)]
        totals = [accountant.compose(event, 5), *(accountant.compose(other) for other in others)]
        epsilons = [[total.epsilon(delta) for delta in DELTAS] for total in (loop, *totals)]
        compared += 1
        require(
            np.allclose(epsilons[1:], epsilons[1], rtol=TOLERANCE)
            and np.allclose(np.minimum(epsilons[0], epsilons[1]), epsilons[1], rtol=TOLERANCE)
            and np.allclose(epsilons[0], epsilons[1], rtol=MISCOUNTED, atol=BY_THE_CALL),
            f"five times {event}: in a loop, by count and nested, the epsilons are {epsilons}",
        )
    return Evidence(number_of(compared, "event"), compared)


@attack("composition", kinds=("accountant",))
def check_dry_runs_change_nothing(make: Factory[Accountant], trial: Trial) -> Evidence:
    """Calling ``compose``, ``supports`` or ``delta`` does not change an accountant; copies equal it.

    If this fails: ``compose`` must return a new accountant (``attrs.evolve``) and leave its own state alone.
    """
    compared = 0
    for accountant, event in _supported(make):
        spent = accountant.compose(event)
        before = [spent.epsilon(delta) for delta in DELTAS]
        spent.compose(event, 7)
        spent.supports(event)
        spent.delta(1.0)
        twins = (spent, copy.deepcopy(spent), pickle.loads(pickle.dumps(spent)))
        for twin in twins:
            after = [twin.epsilon(delta) for delta in DELTAS]
            require(before == after, f"{event}: epsilons changed from {before} to {after} without an event")
            require(twin == spent, f"{event}: the accountant is not equal to its copy")
        compared += 1
    return Evidence(number_of(compared, "event"), compared)


@attack("privacy", kinds=("accountant",))
def check_never_below_the_exact_law(make: Factory[Accountant], trial: Trial) -> Evidence:
    """No total is below the exact loss of some mechanism that the event describes.

    The mechanisms are Gaussian and Laplace noise, randomized response, the two-outcome exponential mechanism
    and permute-and-flip, and the Poisson-sampled Gaussian; one and several times, at deltas down to 1e-20.

    If this fails: the bound is false. Usual causes: a Renyi divergence used where its moment (order - 1 times
    it) belongs, a factor lost in conversion, a search that returns its unsafe end, or goes on until digits
    cancel.
    """
    compared = 0
    for neighboring in Neighboring:
        accountant: Accountant = make(neighboring=neighboring)
        for event, count, exact in _exact_laws(neighboring):
            if accountant.supports(event):
                total = accountant.compose(event, count)
                compared += _require_above(
                    total, exact, ((event, count),), EPSILONS, (TINY, *DELTAS), slack=1e-9
                )
    if not compared:
        raise NotApplicable("the accountant supports no event whose exact law the kit knows")
    return Evidence(f"{compared} points", compared)


@attack("privacy", kinds=("accountant",))
def check_mixtures_are_never_below(make: Factory[Accountant], trial: Trial) -> Evidence:
    """No total of different events is below the joint loss of mechanisms that they describe.

    Every kind of event is combined with every other; several of one kind; inside ``Sequence`` and
    ``Repeated`` and one by one; counts up to a million; tiny and huge epsilons and deltas.

    If this fails: different events are added up wrongly. Usual causes: only the largest of two kinds counts,
    or the last delta; a count that overflows or is capped; equal events inside a Sequence counted once; a
    delta below the precision that the sum was assumed to have.
    """
    compared = 0
    for neighboring in Neighboring:
        accountant: Accountant = make(neighboring=neighboring)
        rng = np.random.default_rng(trial.seed)
        given = (mixture for _ in range(trial.effort) for mixture in mixtures(neighboring, rng))
        for number, mixture in enumerate(given):
            usable = tuple((event, count) for event, count in mixture if accountant.supports(event))
            if len(usable) < min(2, len(mixture)):
                continue
            try:
                exact = product_of(usable).delta
            except NoLaw:
                continue
            total = accountant
            for event, count in usable:
                total = total.compose(event, count)
            totals = [(total, usable)]
            together = Sequence([e if count == 1 else Repeated(e, count) for e, count in usable])
            if number % 5 == 0 and accountant.supports(together):
                totals.append((accountant.compose(together), ((together, 1),)))
            for total, composed in totals:
                compared += _require_above(total, exact, composed, (0.5,), (1e-14, 1e-6, 1e-2), slack=1e-6)
    if not compared:
        raise NotApplicable("the accountant supports no event for which the kit knows a law")
    return Evidence(f"{compared} points", compared)


def _require_above(
    total: Accountant,
    exact: Exact,
    composed: Inner,
    epsilons: Collection[float],
    deltas: Collection[float],
    *,
    slack: float,
) -> int:
    """Compare a total with what mechanisms reach, at some epsilons and deltas; return at how many."""
    events = " and ".join(f"{count} x {event}" for event, count in composed)
    claims = {delta: total.epsilon(delta) for delta in deltas}
    known = [claimed for claimed in claims.values() if math.isfinite(claimed)]
    for epsilon in {*epsilons, *known[-1:]}:
        (truth, error), claimed = exact(epsilon), total.delta(epsilon)
        require(
            claimed >= (truth - error) * (1 - slack) - 1e-15,
            f"{events}: delta({epsilon:g}) = {claimed:.6g}, but a mechanism of these has {truth:.6g}",
        )
    for delta, claimed in claims.items():
        truth, error = exact(claimed) if math.isfinite(claimed) else (0.0, 0.0)
        require(
            truth - error <= delta * (1 + 1e-6) + 1e-15,
            f"{events}: epsilon({delta:g}) = {claimed:.6g}, but a mechanism of these has delta "
            f"{truth:.6g} there",
        )
    return len(claims) + len(epsilons) + len(known[-1:])


def mixtures(neighboring: Neighboring, rng: np.random.Generator) -> Iterator[list[tuple[Event, int]]]:
    """Yield events, each with how often, that are accounted for together: every kind with every other."""
    gaussian, laplace = Gaussian(3.0, neighboring), Laplace(4.0, neighboring)
    slopes = (1.5, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
    kinds: list[Event] = [
        gaussian,
        laplace,
        ExponentialMechanism(0.4, neighboring),
        PermuteAndFlip(0.3, neighboring),
        PureDP(0.3, neighboring),
        ApproxDP(0.3, 1e-5, neighboring),
        NonSphericalGaussian((6.0, 5.0, 4.0), neighboring),
        Renyi(slopes, tuple(order / 20 for order in slopes), neighboring),
        Disjoint(Laplace(3.0, neighboring), 4),
        StableHistogram(4.0, 3e-5, neighboring),
    ]
    if neighboring is ADD_REMOVE:
        kinds += [
            PoissonSampled(0.3, Gaussian(1.0, neighboring)),
            PoissonSampled(0.5, PureDP(0.8, neighboring)),
            PoissonSampled(0.5, ApproxDP(0.8, 2e-5, neighboring)),
            PoissonSampled(0.5, Laplace(1.2, neighboring)),
            Filtered(gaussian, 3, 2),
            Apart((gaussian, Repeated(laplace, 2))),
        ]
    for one, other in itertools.combinations(kinds, 2):
        yield [(one, 1), (other, 1 + int(rng.integers(2)))]
    for _ in range(3):
        yield [(kinds[i], 1) for i in rng.permutation(len(kinds))[:5]]
    yield [(laplace, 2), (Laplace(2.0, neighboring), 1), (Laplace(20.0, neighboring), 3)]
    yield [(gaussian, 3), (Gaussian(1.0, neighboring), 1), (Gaussian(0.3, neighboring), 1)]
    deltas = (1e-5, 2e-4, 1e-9)
    yield [(ApproxDP(0.2, delta, neighboring), 1) for delta in deltas]
    yield [(Sequence([ApproxDP(0.1, delta, neighboring) for delta in deltas]), 2)]
    yield [(Sequence((laplace, gaussian, laplace, PureDP(0.2, neighboring), laplace)), 1)]
    yield [(Sequence((gaussian, gaussian)), 1), (Repeated(Repeated(gaussian, 3), 2), 2)]
    for many in (300, 70_000, 1_000_000):
        yield [(Gaussian(math.sqrt(many), neighboring), many), (PureDP(0.2, neighboring), 1)]
    yield [(PureDP(0.06, neighboring), 300)]
    yield [(ApproxDP(0.003, 1e-6, neighboring), 300), (laplace, 1)]
    # So little each that a sum of epsilons is as good as any bound.
    yield [(Repeated(Repeated(PureDP(1e-6, neighboring), 1000), 1000), 1)]
    yield [(PureDP(1e-9, neighboring), 3), (Laplace(1e9, neighboring), 1)]
    yield [(PureDP(40.0, neighboring), 1), (laplace, 1)]
    yield [(Gaussian(0.05, neighboring), 1), (PureDP(1.0, neighboring), 1)]
    yield [(ApproxDP(0.1, 1e-13, neighboring), 1), (gaussian, 1)]
    # One that costs far more than each of many others: their mean says little of it.
    for make in (PureDP, ExponentialMechanism, PermuteAndFlip):
        yield [(make(4.0, neighboring), 1), (make(1e-3, neighboring), 300)]
    yield [(PureDP(12.0, neighboring), 2)]
    if neighboring is ADD_REMOVE:
        # One sample for several mechanisms: a record is in all of them or in none.
        for inner in (PureDP(1.5, neighboring), Laplace(0.8, neighboring), gaussian):
            yield [(PoissonSampled(0.3, Sequence((inner, inner, inner))), 1)]
            yield [(PoissonSampled(0.1, Repeated(inner, 6)), 1)]
        for rate in (1e-3, 0.02, 0.999):
            yield [(PoissonSampled(rate, Gaussian(0.6, neighboring)), 2)]
            yield [(PoissonSampled(rate, PureDP(2.0, neighboring)), 30)]


@functools.lru_cache(maxsize=64)  # for every count and relation again
def _rarest(p: float, orders: tuple[float, ...], divergences: tuple[float, ...]) -> float:
    """Return the least chance q of what has chance ``p``, such that a curve holds in both directions.

    A curve that is known at a few orders says little of rare outcomes, and no more than it says is used.
    """

    def beyond(q: float) -> bool:
        return any(
            np.logaddexp.reduce(
                [a * math.log(x) + (1 - a) * math.log(y) for x, y in ((one, two), (1 - one, 1 - two))]
            )
            > (a - 1) * divergence
            for a, divergence in zip(orders, divergences, strict=True)
            for one, two in ((p, q), (q, p))
        )

    low, high = 1e-300, p
    for _ in range(60):
        middle = math.sqrt(low * high) if high / low > 2 else (low + high) / 2
        low, high = (middle, high) if beyond(middle) else (low, middle)
    return high


def _exact_laws(neighboring: Neighboring) -> Iterator[tuple[Event, int, Exact]]:
    """Yield events, counts and the exact delta(epsilon) of one mechanism that each describes."""
    events: list[Event] = []
    for multiplier in (0.02, 1.0, 2.0, 10.0):
        gaussian = Gaussian(multiplier, neighboring)
        events += [gaussian, Disjoint(gaussian, 5)]
        events.append(NonSphericalGaussian((multiplier * math.sqrt(2),) * 2, neighboring))
        events.append(Renyi(_ORDERS, tuple(order / (2 * multiplier**2) for order in _ORDERS), neighboring))
        events.append(StableHistogram(multiplier, 1e-3, neighboring))
        if neighboring is ADD_REMOVE:
            # Records that contribute all they may in as many rounds as are paid for.
            events += [Filtered(gaussian, 2 * charged, charged) for charged in (1, 4, 30)]
    # Of different multipliers, which nobody may take for their mean.
    for many, ratio in ((9, 2.0), (70, 1.1)):
        different = tuple(Gaussian(0.5 * ratio**i, neighboring) for i in range(many))
        joint = Gaussian(1 / math.hypot(*(1 / noise.noise_multiplier for noise in different)), neighboring)
        yield Sequence(different), 1, law_of(joint).delta
    for loss in (0.1, 1.0, 2.0, 3.0):
        events += [PureDP(loss, neighboring), PermuteAndFlip(loss, neighboring)]
        events.append(ApproxDP(loss, 1e-3, neighboring))
        yield Laplace(1 / loss, neighboring), 1, partial(_laplace_delta, loss=loss)
    for event, count in itertools.product(events, (1, 4, 30)):
        yield event, count, law_of(event).times(count).delta
    if neighboring is ADD_REMOVE:
        yield from ((Apart(sides), 1, law_of(dear).delta) for sides, dear in _sides())
    for count in (1, 4, 30):
        for orders, p in itertools.product(((2.0,), (8.0,), (2.0, 32.0)), (1e-2, 1e-4)):
            curve = tuple(order / 100 for order in orders)
            rarest = coin(p, _rarest(p, orders, curve))
            yield Renyi(orders, curve, neighboring), count, rarest.times(count).delta
        # Losses in a bounded range: the odds of heads change by exp(loss).
        for loss, odds in itertools.product((0.1, 1.0, 2.0), (0.1, 1.0, 10.0)):
            changed = coin(odds / (1 + odds), 1 / (1 + math.exp(loss) / odds))
            yield ExponentialMechanism(loss, neighboring), count, changed.times(count).delta
    if neighboring is ADD_REMOVE:
        for rate, multiplier in ((0.1, 1.0), (0.5, 2.0), (0.01, 0.7)):
            event = PoissonSampled(rate, Gaussian(multiplier, neighboring))
            yield event, 1, partial(_sampled_gaussian_delta, rate=rate, multiplier=multiplier)


def _sides() -> Iterator[tuple[tuple[Event, ...], Event]]:
    """Yield two sides in either order, and the costlier one, which a record may be on."""
    for make, other in itertools.product(_SIDES, repeat=2):
        for order in itertools.permutations((make(1.0), other(0.05))):
            yield order, make(1.0)


# What a side may release, by how much it costs.
_SIDES: tuple[Callable[[float], Event], ...] = (
    lambda loss: Gaussian(1 / loss),
    lambda loss: Laplace(1 / loss),
    PureDP,
    lambda loss: ApproxDP(loss, loss * 1e-3),
)

_ORDERS = tuple(1 + x / 10 for x in range(1, 100)) + tuple(float(x) for x in range(11, 257))


def _laplace_delta(epsilon: float, loss: float) -> tuple[float, float]:
    """Return the exact delta of Laplace noise of scale 1 / ``loss``: 1 - exp((epsilon - loss) / 2) or 0."""
    return -math.expm1(min(0.0, epsilon - loss) / 2), 0.0


def _sampled_gaussian_delta(epsilon: float, rate: float, multiplier: float) -> tuple[float, float]:
    """Return the exact delta of one Poisson-sampled Gaussian when a record is removed.

    P = (1 - rate) N(0, m^2) + rate N(1, m^2) against Q = N(0, m^2): the ratio grows in x, and exceeds
    exp(epsilon) right of x = m^2 log((exp(epsilon) - 1 + rate) / rate) + 1/2.
    """
    x = multiplier**2 * math.log((math.expm1(epsilon) + rate) / rate) + 0.5
    above, shifted = (float(scipy.special.ndtr(-(x - mean) / multiplier)) for mean in (0.0, 1.0))
    return max(0.0, (1 - rate) * above + rate * shifted - math.exp(epsilon) * above), 0.0


def _supported(make: Factory[Accountant]) -> Iterator[tuple[Accountant, Event]]:
    for neighboring in Neighboring:
        accountant: Accountant = make(neighboring=neighboring)
        for event in events(neighboring):
            if accountant.supports(event):
                yield accountant, event
