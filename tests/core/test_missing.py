"""Data as people have them become numbers by public rules, record by record."""

import datetime
import gzip
import itertools
import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from dpkit_cli.facts import infer_schema
from tables import read, streamed

from dpkit_core import Dataset, LinearModel, ReadOptions, StreamedDataset, open_source
from dpkit_core.data.dataset import SparseDataset
from dpkit_core.data.schema import Column, Schema
from dpkit_core.errors import InvalidData, InvalidOption, InvalidSchema
from dpkit_core.privacy.budget import Neighboring

CUT = {"kind": "categorical", "categories": ("Good", "Fair")}


def schema_of(*columns, target=None, **facts):
    return Schema(columns, target or Column("y"), **facts)


@pytest.fixture
def table(tmp_path):
    count = itertools.count()

    def table(text, name="t.csv"):
        path = tmp_path / f"{next(count)}-{name}"
        path.write_bytes(gzip.compress(text.encode()) if name.endswith("gz") else text.encode())
        return path

    return table


# Rules


RULES = {
    "constant": (Column("a", missing="constant", fill=7), ["a"], [[1], [7]]),
    "indicator": (Column("a", missing="indicator", fill=7), ["a", "a is missing"], [[1, 0], [7, 1]]),
    "indicator of bounds": (
        Column("a", lower=0, upper=10, missing="indicator"),
        ["a", "a is missing"],
        [[1, 0], [5, 1]],
    ),
    "drop": (Column("a", missing="drop"), ["a"], [[1]]),
}


@pytest.mark.parametrize(("column", "names", "expected"), RULES.values(), ids=RULES)
def test_a_missing_number_is_what_the_schema_says(table, column, names, expected):
    schema = schema_of(column)
    frame = pd.DataFrame({"a": [1.0, None]})
    for data in (read(table("a,y\n1,2\n,3\n"), schema), Dataset.from_arrays(frame, [2, 3], schema)):
        assert list(data.names) == names
        assert data.X.tolist() == expected
        assert data.y.tolist() == [2, 3][: len(expected)]


CATEGORIES = {
    "none": ({}, [[1, 0], [0, 0], [0, 0]]),
    "constant": ({"missing": "constant", "fill": "Fair"}, [[1, 0], [0, 1], [0, 0]]),
    "indicator": ({"missing": "indicator"}, [[1, 0, 0], [0, 0, 1], [0, 0, 0]]),
    "drop": ({"missing": "drop"}, [[1, 0], [0, 0]]),
}


@pytest.mark.parametrize(("facts", "expected"), CATEGORIES.values(), ids=CATEGORIES)
def test_a_missing_category_is_what_the_schema_says(table, facts, expected):
    schema = schema_of(Column("cut", **CUT, **facts))
    for written in ("cut,y\nGood,1\n,1\nOdd,1\n", 'cut,y\nGood,1\n"",1\nOdd,1\n'):
        assert read(table(written), schema).X.tolist() == expected
    frame = pd.DataFrame({"cut": ["Good", None, "Odd"]})
    assert Dataset.from_arrays(frame, [1, 1, 1], schema).X.tolist() == expected


def test_a_matrix_is_filled_and_its_records_dropped_alike():
    schema = schema_of(Column("a", missing="indicator", fill=7), Column("b", missing="drop"))
    X = np.array([[1, 0, 2], [np.nan, 0, 3], [4, 0, np.nan]], order="F")
    data = Dataset.from_arrays(X, [1, 2, 3], schema)
    assert data.X.tolist() == [[1, 0, 2], [7, 1, 3]]
    assert data.y.tolist() == [1, 2]
    assert data.X.flags.f_contiguous
    assert np.isnan(X).sum() == 2  # the caller's matrix is as it was
    blocks = StreamedDataset.from_blocks(lambda: iter([(X[:1], [1]), (X[1:], [2, 3])]), schema)
    assert blocks.records == 2
    assert blocks.dense().X.tolist() == data.X.tolist()


def test_a_missing_target_is_what_the_schema_says(table):
    text = "a,y\n1,2\n5,\n"
    assert read(table(text), schema_of(Column("a"), target=Column("y", missing="drop"))).X.tolist() == [[1]]
    filled = schema_of(Column("a"), target=Column("y", missing="constant", fill=0))
    assert read(table(text), filled).y.tolist() == [2, 0]


