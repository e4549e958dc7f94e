"""Filters: exact sums, limits by closed forms, and trees of adaptive choices that stay within the budget."""

import functools
import math
from fractions import Fraction
from pathlib import Path

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpkit_core import Budget, Neighboring, calibrate
from dpkit_core.errors import InvalidBudget, InvalidRelease
from dpkit_core.privacy import profiles
from dpkit_core.privacy.divergence_filters import GaussianFilter, RenyiFilter
from dpkit_core.privacy.events import (
    ApproxDP,
    ExponentialMechanism,
    Gaussian,
    Laplace,
    PoissonSampled,
    PureDP,
    Renyi,
    Repeated,
)
from dpkit_core.privacy.filters import (
    FILTERS,
    Basic,
    Claim,
    add,
    filter_for,
    filter_from_document,
    filter_to_document,
    ticks,
)
from dpkit_core.privacy.renyi import RenyiCurve, curve_of

RELATION = Neighboring.ADD_OR_REMOVE_ONE
BUDGETS = [Budget(1.0, 1e-6), Budget(math.log(3), 1e-5), Budget(0.1, 1e-8), Budget(8.0, 1e-5)]


def run(*events, epsilon=1.0, delta=0.0):
    return Claim(epsilon, delta, events, RELATION)


def admitted(keeper, budget, claim):
    """Return how many equal runs a filter admits."""
    limits, cost = keeper.limits(budget), keeper.cost(claim)
    count, total = 0, cost
    while keeper.admits(total, limits):
        count, total = count + 1, add(total, cost)
    return count


@given(st.floats(1e-12, 1e6), st.integers(0, 18))
def test_ticks_are_never_below_the_decimal_number_and_less_than_one_above(number, places):
    exact = Fraction(repr(number)) * 10**places
    assert exact <= ticks(number, places) < exact + 1


@given(st.lists(st.floats(1e-9, 10.0), min_size=1, max_size=20))
def test_basic_sums_do_not_depend_on_the_order(epsilons):
    costs = [Basic().cost(run(epsilon=epsilon)) for epsilon in epsilons]
    assert functools.reduce(add, costs) == functools.reduce(add, reversed(costs))


@pytest.mark.parametrize("budget", BUDGETS)
def test_a_run_of_the_whole_budget_fits_once(budget):
    for name in FILTERS:
        keeper = filter_for(name, budget)
        whole = Claim(budget.epsilon, 0.0, (PureDP(budget.epsilon),), RELATION)
        assert admitted(keeper, budget, whole) == 1, name
    assert admitted(Basic(), budget, Claim(budget.epsilon, budget.delta, (), RELATION)) == 1


def test_what_a_person_adds_up_is_what_is_counted():
    assert admitted(Basic(), Budget(1.0, 1e-6), run(epsilon=0.1, delta=1e-7)) == 10
    assert admitted(Basic(), Budget(1.0, 1e-6), run(epsilon=0.1, delta=3e-7)) == 3
    assert admitted(Basic(), Budget(0.3), run(epsilon=0.1)) == 3


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("orders", [None, (2.0, 8.0, 32.0)])
@pytest.mark.parametrize(
    "event",
    [
        Gaussian(20.0),
        Repeated(ExponentialMechanism(0.02), 5),
        Laplace(30.0),
        PureDP(0.5),
        PoissonSampled(0.02, Gaussian(2.0)),
    ],
)
def test_what_a_renyi_filter_admits_is_within_its_budget_if_it_is_composed_at_once(budget, orders, event):
    keeper = filter_for("renyi", budget) if orders is None else RenyiFilter(orders)
    count = admitted(keeper, budget, run(event))
    if count:
        total = RenyiCurve.nothing(keeper.orders).then(curve_of(event, keeper.orders), count)
        # A part of delta is kept for leaks, and divided among orders.
        part = budget.delta * (1 - keeper.leak) / len(keeper.orders)
        assert min(total.epsilon(part), total.pure) <= budget.epsilon * (1 + 1e-12)
    # Twice the budget would not be kept: the limit is not idle.
    half = Budget(budget.epsilon / 2, budget.delta)
    over = RenyiCurve.nothing(keeper.orders).then(curve_of(event, keeper.orders), count + 1)
    part = half.delta * (1 - keeper.leak) / len(keeper.orders)
    assert min(over.epsilon(part), over.pure) > half.epsilon


