import math

import numpy as np
import pytest
from dpkit_accountant_individual_filter import IndividualFilterAccountant
from dpkit_check import gaussian_delta
from dpkit_check.pytest import parametrize_with_checks

from dpkit_core import Neighboring, Registry
from dpkit_core.errors import UnsupportedEvent
from dpkit_core.privacy.accounts import TICKS, admitted, limit_of
from dpkit_core.privacy.events import (
    Filtered,
    Gaussian,
    Laplace,
    NonPrivate,
    NonSphericalGaussian,
    PoissonSampled,
    Repeated,
    Sequence,
)

FRESH = IndividualFilterAccountant()
ROUND = PoissonSampled(0.3, NonSphericalGaussian((80.0, 60.0)))


@pytest.mark.slow
@parametrize_with_checks([IndividualFilterAccountant])
def test_keeps_every_promise_of_its_kind(check):
    check()


def test_rounds_beyond_those_that_are_paid_for_cost_nothing():
    few, many = (FRESH.compose(Filtered(ROUND, rounds, 400)) for rounds in (400, 4000))
    assert few.epsilon(1e-5) == many.epsilon(1e-5)


def test_a_filter_costs_what_the_charged_rounds_cost():
    for charged in (1, 40, 400):
        filtered = FRESH.compose(Filtered(ROUND, 500, charged))
        plain = FRESH.compose(ROUND, charged)
        assert filtered.epsilon(1e-5) == pytest.approx(plain.epsilon(1e-5), rel=1e-3)
        assert filtered.epsilon(1e-5) >= plain.epsilon(1e-5) * (1 - 1e-12)


def test_never_below_the_exact_law_of_a_record_that_spends_everything():
    for multiplier, charged in ((10.0, 4), (40.0, 100), (3.0, 1)):
        spent = FRESH.compose(Filtered(Gaussian(multiplier), 2 * charged, charged))
        for delta in (1e-9, 1e-5, 1e-3):
            epsilon = spent.epsilon(delta)
            assert gaussian_delta(epsilon, math.sqrt(charged) / multiplier) <= delta
            half = math.sqrt(charged / 2) / multiplier  # the claim is for charged rounds, not half of them
            assert gaussian_delta(epsilon / 2, math.sqrt(charged) / multiplier) > delta
            assert gaussian_delta(epsilon, half) < delta


def test_the_sum_is_that_of_the_renyi_accountant():
    registry = Registry()
    rdp = registry.load(registry.find("accountants", "rdp"))()
    events = (Laplace(20.0), Repeated(Gaussian(30.0), 5), Sequence((ROUND, Laplace(50.0))))
    ours, theirs = FRESH, rdp
    for event in events:
        ours, theirs = ours.compose(event), theirs.compose(event)
    for delta in (0.0, 1e-9, 1e-5):
        assert ours.epsilon(delta) == theirs.epsilon(delta)
    assert ours.delta(1.0) == theirs.delta(1.0)


def test_accounts_end_where_the_certificate_says():
    limit = limit_of(Filtered(ROUND, rounds=10, charged=3))
    spent, taken = np.zeros(2, dtype=np.int64), np.zeros(2, dtype=np.int64)
    for _ in range(10):
        active, spent = admitted(spent, np.array([TICKS, TICKS // 2]), limit)
        taken += active
    assert taken.tolist() == [3, 6]


@pytest.mark.parametrize(
    ("accountant", "event", "message"),
    [
        (FRESH, NonPrivate("no noise"), "NonPrivate"),
        (IndividualFilterAccountant(Neighboring.REPLACE_ONE), Filtered(ROUND, 2, 1), "add-remove"),
        (FRESH, PoissonSampled(0.5, Filtered(ROUND, 2, 1)), "sample each event on its own"),
    ],
)
def test_what_it_cannot_account_for_is_refused(accountant, event, message):
    assert not accountant.supports(event)
    with pytest.raises(UnsupportedEvent, match=message):
        accountant.compose(event)
