import math

import numpy as np
import pytest

from dpkit_core import Budget, Neighboring, Sensitivity
from dpkit_core.errors import InvalidBudget
from dpkit_core.privacy.budget import rounded_up


@pytest.mark.parametrize("epsilon", [0, -1, math.inf, math.nan])
def test_an_epsilon_that_protects_nothing_or_allows_nothing_is_refused(epsilon):
    with pytest.raises(InvalidBudget, match="epsilon"):
        Budget(epsilon, 1e-6)


@pytest.mark.parametrize("delta", [-1e-9, 1, 2, math.nan])
def test_a_delta_outside_its_range_is_refused(delta):
    with pytest.raises(InvalidBudget, match="delta"):
        Budget(1, delta)


@pytest.mark.parametrize("given", ["much", None, [1.0]])
def test_what_is_no_number_is_no_budget(given):
    with pytest.raises(InvalidBudget, match=r"is not a number; .* Budget\(1.0, 1e-6\)"):
        Budget(given)


@pytest.mark.parametrize("figures", [3, 4, 6, 9])
def test_printed_losses_are_never_below_what_is_proved(figures):
    for loss in 10 ** np.random.default_rng(figures).uniform(-12, 4, size=2000):
        shown = rounded_up(loss, figures)
        assert loss <= float(shown) <= loss * (1 + 1.01 * 10 ** (1 - figures))
        assert len(shown.partition("e")[0].replace(".", "").strip("0")) <= figures


@pytest.mark.parametrize("text", ["1", "0.5", "1e-06", "9.4e-07", "0", "2.719"])
def test_printed_losses_with_few_figures_stay_as_they_are(text):
    assert rounded_up(float(text), 4) == text


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
