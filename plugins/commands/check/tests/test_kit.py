"""The kit itself: which checks run, how results are reported, what counts as a failure."""

import json
import subprocess
import sys
from functools import partial
from typing import ClassVar

import attrs
import numpy as np
import pytest
from dpkit_check import (
    CheckFailed,
    ReferenceAccountant,
    ReferenceScorer,
    Report,
    Result,
    Trial,
    checks_for,
    kind_of,
    run_checks,
    trial_for,
)
from dpkit_check.kit import FALSE_ALARM, KINDS
from dpkit_check.options import variants, with_options
from dpkit_check.pytest import parametrize_with_checks

from dpkit_core import Neighboring, Sensitivity, StagePlan, fixed_scores
from dpkit_core.errors import InvalidOption
from dpkit_core.privacy.events import Laplace


@attrs.frozen
class Constant:
    """The same score for every feature."""

    api = 3
    proof = "it never moves"
    reference = "none"
    adaptive = False
    sensitivity_number: float = 1.0

    def sensitivity(self, schema, round, /):
        return Sensitivity.general(self.sensitivity_number, schema.neighboring)

    def prepare(self, data, plan, meter, /):
        return fixed_scores(np.zeros(data.X.shape[1]))


@attrs.frozen
class Centered:
    """Sums of values clipped to [-1, 1], about a released number of records: any release will do."""

    api = 3
    proof = "Laplace mechanism; one record adds at most 1"
    reference = "none"
    adaptive = False

    def sensitivity(self, schema, round, /):
        return Sensitivity.general(2.0, schema.neighboring)

    def plan(self, request, /):
        event = Laplace(1 / request.budget.epsilon, request.neighboring, sensitivity=1.0, shape=())
        return StagePlan([event], event)

    def prepare(self, data, plan, meter, /):
        records = self.release(data, plan.settings.noise_multiplier, meter)
        return fixed_scores(np.clip(data.X, -1, 1).sum(axis=0) + np.sin(records))

    def release(self, data, multiplier, meter):
        return float(meter.laplace(len(data.y), sensitivity=1.0, noise_multiplier=multiplier))


class ScaledByTheCount(Centered):
    def release(self, data, multiplier, meter):
        return float(meter.laplace(1.0, sensitivity=1 / len(data.y), noise_multiplier=multiplier))


class Mutating(Constant):
    def prepare(self, data, plan, meter, /):
        data.X.flags.writeable = True
        data.X[0] = 0
        return fixed_scores(np.zeros(data.X.shape[1]))


class Raises(Constant):
    def prepare(self, data, plan, meter, /):
        raise RuntimeError("the part broke")


@attrs.frozen
class Forgetful(ReferenceAccountant):
    """Charges one event however many were composed."""

    neighboring: Neighboring = Neighboring.ADD_OR_REMOVE_ONE

    def compose(self, event, count=1, /):
        return ReferenceAccountant.compose(self, event)


FORGETFUL = {
    "check_repetition_is_a_loop": "counts are forgotten",
    "check_never_below_the_exact_law": "counts are forgotten",
    "check_mixtures_are_never_below": "counts are forgotten",
    "check_every_branch_keeps_the_law": "counts are forgotten",
}


def run_one(make, name, trial):
    (check,) = (check for check in checks_for(kind_of(make)) if check.name == name)
    return check.run(make, trial)


def result(report, name):
    return next(r for r in report.results if r.check == name)


@pytest.mark.slow
def test_a_faultless_part_passes_and_every_check_of_its_kind_is_reported():
    report = run_checks(ReferenceScorer)
    assert report.ok, report.statement
    assert [r.check for r in report.results] == [check.name for check in checks_for("scorer")]
    assert result(report, "check_noise_is_the_same_for_neighbors").status == "skipped"
    assert json.loads(json.dumps(report.to_document()))["ok"] is True
    for words in (f"{len(checks_for('scorer'))} checks", "at most 0.001", "does not prove privacy"):
        assert words in report.statement


@pytest.mark.parametrize("kind", KINDS)
def test_every_check_says_what_it_is_and_what_to_do(kind):
    checks = checks_for(kind)
    assert len({check.name for check in checks}) == len(checks)
    for check in checks:
        assert check.run.__name__ == check.name
        assert check.summary.endswith(".")
        assert "If this fails: " in check.run.__doc__
        assert check.remedy
    for thorough in (False, True):
        shares = sum(trial_for(kind, thorough=thorough).error for check in checks if check.statistical)
        assert shares <= FALSE_ALARM * (1 + 1e-9)


