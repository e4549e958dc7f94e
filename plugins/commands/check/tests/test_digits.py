"""Last digits: float noise of a part's own betrays what is under it, and whole numbers of a grid do not."""

from typing import ClassVar

import attrs
import numpy as np
import pytest
from dpkit_check import run_checks
from dpkit_check.attacks import digits
from dpkit_check.attacks.digits import NO_DIGIT, last_digits

from dpkit_core import LinearModel, StagePlan
from dpkit_core.privacy.events import PureDP

ARITHMETIC = "as the class says"
NAME = "check_last_digits_tell_nothing"


@attrs.frozen
class FloatNoise:
    """The sum of the target with Laplace noise in float64."""

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "none"
    reference: ClassVar[str] = "none"

    def plan(self, request, /):
        event = PureDP(request.budget.epsilon, request.neighboring)
        return StagePlan([event], event, arithmetic=[ARITHMETIC])

    def fit(self, data, plan, meter, /):
        total = float(np.clip(data.y, -1, 1).sum())
        with meter.custom(plan.settings, proof=self.proof, arithmetic=ARITHMETIC) as sampler:
            released = self.noisy(total, 2 / plan.settings.epsilon, sampler)
        return LinearModel(data.names, (0.0,) * len(data.names), released)

    def noisy(self, total, scale, sampler):
        return float(total + scale * (sampler.exponential() - sampler.exponential()))


@attrs.frozen
class FromBits(FloatNoise):
    """The same by random bits."""

    def noisy(self, total, scale, sampler):
        half, sign = (1 + sampler.bits(52)) / 2.0**53, 1 - 2 * sampler.bits(1)
        return float(total - scale * sign * np.log(2 * half))


@attrs.frozen
class OnAGrid(FloatNoise):
    """The same rounded to a grid that is coarser than any last digit of the sum."""

    def noisy(self, total, scale, sampler):
        return float(np.rint(super().noisy(np.rint(total * 64) / 64, scale, sampler) * 64) / 64)


@attrs.frozen
class NoiseAlone(FloatNoise):
    """Noise in float64, under which there is nothing."""

    def noisy(self, total, scale, sampler):
        return super().noisy(0.0, scale, sampler)


@pytest.mark.exhaustive  # CI finds digits of the zoo
@pytest.mark.parametrize("make", [FloatNoise, FromBits])
def test_noise_that_has_all_digits_is_found_and_found_again(make):
    (found,) = run_checks(make, "regressor", only=[NAME]).results
    assert found.status == "failed", found.detail
    assert "by the places of the last digits" in found.detail
    assert found.scene is not None
    (again,) = run_checks(make, "regressor", only=[NAME], scenes={NAME: found.scene}).results
    assert again.status == "failed"
    assert again.scene == found.scene


@pytest.mark.slow
@pytest.mark.parametrize(("make", "status"), [(OnAGrid, "skipped"), (NoiseAlone, "passed")])
def test_what_tells_nothing_passes(make, status, monkeypatch):
    monkeypatch.setattr(digits, "RUNS", 400)
    monkeypatch.setattr(digits, "SCREENING", 20)
    (found,) = run_checks(make, "regressor", only=[NAME]).results
    assert found.status == status, found.detail


@pytest.mark.parametrize(
    ("number", "place"),
    [
        (0.0, NO_DIGIT),
        (1.0, 0),
        (-6.0, 1),
        (0.75, -2),
        (2.0**-1074, -1074),
        (1 + 2.0**-52, -52),
        (2.0**1000, 1000),
    ],
)
def test_the_last_digit_of_a_number_is_where_binary_says(number, place):
    assert last_digits(np.array([number])).tolist() == [place, place]
