"""Every shipped part passes the kit, and keeps passing whatever the seed."""

import functools
from pathlib import Path
from typing import ClassVar

import attrs
import numpy as np
import pytest
from dpkit_check import checks_for, run_checks, trial_for
from seeds import by_seeds, shipped

from dpkit_core import StagePlan
from dpkit_core.plugins.kinds import PARTS
from dpkit_core.plugins.registry import Registry
from dpkit_core.privacy.events import PureDP

REGISTRY = Registry()
ROOT = Path(__file__).parents[4]
SHIPPED = [ref for ref in REGISTRY.refs() if ref.distribution.startswith("dpkit-")]
# The kit was written against these; every later part runs it in its own tests.
FIRST = {"basic", "kendall", "peel", "rdp", "tukey"}
WITHOUT_CLAIM = {"exact", "ols"}
IN_CI = {"peel", "rdp", *WITHOUT_CLAIM}


def failures(report):
    return [f"{r.check}: {r.detail}" for r in report.results if r.status == "failed"]


def test_parts_of_every_kind_are_shipped():
    assert {ref.role for ref in SHIPPED} == set(PARTS)


@pytest.mark.parametrize("ref", [r for r in SHIPPED if r.name not in FIRST], ids=lambda r: r.name)
def test_a_later_part_runs_the_kit_in_its_own_tests(ref):
    tests = (ROOT / "plugins" / ref.kind / ref.name / "tests").glob("test_*.py")
    assert any("parametrize_with_checks" in path.read_text(encoding="utf-8") for path in tests)


@functools.cache
def report_of(name):
    """Return what the kit says of a shipped part; it takes seconds."""
    ((kind, make),) = ((kind, make) for each, kind, make in shipped() if each == name)
    return run_checks(make, kind)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow if name in IN_CI else pytest.mark.exhaustive)
        for name, _, _ in shipped()
    ],
)
def test_all_code_of_a_shipped_part_is_attacked_or_says_why_not(name):
    report = report_of(name)
    assert report.ok, failures(report)
    assert report.reach.not_read == ()
    assert [f"{Path(place.file).name} needs {place.needs}" for place in report.reach.unreached] == []


def test_a_model_that_is_certain_on_equal_records_is_no_false_alarm():
    """With seed 11 the kit once fitted tukey to 300 records, 299 of them equal: twelve times one model."""
    make = REGISTRY.load(REGISTRY.find("regressors", "tukey"))
    check = next(c for c in checks_for("regressor") if c.name == "check_randomness_is_the_meters")
    check.run(make, trial_for("regressor", seed=11))


@pytest.mark.exhaustive
@pytest.mark.parametrize(("name", "kind", "make"), shipped(), ids=lambda x: x if isinstance(x, str) else "")
def test_no_seed_raises_a_false_alarm(name, kind, make):
    """A run fails a faultless part with probability 1e-3 at most; these seeds are fixed, and do not."""
    for seed, results in by_seeds(make, kind):
        failed = [f"{r.check}: {r.detail}" for r in results if r.status == "failed"]
        assert not failed, (seed, failed)


@pytest.mark.slow
def test_a_check_that_asks_for_no_seed_is_made_once_and_every_other_by_each_seed():
    make, kind = REGISTRY.load(REGISTRY.find("selectors", "exact")), "selector"
    runs = dict(by_seeds(make, kind, range(2)))
    alone = {r.check: r for r in run_checks(make, kind, seed=1).results}
    assert [r.check for r in runs[0]] == [c.name for c in checks_for(kind)]
    made = {r.check for r in runs[1]}
    for r in runs[0]:
        other = alone[r.check]
        if r.check in made:
            continue
        assert (r.status, r.detail, r.samples) == (other.status, other.detail, other.samples)
    assert "check_releases_keep_their_plan" in made
    assert "check_protocol" not in made


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(WITHOUT_CLAIM))
def test_a_part_that_claims_no_privacy_passes_and_the_report_says_so(name):
    report = report_of(name)
    assert report.ok, failures(report)
    attacks = [r for r in report.results if r.detail.startswith("it claims no privacy")]
    assert len(attacks) >= 5
    assert {r.status for r in attacks} == {"skipped"}
    assert report.count("passed") >= 7
    assert f"{len(attacks)} of the skipped had no private plan" in report.statement


@pytest.mark.slow
def test_a_claim_is_attacked_where_only_the_certificate_of_another_part_denies_it():
    """Only ``NonPrivate`` in its own plan spares a part: the same selector, planned as private, fails."""

    @attrs.frozen
    class Lying:
        api: ClassVar[int] = 3
        proof: ClassVar[str] = "none"
        reference: ClassVar[str] = "none"

        def plan(self, request, /):
            event = PureDP(request.budget.epsilon, request.neighboring, proof="none")
            return StagePlan([event], arithmetic=["none"])

        def select(self, scores, plan, meter, /):
            with meter.custom(plan.events[0], proof="none", arithmetic="none"):
                pass
            return tuple(np.argsort(-scores.values)[: scores.round.picks].tolist())

    failed = {r.check for r in run_checks(Lying).results if r.status == "failed"}
    assert {"check_selection_hides_the_scores", "check_no_budget_tells_nothing"} <= failed
