"""Every false part is found by the attack that its row names, and no honest part is rejected.

``verdicts.csv`` has what the kit said of each when it was first asked, before it was repaired.
"""

import importlib
import itertools
import json

import attrs
import numpy as np
import pytest
from dpkit_check import CheckFailed, Pair, box, checks_for, kind_of, run_checks
from dpkit_check.attacks import digits, outcomes, persons, samples
from dpkit_check.attacks.branches import draws_keep_the_law
from dpkit_check.cases.regressors import served
from dpkit_check.recipes import TABLES

from dpkit_core import Budget, Neighboring
from dpkit_core.plugins.kinds import PARTS
from zoo.published import PUBLISHED as ROWS
from zoo.published import iterates, sums
from zoo.rows import CLOSED, HONEST, LIES, lie, verdicts
from zoo.test_unseen import MISSED
from zoo.test_unseen import part as unseen
from zoo.twins import Means

SUBJECTS = (
    "branches", "sensitivity", "corners", "growth", "composition", "sampling", "tails",
    "ties", "order", "state", "leaks", "refusals", "under_test", "persons", "parties", "elsewhere", "rare",
    "totals", "house", "heavy",
)  # fmt: skip

for module in ("twins", "honest", "odd", *SUBJECTS):
    importlib.import_module(f"zoo.{module}")


#: Attack -> a lie that it finds, and no other attack: without it, it would pass. What is in ``zoo.branches``
#: is found by one attack alone, too.
ALONE = {
    "any_output_is_possible_for_neighbors": "FewBits",
    "batches_are_disjoint": "StaysInItsBatch",
    "chosen_noise_hides_the_scores": "unseen.round12.selectors.CompactPeel",
    "documented": "Unproved",
    "doors_are_covered": "SharedSlice",
    "draws_are_covered": "unseen.round12.regressors.LeanRegressor",
    "dry_runs_change_nothing": "NewWhenSent",
    "events_of_a_sequence_are_steps": "PairByPair",
    "every_branch_keeps_the_law": "MissingIsMarked",
    "extreme_tables_are_fitted": "SquareOverflows",
    "forked_workers_differ": "FewInAdvance",
    "forms_agree": "MiddleOfBounds",
    "import_is_cheap": "LoadsAtOnce",
    "input_is_unchanged": "InPlace",
    "it_is_the_same_where_nobody_tests": "ProductionAccountant",
    "last_digits_tell_nothing": "LongTailsRegressor",
    "memory_layout_is_irrelevant": "AsTheyLie",
    "mixtures_are_never_below": "LargestDelta",
    "model_is_made_of_answers": "NothingIsLeft",
    "models_have_one_shape": "InAColumn",
    "neighbors_cannot_be_told_apart": "LowerBoundTwice",
    "never_below_the_exact_law": "CurveRho",
    "no_budget_tells_nothing": "unseen.selectors.WholeBlocks",
    "noise_is_the_same_for_neighbors": "NoisierWithRecords",
    "nothing_is_remembered": "KnowsItsTable",
    "nothing_leaves_beside_the_release": "WritesALog",
    "only_candidates_are_picked": "LastResort",
    "options_are_frozen_data": "LikeNoOther",
    "other_relations_are_refused": "AnyRelation",
    "own_noise_is_paid_for": "unseen.regressors.ClassicalGaussian",
    "picks_follow_from_answers": "ManyByTruth",
    "plans_keep_the_budget": "ChargedAsOne",
    "protocol": "OfAnotherTime",
    "randomness_is_the_meters": "Shuffled",
    "records_of_one_person_are_covered": "CopiesAfterAPick",
    "releases_keep_their_plan": "KeptInAnOption",
    "repetition_is_a_loop": "unseen.round12.accountants.OnceAccountant",
    "samples_are_poisson_samples": "SampledMeanRegressor",
    "scores_are_deterministic": "Jitter",
    "scores_are_finite_vectors": "SquaresOverflow",
    "scores_follow_the_features": "OffByOne",
    "selection_hides_the_scores": "OneScaleSelector",
    "sensitivity": "NativeUnitsScorer",
    "sums_are_made_of_shares": "unseen.round15.scorers.BlocksScorer",
    "supports_tells_the_truth": "PassesOver",
    "ties_are_broken_evenly": "AsTheyCome",
    "values_add_up_over_parties": "CappedTotals",
}

#: Attacks on parts as only the published lies are made from, and a lie that only they find.
PUBLISHED = {
    "check_iterates_are_what_is_said_of_them": iterates.OfTheMean,
    "check_records_answer_for_themselves": sums.ShrunkExactly,
    "check_scores_are_read_off_any_noise": iterates.RootOfNoise,
    "check_scores_are_read_off_releases": iterates.HalfOfTheDeviation,
    "check_scores_of_iterates_are_finite": iterates.NoneAmongScores,
    "check_scores_of_iterates_keep_their_sensitivity": iterates.AddedOnly,
    "check_thresholds_keep_their_budget": iterates.ThresholdByRange,
}

