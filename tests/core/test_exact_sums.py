"""Sums over records: exact, the same in every form, division and order, and within their bounds."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from dpkit_core import Block, Dataset, Schema, SparseDataset, StreamedDataset, Sum
from dpkit_core.data import sums as module
from dpkit_core.data.sums import EXACT
from dpkit_core.errors import PlanViolation

D = 3
SCHEMA = Schema.numeric([f"x{j}" for j in range(D)], "y")


def forms(X, y):
    """Return the records in every form, the last ones in other orders."""
    order = np.random.default_rng(0).permutation(len(y))
    breaks = [1, 2, 2 + len(y) // 2]

    def blocks():
        return reversed(list(zip(np.split(X[order], breaks), np.split(y[order], breaks), strict=True)))

    return [
        Dataset.from_arrays(X, y, SCHEMA),
        Dataset.from_arrays(np.asfortranarray(X), y, SCHEMA),
        SparseDataset.from_arrays(sparse.csr_array(X), y, SCHEMA),
        SparseDataset.from_arrays(sparse.csc_array(X), y, SCHEMA),
        SparseDataset.from_arrays(sparse.csr_array(X[order]), y[order], SCHEMA),
        StreamedDataset.from_blocks(blocks, SCHEMA),
    ]


def table(n=500, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, D)) * (rng.random((n, D)) < 0.6), rng.normal(size=n)


UNITS = 2.0**20


def lengths(block):
    """Sums along rows, which are the trap: terms added column by column end in other digits."""
    return np.trunc(np.sqrt(np.square(block.X).sum(axis=1)) * UNITS)


def products(block):
    rows = np.trunc(np.clip(np.column_stack([block.X, block.y]), -4, 4) * UNITS)
    return rows.T @ rows


SUMS = {
    "numbers": lambda: Sum(lambda block: np.array(len(block)), (), bound=1),
    "rows": lambda: Sum(lambda block: lengths(block).sum(keepdims=True), (1,), bound=2**30),
    "products": lambda: Sum(products, (D + 1, D + 1), bound=2**44),
}


@pytest.mark.parametrize("name", SUMS)
@pytest.mark.parametrize("numbers", [1, 40, 2**17])
def test_totals_are_the_same_in_every_form_division_and_order(name, numbers, monkeypatch):
    monkeypatch.setattr(module, "BLOCK", numbers)
    X, y = table()
    totals = [data.sum(SUMS[name]()).tolist() for data in forms(X, y)]
    assert totals == [totals[0]] * len(totals)


@pytest.mark.first(3)
@pytest.mark.parametrize("name", SUMS)
@pytest.mark.parametrize("numbers", [1, 40, 2**17])
def test_what_is_kept_has_the_same_totals_in_every_form(name, numbers, monkeypatch):
    monkeypatch.setattr(module, "BLOCK", numbers)
    X, y = table()

    def rows(block):
        return Block(np.column_stack([block.X[:, :1] * 2, block.X[:, 1:] / 3]), block.y)

    def changed(block):
        return Block(np.maximum(block.X, -1), block.y)

    expected = [rows(Block(X, y)), changed(rows(Block(X, y)))]
    expected = [Dataset.from_arrays(block.X, y, SCHEMA).sum(SUMS[name]()) for block in expected]
    for data in forms(X, y):
        kept = data.keep(rows)
        totals = [kept.sum(SUMS[name]())]
        kept.change(changed)
        totals += [kept.sum(SUMS[name]()) for _ in range(2)]
        assert all(map(np.array_equal, totals, [*expected, expected[1]]))


def test_records_are_read_once_for_what_is_changed_and_at_each_sum_for_what_is_not():
    X, y = table(20)
    passes = []

    def blocks():
        passes.append(1)
        yield X, y

    kept = StreamedDataset.from_blocks(blocks, SCHEMA).keep(lambda block: np.zeros(len(block)))
    assert len(passes) == 1
    number = Sum(lambda state: np.array(len(state)), (), bound=1)
    kept.sum(number)
    kept.sum(number)
    assert len(passes) == 3
    kept.change(lambda state: state + 1)
    for _ in range(3):
        kept.sum(number)
        kept.change(lambda state: state + 1)
    assert len(passes) == 4
    assert kept.sum(Sum(lambda state: state.sum(), (), bound=4)) == 4 * 20


def test_a_change_that_fails_leaves_what_was_kept(monkeypatch):
    monkeypatch.setattr(module, "BLOCK", 1)
    for data in forms(*table(20)):
        kept = data.keep(lambda block: np.zeros(len(block)))
        seen = []

        def failing(state, seen=seen):
            seen.append(state)
            if len(seen) == 2:
                raise ValueError("halfway")
            return state + 1

        with pytest.raises(ValueError, match="halfway"):
            kept.change(failing)
        assert kept.sum(Sum(lambda state: state.sum(), (), bound=1)) == 0


@pytest.mark.parametrize("rows", [0, 1, 21])
def test_what_is_kept_has_a_row_for_each_record(rows):
    data = forms(*table(20))[0]
    with pytest.raises(PlanViolation, match="one row for each record"):
        data.keep(lambda block: np.zeros(rows))
    with pytest.raises(PlanViolation, match="one row for each record"):
        data.keep(lambda block: block.y).change(lambda state: np.zeros(rows))


def test_what_is_kept_is_cut_where_a_sum_of_its_rows_would_not_be_exact():
    X, y = np.zeros((2**14 + 5, D)), np.zeros(2**14 + 5)
    sizes = []

    def of(state):
        sizes.append(len(state))
        return np.array(len(state) * 2**40, dtype=float)

    total = forms(X, y)[0].keep(lambda block: block.y).sum(Sum(of, (), bound=2**40))
    assert total == (2**14 + 5) * 2**40
    assert max(sizes) * 2**40 <= 2**53


@pytest.mark.slow
@given(
    st.lists(st.integers(-EXACT, EXACT), min_size=2, max_size=60),
    st.lists(st.integers(1, 59), max_size=4),
)
@settings(max_examples=200, deadline=None)
def test_totals_are_those_of_whole_numbers_without_a_bound(numbers, breaks):
    # The largest numbers that may be added: each block then is one record, and int64 would wrap around.
    y = np.array(numbers, dtype=float)
    parts = [part for part in np.split(y, sorted(breaks)) if len(part)]

    def blocks():
        return ((np.zeros((len(part), D)), part) for part in parts)

    what = Sum(lambda block: block.y.sum(keepdims=True), (1,), bound=EXACT)
    assert StreamedDataset.from_blocks(blocks, SCHEMA).sum(what).tolist() == [sum(numbers)]


def test_no_block_has_more_records_than_float64_can_add_up_exactly():
    sizes = []

    def of(block):
        sizes.append(len(block))
        return np.array(len(block) * 2**40, dtype=float)

    X, y = np.zeros((2**14 + 5, D)), np.zeros(2**14 + 5)
    for data in forms(X, y)[:4]:
        sizes.clear()
        assert data.sum(Sum(of, (), bound=2**40)) == (2**14 + 5) * 2**40
        assert max(sizes) * 2**40 <= 2**53
        assert sum(sizes) == len(y)


def test_totals_beyond_int64_do_not_wrap_around():
    n = 2**12
    data = Dataset.from_arrays(np.zeros((n, D)), np.zeros(n), SCHEMA)
    largest = Sum(lambda block: np.full((2, 2), float(EXACT)) * len(block), (2, 2), bound=EXACT)
    assert data.sum(largest).tolist() == [[n * EXACT] * 2] * 2
    assert n * EXACT > 2**63


def test_a_small_sum_over_many_small_blocks_is_asked_for_few_times():
    calls = []

    def of(block):
        calls.append(len(block))
        return np.array(len(block))

    X, y = np.zeros((200, D)), np.zeros(200)
    data = StreamedDataset.from_blocks(lambda: ((X[i : i + 1], y[i : i + 1]) for i in range(200)), SCHEMA)
    assert data.sum(Sum(of, (), bound=1)) == 200
    assert len(calls) == 1


def test_sparse_records_are_made_dense_a_block_at_a_time_or_not_at_all(monkeypatch):
    monkeypatch.setattr(module, "BLOCK", 40)
    X, y = table()
    data = SparseDataset.from_arrays(sparse.csr_array(X), y, SCHEMA)
    seen = []

    def dense(block):
        seen.append(block.X.shape)
        return np.rint(block.X.sum(axis=0))

    def thin(block):
        seen.append(type(block.X))
        return np.zeros(D)

    data.sum(Sum(dense, (D,), bound=2**20))
    assert max(rows for rows, _ in seen) == 10
    seen.clear()
    data.sum(Sum(dense, (D,), bound=2**20, of_sparse=thin))
    assert seen == [type(data.X)]
    seen.clear()
    data.sum(Sum(dense, (D,), bound=EXACT // 100, of_sparse=thin))
    assert len(seen) == 5


@pytest.mark.parametrize(
    ("share", "message"),
    [
        (lambda block: np.zeros(2), r"shape \(2,\) .* where shape \(1,\)"),
        (lambda block: np.array(["a"]), "of whole numbers"),
        (lambda block: np.array([0.5]), "not of whole numbers"),
        (lambda block: np.array([np.nan]), "declared bound of 3"),
        (lambda block: np.array([np.inf]), "declared bound of 3"),
        (lambda block: np.array([3 * len(block) + 1]), "declared bound of 3"),
        (lambda block: np.array([-3 * len(block) - 1]), "declared bound of 3"),
    ],
)
def test_what_is_not_the_declared_sum_voids_the_run(share, message):
    for data in forms(*table(20)):
        with pytest.raises(PlanViolation, match=message):
            data.sum(Sum(share, (1,), bound=3))


def test_the_largest_share_within_the_bound_is_taken():
    data = forms(*table(20))[0]
    assert data.sum(Sum(lambda block: np.array([-3 * len(block)]), (1,), bound=3)).tolist() == [-60]


@pytest.mark.parametrize("bound", [0, -1, 2.0, EXACT + 1])
def test_a_bound_is_a_whole_number_up_to_the_last_that_float64_counts(bound):
    with pytest.raises((ValueError, TypeError)):
        Sum(products, (1,), bound=bound)


def test_floating_point_sums_would_depend_on_the_order():
    # Why all this: the naive total of the same records in another order differs, and so may that of a
    # neighbor by more than one record's share.
    _, y = table(5000)
    assert y.sum() != y[np.argsort(y)].sum() or math.fsum(y) != y.sum()


@pytest.mark.parametrize("order", ["C", "F"])
def test_a_sum_in_place_gets_the_matrix_itself_a_block_as_long_as_sums_are_exact(order):
    X, y = table(n=40)
    data = Dataset.from_arrays(np.asarray(X, order=order), y, SCHEMA)
    seen = []

    def signs(block):
        seen.append(block.X)
        return np.sign(block.X).sum(axis=0)

    expected = np.sign(X).sum(axis=0).tolist()
    assert data.sum(Sum(signs, (D,), bound=1, in_place=True)).tolist() == expected
    assert data.sum(Sum(signs, (D,), bound=2**49, in_place=True)).tolist() == expected
    assert [len(block) for block in seen] == [40, 16, 16, 8]
    assert all(np.shares_memory(block, data.X) for block in seen)


def test_a_block_lies_row_by_row_in_memory():
    for data in forms(*table()):

        def of(block: Block):
            assert block.X.flags.c_contiguous
            return np.array(len(block))

        data.sum(Sum(of, (), bound=1))
