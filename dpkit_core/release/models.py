"""Released models that several regressors share: linear ones, on different scales and between clips."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import attrs

from dpkit_core.data.features import Feature
from dpkit_core.errors import InvalidRelease
from dpkit_core.files.documents import as_document
from dpkit_core.text import Shown, number_of
from dpkit_core.validators import frozen_floats, frozen_tuple

if TYPE_CHECKING:
    from dpkit_core.arrays import Matrix, Vector


#: Name of the intercept among coefficients.
INTERCEPT = "(intercept)"


def digits(number: float) -> str:
    """Return a number of a model as a person reads it.

    >>> digits(0.123456789)
    '0.123457'
    """
    return f"{number:.6g}"


@attrs.frozen
class LinearModel:
    """``y = intercept + X @ coefficients``, the coefficients in the order of ``features``.

    >>> import numpy as np
    >>> LinearModel(("carat",), (7000.0,), -2000.0).predict(np.array([[1.0], [0.5]])).tolist()
    [5000.0, 1500.0]
    """

    features: tuple[str, ...] = attrs.field(converter=frozen_tuple)
    coefficients: tuple[float, ...] = attrs.field(converter=frozen_floats)
    intercept: float = attrs.field(default=0.0, converter=float)

    def __attrs_post_init__(self) -> None:
        if len(self.features) != len(self.coefficients):
            raise ValueError(
                f"{number_of(len(self.features), 'feature')} but {len(self.coefficients)} coefficients; "
                "give one for each"
            )
        if not all(map(math.isfinite, (*self.coefficients, self.intercept))):
            raise ValueError("a coefficient is not finite")

    @property
    def slopes(self) -> tuple[float, ...]:
        """The coefficients per unit of each feature."""
        return self.coefficients

    @property
    def level(self) -> float:
        """The intercept: the line's value where every feature is 0."""
        return self.intercept

    def predict(self, X: Matrix, /) -> Vector:
        """Return one prediction per row of ``X``: a matrix (n x number of features) or a table with names."""
        X = model_matrix(X, self.features)
        return along_rows(X, self.coefficients) + self.intercept

    def shown(self) -> Shown:
        """Return the coefficients."""
        rows = zip(self.features, map(digits, self.coefficients), strict=True)
        return Shown(("feature", "coefficient"), (*rows, (INTERCEPT, digits(self.intercept))))

    def to_document(self) -> dict[str, Any]:
        """Return the model as plain data."""
        return {
            "kind": "linear",
            "intercept": self.intercept,
            "coefficients": dict(zip(self.features, self.coefficients, strict=True)),
        }

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> LinearModel:
        """Return the model that ``to_document`` wrote."""
        try:
            coefficients = document["coefficients"]
            return cls(tuple(coefficients), tuple(coefficients.values()), document["intercept"])
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InvalidRelease(f"cannot read the linear model: {error!r}") from error


def interval(values: Iterable[float]) -> tuple[float, float]:
    """Return two numbers as a model keeps them."""
    lower, upper = values
    return float(lower), float(upper)


