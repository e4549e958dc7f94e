"""What was written before the kit was asked: what it missed then is found now, and honest parts pass.

First verdicts are in ``verdicts.csv``, as rounds 11 to 17.
"""

import importlib

import pytest
from dpkit_check import checks_for, kind_of, run_checks

from zoo.rows import verdicts

KINDS = ("scorers", "selectors", "regressors", "accountants")

#: Round -> the folder of what was written, and what it lists of a kind of false and of honest parts.
FOLDERS = {
    "11": ("unseen", "FALSE", "HONEST"),
    "12": ("unseen.round12", "LIES", "PROOFS"),
    "13": ("unseen.round13", "LIES", "PROOFS"),
    "14": ("unseen.round14", "LIES", "PROOFS"),
    "15": ("unseen.round15", "LIES", "PROOFS"),
    "16": ("unseen.round16", "LIES", "PROOFS"),
    "17": ("unseen.round17", "LIES", "PROOFS"),
}

#: Found, or let pass, in more than a few seconds; or of a module of which another part shows the same.
LONG = {
    *("TournamentPeel", "CoinsSelector", "ProjectedRegressor", "SmallNumbersSelector", "OneSampleRegressor"),
    *("TwoStageSelector", "BackwardSelector", "TriesSelector", "NoneOfThemSelector", "SystematicSelector"),
    *("WholeWeightsSelector", "LogScaleScorer"),
    *("AllGaussianAccountant", "LeastAccountant", "FewOrdersAccountant", "KindByKindAccountant"),
    *("SaturatedSelector", "FlippedSelector", "AllPairsSelector", "SignVotesRegressor", "TournamentSelector"),
    *("SameHalfRegressor", "UpperScorer", "InformationScorer", "AmplifiedSelector", "CategoryScorer"),
    *("TestedMedianRegressor", "WindowSelector", "BucketsScorer", "FixedPointProducts", "OneNumber"),
}

#: Found at first by an alarm that was false of an honest part.
BY_ALARM = {"SignVotesRegressor"}

#: Honest bases or twins of lies, and the checks that find these: the same laws hold of them, some just so.
BASES = {
    "round15.regressors.MedianRegressor": "check_noise_is_the_same_for_neighbors",
    "round15.regressors.HalfSampleRegressor": "check_own_noise_is_paid_for",
    "round15.regressors.CommonRegressor": "check_records_of_one_person_are_covered",
    "round15.selectors.ExploringSelector": "check_chosen_noise_hides_the_scores",
    "round15.selectors.QuartersSelector": "check_chosen_noise_hides_the_scores",
    "round15.selectors.SparseVectorSelector": "check_chosen_noise_hides_the_scores",
    "round16.honest_regressors.EndedNoiseRegressor": "check_own_noise_is_paid_for",
    "round16.honest_regressors.WholePersonRegressor": "check_records_of_one_person_are_covered",
    "round17.honest_selectors.GroupsSelector": "check_chosen_noise_hides_the_scores",
    "round17.honest_accountants.ChordAccountant": "check_never_below_the_exact_law",
}

ROUNDS = [verdict for verdict in verdicts() if verdict["round"] in FOLDERS]

#: None has a ``proof`` that leads to a page, which the kit asks of a published part.
BESIDE = "check_documented"


def part(row):
    module, _, name = row.rpartition(".")
    return getattr(importlib.import_module(f"zoo.{module}"), name)


def asked(part, only=()):
    kind = kind_of(part)
    names = [check.name for check in checks_for(kind) if check.name != BESIDE]
    report = run_checks(part, kind, only=only or names)
    return report, [(result.check, result.detail) for result in report.results if result.status == "failed"]


def recorded(verdict, told="verdict"):
    """Return the checks that a verdict names, but for those that have been merged into others since."""
    kept = {check.name for check in checks_for(verdict["kind"])}
    names = [f"check_{name}" for name in verdict[told].removeprefix("rejected by ").split()]
    return [name for name in names if name in kept]


def cases(verdicts):
    return [
        pytest.param(v, id=v["part"], marks=pytest.mark.exhaustive if v["part"] in LONG else pytest.mark.slow)
        for v in verdicts
    ]


MISSED = [
    v
    for v in ROUNDS
    if v["truth"] == "false"
    and v["verdict"] != "passed"
    and (v["first verdict"] == "passed" or v["part"] in BY_ALARM)
]
ALARMS = [v for v in ROUNDS if v["truth"] == "honest" and v["first verdict"] != "passed"]


@pytest.mark.parametrize("verdict", cases(MISSED))
def test_what_was_missed_at_first_is_found(verdict):
    checks = recorded(verdict)
    report, failed = asked(part(verdict["row"]), checks)
    assert [check for check, _ in failed] == checks
    assert report.verdict == "not private"


@pytest.mark.parametrize("verdict", cases(ALARMS))
def test_honest_parts_that_were_rejected_at_first_are_not(verdict):
    assert asked(part(verdict["row"]), recorded(verdict, "first verdict"))[1] == []


@pytest.mark.exhaustive
@pytest.mark.parametrize(("name", "check"), BASES.items(), ids=BASES)
def test_the_honest_base_of_a_lie_passes_what_finds_it(name, check):
    assert asked(part(f"unseen.{name}"), [check])[1] == []


@pytest.mark.exhaustive
@pytest.mark.parametrize("verdict", ROUNDS, ids=lambda verdict: verdict["part"])
def test_the_verdict_is_the_recorded_one(verdict):
    # What is false is asked for the checks that rejected it alone; what is honest, for all.
    failed = asked(part(verdict["row"]), recorded(verdict))[1]
    assert bool(failed) is (verdict["verdict"] != "passed")


@pytest.mark.parametrize("number", FOLDERS)
def test_the_round_has_all_that_was_written(number):
    folder, false, honest = FOLDERS[number]
    written = {}
    for kind in KINDS:
        for module, listed, truth in ((kind, false, "false"), (f"honest_{kind}", honest, "honest")):
            parts = getattr(importlib.import_module(f"zoo.{folder}.{module}"), listed)
            names = [one if isinstance(one, str) else one.__name__ for one in parts]
            written |= dict.fromkeys((f"{folder}.{module}.{name}" for name in names), truth)
    told = [verdict for verdict in ROUNDS if verdict["round"] == number]
    assert {verdict["row"]: verdict["truth"] for verdict in told} == written
    assert all(kind_of(part(verdict["row"])) == verdict["kind"] for verdict in told)
