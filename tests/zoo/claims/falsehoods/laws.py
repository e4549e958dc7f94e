"""Mechanisms small enough for their exact law, which is not what was claimed."""

import numpy as np

from dpkit_core import Neighboring
from dpkit_core.testing import box
from dpkit_core.testing.exact import exponential_law, gumbel_law

from .specimen import law

AR, RO = Neighboring
GRID = np.linspace(-1, 1, 21)


def depth(data):
    """Return the Tukey depth of each grid point among the records' y, each record being one model."""
    models = np.clip(data.y, -1, 1)
    return np.minimum((models[:, None] <= GRID).sum(axis=0), (models[:, None] >= GRID).sum(axis=0))


def by_depth(eta):
    return lambda data: gumbel_law(eta * depth(data))


def one_deeper(data):
    """Draw a depth with the right weights, then a point that is one deeper, or as deep as it gets."""
    depths = depth(data)
    weights = gumbel_law(0.5 * depths)
    probabilities = np.zeros(len(GRID))
    for level in np.unique(depths):
        deeper = depths == min(level + 1, depths.max())
        if deeper.any():
            probabilities[deeper] += weights[depths == level].sum() / deeper.sum()
    return probabilities


def counts(data):
    return np.clip(data.X, 0, 1).sum(axis=0)


def permute_and_flip(data):
    return exponential_law(counts(data))


def exponential_mechanism(data):
    return gumbel_law(counts(data))


def gains(data):
    """Return the gain of three cuts in each of two features; one record changes each by at most 1."""
    y = np.clip(data.y, -1, 1)
    return np.array([[np.abs(y[data.X[:, j] > cut].sum()) for cut in (-0.5, 0.0, 0.5)] for j in (0, 1)])


def best_cut_of_each_feature(data):
    gain = gains(data)
    probabilities = np.zeros_like(gain)
    probabilities[[0, 1], gain.argmax(axis=1)] = gumbel_law(gain.max(axis=1) / 2)
    return probabilities.ravel()


def all_cuts(data):
    return gumbel_law(gains(data).ravel() / 2)


SPECIMENS = (
    law(
        "one record, one swapped model",
        "Depth is weighted by epsilon, as if a record added a model; it replaces one: depth goes both ways.",
        "Tukey regression, section 9 of DPKendall",
        schema=box(1, RO),
        false=(by_depth(1.0), {"linf": 1}),
        true=(by_depth(0.5), {"linf": 1}),
    ),
    law(
        "one level too deep",
        "A depth is drawn and a point of the next depth returned, so some points have no probability.",
        "Tukey mechanism, published code",
        schema=box(1, RO),
        false=(one_deeper, {"linf": 1}),
        true=(by_depth(0.5), {"linf": 1}),
    ),
    law(
        "permute-and-flip as bounded range",
        "Permute-and-flip is accounted as the exponential mechanism, whose losses stay within epsilon.",
        "opendp #2911",
        schema=box(2, AR),
        false=(permute_and_flip, {"range": 1}),
        true=(exponential_mechanism, {"range": 1}),
    ),
    law(
        "best cut without noise",
        "Features are chosen privately, but each stands for its best cut, which is chosen without noise.",
        "dp-xgboost #3",
        schema=box(2, AR),
        false=(best_cut_of_each_feature, {"linf": 1}),
        true=(all_cuts, {"linf": 1}),
    ),
)
