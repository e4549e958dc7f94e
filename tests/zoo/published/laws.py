"""Mechanisms small enough for their exact law, which is not what was claimed."""

import itertools

import numpy as np
from dpkit_check import box
from dpkit_check.laws import exponential_law, gumbel_law

from dpkit_core import Neighboring

from .attacks import law

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


CELLS = np.linspace(-1, 1, 9)


def depths_by_coordinate(data):
    """Return the depth of each cell, coordinate by coordinate, each record being one model."""
    models = np.clip(data.X, -1, 1)
    below, above = (
        np.array([(side(models[:, [j]], CELLS)).sum(axis=0) for j in (0, 1)])
        for side in (np.less_equal, np.greater_equal)
    )
    return np.minimum(below, above)


def box_depth(data):
    across, along = depths_by_coordinate(data)
    return np.minimum(across[:, None], along)


def point_of_box(data):
    return gumbel_law(0.5 * box_depth(data).ravel())


def first_coordinate_at_depth(least):
    """Draw a depth, then which coordinate is the first to have just this depth, then the point.

    The coordinates before it are deeper, those after it at least as deep: ``least(depths, depth)`` of them.
    """

    def draw(data):
        depths = depths_by_coordinate(data)
        weights = point_of_box(data).reshape(9, 9)
        probabilities = np.zeros((9, 9))
        for level in np.unique(box_depth(data)):
            at, deeper, no_less = depths == level, depths > level, depths >= level
            # Coordinate 0 is the first: 1 is anything no less deep. Coordinate 1 is the first: 0 is deeper.
            volumes = np.array([at[0].sum() * least(depths[1], level), deeper[0].sum() * at[1].sum()])
            regions = (np.outer(at[0], no_less[1]), np.outer(deeper[0], at[1]))
            if volumes.sum() == 0:  # of the deepest, nothing is deeper
                volumes = np.array([1.0, 0.0])
            drawn = weights[box_depth(data) == level].sum()
            for region, share in zip(regions, volumes / volumes.sum(), strict=True):
                probabilities += drawn * share * region / max(region.sum(), 1)
        return probabilities.ravel()

    return draw


def deeper_only(depths, level):
    return (depths > level).sum()


def as_deep(depths, level):
    return (depths >= level).sum()


def sums(data):
    return np.clip(data.X, -1, 1).sum(axis=0)


def subset_by_loss(factor):
    """Draw 2 of 4 features by the canonical loss: the first score that is missing less the last that is in.

    A record moves one of them up and the other down: their difference by up to 2.
    """

    def draw(data):
        order = np.argsort(-sums(data), kind="stable")
        x = sums(data)[order]
        ranks = list(itertools.combinations(range(4), 2))
        missing = [min(set(range(4)) - set(chosen)) for chosen in ranks]
        losses = [x[min(m, 1)] - x[max(chosen)] for m, chosen in zip(missing, ranks, strict=True)]
        drawn = exponential_law(-factor / 2 * np.array(losses))
        named = {frozenset(order[list(c)].tolist()): p for c, p in zip(ranks, drawn, strict=True)}
        return np.array([named[frozenset(c)] for c in ranks])

    return draw


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


ROWS = (
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
    law(
        "volumes that leave out the depth itself",
        "The coordinate that has just the depth drawn is drawn by volumes of what is deeper, not as deep.",
        "Tukey mechanism, published code",
        schema=box(2, RO),
        false=(first_coordinate_at_depth(deeper_only), {"linf": 1}),
        true=(first_coordinate_at_depth(as_deep), {"linf": 1}),
    ),
    law(
        "loss without its half",
        "The canonical loss is drawn by without the factor 1/2 that it needs where scores move both ways.",
        "dptopk, published code",
        schema=box(4, AR),
        false=(subset_by_loss(1.0), {"linf": 1}),
        true=(subset_by_loss(0.5), {"linf": 1}),
    ),
)
