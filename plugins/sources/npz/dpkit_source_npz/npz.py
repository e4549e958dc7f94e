"""An NPZ file as a source: the arrays are in memory, and batches are views of their columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dpkit_core.data.features import Written
from dpkit_core.data.source import ReadOptions
from dpkit_core.errors import InvalidData
from dpkit_source_npz.archives import read_arrays

TARGET = "y"


def open_npz(where: str, options: ReadOptions) -> NpzSource:
    """Return the source of an NPZ file with X (records x features), y and, if it has them, names.

    Without names, the columns of X are called x1, x2 and so on; y is called ``y``. All arrays are read.

    Raises
    ------
    InvalidData
        If the file cannot be read, or holds no table.
    InvalidOption
        If an option does not apply.
    """
    options.require_only(where)
    if Path(where).is_dir() or not Path(where).exists():
        raise InvalidData(
            f"cannot read {where}: there is no such file, and NPZ files are read one at a time; convert them "
            "to Parquet to read several as one table"
        )
    arrays, found = read_arrays(Path(where), ("X", TARGET, "names"))
    if "X" not in arrays or TARGET not in arrays:
        raise InvalidData(
            f"{where} has the arrays {', '.join(found)}; it needs X (records x features) and y, and may have "
            "names"
        )
    X, y = arrays["X"], arrays[TARGET]
    if X.ndim != 2 or y.ndim != 1 or len(X) != len(y):
        raise InvalidData(
            f"{where} has X of shape {X.shape} and y of shape {y.shape}; they must be (n, d) and (n,)"
        )
    given = arrays.get("names", np.array([f"x{j + 1}" for j in range(X.shape[1])], dtype=str))
    if given.ndim != 1:
        raise InvalidData(
            f"{where} has names of shape {given.shape}; it must be (d,), one for each column of X"
        )
    if len(given) != X.shape[1]:
        raise InvalidData(
            f"{where} has {len(given)} names for the {X.shape[1]} columns of X; give one for each"
        )
    if (broken := _first_broken(given)) is not None:
        raise InvalidData(f"{where}: name {broken + 1} contains half of a character; rename it in the file")
    return NpzSource(where, _plain(X), _plain(y), (*map(str, given.tolist()), TARGET))


@attrs.frozen(eq=False)
class NpzSource:
    """The columns of X and, last, y, with the types of the arrays; text is a string."""

    same_order: ClassVar[bool] = True

    called: str
    _X: npt.NDArray[Any]
    _y: npt.NDArray[Any]
    _names: tuple[str, ...]

    @property
    def fields(self) -> pa.Schema:
        """The types of X and y."""
        kinds = [*[_type(self._X)] * self._X.shape[1], _type(self._y)]
        return pa.schema(list(zip(self._names, kinds, strict=True)))

    def batches(self, wanted: Mapping[str, Written], rows: int, /) -> Iterator[pa.RecordBatch]:
        """Yield the columns; what lies in Fortran order is not copied."""
        fields = self.fields
        schema = pa.schema([fields.field(name) for name in wanted])
        # A batch without columns must have its number of records, so it is made from one with y.
        places = [fields.get_field_index(name) for name in wanted] or [len(self._names) - 1]
        for start in range(0, len(self._y), rows):
            columns = [self._wrapped(place, start, rows) for place in places]
            if wanted:
                yield pa.RecordBatch.from_arrays(columns, schema=schema)
            else:
                yield pa.record_batch(columns, [TARGET]).select([])

    def _wrapped(self, place: int, start: int, rows: int) -> pa.Array:
        column = self._y if place == self._X.shape[1] else self._X[:, place]
        try:
            # A strided column is gathered by NumPy several times as fast as by Arrow.
            return pa.array(np.ascontiguousarray(column[start : start + rows]), _type(column))
        except UnicodeError:
            record = start + 1 + (_first_broken(column[start:]) or 0)
            raise InvalidData(
                f"cannot read column {self._names[place]!r} of {self.called}: the text of record {record} "
                "contains half of a character; correct it in the file"
            ) from None

    def close(self) -> None:
        """Do nothing: the file was closed after it was read."""


def _plain(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return an array in a type that Arrow has: in native byte order, and of at most 64 bits."""
    if array.dtype == np.longdouble:
        return array.astype(np.float64, copy=False)
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def _type(array: npt.NDArray[Any]) -> pa.DataType:
    return pa.string() if array.dtype.kind == "U" else pa.from_numpy_dtype(array.dtype)


def _first_broken(texts: npt.NDArray[Any]) -> int | None:
    """Return the place of the first text with an invalid code point, or None."""
    if texts.dtype.kind != "U" or not texts.nbytes:
        return None
    codes = np.ascontiguousarray(_plain(texts)).view(np.uint32).reshape(len(texts), -1)
    broken = (((codes >= 0xD800) & (codes <= 0xDFFF)) | (codes > 0x10FFFF)).any(axis=1)
    return int(broken.argmax()) if broken.any() else None
