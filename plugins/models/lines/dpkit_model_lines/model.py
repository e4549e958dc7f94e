"""Lines between clips, as released models: of rows clipped in length, and of features clipped to fences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs

from dpkit_core.errors import InvalidRelease
from dpkit_core.files.documents import as_document
from dpkit_core.release.models import INTERCEPT, along_rows, digits, interval, model_matrix
from dpkit_core.text import Shown, number_of
from dpkit_core.validators import frozen_floats, frozen_tuple
from dpkit_model_lines.moments import NoisyMoments, check_numbers, check_positive

if TYPE_CHECKING:
    from dpkit_core.arrays import Matrix, Vector
    from dpkit_model_lines.intervals import Intervals


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
        check_numbers(*self.centers, *self.widths, *self.coefficients, *numbers)
        check_positive(*self.widths, self.norm)

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
        check_numbers(
            *self.centers, *self.widths, *self.coefficients, self.radius, self.intercept, *self.bounds
        )
        check_positive(*self.widths, self.radius)
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

    def intervals(
        self, target: str, level: float = 0.95, categories: Sequence[Sequence[str]] = ()
    ) -> Intervals:
        """Return the intervals of its coefficients; ``dpkit_model_lines.intervals`` says what is estimated.

        Parameters
        ----------
        target
            What it predicts.
        level
            Fraction of intervals that should contain the true value, above 0 and below 1.
        categories
            The features of each column of which a record has one: their coefficients are to add up to 0,
            unless many records are seen to have none.

        Raises
        ------
        InvalidRelease
            If it does not keep its noisy moments.
        """
        from dpkit_model_lines.intervals import intervals_of  # noqa: PLC0415 - likewise

        if self.moments is None:
            raise InvalidRelease(
                "there are no intervals for this release: its model does not keep the noisy numbers that it "
                f"was computed from, as models of winsorized_least_squares with up to "
                f"{NoisyMoments.MOST_FEATURES} features do"
            )
        return intervals_of(
            self.moments,
            self.features,
            self.centers,
            self.widths,
            target=target,
            level=level,
            categories=categories,
        )

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
        nothing = (
            "Every coefficient is 0, as nothing that predicts the target could be told from noise: the "
            "prediction is the same for all records."
        )
        sentences = (sentence,) if any(self.slopes) else (nothing, sentence)
        header = ("feature", "coefficient", "clipped from", "to")
        return Shown(header, (*rows, (INTERCEPT, digits(self.level), "", "")), sentences)

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


def _check_columns(features: tuple[str, ...], *columns: tuple[float, ...]) -> None:
    if any(len(column) != len(features) for column in columns):
        counts = ", ".join(str(len(column)) for column in columns)
        raise ValueError(
            f"{number_of(len(features), 'feature')} but {counts} centers, widths and coefficients; give "
            "one for each"
        )


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
