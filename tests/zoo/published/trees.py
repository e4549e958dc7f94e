"""Boosted trees whose leaves, thresholds or clip depend on the data in a way that nothing pays for."""

from __future__ import annotations

import numpy as np
from dpkit_check import box
from dpkit_check.worlds import classified

from dpkit_core import Neighboring

from .attacks import statistic

AR, RO = Neighboring


def sums_in_leaves(data, threshold=0.0, clip=1.0):
    """Return the sums of clipped residuals left and right of a threshold, in units of the clip."""
    left = data.X[:, 0] <= threshold
    residuals = np.clip(data.y / clip, -1, 1)
    return np.array([residuals[left].sum(), residuals[~left].sum()])


def means_times_public_size(data):
    left = data.X[:, 0] <= 0
    counts = np.array([left.sum(), (~left).sum()])
    return sums_in_leaves(data) / np.maximum(counts, 1) * len(data.y) / 2


def sums_beside_the_median(data):
    return sums_in_leaves(data, threshold=float(np.median(data.X[:, 0])))


def sums_in_units_of_a_quantile(data):
    return sums_in_leaves(data, clip=max(float(np.quantile(np.abs(data.y), 0.8)), 1e-9))


def residuals_of_classes(data):
    """Return the sums of e - p over the records, with p nearly certain of the first of three classes."""
    labels = data.y[:, np.newaxis] == [1, 2, 3]
    return (labels - np.array([1 - 2e-6, 1e-6, 1e-6])).sum(axis=0)


def counts_less_expected(data):
    return np.clip(data.y, 0, 1) - np.exp(2 * np.clip(data.X[:, 0], -1, 1))


def residuals_of_counts(data):
    return counts_less_expected(data).sum(keepdims=True)


def clipped_residuals_of_counts(data):
    return np.clip(counts_less_expected(data), -1, 1).sum(keepdims=True)


ROWS = (
    statistic(
        "leaf divided by its exact count",
        "A leaf is the mean of its residuals, said to move as if each leaf held its even share of records.",
        "a habit: the leaves of CART",
        schema=box(1, RO),
        false=(means_times_public_size, {"l2": 2}),
        true=(sums_in_leaves, {"l2": 2}),
    ),
    statistic(
        "thresholds from quantiles of the data",
        "Trees split at the exact median: one record moves it, and others change leaves.",
        "a habit: histogram boosting",
        schema=box(1, RO),
        false=(sums_beside_the_median, {"l2": 2}),
        true=(sums_in_leaves, {"l2": 2}),
        samples=1000,
    ),
    statistic(
        "clip at a quantile of the data",
        "Residuals are clipped to the exact quantile of their size, and released in its units.",
        "a habit: adaptive clipping without noise",
        schema=box(1, AR),
        false=(sums_in_units_of_a_quantile, {"l2": 1}),
        true=(sums_in_leaves, {"l2": 1}),
    ),
    statistic(
        "residuals of classes counted as one",
        "Residuals of several classes, each from -1 to 1, are said to move by 1 together: it is sqrt(2).",
        "a habit: the logistic loss, once for each class",
        schema=classified(AR)["three classes, a feature without bounds"],
        false=(residuals_of_classes, {"l2": 1}),
        true=(residuals_of_classes, {"l2": 2**0.5}),
    ),
    statistic(
        "residuals of counts without a clip",
        "A count of 0 or 1 less the exponential of a score is said to move by 1, as labels less chances do.",
        "a habit: the logistic loss, with another link",
        schema=box(1, AR),
        false=(residuals_of_counts, {"l2": 1}),
        true=(clipped_residuals_of_counts, {"l2": 1}),
    ),
)
