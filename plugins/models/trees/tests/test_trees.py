"""Random trees and released sums of them, against loops over records and scikit-learn."""

import json
import math

import attrs
import dpkit_kernels
import numpy as np
import pytest
from dpkit_model_lines import WinsorizedLinearModel
from dpkit_model_trees import Noise, TreesModel
from dpkit_model_trees.drawing import (
    DEEPEST,
    MISSING,
    Trees,
    add_trees,
    code,
    draw_trees,
    leaves_of_tree,
    level_contrasts,
    split_contrasts,
    splits_of,
)
from dpkit_model_trees.importances import LEVEL
from scipy import stats

from dpkit_core.errors import InvalidRelease
from dpkit_core.release.kinds import canonical, read_model, rebuilt, shown

needs_kernels = pytest.mark.skipif(not dpkit_kernels.COMPILED, reason="no kernels were compiled")
SHAPES = pytest.mark.parametrize("oblivious", [True, False], ids=["oblivious", "complete"])

LINE = WinsorizedLinearModel(("a", "b"), (0.5, 0.0), (0.5, 2.0), 1.5, (3.0, 0.0), 10.0, (-5.0, 20.0))

MODEL = TreesModel(
    features=("a", "b"),
    shape="complete",
    splits=[[(0, 0.5), (1, None), (1, -1.0)], [(1, 0.0), (0, 0.25), (0, 0.75)]],
    leaves=[[1.0, 2.0, 3.0, 4.0], [10.0, 20.0, 30.0, 40.0]],
    initial=100.0,
)


def slow_leaf(codes, features, cuts, depth, oblivious):
    """Return the leaf of one record, one question after another."""
    leaf = 0
    for level in range(depth):
        split = level if oblivious else 2**level - 1 + leaf
        leaf = 2 * leaf + int(int(codes[features[split]]) > int(cuts[split]))
    return leaf


def slow_prediction(model, row):
    """Return the sum of one record, by real thresholds, as the notes of the model say it."""
    total = model.initial
    for splits, values in zip(model.splits, model.leaves, strict=True):
        leaf = 0
        for level in range(model.depth):
            feature, threshold = splits[level if model.shape == "oblivious" else 2**level - 1 + leaf]
            right = not np.isnan(row[feature]) if threshold is None else row[feature] > threshold
            leaf = 2 * leaf + int(right)
        total += values[leaf]
    return total


def random_table(rng, n=300, d=5):
    X = rng.normal(size=(n, d)).round(1)
    X[rng.random((n, d)) < 0.1] = np.nan
    return X, [np.unique(rng.normal(size=9).round(1)) for _ in range(d)]


@SHAPES
@pytest.mark.parametrize("compiled", [False, pytest.param(True, marks=needs_kernels)])
@pytest.mark.parametrize("depth", [1, 2, 3, 5, DEEPEST])
def test_records_fall_where_a_loop_over_questions_takes_them(oblivious, depth, compiled, monkeypatch):
    monkeypatch.setattr(dpkit_kernels, "COMPILED", compiled)
    rng = np.random.default_rng(depth)
    X, thresholds = random_table(rng, n=530)  # more than the kernels take at once
    codes = code(X, thresholds)
    trees = draw_trees(rng, 7, depth, [t.size for t in thresholds], oblivious=oblivious, missing=[True] * 5)
    expected = [
        [slow_leaf(record, trees.features[t], trees.cuts[t], depth, oblivious) for record in codes.T]
        for t in range(len(trees))
    ]
    assert [leaves_of_tree(codes, trees, t).tolist() for t in range(7)] == expected
    values = rng.integers(-9, 9, (7, 2**depth)).astype(float)
    sums = [sum(values[t, expected[t][i]] for t in range(7)) + 0.5 for i in range(len(X))]
    assert add_trees(codes, trees, values, start=0.5).tolist() == sums


def test_long_tables_are_cut_into_blocks_that_join():
    rng = np.random.default_rng(1)
    codes = rng.integers(0, 256, (3, 70_001)).astype(np.uint8)
    trees = draw_trees(rng, 2, 3, [254] * 3, oblivious=False)
    found = [leaves_of_tree(codes, trees, t) for t in range(2)]
    values = rng.integers(-9, 9, (2, 8)).astype(float)
    assert add_trees(codes, trees, values).tolist() == (values[0][found[0]] + values[1][found[1]]).tolist()


