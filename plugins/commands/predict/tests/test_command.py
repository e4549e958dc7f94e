"""``dpkit predict``: what a released model says of new records, however they come and wherever it goes."""

import csv
import datetime
import functools
import io
import json
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from dpkit_command_predict.predictions import predictions

from dpkit_core import Budget, Column, Dataset, Release, Schema, compose

COMPOSE = ("compose", "diamonds.csv", "--schema", "facts.toml", "--scorer", "large", "--selector", "best")
FULL = (*COMPOSE, "-k", "2", "--regressor", "average", "--accountant", "basic")

pytestmark = pytest.mark.usefixtures("parts")


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
    chances = ["c=a", "c=b,d", "c=c"]
    assert list(printed[0]) == ["c", *chances]
    assert [sum(float(row[name]) for name in chances) for row in printed] == pytest.approx([1.0] * 30)
    likely = [max(chances, key=lambda name, row=row: float(row[name])) for row in printed]
    assert [f"c={row['c']}" for row in printed] == likely
    dpkit("predict", "release.json", "t.csv", "--output", "out.parquet")
    written = pq.read_table("out.parquet").to_pylist()
    assert written == [
        {name: value if name == "c" else float(value) for name, value in row.items()} for row in printed
    ]
    refused = dpkit("predict", "release.json", "t.csv", "--threshold", ".4")
    assert refused.exit_code == 2
    assert "target 'c' has the classes a, b,d, c; leave it out" in refused.stderr


@functools.cache
def released(feature, target, regressor):
    """Return a release of a model of one feature, as JSON."""
    schema = Schema((Column(feature),), target)
    data = Dataset.from_arrays([[0.0], [1.0]] * 20, [0.0, 1.0] * 20, schema)
    plan = compose(regressor=regressor).plan(schema, Budget(1.0, 1e-6))
    return json.dumps(plan.run(data).to_document())


def with_model(release, intercept, **coefficients):
    """Return the release, as JSON, with a known model in place of the one that was fitted."""
    model = {"kind": "linear", "intercept": intercept, "coefficients": coefficients}
    return json.dumps(json.loads(release) | {"model": model})


@pytest.fixture
def chances(folder):
    """A release that predicts whether something is good, as the number x itself, and records with their x."""
    end = Column("end", "categorical", categories=("bad", "good"))
    release = with_model(released("x", end, "winsorized_least_squares"), 0.0, x=1.0)
    (folder / "release.json").write_text(release)
    (folder / "t.csv").write_text("x,end\n.2,bad\n.5,good\n.4999,bad\n,good\n1.25,bad\n")
    return folder


@pytest.mark.slow
def test_a_category_is_predicted_beside_its_probability_from_a_threshold_on(dpkit, chances):
    printed = dpkit("predict", "release.json", "t.csv")
    expected = "end,end=good\nbad,0.2\ngood,0.5\nbad,0.4999\n,nan\ngood,1.25\n"
    assert printed.stdout == expected
    assert "1 of 5 records lacks a value" in printed.stderr
    for threshold, categories in ((0, "good good good"), (0.4999, "bad good good"), (1, "bad bad bad")):
        shown = dpkit("predict", "release.json", "t.csv", "--threshold", threshold, "--format", "json")
        rows = json.loads(shown.stdout, parse_constant=pytest.fail)["predictions"]
        assert [row["end"] for row in rows] == [*categories.split(), None, "good"]
        assert rows[3]["end=good"] is None
    for beyond in (-0.1, 1.1, "nan"):
        refused = dpkit("predict", "release.json", "t.csv", "--threshold", beyond)
        assert refused.exit_code == 2
        assert "give a probability, from 0 to 1" in refused.stderr
    beside = dpkit("predict", "release.json", "t.csv", "--keep", "end", "--as", "likely")
    assert beside.stdout.startswith("end,likely,likely=good\nbad,bad,0.2\ngood,good,0.5\n")
    assert dpkit("predict", "release.json", "t.csv", "--keep", "end").exit_code == 2


def test_one_category_of_several_is_predicted_or_is_not(dpkit, chances):
    released = json.loads((chances / "release.json").read_text())
    target = released["certificate"]["schema"]["columns"]["end"]
    target |= {"categories": ["bad", "good", "ugly"], "positive": "ugly"}
    (chances / "release.json").write_text(json.dumps(released))
    printed = dpkit("predict", "release.json", "t.csv").stdout
    assert printed.splitlines()[:3] == ["end,end=ugly", "not ugly,0.2", "ugly,0.5"]


def test_a_threshold_is_nothing_for_a_number(dpkit, identified):
    refused = dpkit("predict", "release.json", "new.csv", "--threshold", 0.5)
    assert refused.exit_code == 2
    assert "target 'price' is a number; leave it out" in refused.stderr


