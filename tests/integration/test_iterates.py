"""Parts that take turns: a regressor shows its iterates to a scorer and a selector, through one meter."""

from __future__ import annotations

import contextlib
import itertools
import json
from functools import partial
from typing import Any, ClassVar

import attrs
import numpy as np
import pytest
from dpkit_check.compositions import Suspects, audit_composition, find_suspects
from dpkit_check.worlds import box
from dpkit_cli.planfile import read_plan, write_plan
from dpkit_regressor_frank_wolfe import FrankWolfeRegressor
from dpkit_scorer_screening import ScreeningScorer
from dpkit_selector_peel import PeelSelector
from scipy import sparse

from dpkit_core import (
    Budget,
    Column,
    Dataset,
    Iterate,
    Iterates,
    Neighboring,
    Randomness,
    Schema,
    Sensitivity,
    SparseDataset,
    compose,
    verify,
)
from dpkit_core.errors import CannotCompose, PartFailed, PlanViolation
from dpkit_core.pipeline.observers import Observers
from dpkit_core.pipeline.recipes import find_recipe
from dpkit_core.privacy.events import ExponentialMechanism, Gaussian, expand

BUDGET = Budget(5.0, 1e-4)
SELECTORS = ("peel", "permute_and_flip", "oneshot_laplace", "canonical_lipschitz", "gaussian_threshold")


def table(neighboring: Neighboring = Neighboring.ADD_OR_REMOVE_ONE, n: int = 1000) -> tuple[Dataset, Schema]:
    rng = np.random.default_rng(0)
    schema = box(8, neighboring)
    if neighboring is Neighboring.REPLACE_ONE:
        schema = attrs.evolve(schema, records=n)
    X = rng.uniform(-1, 1, (n, 8))
    y = np.clip(0.5 * X[:, 0] - 0.4 * X[:, 3] + 0.05 * rng.normal(size=n), -1, 1)
    return Dataset.from_arrays(X, y, schema), schema


def loop(
    selector: Any = "peel", scorer: Any = "screening", regressor: Any = "frank_wolfe", **options: Any
) -> Any:
    return compose(scorer=scorer, selector=selector, regressor=regressor, options=options)


@attrs.frozen
class Bystander:
    """A third party's scorer: as good a rule as any, of the gradient's size."""

    api: ClassVar[int] = 3

    forms: ClassVar[tuple[str, ...]] = ("iterates",)
    adaptive: ClassVar[bool] = False

    def sensitivity(self, facts: Any, round_index: int, /) -> Sensitivity:
        return Sensitivity.general(2.0 * (1 + 2**-10), facts.neighboring)

    def prepare(self, data: Any, plan: Any, meter: Any, /) -> Any:
        return lambda selected: self.scores(data)

    def scores(self, iterate: Iterate) -> Any:
        return -np.abs(iterate.gradient) / iterate.facts.reach(iterate.length)


@pytest.mark.first(3)
@pytest.mark.parametrize("selector", SELECTORS)
@pytest.mark.parametrize("neighboring", Neighboring)
def test_a_loop_keeps_its_budget_and_verifies(neighboring: Neighboring, selector: str) -> None:
    data, schema = table(neighboring)
    release = loop(selector, regressor=FrankWolfeRegressor(rounds=20)).plan(schema, BUDGET).run(data)
    assert release.certificate.private
    assert 4.99 < release.certificate.epsilon <= 5.0
    assert verify(release).confirmed
    assert release.selected == ()
    assert np.abs(np.array(release.model.coefficients)).sum() <= 4.0


@pytest.mark.first(1)
@pytest.mark.parametrize("rule", ["aligned", "smallest", "relaxed", "exact"])
def test_each_rule_composes_with_the_gradient(rule: str) -> None:
    data, schema = table(Neighboring.REPLACE_ONE)
    pipeline = loop(
        scorer=ScreeningScorer(rule=rule), regressor=FrankWolfeRegressor(form="gram", rounds=30, every=3)
    )
    release = pipeline.plan(schema, BUDGET).run(data)
    assert verify(release).confirmed


def test_events_of_the_stages_take_turns() -> None:
    data, schema = table()
    plan = loop(regressor=FrankWolfeRegressor(rounds=10, every=4)).plan(schema, BUDGET)
    selection, regression = plan.stage("selection"), plan.stage("regression")
    assert plan.iterates.after == (4, 8)
    picks = list(expand(selection.plan.events))
    assert [(e.candidates, e.sensitivity) for e in picks] == [(9, pytest.approx(2.0, rel=2**-9))] * 2
    assert all(isinstance(event, ExponentialMechanism) for event in picks)
    assert len(list(expand(regression.plan.events))) == 10
    assert "2 iterates of 8 features" in str(plan)
    release = plan.run(data)
    stages = [item.stage for item in release.certificate.events]
    assert stages == ["selection", "selection", "regression"]


