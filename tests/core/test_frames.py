"""Tables of other libraries: columns are found by name in any order, or the message says what is wrong."""

import datetime
import warnings
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from dpkit_model_lines import RowClippedLinearModel, WinsorizedLinearModel

from dpkit_core import Budget, Column, Dataset, LinearModel, Schema, compose
from dpkit_core.data.features import Written
from dpkit_core.data.source import ReadOptions
from dpkit_core.errors import InvalidData, InvalidSchema, UnusedColumns
from dpkit_core.plugins.sources import open_source

SCHEMA = Schema(
    (
        Column("carat", lower=0, upper=5),
        Column("cut", "categorical", categories=("Fair", "Good")),
        Column("depth"),
    ),
    Column("price", lower=0, upper=100),
)
COLUMNS = {
    "depth": [61, 62, 63, 64],
    "cut": ["Good", "Fair", "Unlisted", None],
    "carat": [0.5, 1.5, 2.5, 3.5],
}
X = np.array([[0.5, 0, 1, 61], [1.5, 1, 0, 62], [2.5, 0, 0, 63], [3.5, 0, 0, 64]])
Y = [10.0, 20.0, 30.0, 40.0]


class Stream:
    """A table of a library that nobody has heard of."""

    def __init__(self, columns):
        self.inner = pa.table(columns)

    def __arrow_c_stream__(self, requested_schema=None):
        return self.inner.__arrow_c_stream__(requested_schema)


LIBRARIES = {
    "pandas": pd.DataFrame,
    "pandas, categories": lambda columns: pd.DataFrame(columns).astype({"cut": "category"}),
    "pandas, nullable": lambda columns: pd.DataFrame(columns).convert_dtypes(),
    "pandas, objects": lambda columns: pd.DataFrame(columns).astype(object),
    "polars": pl.DataFrame,
    "polars, categories": lambda columns: pl.DataFrame(columns).cast({"cut": pl.Categorical}),
    "pyarrow": pa.table,
    "pyarrow, a batch": pa.RecordBatch.from_pydict,
    "arrow stream": Stream,
}
each_library = pytest.mark.parametrize("library", LIBRARIES)
each_typed_library = pytest.mark.parametrize("library", sorted(LIBRARIES.keys() - {"pandas, objects"}))


@each_library
def test_columns_are_found_by_name_in_any_order_and_categories_by_the_schema(library):
    data = Dataset.from_arrays(LIBRARIES[library](COLUMNS), Y, SCHEMA)
    assert data.names == ("carat", "cut=Fair", "cut=Good", "depth")
    assert data.X.tolist() == X.tolist()
    assert data.y.tolist() == Y


@each_library
def test_surplus_columns_are_left_out_with_a_note_and_the_target_without(library):
    table = LIBRARIES[library]({"id": [1, 2, 3, 4], **COLUMNS, "price": Y})
    with pytest.warns(UnusedColumns, match="not used: 'id'$"):
        data = Dataset.from_arrays(table, Y, SCHEMA)
    assert data.X.tolist() == X.tolist()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Dataset.from_arrays(LIBRARIES[library]({**COLUMNS, "price": Y}), Y, SCHEMA)


@each_library
def test_a_missing_column_is_named_with_the_remedy(library):
    table = LIBRARIES[library]({"Carat": COLUMNS["carat"], "cut": COLUMNS["cut"], "depth": COLUMNS["depth"]})
    with pytest.raises(InvalidData, match=r"no column 'carat'; did you mean 'Carat'\? Its columns are "):
        Dataset.from_arrays(table, Y, SCHEMA)


def test_features_that_are_encoded_already_are_taken_as_they_are():
    table = pd.DataFrame(X[:, ::-1], columns=["depth", "cut=Good", "cut=Fair", "carat"])
    assert Dataset.from_arrays(table, Y, SCHEMA).X.tolist() == X.tolist()


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"carat": [1.0, None, 2.0, 3.0]}, "column 'carat' has missing"),
        ({"carat": ["1", "2", "x", "4"]}, "record 3: column 'carat' holds something that is not a number"),
        ({"carat": pd.to_datetime(["2020-01-01"] * 4)}, "'carat' holds dates, not numbers; declare"),
        (
            {"carat": [pd.Timestamp("2020-01-01"), None, "x", 1.0]},
            "record 1: column 'carat' holds something that is not a number",
        ),
        ({"carat": [1j, 2j, 3j, 4j]}, "'carat' holds complex128"),
    ],
)
def test_columns_of_other_kinds_are_named(columns, message):
    with pytest.raises(InvalidData, match=message):
        Dataset.from_arrays(pd.DataFrame({**COLUMNS, **columns}), Y, SCHEMA)


