import math

import attrs
import numpy as np
import pytest

from dpkit_core import Budget, Dataset, Schema, compose
from dpkit_core.data.schema import Column
from dpkit_core.errors import InvalidData

SCHEMA = Schema.numeric(["a", "b"], target="y")


def dataset(X, y=(1.0, 2.0, 3.0)):
    return Dataset.from_arrays(X, y, SCHEMA)


def test_arrays_are_not_copied_and_cannot_be_changed():
    X = np.arange(6.0).reshape(3, 2)
    data = dataset(X)
    assert np.shares_memory(data.X, X)
    with pytest.raises(ValueError, match="read-only"):
        data.X[0, 0] = 1
    X[0, 0] = 5  # the caller's own array stays writable


def test_selected_columns_keep_names_and_order():
    chosen = dataset(np.arange(6.0).reshape(3, 2)).select([1, 0])
    assert chosen.names == ("b", "a")
    assert chosen.X.tolist() == [[1, 0], [3, 2], [5, 4]]


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        ([[1, 2], [3, np.nan], [5, 6]], (1, 2, 3), r"column 'b' has missing"),
        ([[1, 2], [np.inf, 4], [5, 6]], (1, 2, 3), r"column 'a' has infinite"),
        ([[1, np.nan], [np.nan, 4], [5, 6]], (1, 2, 3), r"columns 'a', 'b' have missing"),
        ([[1, 2], [3, 4], [5, 6]], (1, np.nan, 3), r"column 'y' has missing"),
        ([["p", "q"], ["r", "s"], ["t", "u"]], (1, 2, 3), r"X holds values that are not numbers"),
        ([[1, 2], [3, 4], [5, 6]], ("p", "q", "r"), r"target 'y' holds values that are not numbers"),
        ([[1, 2, 3]] * 3, (1, 2, 3), r"3 columns but the schema has 2 features"),
        ([[1, 2]] * 3, (1, 2), r"3 rows but target 'y' has 2"),
        (np.empty((0, 2)), (), r"has 0 rows; at least 1"),
        ([1, 2, 3], (1, 2, 3), r"1 dimensions; it must have 2"),
    ],
)
def test_bad_data_is_named_with_a_remedy(X, y, message):
    with pytest.raises(InvalidData, match=message):
        dataset(X, y)


def test_a_single_record_is_data():
    assert dataset([[1, 2]], (1,)).y.tolist() == [1]


def test_finite_values_whose_sum_overflows_are_accepted():
    dataset(np.full((3, 2), 1e308))


def test_sparse_data_are_checked_and_stay_sparse_when_columns_are_selected():
    from scipy import sparse

    from dpkit_core import SparseDataset

    X = np.array([[0.0, 2.0], [3.0, 0.0], [0.0, 0.0]])
    data = SparseDataset.from_arrays(sparse.coo_array(X), (1, 2, 3), SCHEMA)
    assert data.form == "sparse"
    chosen = data.select([1, 0])
    assert sparse.issparse(chosen.X)
    assert chosen.names == ("b", "a")
    assert chosen.dense().X.tolist() == X[:, [1, 0]].tolist()
    with pytest.raises(InvalidData, match="missing"):
        SparseDataset.from_arrays(sparse.csr_array(X * np.nan), (1, 2, 3), SCHEMA)
    with pytest.raises(InvalidData, match="not a SciPy sparse matrix"):
        SparseDataset.from_arrays(X, (1, 2, 3), SCHEMA)
    with pytest.raises(InvalidData, match="3 rows but target 'y' has 2"):
        SparseDataset.from_arrays(sparse.csr_array(X), (1, 2), SCHEMA)
    with pytest.raises(InvalidData, match="1 dimensions; it must have 2"):
        SparseDataset.from_arrays(sparse.coo_array(X[0]), (1, 2), SCHEMA)


def in_blocks(X, y, *breaks):
    return lambda: zip(np.split(X, breaks), np.split(y, breaks), strict=True)


def test_streamed_data_give_the_selected_columns_of_all_blocks():
    from dpkit_core import StreamedDataset

    X, y = np.arange(10.0).reshape(5, 2), np.arange(5.0)
    data = StreamedDataset.from_blocks(in_blocks(X, y, 3), SCHEMA)
    assert data.records == 5
    chosen = data.select([1])
    assert (chosen.names, chosen.form) == (("b",), "streamed")
    assert chosen.dense().X.ravel().tolist() == X[:, 1].tolist()
    assert chosen.dense().y.tolist() == y.tolist()
    assert data.select(()).dense().X.shape == (5, 0)


def test_a_sparse_entry_that_is_stored_in_parts_is_one_value():
    from scipy import sparse

    from dpkit_core import SparseDataset

    parts = sparse.csr_array(([2.0, 3.0, 1.0], [0, 0, 1], [0, 2, 2, 3]), shape=(3, 2))
    data = SparseDataset.from_arrays(parts, (1, 2, 3), SCHEMA)
    assert data.X.data.tolist() == [5, 1]
    assert parts.data.tolist() == [2, 3, 1]  # the caller's matrix is as it was


@pytest.mark.parametrize(
    ("blocks", "message"),
    [
        ([([[1.0, 2.0]], [1]), ([[3.0, np.nan], [5.0, 6.0]], [2, 3])], "column 'b' has missing"),
        ([([[1.0, 2.0]], [1]), ([[3.0, 4.0]], [np.inf])], "column 'y' has infinite"),
        ([([[1.0, 2.0]], [1, 2])], "1 rows but target 'y' has 2"),
        ([([[1.0, 2.0, 0.0]] * 3, [1, 2, 3])], "3 columns but the schema has 2"),
        ([], "has 0 rows; at least 1"),
        ([([[1.0, 2j]] * 3, [1, 2, 3])], "complex"),
    ],
)
def test_streamed_data_are_checked_by_one_pass(blocks, message):
    from dpkit_core import StreamedDataset

    with pytest.raises(InvalidData, match=message):
        StreamedDataset.from_blocks(lambda: iter(blocks), SCHEMA)


