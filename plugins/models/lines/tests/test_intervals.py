"""Standard errors are those of least squares where there is no noise, and count the noise where there is."""

import attrs
import numpy as np
import pytest
from dpkit_model_lines import NoisyMoments, WinsorizedLinearModel
from dpkit_model_lines.intervals import intervals_of
from scipy.linalg import block_diag

from dpkit_core import LinearModel, Release
from dpkit_core.errors import InvalidOption, InvalidRelease
from dpkit_core.mechanisms.moments import unflatten

CENTERS, WIDTHS = np.array([3.0, -1.0]), np.array([2.0, 0.5])
FEATURE_SCALE, LABEL_CENTER, LABEL_SCALE = 1.5, 10.0, 4.0
SLOPES, LEVEL = np.array([1.5, -2.0]), 7.0


def records(n, rng):
    X = CENTERS + WIDTHS * rng.uniform(-1, 1, size=(n, 2))
    return X, LEVEL + X @ SLOPES + rng.normal(0, 0.7, n)


def symmetric_noise(size, deviation, rng):
    return unflatten(rng.normal(0, deviation, size * (size + 1) // 2), size)


def model_of(table, deviation, rng):
    X, y = table
    u = FEATURE_SCALE * (X - CENTERS) / WIDTHS
    v = np.column_stack([np.ones(len(X)), u, (y - LABEL_CENTER) / LABEL_SCALE])
    noisy = v.T @ v + symmetric_noise(v.shape[1], deviation, rng)
    return WinsorizedLinearModel(
        ("a", "b"), CENTERS, WIDTHS, 2.0, (1.0, 1.0), 0.0, (-99.0, 99.0),
        NoisyMoments(noisy[np.triu_indices(len(noisy))], deviation, FEATURE_SCALE, LABEL_CENTER, LABEL_SCALE),
    )  # fmt: skip


def middle_and_reach(intervals):
    return intervals.bounds.mean(axis=1), np.diff(intervals.bounds)[:, 0] / 2


def test_without_noise_they_are_those_of_least_squares():
    rng = np.random.default_rng(0)
    X, y = records(500, rng)
    intervals = model_of((X, y), 1e-6, rng).intervals("y")
    middle, reach = middle_and_reach(intervals)
    rows = np.column_stack([X, np.ones(len(X))])
    line, (squares,), _, _ = np.linalg.lstsq(rows, y)
    np.testing.assert_allclose(middle, line, rtol=1e-6)
    errors = np.sqrt(squares / (500 - 2) * np.linalg.inv(rows.T @ rows).diagonal())
    # The test of a value takes the residuals from the best line that has it.
    score = 1 / np.sqrt(1 - 1.96**2 / 498)
    np.testing.assert_allclose(reach, 1.95996 * errors * score, rtol=1e-4)
    assert intervals.names == ("a", "b", "(intercept)")


@pytest.mark.slow
def test_the_covariance_of_the_noise_is_the_one_that_is_derived():
    rng, s, beta = np.random.default_rng(1), 0.7, np.array([0.5, -2.0, 1.0])
    drawn = []
    for _ in range(40_000):
        E = symmetric_noise(4, s, rng)
        drawn.append(E[:3, 3] - E[:3, :3] @ beta)
    derived = s**2 / 2 * ((1 + beta @ beta) * np.eye(3) + np.outer(beta, beta))
    np.testing.assert_allclose(np.cov(np.array(drawn).T), derived, atol=0.03 * derived.max())


# Both about equal, noise alone, sampling alone.
@pytest.mark.slow
@pytest.mark.first(1)
@pytest.mark.parametrize(("n", "deviation"), [(1000, 7.0), (2000, 25.0), (1000, 0.1)])
def test_between_93_and_98_of_100_intervals_hold_the_truth(n, deviation):
    rng, held, wide = np.random.default_rng(2), [], []
    for _ in range(150):
        intervals = model_of(records(n, rng), deviation, rng).intervals("y")
        ends, truth = intervals.bounds, np.append(SLOPES, LEVEL)
        held.append((ends[:, 0] <= truth) & (truth <= ends[:, 1]))
        ((lower, upper),) = intervals.of_line(CENTERS[np.newaxis])
        wide.append(lower <= LEVEL + CENTERS @ SLOPES <= upper)
    assert 0.93 <= np.mean(held) <= 0.98
    assert 0.93 <= np.mean(wide) <= 0.98


def test_a_higher_level_is_wider():
    rng = np.random.default_rng(4)
    model = model_of(records(2000, rng), 10.0, rng)
    narrow, wide = (np.diff(model.intervals("y", level).bounds) for level in (0.9, 0.99))
    np.testing.assert_allclose(wide / narrow, 2.5758 / 1.6449, rtol=0.01)
    for level in (0.0, 1.0, 95):
        with pytest.raises(InvalidOption, match="above 0 and below 1"):
            model.intervals("y", level)


# The smallest eigenvalue of G is about as large as its noise, or a third of it.
@pytest.mark.slow
@pytest.mark.first(1)
@pytest.mark.parametrize(("n", "deviation"), [(300, 60.0), (300, 120.0)])
def test_intervals_hold_the_truth_where_noise_drowns_the_matrix(n, deviation):
    rng, held, told = np.random.default_rng(5), [], []
    for _ in range(80):
        ends = model_of(records(n, rng), deviation, rng).intervals("y").bounds
        truth = np.append(SLOPES, LEVEL)
        held.append((ends[:, 0] <= truth) & (truth <= ends[:, 1]))
        told.append(np.isfinite(ends).all(axis=1))
    assert np.mean(held) >= 0.93
    assert 0.01 <= np.mean(told) <= 0.99


def test_of_features_that_add_up_to_a_constant_nothing_can_be_told():
    rng = np.random.default_rng(6)
    X, y = records(50_000, rng)
    X[:, 1] = CENTERS[1] + WIDTHS[1] * (X[:, 0] - CENTERS[0]) / WIDTHS[0]
    intervals = model_of((X, y), 5.0, rng).intervals("y")
    assert [row[1] for row in intervals.rows] == ["cannot be told"] * 3
    assert f"first of all {intervals.least}." in " ".join(intervals.sentences)


@pytest.mark.parametrize("model", [None, LinearModel(("a",), (1.0,))])
def test_releases_of_other_models_have_none(model):
    with pytest.raises(InvalidRelease, match=r"no intervals|no model"):
        Release((), model, None, certificate=None).intervals()


def test_a_line_that_keeps_no_moments_has_none():
    model = model_of(records(100, np.random.default_rng(4)), 1.0, np.random.default_rng(5))
    with pytest.raises(InvalidRelease, match="does not keep the noisy numbers"):
        attrs.evolve(model, moments=None).intervals("y")


def test_moments_are_written_and_read_with_the_model():
    rng = np.random.default_rng(7)
    model = model_of(records(2000, rng), 10.0, rng)
    again = WinsorizedLinearModel.from_document(model.to_document())
    assert again == model
    assert "moments" not in attrs.evolve(model, moments=None).to_document()
    document = model.to_document()
    for broken in ({"triangle": [1.0, 2.0]}, {"deviation": 0.0}, {"triangle": [1.0, 2.0, 3.0]}, {"more": 1}):
        with pytest.raises(InvalidRelease, match="cannot read the winsorized"):
            WinsorizedLinearModel.from_document(document | {"moments": document["moments"] | broken})


def test_they_are_shown_with_what_is_estimated():
    model = model_of(records(2000, np.random.default_rng(8)), 10.0, np.random.default_rng(9))
    intervals = model.intervals("price")
    (low, high), (name, *shown) = intervals.bounds[0], intervals.rows[0]
    assert (name, shown) == ("a", [f"{low:.5g}", f"{high:.5g}"])
    assert "the line that predicts price, clipped" in " ".join(str(intervals).split())
    assert f"<td>{low:.5g}</td>" in intervals._repr_html_()
    with pytest.raises(InvalidOption, match="give one for each"):
        intervals.of_line(np.ones((1, 1)))


def spread_of(table, line, clip):
    """Return the sum of (r (1, u)) (r (1, u))^T, without noise."""
    X, y = table
    u = np.column_stack([np.ones(len(X)), FEATURE_SCALE * (X - CENTERS) / WIDTHS])
    r = np.clip((y - LABEL_CENTER) / LABEL_SCALE - u @ line, -clip, clip)
    return (u * r[:, np.newaxis]).T @ (u * r[:, np.newaxis])


def test_with_the_spread_they_are_those_of_the_sandwich():
    rng = np.random.default_rng(3)
    X, _ = records(4000, rng)
    y = LEVEL + X @ SLOPES + rng.normal(size=4000) * (X[:, 0] - 1) ** 2
    model = model_of((X, y), 1e-7, rng)
    u = np.column_stack([np.ones(len(X)), FEATURE_SCALE * (X - CENTERS) / WIDTHS])
    line = np.linalg.lstsq(u, (y - LABEL_CENTER) / LABEL_SCALE)[0]
    spread = spread_of((X, y), line, np.inf)[np.triu_indices(3)]
    robust = attrs.evolve(model.moments, spread=spread, spread_deviation=1e-9)
    found = attrs.evolve(model, moments=robust).intervals("y")
    rows = np.column_stack([X, np.ones(len(X))])
    bread = np.linalg.inv(rows.T @ rows)
    residuals = y - rows @ np.linalg.lstsq(rows, y)[0]
    meat = (rows * residuals[:, np.newaxis] ** 2).T @ rows
    expected = np.sqrt((bread @ meat @ bread).diagonal())  # White 1980
    np.testing.assert_allclose(middle_and_reach(found)[1], 1.95996 * expected, rtol=1e-3)
    assert middle_and_reach(model.intervals("y"))[1][0] < 0.85 * 1.96 * expected[0]
    assert "do not take their variance to be equal" in " ".join(str(found).split())
    assert "of equal variance" in " ".join(str(model.intervals("y")).split())


def test_a_spread_is_read_with_the_model_or_refused():
    model = model_of(records(100, np.random.default_rng(4)), 1.0, np.random.default_rng(5))
    robust = attrs.evolve(model.moments, spread=[1.0] * 6, spread_deviation=2.0)
    written = attrs.evolve(model, moments=robust)
    assert WinsorizedLinearModel.from_document(written.to_document()) == written
    for wrong in ({"spread": [1.0] * 5}, {"spread_deviation": None}, {"spread_deviation": 0.0}):
        with pytest.raises(ValueError, match=r"spread|positive|above 0"):
            attrs.evolve(robust, **wrong)


KINDS = ("size", "kind=a", "kind=b", "kind=c", "place=d", "place=e")
OF_KINDS = np.array([2.0, 1.0, 0.5, -1.5, 0.25, -0.25, 3.0])


def model_of_kinds(n, deviation, rng, shares=(0.6, 0.3, 0.1)):
    """Return a line with a number and two columns of categories, which make G singular, under noise.

    Records without a kind, where shares do not add up to 1, are 4 higher.
    """
    kind, place = rng.choice(4, n, p=[*shares, max(0.0, 1 - sum(shares))]), rng.choice(2, n)
    X = np.column_stack([rng.uniform(0, 1, n), np.eye(4)[kind, :3], np.eye(2)[place]])
    y = X @ OF_KINDS[:-1] + OF_KINDS[-1] + 4 * (kind == 3) + rng.normal(0, 0.7, n)
    v = np.column_stack([np.ones(n), 0.8 * (2 * X - 1), (y - 3) / 4])
    noise = symmetric_noise(8, deviation / np.sqrt(2), rng)
    noisy = v.T @ v + noise + (np.sqrt(2) - 1) * np.diag(noise.diagonal())
    moments = NoisyMoments(noisy[np.triu_indices(8)], deviation, 0.8, 3.0, 4.0)
    half = np.full(6, 0.5)
    return WinsorizedLinearModel(KINDS, half, half, 3.0, np.ones(6), 0.0, (-99.0, 99.0), moments)


def test_coefficients_of_a_column_of_categories_add_up_to_0():
    model = model_of_kinds(20_000, 3.0, np.random.default_rng(11))
    assert [row[1] for row in model.intervals("y").rows] == ["cannot be told"] * 7
    intervals = model.intervals("y", 0.95, [KINDS[1:4], KINDS[4:]])
    assert (np.diff(intervals.bounds)[:, 0] < 0.6).all()
    assert "of kind=a to kind=c, and those of place=d to place=e add up to 0" in " ".join(
        str(intervals).split()
    )
    # Of two whose coefficients add up to 0, each is told as well as the other, and the line is as they say.
    np.testing.assert_allclose(intervals.bounds[4], -intervals.bounds[5, ::-1], rtol=1e-3, atol=1e-3)
    ((lower, upper),) = intervals.of_line(np.array([[0.5, 0, 1, 0, 1, 0]]))
    assert lower < 0.5 * 2.0 + 0.5 + 0.25 + 3.0 < upper < lower + 0.5


@pytest.mark.parametrize("columns", [[KINDS[1:4]], [KINDS[1:4], KINDS[4:]]])
def test_without_noise_coefficients_of_categories_have_the_errors_of_their_contrasts(columns):
    n, rng = 4000, np.random.default_rng(13)
    kind, place = rng.choice(3, n, p=[0.6, 0.3, 0.1]), rng.choice(2, n)
    names = KINDS[: 1 + sum(map(len, columns))]
    X = np.column_stack([rng.uniform(0, 1, n), np.eye(3)[kind], np.eye(2)[place]])[:, : len(names)]
    y = X[:, 0] + X[:, 1] + rng.normal(0, 0.7, n)
    v = np.column_stack([np.ones(n), 0.8 * (2 * X - 1), (y - 3) / 4])
    moments = NoisyMoments((v.T @ v)[np.triu_indices(len(v.T))], 1e-6, 0.8, 3.0, 4.0)
    half = [0.5] * len(names)
    found = intervals_of(moments, names, half, half, target="y", level=0.95, categories=columns)
    # All coefficients, of those of the number, of all but the last category of each column, and of 1.
    of_free = block_diag(1, [[1, 0], [0, 1], [-1, -1]], *[[[1], [-1]]] * (len(columns) - 1), 1)
    A = np.column_stack([X, np.ones(n)]) @ of_free
    (squares,), inverse = np.linalg.lstsq(A, y)[1], np.linalg.inv(A.T @ A)
    errors = np.sqrt(np.diag(of_free @ inverse @ of_free.T) * squares / (n - len(A.T)))
    np.testing.assert_allclose(np.diff(found.bounds)[:, 0], 2 * 1.96 * errors, rtol=0.005)


def test_categories_that_many_records_lack_are_as_they_were():
    # Of the line whose coefficients add up to 0, which is far from the best one, nothing is said.
    rng = np.random.default_rng(14)
    model = model_of_kinds(20_000, 3.0, rng, shares=[0.4, 0.2, 0.1])
    told = model.intervals("y", 0.95, [KINDS[1:4], KINDS[4:]])
    best = OF_KINDS[:4] - [0, 4, 4, 4]
    assert ((told.bounds[:4, 0] <= best) & (best <= told.bounds[:4, 1])).all()
    few = model_of_kinds(20_000, 3.0, rng, shares=[0.6, 0.3, 0.0999])
    assert (np.diff(few.intervals("y", 0.95, [KINDS[1:4], KINDS[4:]]).bounds)[:, 0] < 0.6).all()


@pytest.mark.parametrize("share", [0.0, 1e-4])
def test_of_a_category_without_records_alone_nothing_is_told(share):
    model = model_of_kinds(20_000, 10.0, np.random.default_rng(15), shares=[0.7 - share, 0.3, share])
    intervals = model.intervals("y", 0.95, [KINDS[1:4], KINDS[4:]])
    assert [row[0] for row in intervals.rows if row[1] == "cannot be told"] == ["kind=c"]
    assert intervals.empty == ("kind=c",)
    told = np.array([2.0, 0.25, -0.25, 0.25, -0.25, 3.75])  # a and b add up to 0, in place of all three
    ends = np.delete(intervals.bounds, 3, axis=0)
    assert (np.abs(ends.mean(axis=1) - told) < 0.15).all()
    of_a, of_c = intervals.of_line(np.array([[0.5, 1, 0, 0, 1, 0], [0.5, 0, 0, 1, 1, 0]]))
    assert of_a[0] < 0.5 * 2.0 + 1.0 + 0.25 + 3.0 < of_a[1] < of_a[0] + 0.5
    assert np.isinf(of_c).all()
    text = " ".join(intervals.sentences)
    assert "Of 'kind=c' no records can be told from noise" in text
    assert "leave one out" not in text


def test_where_no_category_stands_out_nothing_of_them_is_told():
    model = model_of_kinds(100, 2000.0, np.random.default_rng(16))
    intervals = model.intervals("y", 0.95, [KINDS[1:4], KINDS[4:]])
    assert not intervals.empty
    assert not np.isfinite(intervals.bounds).any()


@pytest.mark.parametrize("share", [0.02, 0.3])
def test_categories_that_some_records_have_none_of_keep_what_tells_these_apart(share):
    def table(n, rng):
        kind = rng.choice(4, n, p=[share, *np.full(3, (1 - share) / 3)])
        X = np.eye(4)[kind][:, 1:]
        return X, X @ [4.0, 4.0, 3.0] + rng.normal(0, 0.5, n)

    names, rng = ("kind=a", "kind=b", "kind=c"), np.random.default_rng(12)
    X, y = table(20_000, rng)
    v = np.column_stack([np.ones(len(X)), 0.8 * (2 * X - 1), (y - 3) / 4])
    noise = symmetric_noise(5, 3.0 / np.sqrt(2), rng)
    noisy = v.T @ v + noise + (np.sqrt(2) - 1) * np.diag(noise.diagonal())
    moments = NoisyMoments(noisy[np.triu_indices(5)], 3.0, 0.8, 3.0, 4.0)
    half = np.full(3, 0.5)
    model = WinsorizedLinearModel(names, half, half, 3.0, np.ones(3), 0.0, (-99.0, 99.0), moments)
    intervals = model.intervals("y", 0.99, [names])
    lower, upper = intervals.bounds.T
    assert not intervals.centered
    assert (lower < [4.0, 4.0, 3.0, 0.0]).all()
    assert (upper > [4.0, 4.0, 3.0, 0.0]).all()
    assert (upper - lower < 1).all()


def test_categories_of_which_some_were_left_out_are_as_they_were():
    model = model_of_kinds(20_000, 3.0, np.random.default_rng(11))
    partly = model.intervals("y", 0.95, [(*KINDS[1:4], "kind=f"), KINDS[4:5]])
    np.testing.assert_array_equal(partly.bounds, model.intervals("y").bounds)


@pytest.mark.slow
@pytest.mark.first(1)
@pytest.mark.parametrize(("n", "deviation"), [(2000, 3.0), (20_000, 30.0)])
def test_between_93_and_98_of_100_intervals_hold_coefficients_of_categories(n, deviation):
    rng, held = np.random.default_rng(12), []
    for _ in range(80):
        ends = model_of_kinds(n, deviation, rng).intervals("y", 0.95, [KINDS[1:4], KINDS[4:]]).bounds
        held.append((ends[:, 0] <= OF_KINDS) & (ends[:, 1] >= OF_KINDS))
    assert 0.93 <= np.mean(held) <= 0.98
