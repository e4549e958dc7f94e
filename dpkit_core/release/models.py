"""The released model of a line, and what models of all kinds share."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import attrs

from dpkit_core.data.features import Feature
from dpkit_core.errors import InvalidRelease
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


class IntervalsOfALine(Protocol):
    """Intervals of a line's coefficients, as the distribution of its model makes and prints them."""

    @property
    def names(self) -> tuple[str, ...]:
        """The features, and ``(intercept)`` at the end."""
        ...

    @property
    def bounds(self) -> Matrix:
        """Lower and upper end for each name (p x 2); infinite where the noise leaves nothing to tell."""
        ...

    @property
    def rows(self) -> tuple[tuple[str, ...], ...]:
        """One row of text for each name."""
        ...

    @property
    def centered(self) -> tuple[tuple[str, ...], ...]:
        """The features of each column of categories whose coefficients, but empty ones', add up to 0."""
        ...

    @property
    def empty(self) -> tuple[str, ...]:
        """The features of these columns of which no records can be told from noise."""
        ...

    @property
    def sentences(self) -> tuple[str, ...]:
        """What is estimated, and what the intervals rest on."""
        ...


def interval(values: Iterable[float]) -> tuple[float, float]:
    """Return two numbers as a model keeps them."""
    lower, upper = values
    return float(lower), float(upper)


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
