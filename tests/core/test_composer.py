import contextlib

import attrs
import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from dpkit_core import Budget, Dataset, Neighboring, Randomness, Schema, StagePlan, compose
from dpkit_core.errors import (
    CannotCompose,
    InvalidData,
    InvalidOption,
    PartFailed,
    PlanViolation,
    UnknownName,
)
from dpkit_core.plugins.registry import Registry
from dpkit_core.privacy.events import ExponentialMechanism, Laplace, NonPrivate, Repeated

RO = Neighboring.REPLACE_ONE


@pytest.fixture
def pipeline(toys):
    return compose(
        scorer=toys.SumScorer(),
        selector=toys.BestSelector(),
        regressor=toys.MeanRegressor(),
        accountant=toys.PureAccountant(),
    )


def test_the_plan_says_who_spends_what(pipeline, schema):
    plan = pipeline.plan(schema, Budget(2.0), k=2, select_share=0.25)
    selection, regression = plan.events
    assert (selection.stage, regression.stage) == ("selection", "regression")
    pick = ExponentialMechanism(selection.event.event.epsilon, sensitivity=2.0, candidates=4)
    assert selection.event == Repeated(pick, 2)
    assert selection.event.event.epsilon == pytest.approx(0.25, rel=2e-4)
    assert 1 / regression.event.noise_multiplier == pytest.approx(1.5, rel=2e-4)
    assert plan.epsilon == pytest.approx(2.0, rel=2e-4)
    assert plan.epsilon <= 2.0


def test_what_joint_composition_saves_goes_back_to_the_stages(toys, schema):
    pipeline = compose(
        scorer=toys.SumScorer(),
        selector=toys.BestSelector(),
        regressor=toys.MeanRegressor(),
        accountant=toys.SquareRootAccountant(),
    )
    plan = pipeline.plan(schema, Budget(1.0), k=1, select_share=0.5)
    selection, regression = (stage.plan.settings for stage in plan.stages)
    # Two equal stages of cost c: sqrt(2) c = 1, so each gets 0.707 and not 0.5.
    assert selection.epsilon == pytest.approx(0.5**0.5, rel=1e-3)
    assert 1 / regression.noise_multiplier == pytest.approx(0.5**0.5, rel=1e-3)
    assert plan.epsilon <= 1.0


def test_a_run_returns_what_was_planned(pipeline, schema, data):
    plan = pipeline.plan(schema, Budget(1000.0), k=2)
    release = plan.run(data)
    assert release.selected == ("b", "d")
    assert release.model.features == ("b", "d")
    assert release.model.intercept == pytest.approx(data.y.mean(), abs=0.01)
    assert release.certificate.private
    assert release.certificate.reasons == ()
    assert release.certificate.events == plan.events
    assert release.certificate.assumptions == ("about 100 records", "the table is not empty")
    assert release.certificate.outcome == "released"


def test_parts_compute_with_one_thread_of_linear_algebra(toys, schema, data):
    seen = []

    def threads():
        return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}

    class Watching(toys.MeanRegressor):
        def fit(self, data, plan, meter, /):
            seen.append(threads())
            return super().fit(data, plan, meter)

    with threadpool_limits(limits=2, user_api="blas"):
        compose(regressor=Watching(), accountant=toys.PureAccountant()).plan(schema, Budget(1.0)).run(data)
        assert threads() == {2}
    assert seen == [{1}]


def test_an_adaptive_scorer_is_asked_once_a_pick(toys, schema, data):
    pipeline = compose(
        scorer=toys.SumScorer(adaptive=True), selector=toys.BestSelector(), accountant=toys.PureAccountant()
    )
    plan = pipeline.plan(schema, Budget(1000.0), k=3)
    assert [e.event.count for e in plan.events] == [1, 1, 1]
    assert plan.run(data).selected == ("b", "d", "c")


def test_a_regressor_alone_uses_every_feature(toys, schema, data):
    pipeline = compose(regressor=toys.MeanRegressor(), accountant=toys.PureAccountant())
    release = pipeline.plan(schema, Budget(1.0)).run(data)
    assert release.selected == ()
    assert release.model.features == data.names