@pytest.mark.parametrize("budget", BUDGETS)
def test_a_renyi_filter_is_never_worse_than_basic_for_pure_runs(budget):
    for parts in (2, 3, 10, 100):
        claim = run(PureDP(budget.epsilon / parts), epsilon=budget.epsilon / parts)
        assert admitted(filter_for("renyi", budget), budget, claim) >= admitted(Basic(), budget, claim)


def test_the_order_that_is_chosen_admits_the_most_small_gaussians():
    budget = Budget(1.0, 1e-6)
    best = admitted(filter_for("renyi", budget), budget, run(Gaussian(60.0)))
    for order in (2.0, 5.0, 10.0, 20.0, 26.0, 40.0, 100.0):
        assert admitted(RenyiFilter((order,)), budget, run(Gaussian(60.0))) <= best


def test_leaks_have_a_limit_of_their_own():
    budget = Budget(10.0, 1e-6)
    keeper = RenyiFilter((4.0,), leak=0.25)
    assert admitted(keeper, budget, run(ApproxDP(1e-6, 1e-7))) == 2
    assert "leaked delta 2e-07 of 2.5e-07" in keeper.in_words(
        add(*[keeper.cost(run(ApproxDP(1e-6, 1e-7)))] * 2), keeper.limits(budget)
    )


@pytest.mark.parametrize(
    "event",
    [
        PoissonSampled(0.1, Renyi((2.0,), (0.1,))),
        PoissonSampled(0.1, Gaussian(1.0, Neighboring.REPLACE_ONE)),
        Gaussian(1.0, Neighboring.REPLACE_ONE),
    ],
)
def test_what_has_no_curve_enters_by_epsilon_and_delta(event):
    keeper = RenyiFilter((4.0,))
    by_total = keeper.cost(run(ApproxDP(0.5, 1e-7)))
    assert keeper.cost(run(event, epsilon=0.5, delta=1e-7)) == by_total
    assert keeper.cost(run(event, epsilon=0.5)) == keeper.cost(run(PureDP(0.5)))
    assert by_total[-1] == 10**11


@pytest.mark.parametrize("budget", BUDGETS)
def test_the_limit_of_shifts_is_that_of_the_normal_law(budget):
    """delta(mu) = Phi(mu/2 - eps/mu) - e^eps Phi(-mu/2 - eps/mu), by another library, at the limit."""
    shift = mpmath.sqrt(mpmath.mpf(GaussianFilter().limits(budget)[0]) / 10**12)
    with mpmath.workdps(40):
        a, b = shift / 2 - budget.epsilon / shift, -shift / 2 - budget.epsilon / shift
        delta = mpmath.ncdf(a) - mpmath.exp(budget.epsilon) * mpmath.ncdf(b)
    assert 0.999 * budget.delta / 2 < delta <= budget.delta / 2


def test_shifts_of_single_events_are_those_of_closed_forms():
    def squared(event):
        return GaussianFilter().cost(run(event))[0] / 1e12

    assert squared(Gaussian(10.0)) == pytest.approx(0.01, rel=1e-7)
    assert squared(Repeated(Gaussian(10.0), 7)) == pytest.approx(0.07, rel=1e-7)
    for epsilon in (0.1, 1.0, 3.0):
        probit = mpmath.sqrt(2) * mpmath.erfinv(2 / (1 + mpmath.exp(-epsilon)) - 1)
        assert squared(PureDP(epsilon)) == pytest.approx(float(4 * probit**2), rel=1e-7)
        assert squared(Laplace(1 / epsilon)) == pytest.approx(squared(PureDP(epsilon)), rel=1e-7)
        assert squared(ExponentialMechanism(2 * epsilon)) == pytest.approx(squared(PureDP(epsilon)), rel=1e-7)


@pytest.mark.parametrize("delta", [1e-300, 1e-320, 5e-324])
def test_the_limit_of_shifts_holds_for_deltas_that_have_few_digits(delta):
    shift = mpmath.sqrt(mpmath.mpf(GaussianFilter(leak=2.0**-40).limits(Budget(1.0, delta))[0]) / 10**12)
    with mpmath.workdps(30):
        upper = mpmath.ncdf(shift / 2 - 1 / shift) if shift else 0
        lower = mpmath.e * mpmath.ncdf(-shift / 2 - 1 / shift) if shift else 0
        assert upper - lower <= mpmath.mpf(delta)


