"""Tables on disk, and the one way from a table to a ``Dataset``.

    table = read_table(Path("diamonds.csv"))          names and kinds of columns; values stay where they are
    schema = Schema.read(Path("diamonds.schema.toml"))
    data = encode(table, schema)                      numbers, one-hot categories, checked

A Parquet file larger than memory is read in blocks of records instead, by ``stream``. CSV and Parquet are
read by pyarrow (the extra ``tables``), NPZ by NumPy. Nothing is learnt from the values on the way: bounds and
categories come from the schema, a category that the schema does not list is 0 everywhere, and
``infer_schema`` looks at names and types alone. The features of a record are a function of that record:
the type that pyarrow infers for a CSV column depends on all of them, so a category is compared with the text.
"""

from __future__ import annotations

import difflib
import importlib
import itertools
import math
import re
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import numpy.typing as npt

from dpkit_core.dataset import Dataset, Matrix, StreamedDataset, Vector
from dpkit_core.errors import InvalidData, MissingDependency
from dpkit_core.privacy import Neighboring
from dpkit_core.schema import Column, Feature, Schema

# A message that lists more names than this helps nobody.
_LISTED = 20

NPZ_TARGET = "y"

# From this many bytes of features on, a Parquet file is better streamed.
LARGE = 2**30

# Bytes of features read at once from a stream. The reader needs a few times as much.
_BLOCK = 2**25

# Of a column, this many bytes are fetched at once; without the limit, whole row groups are.
_FETCHED = 2**16

# What a column holds, and the kind that a schema gives it.
KIND_OF = {"numbers": "numeric", "text": "categorical"}

_WAY_OUT = (
    "declare it categorical with its categories in a schema (`dpkit schema DATA > schema.toml` writes a "
    "start), or leave it out with --features"
)


@attrs.frozen
class TableColumn:
    """A column before its values are read: its name, and what its type says it holds.

    ``holds`` is "numbers", "text", or another type, such as "date32[day]", that can only serve as categories.
    """

    name: str
    holds: str


