import math

import pytest

from dpkit_core import Budget, Neighboring, Sensitivity
from dpkit_core.errors import InvalidBudget


@pytest.mark.parametrize("epsilon", [0, -1, math.inf, math.nan])
def test_an_epsilon_that_protects_nothing_or_allows_nothing_is_refused(epsilon):
    with pytest.raises(InvalidBudget, match="epsilon"):
        Budget(epsilon, 1e-6)


@pytest.mark.parametrize("delta", [-1e-9, 1, 2, math.nan])
def test_a_delta_outside_its_range_is_refused(delta):
    with pytest.raises(InvalidBudget, match="delta"):
        Budget(1, delta)


def test_budgets_are_partially_ordered():
    small, large = Budget(1, 1e-6), Budget(2, 1e-5)
    mixed = Budget(0.5, 1e-4)
    assert small <= large
    assert large >= small
    assert not large <= small
    assert not small <= mixed
    assert not mixed <= small


def test_range_sensitivity_is_at_most_twice_and_equal_for_monotone_scores():
    relation = Neighboring.ADD_OR_REMOVE_ONE
    assert Sensitivity.general(1.5, relation).range == 3.0
    assert Sensitivity.monotone(1.5, relation).range == 1.5
    with pytest.raises(ValueError, match="range sensitivity"):
        Sensitivity(1.0, 2.5, relation)


@pytest.mark.parametrize("value", [0.0, -1.0, math.inf, math.nan])
def test_a_sensitivity_is_a_finite_number_above_zero(value):
    with pytest.raises(ValueError, match="linf"):
        Sensitivity(value, 1.0, Neighboring.REPLACE_ONE)