def test_a_stream_leaves_out_the_same_records_in_each_pass(tmp_path):
    columns = {"a": [1.0, None, 3.0, 4.0], "b": [1.0, 2.0, None, 4.0], "cut": ["Good", "Fair", "Good", None]}
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({**columns, "y": [1, 2, 3, 4]}), path)
    schema = schema_of(
        Column("a", missing="drop"),
        Column("b", missing="constant", fill=9),
        Column("cut", **CUT, missing="drop"),
    )
    whole, blocks = read(path, schema), streamed(path, schema)
    assert whole.X.tolist() == [[1, 1, 1, 0], [3, 9, 1, 0]]
    assert blocks.records == 2
    assert blocks.dense().X.tolist() == whole.X.tolist()
    for columns_in_use in ([1], [3, 1], []):  # which do not have what drops the others
        part = blocks.select(columns_in_use).dense()
        assert part.X.tolist() == whole.select(columns_in_use).X.tolist()
        assert part.y.tolist() == [1, 3]


def test_nothing_left_is_said(table):
    with pytest.raises(InvalidData, match="every record has a missing value"):
        read(table("a,y\n,2\n,3\n"), schema_of(Column("a", missing="drop")))


def test_sparse_data_take_no_rules():
    from scipy import sparse

    schema = schema_of(Column("a", missing="constant", fill=1))
    with pytest.raises(InvalidData, match="rules for missing values are for dense data and files"):
        SparseDataset.from_arrays(sparse.csr_array([[np.nan], [1.0]]), [1, 2], schema)


# Sensitivity: all records there are, all neighbors of all small tables


RECORDS = [*itertools.product(["1", "2", ""], ["Good", ""], ["5", ""])]


def encoded(table, schema, records):
    if not records:
        return []
    path = table("a,cut,y\n" + "".join(",".join(r) + "\n" for r in records))
    data = read(path, schema, batch=True)
    return sorted([*row, y] for row, y in zip(data.X.tolist(), data.y.tolist(), strict=True))


def without_common(ours, theirs):
    ours = list(ours)
    for record in theirs:
        if record in ours:
            ours.remove(record)
    return len(ours)


def facts_of(rule):
    number = {"missing": rule, "fill": None if rule == "drop" else 3.0}
    text = {"missing": rule, "fill": "Fair" if rule == "constant" else None}
    target = number if rule != "indicator" else {"missing": "constant", "fill": 3.0}
    return Column("a", **number), Column("cut", **CUT, **text), Column("y", **target)


@pytest.mark.first(1)
@pytest.mark.parametrize("rule", ["drop", "constant", "indicator"])
def test_neighbors_stay_neighbors_under_every_rule(table, rule):
    a, cut, y = facts_of(rule)
    schema = schema_of(a, cut, target=y)
    for base in ([], [RECORDS[0], RECORDS[3]], [RECORDS[-1]]):
        before = encoded(table, schema, base)
        for record in RECORDS:
            after = encoded(table, schema, [*base, record])
            assert without_common(before, after) == 0
            assert without_common(after, before) <= 1
            if rule != "drop":
                assert len(after) == len(before) + 1


def test_dropping_is_refused_where_the_number_of_records_is_public():
    for column, target in (
        (Column("a", missing="drop"), Column("y")),
        (Column("a"), Column("y", missing="drop")),
    ):
        with pytest.raises(InvalidSchema, match=r'missing = "drop".*replace-one.*"constant" or "indicator"'):
            schema_of(column, target=target, neighboring=Neighboring.REPLACE_ONE)
    document = schema_of(Column("a", missing="drop")).to_document() | {"neighboring": "replace-one"}
    with pytest.raises(InvalidSchema, match="changes the number of records"):
        Schema.from_document(document)


def test_a_dataset_of_another_rule_is_not_what_the_plan_was_made_for():
    from dpkit_core import Budget, compose

    mine, other = (schema_of(Column("a", missing="constant", fill=fill)) for fill in (1, 2))
    plan = compose(regressor="mean").plan(mine, Budget(1.0, 1e-6))
    with pytest.raises(InvalidData, match="another rule for a"):
        plan.run(Dataset.from_arrays([[1.0]], [1.0], other))