@attrs.frozen
class RowClippedLinearModel:
    """A linear model of rows that are clipped in length, for methods that learn from clipped rows.

    With z the features scaled by ``(x - center) / width``, the row (z, 1) is shrunk to the length ``norm``
    where it is longer, and the prediction is ``offset`` plus its product with (coefficients, intercept). A
    model that was fitted to clipped rows means little for others.

    >>> import numpy as np
    >>> model = RowClippedLinearModel(("carat",), (1.0,), (2.0,), 1.0, (3.0,), 0.0, 100.0)
    >>> model.predict(np.array([[1.0], [1e300]])).tolist()
    [100.0, 103.0]
    """

    features: tuple[str, ...] = attrs.field(converter=frozen_tuple)
    centers: tuple[float, ...] = attrs.field(converter=frozen_floats)
    widths: tuple[float, ...] = attrs.field(converter=frozen_floats)
    norm: float = attrs.field(converter=float)
    coefficients: tuple[float, ...] = attrs.field(converter=frozen_floats)
    intercept: float = attrs.field(converter=float)
    offset: float = attrs.field(default=0.0, converter=float)

    def __attrs_post_init__(self) -> None:
        _check_columns(self.features, self.centers, self.widths, self.coefficients)
        numbers = (self.norm, self.intercept, self.offset)
        _check_numbers(*self.centers, *self.widths, *self.coefficients, *numbers)
        _check_positive(*self.widths, self.norm)

    @property
    def slopes(self) -> tuple[float, ...]:
        """The coefficients per unit of each feature, where nothing is clipped."""
        return _slopes(self)

    @property
    def level(self) -> float:
        """The intercept that belongs to ``slopes``: the line's value where every feature is 0."""
        return self.offset + self.intercept - _sum_at_centers(self)

    def predict(self, X: Matrix, /) -> Vector:
        """Return one prediction per row of ``X``: a matrix (n x number of features) or a table with names."""
        import numpy as np  # noqa: PLC0415 - a model is read and shown without it

        from dpkit_core.mechanisms.moments import clip_rows  # noqa: PLC0415 - likewise

        X = model_matrix(X, self.features)
        with np.errstate(over="ignore"):
            z = np.column_stack([(X - list(self.centers)) / list(self.widths), np.ones(len(X))])
        return along_rows(clip_rows(z, self.norm), [*self.coefficients, self.intercept]) + self.offset

    def shown(self) -> Shown:
        """Return the line for short records, and how long ones are shrunk."""
        columns = zip(self.features, self.slopes, self.centers, self.widths, strict=True)
        rows = ((name, *map(digits, numbers)) for name, *numbers in columns)
        sentence = (
            "This line is for short records. With z = (feature - center) / width, where the length L of "
            f"(z, 1) is above {self.norm:.4g}, the prediction is {digits(self.offset)} plus "
            f"{self.norm:.4g} / L times what the line has beyond that."
        )
        header = ("feature", "coefficient", "center", "width")
        return Shown(header, (*rows, (INTERCEPT, digits(self.level), "", "")), (sentence,))

    def to_document(self) -> dict[str, Any]:
        """Return the model as plain data."""
        return {
            "kind": "row-clipped linear",
            "intercept": self.intercept,
            "offset": self.offset,
            "norm": self.norm,
            "features": _columns_document(self),
        }

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> RowClippedLinearModel:
        """Return the model that ``to_document`` wrote."""
        try:
            return cls(
                **_columns_of(document),
                norm=document["norm"],
                intercept=document["intercept"],
                offset=document["offset"],
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InvalidRelease(f"cannot read the row-clipped linear model: {error!r}") from error


@attrs.frozen
class NoisyMoments:
    """The noisy second moments that a line was computed from, as they were released.

    The sum over records of v v^T with v = (1, u, t), under symmetric Gaussian noise; u are the model's
    clipped features, scaled once more, and t is the clipped target.

    Attributes
    ----------
    triangle
        The upper triangle, row by row.
    deviation
        Of the noise on the diagonal; off it 1 / sqrt(2) of that.
    feature_scale
        u is this times the clipped features in [-1, 1].
    label_center, label_scale
        The target is ``label_center + label_scale * t``.
    spread, spread_deviation
        The upper triangle of the noisy sum of (r (1, u)) (r (1, u))^T, r the residual of t, clipped; and the
        deviation of its noise, as of the other. None where it was not released.
    """

    #: With more, the triangle would be most of the release.
    MOST_FEATURES: ClassVar[int] = 50

    triangle: tuple[float, ...] = attrs.field(converter=frozen_floats)
    deviation: float = attrs.field(converter=float)
    feature_scale: float = attrs.field(converter=float)
    label_center: float = attrs.field(converter=float)
    label_scale: float = attrs.field(converter=float)
    spread: tuple[float, ...] | None = attrs.field(
        default=None, converter=attrs.converters.optional(frozen_floats)
    )
    spread_deviation: float | None = attrs.field(default=None, converter=attrs.converters.optional(float))

    def __attrs_post_init__(self) -> None:
        _check_numbers(*(self.spread or ()), self.spread_deviation or 0.0)
        if (self.spread is None) != (self.spread_deviation is None):
            raise ValueError("a spread has a deviation of its noise, and no other has one")
        if self.spread is not None and self.spread_deviation is not None:
            _check_positive(self.spread_deviation)
            if self.size * (self.size - 1) // 2 != len(self.spread):
                raise ValueError(f"{len(self.spread)} numbers are no triangle of the spread")
        _check_numbers(
            *self.triangle, self.deviation, self.feature_scale, self.label_center, self.label_scale
        )
        _check_positive(self.deviation, self.feature_scale, self.label_scale)
        if self.size * (self.size + 1) // 2 != len(self.triangle):
            raise ValueError(f"{len(self.triangle)} numbers are no triangle")

    @property
    def size(self) -> int:
        """How many entries v has."""
        return (math.isqrt(8 * len(self.triangle) + 1) - 1) // 2

    def matrix(self) -> list[list[float]]:
        """Return the whole matrix, symmetric."""
        return _symmetric(self.triangle, self.size)

    def spread_matrix(self) -> list[list[float]] | None:
        """Return the whole matrix of the spread; None where there is none."""
        return None if self.spread is None else _symmetric(self.spread, self.size - 1)


def _symmetric(triangle: Iterable[float], size: int) -> list[list[float]]:
    rows, numbers = [[0.0] * size for _ in range(size)], iter(triangle)
    for i in range(size):
        for j in range(i, size):
            rows[i][j] = rows[j][i] = next(numbers)
    return rows


@attrs.frozen
class WinsorizedLinearModel:
    """A linear model of features clipped to fences and to a radius; its predictions are bounded.

    With z the features scaled to [-1, 1] between their fences ``center +- width``, and shrunk to the length
    ``radius`` where they are longer, the prediction is ``intercept + z @ coefficients``, clipped to
    ``bounds``. No input, however far out, takes a prediction further out.

    ``moments`` are what it was computed from, where they were released, too: they give its standard errors.

    >>> import numpy as np
    >>> model = WinsorizedLinearModel(("carat",), (1.0,), (2.0,), 1.0, (500.0,), 700.0, (0.0, 1000.0))
    >>> model.predict(np.array([[2.0], [1e300], [-1e300]])).tolist()
    [950.0, 1000.0, 200.0]
    """

    features: tuple[str, ...] = attrs.field(converter=frozen_tuple)
    centers: tuple[float, ...] = attrs.field(converter=frozen_floats)
    widths: tuple[float, ...] = attrs.field(converter=frozen_floats)
    radius: float = attrs.field(converter=float)
    coefficients: tuple[float, ...] = attrs.field(converter=frozen_floats)
    intercept: float = attrs.field(converter=float)
    bounds: tuple[float, float] = attrs.field(converter=interval)
    moments: NoisyMoments | None = None

    def __attrs_post_init__(self) -> None:
        if self.moments is not None and self.moments.size != len(self.features) + 2:
            raise ValueError(
                f"moments of {number_of(self.moments.size, 'column')} for "
                f"{number_of(len(self.features), 'feature')}"
            )
        _check_columns(self.features, self.centers, self.widths, self.coefficients)
        _check_numbers(
            *self.centers, *self.widths, *self.coefficients, self.radius, self.intercept, *self.bounds
        )
        _check_positive(*self.widths, self.radius)
        if not self.bounds[0] <= self.bounds[1]:
            raise ValueError(f"bounds are {self.bounds}; the lower one comes first")

    @property
    def slopes(self) -> tuple[float, ...]:
        """The coefficients per unit of each feature, where nothing is clipped."""
        return _slopes(self)

    @property
    def level(self) -> float:
        """The intercept that belongs to ``slopes``: the line's value where every feature is 0."""
        return self.intercept - _sum_at_centers(self)

    def predict(self, X: Matrix, /) -> Vector:
        """Return one prediction per row of ``X``: a matrix (n x number of features) or a table with names."""
        import numpy as np  # noqa: PLC0415 - a model is read and shown without it

        from dpkit_core.mechanisms.moments import sums_of_rows  # noqa: PLC0415 - likewise

        X = model_matrix(X, self.features)
        with np.errstate(over="ignore", divide="ignore"):
            z = np.clip((X - list(self.centers)) / list(self.widths), -1.0, 1.0)
            shrink = np.minimum(1.0, self.radius / np.sqrt(sums_of_rows(np.square(z))))
        prediction: Vector = np.clip(self.intercept + shrink * along_rows(z, self.coefficients), *self.bounds)
        return prediction

    def shown(self) -> Shown:
        """Return the line between the clips."""
        columns = zip(self.features, self.slopes, self.centers, self.widths, strict=True)
        rows = (
            (name, *map(digits, (slope, center - width, center + width)))
            for name, slope, center, width in columns
        )
        low, high = map(digits, self.bounds)
        sentence = (
            "Features are clipped first. On a scale on which the clips are -1 and 1, records longer than "
            f"{self.radius:.4g} are shrunk to that length. Predictions are kept from {low} to {high}."
        )
        header = ("feature", "coefficient", "clipped from", "to")
        return Shown(header, (*rows, (INTERCEPT, digits(self.level), "", "")), (sentence,))

    def to_document(self) -> dict[str, Any]:
        """Return the model as plain data."""
        return {
            "kind": "winsorized linear",
            "intercept": self.intercept,
            "radius": self.radius,
            "bounds": list(self.bounds),
            "features": _columns_document(self),
            **({} if self.moments is None else {"moments": as_document(self.moments)}),
        }

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> WinsorizedLinearModel:
        """Return the model that ``to_document`` wrote."""
        try:
            return cls(
                **_columns_of(document),
                radius=document["radius"],
                intercept=document["intercept"],
                bounds=document["bounds"],
                moments=None if (moments := document.get("moments")) is None else NoisyMoments(**moments),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InvalidRelease(f"cannot read the winsorized linear model: {error!r}") from error


def along_rows(rows: Matrix, coefficients: Sequence[float]) -> Vector:
    """Return the product of each row with the coefficients, which depends on that row alone.

    A product of matrices adds up in an order that depends on how many rows there are: two tables that differ
    by a record would have predictions that differ, in the last bit, for the others.
    """
    from dpkit_core.mechanisms.moments import sums_of_rows  # noqa: PLC0415 - a model is read without numpy

    return sums_of_rows(rows * list(coefficients))


def model_matrix(X: Any, names: tuple[str, ...]) -> Matrix:
    """Return the columns that a model uses: by name from a table, in order from a matrix."""
    from dpkit_core.data.rules import matrix_of  # noqa: PLC0415 - a model is read and shown without numpy

    return matrix_of(X, [Feature(name, name) for name in names])


def _check_columns(features: tuple[str, ...], *columns: tuple[float, ...]) -> None:
    if any(len(column) != len(features) for column in columns):
        counts = ", ".join(str(len(column)) for column in columns)
        raise ValueError(
            f"{number_of(len(features), 'feature')} but {counts} centers, widths and coefficients; give "
            "one for each"
        )


def _check_numbers(*numbers: float) -> None:
    if not all(map(math.isfinite, numbers)):
        raise ValueError("a number of the model is not finite")


def _check_positive(*numbers: float) -> None:
    if not all(number > 0 for number in numbers):
        raise ValueError("a width or a length of the model is not above 0")


def _slopes(model: RowClippedLinearModel | WinsorizedLinearModel) -> tuple[float, ...]:
    return tuple(c / width for c, width in zip(model.coefficients, model.widths, strict=True))


def _sum_at_centers(model: RowClippedLinearModel | WinsorizedLinearModel) -> float:
    return sum(slope * center for slope, center in zip(_slopes(model), model.centers, strict=True))


def _columns_document(model: RowClippedLinearModel | WinsorizedLinearModel) -> dict[str, dict[str, float]]:
    columns = zip(model.features, model.centers, model.widths, model.coefficients, strict=True)
    return {
        name: {"center": center, "width": width, "coefficient": coefficient}
        for name, center, width, coefficient in columns
    }


def _columns_of(document: Mapping[str, Any]) -> dict[str, Any]:
    features = document["features"]
    return {
        "features": tuple(features),
        "centers": [feature["center"] for feature in features.values()],
        "widths": [feature["width"] for feature in features.values()],
        "coefficients": [feature["coefficient"] for feature in features.values()],
    }
