import math

import numpy as np
import pytest
from dpkit_command_bench.metrics import METRICS, Outcome, measure

TRUTH = np.array([1.0, 2.0, 3.0, 6.0])


def outcome(predictions, selected=(), relevant=()):
    return Outcome(TRUTH, None if predictions is None else np.array(predictions), selected, relevant)


def test_the_mean_explains_nothing_and_the_truth_everything():
    assert METRICS["r2"].measure(outcome([3.0] * 4)) == 0
    assert METRICS["r2"].measure(outcome(TRUTH)) == 1
    # Residuals 1, 0, 0, 1 against deviations 2, 1, 0, 3 from the mean.
    assert METRICS["r2"].measure(outcome([0.0, 2.0, 3.0, 7.0])) == pytest.approx(1 - 2 / 14)
    assert METRICS["rmse"].measure(outcome([0.0, 2.0, 3.0, 7.0])) == pytest.approx(math.sqrt(2 / 4))


@pytest.mark.filterwarnings("error")
def test_predictions_without_bounds_are_worthless_and_no_error():
    assert METRICS["r2"].measure(outcome([1e200, 0, 0, 0])) == -math.inf
    assert METRICS["rmse"].measure(outcome([math.inf, 0, 0, 0])) == math.inf


def test_a_constant_truth_has_no_r2():
    assert METRICS["r2"].measure(Outcome(np.ones(3), np.ones(3), (), ())) is None


def test_a_refusal_is_the_worst_value_and_keeps_the_recall():
    values = measure(outcome(None, (0, 5), (0, 1, 2, 5)), refused=True)
    assert values == {"r2": -math.inf, "rmse": math.inf, "recall": 0.5}


def test_what_does_not_apply_is_none():
    assert measure(outcome(None), refused=False) == {"r2": None, "rmse": None, "recall": None}
