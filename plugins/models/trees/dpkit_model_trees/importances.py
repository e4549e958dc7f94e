r"""How much each column matters to a sum of trees, and how much noise alone would make of it.

*Importance* of a column of numbers: the root mean square, over the intervals between its thresholds, of its
centered main effect. Of a column of categories: that over its categories, of the jump of each indicator, with
their shares p of the records as weights if these are known, and equal ones else. Centered, since indicators
add up to 1: what all jumps have in common moves nothing.

*Noise alone.* For a column that has nothing to do with target and other columns, the effect e is noise. In a
tree of depth D whose leaves have noise of deviation t, the contrast of a split has variance 4 t^2 / 2^D, and
contrasts of different splits are independent. With A the map from contrasts to centered effects (cumulative
sums for numbers, the identity for categories), w the splits at each cut and p the weights of the cells, the
mean square of e is |B x|^2, x standard normal and B = diag(sqrt(p)) A diag(sqrt(4 t^2 w / 2^D)). So it has

    mean tr(B B^T) and variance 2 tr((B B^T)^2),

to which are added those of

- sampling: residuals, of deviation r sqrt(n) at most, have chance effects on n records. Trees follow them as
  gradient descent with splits at random cuts does: with t = rate w, rate being how far a tree moves, by 1 -
  exp(-l t) along the directions of the kernel of such splits. For numbers that are cut at quantiles, these
  are cosines with l_i = 4 / (pi i)^2, which makes r^2 sum_i (1 - exp(-l_i t))^2. The jump at a category of
  a share p has the variance r^2 / q, q = p (1 - p) <= 1/4, and l = 4 q; p may be smaller than released, so
  4 t r^2 times the largest (1 - exp(-x))^2 / x of x up to t counts. The slope of a line adds r^2;
- the slope of a line, of deviation s: s^2 times the variance of its positions.

The *threshold* is the 1 - .05 / (number of columns) quantile of the gamma distribution with these moments.
Later trees correct the noise of earlier ones, so it is rather high. Nothing here is about columns that are
related to those that matter: they tell something of the target. It is post-processing of what was released.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs

from dpkit_core.release.models import digits
from dpkit_core.validators import frozen_floats, frozen_texts

if TYPE_CHECKING:
    from dpkit_core import Vector

#: The chance that noise alone lifts a column above its threshold, over all columns.
LEVEL = 0.05

#: Where (1 - exp(-x))^2 / x is largest.
STEEPEST = 1.2564

#: Of columns listed.
LISTED = 20

#: What a table says of a column below its threshold.
NOTHING = "nothing that could be told from noise"


@attrs.frozen
class Noise:
    """The noise of a sum of trees, as whoever fitted it knows it from what was released.

    Attributes
    ----------
    columns
        For each feature its column where it is a category of one, else its own name.
    leaf
        Standard deviation of the noise in the value of a leaf; for several classes, in that of each.
    residual
        At most, of a mean of the residuals of all records, in the same units; for several classes likewise.
    rate
        How far a tree moves towards what is left: its learning rate.
    slopes
        Standard deviations of the line's coefficients; empty without a line.
    shares
        Of each feature that is 0 or 1, the share of records that have it, as released; of numbers, 1/2. Empty
        if that is not known.
    """

    columns: tuple[str, ...] = attrs.field(converter=frozen_texts)
    leaf: tuple[float, ...] = attrs.field(converter=frozen_floats)
    residual: tuple[float, ...] = attrs.field(converter=frozen_floats)
    rate: float = attrs.field(converter=float)
    slopes: tuple[float, ...] = attrs.field(default=(), converter=frozen_floats)
    shares: tuple[float, ...] = attrs.field(default=(), converter=frozen_floats)

    def __attrs_post_init__(self) -> None:
        numbers = (*self.leaf, *self.residual, self.rate, *self.slopes)
        if not all(0 <= number < math.inf for number in numbers):
            raise ValueError("a deviation of the noise of trees is no finite number of at least 0")
        if not self.leaf or len(self.leaf) != len(self.residual):
            raise ValueError("the noise of trees has deviations of leaves and of residuals, one a class")
        if len(self.slopes) not in (0, len(self.columns)):
            raise ValueError("the noise of trees has a deviation for each slope, or for none")
        if len(self.shares) not in (0, len(self.columns)) or not all(0 <= p <= 1 for p in self.shares):
            raise ValueError("the noise of trees has a share from 0 to 1 for each feature, or for none")

    def require(self, features: int, sums: int, *, line: bool) -> None:
        """Raise ``ValueError`` unless this is the noise of so many features, sums, and a line or none."""
        if (len(self.columns), len(self.leaf), bool(self.slopes)) != (features, sums, line and features > 0):
            raise ValueError("the noise of trees is of other features, classes or another line than theirs")

    def of_class(self, k: int) -> Noise:
        """Return the noise of the sum of class ``k``."""
        return attrs.evolve(self, leaf=self.leaf[k : k + 1], residual=self.residual[k : k + 1])

    def to_document(self) -> dict[str, Any]:
        """Return the noise as plain data."""
        return {
            "columns": list(self.columns),
            "leaf": list(self.leaf),
            "residual": list(self.residual),
            "rate": self.rate,
            "slopes": list(self.slopes),
            **({"shares": list(self.shares)} if self.shares else {}),
        }


@attrs.frozen
class Effect:
    """What a sum has of a feature.

    Attributes
    ----------
    values
        In each interval between thresholds, from left to right.
    splits
        How many there are at each threshold.
    position
        What the line's coefficient is multiplied with in each interval; zeros without a line.
    """

    values: Vector
    splits: Vector
    position: Vector


@attrs.frozen
class Importance:
    """How much a column moves the sum, in its units, and what noise alone would do.

    Attributes
    ----------
    value
        Root mean square of its centered main effect.
    threshold
        Noise alone stays below; None if that is not known.
    rms, shape
        Of noise alone: its root mean square, and the shape of the gamma distribution of its square.
    """

    value: float
    threshold: float | None = None
    rms: float = 0.0
    shape: float = 1.0

    @property
    def told(self) -> bool:
        """Whether it is above what noise alone would do, as far as that is known."""
        return self.threshold is None or self.value > self.threshold


def importances_of(
    names: Sequence[str], effects: Sequence[Effect], noise: Noise | None, depth: int
) -> dict[str, Importance]:
    """Return the importance of each column; without noise, of each feature."""
    import numpy as np  # noqa: PLC0415 - a model is read and shown without it

    groups: dict[str, list[int]] = {}
    for j, name in enumerate(names if noise is None else noise.columns):
        groups.setdefault(name, []).append(j)
    found = {}
    for name, members in groups.items():
        jumps = np.array([effects[j].values[-1] - effects[j].values[0] for j in members])
        values = jumps if len(members) > 1 else effects[members[0]].values
        shares = [noise.shares[j] for j in members] if noise is not None and noise.shares else []
        weights = _weights(shares, len(values), several=len(members) > 1)
        with np.errstate(all="ignore"):  # numbers of a file may be anything
            found[name] = Importance(math.sqrt(weights @ np.square(values - weights @ values)))
            if noise is not None:
                rms, shape = _alone([effects[j] for j in members], members, weights, noise, depth)
                found[name] = Importance(found[name].value, None, rms, shape)
    return found if noise is None else with_thresholds(found)


def _weights(shares: Sequence[float], cells: int, *, several: bool) -> Vector:
    """Return the weights of the categories of a column, or of the intervals of a single feature."""
    import numpy as np  # noqa: PLC0415 - a model is read and shown without it

    if shares and several and sum(shares) > 0:
        return np.array(shares) / sum(shares)
    if shares and not several and cells == 2:  # of the indicator, its absence is the first
        return np.array([1 - shares[0], shares[0]])
    return np.full(cells, 1 / cells)


def _alone(
    effects: Sequence[Effect], members: Sequence[int], weights: Vector, noise: Noise, depth: int
) -> tuple[float, float]:
    """Return root mean square and shape of noise alone in a column, as the notes of the module say."""
    import numpy as np  # noqa: PLC0415 - a model is read and shown without it

    (leaf,), (residual,) = noise.leaf, noise.residual
    slopes = [noise.slopes[j] for j in members] if noise.slopes else []
    unit = max(leaf, residual, *slopes, 2.0**-1000)  # so that squares are numbers
    leaf, residual = leaf / unit, residual / unit
    if len(effects) > 1:
        splits = np.array([effect.splits.sum() for effect in effects])
        positions = np.array([effect.position[-1] - effect.position[0] for effect in effects])
        pull = np.eye(len(effects))
        travel = np.maximum(noise.rate * splits, 2.0**-40)
        x = np.minimum(travel, STEEPEST)
        followed = 4 * weights * travel * (1 - np.exp(-x)) ** 2 / x
        places = weights * positions**2
    else:
        (effect,) = effects
        splits, cells = np.concatenate([[0.0], effect.splits]), len(effect.values)
        pull = np.tri(cells)
        kernel = 4 / (math.pi * np.arange(1, cells)) ** 2
        followed = (1 - np.exp(-kernel * noise.rate * splits.sum())) ** 2
        places = np.array([weights @ np.square(effect.position - weights @ effect.position)])
    pull = (pull - weights @ pull) * np.sqrt(splits * (4 * leaf * leaf / 2**depth))
    pull *= np.sqrt(weights)[:, np.newaxis]
    inner = pull.T @ pull
    line = [(np.array(slopes) / unit) ** 2 * places, [residual**2]] if slopes else []
    parts = np.concatenate([residual**2 * followed, *line])
    mean = float(np.trace(inner) + parts.sum())
    variance = float(2 * np.sum(inner**2) + 2 * np.sum(parts**2))
    if not math.isfinite(variance):
        return math.inf, 1.0
    return unit * math.sqrt(mean), mean * mean / variance if variance > 2.0**-900 else 1.0


def over_classes(each: Sequence[Mapping[str, Importance]]) -> dict[str, Importance]:
    """Return root mean squares over classes; their noise may be one and the same."""
    found, root = {}, math.sqrt(len(each))
    for name in each[0]:
        of = [one[name] for one in each]
        value, rms = (
            math.hypot(*numbers) / root for numbers in zip(*((o.value, o.rms) for o in of), strict=True)
        )
        # The variance of each square is rms^4 / shape, in units of the largest.
        sizes = [(one.rms / rms) ** 4 / one.shape for one in of] if 0 < rms < math.inf else [1.0]
        found[name] = Importance(value, None, rms, len(sizes) / sum(sizes))
    known = all(one.threshold is not None for one in each[0].values())
    return with_thresholds(found) if known else found


def with_thresholds(found: Mapping[str, Importance]) -> dict[str, Importance]:
    """Return importances with what noise alone stays below in all columns."""
    from scipy.special import gammaincinv  # noqa: PLC0415 - a model is read and shown without it

    def threshold(one: Importance) -> float:
        return one.rms * math.sqrt(float(gammaincinv(one.shape, 1 - LEVEL / len(found))) / one.shape)

    return {name: attrs.evolve(one, threshold=threshold(one)) for name, one in found.items()}


def listed(found: Mapping[str, Importance]) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...], str]:
    """Return header and rows of a table of importances, and a sentence about them."""
    known = any(one.threshold is not None for one in found.values())
    ranked = sorted(found.items(), key=lambda item: (not item[1].told, -item[1].value))
    rows = tuple(_row(name, one) for name, one in ranked[:LISTED])
    others = len(ranked) - len(rows)
    more = f" {others} others are not shown." if others else ""
    if not known:
        return ("feature", "importance"), rows, more.replace("others", "less important features")
    sentence = (
        f" Noise alone lifts a column above the last number in at most one table of {1 / LEVEL:.0f} or so. "
        "It tells nothing of columns that are related to others."
    )
    return ("column", "importance", "noise alone, 95 %"), rows, sentence + more


def _row(name: str, one: Importance) -> tuple[str, ...]:
    if one.threshold is None:
        return name, digits(one.value)
    return name, digits(one.value) if one.told else NOTHING, digits(one.threshold)
