"""The commands around ``compose``."""

import datetime
import json
import sys
import tomllib

import attrs
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpkit_core import Schema, __version__
from dpkit_core.cli.asking import _options
from dpkit_core.plugins.kinds import PARTS
from dpkit_core.validators import whole_number

COMPOSE = ("compose", "diamonds.csv", "--schema", "facts.toml", "--scorer", "large", "--selector", "best")
FULL = (*COMPOSE, "-k", "2", "--regressor", "average", "--accountant", "basic")

pytestmark = pytest.mark.usefixtures("parts")


def test_list_has_a_heading_for_each_kind_and_says_where_a_part_is_from(dpkit, monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)  # nothing is wrapped in a file
    lines = dpkit("list").stdout.splitlines()
    assert [line for line in lines if not line.startswith(" ")] == [kind.plural for kind in PARTS.values()]
    place = lines.index("scorers")
    names = [line.split()[0] for line in lines[place + 1 : lines.index("selectors")]]
    assert names == ["correlation", "kendall", "large", "from", "lasso_votes", "screening", "spearman"]
    (large,) = (i for i, line in enumerate(lines) if line.split()[0] == "large")
    assert lines[large].split() == ["large", "Small", "parts"]
    assert lines[large + 1].split() == ["from", "dpkit-tiny", "1.2"]
    assert lines[large + 1].index("from") == lines[large].index("Small")
    assert not any("dpkit-scorer" in line for line in lines)  # what came with dpkit is of its version


@pytest.mark.parametrize("columns", [80, 60])
def test_list_breaks_no_word(dpkit, monkeypatch, columns):
    monkeypatch.delenv("COLUMNS", raising=False)
    whole = dpkit("list").stdout
    monkeypatch.setenv("COLUMNS", str(columns))
    wrapped = dpkit("list").stdout
    assert max(map(len, wrapped.splitlines())) <= columns < max(map(len, whole.splitlines()))
    assert wrapped.split() == whole.split()


@pytest.mark.parametrize("kind", ["scorer", "scorers"])
def test_list_of_a_kind_as_json(dpkit, kind):
    parts = json.loads(dpkit("list", kind, "--format", "json").stdout)
    assert {part["kind"] for part in parts} == {"scorers"}
    large = next(part for part in parts if part["name"] == "large")
    assert large["qualified"] == "dpkit-tiny:large"
    assert large["version"] == "1.2"


def test_list_of_an_unknown_kind_names_the_kinds(dpkit):
    result = dpkit("list", "methods")
    assert result.exit_code == 2
    assert "scorers, selectors, regressors, accountants, " in result.stderr
    assert "sources" in result.stderr


def test_a_source_is_listed_once_with_all_names_that_lead_to_it(dpkit):
    lines = dpkit("list", "sources").stdout.splitlines()
    assert "  -, .csv, .tsv  (dpkit-source-text)" in lines
    assert sum("CSV and TSV" in line for line in lines) == 1


def test_show_of_a_scorer_asks_it_for_its_sensitivity(dpkit):
    facts = json.loads(dpkit("show", "scorer", "large", "--format", "json").stdout)
    assert facts["summary"] == "How many records have a large value of the feature."
    assert facts["sensitivity"]["add-remove"] == {"every round": {"linf": 1.0, "range": 1.0}}
    assert facts["options"] == [
        {
            "name": "threshold",
            "type": "float",
            "default": 0.5,
            "accepts": "a finite number above 0",
            "about": "What counts as large.",
        }
    ]
    assert (facts["proof"], facts["reference"]) == ("a count changes by 1", "folklore")
    assert (facts["distribution"], facts["version"]) == ("dpkit-tiny", "1.2")


def test_show_of_a_regressor_finds_its_needs_by_asking(dpkit):
    printed = " ".join(dpkit("show", "regressor", "average").stdout.split())
    for words in (
        "style str plain Does not matter. one of plain, fancy",
        "Needs the mean needs a delta above 0; set --delta the mean needs bounds of the target",
        "2 releases with Laplace noise, scale 2 x sensitivity each",
    ):
        assert words in printed


