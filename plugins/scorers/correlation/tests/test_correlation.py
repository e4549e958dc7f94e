"""Correlation scores against exact fractions, and their sensitivity against search and examples."""

import functools
import tracemalloc
from fractions import Fraction
from pathlib import Path

import dpkit_kernels
import numpy as np
import pytest
from dpkit_check import ReferenceAccountant, StageMeter, attack_sensitivity
from dpkit_check.pytest import parametrize_with_checks
from dpkit_check.worlds import box
from dpkit_scorer_correlation import CorrelationScorer, windows
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from scipy import sparse

from dpkit_core import (
    Budget,
    Dataset,
    Neighboring,
    Randomness,
    Request,
    Schema,
    Sensitivity,
    SparseDataset,
    StagePlan,
    StreamedDataset,
)
from dpkit_core.data import sums
from dpkit_core.errors import Unsuitable
from dpkit_core.privacy.events import ExponentialMechanism, NonPrivate

AR = Neighboring.ADD_OR_REMOVE_ONE
RO = Neighboring.REPLACE_ONE
needs_kernels = pytest.mark.skipif(not dpkit_kernels.COMPILED, reason="no kernels were compiled")

OPTIONS = [
    pytest.param({"clip": 1.0}, id="clip 1"),
    pytest.param({"clip": 0.25}, id="clip 1/4"),
    pytest.param({"statistic": "sign"}, id="sign"),
]


def scores(data, **options):
    return CorrelationScorer(**options).prepare(data, StagePlan(()), None)(())


def unit_box(X, y):
    X, y = np.asarray(X, float), np.asarray(y, float)
    return Dataset.from_arrays(X, y, box(X.shape[1], AR))


def released(data, plan, scorer, seed=0):
    meter = StageMeter("scoring", plan, AR, Randomness.from_seed(seed))
    prepared = scorer.prepare(data, plan, meter)
    meter.finish()
    return prepared(())


def plan_of(scorer, schema, epsilon=1.0):
    accountant = ReferenceAccountant(schema.neighboring)
    return scorer.plan(Request(schema, 2, Budget(epsilon), accountant))


@pytest.mark.slow
@parametrize_with_checks([CorrelationScorer])
def test_the_scorer_keeps_its_promises(check):
    check()


@pytest.mark.exhaustive  # the kit tries each as an option of the above
@parametrize_with_checks([functools.partial(CorrelationScorer, statistic="sign", center="private")])
def test_signs_about_private_centers_keep_its_promises(check):
    check()


# The statistic


# Fifty records with values in [-1, 1], rounded to four digits, and |X'y| computed by other code.
EXPECTED = [0.62890983, 4.97944359, 1.10601005, 1.15391627, 2.51334656, 0.17484251, 0.22049265]
PUBLISHED = [
    0.777238336641235,
    5.205788490275304,
    1.5232994209169564,
    1.4208126824757996,
    3.718352604355748,
    0.028742845488847334,
    0.368774779513885,
]


@pytest.fixture(scope="module")
def fifty(request):
    table = np.loadtxt(request.path.with_name("fifty_records.csv"), delimiter=",")
    return unit_box(table[:, :-1], table[:, -1])


def test_within_full_windows_scores_are_absolute_cross_products(fifty):
    np.testing.assert_allclose(scores(fifty, clip=1.0), EXPECTED, atol=4e-3)


def test_the_published_calibration_centers_by_means_and_scales_by_the_largest_deviation(fifty):
    scorer = CorrelationScorer(calibration="published")
    plan = plan_of(scorer, box(7, AR))
    np.testing.assert_allclose(released(fifty, plan, scorer), PUBLISHED, atol=4e-3)


def step(value, lower, upper, clip):
    """Return the place of a value in its window, in exact arithmetic: 4096 steps to each side."""
    away = Fraction(value) - (Fraction(lower) + Fraction(upper)) / 2
    if not clip:
        return 4096 * ((away > 0) - (away < 0))
    return round(min(max(away / (Fraction(clip) * (Fraction(upper) - Fraction(lower)) / 2), -1), 1) * 4096)