def test_a_refusal_is_charged_and_is_not_an_error(toys, schema, data):
    pipeline = compose(regressor=toys.MeanRegressor(refuse=True), accountant=toys.PureAccountant())
    plan = pipeline.plan(schema, Budget(1.0))
    release = plan.run(data)
    assert release.model is None
    assert release.refusal == "too few records"
    assert release.certificate.outcome == "refused"
    assert release.certificate.events == plan.events
    assert release.certificate.epsilon == plan.epsilon


def test_a_seed_makes_a_release_reproducible_and_not_private(pipeline, schema, data):
    plan = pipeline.plan(schema, Budget(1.0), k=2)
    first, second = (plan.run(data, randomness=Randomness.from_seed(7)) for _ in range(2))
    assert first == second
    assert first.certificate.private is False
    assert "seed" in first.certificate.reasons[0]
    assert plan.run(data) != plan.run(data)


def test_every_problem_is_reported_at_once(toys):
    schema = Schema.numeric(["a", "b"], target="y", neighboring=RO)
    pipeline = compose(
        selector=toys.BestSelector(), regressor=toys.MeanRegressor(), accountant=toys.PureAccountant()
    )
    with pytest.raises(CannotCompose) as error:
        pipeline.plan(schema, Budget(1.0), k=5)
    assert len(error.value.problems) == 3
    message = str(error.value)
    assert "add a scorer" in message
    assert "k is 5, the schema has 2 features" in message
    assert "add-remove; schema: replace-one" in message


def test_a_part_that_cannot_serve_says_why(toys):
    pipeline = compose(regressor=toys.MeanRegressor(), accountant=toys.PureAccountant())
    with pytest.raises(CannotCompose, match="MeanRegressor: needs bounds of the target"):
        pipeline.plan(Schema.numeric(["a"], target="y"), Budget(1.0))


@pytest.mark.parametrize("k", [0, -1, 5])
def test_k_is_from_one_to_the_number_of_features(pipeline, schema, k):
    with pytest.raises(CannotCompose, match=f"k is {k}, the schema has 4 features"):
        pipeline.plan(schema, Budget(1.0), k=k)


def test_k_defaults_to_five_or_all(pipeline, schema):
    assert pipeline.plan(schema, Budget(1.0)).k == 4
    wide = Schema.numeric([f"x{i}" for i in range(9)], target="y", bounds={"y": (-1, 1)})
    assert pipeline.plan(wide, Budget(1.0)).k == 5


@pytest.mark.parametrize("share", [0.0, 1.0, -0.1, float("nan")])
def test_a_share_leaves_something_for_both(pipeline, schema, share):
    with pytest.raises(CannotCompose, match="select_share"):
        pipeline.plan(schema, Budget(1.0), k=2, select_share=share)


def test_an_event_that_the_accountant_does_not_know_is_found_in_the_plan(toys, schema):
    from dpkit_core.privacy.events import Gaussian

    @attrs.frozen
    class GaussianRegressor(toys.MeanRegressor):
        def plan(self, request, /):
            return StagePlan([Gaussian(1.0, sensitivity=1.0, shape=())])

    pipeline = compose(regressor=GaussianRegressor(), accountant=toys.PureAccountant())
    with pytest.raises(CannotCompose, match=r"PureAccountant cannot account for Gaussian"):
        pipeline.plan(schema, Budget(1.0))


def test_a_selection_too_noisy_for_its_arithmetic_is_refused(pipeline, schema):
    with pytest.raises(CannotCompose, match=r"selection at epsilon .*give another budget"):
        pipeline.plan(schema, Budget(1e-4), k=4, select_share=0.01)


def test_a_part_without_events_is_refused(toys, schema):
    @attrs.frozen
    class SilentRegressor(toys.MeanRegressor):
        def plan(self, request, /):
            return StagePlan([])

    pipeline = compose(regressor=SilentRegressor(), accountant=toys.PureAccountant())
    with pytest.raises(CannotCompose, match="must be planned as NonPrivate"):
        pipeline.plan(schema, Budget(1.0))


