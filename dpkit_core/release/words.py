"""What a person reads of a release: sections, and coefficients of models in the units of the data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import attrs

from dpkit_core import markup
from dpkit_core.release.models import LinearModel, RowClippedLinearModel, WinsorizedLinearModel
from dpkit_core.release.trees import ClassTreesModel, TreesModel
from dpkit_core.text import columns, indented, number_of

if TYPE_CHECKING:
    from dpkit_core.protocols import Model

INTERCEPT = "(intercept)"

#: So many features of a model are listed where a model has no coefficients.
LISTED = 20


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
        case TreesModel():
            return _trees(model)
        case ClassTreesModel():
            return _class_trees(model)
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
            "Features are clipped first. On a scale on which the clips are -1 and 1, records longer than "
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


def _trees(model: TreesModel) -> Shown:
    rows, others = _ranked(model.importances)
    parts = ["a start", *(["a line"] if model.linear is not None else [])]
    said = {
        "identity": "The prediction is the sum of",
        "logistic": "The prediction is the probability whose log odds are the sum of",
        "log": "The prediction is the exponential of the sum of",
    }[model.link]
    trees = f"{number_of(len(model.splits), f'{model.shape} tree')} of depth {model.depth}"
    sentences = [f"{said} {', '.join(parts)} and {trees}."]
    sentences.append(
        "The importance of a feature is the standard deviation of what it alone adds to that sum." + others
    )
    if model.bounds is not None:
        low, high = map(_number, model.bounds)
        sentences.append(f"Predictions are kept from {low} to {high}.")
    return Shown(("feature", "importance"), rows, (" ".join(sentences),))


def _class_trees(model: ClassTreesModel) -> Shown:
    rows, others = _ranked(model.importances)
    trees = number_of(len(model.splits), f"{model.shape} tree")
    sentences = (
        f"The predictions are the probabilities of {', '.join(model.classes)}: in proportion to the "
        f"exponentials of sums, one for each, of a start and {trees} of depth "
        f"{model.depth}. The importance of a feature is the standard deviation of what it alone adds "
        f"to these sums, the root of its mean square over the classes.{others}",
    )
    return Shown(("feature", "importance"), rows, sentences)


def _ranked(importances: Mapping[str, float]) -> tuple[tuple[tuple[str, str], ...], str]:
    """Return the most important features, and a sentence about the others."""
    ranked = sorted(importances.items(), key=lambda item: -item[1])
    rows = tuple((name, _number(importance)) for name, importance in ranked[:LISTED])
    others = len(ranked) - len(rows)
    return rows, f" {others} less important features are not shown." if others else ""


def _number(value: float) -> str:
    return f"{value:.6g}"
