"""The commands around ``compose``."""

import csv
import datetime
import io
import json
import sys
import tomllib

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpkit_core import Registry, Schema, __version__
from dpkit_core.cli._describe import _options
from dpkit_core.doctor.examine import Diagnosis
from dpkit_core.plugins.kinds import KINDS
from dpkit_core.plugins.resources import resources
from dpkit_core.validators import whole_number

COMPOSE = ("compose", "diamonds.csv", "--schema", "facts.toml", "--scorer", "large", "--selector", "best")
FULL = (*COMPOSE, "-k", "2", "--regressor", "average", "--accountant", "basic")

pytestmark = pytest.mark.usefixtures("parts")


def test_list_has_a_heading_for_each_kind_and_says_where_a_part_is_from(dpkit, monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)  # nothing is wrapped in a file
    lines = dpkit("list").stdout.splitlines()
    assert [line for line in lines if not line.startswith(" ")] == [*KINDS]
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
    assert "scorers, selectors, accountants, regressors" in result.stderr


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
    monkeypatch.setattr("dpkit_core.cli._describe.describe", lambda *_: {
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
    (folder / "t.csv").write_text('a b,cut,when,price\n17.25,Fair,2020-01-01,1\n18.5,"Good",2020-01-02,2\n')
    text = dpkit("schema", "t.csv", "--target", "price").stdout
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
    assert "2 tables are given, and the plan is for one" in result.stderr
    assert "dpkit compose --batches" in result.stderr
    assert not (folder / "release.json").exists()


def test_predictions_are_printed_or_written(dpkit, folder):
    released = json.loads(dpkit(*FULL, "--format", "json").stdout)
    printed = dpkit("predict", "release.json", "diamonds.csv")
    assert printed.exit_code == 0, printed.output
    rows = [float(row["prediction"]) for row in csv.DictReader(io.StringIO(printed.stdout))]
    assert rows == [released["model"]["intercept"]] * 40
    assert dpkit("predict", "release.json", "diamonds.csv", "--output", "out.csv").stdout == ""
    assert (folder / "out.csv").read_text() == printed.stdout
    dpkit("predict", "release.json", "diamonds.csv", "--output", "out.parquet")
    assert pq.read_table("out.parquet").to_pydict() == {"prediction": rows}


def test_predictions_of_classes_have_a_column_for_each(dpkit, folder):
    rows = "".join(f"{x},{'abc'[x % 3]}\n" for x in range(30))
    (folder / "t.csv").write_text("x,c\n" + rows)
    (folder / "s.toml").write_text(
        'target = "c"\n[columns.x]\nkind = "numeric"\nlower = 0\nupper = 30\n'
        '[columns.c]\nkind = "categorical"\ncategories = ["a", "b,d", "c"]\n'
    )
    options = ["--schema", "s.toml", "--epsilon", "5", "--delta", "1e-6", "--set", "regressor.trees=2"]
    done = dpkit("compose", "t.csv", "--regressor", "boosted_trees", *options)
    assert done.exit_code == 0, done.stderr
    assert dpkit("verify", "release.json").exit_code == 0
    printed = list(csv.DictReader(io.StringIO(dpkit("predict", "release.json", "t.csv").stdout)))
    assert list(printed[0]) == ["a", "b,d", "c"]
    assert [sum(map(float, row.values())) for row in printed] == pytest.approx([1.0] * 30)
    dpkit("predict", "release.json", "t.csv", "--output", "out.parquet")
    written = pq.read_table("out.parquet").to_pylist()
    assert written == [{name: float(value) for name, value in row.items()} for row in printed]


def test_predictions_need_only_the_columns_of_the_model(dpkit, folder):
    model = {"kind": "linear", "intercept": 1.0, "coefficients": {"cut=Good": 10.0, "carat": 2.0}}
    released = json.loads(dpkit(*FULL, "--format", "json").stdout) | {"model": model}
    (folder / "release.json").write_text(json.dumps(released))
    (folder / "new.csv").write_text("cut,carat\nGood,3\nOther,4\n")
    assert dpkit("predict", "release.json", "new.csv").stdout.split() == ["prediction", "17.0", "9.0"]
    (folder / "new.csv").write_text("cut,carat\nGood,\nOther,4\n")
    result = dpkit("predict", "release.json", "new.csv")
    assert result.stdout.split() == ["prediction", "nan", "9.0"]
    assert "1 of 2 records lacks a value that the model needs" in result.stderr
    (folder / "new.csv").write_text("cut,carat\nGood,inf\nOther,4\n")
    result = dpkit("predict", "release.json", "new.csv")
    assert result.exit_code == 2
    assert "'carat' has infinite" in result.stderr
    (folder / "new.csv").write_text("carat\n3\n")
    assert "no column 'cut'" in dpkit("predict", "release.json", "new.csv").stderr


def test_trees_predict_for_missing_values_and_not_for_infinite_ones(dpkit, folder):
    model = {
        "kind": "trees",
        "shape": "oblivious",
        "link": "identity",
        "initial": 1.0,
        "linear": None,
        "bounds": None,
        "features": ["carat"],
        "trees": [{"splits": [[0.0, 2.0]], "leaves": [10.0, 20.0]}],
    }
    released = json.loads(dpkit(*FULL, "--format", "json").stdout) | {"model": model}
    (folder / "release.json").write_text(json.dumps(released))
    (folder / "new.csv").write_text("cut,carat\nGood,3\nOther,\nGood,1\n")
    printed = dpkit("predict", "release.json", "new.csv").stdout
    assert printed.split() == ["prediction", "21.0", "11.0", "11.0"]
    (folder / "new.csv").write_text("cut,carat\nGood,3\nOther,inf\n")
    result = dpkit("predict", "release.json", "new.csv")
    assert result.exit_code == 2
    assert "'carat' has infinite values" in result.stderr


@pytest.fixture
def identified(dpkit, folder):
    """A release, and new records with ids of every kind that a reader of numbers would spoil."""
    dpkit(*FULL)
    model = {"kind": "linear", "intercept": 1.0, "coefficients": {"carat": 2.0}}
    released = json.loads((folder / "release.json").read_text()) | {"model": model}
    (folder / "release.json").write_text(json.dumps(released))
    (folder / "new.csv").write_text(
        "id,when,who,carat,code\n"
        '007,2020-01-31,"Ann, of X",3,NA\n'
        "12345678901234567890,31.1.2020,Bo,4,1e5\n"
        ",,,5,\n"
    )
    return folder


IDS = ["007", "12345678901234567890", ""]
CODES = ["NA", "1e5", ""]


def test_columns_that_are_kept_are_those_of_the_file(dpkit, identified):
    printed = dpkit("predict", "release.json", "new.csv", "--keep", "id,when", "--keep", "who,code")
    assert printed.exit_code == 0, printed.stderr
    rows = list(csv.DictReader(io.StringIO(printed.stdout)))
    assert list(rows[0]) == ["id", "when", "who", "code", "prediction"]
    assert [row["id"] for row in rows] == IDS
    assert [row["when"] for row in rows] == ["2020-01-31", "31.1.2020", ""]
    assert [row["who"] for row in rows] == ["Ann, of X", "Bo", ""]
    assert [row["code"] for row in rows] == CODES
    assert [float(row["prediction"]) for row in rows] == [7.0, 9.0, 11.0]


def test_what_stands_for_missing_values_is_kept_as_it_stands(dpkit, identified):
    (identified / "new.csv").write_text("id;carat\n?;3,5\n08;?\n")
    how = ("--delimiter", ";", "--decimal", ",", "--missing", "?", "--keep", "id,carat")
    printed = dpkit("predict", "release.json", "new.csv", *how)
    assert printed.stdout == 'id,carat,prediction\n?,"3,5",8.0\n08,?,nan\n'
    assert "1 of 2 records lacks a value" in printed.stderr


def test_json_is_one_object_with_texts_for_what_is_kept_and_null_for_no_prediction(dpkit, identified):
    (identified / "new.csv").write_text("id,carat\n007,3\n12345678901234567890,\n")
    printed = dpkit("predict", "release.json", "new.csv", "--keep", "id", "--format", "json")
    expected = [{"id": "007", "prediction": 7.0}, {"id": "12345678901234567890", "prediction": None}]
    assert json.loads(printed.stdout, parse_constant=pytest.fail) == {"predictions": expected}
    assert dpkit("predict", "release.json", "new.csv", "--keep", "id", "-o", "out.json").stdout == ""
    assert (identified / "out.json").read_text() == printed.stdout


def test_ids_of_a_parquet_file_keep_their_types_there_and_their_digits_elsewhere(dpkit, identified):
    large = 12345678901234567890
    days = [datetime.date(2020, 1, 31), None]
    pq.write_table(
        pa.table(
            {"id": pa.array([7, large], pa.uint64()), "day": days, "tag": ["007", None], "carat": [3.0, 4.0]}
        ),
        "new.parquet",
    )
    keep = ("--keep", "id,day,tag")
    dpkit("predict", "release.json", "new.parquet", *keep, "-o", "out.parquet")
    written = pq.read_table("out.parquet")
    assert written.schema.types == [pa.uint64(), pa.date32(), pa.string(), pa.float64()]
    assert written["id"].to_pylist() == [7, large]
    printed = dpkit("predict", "release.json", "new.parquet", *keep)
    assert printed.stdout == f"id,day,tag,prediction\n7,2020-01-31,007,7.0\n{large},,,9.0\n"
    shown = json.loads(dpkit("predict", "release.json", "new.parquet", *keep, "--format", "json").stdout)
    assert shown["predictions"][1] == {"id": str(large), "day": None, "tag": None, "prediction": 9.0}


def test_ids_in_the_names_of_folders_and_of_files_of_other_types_keep_their_digits(dpkit, identified):
    for store, ids in (("007", pa.array([2**53 + 1])), ("08", pa.array([0.5]))):
        (identified / "many" / f"store={store}").mkdir(parents=True)
        pq.write_table(pa.table({"id": ids, "carat": [3.0]}), f"many/store={store}/part.parquet")
    printed = dpkit("predict", "release.json", "many", "--keep", "store,id")
    assert printed.stdout == f"store,id,prediction\n007,{2**53 + 1},7.0\n08,0.5,7.0\n"


def test_the_target_of_an_npz_file_can_be_kept_beside_the_predictions(dpkit, identified):
    np.savez("new.npz", X=np.array([[3.0], [4.0]]), y=np.array([1, 2**60 + 1]), names=np.array(["carat"]))
    printed = dpkit("predict", "release.json", "new.npz", "--keep", "y")
    assert printed.stdout == f"y,prediction\n1,7.0\n{2**60 + 1},9.0\n"


@pytest.mark.parametrize(
    ("keep", "said"),
    [
        ("Id", ["--keep Id", "new.csv has no column 'Id'", "did you mean 'id'?", "id, when, who, carat"]),
        ("customer", ["--keep customer", "new.csv has no column 'customer'", "id, when, who, carat"]),
        ("id,id", ["--keep lists 'id' twice"]),
        ("id,", ["--keep is 'id,'"]),
    ],
)
def test_a_column_to_keep_that_is_not_there_is_named_with_those_that_are(dpkit, identified, keep, said):
    result = dpkit("predict", "release.json", "new.csv", "--keep", keep, "-o", "out.csv")
    assert result.exit_code == 2
    assert all(sentence in result.stderr for sentence in said), result.stderr
    assert not (identified / "out.csv").exists()


def test_nothing_is_kept_under_the_name_of_a_prediction(dpkit, identified):
    (identified / "new.csv").write_text("carat,prediction\n3,1\n")
    result = dpkit("predict", "release.json", "new.csv", "--keep", "prediction")
    assert result.exit_code == 2
    assert "rename the one of the table" in result.stderr


def test_what_no_text_can_stand_for_is_kept_in_parquet_only(dpkit, identified):
    pq.write_table(pa.table({"tags": [["a"], []], "carat": [3.0, 4.0]}), "new.parquet")
    result = dpkit("predict", "release.json", "new.parquet", "--keep", "tags")
    assert result.exit_code == 2
    assert "column 'tags' holds list" in result.stderr
    dpkit("predict", "release.json", "new.parquet", "--keep", "tags", "-o", "out.parquet")
    assert pq.read_table("out.parquet")["tags"].to_pylist() == [["a"], []]


def test_the_format_is_said_by_the_name_or_by_the_option_and_not_by_both_differently(dpkit, identified):
    to = ("predict", "release.json", "new.csv", "--output")
    assert dpkit(*to, "predictions.txt", "--format", "csv").exit_code == 0
    assert (identified / "predictions.txt").read_text() == dpkit(*to[:-1]).stdout
    differing = dpkit(*to, "out.csv", "--format", "parquet")
    assert differing.exit_code == 2
    assert "--output is out.csv and --format is parquet" in differing.stderr
    printed = dpkit(*to[:-1], "--format", "parquet")
    assert pq.read_table(io.BytesIO(printed.stdout_bytes))["prediction"].to_pylist() == [7.0, 9.0, 11.0]


def test_a_selection_has_nothing_to_predict_with(dpkit, folder):
    dpkit(*COMPOSE, "-k", "2", "--accountant", "basic")
    result = dpkit("predict", "release.json", "diamonds.csv")
    assert result.exit_code == 2
    assert "no model to predict with" in result.stderr


def test_predictions_never_replace_the_table(dpkit, folder):
    dpkit(*FULL)
    before = (folder / "diamonds.csv").read_bytes()
    result = dpkit("predict", "release.json", "diamonds.csv", "--output", "diamonds.csv")
    assert result.exit_code == 2
    assert "also read here" in result.stderr
    assert (folder / "diamonds.csv").read_bytes() == before


def test_predictions_go_to_known_formats_only(dpkit, folder):
    dpkit(*FULL)
    result = dpkit("predict", "release.json", "diamonds.csv", "--output", "out.xlsx")
    assert result.exit_code == 2
    assert ".csv, .json or .parquet" in result.stderr


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


def test_doctor_prints_a_line_for_each_part_and_fails_only_when_strict(dpkit, monkeypatch):
    ref = Registry().find("scorer", "large")
    found = [
        Diagnosis(ref, "broken", f"{ref} is installed but failed", None),
        Diagnosis(ref, "ok", "imports no large library", 0.5),
    ]
    monkeypatch.setattr("dpkit_core.doctor.examine.examine", lambda built_in: found)
    result = dpkit("doctor")
    assert result.exit_code == 0
    assert [line.split(maxsplit=1) for line in result.stdout.splitlines()] == [
        ["broken", "scorer large (dpkit-tiny 1.2): is installed but failed"],
        ["ok", "0.50 s  scorer large (dpkit-tiny 1.2): imports no large library"],
    ]
    assert [part["status"] for part in json.loads(dpkit("doctor", "--format", "json").stdout)] == [
        "broken",
        "ok",
    ]
    assert dpkit("doctor", "--strict").exit_code == 1
    del found[0]
    assert dpkit("doctor", "--strict").exit_code == 0


def test_doctor_says_that_there_are_no_parts(dpkit, monkeypatch):
    monkeypatch.setattr("dpkit_core.doctor.examine.examine", lambda built_in: [])
    result = dpkit("doctor", "--format", "json")
    assert result.exit_code == 0
    assert json.loads(result.stdout) == []
    assert (
        "no parts are installed; this installs the first ones: uv pip install 'CLONE[starter]'"
        in " ".join(result.stderr.split())
    )
    assert dpkit("doctor", "--strict").exit_code == 1


def test_a_guard_that_cannot_be_imported_fails_the_strict_doctor(dpkit, site, monkeypatch):
    points = {"dpkit.hooks": {"guard": "guard_of_nothing:Guard"}}
    site.install("dpkit-guard", entry_points=points, modules={"guard_of_nothing": "import nothing_at_all"})
    # Only what this test installed: the others take a process each.
    monkeypatch.setattr(
        "dpkit_core.doctor.examine.installed",
        lambda: (Registry().find("scorer", "large"), *resources("hooks")),
    )
    result = dpkit("doctor", "--strict")
    assert result.exit_code == 1
    assert "observer guard (dpkit-guard 1.0): is installed but failed while importing" in result.stdout


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
    assert dpkit("list").stdout.endswith("\nTold of every run, see `dpkit list observers`: sunday\n")
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