FOUND_ALONE = [
    *(
        (row.part, row.found_by)
        for row in LIES
        if row.part.__module__ == "zoo.branches" or row.name in ALONE.values()
    ),
    *((unseen(name), f"check_{check}") for check, name in ALONE.items() if name.startswith("unseen.")),
    *((part, check) for check, part in PUBLISHED.items()),
]

#: Checks whose witnesses are tables or scores, with which the failure is seen again.
WITH_TABLES = {
    "check_sensitivity",
    "check_draws_are_covered",
    "check_model_is_made_of_answers",
    "check_samples_are_poisson_samples",
    "check_last_digits_tell_nothing",
    "check_batches_are_disjoint",
    "check_picks_follow_from_answers",
    "check_records_of_one_person_are_covered",
    "check_events_of_a_sequence_are_steps",
    "check_every_branch_keeps_the_law",
    "check_doors_are_covered",
    "check_own_noise_is_paid_for",
}

#: Found by the law of lists between two scores, which a witness holds, by an audit of two tables, or by their
#: noise; chances in tails have none.
SAMPLED = {
    "GainListSelector",
    "SampledSelector",
    "LowerBoundTwice",
    "ResidualsFromZero",
    "DropsTheOddRow",
    "NoisierWithRecords",
    "OneScaleSelector",
}


def witnessed(row):
    """Return whether what finds the lie keeps the tables or scores by which it did."""
    return row.name in SAMPLED or (row.found_by in WITH_TABLES and kind_of(row.part) != "accountant")


#: Of each attack and kind of part, the row whose witness is tried again: of others it would show the same.
AGAIN = {
    (row.found_by, kind_of(row.part)): row
    for row in reversed(LIES)
    if row.effort == "slow" and witnessed(row)
}

#: What honest parts were once rejected by, or were written to be.
ALARMS = {
    "ToOneDecimal": ["check_randomness_is_the_meters", "check_model_is_made_of_answers"],
    "Decimals": ["check_never_below_the_exact_law", "check_repetition_is_a_loop"],
    "FirstColumnsFirst": ["check_scores_follow_the_features"],
    "CappedScorer": ["check_scores_follow_the_features"],
    "RoundedLines": ["check_own_noise_is_paid_for"],
    "RoundedMeanRegressor": ["check_batches_are_disjoint"],
    "TwoExponentials": ["check_chosen_noise_hides_the_scores"],
    "SparseVector": ["check_chosen_noise_hides_the_scores"],
    "Ascending": ["check_chosen_noise_hides_the_scores"],
    "Plain": ["check_options_are_frozen_data"],
    "Kept": ["check_options_are_frozen_data"],
    "BySigns": ["check_scores_follow_the_features"],
    "StreamsAlone": ["check_forms_agree", "check_releases_keep_their_plan"],
    "UpToFifty": ["check_sensitivity", "check_every_branch_keeps_the_law"],
    "ByTaste": ["check_ties_are_broken_evenly"],
    "FromTheEnd": ["check_ties_are_broken_evenly", "check_randomness_is_the_meters"],
    "Branching": ["check_models_have_one_shape", "check_randomness_is_the_meters"],
}

#: Of these, what takes seconds.
LONG = {"UpToFifty", "RoundedLines", "Decimals", "SparseVector", "Ascending"}


def checked(part, only=(), scenes=None):
    return run_checks(part, kind_of(part), only=only, scenes=scenes)


@pytest.mark.parametrize(
    "row", [pytest.param(row, marks=getattr(pytest.mark, row.effort), id=row.name) for row in LIES]
)
def test_the_attack_finds_the_lie(row, monkeypatch):
    check = row.found_by
    if row.effort != "exhaustive":
        # What so few runs find, the kit's own number does.
        monkeypatch.setattr(samples, "SCREENING", ((12, 8), (60, 2)))
        monkeypatch.setattr(samples, "RUNS", 500)
        monkeypatch.setattr(digits, "RUNS", 800)
        monkeypatch.setattr(outcomes, "SCREENING", ((16, 8), (60, 3), (160, 1)))
        monkeypatch.setattr(outcomes, "RUNS", 1500)
        monkeypatch.setattr(persons, "AUDITED", 2400)
    report = checked(row.part, [check])
    assert not report.ok, report.statement
    if row.effort == "exhaustive":
        return
    (found,) = report.results
    assert (found.scene is not None) is witnessed(row)
    if AGAIN.get((check, report.kind)) is row:
        again = checked(row.part, [check], {check: json.loads(json.dumps(found.scene))})
        assert not again.ok, again.statement
        assert again.results[0].scene == found.scene


@pytest.mark.slow
@pytest.mark.parametrize(
    ("check", "part"),
    [(check, part) for check, part in PUBLISHED.items() if all(row.part is not part for row in ROWS)],
)
def test_an_attack_finds_a_lie_about_iterates_or_sums_and_lets_its_twin_pass(check, part):
    assert not checked(part, [check]).ok
    assert checked(part.__base__, [check]).ok


@pytest.mark.slow
@pytest.mark.parametrize(
    ("check", "name"),
    [
        (check, name)
        for check, name in ALONE.items()
        if name.startswith("unseen.") and name not in {verdict["row"] for verdict in MISSED}
    ],
)
def test_the_attack_finds_what_was_found_at_once_and_by_it_alone(check, name):
    assert not checked(unseen(name), [f"check_{check}"]).ok


