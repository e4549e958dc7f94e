"""What a released model predicts for the records of a table, in columns that say what they are.

Numbers are in a column ``prediction``. For a categorical target, a column named after the target holds the
predicted category, and columns ``target=category`` hold probabilities: one for the positive category, which
is predicted if its probability reaches a threshold; or one for each class, the most probable one being
predicted. A linear model may predict "probabilities" below 0 and above 1.

The prediction for a record depends on that record alone, to the last bit. So tables of any size are read and
written in batches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
import numpy.typing as npt

from dpkit_core.arrays import Matrix, Vector
from dpkit_core.data.features import Feature, Written, wanted
from dpkit_core.data.fields import find, numbered, require_kind
from dpkit_core.data.schema import Column, Schema
from dpkit_core.data.source import ReadOptions, Source
from dpkit_core.errors import InvalidData, InvalidOption, InvalidRelease
from dpkit_core.plugins.sources import open_source

if TYPE_CHECKING:
    import pyarrow as pa

    from dpkit_core.protocols import Model
    from dpkit_core.release.release import Release

#: Records in a batch.
ROWS = 2**16

#: Default name of the column of predicted numbers.
NUMBER = "prediction"

#: Default probability from which on the positive category is predicted.
THRESHOLD = 0.5


@attrs.frozen
class Columns:
    """The columns of predictions.

    Attributes
    ----------
    name
        Name of the first one.
    categories
        Those with a probability column, called ``name=category``; none for a number.
    otherwise
        What the first one holds where the category is not predicted.
    threshold
        The probability from which on it is.
    """

    name: str
    categories: tuple[str, ...] = ()
    otherwise: str = ""
    threshold: float = THRESHOLD

    @classmethod
    def of(cls, model: Model, target: Column, name: str | None, threshold: float | None) -> Columns:
        """Return the columns of a model's predictions; ``predictions`` documents the parameters.

        Raises
        ------
        InvalidOption
            If there is a threshold and no single category to predict, or it is not between 0 and 1.
        """
        classes: tuple[str, ...] = getattr(model, "classes", ())
        positive = target.positive_category
        if name is None:
            name = NUMBER if positive is None and not classes else target.name
        if threshold is not None and (classes or positive is None):
            found = f"has the classes {', '.join(classes)}" if classes else "is a number"
            raise InvalidOption(
                f"--threshold is {threshold}, but applies only to a target with a positive category, and "
                f"target {target.name!r} {found}; leave it out"
            )
        if threshold is not None and not 0 <= threshold <= 1:
            raise InvalidOption(f"--threshold is {threshold}; give a probability, from 0 to 1")
        if classes or positive is None:
            return cls(name, classes)
        return cls(name, (positive,), _other(target, positive), THRESHOLD if threshold is None else threshold)

    @property
    def names(self) -> tuple[str, ...]:
        """Their names, in order."""
        return (self.name, *(f"{self.name}={category}" for category in self.categories))

    def filled(self, predicted: Matrix) -> list[pa.Array]:
        """Return the columns for a model's predictions: one number or several for each record, or NaN."""
        import pyarrow as pa

        chances = np.reshape(predicted, (len(predicted), max(1, len(self.categories))))
        numbers = [_array(column, pa.float64()) for column in chances.T]
        if not self.categories:
            return numbers
        if len(self.categories) == 1:
            places = (chances[:, 0] < self.threshold).astype(np.int64)
        else:
            places = chances.argmax(axis=1).astype(np.int64)
        names = [name.encode() for name in (*self.categories, self.otherwise)]
        ends = np.cumsum([0, *map(len, names)], dtype=np.int32)
        texts = pa.StringArray.from_buffers(len(names), pa.py_buffer(ends), pa.py_buffer(b"".join(names)))
        places[np.isnan(chances).any(axis=1)] = len(names)  # where there is nothing
        texts = pa.concat_arrays([texts, pa.nulls(1, pa.string())])
        return [texts.take(_array(places, pa.int64())), *numbers]


def _array(values: npt.NDArray[Any], kind: pa.DataType) -> pa.Array:
    # Not pa.array, nor pa.scalar: they import pandas where that is installed, and that takes a second.
    import pyarrow as pa

    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(np.ascontiguousarray(values))])


def _other(target: Column, positive: str) -> str:
    """Return the label of a target that is not its positive category."""
    others = [category for category in target.categories if category != positive]
    return others[0] if len(others) == 1 else f"not {positive}"


