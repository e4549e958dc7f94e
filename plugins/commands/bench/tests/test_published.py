"""Published medians stand beside ours, where the settings agree."""

import json
import math

import pytest
from dpkit_command_bench.errors import InvalidSuite
from dpkit_command_bench.published import Published, find_value
from dpkit_command_bench.results import Results
from dpkit_command_bench.suite import Suite, find_suite
from dpkit_command_bench.summary import summarize, to_document

FIGURE = {"source": "Somebody 2020, Figure 9", "k": 5, "values": {"x": {"a": 0.25, "b": -math.inf}}}
PLACE = {"metric": "r2", "table": "a", "composition": "x", "epsilon": 1.0, "delta": 1e-6}


def entry(**changes):
    return Published.from_document({**FIGURE, **changes}, "r2")


def value(published, **changes):
    found = find_value([published], **{**PLACE, "k": 5, **changes})
    return None if found is None else found.median


def test_a_median_holds_for_its_settings_alone():
    assert value(entry()) == 0.25
    assert value(entry(), table="b") == -math.inf
    for change in ({"table": "c"}, {"composition": "y"}, {"k": 10}, {"metric": "rmse"}):
        assert value(entry(), **change) is None
    assert value(entry(epsilon=2.0)) is None
    assert value(entry(delta=1e-5)) is None
    assert value(entry(epsilon=1.0986), epsilon=math.log(3)) == 0.25


def test_what_is_left_out_holds_for_any():
    document = {key: fact for key, fact in FIGURE.items() if key != "k"}
    assert value(Published.from_document(document, "r2"), k=7, epsilon=99.0) == 0.25


def test_a_composition_without_a_selection_takes_the_first_value():
    figures = [entry(), entry(k=10, values={"x": {"a": 0.75}})]
    assert find_value(figures, **PLACE, k=None).median == 0.25
    assert find_value(figures, **PLACE, k=10).median == 0.75


def test_it_survives_strict_json():
    text = json.dumps(entry().to_document(), allow_nan=False)
    assert Published.from_document(json.loads(text), "rmse") == entry()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"source": 5}, "write [[published]] with source"),
        ({"value": 1}, "no key 'value'"),
        ({"metric": "R2"}, "no metric 'R2'; metrics are r2, rmse, recall"),
        ({"values": {"selected": 1.0}}, "write [published.values.COMPOSITION]"),
        ({"values": {"selected": {"ones": "refused"}}}, "ones = 'refused'; it must be a number, or -inf"),
        ({"values": {"selected": {"ones": math.nan}}}, "it must be a number, or -inf"),
        ({"values": {"selected": {"twos": 1.0}}}, "has no table 'twos'; it has ones"),
        ({"values": {"other": {"ones": 1.0}}}, "has no composition 'other'; it has selected, all"),
        ({"k": 2.5}, "k is 2.5; give one number"),
        ({"epsilon": [1.0]}, "epsilon is [1.0]; give one number"),
    ],
    ids=lambda given: given[:30] if isinstance(given, str) else None,
)
def test_a_mistake_is_named_with_its_remedy(parts, document, tmp_path, change, message):
    figure = {"source": "Somebody 2020", "values": {}}
    with pytest.raises(InvalidSuite) as caught:
        Suite.from_document("tiny", {**document, "published": [{**figure, **change}]}, tmp_path)
    assert message in str(caught.value)


def row(table, composition, r2, k=5):
    return {
        "table": table, "composition": composition, "epsilon": 1.0, "delta": 1e-6, "k": k, "r2": r2,
        "rmse": None, "recall": None, "outcome": "released", "mechanism_private": True, "wall_seconds": 0.5,
        "training_records": 90, "features": 3, "message": None,
    }  # fmt: skip


def test_their_ranks_are_counted_on_the_same_tables():
    figure = entry(
        values={
            "x": {"a": 0.1, "b": 0.2, "c": -math.inf, "not run": 1.0},
            "y": {"a": 0.3, "b": 0.1, "c": -math.inf},
            "not run": {"a": 1.0, "b": 1.0, "c": 1.0},
        }
    )
    rows = [row(table, name, r2) for table in "abc" for name, r2 in (("x", 0.5), ("y", 0.4), ("mine", 0.9))]
    summary = summarize(rows, "r2", [figure])
    mine, x, y = sorted(summary.standings, key=lambda standing: standing.composition)
    assert mine.published is None
    assert (dict(mine.ranks), dict(x.ranks), dict(y.ranks)) == ({1: 3}, {2: 3}, {3: 3})
    # By hand: y beats x on a, x beats y on b, and both refused on c, where nobody is first.
    assert dict(x.published.ranks) == {2: 2, 1: 1}
    assert dict(y.published.ranks) == {1: 1, 2: 2}
    assert (x.published.tables, x.published.positive, y.published.positive) == (3, 2, 2)
    document = to_document([summary])
    json.dumps(document, allow_nan=False)
    cells = {(cell["table"], cell["composition"]): cell["metrics"]["r2"] for cell in document["cells"]}
    assert cells["c", "x"]["published"] == {"median": "-inf", "source": "Somebody 2020, Figure 9"}
    assert cells["a", "mine"]["published"] is None
    assert document["standings"][0]["published"] == {
        "tables": 3, "ranks": {2: 2, 1: 1}, "mean_rank": pytest.approx(5 / 3), "positive": 2
    }  # fmt: skip


def test_a_folder_of_results_remembers_them(suite, document, tmp_path):
    figure = {"source": "Somebody 2020", "k": 1, "values": {"selected": {"ones": -math.inf}}}
    suite = Suite.from_document("tiny", {**document, "published": [figure]}, tmp_path)
    results = Results(tmp_path / "results")
    results.begin(suite.only("composition", "all").to_document())
    assert results.published() == suite.published
    assert results.published()[0].metric == "r2"


def test_a_wildcard_has_values_by_its_full_names(parts, document, tmp_path):
    document["compositions"] = {"each": {"scorer": "*", "selector": "best", "regressor": "average"}}
    document["published"] = [{"source": "S", "values": {"each: large": {"ones": 0.5}}}]
    suite = Suite.from_document("tiny", document, tmp_path)
    assert suite.published[0].values == {"each: large": {"ones": 0.5}}


def test_the_shipped_suite_has_the_figures_of_the_paper():
    four, five = find_suite("dpkendall").published
    # The K-Tukey columns of Figures 4 and 5, as printed.
    assert (four.values["k-tukey"]["houses"], five.values["k-tukey"]["Bike_Sharing_Demand"]) == (
        -0.95,
        -2.5e8,
    )
    assert (len(four.values["k-tukey"]), len(five.values["k-tukey"])) == (25, 21)
    assert (four.k, five.k) == (5, 10)
