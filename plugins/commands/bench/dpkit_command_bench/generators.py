"""Synthetic tables whose relevant features are known.

The tables of DP-SIS (Swope, Khanna, Doldo, Roy and Raff 2024). Features and noise are normal and independent;
``N(0, v)`` in the paper is read as variance v, as its ``N(0, 1.5 I)`` requires.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import attrs
import numpy as np

if TYPE_CHECKING:
    from dpkit_core import Matrix, Vector


@attrs.frozen(eq=False)
class Synthetic:
    """A table and the weights that generated it.

    Attributes
    ----------
    X, y
        The table.
    weights
        One per feature, without those of the outliers.
    """

    X: Matrix
    y: Vector
    weights: Vector

    @property
    def relevant(self) -> tuple[int, ...]:
        """The features with nonzero weights."""
        return tuple(np.flatnonzero(self.weights).tolist())


def five_ones(
    rng: np.random.Generator,
    *,
    rows: int = 100,
    features: int = 100,
    variance: float = 0.1,
    outliers: bool = False,
) -> Synthetic:
    """Return the table of DP-SIS, section 3: weight 1 for the first five features.

    ``variance`` is that of the noise. With ``outliers``, every tenth record has the weights of the last five
    features instead, so that each block of ten records has one: experiment W1/W2, and W1 without them.

    >>> table = five_ones(np.random.default_rng(0), outliers=True)
    >>> table.X.shape, table.relevant
    ((100, 100), (0, 1, 2, 3, 4))
    """
    X = rng.standard_normal((rows, features))
    weights = np.zeros(features)
    weights[:5] = 1.0
    of_record = np.tile(weights, (rows, 1))
    if outliers:
        of_record[9::10] = weights[::-1]
    y = (X * of_record).sum(axis=1) + math.sqrt(variance) * rng.standard_normal(rows)
    return Synthetic(X, y, weights)


def fan_lv(
    rng: np.random.Generator,
    *,
    rows: int = 100,
    features: int = 2000,
    relevant: int = 8,
    variance: float = 1.5,
) -> Synthetic:
    """Make the table of DP-SIS, section 5, after Fan and Lv 2008: a few random large weights.

    Each relevant weight is ``(-1)^u (4 log(rows) / sqrt(rows) + |z|)`` with u 1 with probability 0.4 and z
    standard normal (their section 3.3.1).

    >>> table = fan_lv(np.random.default_rng(0))
    >>> table.X.shape, len(table.relevant), bool(abs(table.weights[list(table.relevant)]).min() > 1.8)
    ((100, 2000), 8, True)
    """
    X = rng.standard_normal((rows, features))
    weights = np.zeros(features)
    support = rng.choice(features, relevant, replace=False)
    signs = np.where(rng.random(relevant) < 0.4, -1.0, 1.0)
    floor = 4 * math.log(rows) / math.sqrt(rows)
    weights[support] = signs * (floor + np.abs(rng.standard_normal(relevant)))
    y = X @ weights + math.sqrt(variance) * rng.standard_normal(rows)
    return Synthetic(X, y, weights)
