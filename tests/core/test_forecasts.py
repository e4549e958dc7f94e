"""What plans foretell holds where it can be computed, and warnings follow the public number of records."""

import itertools
import json
import math

import attrs
import numpy as np
import pytest

from dpkit_core import Budget, Column, Forecast, Schema, compose
from dpkit_core.data.schema import Neighboring
from dpkit_core.pipeline.forecasts import SURE, rounded, sure_lead
from dpkit_core.pipeline.plan import Plan
from dpkit_core.privacy.events import ExponentialMechanism


def schema(features=5, **facts):
    return attrs.evolve(Schema.numeric([f"x{j}" for j in range(features)], "y"), **facts)


def planned(facts, epsilon=1.0, delta=1e-6, **parts) -> Plan:
    return compose(**parts).plan(facts, Budget(epsilon, delta))


def permute_and_flip(scores, epsilon):
    """Return the chance of the first candidate, over all orders in which candidates are tried."""
    accept = np.exp(epsilon * (np.array(scores) - max(scores)))
    chance = 0.0
    orders = list(itertools.permutations(range(len(scores))))
    for order in orders:
        still = 1.0
        for candidate in order:
            chance += still * accept[candidate] / len(orders) if candidate == 0 else 0.0
            still *= 1 - accept[candidate]
    return chance


@pytest.mark.parametrize("candidates", [2, 3, 6])
@pytest.mark.parametrize("epsilon", [0.1, 1.0])
def test_a_feature_that_leads_by_so_much_is_picked_so_often(candidates, epsilon):
    lead = sure_lead(epsilon, candidates)
    chance = 1 / (1 + (candidates - 1) * math.exp(-epsilon * lead))
    assert chance == pytest.approx(SURE)
    assert permute_and_flip([lead] + [0.0] * (candidates - 1), epsilon) >= SURE


def test_of_one_candidate_no_lead_is_needed():
    assert sure_lead(1.0, 1) == 0.0


def test_a_plan_foretells_its_selection_by_its_events():
    plan = planned(schema(), scorer="kendall", selector="peel")
    (found,) = plan.forecasts
    epsilon = plan.stages[0].plan.settings.epsilon_per_pick
    assert (found.stage, found.part) == ("selection", "peel")
    assert found.forecast.records == pytest.approx(4 * sure_lead(epsilon, 5))
    assert rounded(sure_lead(epsilon, 5)) in found.forecast.sentence


@pytest.mark.parametrize(
    ("facts", "warned"),
    [
        ({}, False),
        ({"records_about": 400}, True),
        ({"records_about": 1_000_000}, False),
        ({"records": 442, "neighboring": Neighboring.REPLACE_ONE}, True),
    ],
)
def test_a_plan_warns_of_a_budget_that_too_few_records_waste(facts, warned):
    plan = planned(schema(10, **facts), scorer="kendall", selector="peel", regressor="tukey")
    assert len(plan.forecasts) == 2
    assert len(plan.warnings) == 2 * warned
    for part, warning in zip(("peel", "tukey"), plan.warnings, strict=False):
        assert f"the budget of {part} will likely be wasted" in warning
        assert "leave the selection out" in warning or "a regressor without a test" in warning
    assert ("Warning:" in str(plan)) is warned
    assert "Forecast of tukey: the private test passes with probability 0.95 from about" in str(plan)


@pytest.mark.parametrize(
    ("records", "text"), [(0.2, "1"), (7, "7"), (444, "450"), (1234, "1 300"), (98765, "99 000")]
)
def test_numbers_of_records_that_suffice_are_rounded_up_to_two_digits(records, text):
    assert rounded(records) == text


# Of a part of somebody else


def mean_that_foretells(forecast):
    from dpkit_regressor_mean import MeanRegressor

    class Foretelling(MeanRegressor):
        pass

    Foretelling.forecast = forecast
    return Foretelling()


def test_a_part_of_anybody_foretells():
    seen = []

    def forecast(self, plan, request):
        seen.append((plan, request))
        return [Forecast("it works from 100 records on", records=100, remedy="pray")]

    part = mean_that_foretells(forecast)
    plan = planned(schema(3, records_about=60), regressor=part)
    assert [found.forecast.sentence for found in plan.forecasts] == ["it works from 100 records on"]
    assert plan.warnings[0].endswith(
        "it wants about 100 records, and the schema says that there are about 60; pray"
    )
    assert seen[0] == (plan.stages[0].plan, plan.stages[0].request)
    assert (seen[0][1].schema, seen[0][1].k) == (plan.schema, 3)


@pytest.mark.parametrize(
    ("forecast", "said"),
    [
        (lambda *given: 1 / 0, "its forecast failed (ZeroDivisionError)"),
        (lambda *given: ["all will be well"], "its forecast is a str"),
        (lambda *given: None, "its forecast failed (TypeError)"),
    ],
)
def test_a_forecast_that_fails_is_told_and_stops_nothing(forecast, said):
    plan = planned(schema(3, records_about=60), regressor=mean_that_foretells(forecast))
    assert said in plan.forecasts[0].forecast.sentence
    assert "fault of the part" in " ".join(str(plan).split())
    assert plan.warnings == ()


def test_forecasts_are_plain_data():
    from dpkit_cli.planfile import forecast_document

    plan = planned(schema(), scorer="kendall", selector="peel", regressor="tukey")
    documents = json.loads(json.dumps([forecast_document(found) for found in plan.forecasts]))
    assert [set(document) for document in documents] == [
        {"stage", "part", "sentence", "records", "remedy"}
    ] * 2


def test_events_without_candidates_foretell_nothing():
    from dpkit_core.pipeline.forecasts import forecasts_of

    plan = planned(schema(), scorer="kendall", selector="peel")
    blank = attrs.evolve(plan.stages[0].plan, events=[ExponentialMechanism(1.0, plan.schema.neighboring)])
    assert list(forecasts_of(attrs.evolve(plan.stages[0], plan=blank))) == []


@pytest.mark.parametrize("records", [math.inf, math.nan, -1.0])
def test_a_forecast_wants_a_number_of_records(records):
    with pytest.raises(ValueError, match="finite number"):
        Forecast("it works", records=records)


@pytest.mark.parametrize("classes", [2, 10])
def test_trees_foretell_waste_for_classes_too(classes):
    """With many classes, a record says less of each."""
    target = Column("y", "categorical", categories=tuple(map(str, range(classes))))

    def plan(records):
        schema = Schema((Column("x"),), target, records_about=records)
        return compose(regressor="boosted_trees").plan(schema, Budget(1.0, 1e-6))

    wanted = plan(1000).forecasts[0].forecast.records
    assert wanted == pytest.approx(210 * (classes - 1) ** 0.5, rel=0.1)
    assert "likely be wasted" in " ".join(plan(100).waste)
    assert plan(1000).waste == ()
