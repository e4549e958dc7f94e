"""The draft that ``dpkit schema`` writes, and what a new user gets wrong when completing it."""

import datetime
import tomllib

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import csv

from dpkit_core import Schema
from dpkit_core.data.columns import Unit
from dpkit_core.errors import InvalidSchema

GERMAN = """\
Patient ID;aufgenommen;Kosten;Alter;entlassen;wieder da
001;17.04.2023;4.011,56 €;47;23.05.2023;ja
002;30.11.2022;12,00 €;8;01.12.2022;nein
003;02.01.2023;;91;;nein
"""


@pytest.fixture
def export(folder):
    (folder / "visits.csv").write_text(GERMAN, encoding="utf-8-sig")
    return "visits.csv", "--delimiter", ";"


def test_a_german_export_is_drafted_as_it_is_written(dpkit, export):
    result = dpkit("schema", *export, "--target", "wieder da")
    assert result.exit_code == 0, result.output
    assert tomllib.loads(result.stdout) == {
        "neighboring": "add-remove",
        "target": "wieder da",
        "columns": {
            "aufgenommen": {"kind": "date", "format": "%d.%m.%Y"},
            "Kosten": {"kind": "numeric", "symbol": "€", "decimal": ",", "thousands": "."},
            "Alter": {"kind": "numeric"},
            "entlassen": {"kind": "date", "format": "%d.%m.%Y"},
            "wieder da": {"kind": "categorical"},
        },
    }
    for value in ("4.011", "17.04", "nein", "47", "001"):
        assert value not in result.stdout


def test_numbers_with_leading_zeros_are_drafted_as_codes(dpkit, folder):
    (folder / "t.csv").write_text("district,y\n001,2\n002,3\n")
    text = dpkit("schema", "t.csv").stdout
    assert "leading 0 are taken to be codes" in text
    assert tomllib.loads(text)["columns"]["district"] == {"kind": "categorical"}


def test_the_type_of_a_column_of_truth_values_says_its_bounds(dpkit, folder):
    pq.write_table(pa.table({"smoker": [True, None], "y": [1, 2]}), folder / "t.parquet")
    text = dpkit("schema", "t.parquet").stdout
    assert tomllib.loads(text)["columns"]["smoker"] == {"kind": "numeric", "lower": 0, "upper": 1}
    assert '# missing = "indicator"' in text


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_a_draft_asks_whom_the_release_protects(dpkit, folder, form):
    table = pa.table(
        {"visit_id": [1, 2], "Patient ID": ["a", "b"], "patient_age": [3, 4], "user": [0.5, 1.5]}
    )
    if form == "csv":
        table = table.drop_columns("user")
        csv.write_csv(table, folder / "t.csv")
    else:
        pq.write_table(table, folder / "t.parquet")
    text = dpkit("schema", f"t.{form}", "--target", "patient_age").stdout
    assert "Decide whom the release protects" in " ".join(text.replace("# ", "").split())
    drafted = tomllib.loads(text)
    assert "unit" not in drafted
    assert list(drafted["columns"]) == ["patient_age", *["user"][: form == "parquet"]]  # no unit is 0.5
    told = tomllib.loads(text.replace("# [unit]", "[unit]").replace("# column", "column"))
    assert told["unit"] == {"column": "Patient ID"}
    assert '# or "visit_id"' in text
    assert "most_records = 1" in text


def test_a_draft_asks_nothing_where_no_name_is_that_of_a_person(dpkit, folder):
    (folder / "t.csv").write_text("width,household_size,y\n1,2,3\n")
    text = dpkit("schema", "t.csv", "--target", "y").stdout
    assert "[unit]" not in text
    assert list(tomllib.loads(text)["columns"]) == ["width", "household_size", "y"]