def test_codes_count_the_thresholds_below_a_value():
    rng = np.random.default_rng(2)
    X, thresholds = random_table(rng)
    expected = [
        [MISSING if np.isnan(x) else 1 + sum(t < x for t in thresholds[j]) for x in X[:, j]]
        for j in range(X.shape[1])
    ]
    assert code(X, thresholds).tolist() == expected


@needs_kernels
@SHAPES
@pytest.mark.parametrize(("n", "d", "depth"), [(1, 1, 1), (7, 3, 8), (513, 5, 4), (1100, 2, 6)])
def test_kernels_find_codes_and_add_up_values_as_numpy_does(n, d, depth, oblivious, monkeypatch):
    rng = np.random.default_rng([n, depth])
    thresholds = [np.sort(rng.normal(size=size)) for size in rng.choice([1, 2, 253, 254], d)]
    X = rng.normal(size=(n, d))
    X[rng.random((n, d)) < 0.2] = np.nan
    X[::3] = rng.choice([np.inf, -np.inf, -0.0, thresholds[0][0], thresholds[-1][-1]], X[::3].shape)
    trees = draw_trees(rng, 30, depth, list(map(len, thresholds)), oblivious=oblivious)
    values = rng.normal(size=(30, 2**depth)) * 10.0 ** rng.integers(-9, 9, (30, 1))
    found = []
    for compiled in (True, False):
        monkeypatch.setattr(dpkit_kernels, "COMPILED", compiled)
        codes = [code(form, thresholds).tolist() for form in (X, np.asfortranarray(X), X[:, ::-1][:, ::-1])]
        scores = add_trees(np.array(codes[0], np.uint8), trees, values, start=0.1)
        found.append((codes, scores.tobytes()))
    assert found[0] == found[1]


@pytest.mark.parametrize(("count", "width"), [(254, 1), (255, 2), (65534, 2), (65535, 4)])
def test_codes_are_as_wide_as_the_thresholds_need(count, width):
    thresholds = np.arange(count, dtype=float)
    codes = code(np.array([[-1.0], [count + 0.0], [np.nan]]), [thresholds])
    assert codes.dtype.itemsize == width
    assert codes.tolist() == [[1, count + 1, MISSING]]


@SHAPES
def test_splits_are_drawn_alike_from_the_cuts_that_a_feature_has(oblivious):
    rng = np.random.default_rng(3)
    count = 3000
    trees = draw_trees(
        rng,
        count,
        4,
        [3, 0, 1, 0],
        weights=[3, 5, 1, 1],
        oblivious=oblivious,
        missing=[False, False, True, True],
    )
    total = count * splits_of(4, oblivious=oblivious)
    seen = dict.fromkeys([(0, 1), (0, 2), (0, 3), (2, 0), (2, 1), (3, 0)], 0)
    for pair in zip(trees.features.ravel().tolist(), trees.cuts.ravel().tolist(), strict=True):
        seen[pair] += 1  # a pair that cannot be drawn fails here
    expected = [0.2, 0.2, 0.2, 0.1, 0.1, 0.2]
    assert np.abs(np.array(list(seen.values())) / total - expected).max() < 5 * 0.5 / total**0.5


def test_drawing_needs_a_feature():
    rng = np.random.default_rng(4)
    for thresholds, weights in [([0, 0], None), ([1, 0], [0.0, 1.0]), ([1], [-1.0]), ([1], [np.nan])]:
        with pytest.raises(ValueError, match="no feature can be drawn"):
            draw_trees(rng, 1, 2, thresholds, weights=weights)


def test_trees_have_a_shape():
    splits = np.zeros((4, 3), dtype=np.intp)
    assert Trees(splits, splits, 3).oblivious
    assert not Trees(splits, splits, 2).oblivious
    for depth, message in [(4, "do not make trees"), (0, "from 1 to 8"), (9, "from 1 to 8")]:
        with pytest.raises(ValueError, match=message):
            Trees(splits, splits, depth)
    with pytest.raises(ValueError, match="do not make trees"):
        Trees(splits, splits[1:], 3)