def test_a_stream_that_cannot_be_read_again_is_refused_instead_of_adding_up_nothing():
    from dpkit_core import StreamedDataset, Sum

    X, y = np.arange(10.0).reshape(5, 2), np.arange(5.0)
    parts = list(in_blocks(X, y, 3)())
    passes = iter([parts, parts[:1], [], [*parts, parts[0]]])
    data = StreamedDataset.from_blocks(lambda: iter(next(passes)), SCHEMA)
    for rows in (3, 0, 8):
        with pytest.raises(InvalidData, match=f"{rows} records where the first had 5; .* anew at each call"):
            data.sum(Sum(lambda block: np.array(len(block)), (), bound=1))


def test_blocks_of_any_numbers_are_read_as_float64():
    from dpkit_core import StreamedDataset

    X = np.array([[100, 1], [100, 2], [100, 3]], dtype=np.int8)
    blocks = [(X.tolist()[:1], [1]), (X[1:], (2, 3))]
    data = StreamedDataset.from_blocks(lambda: iter(blocks), SCHEMA)
    chosen = data.select([0]).dense().X
    assert (chosen * chosen).ravel().tolist() == [1e4] * 3


def test_complex_numbers_are_refused_in_every_form():
    from scipy import sparse

    from dpkit_core import SparseDataset

    X, y = np.array([[1, 2], [3, 4j], [5, 6]]), np.arange(3.0)
    for make in (
        lambda: Dataset.from_arrays(X, y, SCHEMA),
        lambda: Dataset.from_arrays(X.real, y * 1j, SCHEMA),
        lambda: SparseDataset.from_arrays(sparse.csr_array(X), y, SCHEMA),
    ):
        with pytest.raises(InvalidData, match="complex"):
            make()


@pytest.mark.parametrize("entry", [None, math.nan, True, "yes", "other"])
def test_no_record_changes_what_the_target_of_another_means(entry):
    """The type of an array is that of all its entries: 1 meant nothing any more beside text."""
    for rest in ([1, 0], [True, False], [1.0, 0.0], ["yes", "no"]):
        target = Column("sold", "categorical", categories=("no", "yes"), missing="drop")
        schema = attrs.evolve(Schema.numeric("x", "sold"), target=target)
        before = Dataset.from_arrays([[0.0]] * 2, rest, schema)
        try:
            after = Dataset.from_arrays([[0.0]] * 3, [*rest, entry], schema)
        except InvalidData:
            continue
        assert after.y[:2].tolist() == before.y.tolist() == [1.0, 0.0]


def test_a_plan_for_another_rule_of_the_target_is_refused():
    column = Column("y", "categorical", categories=("no", "yes"), positive="no")
    made = attrs.evolve(Schema.numeric("x", "y"), target=column)
    planned = attrs.evolve(made, target=attrs.evolve(column, positive="yes"))
    data = Dataset.from_arrays([[0.0]] * 3, ["no", "yes", "no"], made)
    with pytest.raises(InvalidData, match="another rule for target y"):
        compose(regressor="mean").plan(planned, Budget(1.0, 1e-6)).run(data)


def test_an_instant_is_one_number_in_every_unit():
    pyarrow = pytest.importorskip("pyarrow")
    target = Column("y")
    schema = attrs.evolve(Schema.numeric("x", "y"), columns=(Column("x", "date"),), target=target)
    stamps = np.array(["2200-01-01T00:59:07", "2210-05-03T11:13:17", "NaT"], dtype="M8[s]")
    found = {
        unit: Dataset.from_arrays(
            pyarrow.table({"x": pyarrow.array(stamps[:2].astype(f"M8[{unit}]"))}), [0.0, 0.0], schema
        ).X.tolist()
        for unit in ("s", "ms", "us", "ns")
    }
    assert found["s"] == found["ms"] == found["us"] == found["ns"]


@pytest.mark.parametrize("y", [[], np.array([]), np.array([], dtype=object), np.array([], dtype=str)])
def test_an_empty_batch_of_a_stream_with_classes_is_accepted_like_one_without(y):
    classes = Column("y", kind="categorical", categories=("low", "middle", "high"))
    schema = Schema((Column("a"),), classes)
    assert Dataset.from_arrays(np.empty((0, 1)), y, schema, batch=True).records == 0


@pytest.mark.parametrize("unit", ["D", "s", "us", "ns"])
def test_a_target_of_dates_is_in_days_whatever_the_unit_of_numpy(unit):
    schema = Schema((Column("x"),), Column("y", "date"))
    data = Dataset.from_arrays([[0.0]], np.array(["2020-01-02"], f"M8[{unit}]"), schema)
    assert data.y.tolist() == [18263.0]


@pytest.mark.parametrize("wrong", ["Meier", 10**400])
def test_what_is_no_number_is_not_kept_beside_the_refusal(wrong):
    for X, y in (([[wrong]], [1.0]), ([[1.0]], [wrong])):
        with pytest.raises(InvalidData, match="not numbers") as refused:
            Dataset.from_arrays(X, y, Schema.numeric(["a"], "y"))
        assert refused.value.__context__ is None