@settings(max_examples=60, deadline=None)
@given(
    arrays.arrays(float, (5, 3), elements=st.integers(-40, 40).map(lambda v: v / 16)),
    st.sampled_from([1.0, 0.25, 2.0**-7, 0.0]),
)
def test_scores_are_exact_sums_over_values_in_steps_of_a_4096th(table, clip):
    # Sixteenths, bounds 3/2 and windows that are powers of two apart leave no ties to round.
    bounds = {"x0": (-1.0, 1.0), "x1": (0.0, 1.5), "y": (-2.0, 2.0)}
    schema = Schema.numeric(["x0", "x1"], "y", bounds)
    data = Dataset.from_arrays(table[:, :2], table[:, 2], schema)
    options = {"clip": clip} if clip else {"statistic": "sign"}
    expected = [
        abs(sum(step(x, *bounds[f"x{j}"], clip) * step(y, *bounds["y"], clip) for x, y in table[:, [j, 2]]))
        for j in range(2)
    ]
    assert (scores(data, **options) * 2**24).tolist() == expected


def test_values_beyond_the_bounds_count_as_values_at_the_bounds():
    inside = unit_box([[1, -1], [-1, 0.5]], [1, -1])
    outside = unit_box([[1e308, -7], [-1e308, 0.5]], [50, -1e300])
    assert scores(outside, clip=1.0).tolist() == scores(inside, clip=1.0).tolist() == [2, 1.5]


def test_the_sign_of_the_smallest_visible_distance_counts_in_full():
    data = unit_box([[1e-290, 0.0], [-1e-290, 0.0]], [1.0, -1.0])
    assert scores(data, statistic="sign").tolist() == [2, 0]


def test_a_tighter_clip_weighs_the_middle_as_much_as_the_ends():
    data = unit_box([[0.25], [0.1], [-1.0]], [0.25, 0.25, -0.5])
    assert scores(data, clip=0.25)[0] == pytest.approx(2.4, abs=1e-3)


def test_bounds_too_wide_or_too_close_for_float64_give_finite_scores():
    for lower, upper in ((-1.7e308, 1.7e308), (0.0, 5e-324)):
        schema = Schema.numeric(["a"], "y", {"a": (lower, upper), "y": (lower, upper)})
        data = Dataset.from_arrays([[lower], [upper]], [lower, upper], schema)
        assert 0 <= scores(data, clip=1.0)[0] <= 2


# Forms of data


def wide(n=300, d=40, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.2)
    names = [f"x{j}" for j in range(d)]
    bounds = {name: (-1.0 - j / 7, 2.0) for j, name in enumerate(names)} | {"y": (-3.0, 4.0)}
    return X, X[:, :3].sum(axis=1) + rng.normal(size=n), Schema.numeric(names, "y", bounds)


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("compiled", [False, pytest.param(True, marks=needs_kernels)])
def test_all_forms_of_data_have_the_same_scores_bit_for_bit(options, compiled, monkeypatch):
    monkeypatch.setattr(dpkit_kernels, "COMPILED", compiled)
    monkeypatch.setattr(windows, "TILE", 64)  # several tiles in both directions, the last ones partly filled
    monkeypatch.setattr(sums, "BLOCK", 1000)
    X, y, schema = wide()
    expected = scores(Dataset.from_arrays(X, y, schema), **options).tolist()
    blocks = [(X[200:], y[200:]), (X[:7], y[:7]), (np.asfortranarray(X[7:200]), y[7:200])]
    forms = [
        Dataset.from_arrays(np.asfortranarray(X), y, schema),
        Dataset.from_arrays(np.repeat(X, 2, axis=0)[::2], y, schema),
        SparseDataset.from_arrays(sparse.csr_array(X), y, schema),
        SparseDataset.from_arrays(sparse.csc_array(X), y, schema),
        SparseDataset.from_arrays(sparse.coo_matrix(X), y, schema),
        StreamedDataset.from_blocks(lambda: iter(blocks), schema),
    ]
    assert [scores(data, **options).tolist() for data in forms] == [expected] * len(forms)


