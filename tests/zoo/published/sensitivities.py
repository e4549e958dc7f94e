"""Sensitivities that were published and do not hold."""

import itertools
import zlib

import numpy as np
from dpkit_check import box
from scipy.special import expit

from dpkit_core import Neighboring, Schema

from .attacks import statistic

AR, RO = Neighboring


def clipped(data, low=-1.0, high=1.0):
    return np.clip(data.X, low, high), np.clip(data.y, low, high)


def scaled_by_the_data(data):
    X, y = data.X - data.X.mean(axis=0), data.y - data.y.mean()
    return np.abs((X / np.maximum(np.abs(X).max(axis=0), 1e-9)).T @ (y / max(np.abs(y).max(), 1e-9)))


def product_in_the_box(data):
    X, y = clipped(data)
    return np.abs(X.T @ y)


def product_centered_by_the_data(data):
    X, y = clipped(data)
    return np.abs((X - X.mean(axis=0)).T @ (y - y.mean()))


def class_keys(noise):
    """Return keys of classes of the canonical Lipschitz mechanism, d = 3000, k = 300, at a fixed coin."""

    def keys(data):
        scores = np.abs(clipped(data)[0].sum(axis=0))
        log_size = 940.0  # of the largest class: C(3000, 300) is about e^972
        return scores / 2 + noise(0.3, log_size)

    return keys


def power_of_uniform(u, log_size):
    with np.errstate(over="ignore", divide="ignore"):
        return -np.log(1 - u ** (1 / np.exp(log_size)))


def in_log_space(u, log_size):
    return log_size - np.log(-np.log(u))


def leaf_sums(data):
    """Return counts and clipped gradient sums of two leaves, each over its noise deviation of 1."""
    gradient, right = np.clip(data.y, -1, 1), data.X[:, 0] > 0
    return [right.sum(), gradient[right].sum(), (~right).sum(), gradient[~right].sum()]


def leaf_gain(data):
    gradient = np.clip(data.y, -1, 1)
    return gradient.sum() ** 2 / (len(gradient) + 1)


def gram(data):
    X = data.X / np.maximum(1, np.linalg.norm(data.X, axis=1, keepdims=True))
    return X.T @ X


def screening_score(data):
    """Return n times the score of Wolfe-gap screening at w = e_1, lambda = 1, labels within 1."""
    X, y = clipped(data)
    u = X[:, 0]
    r = u - y
    c = X.T @ r
    gap = u @ r + np.abs(c).max()
    return np.abs(c) + u @ r + (np.linalg.norm(X, axis=0) + np.linalg.norm(u)) * np.sqrt(max(gap, 0.0))


def vertex_scores(data):
    """Return the gradient by which Frank-Wolfe chooses its vertex, at w = 5 e_1."""
    X, y = clipped(data)
    return X.T @ (5 * X[:, 0] - y)


def residuals_over_their_largest(data):
    """Return the gradient at w = 0 of rows within the unit ball, residuals scaled to [-1, 1] by the data."""
    X = data.X / np.maximum(1, np.linalg.norm(data.X, axis=1, keepdims=True))
    return X.T @ (data.y / max(np.abs(data.y).max(), 1e-9))


def clipped_residuals(data):
    X = data.X / np.maximum(1, np.linalg.norm(data.X, axis=1, keepdims=True))
    return X.T @ np.clip(data.y, -1, 1)


def pair_signs(values):
    return np.array([np.sign(a - b) for a, b in itertools.combinations(values, 2)])


def tau_b(data):
    x, y = pair_signs(data.X[:, 0]), pair_signs(data.y)
    untied = np.sqrt((x != 0).sum() * (y != 0).sum())
    return len(data.y) / 2 * (x @ y) / untied if untied else 0.0


def tau_a(data):
    return pair_signs(data.X[:, 0]) @ pair_signs(data.y) / (len(data.y) - 1)


def ranks(values):
    """Return for each value how many are smaller less how many are larger."""
    return np.sign(np.subtract.outer(values, values)).sum(axis=1)


def rho(data):
    a, b = ranks(data.X[:, 0]), ranks(data.y)
    spread = np.sqrt(a @ a) * np.sqrt(b @ b)
    return len(a) / 2 * (a @ b) / spread if spread else 0.0


def rho_without_ties(data):
    return 3 * (ranks(data.X[:, 0]) @ ranks(data.y)) / (2 * (len(data.y) ** 2 - 1))


def votes(assign):
    """Return how many of 4 models, each fitted to its own records, choose each feature."""

    def count(data):
        X, y = clipped(data)
        batch = assign(data)
        chosen = [np.abs(X[batch == b].T @ y[batch == b]).argmax() for b in range(4) if (batch == b).any()]
        return np.bincount(np.array(chosen, dtype=int), minlength=X.shape[1])

    return count