def test_a_draft_says_what_was_looked_at(dpkit, export, folder):
    text = dpkit("schema", *export).stdout
    assert "guessed from at most\n# 10000 records at its beginning" in text
    assert "# Public facts about visits.csv" in text
    pq.write_table(pa.table({"a": [1.5, 2.5], "c": ["x", "y"], "y": [1, 2]}), folder / "t.parquet")
    text = dpkit("schema", "t.parquet").stdout
    assert "no value was read" in text
    assert "guessed" not in text
    kinds = {name: facts["kind"] for name, facts in tomllib.loads(text)["columns"].items()}
    assert kinds == {"a": "numeric", "c": "categorical", "y": "numeric"}


def test_a_draft_explains_what_may_be_said_where_it_applies(dpkit, export):
    text = dpkit("schema", *export, "--target", "wieder da").stdout
    assert "# records_about = 50000" in text
    rest, target = text.split('[columns."wieder da"]')
    assert "# positive = " in target
    assert "# positive = " not in rest
    assert '# missing = "indicator"' in rest
    target = dpkit("schema", *export, "--target", "Kosten").stdout.split("[columns.Kosten]")[1]
    assert '# missing = "drop"' in target.split("[columns")[0]  # a target gets no indicator


def test_a_draft_with_all_its_comments_taken_away_is_a_schema(dpkit, export):
    text = dpkit("schema", *export, "--target", "Kosten").stdout
    body = text[text.index("neighboring") :]
    told = body.replace("# lower = \n", "lower = 0\n").replace("# upper = \n", "upper = 9\n")
    told = told.replace('# upper = "2000-01-01"', '# upper = "2010-01-01"')
    told = told.replace('["...", "..."]', '["no", "yes"]')
    lines = [
        line[2:]
        if line.startswith("# ") and (" = " in line.partition("  #")[0] or "[unit]" in line)
        else line
        for line in told.splitlines()
    ]
    schema = Schema.from_document(tomllib.loads("\n".join(lines)))
    assert schema.records_about == 50_000
    assert schema.target.missing == "drop"
    assert schema.columns[0].format == "%d.%m.%Y"
    assert schema.unit == Unit(("Patient ID",), 1)


def test_what_can_be_read_in_two_ways_is_left_to_a_person(dpkit, folder):
    (folder / "t.csv").write_text('on,cost,y\n03/04/2023,"4,011",1\n05/06/2023,"12,300",2\n')
    text = dpkit("schema", "t.csv").stdout
    assert tomllib.loads(text)["columns"]["on"] == {"kind": "date"}
    assert '# format = "%d/%m/%Y"\n# or\n# format = "%m/%d/%Y"' in text
    assert '# decimal = "."\n# thousands = ","\n# or\n# decimal = ","' in text
    text = dpkit("schema", "t.csv", "--decimal", ",", "--delimiter", ",").stdout
    assert tomllib.loads(text)["columns"]["cost"] == {"kind": "numeric", "decimal": ","}


def test_a_draft_goes_where_it_is_told(dpkit, export, folder):
    result = dpkit("schema", *export, "-o", "visits.schema.toml")
    assert result.exit_code == 0, result.output
    assert result.stdout == ""
    assert "fill it in" in result.stderr
    written = (folder / "visits.schema.toml").read_text(encoding="utf-8")
    assert dpkit("schema", *export).stdout == dpkit("schema", *export, "-o", "-").stdout == written
    again = dpkit("schema", *export, "-o", "visits.schema.toml")
    assert again.exit_code == 2
    assert "exists" in again.stderr
    assert dpkit("schema", *export, "-o", "visits.schema.toml", "--force").exit_code == 0


