"""Tables of other libraries, whose columns have names: they are found by name, whatever their order.

Nothing is imported for it. What pandas, polars and pyarrow share is used where it is there; a table of any
other library is read by pyarrow, through Arrow's C stream.
"""

from __future__ import annotations

import datetime
import difflib
import math
import numbers
import warnings
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dpkit_core.data.features import EPOCH
from dpkit_core.data.readers import (
    KIND_OF,
    LISTED,
    Table,
    TableColumn,
    arrow_table,
    feature_matrix,
    filled,
    pyarrow,
)
from dpkit_core.errors import InvalidData, InvalidSchema, UnusedColumns

if TYPE_CHECKING:
    from dpkit_core.data.arrays import Matrix, Vector
    from dpkit_core.data.features import Feature

_CALLED = "the table given as X"


def is_frame(X: object) -> bool:
    """Return whether ``X`` has named columns."""
    return any(hasattr(X, member) for member in ("columns", "column_names", "__arrow_c_stream__"))


def matrix_of(X: Any, features: Sequence[Feature], *, beside: Sequence[str] = ()) -> Matrix:
    """Return the features of new records, to predict for: by name from a table, in order from a matrix.

    Row by row in memory, so that a record has one prediction however it is given.
    ``beside`` names other columns that may well be there.

    Raises
    ------
    InvalidData
        If a matrix has not one column for each feature, or as ``frame_matrix``.
    """
    if is_frame(X):
        return np.ascontiguousarray(frame_matrix(X, features, beside=beside))
    matrix = filled(np.ascontiguousarray(X, dtype=np.float64), features)
    if matrix.ndim != 2 or matrix.shape[1] != len(features):
        raise InvalidData(
            f"X has shape {matrix.shape} and the model uses {len(features)} features; give one column for "
            f"each of {', '.join(feature.name for feature in features[:LISTED])}, in this order, or a table "
            "with these names"
        )
    return matrix


def frame_matrix(X: Any, features: Sequence[Feature], *, beside: Sequence[str] = ()) -> Matrix:
    """Return one column per feature, found by its name: the feature's own, or that of its category's column.

    ``beside`` names other columns that may well be there.

    Raises
    ------
    InvalidData
        If a column is missing, appears twice or does not hold what is needed.

    Warns
    -----
    UnusedColumns
        If there are other columns.
    """
    X, names = _opened(X)
    known = set(names)
    found = [_of_its_own(feature) if feature.name in known else feature for feature in features]
    needed = list(dict.fromkeys(feature.column for feature in found))
    for name in needed:
        if names.count(name) != 1:
            raise InvalidData(_absent(name, names))
    matrix = feature_matrix(_table(X, needed), found)
    unused = [str(name) for name in names if name not in {*needed, *beside}]
    if unused:
        shown = ", ".join(unused[:LISTED]) + (", ..." if len(unused) > LISTED else "")
        warnings.warn(f"columns of X that are not used: {shown}", UnusedColumns, stacklevel=3)
    return matrix


def frame_target(X: Any, outcome: Feature) -> Vector:
    """Return the target of a table that has it as a column; of a categorical one, 1 where it is positive.

    Raises
    ------
    InvalidData
        If the column is missing, appears twice or does not hold what is needed.
    """
    X, names = _opened(X)
    if names.count(outcome.column) != 1:
        raise InvalidData(_absent(outcome.column, names))
    target: Vector = feature_matrix(_table(X, [outcome.column]), [outcome], "target")[:, 0]
    return target


def frame_kinds(X: Any, known: Mapping[str, str]) -> dict[str, str]:
    """Return the kind of each column of a table, by its type; ``known`` says some of them.

    Raises
    ------
    InvalidData
        If the name of a column is no text.
    InvalidSchema
        If columns hold neither numbers nor dates nor what is known: with all their names, and what to say of
        them.
    """
    X, names = _opened(X)
    if not all(isinstance(name, str) for name in names):
        shown = ", ".join(map(repr, names[:LISTED]))
        raise InvalidData(f"the columns of X are named {shown}; give them names that are text")
    held = {column.name: column.holds for column in _table(X, names).columns}
    typed = {name: KIND_OF[holds] for name, holds in held.items() if holds in ("numbers", "dates")}
    unclear = [f"{name!r} ({held[name]})" for name in names if name not in typed and name not in known]
    if unclear:
        raise InvalidSchema(
            f"what may columns {', '.join(unclear[:LISTED])} hold? List their categories, from public "
            'knowledge and not from the table, as in Schema.from_frame(..., categories={"cut": ["Fair", '
            '"Good"]}), or leave them out. '
            "The categories of a data frame's own type do not count: they may have been read off the records"
        )
    return {name: known.get(name, typed.get(name, "")) for name in names}


def _opened(X: Any) -> tuple[Any, list[Any]]:
    """Return a table whose columns can be had by name, and their names."""
    if not hasattr(X, "column_names") and not (hasattr(X, "columns") and hasattr(X, "__len__")):
        X = _from_stream(X)
    return X, list(X.column_names if hasattr(X, "column_names") else X.columns)