def predictions(
    release: Release,
    data: Any,
    keep: Sequence[str] = (),
    *,
    name: str | None = None,
    threshold: float | None = None,
    options: ReadOptions = ReadOptions(),
) -> Iterator[pa.RecordBatch]:
    """Yield predictions for the records of a table, in batches of Arrow; at least one, if of no records.

    A batch has the columns to keep, then ``prediction``, a number; or, of a category, a column that is
    named after the target and holds the one that is predicted. Next to a category stand probabilities,
    in a column ``target=category`` of the positive category or of each class. Missing values are
    treated as by ``predict``; where there is no prediction, the category is null and the numbers are NaN.

    Parameters
    ----------
    release
        With a model.
    data
        What ``dpkit_core.plugins.sources.open_source`` takes, such as the name of a file. It is read
        once, and never as a whole.
    keep
        Columns to copy from the table, before the predictions.
    name
        Another name for the first column.
    threshold
        The probability from which on the positive category is predicted; 1/2 by default.
    options
        How to read the table, where the table itself does not show it.

    Raises
    ------
    InvalidData
        If the table cannot be read, or lacks a column; or if a record of it cannot be read, after the
        batches before it.
    InvalidOption
        If a column to keep is missing or has the name of a prediction, or there is a threshold but no
        single category to predict.
    InvalidRelease
        If there is no model.
    """
    model, schema = release.usable_model, release.certificate.schema
    columns = Columns.of(model, schema.target, name, threshold)
    features = used_features(model, schema.read_with(options))
    return _predicted(release.predict, features, columns, data, keep=keep, options=options)


def _predicted(
    predict: Callable[[Matrix], Vector | Matrix],
    features: Sequence[Feature],
    columns: Columns,
    data: Any,
    *,
    keep: Sequence[str],
    options: ReadOptions,
) -> Iterator[pa.RecordBatch]:
    """Yield the batches of ``predictions``, predicted from these features."""
    import pyarrow as pa

    from dpkit_core.data.encode import encode

    source, read = open_source(data, options), 0

    def batch_of(kept: list[pa.Array], X: Matrix) -> pa.RecordBatch:
        made = columns.filled(predict(X))
        return pa.RecordBatch.from_arrays([*kept, *made], names=[*keep, *columns.names])

    try:
        _require_apart(source, keep, columns)
        asked = wanted(features)
        for name, written in asked.items():
            require_kind(find(source, name), written.kind)
        # A column to keep is read as it is written; a feature of the same column then reads it that way, too.
        asked |= {name: attrs.evolve(asked.get(name, Written()), kind="categorical") for name in keep}
        for batch in source.batches(asked, ROWS):
            with numbered(source.called, read):
                X = encode(batch, features)
            _require_finite(X, features)
            yield batch_of([batch.column(name) for name in keep], X)
            read += batch.num_rows
        if not read:
            none = [pa.nulls(0, source.fields.field(name).type) for name in keep]
            yield batch_of(none, np.empty((0, len(features))))
    finally:
        source.close()


def used_features(model: Model, schema: Schema) -> list[Feature]:
    """Return the features that a model uses, from the schema.

    Raises
    ------
    InvalidRelease
        If the schema knows no such feature.
    """
    known = {feature.name: feature for feature in schema.features}
    if unknown := [name for name in model.features if name not in known]:
        raise InvalidRelease(
            f"the model uses {unknown[0]!r}, which is not a feature of the certificate's schema; the "
            "release file was changed or is damaged"
        )
    return [known[name] for name in model.features]


def _require_apart(source: Source, keep: Sequence[str], columns: Columns) -> None:
    """Raise unless the source has the columns to keep, and none of them has the name of a prediction."""
    for name in keep:
        try:
            find(source, name)
        except InvalidData as error:
            # The error suggests a name, and lists those that exist.
            raise InvalidOption(f"--keep {name}: {error}. Use the column names of the table") from None
        if name in columns.names:
            raise InvalidOption(
                f"--keep {name}: the predictions have a column of that name; give it another name, such as "
                f"--as 'predicted {columns.name}'"
            )


def _require_finite(X: Matrix, features: Sequence[Feature]) -> None:
    for feature, column in zip(features, X.T, strict=True):
        if np.isinf(column).any():
            raise InvalidData(
                f"column {feature.column!r} has infinite values, for which the model has no prediction; "
                "remove or replace them"
            )