def equal_batches(data):
    size = max(1, len(data.y) // 4)
    return np.arange(len(data.y)) // size  # the remainder is dropped


def batch_of_its_own(data):
    return np.array([zlib.crc32(row.tobytes()) % 4 for row in np.column_stack((data.X, data.y))])


def models(assign):
    """Return 4 models, each the mean label of its own records, and 0 where it has none."""

    def fit(data):
        y, batch = np.clip(data.y, -1, 1), assign(data)
        return np.array([y[batch == b].sum() / max(1, (batch == b).sum()) for b in range(4)])

    return fit


def distance_to_unsafe(data):
    return max(-1, len(data.y) - 8)


def distance_one_further(data):
    found = distance_to_unsafe(data)
    return found + 1 if found >= 0 else -1


def hessian(data):
    p = expit(np.clip(data.y, -1, 1))
    return (p * (1 - p)).sum()


def diagonal(data):
    return (np.clip(data.X, 1, 10) ** 2).sum(axis=0)


def sum_in_leaf(data):
    return np.clip(data.y, 9, 10)[data.X[:, 0] > 0].sum()


def gram_of_norm_two(data):
    X = data.X / np.maximum(1, np.linalg.norm(data.X, axis=1, keepdims=True) / 2)
    return X.T @ X


def sum_of_clipped_blocks(data):
    """Return the sum of gradients of four blocks of parameters, each block clipped to norm 1."""
    X = np.clip(data.X, -1, 1)
    blocks = (X, -X, X**2, X * np.clip(data.y, -1, 1)[:, None])
    return np.array([b / np.maximum(1, np.linalg.norm(b, axis=1, keepdims=True)) for b in blocks]).sum(axis=1)


def two_coupled_sums(data):
    total = np.clip(data.y, -1, 1).sum()
    return np.array([total, total / 2])


def error_saved_by_measuring(data):
    """Return the L1 error of a model's histogram less that of a public one."""
    right = (data.X[:, 0] > 0).sum()
    counts = np.array([len(data.y) - right, right])
    return np.abs(counts - [1000, 0]).sum() - np.abs(counts - [0, 1000]).sum()


FAR = Schema.numeric("ab", "y", {"a": (1, 10), "b": (1, 10), "y": (0, 1)})

ROWS = (
    statistic(
        "scaled by the data",
        "After centering by the mean and scaling by the largest deviation, |x'y| is given sensitivity 1.",
        "DP-SIS, Algorithm 1",
        schema=box(2, AR),
        false=(scaled_by_the_data, {"linf": 1}),
        true=(product_in_the_box, {"linf": 1, "range": 2}),
    ),
    statistic(
        "replacing counts twice",
        "The sensitivity 1 of |x'y| in a public box is used for replacing a record, too.",
        "DP-SIS, section 3",
        schema=box(2, RO),
        false=(product_in_the_box, {"linf": 1}),
        true=(product_in_the_box, {"linf": 2, "range": 4}),
    ),
    statistic(
        "centered by private means",
        "The box is public, the means are not, and the sensitivity is still said to be 1.",
        "DP-SIS, Algorithm 1",
        schema=box(2, AR),
        false=(product_centered_by_the_data, {"linf": 1}),
        true=(product_centered_by_the_data, {"linf": 4, "range": 8}),
    ),
    statistic(
        "overflowing class",
        "The noise of a class is U^(1/m) with m beyond the largest float: infinite, whatever the scores.",
        "DP-SIS, Appendix A (Taylor series for large m)",
        schema=box(2, AR),
        false=(class_keys(power_of_uniform), {"linf": 0.5}),
        true=(class_keys(in_log_space), {"linf": 0.5}),
    ),
    statistic(
        "leaf under replacement",
        "The cost 1/v1 + g^2/v2 of one leaf is used where a record moves from one leaf to another.",
        "S-GBDT, Corollaries 22 and 24",
        schema=box(1, RO),
        false=(leaf_sums, {"l2": np.sqrt(2)}),
        true=(leaf_sums, {"l2": 2}),
    ),
    statistic(
        "gain under replacement",
        "The gain of a leaf is said to change by at most 3 g^2.",
        "S-GBDT, Lemma 26; true for adding a record",
        schema=box(1, RO),
        false=(leaf_gain, {"linf": 3}),
        true=(leaf_gain, {"linf": 4}),
    ),
    statistic(
        "Gram matrix under replacement",
        "The Frobenius norm of X'X with rows in the unit ball is said to change by at most 1.",
        "Boosted AdaSSP, used with equal numbers of records",
        schema=box(2, RO),
        false=(gram, {"l2": 1}),
        true=(gram, {"l2": np.sqrt(2)}),
    ),
    statistic(
        "product of sensitivities",
        "A product is bounded by the product of the sensitivities of its factors; a factor sqrt(n) is lost.",
        "ADP-Screen and RNM-Screen, Theorem 1",
        schema=box(2, AR),
        false=(screening_score, {"linf": 8}),
        true=(screening_score, {"linf": 4 + 4 * np.sqrt(41)}),
    ),
    statistic(
        "radius left out",
        "The gradient's sensitivity is taken for radius 1 and used for radius 5.",
        "DP Frank-Wolfe, published code",
        schema=box(2, AR),
        false=(vertex_scores, {"linf": 2}),
        true=(vertex_scores, {"linf": 6, "range": 12}),
    ),
    statistic(
        "residuals over their largest",
        "Targets are divided by the largest of the data, and a gradient is said to move by one clipped row.",
        "published code of iterative Hessian mixing",
        schema=box(2, AR),
        false=(residuals_over_their_largest, {"l2": 1}),
        true=(clipped_residuals, {"l2": 1}),
    ),
    statistic(
        "tau-b",
        "n/2 times Kendall's tau is said to have sensitivity 3/2; the code divides by the untied pairs.",
        "private_kendall (scipy.stats.kendalltau)",
        schema=box(1, AR),
        false=(tau_b, {"linf": 1.5}),
        true=(tau_a, {"linf": 1.5}),
    ),
    statistic(
        "tau under replacement",
        "The sensitivity 3/2 for adding a record is used for replacing one.",
        "DPKendall, used with a public number of records",
        schema=box(1, RO),
        false=(tau_a, {"linf": 1.5}),
        true=(tau_a, {"linf": 2}),
    ),
    statistic(
        "rho of tied ranks",
        "n/2 times Spearman's rho is given a fixed sensitivity; it divides by deviations of tied ranks.",
        "DPKendall, section 6.2 (Pearson correlation of ranks)",
        schema=box(1, AR),
        false=(rho, {"linf": 2.5}),
        true=(rho_without_ties, {"linf": 2.5}),
        samples=300,
    ),
    statistic(
        "equal batches",
        "Records are cut into batches of floor(n/m), the rest dropped: one record is to change one vote.",
        "SubLasso (Lemma 4.1), private_kendall",
        schema=box(3, AR),
        false=(votes(equal_batches), {"linf": 1, "range": 2}),
        true=(votes(batch_of_its_own), {"linf": 1, "range": 2}),
    ),
    statistic(
        "every model moves",
        "A record is to swap one model; batches of floor(n / m) move with the true n, and all models too.",
        "Tukey regression in private_kendall",
        schema=box(1, AR),
        false=(models(equal_batches), {"l1": 2}),
        true=(models(batch_of_its_own), {"l1": 2}),
        samples=300,
    ),
    statistic(
        "search ends one too far",
        "The binary search returns the distance plus 1 where there is one, and -1 where there is none.",
        "Tukey mechanism, published code",
        schema=box(1, AR),
        false=(distance_one_further, {"linf": 1}),
        true=(distance_to_unsafe, {"linf": 1}),
        samples=1000,
    ),
    statistic(
        "half the Hessian",
        "The Hessian's noise is halved although its sensitivity is 1/4, as for the gradient's clip.",
        "S-BDT code, Newton mode",
        schema=box(1, AR),
        false=(hessian, {"linf": 0.125}),
        true=(hessian, {"linf": 0.25}),
    ),
    statistic(
        "lower bound twice",
        "The diagonal of X'X is scaled by lower * lower instead of upper * upper.",
        "diffprivlib #105",
        schema=FAR,
        false=(diagonal, {"linf": 1}),
        true=(diagonal, {"linf": 100}),
    ),
    statistic(
        "range for the largest value",
        "A leaf's sum of labels between 9 and 10 is said to change by their range where a record leaves it.",
        "interpret #523",
        schema=Schema.numeric("a", "y", {"a": (-1, 1), "y": (9, 10)}, neighboring=RO),
        false=(sum_in_leaf, {"linf": 1}),
        true=(sum_in_leaf, {"linf": 10}),
    ),
    statistic(
        "clip norm is an option, sensitivity is not",
        "Rows are clipped to the norm that is asked for, here 2; the noise is for norm 1.",
        "Boosted AdaSSP in private_kendall",
        schema=box(2, AR),
        false=(gram_of_norm_two, {"l2": 1}),
        true=(gram_of_norm_two, {"l2": 4}),
    ),
    statistic(
        "clipped block by block",
        "Each block of parameters is clipped to norm 1, not the whole gradient; the noise is for norm 1.",
        "fedbiomed #1443",
        schema=box(2, AR),
        false=(sum_of_clipped_blocks, {"l2": 1}),
        true=(sum_of_clipped_blocks, {"l2": 2}),
    ),
    statistic(
        "outputs accounted one by one",
        "Two outputs that depend on one record are released together, and accounted as the larger one alone.",
        "google/differential-privacy #428",
        schema=box(1, AR),
        false=(two_coupled_sums, {"l2": 1}),
        true=(two_coupled_sums, {"l2": np.sqrt(5) / 2}),
    ),
    statistic(
        "difference of two errors",
        "Two L1 errors change by 2 each where a record is replaced; so is their difference said to do.",
        "mbi #66 (JAM)",
        schema=box(1, RO),
        false=(error_saved_by_measuring, {"linf": 2}),
        true=(error_saved_by_measuring, {"linf": 4}),
    ),
)
