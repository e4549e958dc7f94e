"""What a suite file may say, and which trials follow from it."""

import attrs
import pytest
from dpkit_command_bench.errors import InvalidSuite
from dpkit_command_bench.suite import Setting, Suite, find_suite

from dpkit_core.errors import InvalidRecipe, UnknownName

pytestmark = pytest.mark.usefixtures("parts")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"epsilons": [1.0]}, "unknown key 'epsilons'. Did you mean 'epsilon'"),
        ({"epsilon": [0.0]}, "epsilon has 0.0; it must be above 0"),
        ({"epsilon": []}, "epsilon is an empty list"),
        ({"epsilon": ["1"]}, "epsilon has '1'"),
        ({"delta": [1.0]}, "delta has 1.0; it must be from 0 to below 1"),
        ({"k": [2.5]}, "k has 2.5; it must be a whole number"),
        ({"splits": [1, 2]}, "splits is a list; give one number"),
        ({"test_fraction": 1.0}, "test_fraction has 1.0"),
        ({"metrics": ["R2"]}, "no metric 'R2'; metrics are r2, rmse, recall"),
        ({"metrics": []}, "metrics is"),
        ({"seed": "x"}, "seed is 'x'"),
        ({"neighboring": "swap"}, "neighboring is 'swap'; it must be add-remove or replace-one"),
        ({"tables": {}}, "has no tables"),
        ({"compositions": {"a": "k-tukey"}}, "compositions.a = 'k-tukey'; write [compositions.a]"),
        ({"tables": {"t": {"target": "y"}}}, "has no origin"),
        ({"tables": {"t": {"openml": 1, "sklearn": "load_x"}}}, "two origins, openml and sklearn"),
        ({"tables": {"t": {"openml": "1", "target": "y"}}}, "openml = '1'; it must be a number"),
        ({"tables": {"t": {"openml": 1}}}, "names no target"),
        ({"tables": {"t": {"file": "t.csv", "tarjet": "y"}}}, "'tarjet'. Did you mean 'target'"),
        ({"tables": {"t": {"file": "t.csv", "target": "y", "options": {}}}}, "only a generator takes"),
        ({"tables": {"t": {"file": "t.csv", "target": "y", "bounds": "data"}}}, "it can only be 'from-data'"),
        ({"compositions": {"a": {"scorers": "large"}}}, "Did you mean 'scorer'"),
        ({"compositions": {"a": {}}}, "names neither a recipe nor parts"),
        ({"compositions": {"a": {"scorer": 5}}}, "parts: scorer is 5; it must be text"),
        ({"compositions": {"a": {"scorer": "large", "options": 5}}}, "options = 5"),
        (
            {"compositions": {"a": {"scorer": "large", "options": {"selector": {}}}}},
            "options for 'selector', which is not among its parts",
        ),
        ({"compositions": {"a": {"scorer": "large", "select_share": 2.0}}}, "select_share = 2.0"),
    ],
    ids=lambda value: None if isinstance(value, dict) else value[:30],
)
def test_a_mistake_is_named_with_its_remedy(document, tmp_path, change, message):
    with pytest.raises((InvalidSuite, InvalidRecipe)) as caught:
        Suite.from_document("tiny", {**document, **change}, tmp_path)
    assert message in str(caught.value)


def test_there_is_a_trial_for_each_point_of_the_grid(suite):
    trials = list(suite.trials())
    # 2 splits x 2 trials x 2 epsilons x (2 k + 1): without a selection there is one setting of k.
    assert len(trials) == 2 * 2 * 2 * (2 + 1)
    assert len({trial.key for trial in trials}) == len(trials)
    assert {trial.k for trial in trials if trial.composition.name == "all"} == {None}


def test_compositions_share_splits_and_not_noise(suite):
    trials = [trial for trial in suite.trials() if trial.split == 0]
    assert len({trial.split_seed for trial in trials}) == 1
    assert len({trial.noise_seed for trial in trials}) == len(trials)