@pytest.mark.parametrize(
    ("validator", "words"),
    [
        (attrs.validators.in_(range(1, 4097)), "from 1 to 4096"),
        (attrs.validators.optional(whole_number(1, 8)), "a whole number from 1 to 8"),
        (whole_number(0, 16, word="auto"), "a whole number from 0 to 16, or 'auto'"),
        (attrs.validators.in_((1, 2, 4)), "one of 1, 2, 4"),
        (attrs.validators.ge(2.0**-40), ">= 9.09495e-13"),
        (attrs.validators.le(3), "<= 3"),
    ],
)
def test_what_an_option_accepts_is_said_in_a_few_words(validator, words):
    part = attrs.make_class("Part", {"option": attrs.field(default=1, validator=validator)})
    (option,) = _options(part)
    assert option["accepts"] == words


def test_what_an_option_is_about_is_said_also_where_another_section_follows():
    part = attrs.make_class("Part", {"option": attrs.field(default=1), "other": attrs.field(default=2)})
    part.__doc__ = """Does something.

    Parameters
    ----------
    option
        How much
        of it.
    other : int
        The rest.

    References
    ----------
    Somebody 2020.
    """
    assert [option["about"] for option in _options(part)] == ["How much of it.", "The rest."]


def test_show_of_a_number_has_few_digits(dpkit, monkeypatch):
    monkeypatch.setattr("dpkit_core.cli.asking.facts_of", lambda *_: {
        "name": "a", "distribution": "b", "version": "1", "summary": "c",
        "options": [{"name": "step", "type": "float", "default": 2.0**-50, "accepts": "", "about": ""}],
    })  # fmt: skip
    assert " 8.88178e-16 " in dpkit("show", "scorer", "large").stdout


def test_show_of_a_selector_and_an_accountant(dpkit):
    selector = json.loads(dpkit("show", "selector", "best", "--format", "json").stdout)
    picks = ["5 choices by the exponential mechanism, epsilon 0.2 each"]
    assert selector["events"]["replace-one"] == {"one a round": picks, "all at once": picks}
    accountant = json.loads(dpkit("show", "accountants", "basic", "--format", "json").stdout)
    assert "Laplace" in accountant["events"]["add-remove"]
    assert "Gaussian" not in accountant["events"]["add-remove"]
    assert "Disjoint" in accountant["events"]["replace-one"]
    assert "Filtered" not in accountant["events"]["add-remove"]  # of Gaussian noise alone


def test_show_of_a_name_alone_finds_its_kind(dpkit):
    assert dpkit("show", "large").stdout == dpkit("show", "scorer", "large").stdout
    result = dpkit("show", "lrge")
    assert result.exit_code != 0
    assert "no part has the name 'lrge'" in result.stderr


def test_show_of_an_unknown_name_proposes_the_nearest(dpkit):
    result = dpkit("show", "scorer", "lrge")
    assert result.exit_code == 2
    assert "Did you mean 'large'?" in result.stderr


def test_a_drafted_schema_has_kinds_and_blanks_and_no_value_of_the_table(dpkit, folder):
    days = [datetime.date(2020, 1, 1), datetime.date(2020, 1, 2)]
    table = {"a b": [17.25, 18.5], "cut": ["Fair", "Good"], "when": days, "price": [1.0, 2.0]}
    pq.write_table(pa.table(table), "t.parquet")
    text = dpkit("schema", "t.parquet", "--target", "price").stdout
    document = tomllib.loads(text)
    assert document == {
        "neighboring": "add-remove",
        "target": "price",
        "columns": {
            "a b": {"kind": "numeric"},
            "cut": {"kind": "categorical"},
            "when": {"kind": "date"},
            "price": {"kind": "numeric"},
        },
    }
    assert Schema.from_document(document).target.name == "price"
    assert "# lower = " in text
    assert "# categories = " in text
    assert '# lower = "2000-01-01"' in text
    for value in ("17", "18", "Fair", "Good", "2020"):
        assert value not in text


