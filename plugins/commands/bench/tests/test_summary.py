import math

import numpy as np
import pytest
from dpkit_command_bench.summary import Quartiles, summarize, to_document


def row(table, composition, r2, *, k=5, outcome="released", private=True):
    return {
        "table": table, "composition": composition, "epsilon": 1.0, "delta": 1e-6, "k": k, "r2": r2,
        "rmse": None, "recall": None, "outcome": outcome, "mechanism_private": private, "wall_seconds": 0.5,
        "training_records": 90, "features": 3, "message": None,
    }  # fmt: skip


def test_quartiles_are_numpys():
    values = np.random.default_rng(0).normal(size=11).tolist()
    ours = Quartiles.of(values)
    assert [ours.low, ours.median, ours.high] == pytest.approx(np.percentile(values, [25, 50, 75]))


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([-math.inf, 1.0], (-math.inf, -math.inf, -math.inf)),
        ([-math.inf, 1.0, 2.0, 3.0, 4.0], (1.0, 2.0, 3.0)),
        ([1.0, 2.0, math.inf], (1.5, 2.0, math.inf)),
        ([-math.inf] * 3, (-math.inf,) * 3),
    ],
)
def test_refusals_count_as_the_worst(values, expected):
    ours = Quartiles.of(values)
    assert (ours.low, ours.median, ours.high) == expected


def test_methods_are_ranked_by_median_table_by_table():
    rows = [
        *(row("a", "x", value) for value in (0.1, 0.2, 0.9)),
        *(row("a", "y", value) for value in (0.3, 0.3, 0.3)),
        row("b", "x", 0.5),
        row("b", "y", -1.0),
        row("c", "x", 0.5),
        row("c", "y", 0.5),
        *(row(table, "best", 1.0, k=None, private=False) for table in "abc"),
    ]
    summary = summarize(rows)
    x, y = summary.standings
    # By hand: x is second, first, first (tied); y is first, second, first (tied).
    assert (dict(x.ranks), x.positive, x.tables) == ({2: 1, 1: 2}, 3, 3)
    assert (dict(y.ranks), y.positive, y.tables) == ({1: 2, 2: 1}, 2, 3)
    assert x.mean_rank == pytest.approx(4 / 3)
    assert {cell.setting.composition for cell in summary.cells if not cell.private} == {"best"}


def test_a_smaller_error_is_the_better_rank():
    rows = [
        row(table, name, None) | {"rmse": value} for table in "ab" for name, value in (("x", 2.0), ("y", 1.0))
    ]
    assert {s.composition: dict(s.ranks) for s in summarize(rows, "rmse").standings} == {
        "x": {2: 2},
        "y": {1: 2},
    }


def test_one_table_ranks_nobody():
    rows = [row("a", "x", 0.1), row("a", "y", 0.2), row("b", "best", 1.0, private=False)]
    assert summarize(rows).standings == ()
    assert {s.tables for s in summarize([*rows, row("b", "x", 0.1)]).standings} == {1, 2}


def test_a_method_without_a_selection_competes_at_every_k():
    each = (("x", 0.1, 5), ("x", 0.3, 10), ("all", 0.2, None))
    rows = [row(table, name, r2, k=k) for table in "ab" for name, r2, k in each]
    ranks = {(s.composition, s.k): dict(s.ranks) for s in summarize(rows).standings}
    assert ranks == {("x", 5): {2: 2}, ("x", 10): {1: 2}, ("all", 5): {1: 2}, ("all", 10): {2: 2}}


def test_standings_go_from_the_smallest_k_to_the_largest():
    each = (("all", None), ("some", 10), ("some", 5), ("some", 3))
    rows = [row(table, name, 0.5, k=k) for table in "ab" for name, k in each]
    assert [s.k for s in summarize(rows).standings if s.composition == "all"] == [3, 5, 10]


def test_what_cannot_be_planned_is_counted_and_not_ranked():
    rows = [
        row("a", "x", None, outcome="impossible", private=None),
        *(row(table, "y", -math.inf, outcome="refused") for table in "ab"),
    ]
    summary = summarize(rows)
    assert summary.outcomes == {"impossible": 1, "refused": 2}
    assert [s.composition for s in summary.standings] == ["y"]
    document = to_document([summary, summarize(rows, "rmse")])
    assert document["outcomes"] == {"released": 0, "refused": 2, "impossible": 1, "failed": 0}
    assert document["cells"][1]["metrics"] == {
        "r2": {"quartiles": ["-inf"] * 3, "published": None},
        "rmse": {"quartiles": None, "published": None},
    }