def test_a_release_without_privacy_says_so_and_claims_no_epsilon(toys, schema, data):
    @attrs.frozen
    class PlainMean(toys.MeanRegressor):
        def plan(self, request, /):
            return StagePlan([NonPrivate("the mean is released as it is")], arithmetic=["float64"])

        def fit(self, data, plan, meter, /):
            from dpkit_core import LinearModel

            with meter.custom(plan.events[0], proof="none: not private", arithmetic="float64"):
                return LinearModel(data.names, np.zeros(len(data.names)), data.y.mean())

    pipeline = compose(regressor=PlainMean(), accountant=toys.PureAccountant())
    certificate = pipeline.plan(schema, Budget(1.0)).run(data).certificate
    assert certificate.private is False
    assert certificate.reasons == ("the mean is released as it is",)
    assert certificate.epsilon is None
    assert certificate.in_words()[0].startswith("NOT PRIVATE")


@pytest.mark.parametrize("picks", [lambda k: [0] * k, lambda k: [0], lambda k: [-1, 0], lambda k: [0, 99]])
def test_a_selector_returns_distinct_candidates(toys, schema, data, picks):
    @attrs.frozen
    class Wrong(toys.BestSelector):
        def select(self, scores, plan, meter, /):
            meter.select(scores, scores.round.picks, event=plan.settings)
            return picks(scores.round.picks)

    pipeline = compose(scorer=toys.SumScorer(), selector=Wrong(), accountant=toys.PureAccountant())
    with pytest.raises(PlanViolation, match="2 distinct candidates among 4"):
        pipeline.plan(schema, Budget(1.0), k=2).run(data)


@pytest.mark.parametrize(
    "scores", [[1.0, np.nan, 0.0, 0.0], [np.inf, 0.0, 0.0, 0.0], [1.0, 2.0, 3.0], np.ones(5), np.ones((4, 1))]
)
def test_a_scorer_returns_one_finite_score_per_feature(toys, schema, data, scores):
    class Wrong(toys.SumScorer):
        def prepare(self, data, plan, meter, /):
            return lambda selected: scores

    class Careless(toys.BestSelector):
        """Looks at no score that it does not need."""

        def select(self, scores, plan, meter, /):
            meter.custom(plan.events[0], proof="none", arithmetic="none")
            return range(scores.round.picks)

    pipeline = compose(scorer=Wrong(), selector=Careless(), accountant=toys.PureAccountant())
    with pytest.raises(PlanViolation, match="scorer Wrong did not return one finite score for each of 4"):
        pipeline.plan(schema, Budget(1.0), k=2).run(data)


def test_a_scorer_that_raises_is_named_and_not_the_selector(toys, schema, data):
    class Failing(toys.SumScorer):
        def prepare(self, data, plan, meter, /):
            return lambda selected: 1 / 0

    pipeline = compose(scorer=Failing(), selector=toys.BestSelector(), accountant=toys.PureAccountant())
    with pytest.raises(PartFailed, match="scorer Failing failed while running") as error:
        pipeline.plan(schema, Budget(1.0), k=2).run(data)
    assert isinstance(error.value.__cause__, ZeroDivisionError)


def test_a_part_that_raises_releases_nothing(toys, schema, data):
    @attrs.frozen
    class Failing(toys.MeanRegressor):
        def fit(self, data, plan, meter, /):
            raise RuntimeError(f"private value {data.y[0]}")

    pipeline = compose(regressor=Failing(), accountant=toys.PureAccountant())
    with pytest.raises(PartFailed, match="regressor Failing failed while running") as error:
        pipeline.plan(schema, Budget(1.0)).run(data)
    assert "private value" not in str(error.value)


def test_data_of_another_schema_are_refused_before_anything_is_spent(pipeline, schema):
    plan = pipeline.plan(schema, Budget(1.0), k=2)
    other = Schema.numeric(["a", "b", "c", "e"], target="y", bounds={"y": (-1, 1)})
    stranger = Dataset.from_arrays(np.zeros((3, 4)), np.zeros(3), other)
    with pytest.raises(InvalidData, match="plan was made for a, b, c, d"):
        plan.run(stranger)


