"""The audit of a whole composition refutes a part that draws half its noise, and lets an honest one pass."""

from typing import Any, ClassVar

import attrs
import numpy as np
import pytest
from dpkit_accountant_basic import BasicAccountant
from dpkit_check import ReferenceAccountant, compositions
from dpkit_check.compositions import CompositionAudit, Suspects, audit_composition, find_suspects
from dpkit_check.worlds import Population, box
from dpkit_selector_peel import PeelSelector

from dpkit_core import (
    Budget,
    Column,
    Dataset,
    LinearModel,
    Neighboring,
    Refusal,
    Schema,
    Sensitivity,
    StagePlan,
    Unit,
    compose,
    fixed_scores,
)
from dpkit_core.errors import InvalidRelease
from dpkit_core.pipeline.plan import Plan
from dpkit_core.privacy.events import Gaussian, Laplace, NonPrivate

AR, RO = Neighboring


@attrs.frozen
class Total:
    """The sum of the target within its bounds; draws ``noise`` times the noise that it declares."""

    api: ClassVar[int] = 3
    noise: float = 1.0
    refuse: bool = False

    def plan(self, request: Any, /) -> StagePlan:
        low, high = request.schema.target.bounds
        moved = high - low if request.neighboring is RO else max(abs(low), abs(high))
        event = Laplace(
            1 / request.budget.epsilon, request.neighboring, sensitivity=self.noise * moved, shape=()
        )
        return StagePlan((event,), refusals={"never": "never", "few": "too few records"})

    def fit(self, data: Any, plan: Any, meter: Any, /) -> LinearModel | Refusal:
        (event,) = plan.events
        total = meter.laplace(
            np.clip(data.y, *data.target_bounds).sum(),
            sensitivity=event.sensitivity,
            noise_multiplier=event.noise_multiplier,
        )
        if self.refuse:
            return Refusal("never")
        return LinearModel(data.names, (0.0,) * len(data.names), float(total))


@attrs.frozen
class Sums:
    """Sums of products within [-1, 1]: they move by 1, apart by 2; declares ``declared`` of that."""

    api: ClassVar[int] = 3
    adaptive: ClassVar[bool] = False
    declared: float = 1.0

    def sensitivity(self, schema: Schema, round: int, /) -> Sensitivity:
        return Sensitivity.general(self.declared, schema.neighboring)

    def prepare(self, data: Any, plan: Any, meter: Any, /) -> Any:
        return fixed_scores(np.clip(data.X, -1, 1).T @ np.clip(data.y, -1, 1))


def planned(epsilon: float, neighboring: Neighboring = AR, **parts: Any) -> Plan:
    pipeline = compose(**parts, accountant=BasicAccountant(neighboring))
    k = 1 if "selector" in parts else None
    return pipeline.plan(box(2, neighboring), Budget(epsilon), k=k)


def suspects(neighboring: Neighboring = AR) -> Suspects:
    """A pair on which everything here moves as far as it can, for which the search would take 2400 runs.

    One record joins, which parts the features and adds to the total, or has its target at the other end.
    """
    table = [(1, 1, 1), (-1, -1, -1), (1, 1, 1)]
    other = [(1, -1, -1)] if neighboring is RO else []
    schema = box(2, neighboring)
    first, second = (np.array(rows, dtype=float) for rows in ([*table, (1, -1, 1)], [*table, *other]))
    pair = (
        Dataset.from_arrays(first[:, :2], first[:, 2], schema),
        Dataset.from_arrays(second[:, :2], second[:, 2], schema),
    )
    return Suspects(pair, seconds=0.0)


def audited(plan: Plan, samples: int) -> CompositionAudit:
    return audit_composition(plan, suspects(plan.schema.neighboring), samples=samples)


# The bounds hold with confidence 99.9%, so an honest composition fails its test with probability below 0.001,
# and far below it here: intervals for events that were chosen in advance are wider than they need be.