def test_numbers_of_every_kind_are_numbers():
    kinds = {
        "bool": [True, False],
        "int": pd.array([1, 2], dtype="Int8"),
        "missing or not": np.array([3, 4], dtype=object),
        "decimal": [Decimal("0.5"), Decimal(2)],
        "float32": np.array([0.25, 1], dtype=np.float32),
    }
    data = Dataset.from_arrays(pd.DataFrame(kinds), [1, 2], Schema.numeric(reversed(kinds), "y"))
    assert data.X[:, ::-1].tolist() == [[1, 1, 3, 0.5, 0.25], [0, 2, 4, 2, 1]]


def test_columns_without_names_and_doubled_names_are_refused():
    with pytest.raises(
        InvalidData,
        match=r"no column of the table has a name that is text, and 'carat' is needed; .*schema's order",
    ):
        Dataset.from_arrays(pd.DataFrame(X), Y, SCHEMA)
    doubled = pd.DataFrame(X, columns=["carat", "carat", "cut", "depth"])
    with pytest.raises(InvalidData, match="two columns 'carat'"):
        Dataset.from_arrays(doubled, Y, SCHEMA)
    with pytest.raises(InvalidData, match="a Series has no named columns"):
        Dataset.from_arrays(pl.Series([1.0, 2.0]), Y, SCHEMA)


# Predicting


MODELS = [
    LinearModel(("a", "b"), (2.0, -1.0), 3.0),
    RowClippedLinearModel(("a", "b"), (0.5, 0.1), (2.0, 3.0), 1.0, (2.0, -1.0), 3.0),
    WinsorizedLinearModel(("a", "b"), (0.5, 0.1), (2.0, 3.0), 1.0, (2.0, -1.0), 3.0, (-9.0, 9.0)),
]


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_models_find_their_columns_by_name(model):
    rng = np.random.default_rng(0)
    matrix = rng.normal(size=(20, 2))
    expected = model.predict(matrix)
    table = pl.DataFrame({"b": matrix[:, 1], "other": matrix[:, 0], "a": matrix[:, 0]})
    with pytest.warns(UnusedColumns, match="other"):
        assert model.predict(table).tolist() == expected.tolist()
    with pytest.raises(InvalidData, match="no column 'a'"):
        model.predict(table.drop("a"))
    for wrong in (np.zeros((2, 3)), np.zeros(2)):
        with pytest.raises(InvalidData, match="uses 2 features; give one column for each of 'a', 'b'"):
            model.predict(wrong)


def test_a_release_predicts_for_raw_tables_in_any_order():
    # What went wrong without a word: the columns of a table in another order were other features.
    rng = np.random.default_rng(1)
    n = 4000
    raw = pd.DataFrame({"carat": rng.uniform(0, 5, n), "cut": rng.choice(["Fair", "Good"], n)})
    price = 10 + 15 * raw["carat"] + 5 * (raw["cut"] == "Good")
    schema = SCHEMA.restrict(["carat", "cut"])
    data = Dataset.from_arrays(raw[["cut", "carat"]], price, schema)
    release = compose(regressor="adassp", accountant="rdp").plan(schema, Budget(5.0, 1e-6)).run(data)
    expected = release.predict(data.X)
    assert np.corrcoef(expected, price)[0, 1] > 0.9
    everything = raw.assign(price=price, id=range(n))[["price", "cut", "id", "carat"]]
    with pytest.warns(UnusedColumns, match="not used: 'id'$"):
        assert release.predict(everything).tolist() == expected.tolist()
    with pytest.raises(InvalidData, match="no column 'carat'"):
        release.predict(raw[["cut"]])
    with pytest.raises(InvalidData, match="uses 3 features"):
        release.predict(np.zeros((4, 7)))


WITH_TARGET = {**COLUMNS, "price": Y}


@each_library
def test_a_frame_that_holds_the_target_is_a_dataset(library):
    data = Dataset.from_frame(LIBRARIES[library](WITH_TARGET), SCHEMA)
    assert np.array_equal(data.X, X)
    assert data.y.tolist() == Y
    assert data.target_bounds == (0, 100)