# The schema's own words


WRONG = {
    "no rule": (
        {"missing": "mean"},
        "one of drop, constant, indicator",
    ),
    "no fill": ({"missing": "constant"}, "give the finite number that stands for a missing value"),
    "no bounds": ({"missing": "indicator"}, "or both bounds, whose middle it is"),
    "text": ({"missing": "constant", "fill": "x"}, "fill = 'x'; give the finite number"),
    "infinite": ({"missing": "constant", "fill": np.inf}, "give the finite number"),
    "fill for nothing": ({"fill": 1.0}, "which does not use it"),
    "fill and drop": ({"missing": "drop", "fill": 1.0}, "which does not use it"),
    "no category": ({**CUT, "missing": "constant", "fill": "Odd"}, "not one of its categories Good, Fair"),
    "flagged category": ({**CUT, "missing": "indicator", "fill": "Good"}, "which does not use it"),
    "half a day": ({"kind": "date", "lower": 0.5}, "give a date"),
    "a time": ({"kind": "date", "lower": datetime.datetime(2020, 1, 1, 10)}, "has a time of day"),
    "years": ({"kind": "date", "upper": 1e9}, "in the years 1 to 9999"),
    "categories of dates": ({"kind": "date", "categories": ("x",)}, "is date but lists categories"),
}


@pytest.mark.parametrize(("facts", "message"), WRONG.values(), ids=WRONG)
def test_a_rule_that_is_none_is_refused(facts, message):
    with pytest.raises(InvalidSchema, match=message):
        Column("a", **facts)


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ({"kind": "date", "lower": "1.1.2020"}, 'give a date in quotes, such as "2020-01-31"'),
        ({"kind": "date", "lower": 3}, "give a date in quotes"),
        ({"missing": True}, "give one of drop"),
        ({"missing": "constant", "fill": [1]}, "give a number or a category"),
    ],
)
def test_a_fact_of_another_type_is_refused(facts, message):
    with pytest.raises(InvalidSchema, match=message):
        Schema.from_document({"target": "y", "columns": {"a": facts, "y": {}}})


def test_a_target_has_no_indicator_and_a_flag_no_namesake():
    with pytest.raises(InvalidSchema, match="would add a feature"):
        schema_of(Column("a"), target=Column("y", missing="indicator", fill=0))
    with pytest.raises(InvalidSchema, match="'a is missing' is a column and also"):
        schema_of(Column("a", missing="indicator", fill=0), Column("a is missing"))


FULL = schema_of(
    Column("a", missing="indicator", lower=0, upper=4),
    Column("cut", **CUT, missing="constant", fill="Fair"),
    Column("on", "date", datetime.date(2010, 1, 1), datetime.date(2020, 1, 1), missing="drop"),
    Column("off", "date", missing="constant", fill=datetime.date(1999, 12, 31)),
    target=Column("sold", "categorical", categories=("no", "yes")),
)


def test_a_schema_with_rules_is_written_and_read_back():
    document = json.loads(json.dumps(FULL.to_document()))
    assert Schema.from_document(document) == FULL
    assert document["columns"]["on"]["lower"] == "2010-01-01"
    assert document["columns"]["off"]["fill"] == "1999-12-31"


def test_each_rule_is_a_sentence():
    assert FULL.rules == (
        "dates in 'on', 'off' count in days since 1970-01-01",
        "where 'a' is missing, it is 2 and 'a is missing' is 1",
        "where 'cut' is missing, it is 'Fair'",
        "records without 'on' are left out",
        "where 'off' is missing, it is 1999-12-31",
    )


# Dates, text and truth values


DATED = schema_of(Column("on", "date", missing="constant", fill=datetime.date(1970, 1, 3)))