@needs_kernels
@pytest.mark.parametrize(("n", "d"), [(1, 1), (1, 300), (300, 1), (255, 3), (257, 50), (1025, 7)])
def test_kernels_and_numpy_sum_the_same_products(n, d, monkeypatch):
    monkeypatch.setattr(windows, "TILE", 1000)
    rng = np.random.default_rng([n, d])
    found = windows.Windows(rng.normal(size=d), rng.choice([0.0, 5e-324, 1e-3, 1.0, 1e300], d))
    X = found.centers + rng.normal(size=(n, d)) * np.maximum(found.widths, 1e-3)
    halves = found.centers + (rng.integers(-9000, 9000, (n, d)) + 0.5) / windows.STEPS * found.widths
    X = np.where(rng.random((n, d)) < 0.3, halves, X)
    extremes = rng.choice([0.0, -0.0, 1e308, -1e308, np.inf, -np.inf, 5e-324], (n, d))
    X = np.where(rng.random((n, d)) < 0.1, extremes, X)
    target = rng.integers(-4096, 4097, n).astype(np.float64)
    twice = np.repeat(np.repeat(X, 2, axis=0), 3, axis=1)
    for values in (
        X,
        np.asfortranarray(X),
        twice[::2, ::3],
        np.asfortranarray(twice)[::2, ::3],
        X[::-1, ::-1],
    ):
        by_kernels = windows.dense_products(values, found, target)
        assert by_kernels.tolist() == windows._products_in_numpy(values, found, target).tolist()
    small = np.rint(X).clip(-9, 9)
    for narrow in (small.astype(np.float32), small.astype(np.int64)):
        assert windows.dense_products(narrow, found, target).tolist() == (
            windows.dense_products(narrow.astype(np.float64), found, target).tolist()
        )


def test_all_forms_have_the_same_published_scores_up_to_rounding_of_the_mean():
    X, y, schema = wide()
    scorer = CorrelationScorer(calibration="published")
    plan = plan_of(scorer, schema)
    dense, thin, streamed = (
        released(data, plan, scorer)
        for data in (
            Dataset.from_arrays(X, y, schema),
            SparseDataset.from_arrays(sparse.csr_array(X), y, schema),
            StreamedDataset.from_blocks(lambda: iter([(X[:100], y[:100]), (X[100:], y[100:])]), schema),
        )
    )
    np.testing.assert_allclose(thin, dense, atol=0.01)
    np.testing.assert_allclose(streamed, dense, atol=0.01)


def test_no_copy_of_the_features_is_made():
    X, y, schema = wide(20_000, 50)
    data = Dataset.from_arrays(X, y, schema)
    scores(data)  # imports what is imported late
    tracemalloc.start()
    scores(data)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < X.nbytes / 4


@pytest.mark.slow
def test_sparse_features_are_never_dense():
    n = d = 20_000
    rng = np.random.default_rng(0)
    X = sparse.csr_array((rng.normal(size=n), (rng.integers(0, n, n), rng.integers(0, d, n))), shape=(n, d))
    schema = Schema.numeric(
        [f"x{j}" for j in range(d)], "y", {f"x{j}": (-2, 3) for j in range(d)} | {"y": (-1, 1)}
    )
    data = SparseDataset.from_arrays(X, rng.normal(size=n), schema)
    tracemalloc.start()
    scores(data)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.01 * 8 * n * d


def test_every_partial_sum_of_a_block_is_exact():
    # A record at one end of all windows and zeros at the other: what is taken out of a zero is twice a step.
    assert windows.LARGEST_PRODUCT >= 2 * windows.STEPS**2
    schema = Schema.numeric(["x"], "y", {"x": (0, 2), "y": (-1, 1)})
    X = sparse.csr_array(np.array([[2.0], [0.0], [2.0]]))
    data = SparseDataset.from_arrays(X, [1.0, 1.0, 1.0], schema)
    assert scores(data, clip=1.0).tolist() == [1]


def test_sums_beyond_float64_are_clamped_whatever_the_number_of_records():
    class Many:
        """2^31 records at the ends of all windows, of which only the sum exists."""

        features = unit_box([[1.0], [1.0]], [1.0, 1.0]).features
        target, target_bounds = "y", (-1.0, 1.0)

        def __init__(self, total):
            self.total = total

        def sum(self, what):
            return np.array([self.total])

    limit = 2.0**29
    for total in (2**53 - 2**24, 2**53, 2**53 + 1, 2**55, -(2**55)):
        (score,) = CorrelationScorer(clip=1.0).prepare(Many(total), StagePlan(()), None)(())
        assert score == min(abs(total) / 2**24, limit)


# Sensitivity