def test_a_drafted_schema_serves_as_it_is_for_a_table_of_numbers(dpkit, folder):
    (folder / "schema.toml").write_text(dpkit("schema", "numbers.csv").stdout)
    parts = ("--scorer", "large", "--selector", "best", "-k", "1", "--accountant", "basic")
    result = dpkit("compose", "numbers.csv", "--schema", "schema.toml", "--target", "y", *parts)
    assert result.exit_code == 0, result.output
    result = dpkit("compose", "numbers.csv", "--schema", "schema.toml", *parts, "--force")
    assert result.exit_code == 2
    assert "names no target" in result.stderr


def test_a_saved_plan_runs_to_the_release_of_the_same_seed(dpkit, folder):
    composed = dpkit(*FULL, "--save", "plan.toml", "--seed", 3, "--format", "json")
    ran = dpkit("run", "plan.toml", "diamonds.csv", "--seed", 3, "--output", "again.json", "--format", "json")
    assert ran.exit_code == 0, ran.output
    assert json.loads(ran.stdout) == json.loads(composed.stdout)
    assert (folder / "again.json").exists()


def test_more_tables_than_a_plan_has_batches_are_refused_with_the_remedy(dpkit, folder):
    dpkit(*FULL, "--dry-run", "--save", "plan.toml")
    result = dpkit("run", "plan.toml", "diamonds.csv", "missing.csv")
    assert result.exit_code == 2
    assert "2 tables are given, but the plan is for one" in result.stderr
    assert "dpkit compose --batches" in result.stderr
    assert not (folder / "release.json").exists()


def test_verify_confirms_a_release_and_refutes_a_smaller_claim(dpkit, folder):
    released = json.loads(dpkit(*FULL, "--format", "json").stdout)
    result = dpkit("verify", "release.json")
    assert result.exit_code == 0, result.output
    assert result.stdout.endswith("confirmed\n")
    released["certificate"]["epsilon"] /= 2
    (folder / "release.json").write_text(json.dumps(released))
    result = dpkit("verify", "release.json")
    assert result.exit_code == 2
    assert "NOT confirmed" in result.stdout
    as_json = dpkit("verify", "release.json", "--format", "json")
    assert as_json.exit_code == 2
    assert json.loads(as_json.stdout)["confirmed"] is False


OBSERVER = """
from dpkit_core.pipeline.observers import hookimpl

class Observer:
    '''Works six days a week.'''

    @hookimpl
    def dpkit_before_release(self, release):
        raise ValueError("not on Sundays")
"""


@pytest.fixture
def observer(site):
    site.install(
        "dpkit-observer",
        entry_points={"dpkit.hooks": {"sunday": "sunday_observer:Observer"}},
        modules={"sunday_observer": OBSERVER},
    )


@pytest.mark.usefixtures("observer")
def test_observers_are_listed_and_mentioned_beside_the_parts(dpkit):
    for word in ("observers", "hooks"):
        lines = dpkit("list", word).stdout.splitlines()
        assert [line.split() for line in lines] == [
            ["observers"],
            ["sunday", "Works", "six", "days", "a", "week"],
            ["from", "dpkit-observer", "1.0"],
        ]
    assert dpkit("list").stdout.endswith("\nObservers of every run (see `dpkit list observers`): sunday\n")
    assert "sunday_observer" not in sys.modules


@pytest.mark.usefixtures("observer")
def test_an_observer_vetoes_a_release_that_is_then_nowhere(dpkit, folder):
    result = dpkit(*FULL, "--format", "json")
    assert result.exit_code == 4
    assert "not on Sundays" in result.stderr
    assert json.loads(result.stdout)["error"]["spent"] is True
    assert not (folder / "release.json").exists()


def test_the_version_is_printed(dpkit):
    assert dpkit("--version").stdout == f"dpkit {__version__}\n"