@pytest.mark.slow
def test_a_draft_of_standard_input(folder):
    import subprocess
    import sys

    (folder / "t.csv").write_text("a,y\n1,2\n3,4\n")
    with (folder / "t.csv").open() as table:
        done = subprocess.run(
            [sys.executable, "-c", "from dpkit_cli import main; main()", "schema", "-"],
            stdin=table,
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    assert "# Public facts about standard input" in done.stdout
    assert list(tomllib.loads(done.stdout)["columns"]) == ["a", "y"]


def test_a_column_that_no_schema_can_describe_is_a_comment(dpkit, folder):
    pq.write_table(pa.table({"a": [[1], [2]], "y": [1, 2]}), folder / "t.parquet")
    text = dpkit("schema", "t.parquet").stdout
    assert "# Column 'a' holds list" in text
    assert list(tomllib.loads(text)["columns"]) == ["y"]


def test_a_target_that_the_table_lacks_is_refused(dpkit, export):
    result = dpkit("schema", *export, "--target", "kosten")
    assert result.exit_code == 2
    assert "did you mean 'Kosten'" in result.stderr


# The first hour with a schema: what I wrote, and what I was told

MINE = """\
target = "readmitted"

[columns.age]
lower = 0
upper = 120

[columns.cost]
symbol = "€"
decimal = ","

[columns.readmitted]
categories = ["no", "yes"]
"""


def told(folder, *changes):
    """Return what I am told about my schema after these changes of it; each is in it."""
    text = MINE
    for before, after in changes:
        assert before in text
        text = text.replace(before, after)
    (folder / "s.toml").write_text(text, encoding="utf-8")
    with pytest.raises(InvalidSchema) as caught:
        Schema.read(folder / "s.toml")
    return str(caught.value)


def test_my_schema_is_right_as_it_is(folder):
    (folder / "s.toml").write_text(MINE, encoding="utf-8")
    schema = Schema.read(folder / "s.toml")
    assert schema.target.kind == "categorical"
    assert schema.outcome.category == "yes"


def test_i_wrote_bounds_in_one(folder):
    words = told(folder, ("lower = 0\nupper = 120", "bounds = [0, 120]"))
    assert words == "column 'age' has an unknown key 'bounds'; write lower = 0 and upper = 120 instead"


def test_i_forgot_the_quotes_of_a_name(folder):
    words = told(folder, ("[columns.age]", "[columns.Patient age]"))
    assert "line 3: put quotes around a name with characters other than letters" in words
    assert words.endswith('[columns."Patient age"]')


def test_i_left_a_bound_for_later(folder):
    assert "line 4, lower, has nothing after the =" in told(folder, ("lower = 0", "lower = "))


def test_i_wrote_a_decimal_comma_in_the_schema_too(folder):
    assert "line 5, upper, has a comma in a number" in told(folder, ("upper = 120", "upper = 120,5"))


def test_i_looked_for_a_boolean(folder):
    words = told(folder, ('categories = ["no", "yes"]', 'kind = "boolean"'))
    assert 'categories = ["no", "yes"], spelled as in the table' in words


def test_i_said_that_the_target_is_text_and_not_which(folder):
    words = told(folder, ('categories = ["no", "yes"]', 'kind = "categorical"'))
    assert (
        'list them under [columns.readmitted], from public knowledge. Of two, as in categories = ["no"'
        in words
    )


def test_i_made_several_mistakes_and_learnt_of_all(folder):
    words = told(folder, ("lower = 0", "min = 0"), ('"€"', '"5"'), ('"no", "yes"', '"no"'), ("upper", "uper"))
    assert words.startswith("the schema has 4 problems:\n")
    assert [word in words for word in ("mean lower", "mean upper", "symbol = '5'", "'readmitted'")] == [
        True
    ] * 4


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


@pytest.mark.usefixtures("parts")
def test_a_drafted_schema_serves_as_it_is_for_a_table_of_numbers(dpkit, folder):
    (folder / "schema.toml").write_text(dpkit("schema", "numbers.csv").stdout)
    parts = ("--scorer", "large", "--selector", "best", "-k", "1", "--accountant", "basic")
    result = dpkit("compose", "numbers.csv", "--schema", "schema.toml", "--target", "y", *parts)
    assert result.exit_code == 0, result.output
    result = dpkit("compose", "numbers.csv", "--schema", "schema.toml", *parts, "--force")
    assert result.exit_code == 2
    assert "names no target" in result.stderr
