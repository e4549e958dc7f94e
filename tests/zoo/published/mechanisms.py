"""Mechanisms whose noise does not pay for what they release."""

import numpy as np
from dpkit_check import box

from dpkit_core import Budget, Dataset, Neighboring

from .attacks import mechanism

AR, RO = Neighboring


def pair(features, records, **last):
    """Return tables of zeros that differ by one record of ones at the end."""
    schema = box(features, AR)
    X, y = np.zeros((records + 1, features)), np.zeros(records + 1)
    X[-1], y[-1] = 1, 1
    return Dataset.from_arrays(X, y, schema), Dataset.from_arrays(X[:-1], y[:-1], schema)


def noisy_distance(scale):
    return lambda data, rng: float(len(data.y) + rng.laplace(scale=scale))


def noisy_maximum(scale):
    """Report which of three sums is largest; a record moves one up and the others down."""
    return lambda data, rng: int((data.X.clip(-1, 1).sum(axis=0) + rng.laplace(scale=scale, size=3)).argmax())


def threshold_reused(data, rng):
    """Report the noisy minimum, or nothing where the noisy minimum itself is not below 0."""
    noisy = np.clip(data.X, 0, 1).sum(axis=0) + rng.laplace(scale=2, size=6)
    best = int(noisy.argmin())
    return best if noisy[best] < 0 else None


def nothing_as_candidate(data, rng):
    scores = np.append(np.clip(data.X, 0, 1).sum(axis=0), 0.0)
    best = int((scores + rng.laplace(scale=2, size=7)).argmin())
    return best if best < 6 else None


def noisy_sum(deviation):
    return lambda data, rng: float(np.clip(data.y, -1, 1).sum() + rng.normal(scale=deviation))


def filtered(charged):
    """Release 8 noisy sums; a record takes part while what it was charged stays within 2."""

    def run(data, rng):
        gradient = np.clip(data.y, -1, 1)
        spent = np.zeros(len(gradient))
        sums = np.empty(8)
        for t in range(8):
            cost = charged(gradient)
            active = spent + cost <= 2
            spent += cost * active
            sums[t] = gradient[active].sum() + rng.normal(scale=4)
        return sums

    return run


def first_of_seven():
    """Return tables that differ by a first record of nothing, before records of 1 and -1 in turn."""
    schema = box(1, AR)
    y = np.array([0.0, 1, -1, 1, -1, 1, -1])
    tables = (Dataset.from_arrays(np.zeros((n, 1)), y[-n:], schema) for n in (7, 6))
    return tuple(tables)


def subset_sums(subset):
    """Release the sums of two disjoint sets of records, each with the noise of one."""

    def run(data, rng):
        sums = np.bincount(subset(data), weights=np.clip(data.y, -1, 1), minlength=2)
        return sums + rng.normal(scale=4, size=2)

    return run


def leaf_means(deviation):
    """Release the sums of two leaves after the last record moved from one to the other."""

    def run(data, rng):
        right = data.X[:, 0] > 0
        sums = [right.sum(), data.y[right].sum(), (~right).sum(), data.y[~right].sum()]
        return np.array(sums, dtype=float) + rng.normal(scale=deviation, size=4)

    return run


def second_moment(noise):
    """Release the sum of squares, the 1 x 1 case of X'X, plus noise drawn by ``noise``."""
    return lambda data, rng: float((np.clip(data.X, -1, 1) ** 2).sum() + noise(rng))


def wishart(rng):
    """Return Wishart noise of 2 = d + 1 degrees of freedom: never negative, of density e^-w at w."""
    return (rng.normal(scale=np.sqrt(0.5), size=2) ** 2).sum()


def mean_score(scale):
    """Release the mean of 4 labels within 1, their number being public."""
    return lambda data, rng: float(np.clip(data.y, -1, 1).mean() + rng.laplace(scale=scale))


def three_stages(epsilon):
    """Release a count, the best of two features and a sum of labels, each with ``epsilon`` of its own."""

    def run(data, rng):
        count = len(data.y) + rng.laplace(scale=1 / epsilon)
        best = (np.clip(data.X, 0, 1).sum(axis=0) + rng.gumbel(scale=1 / epsilon, size=2)).argmax()
        total = np.clip(data.y, -1, 1).sum() + rng.laplace(scale=1 / epsilon)
        return np.array([count, best, total])

    return run


def rounds(deviation):
    """Release a noisy gradient in each of 9 rounds."""
    return lambda data, rng: np.clip(data.y, -1, 1).sum() + rng.normal(scale=deviation, size=9)


MOVED = tuple(Dataset.from_arrays([[-1.0]] * 3 + [[x]], [0.5] * 3 + [1.0], box(1, RO)) for x in (-1.0, 1.0))

