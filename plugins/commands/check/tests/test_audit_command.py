"""``dpkit audit``: bounds a saved plan from below, without data; exit code 2 where its claim is refuted."""

import json

import pytest

from dpkit_core import Refusal

PART = '''
from typing import ClassVar

import attrs
import numpy as np

from dpkit_core import LinearModel, StagePlan
from dpkit_core.privacy import events


@attrs.frozen
class Total:
    """The sum of the target within its bounds."""

    api: ClassVar[int] = 3

    def plan(self, request, /):
        low, high = request.schema.target.bounds
        event = events.Laplace(
            1 / request.budget.epsilon,
            request.neighboring,
            sensitivity=NOISE * max(abs(low), abs(high)),
            shape=(),
        )
        return StagePlan((event,), refusals={"never": "never"})

    def fit(self, data, plan, meter, /):
        print("fitting")
        (event,) = plan.events
        low, high = data.target_bounds
        total = meter.laplace(
            np.clip(data.y, low, high).sum(),
            sensitivity=event.sensitivity,
            noise_multiplier=event.noise_multiplier,
        )
        return LinearModel(data.names, (0.0,) * len(data.names), float(total))
'''

SCHEMA = """\
target = "y"
[columns.a]
lower = -1
upper = 1
[columns.y]
lower = -1
upper = 1
"""


@pytest.fixture
def plan_file(site, folder, dpkit, monkeypatch):
    """Return a function that writes the plan of a regressor with a share of the noise it should draw."""
    # A short search: the first pair tried is the worst for a total.
    monkeypatch.setattr("dpkit_check.compositions.DRAWN_PAIRS", 2)
    monkeypatch.setattr("dpkit_check.compositions.STEPS", 2)

    def write(noise):
        module = f"total_{str(noise).replace('.', '_')}"
        site.install(
            "dpkit-total",
            entry_points={"dpkit.regressors": {"total": f"{module}:Total"}},
            modules={module: PART.replace("NOISE", str(noise))},
        )
        (folder / "facts.toml").write_text(SCHEMA)
        done = dpkit(
            "compose", "--schema", "facts.toml", "--regressor", "total", "--epsilon", 2, "--delta", 0,
            "--dry-run", "--save", "plan.toml",
        )  # fmt: skip
        assert done.exit_code == 0, done.output
        return "plan.toml"

    return write


@pytest.mark.slow
def test_a_plan_with_a_quarter_of_its_noise_is_refuted(plan_file, dpkit):
    # Epsilon 8 in truth: probabilities 1/2 and 2e-4. Of 500 runs, 5 hits have probability below 1e-7, and
    # fewer leave the bound above 2.
    done = dpkit("audit", plan_file(0.25), "--samples", 1000, "--records", 2)
    assert done.exit_code == 2, done.output
    assert "REFUTED: no mechanism with epsilon 2" in " ".join(done.stdout.split())
    assert "2000 runs on neighbors with 3 and 2 records: about" in done.stderr


@pytest.mark.slow
def test_an_honest_plan_is_not_refuted_and_json_is_alone_on_standard_output(plan_file, dpkit):
    done = dpkit("audit", plan_file(1.0), "--samples", 400, "--records", 2, "--format", "json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["refuted"] is False
    assert 0 < found["epsilon_at_least"] < found["claimed"]["epsilon"] <= 2
    assert found["samples"] == 400
    assert found["records"] == [3, 2]
    assert "proves nothing" in found["statement"]


@pytest.mark.slow
def test_refusals_are_counted(plan_file, dpkit, monkeypatch):
    plan = plan_file(1.0)
    monkeypatch.setattr("total_1_0.LinearModel", lambda *model: Refusal("never"))
    monkeypatch.setattr("dpkit_check.compositions.LARGER_SIZES", ())
    done = dpkit("audit", plan, "--samples", 100)
    assert done.exit_code == 0, done.output
    words = " ".join(done.stdout.split())
    assert "100% of the runs ended in a refusal" in words
    assert "Every run was refused" in words


def test_what_is_no_plan_or_too_few_samples_is_said(folder, dpkit):
    done = dpkit("audit", "numbers.csv")
    assert done.exit_code == 2
    assert "dpkit: " in done.stderr
    assert dpkit("audit", "plan.toml", "--samples", 5).exit_code == 2