# Why the attack is there. A failure hides no fault of a part: another attack came to find the lie as well.
@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("part", "check"),
    FOUND_ALONE,
    ids=lambda x: x if isinstance(x, str) else x.__name__,
)
def test_a_lie_is_found_by_one_attack_alone(part, check):
    failed = [r.check for r in checked(part).results if r.status == "failed"]
    # Parts of unseen rounds name no page of a proof; modules of published claims import the kit's attacks.
    beside = {"zoo.unseen": "check_documented", "zoo.published": "check_import_is_cheap"}
    home = ".".join(part.__module__.split(".")[:2])
    assert [name for name in failed if name != beside.get(home)] == [check]


def test_a_pair_of_which_one_raises_is_told_as_that_pair():
    @attrs.frozen
    class NoneOfTwelve(Means):
        def model(self, data, mean):
            if data.records == 12:
                raise ArithmeticError("not of twelve")
            return super().model(data, mean)

    case = served(NoneOfTwelve, TABLES[0].schema(), Budget(1.0, 1e-6))
    pair = case.population.datasets(TABLES[0].pair(case.population))
    with pytest.raises(CheckFailed, match="neighbors raises ArithmeticError: not of twelve; the") as failed:
        draws_keep_the_law(case, pair)
    assert [len(table) for table in failed.value.scene["tables"]] == [13, 12]


@pytest.mark.parametrize("relation", Neighboring)
@pytest.mark.parametrize(("part", "followed"), [(sums.ClippedMean, True), (sums.ShrunkExactly, False)])
def test_sums_are_followed_where_no_other_record_contributes_otherwise(part, followed, relation):
    case = served(part, box(1, relation), Budget(1.0, 1e-6))
    records = np.array([[1.0, 1.0], [0.5, -0.25], [1.0, 0.75]])
    for row in range(3):
        pair = Pair(records, row, -records[row] if relation is Neighboring.REPLACE_ONE else None)
        for tables in itertools.permutations(case.population.datasets(pair)):
            assert outcomes.followed(case, tables, seed=row, neighbors=True) is followed


def test_a_lie_of_one_attack_alone_is_filed_under_it():
    filed = {row.name: (row.found_by, row.effort) for row in LIES}
    for check, name in ALONE.items():
        assert name.startswith("unseen.") or filed[name] == (f"check_{check}", "slow")
    assert len(FOUND_ALONE) >= len(ALONE) + len(PUBLISHED)


def test_every_attack_has_a_lie_that_only_it_finds():
    attacks = {check.name for kind in PARTS for check in checks_for(kind)}
    assert {f"check_{check}" for check in ALONE} | set(PUBLISHED) == attacks
    assert {row.found_by for row in LIES} <= attacks


@pytest.mark.first(2)
@pytest.mark.parametrize(
    "part",
    [
        pytest.param(part, marks=[pytest.mark.exhaustive] if part.__name__ in LONG else [], id=part.__name__)
        for part in HONEST
        if part.__name__ in ALARMS
    ],
)
def test_what_was_once_a_false_alarm_is_none(part):
    report = checked(part, ALARMS[part.__name__])
    assert report.ok, [r.detail for r in report.results]


@pytest.mark.exhaustive
@pytest.mark.parametrize("part", HONEST, ids=lambda part: part.__name__)
def test_what_is_honest_passes(part):
    report = checked(part)
    assert report.ok, [(r.check, r.detail) for r in report.results if r.status == "failed"]


def test_every_verdict_is_of_a_part_that_is_here():
    found = {"false": {row.name: row.part for row in LIES}, "honest": {p.__name__: p for p in HONEST}}
    for verdict in verdicts():
        if verdict["row"].startswith("unseen."):
            continue  # test_unseen looks at these
        if verdict["row"]:
            assert kind_of(found[verdict["truth"]][verdict["row"]]) == verdict["kind"]
        else:
            assert verdict["part"] in CLOSED


def test_every_row_has_a_first_verdict_and_a_name_of_its_own():
    assert all(row.first and row.says for row in LIES)
    names = [*(row.name for row in LIES), *(part.__name__ for part in HONEST)]
    assert len(set(names)) == len(names)


def test_every_subject_has_rows():
    modules = {row.part.__module__ for row in LIES}
    assert modules == {f"zoo.{subject}" for subject in SUBJECTS}


class Twin:
    one = two = None


def test_a_row_replaces_one_member():
    with pytest.raises(ValueError, match="changes nothing; a row replaces one member"):
        lie("x")(type("Same", (Twin,), {}))
    with pytest.raises(ValueError, match="changes one, two; a row replaces one member"):
        lie("x")(type("Other", (Twin,), {"one": 1, "two": 2}))
    with pytest.raises(ValueError, match="changes one, helper; a row replaces one member"):
        lie("x")(type("Longer", (Twin,), {"one": 1, "helper": 2}))
    assert not any(row.name in {"Same", "Other", "Longer"} for row in LIES)
