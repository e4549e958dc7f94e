"""An NPZ file as a source: the arrays are held, and a batch wraps its part of each column."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

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
        If an option means nothing here.
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
    names = [*map(str, given.tolist()), TARGET]
    if (twice := next((name for i, name in enumerate(names) if name in names[:i]), None)) is not None:
        raise InvalidData(
            f"{where}: column {twice!r} appears twice; rename or remove one of them in the file"
        )
    return NpzSource(where, _plain(X), _plain(y), tuple(names))


@attrs.frozen(eq=False)
class NpzSource:
    """The columns of X and, last, y, with the types of the arrays; text is a string."""

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
        schema = pa.schema([self.fields.field(name) for name in wanted])
        places = [self._names.index(name) for name in wanted]
        for start in range(0, len(self._y), rows):
            part = slice(start, start + rows)
            columns = [self._y[part] if j == self._X.shape[1] else self._X[part, j] for j in places]
            if columns:
                yield pa.RecordBatch.from_arrays(list(map(_wrapped, columns)), schema=schema)
            else:
                yield pa.record_batch({"y": _wrapped(self._y[part])}).select([])  # only as many records

    def close(self) -> None:
        """Do nothing: the file was closed when it had been read."""


def _plain(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return an array that Arrow knows: in the order of bytes of this machine, and of 64 bits at most."""
    if array.dtype == np.longdouble:
        return array.astype(np.float64, copy=False)
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def _type(array: npt.NDArray[Any]) -> pa.DataType:
    return pa.string() if array.dtype.kind == "U" else pa.from_numpy_dtype(array.dtype)


def _wrapped(column: npt.NDArray[Any]) -> pa.Array:
    # A strided column is gathered by NumPy several times as fast as by Arrow.
    return pa.array(np.ascontiguousarray(column), _type(column))