def _of_its_own(feature: Feature) -> Feature:
    """Return a feature that is a column by itself, although it may stand for a category."""
    return feature if feature.name == feature.column else type(feature)(feature.name, feature.name)


def _absent(name: str, names: Sequence[object]) -> str:
    if name in names:
        return f"X has two columns {name!r}; rename or remove one of them"
    if not any(isinstance(other, str) for other in names):
        return (
            f"the columns of X are named {', '.join(map(repr, names[:LISTED]))}, and {name!r} is needed; "
            "name them as the schema does, or give a matrix whose columns are in the schema's order"
        )
    near = difflib.get_close_matches(name, [other for other in names if isinstance(other, str)], n=1)
    shown = ", ".join(map(str, names[:LISTED])) + (", ..." if len(names) > LISTED else "")
    guess = f"did you mean {near[0]!r}? Its" if near else "its"
    return f"X has no column {name!r}, which is needed; {guess} columns are {shown}. Add or rename it"


def _from_stream(X: Any) -> Any:
    arrow = pyarrow()
    try:
        return arrow.table(X)
    except (TypeError, ValueError, arrow.ArrowException) as error:
        raise InvalidData(
            f"X is of type {type(X).__name__}, whose columns cannot be found; give a matrix, or a table of "
            "pandas, polars or pyarrow"
        ) from error


def column_feature(values: npt.NDArray[Any], feature: Feature, called: str) -> Vector:
    """Return the feature that a single column of text or dates makes."""
    table = _held(called, [feature.column], [typed(feature.column, values)], len(values))
    column: Vector = feature_matrix(table, [feature])[:, 0]
    return column


def _table(X: Any, names: Sequence[str]) -> Table:
    if hasattr(X, "column_names"):
        arrow = pyarrow()
        table = X if isinstance(X, arrow.Table) else arrow.Table.from_batches([X])
        return arrow_table(_CALLED, table.select(names))
    return _held(_CALLED, names, [typed(name, X[name]) for name in names], len(X))


def _held(called: str, names: Sequence[str], held: Sequence[npt.NDArray[Any]], rows: int) -> Table:
    columns = tuple(map(TableColumn, names, map(_holds, held)))

    def values(position: int) -> npt.NDArray[Any]:
        array = held[position]
        match columns[position].holds:
            case "numbers":
                return array.astype(np.float64, copy=False)
            case "dates":
                return _days(array)
            case _:
                return array

    def meanings(position: int) -> npt.NDArray[Any]:
        array = held[position]
        if columns[position].holds != "dates":
            return values(position)
        texts = np.datetime_as_string(array).astype(object)
        texts[np.isnat(array)] = None
        return texts

    return Table(called, columns, rows, values, meanings)


def _days(array: npt.NDArray[Any]) -> Vector:
    """Return dates as days since 1970, the time of day as a fraction, NaN where one is missing."""
    since, day = array - np.datetime64(EPOCH), np.timedelta64(1, "D")
    absent = np.isnat(since)
    since = np.where(absent, np.timedelta64(0), since)
    # Whole days first: so an instant is one number in every unit, and the unit depends on all records.
    days: Vector = since // day + (since % day) / day
    days[absent] = math.nan
    return days


def typed(name: str, column: Any) -> npt.NDArray[Any]:
    """Return a column as numbers, NaN where one is missing, as text, None where it is, or as dates."""
    array = np.asarray(column)
    if array.dtype.kind not in "OUT":
        return array
    entries = [_entry(name, entry) for entry in array.tolist()]
    if any(isinstance(entry, datetime.date) for entry in entries):
        if any(not isinstance(entry, datetime.date | None) for entry in entries):
            raise InvalidData(f"column {name!r} of X holds dates and something else; make it one of them")
        return np.array(entries, dtype="M8[us]")
    if not any(isinstance(entry, str) for entry in entries):
        return np.array([math.nan if entry is None else entry for entry in entries], dtype=np.float64)
    texts = np.empty(len(entries), dtype=object)
    texts[:] = entries
    return texts


def _entry(name: str, entry: Any) -> float | str | datetime.date | None:
    if isinstance(entry, str):
        return entry
    if isinstance(entry, numbers.Real | Decimal):
        number = float(entry)
        return None if math.isnan(number) else number
    if entry is None or type(entry).__name__ in {"NAType", "NaTType"}:
        return None
    if isinstance(entry, datetime.datetime) and entry.tzinfo is not None:
        return entry.astimezone(datetime.UTC).replace(tzinfo=None)
    if isinstance(entry, datetime.date):
        return entry
    raise InvalidData(
        f"column {name!r} of X holds a {type(entry).__name__}; turn it into numbers, dates or text"
    )


def _holds(array: npt.NDArray[Any]) -> str:
    kinds = {"b": "numbers", "i": "numbers", "u": "numbers", "f": "numbers", "O": "text", "M": "dates"}
    return kinds.get(array.dtype.kind, str(array.dtype))