@pytest.mark.exhaustive  # in CI as a stage of three, below
def test_a_regressor_with_half_the_noise_is_refuted() -> None:
    # Epsilon 4 in truth: probabilities 1/2 and 0.009. Of 700 runs each, 6.4 hits are expected where only
    # from 22 on the bound could fall to 2: probability below 1e-5.
    outcome = audited(planned(2.0, regressor=Total(noise=0.5)), 1400)
    assert outcome.finding.violated
    assert 2.0 < outcome.finding.epsilon < 4.0
    assert "REFUTED" in outcome.statement


@pytest.mark.slow
def test_an_honest_regressor_is_not_and_half_of_its_epsilon_is_found() -> None:
    outcome = audited(planned(2.0, regressor=Total()), 1400)
    assert not outcome.finding.violated
    assert 1.0 < outcome.finding.epsilon < 2.0
    assert outcome.finding.claimed.epsilon == pytest.approx(2.0, rel=1e-3)
    assert "proves nothing" in outcome.statement


@pytest.mark.slow
def test_refusals_are_counted_and_said() -> None:
    outcome = audited(planned(1.0, regressor=Total(refuse=True)), 100)
    assert outcome.refused == 1
    assert outcome.finding.epsilon == 0
    assert "Every run was refused" in outcome.statement


# An audit does not ask how its tables are neighbors; that these are, the search for suspects shows in CI.
@pytest.mark.exhaustive
@pytest.mark.parametrize(("noise", "violated"), [(0.5, True), (1.0, False)])
def test_claims_under_replace_one_are_tried_too(noise: float, violated: bool) -> None:
    outcome = audited(planned(2.0, RO, regressor=Total(noise=noise)), 1400)
    assert outcome.finding.violated is violated


@pytest.mark.exhaustive
@pytest.mark.parametrize(("declared", "violated"), [(0.5, True), (1.0, False)])
def test_a_scorer_that_moves_twice_as_far_as_declared_is_refuted(declared: float, violated: bool) -> None:
    # Logits of the two picks move by 4: probabilities 1/2 and 0.018, a log ratio of 3.3 where 2 is claimed.
    # Of 1400 runs each, both exact bounds fall to 2 with probability below 1e-5.
    plan = planned(2.0, scorer=Sums(declared), selector=PeelSelector())
    outcome = audited(plan, 2800)
    assert outcome.finding.violated is violated


@pytest.mark.slow
def test_one_stage_that_lies_is_found_in_the_composition() -> None:
    parts: dict[str, Any] = {"scorer": Sums(), "selector": PeelSelector(), "regressor": Total(noise=0.5)}
    # The regressor has 95% of the budget, so this is the regressor with half the noise of above.
    outcome = audited(planned(2.0, **parts), 1600)
    assert outcome.finding.violated