def test_a_threshold_drops_by_noise_for_all_scores() -> None:
    _, schema = table()
    plan = loop("gaussian_threshold", regressor=FrankWolfeRegressor(rounds=10, every=5)).plan(schema, BUDGET)
    for event in expand(plan.stage("selection").plan.events):
        assert isinstance(event, Gaussian)
        assert event.shape == (8,)  # none is above no threshold
        assert event.sensitivity == pytest.approx(np.sqrt(8) * 1.5, rel=2**-9)


def test_k_is_refused() -> None:
    _, schema = table()
    with pytest.raises(CannotCompose, match="k is 3, but scorer screening drops features"):
        loop().plan(schema, BUDGET, k=3)


@pytest.mark.parametrize("regressor", ["adassp", None])
def test_a_scorer_of_iterates_is_refused_elsewhere_and_told_who_has_some(regressor: str | None) -> None:
    _, schema = table()
    with pytest.raises(CannotCompose, match="use one that has iterates: frank_wolfe"):
        loop(regressor=regressor).plan(schema, BUDGET)


def test_why_a_rule_is_not_proved_is_said() -> None:
    _, schema = table()
    pipeline = loop(scorer=ScreeningScorer(rule="exact"), regressor=FrankWolfeRegressor(form="gram"))
    with pytest.raises(CannotCompose, match="root of the number of records"):
        pipeline.plan(schema, BUDGET)


@pytest.mark.slow
def test_scorers_of_tables_select_before_frank_wolfe() -> None:
    data, schema = table()
    release = (
        compose(scorer="correlation", selector="peel", regressor="frank_wolfe")
        .plan(schema, BUDGET, k=2)
        .run(data)
    )
    assert set(release.selected) == set(release.model.features)
    assert len(release.selected) == 2


@pytest.mark.slow
def test_a_plan_of_a_loop_is_read_again(tmp_path: Any) -> None:
    data, schema = table()
    plan = loop().plan(schema, BUDGET)
    write_plan(plan, tmp_path / "plan.toml")
    again = read_plan(tmp_path / "plan.toml")
    assert again.events == plan.events
    one, other = (p.run(data, randomness=Randomness.from_seed(1)) for p in (plan, again))
    assert json.dumps(one.model.to_document()) == json.dumps(other.model.to_document())


@pytest.mark.slow
def test_sparse_records_go_through_the_loop_as_they_are() -> None:
    data, schema = table()
    X = np.where(np.abs(data.X) > 0.7, data.X, 0.0)
    plan = loop().plan(schema, BUDGET)
    assert "sparse" in plan.assembly.forms
    models = [
        plan.run(records, randomness=Randomness.from_seed(2)).model.to_document()
        for records in (
            Dataset.from_arrays(X, data.y, schema),
            SparseDataset.from_arrays(sparse.csr_array(X), data.y, schema),
        )
    ]
    assert models[0] == models[1]


@pytest.mark.slow
def test_a_third_party_can_write_the_rule() -> None:
    data, schema = table()
    release = loop(scorer=Bystander()).plan(schema, BUDGET).run(data)
    assert verify(release).confirmed


@attrs.frozen
class Broken(Bystander):
    """Returns what ``answer`` says instead of scores."""

    answer: str = "raise"

    def scores(self, iterate: Iterate) -> Any:
        if self.answer == "raise":
            raise ValueError(f"the gradient is {iterate.gradient}")
        return {"short": np.zeros(1), "nan": np.full(iterate.facts.features, np.nan)}[self.answer]


@attrs.frozen
class Forgiving:
    """Goes on after a failure in the loop, or shows other iterates than it says."""

    api: ClassVar[int] = 3

    inner: FrankWolfeRegressor = attrs.field(factory=partial(FrankWolfeRegressor, rounds=4, every=2))
    fault: str = "forgives"

    def plan(self, request: Any, /) -> Any:
        return self.inner.plan(request)

    def iterates(self, schema: Any, /) -> Iterates:
        return self.inner.iterates(schema)

    def fit(self, data: Any, plan: Any, meter: Any, /) -> Any:
        return self.inner.fit(data, plan, Meddling(meter, self.fault))