def test_data_with_other_bounds_are_refused_since_parts_clip_to_those_of_the_data(pipeline, schema):
    plan = pipeline.plan(schema, Budget(1.0), k=2)
    wider = Schema.numeric("abcd", target="y", bounds={"y": (-9, 9)})
    with pytest.raises(InvalidData, match=r"bounds \(-9.0, 9.0\) of y, the plan with \(-1.0, 1.0\)"):
        plan.run(Dataset.from_arrays(np.zeros((3, 4)), np.zeros(3), wider))


def test_a_public_number_of_records_is_that_of_the_data(toys, schema):
    public = attrs.evolve(schema, neighboring=Neighboring.REPLACE_ONE, records=7)
    accountant = toys.PureAccountant(neighboring=Neighboring.REPLACE_ONE)
    plan = compose(regressor=toys.MeanRegressor(), accountant=accountant).plan(public, Budget(1.0))
    with pytest.raises(InvalidData, match=r"3 records but .* records = 7"):
        plan.run(Dataset.from_arrays(np.zeros((3, 4)), np.zeros(3), public))


def test_an_error_of_a_part_after_its_first_draw_counts_as_spent_and_keeps_its_text(toys, schema, data):
    @attrs.frozen
    class Blabbing(toys.MeanRegressor):
        def fit(self, data, plan, meter, /):
            super().fit(data, plan, meter)
            raise InvalidData(f"private value {data.y[0]}")

    pipeline = compose(regressor=Blabbing(), accountant=toys.PureAccountant())
    with pytest.raises(PartFailed) as error:
        pipeline.plan(schema, Budget(1.0)).run(data)
    assert "private value" not in str(error.value)


def test_a_regressor_returns_a_model_or_a_refusal(toys, schema, data):
    @attrs.frozen
    class Nothing(toys.MeanRegressor):
        def fit(self, data, plan, meter, /):
            super().fit(data, plan, meter)

    pipeline = compose(regressor=Nothing(), accountant=toys.PureAccountant())
    with pytest.raises(PlanViolation, match="returned neither a Refusal nor a model"):
        pipeline.plan(schema, Budget(1.0)).run(data)


def test_a_part_that_cannot_use_all_of_its_budget_is_composed(toys, schema):
    @attrs.frozen
    class Modest(toys.MeanRegressor):
        def plan(self, request, /):
            return StagePlan([Laplace(10.0, request.neighboring, sensitivity=1.0, shape=())])

    plan = compose(regressor=Modest(), accountant=toys.PureAccountant()).plan(schema, Budget(1.0))
    assert plan.epsilon == pytest.approx(0.1)


def test_a_refused_option_is_named_in_a_sentence():
    with pytest.raises(
        InvalidOption, match=r"'penalty' must be in \('max', 'mean', 'capped', 'none'\) \(got 'median'\)$"
    ):
        compose(scorer="kendall", selector="peel", options={"scorer": {"penalty": "median"}})


@pytest.mark.parametrize(
    ("regressor", "option", "value", "accepted"),
    [
        ("boosted_trees", "depth", 9, "a whole number from 1 to 8"),
        ("boosted_trees", "trees", 2.5, "a whole number from 1 to 4096"),
        ("boosted_adassp", "rounds", 0, "a whole number of at least 1"),
        ("winsorized_least_squares", "refits", 17, "a whole number from 0 to 16, or 'auto'"),
        ("winsorized_least_squares", "refits", "many", "a whole number from 0 to 16, or 'auto'"),
    ],
)
def test_an_option_that_is_no_number_of_its_range_is_told_the_range(regressor, option, value, accepted):
    with pytest.raises(InvalidOption, match=f"{option} is {value!r}; it must be {accepted}$"):
        compose(regressor=regressor, options={"regressor": {option: value}})