@pytest.mark.slow
@pytest.mark.parametrize("format", ["csv", "json", "parquet"])
def test_predictions_are_the_same_bits_in_batches_of_any_size(dpkit, chances, monkeypatch, format):
    rng = np.random.default_rng(5)
    numbers = ["" if i % 7 == 0 else repr(x) for i, x in enumerate(rng.normal(size=500).tolist())]
    (chances / "t.csv").write_text("id,x\n" + "".join(f"0{i},{x}\n" for i, x in enumerate(numbers)))
    contents = []
    for rows in (1, 7, 2**16):
        monkeypatch.setattr("dpkit_command_predict.predictions.ROWS", rows)
        done = dpkit("predict", "release.json", "t.csv", "--keep", "id", "-o", f"{rows}.{format}")
        assert done.exit_code == 0, done.stderr
        assert f"{rows}.{format}: 500 predictions" in done.stderr
        path = chances / f"{rows}.{format}"
        contents.append(pq.read_table(path).to_pydict() if format == "parquet" else path.read_bytes())
    assert str(contents[0]) == str(contents[1]) == str(contents[2])
    assert len(pq.read_table(path) if format == "parquet" else contents[0].splitlines()) >= 500


def test_a_table_without_records_has_predictions_without_records(dpkit, chances):
    (chances / "t.csv").write_text("id,x\n")
    printed = dpkit("predict", "release.json", "t.csv", "--keep", "id")
    assert printed.stdout == "id,end,end=good\n", printed.stderr
    shown = dpkit("predict", "release.json", "t.csv", "--format", "json").stdout
    assert json.loads(shown) == {"predictions": []}
    dpkit("predict", "release.json", "t.csv", "--keep", "id", "-o", "out.parquet")
    assert pq.read_table("out.parquet").schema.names == ["id", "end", "end=good"]


def test_a_record_that_cannot_be_read_leaves_no_file_of_predictions(dpkit, chances, monkeypatch):
    monkeypatch.setattr("dpkit_command_predict.predictions.ROWS", 2)
    (chances / "t.csv").write_text("x\n.1\n.2\n.3\nsecret\n")
    before = {path.name for path in chances.iterdir()}
    for output in ("out.csv", "out.json", "out.parquet"):
        result = dpkit("predict", "release.json", "t.csv", "-o", output)
        assert result.exit_code == 2
        assert "t.csv, record 4: column 'x' holds something that is not a number" in result.stderr
        assert "secret" not in result.output
    assert {path.name for path in chances.iterdir()} == before


@pytest.mark.slow
def test_predictions_go_from_standard_input_to_standard_output(dpkit, chances):
    command = [sys.executable, "-c", "from dpkit_cli import main; main()"]
    arguments = ["predict", "release.json", "-", "--keep", "end", "--as", "likely", "-o", "-"]
    table = (chances / "t.csv").read_text()
    done = subprocess.run([*command, *arguments], input=table, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == dpkit("predict", "release.json", "t.csv", *arguments[3:]).stdout
    assert not (chances / "-").exists()


@pytest.mark.slow
def test_predicting_does_not_import_pandas(dpkit, chances):
    code = (
        "import sys; sys.argv = ['dpkit', *sys.argv[1:]]\nfrom dpkit_cli import main\n"
        "try:\n    main()\nfinally:\n    print('pandas' in sys.modules, file=sys.stderr)"
    )
    arguments = ("predict", "release.json", "t.csv", "--keep", "end", "--as", "likely")
    command = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stderr.splitlines()[-1] == "False"


def test_a_program_gets_predictions_of_a_table_in_memory_in_batches(dpkit, chances):
    release = Release.read("release.json")
    table = pa.table({"x": [0.25, 0.75], "id": [7, 8]})
    (batch,) = predictions(release, table, ["id"], threshold=0.2)
    assert batch.to_pydict() == {"id": [7, 8], "end": ["good", "good"], "end=good": [0.25, 0.75]}


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
def identified(folder):
    """A release, and new records with ids of every kind that a reader of numbers would spoil."""
    price = Column("price", lower=0.0, upper=10.0)
    (folder / "release.json").write_text(with_model(released("carat", price, "mean"), 1.0, carat=2.0))
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
        (
            "Id",
            ["--keep Id", "new.csv has no column 'Id'", "did you mean 'id'?", "'id', 'when', 'who'"],
        ),
        ("customer", ["--keep customer", "new.csv has no column 'customer'", "'id', 'when', 'who', 'carat'"]),
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
    assert "--keep prediction: the predictions have a column of that name" in result.stderr
    assert "--as 'predicted prediction'" in result.stderr
    beside = dpkit(
        "predict", "release.json", "new.csv", "--keep", "prediction", "--as", "predicted prediction"
    )
    assert beside.stdout == "prediction,predicted prediction\n1,7.0\n"


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
    assert "also an input" in result.stderr
    assert (folder / "diamonds.csv").read_bytes() == before


def test_predictions_go_to_known_formats_only(dpkit, folder):
    dpkit(*FULL)
    result = dpkit("predict", "release.json", "diamonds.csv", "--output", "out.xlsx")
    assert result.exit_code == 2
    assert ".csv, .json or .parquet" in result.stderr
