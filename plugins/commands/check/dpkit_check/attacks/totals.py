"""Attacks on accountants: totals must only grow, not depend on the order, and never be too small."""

from __future__ import annotations

import copy
import functools
import itertools
import math
import pickle
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import scipy

from dpkit_check.products import NoLaw, Product, product_of
from dpkit_check.reference import gaussian_delta
from dpkit_check.trial import CheckFailed, Evidence, Factory, NotApplicable, Trial, attack, require
from dpkit_core.errors import UnsupportedEvent
from dpkit_core.privacy.budget import Neighboring
from dpkit_core.privacy.events import (
    ApproxDP,
    Disjoint,
    Event,
    ExponentialMechanism,
    Filtered,
    Gaussian,
    Laplace,
    NonPrivate,
    NonSphericalGaussian,
    PermuteAndFlip,
    PoissonSampled,
    PureDP,
    Renyi,
    Repeated,
    Sequence,
)
from dpkit_core.protocols import Accountant
from dpkit_core.text import number_of

Exact = Callable[[float], float]
"""delta(epsilon) of a mechanism, by a closed form."""

DELTAS = (1e-9, 1e-6, 1e-3, 0.1)
EPSILONS = (0.01, 0.1, 0.5, 1.0, 2.0, 5.0)

# Sums in another order may differ in the last digits.
TOLERANCE = 1e-9


