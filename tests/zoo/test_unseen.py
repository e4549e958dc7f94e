"""What was written before the kit was asked: what it missed then is found now, and honest parts pass.

First verdicts are in ``verdicts.csv``, as round 11.
"""

import importlib

import pytest
from dpkit_check import checks_for, kind_of, run_checks

from zoo.rows import verdicts

ROUND = [verdict for verdict in verdicts() if verdict["round"] == "11"]

#: None has a ``proof`` that leads to a page, which the kit asks of a published part.
BESIDE = "check_documented"

KINDS = ("scorers", "selectors", "regressors", "accountants")


def part(row):
    module, _, name = row.rpartition(".")
    return getattr(importlib.import_module(f"zoo.{module}"), name)


def asked(part, only=()):
    kind = kind_of(part)
    names = [check.name for check in checks_for(kind) if check.name != BESIDE]
    report = run_checks(part, kind, only=only or names)
    return report, [(result.check, result.detail) for result in report.results if result.status == "failed"]


def cases(verdicts, fast=()):
    return [
        pytest.param(v, id=v["part"], marks=[] if v["part"] in fast else [pytest.mark.slow]) for v in verdicts
    ]


MISSED = [v for v in ROUND if v["truth"] == "false" and v["first verdict"] == "passed"]
ALARMS = [v for v in ROUND if v["truth"] == "honest" and v["first verdict"] != "passed"]


@pytest.mark.parametrize("verdict", cases(MISSED, {"LargestSeen", "ClassicalGaussian"}))
def test_what_was_missed_at_first_is_found(verdict):
    checks = [f"check_{name}" for name in verdict["verdict"].removeprefix("rejected by ").split()]
    report, failed = asked(part(verdict["row"]), checks)
    assert [check for check, _ in failed] == checks
    assert report.verdict == "not private"


@pytest.mark.parametrize("verdict", cases(ALARMS))
def test_honest_parts_that_were_rejected_at_first_are_not(verdict):
    kept = {check.name for check in checks_for(verdict["kind"])}  # some have been merged since
    checks = [f"check_{name}" for name in verdict["first verdict"].removeprefix("rejected by ").split()]
    checks = [check for check in checks if check in kept]
    assert asked(part(verdict["row"]), checks)[1] == []


@pytest.mark.exhaustive
@pytest.mark.parametrize("verdict", ROUND, ids=lambda verdict: verdict["part"])
def test_what_is_false_is_rejected_and_nothing_else(verdict):
    assert bool(asked(part(verdict["row"]))[1]) is (verdict["truth"] == "false")


def test_the_round_has_all_that_was_written():
    written = {}
    for kind in KINDS:
        false = importlib.import_module(f"zoo.unseen.{kind}").FALSE
        honest = importlib.import_module(f"zoo.unseen.honest_{kind}").HONEST
        written |= dict.fromkeys((f"unseen.{kind}.{one.__name__}" for one in false), "false")
        written |= dict.fromkeys((f"unseen.honest_{kind}.{one.__name__}" for one in honest), "honest")
    assert {verdict["row"]: verdict["truth"] for verdict in ROUND} == written
    assert all(kind_of(part(verdict["row"])) == verdict["kind"] for verdict in ROUND)