@pytest.mark.parametrize("epsilon", [0.05, 0.5, 2.0])
def test_the_shift_of_a_pure_mechanism_covers_randomized_response_and_half_of_it_does_not(epsilon):
    precision = GaussianFilter().cost(run(PureDP(epsilon)))[0] / 1e12
    at = np.linspace(-1.5 * epsilon, 1.5 * epsilon, 401)
    response = profiles.randomized_response(at, epsilon)
    assert (profiles.gaussian(at, precision) >= response - 1e-15).all()
    assert (profiles.gaussian(at, precision / 2) < response - 1e-15).any()


@pytest.mark.parametrize("budget", BUDGETS)
def test_what_a_gdp_filter_admits_is_within_its_budget_and_twice_as_much_is_not(budget):
    multiplier = 8 / budget.epsilon
    count = admitted(GaussianFilter(), budget, run(Gaussian(multiplier)))
    at, precision = np.array([budget.epsilon]), multiplier**-2
    assert profiles.gaussian(at, count * precision)[0] <= budget.delta
    assert profiles.gaussian(at, 2 * (count + 1) * precision)[0] > budget.delta


def test_what_has_no_shift_enters_by_epsilon_and_delta():
    keeper = GaussianFilter()
    for event in (
        PoissonSampled(0.1, Gaussian(1.0)),
        Renyi((2.0,), (0.1,)),
        Gaussian(1.0, Neighboring.REPLACE_ONE),
    ):
        assert keeper.cost(run(event, epsilon=0.5, delta=1e-7)) == keeper.cost(run(ApproxDP(0.5, 1e-7)))
    assert keeper.cost(run(Gaussian(5.0)))[1] is None
    sampled = keeper.cost(run(PoissonSampled(0.5, PureDP(0.5))))
    assert 0 < sampled[1] < keeper.cost(run(PureDP(0.5)))[1]
    spent = add(keeper.cost(run(Gaussian(50.0))), keeper.cost(run(ApproxDP(0.5, 1e-7), delta=1e-7)))
    assert "leaked delta 1e-07 of 5e-07" in keeper.in_words(spent, keeper.limits(Budget(1.0, 1e-6)))
    assert not keeper.admits((None, None, 0), keeper.limits(Budget(1.0, 1e-6)))


def test_divergences_that_are_known_at_low_orders_only_are_infinite_above():
    keeper = RenyiFilter((2.0, 8.0))
    cost = keeper.cost(run(Renyi((4.0,), (0.01,))))
    assert cost[1:] == (None, None, 0)
    limits = keeper.limits(Budget(20.0, 1e-5))
    assert keeper.admits(cost, limits)
    assert keeper.share(cost, limits) == Fraction(cost[0], limits[0])
    assert "order 2 " in keeper.in_words(cost, limits)
    assert not keeper.admits((None, None, None, 0), limits)
    assert keeper.share((None, None, None, 0), limits) is None


@pytest.mark.parametrize("name", FILTERS)
def test_filters_survive_as_documents(name):
    keeper = filter_for(name, Budget(1.0, 1e-6))
    assert filter_from_document(filter_to_document(keeper)) == keeper
    assert len(keeper.units) == len(keeper.limits(Budget(1.0, 1e-6)))
    zero = (0,) * len(keeper.units)
    assert keeper.share(zero, keeper.limits(Budget(1.0, 1e-6))) == 0


def test_unknown_filters_and_budgets_that_they_cannot_keep_are_refused():
    with pytest.raises(InvalidBudget, match=r"no measure 'pld'.* one of basic, renyi, gdp"):
        filter_for("pld", Budget(1.0))
    with pytest.raises(InvalidBudget, match="needs a delta above 0"):
        filter_for("renyi", Budget(1.0))
    for limited in (RenyiFilter((2.0,)).limits, GaussianFilter().limits, GaussianFilter.suited_to):
        with pytest.raises(InvalidBudget, match="needs a delta above 0"):
            limited(Budget(1.0))
    for document in ({}, {"name": "pld"}, {"name": 3}, {"name": "basic", "more": 1}, {"name": "renyi"}):
        with pytest.raises(InvalidRelease):
            filter_from_document(document)
    for orders in ((), (1.0,), (2.0, 2.0), (5000.0,)):
        with pytest.raises(ValueError, match="orders"):
            RenyiFilter(orders)


