"""What is composed where nobody names a part, and how many features ``auto`` selects."""

from typing import Any

import attrs
import pytest

from dpkit_core import Budget, Column, Schema, compose
from dpkit_core.errors import InvalidOption
from dpkit_core.pipeline.choose import chosen_k, k_in_words, recommend
from dpkit_core.pipeline.forecasts import StageForecast
from dpkit_core.pipeline.recipes import find_recipe
from dpkit_core.protocols import Forecast

NUMBERS = Schema.numeric([f"x{j}" for j in range(12)], "y")


def about(records):
    return attrs.evolve(NUMBERS, records_about=records)


@pytest.mark.parametrize(
    ("records", "epsilon", "recipe"),
    [(None, 0.01, "trees"), (500, 1.0, "trees"), (400, 1.0, "winsorized"), (4000, 0.1, "winsorized")],
)
def test_few_records_for_the_budget_are_for_a_line(records, epsilon, recipe):
    found = recommend(about(records) if records else NUMBERS, Budget(epsilon, 1e-6))
    assert found.recipe == recipe
    assert str(found) == f"Recommended for these public facts: recipe {recipe}, because {found.why}."
    assert recommend(
        about(records) if records else NUMBERS, Budget(epsilon, 1e-6), selecting=True
    ).recipe == (f"k-{recipe}")


@pytest.mark.parametrize(("records", "recipe"), [(400, "trees"), (200, "trees"), (100, "winsorized")])
def test_few_records_are_for_trees_where_bounds_of_the_target_are_public_unless_too_few(records, recipe):
    bounded = Column("y", lower=0.0, upper=1.0)
    found = recommend(attrs.evolve(about(records), target=bounded), Budget(1.0, 1e-6))
    less = "noise misleads trees less than a line" if recipe == "trees" else "noise misleads a line less"
    assert (found.recipe, less in found.why) == (recipe, True)


@pytest.mark.parametrize("name", ["trees", "winsorized"])
def test_a_recipe_with_a_selection_is_the_recipe_without_one_where_all_features_are_taken(name):
    with_selection, without = find_recipe(f"k-{name}"), find_recipe(name)
    left = {role: part for role, part in with_selection.parts.items() if role not in {"scorer", "selector"}}
    assert left == without.parts
    assert with_selection.options == without.options == {}


def test_a_category_is_for_trees_however_few_records_there_are():
    labels = Column("y", "categorical", categories=("no", "yes"), positive="yes")
    schema = Schema((Column("x"),), labels, records_about=10)
    assert recommend(schema, Budget(1.0, 1e-6)).recipe == "trees"


def test_batches_are_for_what_learns_from_them():
    found = recommend(NUMBERS, Budget(1.0, 1e-6), batches=2)
    assert found.recipe == "s-gbdt"
    recipe = find_recipe(found.recipe)
    plan = compose(**recipe.parts, options=recipe.options).plan(NUMBERS, Budget(1.0, 1e-6), batches=2)
    assert plan.batches == 2


def test_nothing_is_recommended_without_a_delta():
    with pytest.raises(InvalidOption, match="give a delta"):
        recommend(NUMBERS, Budget(1.0))


@attrs.frozen
class Foretold:
    """A plan, as far as the rule looks at it."""

    k: int
    wants: float
    schema: Schema

    @property
    def forecasts(self):
        return (StageForecast("regression", "part", Forecast("it is so", records=self.wants)),)

    @property
    def warnings(self):
        return tuple(filter(None, (found.warning(self.schema.size) for found in self.forecasts)))


@pytest.mark.parametrize(
    ("schema", "wants", "k"),
    [
        (NUMBERS, lambda k: 1e9, 12),
        (about(1000), lambda k: 800, 12),
        (about(1000), lambda k: 1e9, 12),
        (about(1000), lambda k: 66 * k, 12),
        (about(1000), lambda k: 80 * k, 10),
        (about(1000), lambda k: 81 * k, 5),
        (about(300), lambda k: 100 * k, 2),
        (about(20), lambda k: 100 * k, 1),
        (about(20), lambda k: 100 * (k + 12 / k), 3),
    ],
)
def test_auto_takes_as_many_features_as_there_are_records_for_and_a_quarter_more(schema, wants, k):
    foretold: Any = Foretold  # has what is asked of a plan here
    plan = chosen_k(12, lambda k: foretold(k, wants(k), schema))
    assert plan.k == k
    words = k_in_words(plan)
    assert ("all of 12, without a selection" if k == 12 else f"{k} of 12") in words
    few = schema.size is not None and 1.25 * wants(k) > schema.size
    assert ("records are few for any number" in words) == few


@pytest.mark.slow
def test_auto_spends_nothing_on_a_selection_of_everything():
    pipeline = compose(scorer="kendall", selector="peel", regressor="winsorized_least_squares")
    schema, budget = Schema.numeric("abc", "y"), Budget(1.0, 1e-6)
    assert [stage.name for stage in pipeline.plan(schema, budget, k="auto").stages] == ["regression"]
    few = pipeline.plan(attrs.evolve(schema, records_about=80), budget, k="auto")
    assert [stage.name for stage in few.stages] == ["selection", "regression"]
    assert few.k < 3


@pytest.mark.parametrize(
    "parts", [{"regressor": "winsorized_least_squares"}, {"scorer": "kendall", "selector": "peel"}]
)
def test_auto_needs_a_selection_and_what_uses_it(parts):
    with pytest.raises(InvalidOption, match="the rule needs"):
        compose(**parts).plan(NUMBERS, Budget(1.0, 1e-6), k="auto")
