"""Samples that a part draws by itself: each way in which they are no Poisson samples, and the honest one."""

import json
import zlib
from typing import ClassVar

import attrs
import numpy as np
import pytest
from dpkit_check import CheckFailed, checks_for, run_checks, trial_for
from dpkit_check.attacks import samples

from dpkit_core import LinearModel, Neighboring, StagePlan
from dpkit_core.errors import Unsuitable
from dpkit_core.privacy.events import PoissonSampled, PureDP, Repeated

ARITHMETIC = "exact discrete noise on a public power-of-two grid"
NAME = "check_samples_are_poisson_samples"


@pytest.fixture(autouse=True)
def few_runs(monkeypatch):
    monkeypatch.setattr(samples, "SCREENING", ((12, 8), (60, 2)))
    monkeypatch.setattr(samples, "RUNS", 500)
    monkeypatch.setattr(samples, "MOST_SIZES", 7)


@attrs.frozen
class Sampled:
    """A noisy sum and number of records of a sample of rate 1/4, twice; children draw it otherwise."""

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "none"
    reference: ClassVar[str] = "none"
    again: ClassVar[bool] = False
    noise_of_its_own: ClassVar[bool] = False

    def plan(self, request, /):
        if request.neighboring is Neighboring.REPLACE_ONE:
            raise Unsuitable("for add-remove alone")
        event = PoissonSampled(1 / 4, PureDP(request.budget.epsilon / 4, request.neighboring))
        return StagePlan([Repeated(event, 2)], event, arithmetic=[ARITHMETIC])

    def fit(self, data, plan, meter, /):
        found, taken = [], None
        y = np.clip(data.y, -1, 1)
        for _ in range(2):
            with meter.custom(plan.settings, proof=self.proof, arithmetic=ARITHMETIC) as sampler:
                if taken is None or not self.again:
                    taken = self.sample(data, meter, sampler)
                total = [y[taken].sum(), len(y[taken])]
                if self.noise_of_its_own:
                    found.append(total[0] + sampler.discrete_laplace(4096) / 512)
                else:
                    noisy = sampler.laplace_on_grid(total, sensitivity=2.0, noise_multiplier=4.0)
                    found.append(noisy[0])
        return LinearModel(data.names, (0.0,) * len(data.names), float(found[0] + found[1]))

    def sample(self, data, meter, sampler):
        return sampler.integers(4, data.records) == 0


class OwnNoise(Sampled):
    noise_of_its_own: ClassVar[bool] = True


class OneCoinForBoth(Sampled):
    again: ClassVar[bool] = True


class OneCoinOwnNoise(OneCoinForBoth):
    noise_of_its_own: ClassVar[bool] = True


class FixedSize(Sampled):
    def sample(self, data, meter, sampler):
        return sampler.subset(np.arange(data.records), round(data.records / 4))


class FixedSizeOwnNoise(FixedSize):
    noise_of_its_own: ClassVar[bool] = True


class AtLeastOne(Sampled):
    def sample(self, data, meter, sampler):
        taken = sampler.integers(4, data.records) == 0
        return taken if taken.any() else sampler.permutation(data.records)[:1]


class PublicCoins(Sampled):
    def sample(self, data, meter, sampler):
        return meter.coins.random(data.records) < 1 / 4


class LargeRate(Sampled):
    def sample(self, data, meter, sampler):
        return sampler.integers(2, data.records) == 0


class LargeValuesMore(Sampled):
    def sample(self, data, meter, sampler):
        return sampler.integers(4, data.records) <= (data.y > 0.5)


class FirstOneMore(Sampled):
    def sample(self, data, meter, sampler):
        return sampler.integers(4, data.records) <= (np.arange(data.records) == 0)


class ByBlocks(Sampled):
    def sample(self, data, meter, sampler):
        return np.repeat(sampler.integers(4, -(-data.records // 3)) == 0, 3)[: data.records]


class Systematic(Sampled):
    def sample(self, data, meter, sampler):
        return np.arange(data.records) % 4 == sampler.integers(4)


class ByAHash(Sampled):
    def sample(self, data, meter, sampler):
        values = np.column_stack([data.X, data.y])
        return np.array([zlib.crc32(row.tobytes()) % 4 == 0 for row in values], dtype=bool)


def tried(make, seed=0):
    (check,) = (check for check in checks_for("regressor") if check.name == NAME)
    return check.run(make, trial_for("regressor", seed=seed))


def in_ci(*makes):
    return [pytest.param(make, marks=pytest.mark.slow, id=make.__name__) for make in makes]


def by_hand(*makes):
    """Return samples as parameters that differ in how they go wrong, and not in how that is found."""
    return [pytest.param(make, marks=pytest.mark.exhaustive, id=make.__name__) for make in makes]


@pytest.mark.parametrize("make", [*in_ci(Sampled), *by_hand(OwnNoise)])
def test_a_poisson_sample_passes(make):
    assert tried(make).samples > 1000


@pytest.mark.parametrize(
    "make",
    [
        *in_ci(PublicCoins, AtLeastOne, ByAHash, LargeRate),
        *by_hand(FixedSize, FixedSizeOwnNoise, LargeValuesMore, FirstOneMore, ByBlocks, Systematic),
    ],
)
def test_what_is_no_poisson_sample_is_found(make):
    with pytest.raises(CheckFailed, match="charged as a Poisson sample of rate"):
        tried(make)


@pytest.mark.parametrize("make", [*in_ci(OneCoinForBoth), *by_hand(OneCoinOwnNoise)])
def test_coins_that_two_events_share_are_found(make):
    with pytest.raises(CheckFailed, match="events 1 and 2 are charged as samples with independent coins"):
        tried(make)


@pytest.mark.slow
def test_a_sample_that_is_none_is_seen_again_from_its_scene():
    found = run_checks(FixedSize, only=[NAME])
    scene = found.results[0].scene
    assert scene is not None
    again = run_checks(FixedSize, only=[NAME], scenes={NAME: json.loads(json.dumps(scene))})
    assert not again.ok
    assert run_checks(Sampled, only=[NAME], scenes={NAME: scene}).ok


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", range(50))
def test_no_seed_raises_an_alarm(seed):
    tried(Sampled, seed)