@attrs.frozen(eq=False)
class Table:
    """A table on disk: names and types at once, values column by column when asked.

    Attributes
    ----------
    path
        Where it is, for messages.
    columns
        In the order of the file; names are unique and not empty.
    rows
        Number of records, at least 1.
    values
        Returns a column by its position: float64, NaN where a number is missing, or an object array of text.
    meanings
        The same, to compare with categories: an object array may hold numbers beside text.
    """

    path: Path
    columns: tuple[TableColumn, ...]
    rows: int
    values: Callable[[int], npt.NDArray[Any]]
    meanings: Callable[[int], npt.NDArray[Any]] = attrs.field(
        default=attrs.Factory(lambda self: self.values, takes_self=True)
    )
    _positions: Mapping[str, int] = attrs.field(
        init=False,
        repr=False,
        default=attrs.Factory(lambda self: {name: i for i, name in enumerate(self.names)}, takes_self=True),
    )

    def __attrs_post_init__(self) -> None:
        for position, name in enumerate(self.names, start=1):
            if not name:
                raise InvalidData(
                    f"{self.path}: column {position} has no name; name it in the file, or remove it (some "
                    "tools write a row number there)"
                )
            if self._positions[name] != position - 1:
                raise InvalidData(
                    f"{self.path}: column {name!r} appears twice; rename or remove one of them in the file"
                )
        if self.rows < 1:
            raise InvalidData(f"{self.path} has column names but no rows; give a table with records")

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns, in order."""
        return tuple(column.name for column in self.columns)

    def find(self, name: str, role: str = "column") -> TableColumn:
        """Return the column of that name; ``role`` is how a message calls it."""
        if name in self._positions:
            return self.columns[self._positions[name]]
        near = difflib.get_close_matches(name, self.names, n=1)
        shown = ", ".join(self.names[:_LISTED]) + (", ..." if len(self.names) > _LISTED else "")
        raise InvalidData(
            f"{self.path} has no {role} {name!r}; "
            + (f"did you mean {near[0]!r}? Its" if near else "its")
            + f" columns are {shown}"
        )

    def numbers(self, name: str, role: str = "column") -> Vector:
        """Return a numeric column, NaN where a value is missing.

        Raises
        ------
        InvalidData
            If the table has no such column or it holds something else.
        """
        column = self.find(name, role)
        if column.holds != "numbers":
            raise InvalidData(f"{role} {name!r} holds {column.holds}, not numbers; {_remedy(role)}")
        return self.values(self._positions[name])

    def matches(self, name: str, categories: Sequence[str]) -> Iterable[npt.NDArray[np.bool_]]:
        """Yield, for each category, in which records the column has it.

        A category of a numeric column means its number, so that "1" is 1.0 and "true" is a boolean's 1; in
        CSV, the same holds for each record whose text is a number.
        """
        self.find(name)
        meanings = self.meanings(self._positions[name])
        for category in categories:
            if meanings.dtype == np.float64:
                yield np.equal(meanings, _number(category))
            else:
                yield np.logical_or(meanings == category, meanings == _number(category))


def _meaning(text: str) -> float | str:
    number = _number(text)
    return text if math.isnan(number) else number


def _remedy(role: str) -> str:
    if role == "target":
        return "a regression predicts a number: correct the column, or choose another with --target"
    return _WAY_OUT


def _number(category: str) -> float:
    booleans = {"true": 1.0, "false": 0.0}
    try:
        return booleans.get(category.lower(), float("nan")) if category.isalpha() else float(category)
    except ValueError:
        return float("nan")  # equal to no number


def read_table(path: Path) -> Table:
    """Return the table in a CSV, Parquet or NPZ file.

    Raises
    ------
    InvalidData
        If the file cannot be read, is empty, has no rows, or names a column twice or not at all.
    MissingDependency
        If CSV or Parquet is to be read and pyarrow is not installed.
    """
    readers = {".csv": _read_csv, ".parquet": _read_parquet, ".npz": _read_npz}
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise InvalidData(
            f"cannot tell the format of {path} by its name; dpkit reads {', '.join(readers)}. Convert or "
            "rename the file"
        )
    try:
        with path.open("rb") as file:
            empty = not file.read(1)
    except OSError as error:
        raise InvalidData(f"cannot read {path}: {error.strerror}") from error
    if empty:
        raise InvalidData(f"{path} is empty; give a table with a header and records")
    return reader(path)


def pyarrow(module: str = "pyarrow") -> Any:
    """Return pyarrow or a module of it, which ``dpkit[tables]`` installs.

    Raises
    ------
    MissingDependency
        If it is not installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingDependency(
            "pyarrow", "reading or writing CSV and Parquet", "pip install 'dpkit[tables]'"
        ) from error


def _read_csv(path: Path) -> Table:
    arrow, csv = pyarrow(), pyarrow("pyarrow.csv")
    try:
        content = csv.read_csv(path)
        columns = _arrow_columns(content.schema)
    except (arrow.ArrowInvalid, UnicodeDecodeError) as error:
        # Arrow's own sentence quotes the row; records do not belong in messages.
        detail = "it is not CSV in UTF-8 with a header line"
        if ragged := re.search(r"Expected (\d+) columns, got (\d+)", str(error)):
            detail = f"a row has {ragged[2]} fields where the header has {ragged[1]}"
        raise InvalidData(f"cannot read {path}: {detail}; correct the file") from error

    def meanings(position: int) -> npt.NDArray[Any]:
        # Read again as text: whether the inferred type changed the others is up to any single record.
        name = columns[position].name
        as_text = csv.ConvertOptions(include_columns=[name], column_types={name: arrow.string()})
        text = csv.read_csv(path, convert_options=as_text).column(0).combine_chunks().dictionary_encode()
        distinct = np.array([_meaning(entry) for entry in text.dictionary.to_pylist()], dtype=object)
        found: npt.NDArray[Any] = distinct[text.indices.to_numpy()]
        return found

    return attrs.evolve(_arrow_table(path, columns, content.num_rows, content.column), meanings=meanings)


def _read_parquet(path: Path) -> Table:
    arrow, parquet = pyarrow(), pyarrow("pyarrow.parquet")
    try:
        file = parquet.ParquetFile(path)
    except (arrow.ArrowException, OSError) as error:
        raise InvalidData(f"cannot read {path}: it is not a Parquet file, or a damaged one") from error
    columns = _arrow_columns(file.schema_arrow)

    def column(position: int) -> Any:
        name = columns[position].name
        try:
            return file.read(columns=[name]).column(0)
        except (arrow.ArrowException, OSError) as error:
            raise InvalidData(f"cannot read column {name!r} of {path}: the file is damaged") from error

    return _arrow_table(path, columns, file.metadata.num_rows, column)


