"""The kit itself: which checks run, how results are reported, what counts as a failure."""

import json
import subprocess
import sys

import attrs
import pytest

from dpkit_core import Neighboring, Sensitivity
from dpkit_core.testing import ReferenceAccountant, checks_for, kind_of, run_checks, trial_for
from dpkit_core.testing.kit import FALSE_ALARM, KINDS
from dpkit_core.testing.pytest import parametrize_with_checks


@attrs.frozen
class Constant:
    """The same score for every feature."""

    api = 1
    proof = "it never moves"
    reference = "none"
    adaptive = False
    sensitivity_number: float = 1.0

    def sensitivity(self, schema, round, /):
        return Sensitivity.general(self.sensitivity_number, schema.neighboring)

    def prepare(self, data, /):
        return _Zeros(data.X.shape[1])


@attrs.frozen
class _Zeros:
    features: int

    def scores(self, selected, /):
        import numpy as np

        return np.zeros(self.features)


class Mutating(Constant):
    def prepare(self, data, /):
        data.X.flags.writeable = True
        data.X[0] = 0
        return _Zeros(data.X.shape[1])


class Raises(Constant):
    def prepare(self, data, /):
        raise RuntimeError("the part broke")


def result(report, name):
    return next(r for r in report.results if r.check == name)


def test_a_faultless_part_passes_and_every_check_of_its_kind_is_reported():
    report = run_checks(Constant)
    assert report.ok, report.statement
    assert [r.check for r in report.results] == [check.name for check in checks_for("scorer")]
    assert result(report, "check_release_keeps_its_plan").status == "skipped"
    assert json.loads(json.dumps(report.to_document()))["ok"] is True
    for words in ("12 checks", "at most 0.001", "proves no privacy"):
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
    shares = sum(trial_for(kind).error for check in checks if check.statistical)
    assert shares <= FALSE_ALARM * (1 + 1e-9)


def test_a_failure_is_reported_with_its_remedy():
    report = run_checks(Raises)
    failed = result(report, "check_scores_are_finite_vectors")
    assert not report.ok
    assert failed.status == "failed"
    assert "the part broke" in failed.detail
    assert failed.remedy


def test_a_part_that_changes_its_input_fails_that_check():
    assert result(run_checks(Mutating), "check_input_is_unchanged").status == "failed"


def test_an_expected_failure_needs_a_reason_and_must_fail():
    reason = {"check_input_is_unchanged": "known"}
    assert (
        result(run_checks(Mutating, expected_failures=reason), "check_input_is_unchanged").status == "xfail"
    )
    surprise = run_checks(Constant, expected_failures=reason)
    assert not surprise.ok
    assert "expected to fail" in result(surprise, "check_input_is_unchanged").detail
    with pytest.raises(ValueError, match="no reason"):
        run_checks(Constant, expected_failures={"check_input_is_unchanged": " "})
    with pytest.raises(ValueError, match="no check is called"):
        run_checks(Constant, expected_failures={"check_nothing": "because"})


def test_the_kind_is_told_from_the_methods():
    assert kind_of(Constant) == "scorer"
    assert kind_of(ReferenceAccountant) == "accountant"
    with pytest.raises(ValueError, match="no kind"):
        kind_of(dict)


def test_the_reference_accountant_passes():
    report = run_checks(lambda neighboring=Neighboring.ADD_OR_REMOVE_ONE: ReferenceAccountant(neighboring))
    assert report.ok, [r for r in report.results if r.status == "failed"]


def test_progress_is_told_before_each_check():
    told = []
    run_checks(Constant, progress=lambda check, done, checks: told.append((done, checks)))
    assert told == [(i, 12) for i in range(12)]


@parametrize_with_checks([Constant], expected_failures={})
def test_parametrized_checks_run(check):
    check()


def test_parametrization_has_one_item_for_each_check_and_marks_expected_failures():
    mark = parametrize_with_checks([Mutating], expected_failures={"check_input_is_unchanged": "known"})
    items = mark.args[1]
    assert len(items) == len(checks_for("scorer"))
    assert [bool(item.marks) for item in items].count(True) == 1


def test_the_kit_needs_no_pytest():
    code = "import sys, dpkit_core.testing; sys.exit('pytest' in sys.modules or 'scipy.stats' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
