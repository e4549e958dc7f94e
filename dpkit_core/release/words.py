"""What a person reads of a release: sections, and coefficients of models in the units of the data."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import attrs

from dpkit_core import markup
from dpkit_core.release.models import LinearModel, RowClippedLinearModel, WinsorizedLinearModel
from dpkit_core.text import columns, indented

if TYPE_CHECKING:
    from dpkit_core.protocols import Model

INTERCEPT = "(intercept)"


@attrs.frozen
class Shown:
    """A table of text, all columns but the first aligned on the right, and sentences below it."""

    header: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    sentences: tuple[str, ...] = ()


@attrs.frozen
class Section:
    """A heading, and below it a table, sentences, or both."""

    heading: str
    table: Shown


def sections_in_words(sections: Iterable[Section]) -> str:
    """Return sections as the text that ``print`` shows."""
    texts = []
    for section in sections:
        table = section.table
        rows = columns(table.header, table.rows) if table.header else []
        texts.append("\n".join([section.heading, *rows, *indented(table.sentences)]))
    return "\n\n".join(texts)


def sections_as_html(sections: Iterable[Section]) -> str:
    """Return sections as what a notebook shows."""
    parts = []
    for section in sections:
        table = section.table
        parts.append(markup.heading(section.heading))
        parts += [markup.table(table.header, table.rows)] if table.header else []
        parts += [markup.sentences(table.sentences)] if table.sentences else []
    return "".join(parts)


def shown(model: Model) -> Shown:
    """Return what a person reads of a model: of other than linear ones, what their ``in_words`` returns.

    >>> shown(LinearModel(("carat",), (7000.0,), -2000.0)).rows
    (('carat', '7000'), ('(intercept)', '-2000'))
    """
    match model:
        case LinearModel():
            rows = [*zip(model.features, map(shown_number, model.coefficients), strict=True)]
            return Shown(("feature", "coefficient"), (*rows, (INTERCEPT, shown_number(model.intercept))))
        case WinsorizedLinearModel():
            return _winsorized(model)
        case RowClippedLinearModel():
            return _row_clipped(model)
        case _:
            return _own_words(model) or Shown(
                sentences=(f"{model.to_document()['kind']}; see the release file",)
            )


def _winsorized(model: WinsorizedLinearModel) -> Shown:
    columns = zip(model.features, model.slopes, model.centers, model.widths, strict=True)
    rows = [
        (name, *map(shown_number, (slope, center - width, center + width)))
        for name, slope, center, width in columns
    ]
    low, high = map(shown_number, model.bounds)
    return Shown(
        ("feature", "coefficient", "clipped from", "to"),
        (*rows, (INTERCEPT, shown_number(model.level), "", "")),
        (
            "Features are clipped first. On a scale on which the clips are -1 and 1, records longer than "
            f"{model.radius:.4g} are shrunk to that length. Predictions are kept from {low} to {high}.",
        ),
    )


def _row_clipped(model: RowClippedLinearModel) -> Shown:
    columns = zip(model.features, model.slopes, model.centers, model.widths, strict=True)
    rows = [(name, *map(shown_number, numbers)) for name, *numbers in columns]
    return Shown(
        ("feature", "coefficient", "center", "width"),
        (*rows, (INTERCEPT, shown_number(model.level), "", "")),
        (
            "This line is for short records. With z = (feature - center) / width, where the length L of "
            f"(z, 1) is above {model.norm:.4g}, the prediction is {shown_number(model.offset)} plus "
            f"{model.norm:.4g} / L times what the line has beyond that.",
        ),
    )


def _own_words(model: Model) -> Shown | None:
    in_words = getattr(model, "in_words", None)
    found = in_words() if callable(in_words) else None
    return found if isinstance(found, Shown) else None


def shown_number(value: float) -> str:
    """Return a number of a model as a person reads it.

    >>> shown_number(1234567.8)
    '1.23457e+06'
    """
    return f"{value:.6g}"
