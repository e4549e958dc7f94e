"""Recipes are data: read from TOML, shipped by anybody, and never imported."""

import json

import pytest

from dpkit_core.errors import AmbiguousName, BrokenPlugin, InvalidRecipe, UnknownName
from dpkit_core.pipeline.recipes import Recipe, find_recipe

MINE = """\
summary = "Counts, then the mean"
select_share = 0.25

[parts]
scorer = "large"
selector = "best"
regressor = "average"
accountant = "basic"

[options.scorer]
threshold = 0.75
"""


@pytest.fixture
def ship(parts):
    """Ship a recipe or a suite in a distribution whose code cannot be imported."""

    def install(name, text, kind="recipes", distribution="dpkit-recipes-mine", package="my_recipes"):
        parts.install(distribution, entry_points={f"dpkit.{kind}": {name: f"{package}.{kind}"}})
        folder = parts.folder / package / kind
        folder.mkdir(parents=True)
        (folder.parent / "__init__.py").write_text("raise RuntimeError('imported')\n")
        (folder / f"{name}.toml").write_text(text)

    return install


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "names no parts; it needs a table [parts]"),
        ('part = 1\n[parts]\nscorer = "x"', "there is no 'part'; it has options"),
        ('[parts]\njudge = "x"', "has a part 'judge'; parts are scorer"),
        ("[parts]\nscorer = 5", "parts: scorer is 5; it must be text"),
        ('options = 5\n[parts]\nscorer = "x"', "options is 5; it must be a mapping"),
        ('[parts]\nscorer = "x"\n[options.selector]', "options for 'selector', which is not among its parts"),
        ('[parts]\nscorer = "x"\n[options]\nscorer = 5', "options: scorer is 5; it must be a mapping"),
        ('select_share = 1.0\n[parts]\nscorer = "x"', "select_share = 1.0; it must be above 0 and below 1"),
        ("[parts", "is not valid TOML"),
    ],
    ids=range(9),
)
def test_a_mistake_is_named_with_its_remedy(tmp_path, text, message):
    (tmp_path / "mine.toml").write_text(text)
    with pytest.raises(InvalidRecipe) as caught:
        find_recipe(str(tmp_path / "mine.toml"))
    assert message in str(caught.value)


def test_a_recipe_survives_its_own_document(tmp_path):
    (tmp_path / "mine.toml").write_text(MINE)
    recipe = find_recipe(str(tmp_path / "mine.toml"))
    assert Recipe.from_document("mine", recipe.to_document()) == recipe
    assert (recipe.select_share, recipe.options) == (0.25, {"scorer": {"threshold": 0.75}})


def test_a_part_that_is_replaced_takes_its_options_along():
    recipe = Recipe("r", {"scorer": "a", "selector": "b"}, {"scorer": {"x": 1}, "selector": {"y": 2}})
    other = recipe.revised({"scorer": "c"}, {"selector": {"z": 3}})
    assert other.parts == {"scorer": "c", "selector": "b"}
    assert other.options == {"selector": {"y": 2, "z": 3}}


def test_a_third_party_recipe_is_listed_and_used(ship, dpkit, tmp_path):
    ship("counts", MINE)
    listed = dpkit("list", "recipes").stdout
    assert "counts" in listed
    assert "Counts, then the mean" in listed
    rows = ["a,b,y", *(f"0.{j},0.{9 - j},0.5" for j in range(1, 9))]
    (tmp_path / "t.csv").write_text("\n".join(rows) + "\n")
    schema = 'target = "y"\n' + "".join(
        f'[columns.{name}]\nkind = "numeric"\nlower = 0\nupper = 1\n' for name in ("a", "b", "y")
    )
    (tmp_path / "t.schema.toml").write_text(schema)
    done = dpkit(
        "compose", "t.csv", "--schema", "t.schema.toml", "--recipe", "counts", "-k", "1", "--epsilon", "1",
        "--dry-run", "--format", "json",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    text = json.dumps(json.loads(done.stdout))
    assert '"threshold": 0.75' in text
    assert "dpkit-tiny" in text


def test_a_third_party_suite_is_listed_and_run_with_its_recipe(ship, dpkit):
    suite = """
summary = "A suite of somebody else"
epsilon = 1.0
k = 1
splits = 2
[tables.ones]
generator = "five-ones"
options = {rows = 60, features = 6}
bounds = "from-data"
[compositions.counts]
recipe = "counts"
"""
    ship("counts", MINE)
    ship("theirs", suite, kind="suites", distribution="dpkit-suites-theirs", package="their_suites")
    assert "A suite of somebody else" in dpkit("list", "suites").stdout
    done = dpkit("bench", "theirs", "--jobs", "1")
    assert done.exit_code == 0, done.output
    assert "Trials: 2 released; 2 run now" in done.stdout


def test_names_are_found_or_explained(ship):
    ship("counts", MINE)
    assert find_recipe("dpkit-recipes-mine:counts").parts["scorer"] == "large"
    with pytest.raises(UnknownName, match="Did you mean 'counts'"):
        find_recipe("count")
    ship("counts", MINE, distribution="dpkit-recipes-yours", package="your_recipes")
    with pytest.raises(AmbiguousName, match=r"dpkit-recipes-mine:counts .*, dpkit-recipes-yours:counts"):
        find_recipe("counts")


def test_a_promise_without_a_file_is_named(parts):
    parts.install("dpkit-recipes-empty", entry_points={"dpkit.recipes": {"gone": "nowhere.recipes"}})
    with pytest.raises(BrokenPlugin, match=r"nowhere\.recipes holds no file gone\.toml"):
        find_recipe("gone")