def test_contrasts_are_means_of_leaves_right_less_left():
    rng = np.random.default_rng(5)
    values = rng.normal(size=(2, 8))
    leaves = np.arange(8)
    for level, bit in enumerate([4, 2, 1]):
        expected = values[:, leaves & bit > 0].mean(axis=1) - values[:, leaves & bit == 0].mean(axis=1)
        assert level_contrasts(values, 3)[:, level] == pytest.approx(expected)
    splits = np.zeros((2, 7), dtype=np.intp)
    found = split_contrasts(values, Trees(splits, splits, 3))
    pairs = [(0, 4, 8), (0, 2, 4), (4, 6, 8), (0, 1, 2), (2, 3, 4), (4, 5, 6), (6, 7, 8)]
    for split, (low, middle, high) in enumerate(pairs):
        expected = values[:, middle:high].mean(axis=1) - values[:, low:middle].mean(axis=1)
        assert found[:, split] == pytest.approx(expected)


@SHAPES
def test_a_model_predicts_what_its_thresholds_say(oblivious):
    rng = np.random.default_rng(6)
    X, thresholds = random_table(rng)
    trees = draw_trees(rng, 20, 3, [t.size for t in thresholds], oblivious=oblivious, missing=[True] * 5)
    splits = [
        [
            (j, None if cut == MISSING else thresholds[j][cut - 1])
            for j, cut in zip(features, cuts, strict=True)
        ]
        for features, cuts in zip(trees.features, trees.cuts, strict=True)
    ]
    values = rng.normal(size=(20, 8))
    model = TreesModel("abcde", "oblivious" if oblivious else "complete", splits, values, initial=3.0)
    assert model.predict(X).tolist() == [slow_prediction(model, row) for row in X]
    assert model.predict(X).tolist() == add_trees(code(X, thresholds), trees, values, start=3.0).tolist()


def test_trees_of_scikit_learn_predict_as_they_do_there():
    tree = pytest.importorskip("sklearn.tree")
    rng = np.random.default_rng(7)
    X = rng.normal(size=(500, 4)).astype(np.float32).astype(np.float64)  # what scikit-learn makes of them
    y = np.sin(3 * X[:, 0]) + X[:, 1] * X[:, 2]
    depth = 4
    fitted = tree.DecisionTreeRegressor(max_depth=depth, min_samples_leaf=5).fit(X, y).tree_

    def subtree(node, levels):
        """Return splits by level and leaves below a node; where it ends early, its value is repeated."""
        if levels == 0:
            return [], [fitted.value[node].item()]
        ends = fitted.children_left[node] < 0
        split = (0, 0.0) if ends else (int(fitted.feature[node]), float(fitted.threshold[node]))
        left, right = (
            subtree(node if ends else child[node], levels - 1)
            for child in (fitted.children_left, fitted.children_right)
        )
        below = [a + b for a, b in zip(left[0], right[0], strict=True)]
        return [[split], *below], left[1] + right[1]

    levels, leaves = subtree(0, depth)
    model = TreesModel("abcd", "complete", [[split for level in levels for split in level]], [leaves])
    assert model.predict(X).tolist() == fitted.predict(X.astype(np.float32)).ravel().tolist()


def test_a_line_is_added_and_has_its_center_for_missing_values():
    model = attrs.evolve(MODEL, linear=LINE)
    X = np.array([[0.6, 0.5], [np.nan, 0.5], [0.0, np.nan]])
    filled = np.array([[0.6, 0.5], [0.5, 0.5], [0.0, 0.0]])
    assert model.predict(X).tolist() == (MODEL.predict(X) + LINE.predict(filled)).tolist()


def test_links_and_bounds():
    X = np.array([[0.6, 0.5], [0.0, -3.0]])
    assert MODEL.predict(X).tolist() == [134.0, 112.0]
    small = attrs.evolve(MODEL, initial=-30.0)
    logistic = attrs.evolve(small, link="logistic").predict(X)
    assert logistic.tolist() == pytest.approx([1 / (1 + np.exp(-4.0)), 1 / (1 + np.exp(18.0))])
    assert attrs.evolve(small, link="log").predict(X).tolist() == pytest.approx([np.exp(4.0), np.exp(-18.0)])
    assert attrs.evolve(MODEL, bounds=(0.0, 120.0)).predict(X).tolist() == [120.0, 112.0]
    far = attrs.evolve(MODEL, initial=1e300)
    assert attrs.evolve(far, link="logistic").predict(X).tolist() == [1.0, 1.0]
    assert np.isfinite(attrs.evolve(far, link="log").predict(X)).all()


def test_a_model_without_trees_is_its_start():
    empty = TreesModel(("a",), "oblivious", [], [], 3.0)
    assert empty.predict(np.array([[1.0], [np.nan]])).tolist() == [3.0, 3.0]
    assert empty.importances == {"a": 0.0}
    assert rebuilt(empty) == empty