@pytest.mark.parametrize(
    "change",
    [
        {"seed": 8},
        {"test_fraction": 0.2},
        {"neighboring": "replace-one"},
        {"tables": {"ones": {"generator": "five-ones", "options": {"rows": 61}}}},
        {"compositions": {"all": {"regressor": "average", "options": {"regressor": {"seconds": 1.0}}}}},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_trial_with_another_meaning_has_another_key(suite, document, tmp_path, change):
    other = Suite.from_document("tiny", {**document, **change}, tmp_path)
    assert not {t.key for t in suite.trials()} & {t.key for t in other.trials()}


def test_a_key_holds_the_accountant_that_is_taken_where_none_is_named(suite, monkeypatch):
    recipe = suite.compositions[0]
    named = attrs.evolve(recipe, name="named", parts={**recipe.parts, "accountant": "basic"})
    unnamed = attrs.evolve(
        recipe, parts={role: part for role, part in recipe.parts.items() if role != "accountant"}
    )
    suite = attrs.evolve(suite, compositions=(named, unnamed))

    def keys(default, name):
        monkeypatch.setattr("dpkit_command_bench.suite.by_default", lambda neighboring: default)
        return {t.key: t.noise_seed for t in suite.trials() if t.composition.name == name}

    suite = suite.going_on({})
    before, after = keys("rdp", unnamed.name), keys("tight, else rdp", unnamed.name)
    assert not before.keys() & after.keys()
    assert set(before.values()) == set(after.values())  # the same noise, scaled by another accountant
    assert keys("rdp", "named") == keys("tight, else rdp", "named")


def test_neither_other_settings_nor_a_local_copy_change_a_key(suite, document, tmp_path):
    document["epsilon"], document["splits"] = [2.0, 9.0, 0.5], 3
    document["tables"]["ones"] |= {"file": "ones.csv", "target": "y"}
    more = Suite.from_document("longer", document, tmp_path)
    keys = {(t.epsilon, t.key) for t in more.trials()}
    table = attrs.evolve(suite.tables[0], target="y")
    assert {(t.epsilon, t.key) for t in attrs.evolve(suite, tables=(table,)).trials()} < keys


def test_a_wildcard_stands_for_every_installed_part(document, site, tmp_path):
    document["compositions"] = {"each": {"scorer": "*", "selector": "best", "regressor": "average"}}
    before = {recipe.parts["scorer"] for recipe in Suite.from_document("s", document, tmp_path).compositions}
    site.install("dpkit-other", entry_points={"dpkit.scorers": {"small": "tiny_bench:Small"}})
    after = Suite.from_document("s", document, tmp_path).compositions
    assert {recipe.parts["scorer"] for recipe in after} == before | {"small"}
    assert "each: small" in {recipe.name for recipe in after}


def test_a_part_is_added_by_its_name_and_once(suite, site):
    site.install("dpkit-other", entry_points={"dpkit.scorers": {"small": "tiny_bench:Small"}})
    added = suite.add("scorer", "small")
    (new,) = added.compositions[2:]
    assert new.name == "selected + scorer small"
    assert new.parts == {**suite.compositions[0].parts, "scorer": "small"}
    assert added.add("scorer", "small") == added
    assert suite.add("scorer", "large") == suite


def test_adding_what_fits_nowhere_is_an_error(suite):
    with pytest.raises(UnknownName, match="no scorer 'lage'"):
        suite.add("scorer", "lage")
    with pytest.raises(InvalidSuite, match="no part is called 'judge'"):
        suite.add("judge", "x")
    with pytest.raises(InvalidSuite, match="no composition of suite 'tiny' has a scorer"):
        suite.only("composition", "all").add("scorer", "large")


def test_a_suite_can_be_cut_to_what_is_wanted(suite):
    assert suite.only("epsilon", "2").epsilon == (2.0,)
    assert suite.only("k", "2,1").k == (2, 1)
    assert [recipe.name for recipe in suite.only("composition", "all").compositions] == ["all"]
    with pytest.raises(InvalidSuite, match=r"suite 'tiny' has selected, all\. Did you mean 'selected'"):
        suite.only("composition", "seleted")
    with pytest.raises(InvalidSuite, match="a suite has no 'split'"):
        suite.only("split", "1")


def test_a_suite_names_a_small_part_of_itself(document, tmp_path):
    document["quick"] = {"composition": "selected", "epsilon": [2.0], "k": 1, "splits": 1}
    suite = Suite.from_document("s", document, tmp_path)
    small = suite.quickly()
    assert {t.setting for t in small.trials()} == {Setting("ones", "selected", 2.0, 1e-6, 1)}
    assert (small.splits, small.repeats) == (1, 2)
    assert {t.key for t in small.trials()} < {t.key for t in suite.trials()}


@pytest.mark.parametrize(
    ("quick", "message"),
    [
        ({"table": ["twos"]}, "table=twos: suite 'tiny' has ones"),
        ({"epsilon": 9}, "epsilon=9: suite 'tiny' has 0.5, 2"),
        ({"splits": 3}, "suite 'tiny' has splits = 2, and 3 under [quick]"),
        ({"trials": 0}, "trials has 0; it must be a whole number"),
        ({"seed": 1}, "[quick] of suite 'tiny' has 'seed'; it may have table, composition, epsilon"),
        (5, "write [quick]"),
    ],
    ids=str,
)
def test_a_mistake_in_the_small_part_is_named(document, tmp_path, quick, message):
    with pytest.raises(InvalidSuite) as caught:
        Suite.from_document("tiny", {**document, "quick": quick}, tmp_path)
    assert message in str(caught.value)


def test_a_suite_without_a_small_part_says_what_to_do(suite):
    with pytest.raises(InvalidSuite, match=r"suite 'tiny' has no \[quick\].*cut it by --only"):
        suite.quickly()


def test_screening_leaves_no_k_to_the_user():
    suite = find_suite("rnm-screen")
    ks = {t.composition.name: t.k for t in suite.trials()}
    assert ks["rnm-screen"] is ks["adp-screen"] is ks["frank_wolfe"] is None
    assert ks["preselect-k"] == 5


def test_epsilon_may_be_written_with_four_digits(suite):
    thirds = attrs.evolve(suite, epsilon=(1.0986122886681098, 2.0))
    assert thirds.only("epsilon", "1.099").epsilon == (1.0986122886681098,)


def test_a_composition_may_start_from_a_recipe(document, tmp_path):
    recipe = tmp_path / "mine.toml"
    recipe.write_text(
        'select_share = 0.3\n[parts]\nscorer = "large"\nselector = "best"\nregressor = "average"\n'
        "[options.scorer]\nthreshold = 2.0\n[options.regressor]\nseconds = 1.0\n"
    )
    document["compositions"] = {
        "a": {"recipe": str(recipe), "options": {"regressor": {"refuse": True}}},
        "b": {"recipe": str(recipe), "scorer": "small"},
    }
    a, b = Suite.from_document("s", document, tmp_path).compositions
    assert a.select_share == b.select_share == 0.3
    assert a.options == {"scorer": {"threshold": 2.0}, "regressor": {"seconds": 1.0, "refuse": True}}
    assert b.options == {"regressor": {"seconds": 1.0}}


def test_a_shipped_suite_is_found_by_name():
    suite = find_suite("dpkendall")
    assert len([table for table in suite.tables if table.openml_task]) == 25
    # Section 4.3 of the paper: (ln 3, 1e-5), ten random 90-10 splits, k = 5 and 10.
    assert suite.epsilon == pytest.approx([1.0986122886681098])
    assert (suite.delta, suite.k, suite.splits, suite.test_fraction) == ((1e-5,), (5, 10), 10, 0.1)
    with pytest.raises(UnknownName, match="Did you mean 'dpkendall'"):
        find_suite("dpkendal")


def test_a_suite_that_is_not_there_is_named(tmp_path):
    with pytest.raises(InvalidSuite, match="cannot read suite"):
        find_suite(str(tmp_path / "none.toml"))