def test_the_ends_of_a_range_and_the_word_beside_it_are_accepted():
    for option, values in {"depth": (None, 1, 8), "trees": (1, 4096)}.items():
        for value in values:
            assert compose(regressor="boosted_trees", options={"regressor": {option: value}})
    for refits in ("auto", 0, 16):
        assert compose(regressor="winsorized_least_squares", options={"regressor": {"refits": refits}})


def test_options_need_a_part_given_by_name(toys):
    with pytest.raises(InvalidOption, match="which is an instance"):
        compose(regressor=toys.MeanRegressor(), options={"regressor": {"refuse": True}})
    with pytest.raises(InvalidOption, match="not part of this pipeline"):
        compose(regressor=toys.MeanRegressor(), options={"scorer": {"adaptive": True}})
    with pytest.raises(InvalidOption, match="no part is called 'filter'"):
        compose(regressor=toys.MeanRegressor(), options={"filter": {}})


def test_an_unknown_name_is_refused():
    with pytest.raises(UnknownName, match="kendal"):
        compose(scorer="kendal", selector="peel")


def test_observers_hear_of_the_plan_and_of_the_end(toys, schema, data):
    from dpkit_core.pipeline.observers import Observers, hookimpl

    class Diary:
        def __init__(self):
            self.entries = []

        @hookimpl
        def dpkit_planned(self, plan):
            self.entries.append("planned")

        @hookimpl
        def dpkit_released(self, release):
            self.entries.append("released")

        @hookimpl
        def dpkit_finished(self, plan, outcome):
            self.entries.append(outcome)

    @attrs.frozen
    class Failing(toys.MeanRegressor):
        def fit(self, data, plan, meter, /):
            raise RuntimeError

    diary = Diary()
    plan = compose(regressor=toys.MeanRegressor(), accountant=toys.PureAccountant()).plan(schema, Budget(1.0))
    plan.run(data, observers=Observers([diary]))
    assert diary.entries == ["planned", "released", "released"]
    diary.entries.clear()
    plan = compose(regressor=Failing(), accountant=toys.PureAccountant()).plan(schema, Budget(1.0))
    with pytest.raises(PartFailed):
        plan.run(data, observers=Observers([diary]))
    assert diary.entries == ["planned", "failed"]


def test_progress_counts_the_rounds(toys, schema, data):
    pipeline = compose(
        scorer=toys.SumScorer(adaptive=True), selector=toys.BestSelector(), accountant=toys.PureAccountant()
    )
    seen = []
    pipeline.plan(schema, Budget(1.0), k=2).run(data, progress=lambda *step: seen.append(step))
    assert seen == [("selection", 0, 2), ("selection", 1, 2), ("selection", 2, 2)]


def test_a_scorer_plans_its_own_release_and_is_told_how_many_are_picked(toys, schema, data):
    @attrs.frozen
    class Counting(toys.SumScorer):
        def plan(self, request, /):
            event = Laplace(1 / request.budget.epsilon, request.neighboring, sensitivity=1.0, shape=())
            return StagePlan([event], settings=request.k)

        def prepare(self, data, plan, meter, /):
            (event,), picks = plan.events, plan.settings
            meter.laplace(len(data.y), sensitivity=1.0, noise_multiplier=event.noise_multiplier)
            assert picks == 2
            return super().prepare(data, plan, meter)

    pipeline = compose(scorer=Counting(), selector=toys.BestSelector(), accountant=toys.PureAccountant())
    plan = pipeline.plan(schema, Budget(1000.0), k=2)
    assert [event.stage for event in plan.events] == ["scoring", "selection"]
    assert 1 / plan.events[0].event.noise_multiplier == pytest.approx(100, rel=1e-3)
    assert plan.run(data).selected == ("b", "d")


@pytest.mark.parametrize("settings", [None, 7])
def test_a_scorer_that_releases_nothing_reads_the_settings_of_its_plan(toys, schema, data, settings):
    calls = []

    @attrs.frozen
    class Silent(toys.SumScorer):
        def plan(self, request, /):
            return StagePlan([], settings=settings)

        def prepare(self, data, plan, meter, /):
            calls.append((plan.events, plan.settings))
            return toys.SumScorer.prepare(self, data, plan, meter)

    pipeline = compose(scorer=Silent(), selector=toys.BestSelector(), accountant=toys.PureAccountant())
    plan = pipeline.plan(schema, Budget(1000.0), k=2)
    assert plan.run(data).selected == ("b", "d")
    assert calls == [((), settings)]
    assert plan.stages[-1].share == 1.0  # all of the budget is the selection's