@pytest.mark.parametrize("model", [MODEL, attrs.evolve(MODEL, linear=LINE, bounds=(0, 1), link="logistic")])
def test_a_model_survives_its_document(model):
    document = canonical(json.loads(json.dumps(model.to_document(), allow_nan=False)))
    assert read_model(document) == model
    assert rebuilt(model) == model


@pytest.mark.parametrize("missing", ["features", "shape", "trees", "initial", "link", "linear", "bounds"])
def test_a_document_that_lacks_something_is_not_read(missing):
    document = MODEL.to_document()
    del document[missing]
    with pytest.raises(InvalidRelease, match=missing):
        read_model(document)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"shape": "round"}, "one of oblivious, complete"),
        ({"shape": "oblivious"}, "have 2 splits each"),
        ({"link": "probit"}, "one of identity"),
        ({"leaves": MODEL.leaves[:1]}, "2 trees have splits and 1"),
        ({"leaves": [[1.0] * 4, [1.0] * 3]}, "the same number of leaves"),
        ({"leaves": [[1.0] * 3, [1.0] * 3]}, "the same number of leaves"),
        ({"leaves": [[1.0], [1.0]]}, "the same number of leaves"),
        ({"leaves": [[1.0] * 8, [1.0] * 8]}, "have 7 splits each"),
        ({"leaves": [[np.nan] * 4, [1.0] * 4]}, "not finite"),
        ({"splits": [[(0, 0.5), (1, np.inf), (1, -1.0)], MODEL.splits[1]]}, "not finite"),
        ({"splits": [[(0, 0.5), (2, 1.0), (1, -1.0)], MODEL.splits[1]]}, "beyond the 2"),
        ({"splits": [[(0, 0.5), (0.5, 1.0), (1, -1.0)], MODEL.splits[1]]}, "no whole number"),
        ({"initial": np.inf}, "not finite"),
        ({"bounds": (2.0, 1.0)}, "lower one comes first"),
        ({"linear": attrs.evolve(LINE, features=("b", "a"))}, "other features"),
    ],
)
def test_a_model_is_checked(change, message):
    with pytest.raises(ValueError, match=message):
        attrs.evolve(MODEL, **change)


def test_importance_is_the_spread_of_what_a_feature_alone_adds():
    # The prediction is 6 [a > 0] + [b > 1] + [b > 2], and c is asked for nothing.
    splits = [[(0, 0.0), (1, 1.0)], [(1, 2.0), (2, 0.0)]]
    leaves = [[0.0, 1.0, 6.0, 7.0], [0.0, 0.0, 1.0, 1.0]]
    model = TreesModel("abc", "oblivious", splits, leaves)
    assert model.importances == pytest.approx({"a": 3.0, "b": np.std([0, 1, 2]), "c": 0.0})
    complete = TreesModel("ab", "complete", [[(0, 0.0), (1, 1.0), (1, 1.0)]], [[0.0, 1.0, 6.0, 7.0]])
    assert complete.importances == pytest.approx({"a": 3.0, "b": 0.5})
    line = WinsorizedLinearModel("abc", (0, 0, 0), (1, 1, 1), 2.0, (0, 0, 4), 0.0, (-9, 9))
    assert attrs.evolve(model, linear=line).importances["c"] == pytest.approx(2.0)  # at -1/2 and 1/2
    bare = TreesModel("abc", "oblivious", [], [], linear=line)
    assert bare.importances == pytest.approx({"a": 0.0, "b": 0.0, "c": 2.0})


def test_a_person_reads_the_features_by_importance():
    table = shown(attrs.evolve(MODEL, linear=LINE, bounds=(0.0, 1000.0)))
    assert table.header == ("feature", "importance")
    assert [row[0] for row in table.rows] == ["b", "a"]
    (sentence,) = table.sentences
    assert "a line and 2 complete trees of depth 2" in sentence
    assert "clipped to 0 to 1000" in sentence
    many = TreesModel([f"x{j}" for j in range(25)], "oblivious", [[(7, 0.0)]], [[0.0, 1.0]], link="logistic")
    table = shown(many)
    assert table.rows[0] == ("x7", "0.5")
    assert len(table.rows) == 20
    assert "5 less important features" in table.sentences[0]
    assert "log odds" in table.sentences[0]


# Importances and their noise