def _arrow_columns(schema: Any) -> tuple[TableColumn, ...]:
    return tuple(TableColumn(field.name, _holds(field.type)) for field in schema)


def _arrow_table(
    path: Path, columns: tuple[TableColumn, ...], rows: int, column: Callable[[int], Any]
) -> Table:
    arrow = pyarrow()

    def values(position: int) -> npt.NDArray[Any]:
        as_type = arrow.float64() if columns[position].holds == "numbers" else arrow.string()
        stored = column(position)
        if arrow.types.is_dictionary(stored.type):
            stored = stored.cast(stored.type.value_type)
        try:
            # Unsafe only in that integers above 2**53 are rounded to the nearest float64.
            array: npt.NDArray[Any] = stored.cast(as_type, safe=False).to_numpy()
        except arrow.ArrowException as error:
            name, holds = columns[position].name, columns[position].holds
            raise InvalidData(
                f"column {name!r} holds {holds}, which dpkit cannot use; turn it into numbers or text in "
                "the file"
            ) from error
        return array

    return Table(path, columns, rows, values)


def _holds(kind: Any) -> str:
    types = pyarrow().types
    if types.is_dictionary(kind):
        kind = kind.value_type
    numeric = (types.is_boolean, types.is_integer, types.is_floating, types.is_decimal, types.is_null)
    if any(check(kind) for check in numeric):
        return "numbers"
    if any(check(kind) for check in (types.is_string, types.is_large_string, types.is_string_view)):
        return "text"
    return str(kind)


def _read_npz(path: Path) -> Table:
    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in ("X", "y", "names") if name in archive.files}
            found = archive.files
    except (OSError, ValueError, EOFError, AttributeError, TypeError, zipfile.BadZipFile) as error:
        raise InvalidData(
            f"cannot read {path}: it is not an NPZ file of plain arrays (arrays of Python objects are not "
            "read)"
        ) from error
    if "X" not in arrays or "y" not in arrays:
        raise InvalidData(
            f"{path} has the arrays {', '.join(found)}; it needs X (records x features) and y, and may have "
            "names"
        )
    X, y = arrays["X"], arrays["y"]
    if X.ndim != 2 or y.ndim != 1 or len(X) != len(y):
        raise InvalidData(
            f"{path} has X of shape {X.shape} and y of shape {y.shape}; they must be (n, d) and (n,)"
        )
    names = [str(name) for name in arrays.get("names", [f"x{j + 1}" for j in range(X.shape[1])])]
    if len(names) != X.shape[1]:
        raise InvalidData(
            f"{path} has {len(names)} names for the {X.shape[1]} columns of X; give one for each"
        )
    holds = [_npz_holds(X)] * len(names) + [_npz_holds(y)]
    columns = tuple(map(TableColumn, [*names, NPZ_TARGET], holds))

    def values(position: int) -> npt.NDArray[Any]:
        array = y if position == len(names) else X[:, position]
        as_type: type = np.float64 if columns[position].holds == "numbers" else object
        column: npt.NDArray[Any] = array.astype(as_type)
        return column

    return Table(path, columns, len(y), values)


def _npz_holds(array: npt.NDArray[Any]) -> str:
    return {"b": "numbers", "i": "numbers", "u": "numbers", "f": "numbers", "U": "text"}.get(
        array.dtype.kind, str(array.dtype)
    )


