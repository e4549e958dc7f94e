"""Records are drawn to sides one by one, and a record of the other side changes nothing on this one."""

import attrs
import numpy as np
import pytest
from scipy import sparse

from dpkit_core import Dataset, Schema
from dpkit_core.data.columns import Unit
from dpkit_core.data.dataset import SparseDataset, StreamedDataset
from dpkit_core.data.sides import Side, key_of, sides
from dpkit_core.errors import InvalidData

SCHEMA = Schema.numeric(["a", "b"], "y")
OF_UNITS = attrs.evolve(SCHEMA, unit=Unit(("who",), 3))
FITTED, HELD_OUT = sides(0.3, key_of(SCHEMA))


def table(rng, n=40):
    """Return records of which many have equals."""
    return rng.integers(0, 4, (n, 3)).astype(float)


def dense(rows, schema=SCHEMA, units=None):
    return Dataset.from_arrays(rows[:, :2], rows[:, 2], schema, units=units)


def records(data):
    return sorted(map(tuple, np.column_stack([data.dense().X, data.dense().y]).tolist()))


def by_position(data, side):
    """Return a side as those draw it who do not read this page: by places."""
    keep = (np.arange(data.records) % 3 == 0) == side.held_out
    return attrs.evolve(data, X=data.X[keep], y=data.y[keep])


def moved(draw, seed):
    """Return by how many records each side of two neighboring tables in another order differs."""
    rng = np.random.default_rng(seed)
    rows = table(rng)
    more = np.vstack([rows, table(rng, 1)])[rng.permutation(len(rows) + 1)]
    found = []
    for side in (FITTED, HELD_OUT):
        one, other = (records(draw(dense(each), side)) for each in (rows, more))
        left = list(other)
        gone = sum(1 for record in one if record not in left or left.remove(record))
        found.append(gone + len(left))
    return found


@pytest.mark.parametrize("seed", range(40))
def test_a_record_more_is_one_record_more_on_one_side(seed):
    assert sorted(moved(Dataset.side, seed)) == [0, 1]


def test_sides_by_position_would_fail_that_test():
    assert sum(sorted(moved(by_position, seed)) != [0, 1] for seed in range(40)) > 30


def test_every_form_has_the_same_sides_and_no_record_is_lost():
    rows = np.random.default_rng(3).integers(-1, 2, (300, 3)) * 1.5
    rows[rows == 0] = -0.0
    forms = [
        dense(rows),
        SparseDataset.from_arrays(sparse.csc_array(rows[:, :2]), rows[:, 2], SCHEMA),
        *(streamed(rows, size) for size in (7, 300)),
    ]
    held = [records(form.side(HELD_OUT)) for form in forms]
    assert all(each == held[0] for each in held)
    both = sorted(held[0] + records(forms[0].side(FITTED)))
    assert both == records(forms[0])
    assert all(form.side(HELD_OUT).records == len(held[0]) for form in forms)


def streamed(rows, size, schema=SCHEMA, units=None):
    def blocks():
        for start in range(0, len(rows), size):
            part = slice(start, start + size)
            who = () if units is None else (units[part],)
            yield rows[part, :2], rows[part, 2], *who

    return StreamedDataset.from_blocks(blocks, schema)


def test_columns_that_are_selected_later_do_not_move_records():
    rows = np.random.default_rng(4).normal(size=(200, 3))
    one, other = dense(rows).side(HELD_OUT).select([1]), streamed(rows, 9).side(HELD_OUT).select([1])
    assert records(one) == records(other)
    assert one.X.tolist() == rows[which_are_held_out(rows), 1:2].tolist()


def which_are_held_out(rows):
    return np.isin(rows[:, 2], dense(rows).side(HELD_OUT).y)


def test_all_records_of_a_unit_are_on_one_side_in_every_form():
    rng = np.random.default_rng(5)
    rows, who = rng.normal(size=(300, 3)), [f"p{i}" for i in rng.integers(0, 60, 300)]
    fitted, held_out = sides(0.3, key_of(OF_UNITS))
    owner = dict(zip(map(tuple, rows.tolist()), who, strict=True))
    forms = [
        dense(rows, OF_UNITS, who),
        SparseDataset.from_arrays(sparse.csr_array(rows[:, :2]), rows[:, 2], OF_UNITS, units=who),
        streamed(rows, 11, OF_UNITS, who),
    ]
    found = [[{owner[r] for r in records(form.side(side))} for side in (fitted, held_out)] for form in forms]
    assert found[0] == found[1] == found[2]
    assert not found[0][0] & found[0][1]
    assert found[0][0] | found[0][1] == set(who)
    with pytest.raises(InvalidData, match="when a dataset is made"):
        attrs.evolve(forms[0], lots=np.empty(0, np.uint64)).side(held_out)


def test_the_layout_of_a_side_does_not_depend_on_the_other():
    wide = np.asfortranarray(np.random.default_rng(6).normal(size=(50, 2)))
    only = dense(np.column_stack([wide, np.zeros(50)]))
    assert all(only.side(side).X.flags.c_contiguous for side in (FITTED, HELD_OUT))


def test_shares_are_nested_and_about_what_was_asked():
    lots = np.random.default_rng(7).integers(0, 2**63, 40_000).astype(np.uint64)
    small, large = (Side(share, 99, True).keeps(lots) for share in (0.1, 0.25))
    assert not (small & ~large).any()
    assert abs(small.mean() - 0.1) < 5 * (0.09 / 40_000) ** 0.5


def test_nothing_of_the_schema_moves_records_but_names():
    spelled = Schema.numeric(["a", "b"], "y", {"a": (0.0, 5.0000001)})
    assert sides(0.3, key_of(spelled)) == (FITTED, HELD_OUT)
    assert sides(0.3, key_of(Schema.numeric(["a", "b"], "z"))) != (FITTED, HELD_OUT)


def test_a_side_may_be_empty():
    rows = np.ones((5, 3))
    sizes = sorted(dense(rows).side(side).records for side in (FITTED, HELD_OUT))
    assert sizes == [0, 5]