@pytest.mark.first(1)
@pytest.mark.parametrize(("relation", "linf", "range_"), [(AR, 1.0, 2.0), (RO, 2.0, 4.0)])
@pytest.mark.parametrize("options", OPTIONS)
def test_sensitivities_are_attained_and_never_exceeded(options, relation, linf, range_):
    scorer = CorrelationScorer(**options)
    declared = scorer.sensitivity(box(2, relation), 0)
    assert (declared.linf, declared.range) == (linf, range_)
    schema = box(2, relation)
    for norm, value in (("linf", linf), ("range", range_)):
        found = attack_sensitivity(
            lambda data: scorer.prepare(data, StagePlan(()), None)(()), {norm: value}, schema, evaluations=600
        )
        assert not found.violated, found.describe()
        assert found.change == value, found.describe()


@pytest.mark.first(1)
@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("relation", [AR, RO])
def test_half_of_a_declared_sensitivity_is_refuted(options, relation):
    scorer = CorrelationScorer(**options)
    declared = scorer.sensitivity(box(2, relation), 0)
    for half in (
        {"linf": declared.linf / 2},
        {"range": declared.range / 2},
    ):
        found = attack_sensitivity(
            lambda data: scorer.prepare(data, StagePlan(()), None)(()), half, box(2, relation)
        )
        assert found.violated


def test_two_columns_move_apart_by_the_whole_range():
    # Columns a and b stand at 3 and -3 -> 3; the record adds to one and takes from the other.
    before = [[1, -1]] * 3
    first = scores(unit_box(before, [1] * 3), clip=1.0)
    added = scores(unit_box([*before, [1, 1]], [1] * 4), clip=1.0)
    assert (added - first).tolist() == [1, -1]
    replaced = scores(unit_box([[-1, -1], [1, -1], [1, -1], [1, -1]], [1] * 4), clip=1.0)
    other = scores(unit_box([[1, 1], [1, -1], [1, -1], [1, -1]], [1] * 4), clip=1.0)
    assert (other - replaced).tolist() == [2, -2]


def test_the_published_sensitivity_is_false_by_the_number_of_records():
    scorer = CorrelationScorer(calibration="published")
    plan = plan_of(scorer, box(1, AR))
    values = np.tile([1.0, -1.0], 100)
    first = released(unit_box(values[:, np.newaxis], values), plan, scorer)
    far = np.append(values, 100.0)
    second = released(unit_box(far[:, np.newaxis], np.append(values, -100.0)), plan, scorer)
    assert abs(first - second) > 190
    assert scorer.sensitivity(box(1, AR), 0) == Sensitivity.general(1.0, AR)


# Planning


def test_the_published_calibration_is_planned_as_not_private():
    for relation in (AR, RO):
        (event,) = plan_of(CorrelationScorer(calibration="published"), box(2, relation)).events
        assert isinstance(event, NonPrivate)
        assert event.neighboring is relation
        assert "means" in event.reason
    unbounded = Schema.numeric(["a"], "y")
    assert CorrelationScorer(calibration="published").sensitivity(unbounded, 0).linf == 1


def test_a_private_center_is_one_selection_that_spends_its_budget():
    plan = plan_of(CorrelationScorer(center="private"), box(2, AR), epsilon=0.5)
    (event,) = plan.events
    assert isinstance(event, ExponentialMechanism)
    assert 0.499 < event.epsilon <= 0.5
    assert plan_of(CorrelationScorer(), box(2, AR)).events == ()


def test_a_private_center_removes_what_a_skewed_target_adds_to_rare_categories():
    rng = np.random.default_rng(3)
    n = 4000
    X = (rng.random((n, 2)) < [0.5, 0.02]).astype(float)
    y = 1 + X[:, 0] + rng.normal(size=n) / 4
    schema = Schema.numeric(["half", "rare"], "y", {"half": (0, 1), "rare": (0, 1), "y": (-4, 4)})
    data = Dataset.from_arrays(X, y, schema)
    off_center = scores(data, statistic="sign")
    scorer = CorrelationScorer(statistic="sign", center="private")
    centered = released(data, plan_of(scorer, schema), scorer)
    assert off_center[1] > off_center[0]  # nearly n, because all but few records lack it
    assert centered[0] > 10 * centered[1]