@pytest.mark.slow
@pytest.mark.parametrize(("noise", "violated"), [(0.25, True), (1.0, False)])
def test_a_person_of_four_records_is_tried_with_all_of_them(
    noise: float, violated: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A quarter of the noise would be enough for one record."""
    monkeypatch.setattr(compositions, "DRAWN_PAIRS", 0)
    monkeypatch.setattr(compositions, "STEPS", 0)
    schema = attrs.evolve(box(1, AR), unit=Unit("who", 4))
    plan = compose(regressor=Total(noise), accountant=BasicAccountant(AR)).plan(schema, Budget(2.0))
    suspects = find_suspects(plan, sizes=(3,), seed=1)
    assert suspects.records == (7, 3)
    assert audit_composition(plan, suspects, samples=400).finding.violated is violated


def test_what_text_and_missing_values_become_has_a_place_in_the_tables() -> None:
    columns = (
        Column("town", buckets=3),
        Column("cut", categories=("a", "b"), missing="indicator"),
        Column("day", buckets=2, missing="indicator"),
        Column("x", lower=0.0, upper=1.0, missing="indicator"),
    )
    schema = Schema(columns, box(1, AR).target)
    population, rng = Population(schema), np.random.default_rng(0)
    for pair in (compositions._torn_apart(schema, 3), population.pair(rng, 9), population.pair(rng, 64)):
        for data in population.datasets(pair):
            assert data.features == schema.features
            assert all((data.X[:, of].sum(axis=1) <= 1).all() for of in ([0, 1, 2], [3, 4, 5], [6, 7, 8]))


@pytest.mark.slow
def test_the_suspects_are_neighbors_of_the_schema_that_strain_the_claim(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(compositions, "DRAWN_PAIRS", 8)
    monkeypatch.setattr(compositions, "STEPS", 8)
    pipeline = compose(regressor=Total(), accountant=BasicAccountant(RO))
    schema = attrs.evolve(box(2, RO), records=5)
    suspects = find_suspects(pipeline.plan(schema, Budget(1.0)))
    first, second = suspects.pair
    assert suspects.records == (5, 5)
    assert first.features == second.features == schema.features
    assert (
        np.sum(np.any(np.column_stack((first.X, first.y)) != np.column_stack((second.X, second.y)), axis=1))
        == 1
    )
    # From one bound of the target to the other, the most that a total can move.
    assert abs(np.clip(first.y, -1, 1).sum() - np.clip(second.y, -1, 1).sum()) == 2


def test_larger_tables_are_tried_where_small_ones_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compositions, "DRAWN_PAIRS", 0)
    monkeypatch.setattr(compositions, "STEPS", 0)

    @attrs.frozen
    class Shy(Total):
        def fit(self, data: Any, plan: Any, meter: Any, /) -> LinearModel | Refusal:
            outcome = super().fit(data, plan, meter)
            return outcome if len(data.y) > 200 else Refusal("few")

    pipeline = compose(regressor=Shy(), accountant=BasicAccountant(RO))
    assert find_suspects(pipeline.plan(box(1, RO), Budget(1.0))).records == (300, 300)


@pytest.mark.slow
def test_few_runs_are_made_where_each_takes_long() -> None:
    assert attrs.evolve(suspects(), seconds=1.0).affordable(60.0) == 1000
    assert attrs.evolve(suspects(), seconds=0.01).affordable(60.0) == 3000
    assert attrs.evolve(suspects(), seconds=1e-6).affordable(60.0) == 10_000


@pytest.mark.exhaustive
def test_gaussian_noise_is_held_to_its_mu() -> None:
    @attrs.frozen
    class Smooth(Total):
        def plan(self, request: Any, /) -> StagePlan:
            return StagePlan((Gaussian(4.0, request.neighboring, sensitivity=self.noise, shape=()),))

        def fit(self, data: Any, plan: Any, meter: Any, /) -> LinearModel:
            total = meter.gaussian(np.clip(data.y, -1, 1).sum(), sensitivity=self.noise, noise_multiplier=4.0)
            return LinearModel(data.names, (0.0,) * len(data.names), float(total))

    def found(noise: float) -> CompositionAudit:
        pipeline = compose(regressor=Smooth(noise), accountant=ReferenceAccountant(AR))
        # The liar's mu is 1 in truth. Of 600 runs each, what is seen of mu deviates by 0.07, and its bound is
        # 5.4 deviations below that: the liar's falls to 1/4 with probability below 1e-4, and the honest one's
        # rises above 1/4 with probability below 1e-7.
        return audited(pipeline.plan(box(2, AR), Budget(1.5, 1e-6)), 1200)

    honest, liar = found(1.0), found(1 / 4)
    assert honest.finding.claimed_mu == pytest.approx(1 / 4)
    assert not honest.finding.violated
    assert liar.finding.violated
    assert "mu 0.25, which its Gaussian noise claims" in liar.statement


def test_a_plan_that_claims_nothing_cannot_be_refuted() -> None:
    @attrs.frozen
    class Open(Total):
        def plan(self, request: Any, /) -> StagePlan:
            return StagePlan((NonPrivate("a demonstration", request.neighboring),))

    plan = compose(regressor=Open(), accountant=BasicAccountant(AR)).plan(box(1, AR), Budget(1.0))
    with pytest.raises(InvalidRelease, match="claims no epsilon, because a demonstration"):
        find_suspects(plan)