@pytest.mark.slow
def test_a_failure_is_reported_with_its_remedy():
    name = "check_scores_are_finite_vectors"
    report = run_checks(Raises, only=[name])
    failed = result(report, name)
    assert not report.ok
    assert failed.status == "failed"
    assert "the part broke" in failed.detail
    assert failed.remedy


def test_a_part_that_changes_its_input_fails_that_check():
    with pytest.raises(CheckFailed, match="changed its input"):
        run_one(Mutating, "check_input_is_unchanged", Trial())


@pytest.mark.slow
def test_a_releasing_scorer_is_judged_for_every_release_it_may_make():
    trial = Trial(seed=1)
    for name in ("check_sensitivity", "check_noise_is_the_same_for_neighbors"):
        assert run_one(Centered, name, trial).samples > 0


def test_a_release_with_noise_scaled_by_the_data_fails():
    with pytest.raises(CheckFailed, match=r"emitted Laplace\(.*where its plan has Laplace\("):
        run_one(ScaledByTheCount, "check_noise_is_the_same_for_neighbors", Trial())


@pytest.mark.slow
def test_an_expected_failure_must_fail_and_progress_is_told_before_each_check():
    expected, other, *_ = FORGETFUL
    told = []
    report = run_checks(
        Forgetful,
        expected_failures={expected: "known"},
        only=[expected, other],
        progress=lambda check, done, checks: told.append((done, checks)),
    )
    assert (result(report, expected).status, result(report, other).status) == ("xfail", "failed")
    assert told == [(0, 2), (1, 2)]


@pytest.mark.slow
def test_the_reference_accountant_passes_and_an_expected_failure_that_passes_is_one():
    name = "check_repetition_is_a_loop"
    honest = partial(ReferenceAccountant, neighboring=Neighboring.ADD_OR_REMOVE_ONE)
    surprise = run_checks(honest, expected_failures={name: "known"})
    assert [r.check for r in surprise.results if r.status == "failed"] == [name]
    assert not surprise.ok
    assert "expected to fail" in result(surprise, name).detail


def test_an_expected_failure_needs_a_check_and_a_reason():
    with pytest.raises(ValueError, match="no reason"):
        run_checks(Forgetful, expected_failures={"check_repetition_is_a_loop": " "})
    with pytest.raises(ValueError, match="no check is called"):
        run_checks(Forgetful, expected_failures={"check_nothing": "because"})


def test_a_negative_seed_is_the_callers_fault_not_the_parts():
    with pytest.raises(ValueError, match="seed is -1"):
        run_checks(ReferenceScorer, seed=-1)


def test_the_kind_is_told_from_the_methods():
    assert kind_of(Constant) == "scorer"
    assert kind_of(ReferenceAccountant) == "accountant"
    with pytest.raises(ValueError, match="no kind"):
        kind_of(dict)


@pytest.mark.first(8)
@parametrize_with_checks([Forgetful], expected_failures=FORGETFUL)
def test_parametrized_checks_run(check):
    check()


def test_parametrization_has_one_item_for_each_check_and_marks_expected_failures():
    mark = parametrize_with_checks([Mutating], expected_failures={"check_input_is_unchanged": "known"})
    items = mark.args[1]
    assert len(items) == len(checks_for("scorer"))
    assert [bool(item.marks) for item in items].count(True) == 1


def test_a_forecast_grows_with_what_the_thorough_run_does_again():
    once = Result("check_protocol", "static", "passed", "", "", 3.0, 0, 1.0)
    again = Result("check_ties", "privacy", "passed", "", "", 2.0, 10, 1.0)
    report = Report("module:Part", "accountant", (once, again), thorough=False, seed=0)
    assert report.forecast == pytest.approx(3 + 10 * 2)


@pytest.mark.slow
def test_the_kit_needs_no_pytest():
    code = "import sys, dpkit_check; sys.exit('pytest' in sys.modules or 'scipy.stats' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@attrs.frozen
class Long(Constant):
    """Takes long by default; says with which value it is to be tried."""

    rounds: int = attrs.field(default=1000, metadata={"checked": 3})
    depth: int = 5

    def __attrs_post_init__(self):
        if self.depth > 8:
            raise ValueError("depth is at most 8")