REPLACED = tuple(Dataset.from_arrays([[0.0]] * 4, [1.0] * 3 + [y], box(1, RO)) for y in (-1.0, 1.0))

OPPOSED = tuple(
    Dataset.from_arrays([[-1.0, 1.0, 1.0]] * 2 + rows, [0.0] * (2 + len(rows)), box(3, AR))
    for rows in ([[1.0, -1.0, -1.0]], [])
)

ROWS = (
    mechanism(
        "noisy maximum, half the noise",
        "Laplace(Delta / epsilon) is added to scores that move both ways, where their range 2 Delta counts.",
        "RNM-Screen, Lemma 3; DP Frank-Wolfe",
        pair=OPPOSED,
        claimed=Budget(1.0),
        false=noisy_maximum(1.0),
        true=noisy_maximum(2.0),
        samples=20_000,
    ),
    mechanism(
        "epsilon for 1/epsilon",
        "The test's Laplace noise has scale epsilon instead of 1/epsilon.",
        "Tukey mechanism and private_kendall, published code",
        pair=pair(1, 5),
        claimed=Budget(0.5),
        false=noisy_distance(0.5),
        true=noisy_distance(2.0),
        samples=2000,
    ),
    mechanism(
        "threshold on the noisy minimum",
        "Whether the noisy minimum is below 0 is told for free, and decides whether anything is screened.",
        "RNM-Screen, Algorithm 2",
        pair=pair(6, 2),
        claimed=Budget(1.0),
        false=threshold_reused,
        true=nothing_as_candidate,
        samples=40_000,
    ),
    mechanism(
        "mu for sigma",
        "The conversion returns mu, which is used as the deviation of the noise instead of 1/mu.",
        "Boosted AdaSSP, published code",
        pair=pair(1, 5),
        claimed=Budget(1.0, 1e-6),
        false=noisy_sum(0.215),
        true=noisy_sum(1 / 0.215),
        samples=500,
    ),
    mechanism(
        "filter charges another gradient",
        "A record is charged half its gradient, and stays active for four times as many rounds.",
        "S-BDT code (cached costs)",
        pair=pair(1, 5),
        claimed=Budget(1.0),
        mu=np.sqrt(2) / 4,
        false=filtered(lambda gradient: (gradient / 2) ** 2),
        true=filtered(lambda gradient: gradient**2),
        samples=4000,
    ),
    mechanism(
        "subsets by position",
        "Trees get disjoint sets of records, paid for once, by position: one record less moves all behind.",
        "DPBoost, Algorithm 2 (sets of sizes that depend on the number of records)",
        pair=first_of_seven(),
        claimed=Budget(1.0),
        mu=1 / 4,
        false=subset_sums(lambda data: np.arange(len(data.y)) % 2),
        true=subset_sums(lambda data: (data.y > 0).astype(int)),
        samples=4000,
    ),
    mechanism(
        "leaf moves, mu",
        "A replaced record that changes its leaf costs twice the stated mu^2.",
        "S-GBDT, Corollary 22",
        pair=MOVED,
        claimed=Budget(1.0),
        mu=np.sqrt(2) / 4,
        false=leaf_means(4.0),
        true=leaf_means(4.0 * np.sqrt(2)),
        samples=20_000,
    ),
    mechanism(
        "Wishart noise",
        "Wishart noise is added to X'X. It is never negative: what lies below X'X gives the record away.",
        "diffprivlib #23",
        pair=pair(1, 5),
        claimed=Budget(1.0),
        false=second_moment(wishart),
        true=second_moment(lambda rng: rng.laplace(scale=1.0)),
        samples=2000,
    ),
    mechanism(
        "half the noise for a mean",
        "A mean of n labels within m has Laplace noise m / (n epsilon), but moves by 2m / n.",
        "S-GBDT, proof of Theorem 20, and S-BDT code",
        pair=REPLACED,
        claimed=Budget(1.0),
        false=mean_score(1 / 4),
        true=mean_score(2 / 4),
        samples=20_000,
    ),
    mechanism(
        "each stage the whole budget",
        "The count, the selection and the regression each spend the epsilon that is claimed for all three.",
        "private_kendall (experiment.py), PipelineDP #113",
        pair=pair(2, 5),
        claimed=Budget(1.0),
        false=three_stages(1.0),
        true=three_stages(1 / 3),
        samples=20_000,
    ),
    mechanism(
        "no split over the rounds",
        "The deviation that pays for one release is used in each of T rounds, without a factor sqrt(T).",
        "Boosted AdaSSP, published code",
        pair=pair(1, 5),
        claimed=Budget(1.0),
        mu=0.5,
        false=rounds(1 / 0.5),
        true=rounds(3 / 0.5),
        samples=4000,
    ),
)