def test_dates_are_days_since_1970(table, tmp_path):
    expected = [[1.0], [18262.5], [2.0]]
    dates = [datetime.datetime(1970, 1, 2), datetime.datetime(2020, 1, 1, 12), None]
    path = tmp_path / "t.parquet"
    for kind in (pa.timestamp("s"), pa.timestamp("ns"), pa.timestamp("ms", "UTC")):
        pq.write_table(pa.table({"on": pa.array(dates, kind), "y": [1, 2, 3]}), path)
        assert read(path, DATED).X.tolist() == expected
    text = "on,y\n1970-01-02 00:00:00,1\n2020-01-01 12:00:00,2\n,3\n"
    assert read(table(text), DATED).X.tolist() == expected
    frames = [pd.DataFrame({"on": dates}), pd.DataFrame({"on": pd.Series(dates, dtype=object)})]
    for frame in frames:
        assert Dataset.from_arrays(frame, [1, 2, 3], DATED).X.tolist() == expected
    days = pa.table({"on": pa.array([1, 18262, None], pa.date32())})
    assert Dataset.from_arrays(days, [1, 2, 3], DATED).X.tolist() == [[1.0], [18262.0], [2.0]]
    pq.write_table(pa.table({"on": pa.array([1, 18262], pa.date64()), "y": [1, 2]}), path)
    assert infer_schema(open_source(path), "y").columns == (Column("on", "date"),)


def test_dates_may_be_predicted_and_numbers_are_no_dates(table):
    schema = schema_of(Column("a"), target=Column("y", "date"))
    assert read(table("a,y\n1,1970-01-11\n"), schema).y.tolist() == [10]
    dates = np.array(["1970-01-11"], dtype="M8[D]")
    assert Dataset.from_arrays([[1.0]], dates, schema).y.tolist() == [10]
    with pytest.raises(InvalidData, match=r"t.csv, record 1: column 'on' .* not a date"):
        read(table("on,y\n3,1\n"), DATED)
    with pytest.raises(InvalidData, match=r"t.csv, record 1: column 'on' .* not a number"):
        read(table("on,y\n2020-01-01,1\n"), schema_of(Column("on")))


def test_dates_as_categories_are_still_compared_in_words(table, tmp_path):
    schema = schema_of(Column("on", "categorical", categories=("2020-01-01", "2020-01-02")))
    path = tmp_path / "t.parquet"
    days = pa.array([datetime.date(2020, 1, 2), None], pa.date32())
    pq.write_table(pa.table({"on": days, "y": [1, 2]}), path)
    expected = [[0, 1], [0, 0]]
    assert read(path, schema).X.tolist() == expected
    assert streamed(path, schema).dense().X.tolist() == expected
    assert read(table("on,y\n2020-01-02,1\n,2\n"), schema).X.tolist() == expected
    assert Dataset.from_arrays(pa.table({"on": days}), [1, 2], schema).X.tolist() == expected
    frame = pd.DataFrame({"on": np.array(["2020-01-02", "NaT"], dtype="M8[D]").astype(object)})
    assert Dataset.from_arrays(frame, [1, 2], schema_of(Column("on", "date", missing="drop"))).records == 1


@pytest.mark.parametrize(
    ("written", "categories"),
    [(("no", "yes"), ("no", "yes")), (("false", "true"), ("false", "true")), (("0", "1"), ("0", "1"))],
)
def test_targets_of_text_and_truth_values_are_zero_and_one(table, written, categories):
    schema = schema_of(Column("a"), target=Column("y", "categorical", categories=categories))
    text = "a,y\n" + "".join(f"1,{word}\n" for word in written)
    assert read(table(text), schema).y.tolist() == [0, 1]
    if not written[0].isdigit():
        typed = [word == "true" for word in written] if "true" in written else list(written)
        assert Dataset.from_arrays([[1.0], [1.0]], typed, schema).y.tolist() == [0, 1]


# Files


def test_text_files_of_other_habits_give_the_same_dataset(table):
    schema = schema_of(Column("a"), Column("cut", **CUT))
    expected = [[1.5, 1, 0], [-1000.25, 0, 1]]
    rows = [("1.5", "Good", "1"), ("-1000.25", "Fair", "2")]

    def text(delimiter, decimal="."):
        lines = [("a", "cut", "y"), *((a.replace(".", decimal), cut, y) for a, cut, y in rows)]
        return "\n".join(map(delimiter.join, lines)) + "\n"

    for path, options in (
        (table(text(",")), {}),
        (table(text(";")), {"delimiter": ";"}),
        (table(text(";", ",")), {"delimiter": ";", "decimal": ","}),
        (table(text("\t"), "t.tsv"), {}),
        (table(text("\t", ","), "t.tsv"), {"decimal": ","}),
        (table(text("\t")), {"delimiter": "tab"}),
        (table(text(","), "t.csv.gz"), {}),
        (table(text("\t"), "t.tsv.gz"), {}),
    ):
        assert read(path, schema, **options).X.tolist() == expected


