"""What a run may do wrong to a faultless part, by the levels at which its tests are made."""

import attrs
import numpy as np
import pytest
from dpkit_check import ReferenceRegressor, checks_for, run_checks, trial_for
from dpkit_check.attacks import laws, outcomes
from dpkit_check.attacks.coins import BEGINNING, TELLING_PAIRS
from dpkit_check.audit import audit, provable
from dpkit_check.cases.regressors import FIT_BUDGETS
from dpkit_check.kit import FALSE_ALARM, KINDS, WORKERS, _run
from dpkit_check.trial import Evidence, attack
from dpkit_selector_gaussian_threshold import GaussianThresholdSelector
from dpkit_selector_oneshot_laplace import OneshotLaplaceSelector

from dpkit_core import LinearModel
from dpkit_core.privacy.events import Laplace


@attrs.frozen
class OwnMechanism(ReferenceRegressor):
    """Draws by a mechanism of its own, so that what it releases has to be sampled."""

    def plan(self, request, /):
        return attrs.evolve(super().plan(request), arithmetic=("none",))

    def fit(self, data, plan, meter, /):
        event = plan.settings_as(Laplace)
        with meter.custom(event, proof="none", arithmetic="none") as sampler:
            total = sampler.laplace_on_grid(
                np.clip(data.y, -1, 1).sum(),
                sensitivity=event.sensitivity,
                noise_multiplier=event.noise_multiplier,
            )
        return LinearModel(data.names, (0.0,) * len(data.names), float(total) / 100)


@pytest.fixture
def few_runs(monkeypatch):
    """Make as many tests as ever, of so few runs that they take no time and find nothing."""
    for name in ("TIES", "DEEP_RUNS"):
        monkeypatch.setattr(laws, name, 8)
    few = {"RUNS": 8, "SAME_RUNS": 8, "WIDE_RUNS": 8, "SUSPECTS": 2, "SCREENING": ((8, 1),)}
    fits = {"FIT_RUNS": 200, "OTHER_FIT_RUNS": 200, "SAME_FIT_RUNS": 8, "FIT_SCREENING": 4, "FIT_PAIRS": 1}
    for name, value in {**few, **fits}.items():
        monkeypatch.setattr(outcomes, name, value)


def levels(make, kind):
    names = [c.name for c in checks_for(kind) if c.statistical]
    return {r.check: r.level for r in run_checks(make, kind, only=names).results if r.status != "skipped"}


@pytest.mark.usefixtures("few_runs")
@pytest.mark.parametrize(
    ("make", "kind", "tests"),
    [
        pytest.param(OneshotLaplaceSelector, "selector", 3, id="laplace"),
        pytest.param(GaussianThresholdSelector, "selector", 4, id="threshold", marks=pytest.mark.slow),
        pytest.param(OwnMechanism, "regressor", 2, id="regressor"),
    ],
)
def test_the_levels_of_all_tests_of_a_run_add_up_to_less_than_was_promised(make, kind, tests):
    found = levels(make, kind)
    share = trial_for(kind).error
    assert [name for name, level in found.items() if level] == [*found]
    assert len(found) == tests
    assert all(level <= share * (1 + 1e-9) for level in found.values())
    assert sum(found.values()) + WORKERS <= FALSE_ALARM * (1 + 1e-9)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("thorough", [False, True])
def test_the_shares_of_all_checks_leave_room_for_that_of_workers(kind, thorough):
    statistical = [c for c in checks_for(kind) if c.statistical]
    assert len(statistical) * trial_for(kind, thorough=thorough).error <= FALSE_ALARM - WORKERS + 1e-18
    # Three comparisons of two processes, each of which agrees by chance at most so often.
    differ = np.linspace(0, 1, 10_001)
    begin = float((differ**TELLING_PAIRS * (1 - differ) ** BEGINNING).max())
    assert 3 * (begin + 3.0**-TELLING_PAIRS) < WORKERS


def test_a_test_that_its_check_does_not_announce_is_a_fault_of_the_kit():
    @attack("numerical")
    def check_twice(make, trial):
        """Two tests at the level of one."""
        trial.level()
        trial.level()
        return Evidence()

    with pytest.raises(AssertionError, match="check_twice"):
        _run(check_twice, check_twice.run, ReferenceRegressor, trial_for("regressor"), None)


def test_no_more_is_proved_than_is_called_provable():
    claimed = FIT_BUDGETS[0][0]
    finding = audit(["a"] * 300, ["b"] * 300, claimed, confidence=0.9999)
    epsilon, mu = provable(300, claimed, 0.9999)
    assert finding.epsilon == pytest.approx(epsilon, rel=1e-12)
    assert finding.mu == pytest.approx(mu, rel=1e-12)
    assert audit(["a", "b"] * 150, ["b"] * 300, claimed, confidence=0.9999).epsilon < epsilon