@attrs.frozen
class Meddling:
    """A meter that shows other iterates than it is given."""

    meter: Any
    fault: str

    def __getattr__(self, name: str) -> Any:
        return getattr(self.meter, name)

    def screen(self, iterate: Iterate, /) -> tuple[int, ...]:
        match self.fault:
            case "never":
                return ()
            case "twice":
                self.meter.screen(iterate)
            case "other":
                iterate = attrs.evolve(iterate, weights=iterate.weights[1:])
            case "elsewhere":
                iterate = attrs.evolve(iterate, facts=attrs.evolve(iterate.facts, radius=1e9))
            case _:
                pass
        try:
            found: tuple[int, ...] = self.meter.screen(iterate)
        except (PlanViolation, PartFailed):
            return ()
        return found


@pytest.mark.first(3)
@pytest.mark.parametrize("regressor", [FrankWolfeRegressor(rounds=4, every=2), Forgiving()])
@pytest.mark.parametrize("answer", ["raise", "short", "nan"])
def test_a_failure_of_the_scorer_is_its_own_and_says_nothing(answer: str, regressor: Any) -> None:
    data, schema = table()
    plan = loop(scorer=Broken(answer), regressor=regressor).plan(schema, BUDGET)
    with pytest.raises((PartFailed, PlanViolation), match="scorer Broken") as caught:
        plan.run(data)
    assert "gradient" not in str(caught.value)


@pytest.mark.parametrize("fault", ["never", "twice", "other", "elsewhere"])
def test_a_regressor_shows_what_it_planned(fault: str) -> None:
    data, schema = table()
    plan = loop(scorer=Bystander(), regressor=Forgiving(fault=fault)).plan(schema, BUDGET)
    with pytest.raises(PlanViolation, match="Nothing is released"):
        plan.run(data)


@attrs.frozen
class Odd:
    """A selector that returns what it was told to."""

    api: ClassVar[int] = 3

    inner: PeelSelector = attrs.field(factory=PeelSelector)
    returned: tuple[int, ...] = ()

    def plan(self, request: Any, /) -> Any:
        return self.inner.plan(request)

    def select(self, scores: Any, plan: Any, meter: Any, /) -> Any:
        self.inner.select(scores, plan, meter)
        return self.returned


@pytest.mark.first(2)
@pytest.mark.parametrize("returned", [(), (0, 1), (-1,), (9,), (8, 8)])
def test_a_selector_picks_one_of_the_candidates(returned: tuple[int, ...]) -> None:
    data, schema = table()
    regressor = FrankWolfeRegressor(rounds=4, every=2)
    plan = loop(Odd(returned=returned), regressor=regressor).plan(schema, BUDGET)
    with pytest.raises(PlanViolation, match="distinct candidates"):
        plan.run(data)


@attrs.frozen
class Nested(Odd):
    """A selector that shows an iterate itself, while one is screened."""

    def select(self, scores: Any, plan: Any, meter: Any, /) -> Any:
        facts = Iterates("squared", 4.0, None, 8, (2, 4), Neighboring.ADD_OR_REMOVE_ONE)
        with contextlib.suppress(PlanViolation):
            meter.screen(Iterate(facts, 1, np.zeros(8), 0.0, np.zeros(8), 0.0))
        return self.inner.select(scores, plan, meter)


def test_a_selector_cannot_show_iterates_itself() -> None:
    data, schema = table()
    plan = loop(Nested(), regressor=FrankWolfeRegressor(rounds=4, every=2)).plan(schema, BUDGET)
    with pytest.raises(PlanViolation, match="showed an iterate where none was planned"):
        plan.run(data)


@attrs.frozen
class Drawing(Bystander):
    """A scorer that draws noise, although it planned none."""

    def prepare(self, data: Any, plan: Any, meter: Any, /) -> Any:
        with contextlib.suppress(PlanViolation):
            meter.gaussian(0.0, sensitivity=1.0, noise_multiplier=1.0)
        return super().prepare(data, plan, meter)


def test_a_scorer_of_iterates_draws_nothing() -> None:
    data, schema = table()
    plan = loop(scorer=Drawing(), regressor=Forgiving()).plan(schema, BUDGET)
    with pytest.raises(PlanViolation, match="scoring emitted an event"):
        plan.run(data)


def test_a_regressor_shows_no_iterate_where_nothing_screens() -> None:
    @attrs.frozen
    class Showing(FrankWolfeRegressor):
        def fit(self, data: Any, plan: Any, meter: Any, /) -> Any:
            facts = self.iterates(schema)
            with contextlib.suppress(PlanViolation):
                meter.screen(Iterate(facts, 1, np.zeros(8), 0.0, np.zeros(8), 0.0))
            return super().fit(data, plan, meter)

    data, schema = table()
    plan = compose(regressor=Showing(rounds=4)).plan(schema, BUDGET)
    with pytest.raises(PlanViolation, match="showed an iterate where none was planned"):
        plan.run(data)