def noisy_model(rng, *, dummies=5, numbers=20, trees=300, depth=3, leaf=0.5, link=()):
    """Return random trees whose leaves are noise alone: nothing matters."""
    sizes = [60] * numbers + [1] * dummies
    drawn = draw_trees(rng, trees, depth, sizes, weights=[1.0] * numbers + [dummies**-0.5] * dummies)
    splits = [
        [(j, float(cut)) for j, cut in zip(features, cuts, strict=True)]
        for features, cuts in zip(drawn.features.tolist(), drawn.cuts.tolist(), strict=True)
    ]
    leaves = rng.normal(size=(trees, 2**depth)) * leaf
    names = [f"n{j}" for j in range(numbers)] + [f"c={j}" for j in range(dummies)]
    columns = [f"n{j}" for j in range(numbers)] + ["c"] * dummies
    noise = Noise(columns, [leaf], [0.0], 0.1)
    return TreesModel(names, "oblivious", splits, leaves, noise=noise)


@pytest.mark.slow
def test_noise_alone_has_the_moments_that_are_said_and_stays_below_its_threshold():
    rng = np.random.default_rng(0)
    ratios, above = {"n": [], "c": []}, 0
    for _ in range(100):
        for name, one in noisy_model(rng).columns.items():
            ratios[name[0]].append((one.value / one.rms) ** 2)
            above += one.told
    assert len(ratios["n"]) == 2000
    assert np.mean(ratios["n"]) == pytest.approx(1.0, abs=0.1)
    assert np.mean(ratios["c"]) == pytest.approx(1.0, abs=0.25)
    assert above <= stats.binom.isf(1e-4, 100, LEVEL)  # of 2 100 columns, in 100 models


def test_half_of_the_noise_would_leave_many_above():
    rng = np.random.default_rng(1)
    above = 0
    for _ in range(10):
        model = noisy_model(rng)
        halved = attrs.evolve(model.noise, leaf=[model.noise.leaf[0] / 2])
        above += sum(one.told for one in attrs.evolve(model, noise=halved).columns.values())
    assert above > 20


def test_what_all_categories_have_in_common_matters_nothing():
    noise = Noise(["c", "c", "x"], [0.01], [0.0], 0.1)
    splits = [[(0, 0.5)], [(1, 0.5)], [(2, 0.0)]]
    both = TreesModel(["c=a", "c=b", "x"], "oblivious", splits, [[-1, 1], [-1, 1], [-1, 1]], noise=noise)
    assert both.columns["c"].value == pytest.approx(0.0)
    assert not both.columns["c"].told
    assert both.columns["x"].value == pytest.approx(1.0)
    assert both.columns["x"].told
    one = attrs.evolve(both, leaves=[[-1, 1], [1, -1], [-1, 1]])
    assert one.columns["c"].value == pytest.approx(2.0)
    rare = attrs.evolve(one, noise=attrs.evolve(noise, shares=[0.01, 0.99, 0.5]))  # jumps of 2 and -2
    assert rare.columns["c"].value == pytest.approx(4 * math.sqrt(0.01 * 0.99))
    header, rows = shown(both).header, shown(both).rows
    assert header == ("column", "importance", "noise alone, 95 %")
    assert [row[0] for row in rows] == ["x", "c"]
    assert rows[1][1] == "nothing that could be told from noise"


def test_numbers_of_any_size_have_thresholds():
    model = noisy_model(np.random.default_rng(3), trees=20)
    far = attrs.evolve(model, noise=attrs.evolve(model.noise, leaf=[1e300], rate=1e300, residual=[1e-300]))
    thresholds = [one.threshold for one in far.columns.values()]
    assert 1e299 < max(thresholds) < math.inf
    assert min(thresholds) >= 0
    bare = attrs.evolve(model, noise=attrs.evolve(model.noise, leaf=[0.0]))
    assert {one.threshold for one in bare.columns.values()} == {0.0}
    assert str(shown(far))


def test_the_noise_is_kept_and_checked():
    model = noisy_model(np.random.default_rng(2), trees=2)
    again = read_model(canonical(json.loads(json.dumps(model.to_document()))))
    assert again == model
    for change in (
        {"columns": ["a"]},
        {"leaf": [0.1, 0.2]},
        {"leaf": [], "residual": []},
        {"rate": -1.0},
        {"slopes": [0.1]},
        {"shares": [0.1]},
        {"shares": [1.1] * 25},
    ):
        document = model.to_document()
        document["noise"] |= change
        with pytest.raises(InvalidRelease, match="noise"):
            read_model(document)