def test_a_private_center_is_found_between_bounds_whose_distance_overflows():
    widest = 1.7e308
    schema = Schema.numeric(["x"], "y", {"x": (-1, 1), "y": (-widest, widest)})
    y = np.repeat([0.5 * widest, 0.9 * widest], 500)
    data = Dataset.from_arrays(np.repeat([[-1.0], [1.0]], 500, axis=0), y, schema)
    scorer = CorrelationScorer(statistic="sign", center="private")
    # Every candidate from one value to the other is a median, and all others miss it by 500 records.
    assert released(data, plan_of(scorer, schema), scorer).tolist() == [1000]


def test_scores_that_follow_a_release_are_not_had_without_it(fifty):
    for options in ({"center": "private"}, {"calibration": "published"}):
        with pytest.raises((TypeError, ValueError)):
            CorrelationScorer(**options).prepare(fifty, StagePlan(()), None)


@pytest.mark.parametrize("column", ["x1", "y"])
def test_a_column_without_bounds_is_named_with_the_remedy(column):
    bounds = {name: (0, 1) for name in ("x0", "x1", "y") if name != column}
    schema = Schema.numeric(["x0", "x1"], "y", bounds)
    with pytest.raises(Unsuitable, match=f"column '{column}' has no bounds.*give lower and upper"):
        CorrelationScorer().sensitivity(schema, 0)


def test_options_that_contradict_each_other_or_make_no_window_are_refused():
    for options in ({"clip": 0.0}, {"clip": 1.5}, {"statistic": "rank"}, {"center": "mean"}):
        with pytest.raises(ValueError, match="must be"):
            CorrelationScorer(**options)
    with pytest.raises(ValueError, match="leave statistic, center and signed at their defaults"):
        CorrelationScorer(calibration="published", statistic="sign")


def test_an_accountant_that_does_not_know_the_median_is_named_in_the_remedy():
    class Ignorant(ReferenceAccountant):
        def supports(self, event, /):
            return False

    request = Request(box(2, AR), 2, Budget(1.0), Ignorant(AR))
    with pytest.raises(Unsuitable, match="use one that does"):
        CorrelationScorer(center="private").plan(request)


@pytest.mark.exhaustive
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is read from /proc")
def test_a_parquet_file_larger_than_memory_is_scored_in_little(tmp_path):
    import subprocess
    import sys

    import pyarrow as pa
    import pyarrow.parquet as pq

    n, d = 250_000, 200
    rng = np.random.default_rng(0)
    columns = {f"x{j}": rng.random(n) for j in range(d)}
    path = tmp_path / "large.parquet"
    table = pa.table({**columns, "y": columns["x0"] + columns["x1"]})
    pq.write_table(table, path, compression="none", use_dictionary=False)
    assert path.stat().st_size > 4e8
    code = f"""
from dpkit_core import Schema, StagePlan, StreamedDataset, open_source
from dpkit_scorer_correlation import CorrelationScorer
names = [f"x{{j}}" for j in range({d})]
schema = Schema.numeric(names, "y", {{n: (0, 1) for n in names}} | {{"y": (0, 2)}})
scores = CorrelationScorer().prepare(
    StreamedDataset.from_source(open_source({str(path)!r}), schema), StagePlan(()), None
)(())
assert set(scores.argsort()[-2:]) == {{0, 1}}
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
print(1024 * int(status["VmHWM"].split()[0]))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 3e8


def test_signed_scores_are_the_sums_whose_magnitudes_the_others_are():
    rng = np.random.default_rng(5)
    X = rng.uniform(-1, 1, (300, 3))
    schema = Schema.numeric("abc", "y", dict.fromkeys("abcy", (-1.0, 1.0)))
    data = Dataset.from_arrays(X, np.clip(X[:, 0] - X[:, 1], -1, 1), schema)

    def scores(**options):
        return CorrelationScorer(clip=1.0, **options).prepare(data, StagePlan(()), None)(())

    expected = X.T @ np.clip(X[:, 0] - X[:, 1], -1, 1)
    assert np.abs(scores(signed=True) - expected).max() < 0.3  # of steps of 2^-12
    assert scores().tolist() == np.abs(scores(signed=True)).tolist()
    assert CorrelationScorer(signed=True).additive
    assert not CorrelationScorer(signed=True, center="private").additive