@attrs.frozen
class Silent(Bystander):
    """Prefers dropping everything, and offers nothing else."""

    none: ClassVar[bool] = False

    def scores(self, iterate: Iterate) -> Any:
        return np.full(iterate.facts.features, -1.0)


def test_without_none_something_is_dropped_where_there_is_something() -> None:
    data, schema = table()
    regressor = FrankWolfeRegressor(rounds=1, every=1, intercept=False)
    budget = Budget(1e6, 1e-4)  # where none is a candidate, it wins
    kept = loop(scorer=Silent(), regressor=regressor)
    assert not any(kept.plan(schema, budget).run(data).model.coefficients)


AUDITED = [  # one of them in CI; the logistic ones take a minute each
    pytest.param(
        relation,
        selector,
        loss,
        marks=pytest.mark.slow
        if (relation, selector, loss) == (Neighboring.REPLACE_ONE, "peel", "squared")
        else pytest.mark.exhaustive,
    )
    for relation, selector, loss in itertools.product(
        Neighboring, ["peel", "gaussian_threshold"], ["squared", "logistic"]
    )
]


# What the search finds for that of CI, features first: it takes three times as long as the audit.
PAIR = (
    [(-0.466, 1, -1), (0.154, 1, 0), (0.466, 1, 0), (0, 1, 0), (0, 1, 0)],
    [(1, 0.154, 1), (0.154, 1, 0), (0.466, 1, 0), (0, 1, 0), (0, 1, 0)],
)


@pytest.mark.parametrize(("neighboring", "selector", "loss"), AUDITED)
def test_no_loop_betrays_more_than_its_certificate_says(
    neighboring: Neighboring, selector: str, loss: str, request: pytest.FixtureRequest
) -> None:
    schema = box(2, neighboring)
    regressor = FrankWolfeRegressor(rounds=4, every=2, form="gram", radius=1.0)
    if loss == "logistic":
        schema = attrs.evolve(schema, target=Column("y", "categorical", categories=("no", "yes")))
        regressor = FrankWolfeRegressor(rounds=4, every=2, loss=loss, residual_clip=1.0)
    plan = loop(selector, regressor=regressor).plan(schema, Budget(2.0, 1e-2), select_share=0.5)
    if request.node.get_closest_marker("slow"):
        first, second = (np.array(rows, dtype=float) for rows in PAIR)
        pair = (
            Dataset.from_arrays(first[:, :2], first[:, 2], schema),
            Dataset.from_arrays(second[:, :2], second[:, 2], schema),
        )
        suspects = Suspects(pair, seconds=0.0)
    else:
        suspects = find_suspects(plan, sizes=(2, 5))
    found = audit_composition(plan, suspects, samples=500)
    assert not found.finding.violated, found.finding.describe()


@pytest.mark.slow
def test_logistic_loss_finds_the_boundary() -> None:
    rng = np.random.default_rng(4)
    target = Column("y", "categorical", categories=("no", "yes"))
    schema = Schema(tuple(Column(f"x{j}", lower=-1, upper=1) for j in range(6)), target)
    X = rng.uniform(-1, 1, (3000, 6))
    y = (X[:, 0] - X[:, 2] + 0.3 * rng.normal(size=3000) > 0).astype(float)
    plan = compose(regressor="frank_wolfe", options={"regressor": {"loss": "logistic"}}).plan(schema, BUDGET)
    release = plan.run(Dataset.from_arrays(X, y, schema), randomness=Randomness.from_seed(1))
    probabilities = release.predict(X)
    assert ((probabilities > 0.5) == y).mean() > 0.88  # of .9, with this noise
    assert ((probabilities >= 0) & (probabilities <= 1)).all()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["rnm-screen", "adp-screen", "np-fw", "preselect-k"])
def test_recipes_need_no_bounds(name: str) -> None:
    rng = np.random.default_rng(0)
    schema = Schema.numeric(["a", "b"], "y")
    X = rng.normal(size=(2000, 2)) * [1.0, 50.0]
    recipe = find_recipe(name)
    options = {role: dict(values) for role, values in recipe.options.items()}
    options.setdefault("regressor", {})["rounds"] = 20
    options["regressor"]["every"] = 10
    plan = compose(**recipe.parts, options=options).plan(schema, BUDGET, k=None)
    release = plan.run(Dataset.from_arrays(X, X[:, 0] + 0.1 * rng.normal(size=2000), schema))
    assert release.certificate.private == (name != "np-fw")
    assert verify(release).confirmed


@pytest.mark.slow
def test_observers_are_told_of_a_loop_like_of_any_run() -> None:
    data, schema = table()
    release = loop().plan(schema, BUDGET).run(data, observers=Observers.none())
    assert {part.name for part in release.certificate.parts} == {"screening", "peel", "frank_wolfe", "tight"}