def test_what_else_stands_for_a_missing_value_is_said(table):
    schema = schema_of(
        Column("a", missing="constant", fill=3), Column("cut", **CUT, missing="constant", fill="Fair")
    )
    path = table("a,cut,y\n1,Good,1\n?,?,2\n")
    assert read(path, schema, missing=["?"]).X.tolist() == [[1, 1, 0], [3, 0, 1]]
    numbers = schema_of(Column("a", "categorical", categories=("1,5", "2"), missing="drop"))
    assert read(table("a;y\n1,5;1\n;2\n"), numbers, delimiter=";", decimal=",").X.tolist() == [[1, 0]]


def test_a_decimal_comma_means_the_number_in_categories(table):
    codes = schema_of(Column("a", "categorical", categories=("1.5", "2")))
    path = table("a;y\n1,5;1\nother;2\n")
    assert read(path, codes, delimiter=";", decimal=",").X.tolist() == [[1, 0], [0, 0]]


@pytest.mark.parametrize(
    ("dialect", "message"),
    [
        ({"delimiter": ";;"}, "must be one character"),
        ({"delimiter": "\n"}, "must be one character"),
        ({"decimal": ";"}, "must be '.' or ','"),
    ],
)
def test_what_is_no_delimiter_or_decimal_sign_is_refused(dialect, message):
    with pytest.raises(InvalidOption, match=message):
        ReadOptions(**dialect)


def test_a_comma_cannot_be_both(table):
    with pytest.raises(InvalidOption, match="both as the delimiter and in its numbers"):
        read(table("a,y\n1,2\n"), schema_of(Column("a")), decimal=",")


def test_a_comma_is_both_where_numbers_are_in_quotes(table):
    commas = {"delimiter": ",", "decimal": ","}
    data = read(table('a,y\n"0,5","1,25"\n"1,5",2\n'), schema_of(Column("a")), **commas)
    assert data.X.tolist() == [[0.5], [1.5]]
    assert data.y.tolist() == [1.25, 2.0]
    with pytest.raises(InvalidData, match="4 fields where the header has 2"):
        read(table("a,y\n0,5,1,25\n"), schema_of(Column("a")), **commas)


def test_another_delimiter_than_said_is_told(table):
    with pytest.raises(InvalidData, match="has semicolons between its columns; give --delimiter ';'"):
        open_source(table("a;y\n1;2\n", "t.csv.gz"))
    with pytest.raises(InvalidData, match="has commas between its columns"):
        open_source(table("a,y\n1,2\n", "t.tsv"))


# Predicting


def test_a_release_predicts_by_the_rules_of_its_schema():
    import attrs

    from dpkit_core import Budget, compose

    schema = schema_of(
        Column("a", missing="indicator", fill=2.0),
        Column("b", missing="drop"),
        target=Column("y", lower=0, upper=1),
    )
    release = (
        compose(regressor="mean")
        .plan(schema, Budget(1.0, 1e-6))
        .run(Dataset.from_arrays([[1.0, 0.0, 1.0]], [1.0], schema))
    )
    assert "where 'a' is missing, it is 2 and 'a is missing' is 1." in str(release)
    assert "the table has a record that is not left out" in str(release)
    model = LinearModel(("a is missing", "a", "b"), (100.0, 10.0, 1.0))
    release = attrs.evolve(release, model=model)
    frame = pd.DataFrame({"a": [1.0, None, 1.0], "b": [1.0, 1.0, None]})
    np.testing.assert_array_equal(release.predict(frame), [11.0, 121.0, np.nan])
    matrix = np.array([[0, 1.0, 1.0], [0, np.nan, 1.0], [0, 1.0, np.nan]])
    np.testing.assert_array_equal(release.predict(matrix), [11.0, 121.0, np.nan])