def events(neighboring: Neighboring) -> tuple[Event, ...]:
    """Return one event of each type, and some nested ones."""
    gaussian, laplace = Gaussian(3.0, neighboring), Laplace(8.0, neighboring)
    curve = (1.5, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
    return (
        laplace,
        gaussian,
        NonSphericalGaussian((4.0, 6.0), neighboring),
        ExponentialMechanism(0.1, neighboring),
        PermuteAndFlip(0.1, neighboring),
        PureDP(0.2, neighboring),
        ApproxDP(0.1, 1e-8, neighboring),
        Renyi(curve, tuple(order / 50 for order in curve), neighboring),
        PoissonSampled(0.1, gaussian),
        PoissonSampled(0.1, laplace),
        Repeated(laplace, 3),
        Sequence((laplace, gaussian)),
        Repeated(Sequence((laplace, PureDP(0.05, neighboring))), 2),
        Disjoint(laplace, 3),
        *_filtered(neighboring, gaussian),
    )


def _filtered(neighboring: Neighboring, noise: Gaussian) -> tuple[Event, ...]:
    if neighboring is Neighboring.REPLACE_ONE:
        return ()
    return Filtered(noise, 6, 4), Filtered(PoissonSampled(0.1, noise), 6, 4)


@attack("composition", kinds=("accountant",))
def check_supports_tells_the_truth(make: Factory[Accountant], trial: Trial) -> Evidence:
    """``compose`` takes an event exactly where ``supports`` says so, and refuses by ``UnsupportedEvent``.

    If this fails: decide in one place. An event that is not known must be refused, never guessed; one inside
    ``Repeated``, ``Sequence`` or ``PoissonSampled`` counts as much as one outside.
    """
    supported = 0
    for neighboring in Neighboring:
        for event in (*events(neighboring), NonPrivate("the kit says so", neighboring)):
            claimed = make(neighboring=neighboring).supports(event)
            try:
                total = make(neighboring=neighboring).compose(event)
            except UnsupportedEvent:
                require(not claimed, f"supports says yes to {event}, compose refuses it")
                continue
            require(claimed, f"supports says no to {event}, compose takes it")
            supported += 1
            if isinstance(event, NonPrivate):
                require(math.isinf(total.epsilon(0.1)), "a release without privacy has a finite epsilon")
    require(supported, "no event is supported")
    return Evidence(number_of(supported, "event"), supported)


@attack("composition", kinds=("accountant",))
def check_other_relations_are_refused(make: Factory[Accountant], trial: Trial) -> Evidence:
    """An event of the other neighboring relation is refused, inside other events, too.

    If this fails: compare ``event.neighboring`` with the accountant's before anything else.
    """
    for neighboring, other in itertools.permutations(Neighboring, 2):
        accountant: Accountant = make(neighboring=neighboring)
        require(accountant.neighboring is neighboring, f"neighboring is {accountant.neighboring}")
        for event in events(other):
            require(not accountant.supports(event), f"{neighboring.value}: supports {event}")
            try:
                accountant.compose(event)
            except UnsupportedEvent:
                continue
            raise CheckFailed(f"{neighboring.value}: composes {event}")
    return Evidence("both directions", 2 * len(events(Neighboring.REPLACE_ONE)))


@attack("numerical", kinds=("accountant",))
def check_totals_are_monotone(make: Factory[Accountant], trial: Trial) -> Evidence:
    """Nothing costs nothing; every event costs at least 0; epsilon falls in delta and delta in epsilon.

    If this fails: a filter built on this accountant can be overspent. Look for a numeric search that stops at
    the wrong side, or a cap that hides a loss.
    """
    compared = 0
    for accountant, event in _supported(make):
        require(accountant.epsilon(1e-6) == 0, f"a fresh accountant has epsilon {accountant.epsilon(1e-6)}")
        once = accountant.compose(event)
        twice = once.compose(event)
        for total in (once, twice):
            epsilons = [total.epsilon(delta) for delta in (0.0, *DELTAS)]
            deltas = [total.delta(epsilon) for epsilon in EPSILONS]
            require(all(e >= 0 for e in epsilons), f"{event}: epsilons {epsilons}")
            require(all(0 <= d <= 1 for d in deltas), f"{event}: deltas {deltas}")
            require(_falls(epsilons), f"{event}: epsilon grows with delta: {epsilons}")
            require(_falls(deltas), f"{event}: delta grows with epsilon: {deltas}")
            compared += 1
        for delta in DELTAS:
            require(
                _at_least(twice.epsilon(delta), once.epsilon(delta)),
                f"{event}: epsilon fell from {once.epsilon(delta)} to {twice.epsilon(delta)} by another",
            )
        for epsilon in EPSILONS:
            require(
                _at_least(twice.delta(epsilon), once.delta(epsilon)), f"{event}: a second one lowers delta"
            )
    return Evidence(f"{compared} totals", compared)


@attack("composition", kinds=("accountant",))
def check_order_is_irrelevant(make: Factory[Accountant], trial: Trial) -> Evidence:
    """The total does not depend on the order in which events were composed.

    If this fails: the state must be a sum over events, not a function of the last one.
    """
    rng = np.random.default_rng(trial.seed)
    for neighboring in Neighboring:
        accountant: Accountant = make(neighboring=neighboring)
        usable = [event for event in events(neighboring) if accountant.supports(event)]
        totals = []
        for _ in range(4 * trial.effort):
            total = accountant
            for i in rng.permutation(len(usable)):
                total = total.compose(usable[i])
            totals.append([total.epsilon(delta) for delta in DELTAS])
        require(np.allclose(totals, totals[0], rtol=TOLERANCE), f"totals in several orders: {totals}")
    return Evidence(f"{8 * trial.effort} orders", 8 * trial.effort)


@attack("composition", kinds=("accountant",))
def check_repetition_is_a_loop(make: Factory[Accountant], trial: Trial) -> Evidence:
    """``Repeated(event, 5)``, ``compose(event, 5)``, ``Sequence`` of five, and a loop give one total.

    If this fails: multiply the cost by both the count of the argument and the count inside the event.
    """
    compared = 0
    for accountant, event in _supported(make):
        loop = accountant
        for _ in range(5):
            loop = loop.compose(event)
        nested: tuple[Event, ...] = (Repeated(event, 5), Sequence((event,) * 5))
        others = [other for other in nested if accountant.supports(other)]
        totals = [loop, accountant.compose(event, 5), *(accountant.compose(other) for other in others)]
        epsilons = [[total.epsilon(delta) for delta in DELTAS] for total in totals]
        compared += 1
        require(np.allclose(epsilons, epsilons[0], rtol=TOLERANCE), f"five times {event}: {epsilons}")
    return Evidence(number_of(compared, "event"), compared)


@attack("composition", kinds=("accountant",))
def check_dry_runs_change_nothing(make: Factory[Accountant], trial: Trial) -> Evidence:
    """Composing, asking and failing leave an accountant as it was; copies and pickles agree with it.

    If this fails: ``compose`` must return a new accountant (``attrs.evolve``) and never change its own state.
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
            require(before == after, f"{event}: epsilons {before} became {after} by a dry run or a copy")
            require(twin == spent, f"{event}: an accountant is not equal to its copy")
        compared += 1
    return Evidence(number_of(compared, "event"), compared)


@attack("numerical", kinds=("accountant",))
def check_epsilon_and_delta_agree(make: Factory[Accountant], trial: Trial) -> Evidence:
    """Where delta(epsilon(delta)) is above delta, it is so by more than a search that ends at the wrong side.

    Both are upper bounds, and one may be looser than the other; a claim that is just short of its own
    delta is no looser bound, but a bisection that returned the end that misses the target.

    If this fails: round both towards privacy; the search for epsilon must return its safe end.
    """
    compared = short = 0
    worst = ""
    for accountant, event in _supported(make):
        for count in (1, 10):
            total = accountant.compose(event, count)
            for delta in DELTAS:
                epsilon = total.epsilon(delta)
                if math.isinf(epsilon):
                    continue
                compared += 1
                found = total.delta(epsilon)
                if delta * (1 + 1e-6) < found < delta * 1.01 and total.delta(epsilon * 1.001) <= delta:
                    short += 1
                    worst = (
                        f"{count} times {event}: epsilon({delta:g}) = {epsilon:.9g}; its delta is {found:.9g}"
                    )
    require(not short, worst)
    return Evidence(f"{compared} points", compared)


@attack("privacy", kinds=("accountant",))
def check_never_below_the_exact_law(make: Factory[Accountant], trial: Trial) -> Evidence:
    """No total is below what some mechanism that the event describes loses exactly.

    The mechanisms: Gaussian and Laplace noise, randomized response, two-outcome exponential mechanism and
    permute-and-flip, the Poisson-sampled Gaussian; one and several times, all by closed forms.

    If this fails: the bound is false. Usual causes: Renyi divergence used where its moment (order - 1 times
    it) belongs, a factor lost in conversion, a search that returns its unsafe end.
    """
    compared = 0
    for neighboring in Neighboring:
        accountant: Accountant = make(neighboring=neighboring)
        for event, count, exact in _exact_laws(neighboring):
            if not accountant.supports(event):
                continue
            total = accountant.compose(event, count)
            for epsilon in EPSILONS:
                truth = exact(epsilon)
                compared += 1
                require(
                    total.delta(epsilon) >= truth * (1 - 1e-9) - 1e-15,
                    f"{count} x {event}: delta({epsilon:g}) = {total.delta(epsilon):.4g} below {truth:.6g}",
                )
            for delta in DELTAS:
                claimed = total.epsilon(delta)
                if math.isinf(claimed):
                    continue
                compared += 1
                require(
                    exact(claimed) <= delta * (1 + 1e-6) + 1e-15,
                    f"{count} times {event}: epsilon({delta:g}) = {claimed:.6g}, where delta is exactly "
                    f"{exact(claimed):.6g}",
                )
    if not compared:
        raise NotApplicable("the accountant supports no event whose exact law the kit knows")
    return Evidence(f"{compared} points", compared)


@attack("privacy", kinds=("accountant",))
def check_mixtures_are_never_below(make: Factory[Accountant], trial: Trial) -> Evidence:
    """No total of different events is below what mechanisms that they describe lose together.

    Every kind beside every other, several of one kind, inside ``Sequence`` and ``Repeated`` and one by one,
    counts up to a million, epsilons and deltas tiny and huge.

    If this fails: events that do not come alone are added up wrongly. Usual causes: only the larger of two
    kinds counts, or the last delta; a count that overflows or is capped; equal events inside a Sequence that
    are counted once; a delta that is not below what floating point was thought to allow.
    """
    compared = 0
    for neighboring in Neighboring:
        accountant: Accountant = make(neighboring=neighboring)
        rng = np.random.default_rng(trial.seed)
        given = (mixture for _ in range(trial.effort) for mixture in mixtures(neighboring, rng))
        for number, mixture in enumerate(given):
            usable = [(event, count) for event, count in mixture if accountant.supports(event)]
            if len(usable) < len(mixture) and len(usable) < 2:
                continue
            try:
                product = product_of(usable)
            except NoLaw:
                continue
            total = accountant
            for event, count in usable:
                total = total.compose(event, count)
            compared += _require_above(total, product, usable)
            together = Sequence([e if count == 1 else Repeated(e, count) for e, count in usable])
            if number % 5 == 0 and accountant.supports(together):
                compared += _require_above(accountant.compose(together), product, [(together, 1)])
    if not compared:
        raise NotApplicable("the accountant supports nothing of which the kit knows a law")
    return Evidence(f"{compared} points", compared)


def _require_above(total: Accountant, product: Product, events: list[tuple[Event, int]]) -> int:
    """Check a total against a lower bound on the truth at some epsilons and deltas; return at how many."""
    told = " and ".join(f"{count} x {event}" for event, count in events)
    claims = {delta: total.epsilon(delta) for delta in (1e-14, 1e-6, 1e-2)}
    known = [claimed for claimed in claims.values() if math.isfinite(claimed)]
    for epsilon in {0.5, *known[-1:]}:
        (truth, error), claimed = product.delta(epsilon), total.delta(epsilon)
        require(
            claimed >= (truth - error) * (1 - 1e-6),
            f"{told}: delta({epsilon:g}) = {claimed:.6g}, where mechanisms of these events have {truth:.6g}",
        )
    for delta, claimed in claims.items():
        if math.isfinite(claimed):
            truth, error = product.delta(claimed)
            require(
                truth - error <= delta * (1 + 1e-6),
                f"{told}: epsilon({delta:g}) = {claimed:.6g}, where mechanisms of these events have delta "
                f"{truth:.6g}",
            )
    return len(claims) + 2


def mixtures(neighboring: Neighboring, rng: np.random.Generator) -> Iterator[list[tuple[Event, int]]]:
    """Yield events, each with how often, that are accounted for together: every kind beside every other."""
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
    ]
    if neighboring is Neighboring.ADD_OR_REMOVE_ONE:
        kinds += [
            PoissonSampled(0.3, Gaussian(1.0, neighboring)),
            PoissonSampled(0.5, PureDP(0.8, neighboring)),
            PoissonSampled(0.5, ApproxDP(0.8, 2e-5, neighboring)),
            PoissonSampled(0.5, Laplace(1.2, neighboring)),
            Filtered(gaussian, 3, 2),
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
    yield [(PureDP(12.0, neighboring), 2)]
    if neighboring is Neighboring.ADD_OR_REMOVE_ONE:
        # One sample for several mechanisms: a record is in all of them or in none.
        for inner in (PureDP(1.5, neighboring), Laplace(0.8, neighboring), gaussian):
            yield [(PoissonSampled(0.3, Sequence((inner, inner, inner))), 1)]
            yield [(PoissonSampled(0.1, Repeated(inner, 6)), 1)]
        for rate in (1e-3, 0.02, 0.999):
            yield [(PoissonSampled(rate, Gaussian(0.6, neighboring)), 2)]
            yield [(PoissonSampled(rate, PureDP(2.0, neighboring)), 30)]


def two_outcomes(p: float, q: float, count: int) -> Exact:
    """Return the exact delta(epsilon) of ``count`` coins that show heads with probability ``p`` or ``q``."""
    heads = np.arange(count + 1)
    ways = (
        scipy.special.gammaln(count + 1)
        - scipy.special.gammaln(heads + 1)
        - scipy.special.gammaln(count - heads + 1)
    )
    logs = [ways + scipy.special.xlogy(heads, x) + scipy.special.xlog1py(count - heads, -x) for x in (p, q)]

    def delta(epsilon: float) -> float:
        gaps = (np.exp(a) - np.exp(epsilon + b) for a, b in itertools.permutations(logs))
        return max(float(np.maximum(gap, 0).sum()) for gap in gaps)

    return delta


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
    for count in (1, 4, 30):
        for multiplier in (1.0, 2.0, 10.0):
            mu = math.sqrt(count) / multiplier
            gaussian = Gaussian(multiplier, neighboring)
            yield gaussian, count, partial(gaussian_delta, mu=mu)
            yield Disjoint(gaussian, 5), count, partial(gaussian_delta, mu=mu)
            if neighboring is Neighboring.ADD_OR_REMOVE_ONE:
                # A record that contributes all it may in as many rounds as are paid for.
                yield Filtered(gaussian, 2 * count, count), 1, partial(gaussian_delta, mu=mu)
            apart = NonSphericalGaussian((multiplier * math.sqrt(2),) * 2, neighboring)
            yield apart, count, partial(gaussian_delta, mu=mu)
            curve = tuple(order / (2 * multiplier**2) for order in _ORDERS)
            yield (
                Renyi(_ORDERS, curve, neighboring),
                count,
                partial(gaussian_delta, mu=mu),
            )
        for orders in ((2.0,), (8.0,), (2.0, 32.0)):
            curve = tuple(order / 100 for order in orders)
            for p in (1e-2, 1e-4):
                coins = two_outcomes(p, _rarest(p, orders, curve), count)
                yield Renyi(orders, curve, neighboring), count, coins
        for loss in (0.1, 1.0, 2.0):
            yield (
                PureDP(loss, neighboring),
                count,
                two_outcomes(scipy.special.expit(loss), scipy.special.expit(-loss), count),
            )
            low = math.exp(-loss) / 2
            yield PermuteAndFlip(loss, neighboring), count, two_outcomes(low, 0.5, count)
            # A bounded range of losses: the odds of heads change by exp(loss).
            for odds in (0.1, 1.0, 10.0):
                coins = two_outcomes(odds / (1 + odds), 1 / (1 + math.exp(loss) / odds), count)
                yield ExponentialMechanism(loss, neighboring), count, coins
    for loss in (0.1, 1.0, 3.0):
        yield (
            Laplace(1 / loss, neighboring),
            1,
            partial(_laplace_delta, loss=loss),
        )
        coin = two_outcomes(scipy.special.expit(loss), scipy.special.expit(-loss), 1)
        yield (
            ApproxDP(loss, 1e-3, neighboring),
            1,
            partial(_or_failure, coin=coin, failure=1e-3),
        )
    if neighboring is Neighboring.ADD_OR_REMOVE_ONE:
        for rate, multiplier in ((0.1, 1.0), (0.5, 2.0), (0.01, 0.7)):
            event = PoissonSampled(rate, Gaussian(multiplier, neighboring))
            yield event, 1, partial(_sampled_gaussian_delta, rate=rate, multiplier=multiplier)


_ORDERS = tuple(1 + x / 10 for x in range(1, 100)) + tuple(float(x) for x in range(11, 257))


def _laplace_delta(epsilon: float, loss: float) -> float:
    """Return the exact delta of Laplace noise of scale 1 / ``loss``: 1 - exp((epsilon - loss) / 2) or 0."""
    return -math.expm1(min(0.0, epsilon - loss) / 2)


def _or_failure(epsilon: float, coin: Exact, failure: float) -> float:
    """Return the exact delta of a mechanism that betrays everything with probability ``failure``."""
    return failure + (1 - failure) * coin(epsilon)


def _sampled_gaussian_delta(epsilon: float, rate: float, multiplier: float) -> float:
    """Return the exact delta of one Poisson-sampled Gaussian when a record is removed.

    P = (1 - rate) N(0, m^2) + rate N(1, m^2) against Q = N(0, m^2): the ratio grows in x, and exceeds
    exp(epsilon) right of x = m^2 log((exp(epsilon) - 1 + rate) / rate) + 1/2.
    """
    x = multiplier**2 * math.log((math.expm1(epsilon) + rate) / rate) + 0.5
    above, shifted = (float(scipy.special.ndtr(-(x - mean) / multiplier)) for mean in (0.0, 1.0))
    return max(0.0, (1 - rate) * above + rate * shifted - math.exp(epsilon) * above)


def _supported(make: Factory[Accountant]) -> Iterator[tuple[Accountant, Event]]:
    for neighboring in Neighboring:
        accountant: Accountant = make(neighboring=neighboring)
        for event in events(neighboring):
            if accountant.supports(event):
                yield accountant, event


def _falls(values: list[float]) -> bool:
    return all(_at_least(a, b) for a, b in itertools.pairwise(values))


def _at_least(a: float, b: float) -> bool:
    return a >= b * (1 - TOLERANCE) - 1e-15
