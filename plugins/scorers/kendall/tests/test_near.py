"""Pairs of near records: against pairs one by one, their order by content, and what a record changes."""

import dpkit_kernels
import numpy as np
import pytest
from dpkit_check.pytest import parametrize_with_checks
from dpkit_scorer_kendall import KendallScorer, near
from dpkit_scorer_kendall.near import NearPairs, content_order

from dpkit_core import Dataset, Neighboring, Schema, StagePlan

AR = Neighboring.ADD_OR_REMOVE_ONE
RO = Neighboring.REPLACE_ONE


@pytest.mark.slow
@parametrize_with_checks([lambda: KendallScorer(pairs="near", near=4)])
def test_conformance(check):
    check()


def scores(X, y, selected=(), *, g=4, penalty="max"):
    schema = Schema.numeric([f"x{j}" for j in range(np.shape(X)[1])], "y")
    data = Dataset.from_arrays(X, y, schema)
    scorer = KendallScorer(penalty, pairs="near", near=g)
    return scorer.prepare(data, StagePlan(()), None)(tuple(selected))


def near_pairs(u, v, g):
    """Return the concordant less the discordant pairs at most ``g`` apart, one by one."""
    u, v = np.asarray(u), np.asarray(v)
    return sum(
        int(np.sign(u[i] - u[j]) * np.sign(v[i] - v[j]))
        for i in range(len(u))
        for j in range(i + 1, min(len(u), i + g + 1))
    )


@pytest.mark.first(8)
@pytest.mark.parametrize("g", [4, 64])
@pytest.mark.parametrize("n", [0, 1, 3, 64, 65, 150])
@pytest.mark.parametrize("levels", [1, 3, 10**9])
def test_pairs_are_those_that_are_counted_one_by_one(n, levels, g, monkeypatch):
    monkeypatch.setattr(near, "_PAIRS", 64)
    monkeypatch.setattr(near, "_COLUMNS", 2)
    rng = np.random.default_rng(n)
    X = np.column_stack([rng.integers(0, levels, (n, 2)), rng.normal(size=n), -np.zeros(n)]).astype(float)
    y = rng.integers(0, levels, n).astype(float)
    order, pairs = content_order(X, y, range(4)), NearPairs.of(X, y, range(4), g)
    for s, reference in ((-1, y), (0, X[:, 0]), (2, X[:, 2])):
        expected = [near_pairs(x[order], reference[order], g) for x in X.T]
        assert pairs.concordance_with(s).tolist() == expected


@pytest.mark.skipif(not dpkit_kernels.COMPILED, reason="no kernels were compiled")
@pytest.mark.parametrize("n", [0, 1, 63, 64, 200])
@pytest.mark.parametrize(
    "arranged", [np.ascontiguousarray, np.asfortranarray, lambda X: np.repeat(X, 2, 1)[:, ::2]]
)
def test_compiled_kernels_and_numpy_have_the_same_order_and_pairs(n, arranged, monkeypatch):
    rng = np.random.default_rng(n)
    X = arranged(np.column_stack([rng.integers(-2, 3, (n, 70)) * 0.5, rng.normal(size=n)]))
    y, columns = rng.integers(0, 2, n) - 0.0, rng.permutation(71)

    def found(g):
        pairs = NearPairs.of(X, y, columns, g)
        tied = [ties is not None for ties in pairs.tied]
        return (
            content_order(X, y, columns).tolist(),
            tied,
            [pairs.concordance_with(s).tolist() for s in (-1, 0, 70)],
        )

    compiled = [found(1), found(33)]
    for name in ("hashed", "place", "compare", "disagreement"):
        monkeypatch.setattr(near, f"_{name}", getattr(near, f"_{name}_in_numpy"))
    assert compiled == [found(1), found(33)]


@pytest.mark.parametrize("bits", [0, 1, 4, 8, 64])
def test_one_more_record_is_one_insertion_whatever_the_hash(bits, monkeypatch):
    # Tables full of copies, of 0.0 and -0.0, of different records with one hash.
    hashed, mask = near._hashed, np.uint64(2**bits - 1)
    monkeypatch.setattr(near, "_hashed", lambda *table: hashed(*table) & mask)

    def sequence(X, y):
        order = content_order(X, y, range(2))
        return [(*(X[i] + 0.0).tolist(), y[i]) for i in order]

    rng = np.random.default_rng(bits)
    for _ in range(60):
        n = int(rng.integers(1, 40))
        X, y = rng.integers(-1, 3, (n, 2)).astype(float), rng.integers(0, 3, n).astype(float)
        X[rng.random((n, 2)) < 0.1] = -0.0
        place, copied = int(rng.integers(n + 1)), int(rng.integers(n))
        joined = np.insert(X, place, X[copied], axis=0), np.insert(y, place, rng.integers(0, 3))
        before, after = sequence(X, y), sequence(*joined)
        assert any(after[:i] + after[i + 1 :] == before for i in range(n + 1))
        shuffled = rng.permutation(n)
        assert sequence(X[shuffled], y[shuffled]) == before


def test_copies_are_compared_with_others():
    # Side by side they would be tied with each other: with 40 copies of each record the score would be 0.
    values = np.repeat(np.arange(5.0), 40)
    assert scores(values[:, np.newaxis], values)[0] > 50


@pytest.mark.parametrize("g", [4, 32])
@pytest.mark.parametrize("penalty", ["max", "mean"])
def test_the_sensitivities_are_attained_and_would_not_hold_if_they_were_smaller(g, penalty, monkeypatch):
    # Far off all columns agree, 8 g records that fix all signs. At the gap g records L come before g records
    # R: column 0 and the selected column 2 rise from L to R, column 1 and the target fall. The new record
    # has the largest value of column 0 and of the target, the smallest of the others.
    monkeypatch.setattr(near, "content_order", lambda X, y, columns: np.arange(len(y)))
    far = [(1000 + i,) * 4 for i in range(8 * g)]
    rising = np.arange(g) / 100
    left = [(x, -x, x, 100 - x) for x in rising]
    right = [(10 + x, -10 - x, 10 + x, 50 - x) for x in rising]
    before = np.array([*far, *left, *right])
    after = np.array([*far, *left, (500, -500, -500, 500), *right])
    for round_, largest in ((0, 1.5), (1, 3.0)):
        selected = [2][:round_]

        def of(table, selected=selected):
            return scores(table[:, :3], table[:, 3], selected, g=g, penalty=penalty)

        change = (of(after) - of(before))[:2]
        assert change.tolist() == [largest, -largest]
        for relation, moves in ((AR, 1), (RO, 2)):
            schema = Schema.numeric(["a"], "y", neighboring=relation)
            declared = KendallScorer(penalty, pairs="near", near=g).sensitivity(schema, round_)
            assert declared.linf == pytest.approx(moves * largest, abs=1e-6)
            assert declared.range == pytest.approx(2 * moves * largest, abs=1e-6)
            assert declared.linf >= moves * largest
            assert declared.range >= 2 * moves * largest


def test_near_pairs_estimate_what_all_pairs_have():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 3))
    y = X @ [1.0, 0.5, 0.0] + rng.normal(size=4000)
    data = Dataset(X, y, ())
    exact = KendallScorer().prepare(data, StagePlan(()), None)(())
    # The deviation of one pair of independent columns is 1, over pairs that share records twice as dense.
    assert scores(X, y, g=32) == pytest.approx(exact, abs=5 * np.sqrt(4000))
