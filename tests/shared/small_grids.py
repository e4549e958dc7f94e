"""Tables of a few records with values on a small grid, before and after one record joins or is replaced.

On few levels, few records have all ranks that they can have, so a rank statistic is tried completely: a table
has every column that there is, since scores see columns one by one.
"""

import itertools

import numpy as np

from dpkit_core import Neighboring

#: Values that a cell may have.
LEVELS = 4


def score_changes(scores, worlds, selected=(), penalty="max"):
    """Return how far each score moves from one world to the other, by ``scores(X, y, selected, penalty)``."""
    (X, y), (X_, y_) = worlds
    return scores(X_, y_, selected, penalty) - scores(X, y, selected, penalty)


def worlds_where_a_record_joins(n):
    """Yield all pairs of (X, y) of n records and of these with one more; y is in order."""
    for y in itertools.combinations_with_replacement(range(LEVELS), n):
        for last in range(LEVELS):
            yield _joined(y, last)


def worlds_where_a_record_is_replaced(n):
    """Yield all pairs of (X, y) of n records of which the last one differs; y is in order but for that.

    Of two worlds one comes first: scores move from the other to it by the same numbers, with another sign.
    """
    for y in itertools.combinations_with_replacement(range(LEVELS), n - 1):
        for ends in itertools.combinations_with_replacement(range(LEVELS), 2):
            yield _replaced(y, *ends)


def random_worlds(neighboring, *, picks, seed, count):
    """Yield so many pairs of (X, y) with random targets of four records, and places of random columns."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        if neighboring is Neighboring.ADD_OR_REMOVE_ONE:
            worlds = _joined(rng.integers(0, LEVELS, 4), rng.integers(LEVELS))
        else:
            worlds = _replaced(rng.integers(0, LEVELS, 3), *rng.integers(0, LEVELS, 2))
        yield worlds, rng.integers(0, worlds[0][0].shape[1], picks)


def _joined(y, last):
    """Return (X, y) before and after a record joins: all columns, with all values of the record."""
    X = _every_column(len(y))
    return (np.tile(X, LEVELS), np.array(y)), (_with_last(X, range(LEVELS)), np.array([*y, last]))


def _replaced(y, first, last):
    """Return (X, y) before and after the last record changes: all columns, with all its changes."""
    old, new = zip(*itertools.product(range(LEVELS), repeat=2), strict=True)
    X = _every_column(len(y))
    return (_with_last(X, old), np.array([*y, first])), (_with_last(X, new), np.array([*y, last]))


def _every_column(n):
    return np.array(list(itertools.product(range(LEVELS), repeat=n)), float).T


def _with_last(columns, values):
    """Return each of the columns continued by each of the values, one after the other."""
    return np.vstack([np.tile(columns, len(values)), np.repeat(values, columns.shape[1])])
