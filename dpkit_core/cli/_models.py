"""Released models as tables and sentences, for people: coefficients in the units of the data."""

from __future__ import annotations

import attrs

from dpkit_core.models import LinearModel, RowClippedLinearModel, WinsorizedLinearModel
from dpkit_core.protocols import Model

INTERCEPT = "(intercept)"


@attrs.frozen
class Shown:
    """A table of text, all columns but the first aligned on the right, and sentences below it."""

    header: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    sentences: tuple[str, ...] = ()


def shown(model: Model) -> Shown:
    """Return what a person reads of a model.

    >>> shown(LinearModel(("carat",), (7000.0,), -2000.0)).rows
    (('carat', '7000'), ('(intercept)', '-2000'))
    """
    match model:
        case LinearModel():
            rows = [*zip(model.features, map(_number, model.coefficients), strict=True)]
            return Shown(("feature", "coefficient"), (*rows, (INTERCEPT, _number(model.intercept))))
        case WinsorizedLinearModel():
            return _winsorized(model)
        case RowClippedLinearModel():
            return _row_clipped(model)
        case _:
            return Shown(sentences=(f"{model.to_document()['kind']}; see the release file",))


def _winsorized(model: WinsorizedLinearModel) -> Shown:
    columns = zip(model.features, model.slopes, model.centers, model.widths, strict=True)
    rows = [
        (name, *map(_number, (slope, center - width, center + width)))
        for name, slope, center, width in columns
    ]
    low, high = map(_number, model.bounds)
    return Shown(
        ("feature", "coefficient", "clipped from", "to"),
        (*rows, (INTERCEPT, _number(model.level), "", "")),
        (
            "Features are clipped first. Where the clips are -1 and 1, records that are longer than "
            f"{model.radius:.4g} are shrunk to that length. Predictions are kept from {low} to {high}.",
        ),
    )


def _row_clipped(model: RowClippedLinearModel) -> Shown:
    columns = zip(model.features, model.slopes, model.centers, model.widths, strict=True)
    rows = [(name, *map(_number, numbers)) for name, *numbers in columns]
    return Shown(
        ("feature", "coefficient", "center", "width"),
        (*rows, (INTERCEPT, _number(model.level), "", "")),
        (
            "This line is for short records. With z = (feature - center) / width, where the length L of "
            f"(z, 1) is above {model.norm:.4g}, the prediction is {_number(model.offset)} plus "
            f"{model.norm:.4g} / L times what the line has beyond that.",
        ),
    )


def _number(value: float) -> str:
    return f"{value:.6g}"