def infer_schema(
    table: Table,
    target: str | None,
    *,
    features: Sequence[str] | None = None,
    neighboring: Neighboring = Neighboring.ADD_OR_REMOVE_ONE,
) -> Schema:
    """Return the schema that names and types alone give: no bounds, no categories.

    Enough for tables of numbers and parts that need no bounds. Columns of text become categorical without
    categories, which no part accepts until a person lists them.

    Parameters
    ----------
    table
        Only its column names and types are looked at.
    target
        The column to be predicted.
    features
        The columns to use; all others by default.
    neighboring
        The relation to protect.

    Raises
    ------
    InvalidData
        If the target is not named, is missing or is no number; if it is also among the features; or if a
        feature is missing or of a type, such as a date, that is neither number nor text.
    """
    if target is None:
        raise InvalidData(
            f"which column of {table.path} is to be predicted? Name it with --target, or in a schema "
            "(`dpkit schema DATA > schema.toml` writes a start)"
        )
    if table.find(target, "target").holds != "numbers":
        raise InvalidData(
            f"target {target!r} holds {table.find(target).holds}, not numbers; {_remedy('target')}"
        )
    if features is not None and target in features:
        raise InvalidData(
            f"column {target!r} is the target and also among the features; remove it from --features"
        )
    names = [name for name in table.names if name != target] if features is None else features
    return Schema(tuple(_column(table.find(name)) for name in names), Column(target), neighboring)


def _column(column: TableColumn) -> Column:
    if column.holds not in KIND_OF:
        raise InvalidData(
            f"column {column.name!r} holds {column.holds}; turn it into numbers in the file (for example "
            f"days since a fixed date), {_WAY_OUT}"
        )
    return Column(column.name, KIND_OF[column.holds])


def unused_columns(table: Table, schema: Schema) -> tuple[str, ...]:
    """Return the columns of the table that the schema does not name; ``encode`` ignores them."""
    known = {column.name for column in (*schema.columns, schema.target)}
    return tuple(name for name in table.names if name not in known)


def encode(table: Table, schema: Schema) -> Dataset:
    """Return the dataset of the schema's columns; columns that the schema does not name are ignored.

    Raises
    ------
    InvalidData
        Naming the column and the remedy: one is missing from the table, is not what the schema says, or has
        missing or infinite values; or there are fewer than two records, or not as many as the schema says.
    """
    y = _target(table, schema)
    return Dataset.from_arrays(feature_matrix(table, schema.features), y, schema)


def _target(table: Table, schema: Schema) -> Vector:
    y = table.numbers(schema.target.name, "target")
    if schema.records is not None and schema.records != table.rows:
        raise InvalidData(
            f"{table.path} has {table.rows} records but the schema says records = {schema.records}; correct "
            "the schema, or use the table it describes"
        )
    return y


def stream(path: Path, schema: Schema) -> StreamedDataset:
    """Return what ``encode`` does for a Parquet file, with features that are read in blocks at each pass.

    The target is kept in memory, and one pass over the file checks the features before this returns. Memory
    is bounded by the blocks, whatever the size of the file and of its row groups.

    Raises
    ------
    InvalidData
        If the file is not Parquet, or as ``encode``.
    MissingDependency
        If pyarrow is not installed.
    """
    arrow, parquet = pyarrow(), pyarrow("pyarrow.parquet")
    if path.suffix.lower() != ".parquet":
        raise InvalidData(f"only Parquet files can be read in blocks, and {path} is none; convert it")
    table = read_table(path)
    y = _target(table, schema)
    names = [table.find(column.name).name for column in schema.columns]
    rows = max(1, _BLOCK // (8 * len(schema.features)))

    def blocks() -> Iterator[Matrix]:
        with parquet.ParquetFile(path, pre_buffer=False, buffer_size=_FETCHED) as file:
            for batch in file.iter_batches(rows, columns=names, use_threads=False):
                part = arrow.Table.from_batches([batch])
                columns = _arrow_columns(part.schema)
                yield feature_matrix(_arrow_table(path, columns, part.num_rows, part.column), schema.features)

    return StreamedDataset.from_blocks(blocks, y, schema)


def feature_matrix(table: Table, features: Sequence[Feature]) -> Matrix:
    """Return one column per feature: the number itself, or 1 where a record has the category, else 0.

    A missing text is a value outside every list, so 0 in all categories; a missing number is NaN.
    """
    # One allocation, filled a column at a time. Fortran order: each write and each later read of one feature
    # (ranking, correlating) is contiguous; a regressor gets its few columns in C order from Dataset.select.
    X = np.empty((table.rows, len(features)), order="F")
    j = 0
    for name, group in itertools.groupby(features, key=lambda feature: feature.column):
        categories = [feature.category for feature in group]
        if categories == [None]:
            X[:, j] = table.numbers(name)
        else:
            named = [category for category in categories if category is not None]
            for offset, has in enumerate(table.matches(name, named)):
                X[:, j + offset] = has
        j += len(categories)
    return X