@each_library
def test_a_categorical_target_is_one_where_it_is_positive(library):
    schema = Schema(
        (Column("carat"), Column("depth")), Column("cut", "categorical", categories=("Fair", "Good"))
    )
    frame = LIBRARIES[library]({name: COLUMNS[name] for name in ("carat", "cut", "depth")})
    assert Dataset.from_frame(frame, schema).y.tolist() == [1.0, 0.0, 0.0, 0.0]


@each_typed_library
def test_a_schema_takes_names_and_types_from_a_frame_and_facts_from_a_person(library):
    schema = Schema.from_frame(
        LIBRARIES[library](WITH_TARGET),
        "price",
        bounds={"carat": (0, 5), "price": (0, 100)},
        categories={"cut": ["Fair", "Good"]},
    )
    assert schema == SCHEMA.restrict(["depth", "cut", "carat"])


@each_typed_library
def test_a_schema_asks_for_categories_and_never_reads_them_off_the_records(library):
    with pytest.raises(InvalidSchema, match=r"'cut' \((text|Python objects)\).*from public knowledge"):
        Schema.from_frame(LIBRARIES[library](WITH_TARGET), "price")


def test_a_schema_asks_what_python_objects_are_whatever_they_are():
    for values in ([1, 2], ["a", "b"], [None, 0.5]):
        frame = pd.DataFrame({"a": values, "y": [0.0, 1.0]}).astype({"a": object})
        with pytest.raises(InvalidSchema, match=r"'a' \(Python objects\).*as by astype"):
            Schema.from_frame(frame, "y")


def test_a_schema_of_a_frame_depends_on_no_value():
    one, other = pd.DataFrame({"a": [1.0, 2.0], "y": [0.0, 0.0]}), pd.DataFrame({"a": [-9e9], "y": [7.0]})
    assert Schema.from_frame(one, "y") == Schema.from_frame(other, "y") == Schema.numeric(["a"], "y")


def test_dates_are_dates_and_other_types_are_named_with_what_is_to_be_done():
    frame = pd.DataFrame({"day": pd.to_datetime(["2020-01-01"]), "y": [1.0]})
    assert Schema.from_frame(frame, "y").columns == (Column("day", "date"),)
    with pytest.raises(InvalidSchema, match=r"'long' \(duration"):
        Schema.from_frame(frame.assign(long=pd.to_timedelta([1], unit="D")), "y")


@pytest.mark.parametrize("facts", [{"bounds": {"hue": (0, 1)}}, {"categories": {"hue": ["a"]}}])
def test_facts_about_a_column_that_is_not_there_are_refused(facts):
    with pytest.raises(InvalidSchema, match=r"no column 'hue'; it has carat, depth"):
        Schema.from_frame(pd.DataFrame({"carat": [1.0], "depth": [2.0]}), "depth", **facts)


def test_names_that_are_no_text_and_targets_that_are_missing_are_refused():
    with pytest.raises(InvalidData, match="named 0, 1; column names must be text"):
        Schema.from_frame(pd.DataFrame([[1.0, 2.0]]), "y")
    with pytest.raises(InvalidSchema, match="no column 'prize'"):
        Schema.from_frame(pd.DataFrame(WITH_TARGET), "prize", categories={"cut": ["Fair"]})
    with pytest.raises(InvalidData, match="no column 'price'"):
        Dataset.from_frame(pd.DataFrame(COLUMNS), SCHEMA)
    with pytest.raises(InvalidData, match="ndarray has no named columns"):
        Dataset.from_frame(X, SCHEMA)