def test_a_scorer_without_a_plan_that_draws_voids_the_run(toys, schema, data):
    @attrs.frozen
    class Drawing(toys.SumScorer):
        """Draws noise that nobody planned, and hides that it was refused."""

        def prepare(self, data, plan, meter, /):
            with contextlib.suppress(PlanViolation):
                meter.laplace(0.0, sensitivity=1.0, noise_multiplier=1.0)
            return super().prepare(data, plan, meter)

    pipeline = compose(scorer=Drawing(), selector=toys.BestSelector(), accountant=toys.PureAccountant())
    with pytest.raises(PlanViolation, match="scoring emitted an event that is not the next one of its plan"):
        pipeline.plan(schema, Budget(1.0), k=2).run(data)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"scorer": 5}, ["scorer is 5, which lacks sensitivity and prepare and adaptive"]),
        ({"selector": "SumScorer"}, ["'SumScorer'"]),
        ({"regressor": {"name": "tukey"}}, ["regressor is {'name': 'tukey'}, which lacks plan and fit"]),
        ({"accountant": 5}, ["accountant is 5", "supports"]),
        ({"options": [("scorer", {})]}, ["options is", "role -> option -> value"]),
        ({"scorer": "kendall", "options": {"scorer": "mean"}}, ["options of scorer is 'mean', of type str"]),
    ],
)
def test_what_is_no_part_is_refused_with_what_would_be_one(given, words):
    with pytest.raises((InvalidOption, UnknownName)) as error:
        compose(**given)
    for word in words:
        assert word in str(error.value)


def test_a_class_in_place_of_a_part_is_refused(toys):
    with pytest.raises(InvalidOption, match=r"scorer is the class SumScorer; .* SumScorer\(\)"):
        compose(scorer=toys.SumScorer)


def test_a_part_of_another_kind_is_refused(toys):
    with pytest.raises(
        InvalidOption, match=r"scorer is .*BestSelector.*, which lacks sensitivity and prepare"
    ):
        compose(scorer=toys.BestSelector())


@pytest.mark.parametrize("k", ["2", 2.0, True])
def test_a_k_that_is_no_whole_number_is_refused(pipeline, schema, k):
    with pytest.raises(InvalidOption, match=rf"k is {k!r}, of type {type(k).__name__}; give a whole number"):
        pipeline.plan(schema, Budget(1.0), k=k)


def test_a_k_of_numpy_is_a_whole_number(pipeline, schema):
    assert pipeline.plan(schema, Budget(1.0), k=np.int64(2)).k == 2


def test_other_types_are_refused_before_anything_is_spent(pipeline, schema, data):
    with pytest.raises(InvalidOption, match=r"budget is 1.0, of type float; give Budget\(epsilon, delta\)"):
        pipeline.plan(schema, 1.0)
    with pytest.raises(InvalidOption, match=r"schema is .*of type list; make one with Schema.numeric"):
        pipeline.plan(["a"], Budget(1.0))
    with pytest.raises(InvalidOption, match=r"select_share is '0.1', of type str"):
        pipeline.plan(schema, Budget(1.0), select_share="0.1")
    plan = pipeline.plan(schema, Budget(1.0))
    with pytest.raises(InvalidData, match="type ndarray; make them a dataset"):
        plan.run(data.X)
    with pytest.raises(InvalidOption, match=r"randomness is 7, of type int; leave it out"):
        plan.run(data, randomness=7)


def test_a_registry_that_is_given_is_not_read_again(toys, monkeypatch):
    monkeypatch.setattr("dpkit_core.plugins.registry.installed", pytest.fail)
    parts = {"scorer": toys.SumScorer(), "selector": toys.BestSelector()}
    assert compose(**parts, registry=Registry(())).assembly.scorer is not None