def docs_rows():
    page = (Path(__file__).parents[2] / "docs/reference/ledger.md").read_text(encoding="utf-8")
    table = page.partition("| each run |")[2].partition("\n\n")[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]


def test_the_table_of_the_docs_is_what_is_admitted():
    multiplier = 1 / calibrate(lambda precision: curve_of(Gaussian(1 / precision)).epsilon(1e-7), 0.1)
    runs = [
        run(Gaussian(multiplier), epsilon=0.1, delta=1e-7),
        run(Repeated(ExponentialMechanism(0.02), 5), epsilon=0.1),
        run(PureDP(0.1), epsilon=0.1),
        run(PureDP(0.01), epsilon=0.01),
    ]
    budget = Budget(1.0, 1e-6)
    rows = docs_rows()
    names = ("basic", *FILTERS[1:])
    for claim, row in zip(runs, rows, strict=True):
        counts = [admitted(filter_for(name, budget), budget, claim) for name in names]
        assert list(map(int, row[1:])) == counts, row[0]


# An adversary's tree: after each outcome another randomized response, or none. Its worst epsilon at delta is
# computed from the whole law of outcomes, so a filter that were not valid would be found out here.


def law(tree):
    """Return the probabilities of all outcomes of a tree under both datasets."""
    if tree is None:
        return np.array([1.0]), np.array([1.0])
    epsilon, leak, branches = tree
    stay = 1 / (1 + math.exp(-epsilon))
    first = np.array([leak, 0.0, (1 - leak) * stay, (1 - leak) * (1 - stay)])
    second = np.array([0.0, leak, (1 - leak) * (1 - stay), (1 - leak) * stay])
    laws = [law(None), law(None), *map(law, branches)]
    return (
        np.concatenate([p * below for p, (below, _) in zip(first, laws, strict=True)]),
        np.concatenate([q * below for q, (_, below) in zip(second, laws, strict=True)]),
    )


def delta_of(tree, epsilon):
    p, q = law(tree)
    return max(np.maximum(p - math.exp(epsilon) * q, 0).sum(), np.maximum(q - math.exp(epsilon) * p, 0).sum())


def grown(draw, keeper, limits, total, depth=7):
    """Return a tree of runs that a filter admits, each chosen with knowledge of the outcomes before."""
    if depth == 0:
        return None
    epsilon, leak = draw(st.sampled_from([0.1, 0.3, 0.5, 1.0])), draw(st.sampled_from([0.0, 0.002, 0.01]))
    event = ApproxDP(epsilon, leak) if leak else PureDP(epsilon)
    after = add(total, keeper.cost(Claim(epsilon, leak, (event,), RELATION)))
    if not keeper.admits(after, limits):
        return None
    branches = [grown(draw, keeper, limits, after, depth - 1) for _ in range(2)]
    return epsilon, leak, branches


@pytest.mark.slow
@pytest.mark.parametrize(
    "keeper",
    [Basic(), RenyiFilter((3.0,)), RenyiFilter((1.5, 3.0, 8.0)), GaussianFilter()],
    ids=["basic", "one", "three", "gdp"],
)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_no_tree_of_adaptive_runs_passes_the_budget(keeper, data):
    budget = Budget(1.5, 0.05)
    tree = grown(data.draw, keeper, keeper.limits(budget), (0,) * len(keeper.units))
    assert delta_of(tree, budget.epsilon) <= budget.delta * (1 + 1e-9)


def test_the_trees_find_out_a_filter_that_gives_back():
    """Refunds after one outcome: the naive rule admits a tree that passes the budget."""
    keeper, budget = Basic(), Budget(1.0, 0.0)

    def refunding(left, depth):
        if depth == 0 or left < 0.5:
            return None
        # "It failed": after the first outcome the charge is given back.
        return 0.5, 0.0, [refunding(left, depth - 1), refunding(left - 0.5, depth - 1)]

    assert keeper.limits(budget) == (10**9, 0)
    assert delta_of(refunding(1.0, 6), budget.epsilon) > 0.05