def test_columns_that_the_schema_names_are_passed_over_without_a_warning():
    pipeline = compose(scorer="kendall", selector="peel", regressor="mean")
    release = pipeline.plan(SCHEMA, Budget(1.0, 0.01), k=1).run(
        Dataset.from_frame(pd.DataFrame(WITH_TARGET), SCHEMA)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert release.predict(pd.DataFrame(WITH_TARGET)).shape == (4,)


class Visits(pd.DataFrame):
    """A data frame of somebody else's, as GeoPandas has them."""


DAY_AND_NOON = [datetime.date(2020, 1, 1), datetime.datetime(2020, 1, 1, 12)]


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize(
    "made",
    [
        lambda days: Visits({"day": pd.Series(days, dtype=object), "y": 1.0}),
        lambda days: pytest.importorskip("narwhals").from_native(
            pd.DataFrame({"day": pd.Series(days, dtype=object), "y": 1.0})
        ),
        lambda days: pd.DataFrame({"day": pd.Categorical(pd.Series(days, dtype=object)), "y": 1.0}),
    ],
    ids=["a subclass", "narwhals", "categories"],
)
def test_objects_are_read_one_by_one_however_pandas_holds_them(made, order):
    schema = Schema((Column("day", "date"),), Column("y"))
    days = DAY_AND_NOON[::order]
    alone = [Dataset.from_frame(made([day]), schema).X[0, 0] for day in days]
    assert Dataset.from_frame(made(days), schema).X[:, 0].tolist() == alone == [18262.0, 18262.5][::order]


@pytest.mark.parametrize(
    "entry",
    [
        "Meier\ud800",
        np.datetime64("20000-01-01"),
        datetime.datetime.max.replace(tzinfo=datetime.timezone(datetime.timedelta(hours=-5))),
        10**400,
    ],
    ids=["half a character", "a far year", "a far instant", "a large number"],
)
def test_an_object_that_cannot_be_read_is_refused_without_its_value(entry):
    schema = Schema((Column("x", "date" if not isinstance(entry, str | int) else "numeric"),), Column("y"))
    with pytest.raises(InvalidData) as refused:
        Dataset.from_frame(pd.DataFrame({"x": pd.Series([entry], dtype=object), "y": 1.0}), schema)
    error: BaseException | None = refused.value
    while error is not None:
        assert isinstance(error, InvalidData)
        assert "Meier" not in str(error)
        error = error.__context__


def test_text_of_arrow_that_is_not_utf8_is_refused_without_its_value():
    ends = pa.py_buffer(np.array([0, 1, 4], np.int32))
    column = pa.Array.from_buffers(pa.string(), 2, [None, ends, pa.py_buffer(b"1a\xff\xfe")])
    table = pa.table({"x": column, "y": [1.0, 2.0]})
    with pytest.raises(InvalidData, match=r"record 2: column 'x' holds something that is not UTF-8"):
        Dataset.from_frame(table, Schema.numeric(["x"], "y"))


@pytest.mark.parametrize("mode", ["sparse", "dense"])
def test_the_codes_of_a_union_need_not_count_from_0(mode):
    codes = pa.array([5, 7, 5], pa.int8())
    if mode == "sparse":
        children = [pa.array([1.0, None, 3.0]), pa.array([None, "4", None])]
        column = pa.UnionArray.from_sparse(codes, children, ["n", "t"], [5, 7])
    else:
        children, places = [pa.array([1.0, 3.0]), pa.array(["4"])], pa.array([0, 0, 1], pa.int32())
        column = pa.UnionArray.from_dense(codes, places, children, ["n", "t"], [5, 7])
    data = Dataset.from_frame(pa.table({"x": column, "y": [0.0] * 3}), Schema.numeric(["x"], "y"))
    assert data.X[:, 0].tolist() == [1.0, 4.0, 3.0]


def test_a_stream_that_is_too_large_for_memory_lies_in_a_file_without_a_name(tmp_path, monkeypatch):
    monkeypatch.setattr("dpkit_core.data.frames.HELD", 100)
    # Each batch has words of its own, as categories often do where a stream was made of several files.
    words = [["a", "b"] * 9, ["c"] * 9, ["d"]]
    table = pa.Table.from_batches(
        [pa.record_batch([pa.array(batch).dictionary_encode()], ["word"]) for batch in words]
    )
    with pytest.raises(InvalidData, match=r"only once .* name a folder with --spool \(in Python, spool=\)"):
        open_source(Stream(table))
    with pytest.raises(InvalidData, match=r"cannot keep the table in .*none: No such file"):
        open_source(Stream(table), ReadOptions(spool=tmp_path / "none"))
    source = open_source(Stream(table), ReadOptions(spool=tmp_path))
    assert not list(tmp_path.iterdir())
    for rows in (2, 100):
        batches = list(source.batches({"word": Written("categorical")}, rows))
        assert max(batch.num_rows for batch in batches) == min(rows, 18)
        assert [word for batch in batches for word in batch.column(0).to_pylist()] == [
            word for batch in words for word in batch
        ]


@pytest.mark.filterwarnings("ignore:Determining the column names")
def test_a_query_of_polars_is_refused_with_what_to_give():
    with pytest.raises(InvalidData, match=r"a LazyFrame is a query and holds no records; give its \.collect"):
        Dataset.from_frame(pl.LazyFrame({"a": [1.0], "y": [1.0]}), Schema.numeric(["a"], target="y"))