def test_a_part_is_tried_with_the_small_options_that_it_suggests_and_the_report_says_so():
    make = with_options(Long, {})
    assert make() == Long(rounds=3)
    assert with_options(Long, {"rounds": 7, "depth": 2})() == Long(rounds=7, depth=2)
    assert with_options(Constant, {}) is Constant
    report = run_checks(make, only=["check_protocol"])
    assert report.options == {"rounds": 3}
    assert "Attacked with rounds = 3, and not with the defaults alone." in report.statement
    assert report.to_document()["options"] == {"rounds": 3}


def test_the_default_of_a_suggested_option_is_one_of_the_values_that_are_tried():
    tried = [other() for _, other in variants(with_options(Long, {}))]
    assert Long(rounds=1000) in tried
    assert Long(rounds=6) in tried
    assert Long(rounds=1000) not in [other() for _, other in variants(with_options(Long, {"rounds": 4}))]


def test_an_option_that_the_part_does_not_have_or_take_is_refused_before_anything_is_tried():
    with pytest.raises(InvalidOption, match="it has sensitivity_number, rounds, depth"):
        with_options(Long, {"deep": 2})
    with pytest.raises(InvalidOption, match="depth is at most 8"):
        with_options(Long, {"depth": 9})


@attrs.frozen
class NoPlan:
    """Says what it is and how it selects, but not what that costs."""

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "none"
    reference: ClassVar[str] = "none"

    def select(self, scores, plan, meter, /):
        return tuple(range(scores.round.picks))


def test_nothing_else_is_asked_of_a_part_that_lacks_a_member_of_its_protocol():
    kinds = [c.name for c in checks_for("selector") if c.name != "check_import_is_cheap"]
    report = run_checks(NoPlan, only=kinds)
    assert [r.check for r in report.results if r.status == "failed"] == ["check_protocol"]
    spared = [r for r in report.results if r.detail == "not run: protocol first"]
    assert {r.status for r in spared} == {"skipped"}
    needing = [c for c in checks_for("selector") if c.group != "static"]
    assert [r.check for r in spared] == [c.name for c in needing]
    assert f"{len(spared)} of the skipped need the members" in report.statement
    reason = {"check_protocol": "its plan comes from elsewhere"}
    only = ["check_protocol", "check_only_candidates_are_picked"]
    spoken = run_checks(NoPlan, expected_failures=reason, only=only)
    assert [r.status for r in spoken.results] == ["xfail", "failed"]


def test_nor_is_it_under_pytest():
    items = {item.id: item.values[0] for item in parametrize_with_checks([NoPlan]).args[1]}
    with pytest.raises(pytest.skip.Exception, match="not run: protocol first"):
        items["NoPlan-only_candidates_are_picked"]()
    items["NoPlan-documented"]()
    with pytest.raises(CheckFailed, match="plan"):
        items["NoPlan-protocol"]()


def test_a_part_of_which_nothing_was_compared_is_not_judged():
    """Every attack of the claim was skipped; what a part does beside its release is no claim."""
    attacks = ("check_draws_are_covered", "check_no_budget_tells_nothing")
    skipped = [result_of(name, "privacy", "skipped", "it rejects every request") for name in attacks]
    beside = result_of("check_nothing_is_remembered", "privacy", "passed")
    unjudged = report_of(*skipped, beside)
    assert unjudged.ok
    assert not unjudged.judged
    assert unjudged.verdict == "not judged"
    assert "Not judged" in unjudged.statement
    judged = report_of(skipped[0], result_of(attacks[1], "privacy", "passed"))
    assert judged.verdict == "passed"
    denied = report_of(result_of(attacks[0], "privacy", "skipped", "it claims no privacy, and says why: x"))
    assert denied.verdict == "passed"


def test_one_cause_is_told_once_where_there_is_something_to_look_at():
    far = result_of("check_no_budget_tells_nothing", "privacy", "failed", "many runs")
    near = attrs.evolve(result_of("check_draws_are_covered", "privacy", "failed", "moves"), scene={"a": 1})
    house = result_of("check_models_have_one_shape", "numerical", "failed", "grows")
    place = "raised KeyError: 1\n  File a\n  in line 3"
    raised = [result_of(f"check_{i}", "privacy", "failed", place) for i in range(3)]
    report = report_of(far, house, near, *raised)
    assert report.causes == ((near, (far,)), (house, ()), (raised[0], tuple(raised[1:])))
    assert report.verdict == "not private"
    assert report_of(house, *raised).verdict == "not as we ask"


def result_of(check, group, status, detail=""):
    return Result(check, group, status, detail, "", 0.1, 1, 1.0)


def report_of(*results):
    return Report("part", "regressor", results, thorough=False, seed=0)
