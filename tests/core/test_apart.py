"""Sides that share no record cost as much as the costliest, by every accountant, and never their sum."""

import json
import math

import pytest

from dpkit_core import Neighboring
from dpkit_core.errors import InvalidRelease, UnsupportedEvent
from dpkit_core.mechanisms.calibration import total
from dpkit_core.plugins.registry import Registry
from dpkit_core.privacy.budget import Budget
from dpkit_core.privacy.composition import elements, union
from dpkit_core.privacy.events import (
    Apart,
    ApproxDP,
    Disjoint,
    ExponentialMechanism,
    Gaussian,
    Laplace,
    PermuteAndFlip,
    PoissonSampled,
    PureDP,
    Repeated,
    Sequence,
    event_from_json,
    event_to_json,
)
from dpkit_core.privacy.filters import Claim, filter_for
from dpkit_core.privacy.units import grouped

ADDED, REPLACED = Neighboring
DELTA = 1e-6
NAMES = ("rdp", "tight", "pld", "individual_filter")

FIT = Sequence((Repeated(ExponentialMechanism(0.1), 3), Gaussian(4.0), Gaussian(5.0)))
SCORE = Sequence((Gaussian(6.0), Gaussian(7.0)))


def epsilon(name, *events):
    registry = Registry()
    accountant = registry.load(registry.find("accountants", name))(neighboring=ADDED)
    return total(events, accountant, DELTA)


@pytest.mark.parametrize("name", NAMES)
def test_a_score_of_more_noise_than_the_fit_costs_nothing(name):
    alone = epsilon(name, FIT)
    for order in ((FIT, SCORE), (SCORE, FIT)):
        assert epsilon(name, Apart(order)) == pytest.approx(alone, rel=1e-12)
    assert epsilon(name, FIT, SCORE) > 1.1 * alone  # what it would cost on the same records


@pytest.mark.first(6)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "sides",
    [
        (Gaussian(4.0), Laplace(9.0)),
        (Repeated(PureDP(0.1), 3), Sequence((PureDP(0.1), PermuteAndFlip(0.2)))),
        (Gaussian(2.0), Sequence((Gaussian(3.0), ApproxDP(0.1, 1e-8)))),
        (Gaussian(2.0), Disjoint(Gaussian(1.5), 3), Repeated(Laplace(30.0), 4)),
    ],
)
def test_no_side_costs_more_and_together_they_cost_more_than_all(name, sides):
    apart = epsilon(name, Apart(sides))
    for side in sides:
        assert epsilon(name, side) <= apart * (1 + 1e-9)
    assert apart <= epsilon(name, *sides) * (1 + 1e-9)


def test_basic_takes_the_largest_epsilon_and_the_largest_delta():
    sides = Apart((Repeated(PureDP(0.25), 2), ApproxDP(0.3, 1e-7)))
    assert sides.pair() == (0.5, 1e-7)
    assert epsilon("basic", sides) == 0.5
    assert Apart((PureDP(0.1), Gaussian(3.0))).pair() is None


def test_of_gaussians_the_side_of_most_precision_counts_and_of_others_the_most_of_each():
    found = dict(union([FIT, Repeated(Gaussian(3.5), 2), Repeated(ExponentialMechanism(0.1), 5)]))
    assert found == {Gaussian(3.5): 2, ExponentialMechanism(0.1): 5}
    assert dict(elements(Repeated(Apart((Laplace(2.0), Gaussian(3.0))), 2))) == {
        Laplace(2.0): 2,
        Gaussian(3.0): 2,
    }
    assert dict(union([PoissonSampled(0.1, Gaussian(2.0)), PoissonSampled(0.1, Gaussian(2.0))])) == {
        PoissonSampled(0.1, Gaussian(2.0)): 1
    }


def test_it_is_for_add_remove_alone():
    with pytest.raises(ValueError, match="may change its side"):
        Apart((Gaussian(3.0, REPLACED), Gaussian(3.0, REPLACED)))
    with pytest.raises(ValueError, match="may change its side"):
        Apart((Gaussian(3.0), Sequence((Gaussian(3.0, REPLACED),))))
    with pytest.raises(ValueError, match="two sides or more"):
        Apart((Gaussian(3.0),))


def test_replaced_records_would_cost_more_than_either_side():
    # Pure 1 on each side, and a record that changes its side is one less here and one more there: it moves
    # both, and what is then left over at epsilon 1 is no small delta.
    e = math.e
    p, q = e / (1 + e), 1 / (1 + e)
    assert p * p - e * q * q > 0.3


def test_units_need_sides_of_their_own():
    drawn = Apart((Gaussian(8.0), Laplace(8.0)), units=True)
    assert grouped(drawn, 4) == Apart((Gaussian(2.0), Laplace(2.0)), units=True)
    with pytest.raises(UnsupportedEvent, match="4 records of a unit"):
        grouped(Apart((Gaussian(8.0), Laplace(8.0))), 4)


def test_a_file_says_whether_sides_are_of_units():
    event = Apart((FIT, SCORE), units=True)
    document = json.loads(json.dumps(event_to_json(event)))
    assert event_from_json(document) == event
    for wrong in (1, "yes"):
        with pytest.raises(InvalidRelease, match="units"):
            event_from_json(document | {"units": wrong})


@pytest.mark.parametrize("measure", ["gdp", "renyi", "basic"])
def test_an_account_is_charged_for_the_fit_alone(measure):
    kept = filter_for(measure, Budget(4.0, 1e-5))

    def cost(*events):
        return kept.cost(Claim(epsilon("tight", *events), DELTA, events, ADDED))

    assert cost(Apart((FIT, SCORE))) == cost(FIT)
    assert cost(FIT, SCORE) != cost(FIT)
