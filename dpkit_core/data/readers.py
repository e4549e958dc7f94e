"""Tables on disk, and the one way from a table to a ``Dataset``.

    table = read_table(Path("diamonds.csv"))          names and kinds of columns; values stay where they are
    schema = Schema.read(Path("diamonds.schema.toml"))
    data = encode(table, schema)                      numbers, one-hot categories, checked

A Parquet file larger than memory, or a folder of files, is read in blocks of records instead, by ``stream``.
Text files (CSV, TSV, also packed as ``.gz``) and Parquet are read by pyarrow (the extra ``tables``), NPZ by
NumPy. Nothing is learnt from the values on the way: bounds, categories and what stands for missing values
come from the schema, a category that the schema does not list is 0 everywhere, and ``infer_schema`` looks at
names and types alone. The features of a record are a function of that record: the type that pyarrow infers
for a CSV column depends on all of them, so a category is compared with the text.
"""

from __future__ import annotations

import difflib
import functools
import glob
import gzip
import importlib
import itertools
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import attrs
import numpy as np
import numpy.typing as npt

from dpkit_core.data.archives import read_arrays
from dpkit_core.errors import InvalidData, InvalidOption, MissingDependency, install
from dpkit_core.files.documents import flaw_of

if TYPE_CHECKING:
    from dpkit_core.data.arrays import Matrix, Vector
    from dpkit_core.data.features import Feature

# A message that lists more names than this helps nobody.
LISTED = 20

NPZ_TARGET = "y"

# Bytes of a CSV file in which its header is looked for.
_HEADER = 2**16

# Of a column, this many bytes are fetched at once; without the limit, whole row groups are.
_FETCHED = 2**16

# What a column holds, and the kind that a schema gives it.
KIND_OF = {"numbers": "numeric", "text": "categorical", "dates": "date"}

WAY_OUT = (
    "declare it categorical with its categories in a schema (`dpkit schema DATA > schema.toml` writes a "
    "start), or leave it out with --features. If it has numbers with a decimal comma, give --decimal ','"
)

#: What stands between the columns of a text file, by the end of its name.
DELIMITERS = {".csv": ",", ".tsv": "\t"}

_PACKED = ".gz"


def _character(named: str | None) -> str | None:
    return "\t" if named in {"tab", "\\t"} else named


def _texts(given: Iterable[str] | None) -> tuple[str, ...]:
    return tuple(given or ())


@attrs.frozen
class Dialect:
    """How numbers and columns are written in a text file; nothing of it depends on the records.

    Attributes
    ----------
    delimiter
        What stands between columns: one character, or the word ``tab``. By default a tab in ``.tsv`` and else
        a comma.
    decimal
        A point or a comma.
    missing
        What else stands for a missing value, such as ``?``, beside nothing at all, ``NA`` and the like. A
        category is missing only where there is nothing, or one of these.
    """

    delimiter: str | None = attrs.field(default=None, converter=_character)
    decimal: str = "."
    missing: tuple[str, ...] = attrs.field(default=(), converter=_texts)

    def __attrs_post_init__(self) -> None:
        if self.delimiter is not None and (len(self.delimiter.encode()) != 1 or self.delimiter in '"\r\n'):
            raise InvalidOption(
                f"the delimiter is {self.delimiter!r}; it must be one character, such as ';', or tab"
            )
        if self.decimal not in {".", ","}:
            raise InvalidOption(f"the decimal sign is {self.decimal!r}; it must be '.' or ','")

    def delimiter_of(self, path: Path) -> str:
        """Return what stands between the columns of a file."""
        delimiter = DELIMITERS[suffix_of(path)] if self.delimiter is None else self.delimiter
        if delimiter == self.decimal and self.delimiter is None:
            raise InvalidOption(
                f"{path} would have {self.decimal!r} between its columns and in its numbers; give the "
                "delimiter, too, such as --delimiter ';', or --delimiter ',' where numbers are in quotes"
            )
        return delimiter


PLAIN = Dialect()


def suffix_of(path: Path) -> str:
    """Return the end of a file's name that says its format, without that of a packed one."""
    return (path.with_suffix("") if path.suffix.lower() == _PACKED else path).suffix.lower()


@attrs.frozen
class TableColumn:
    """A column before its values are read: its name, and what its type says it holds.

    ``holds`` is "numbers", "text", "dates", or another type, such as "time32[s]", that can only serve as
    categories.
    """

    name: str
    holds: str


def _in_no_file(names: Sequence[str]) -> Any:
    raise InvalidData("the table is in no file, so its columns cannot be copied from there")


@attrs.frozen(eq=False)
class Table:
    """A table on disk: names and types at once, values column by column when asked.

    Attributes
    ----------
    path
        Where it is, or what messages call it.
    columns
        In the order of the file; names are unique and not empty.
    rows
        Number of records.
    values
        Returns a column by its position: float64, NaN where a number is missing, dates as days since 1970; or
        an object array of text.
    meanings
        The same, to compare with categories: an object array may hold numbers beside text.
    blocks
        Yields tables of these columns and at most so many records each, which together are this one; None
        where the format cannot be read in blocks.
    stored
        Returns columns by their names as the file has them, a table of pyarrow: the fields of a text file as
        text, whatever they look like, so that ``007`` keeps its zeros; else with the types of the file. Of a
        table that is in no file, raises ``InvalidData``.
    """

    path: Path | str
    columns: tuple[TableColumn, ...]
    rows: int
    values: Callable[[int], npt.NDArray[Any]]
    meanings: Callable[[int], npt.NDArray[Any]] = attrs.field(
        default=attrs.Factory(lambda self: self.values, takes_self=True)
    )
    blocks: Callable[[Sequence[str], int], Iterator[Table]] | None = None
    stored: Callable[[Sequence[str]], Any] = _in_no_file
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
            if (flaw := flaw_of(name)) is not None:
                raise InvalidData(
                    f"{self.path}: the name of column {position}, {name!a}, has {flaw} in it; rename it in "
                    "the file"
                )
            if self._positions[name] != position - 1:
                raise InvalidData(
                    f"{self.path}: column {name!r} appears twice; rename or remove one of them in the file"
                )

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns, in order."""
        return tuple(column.name for column in self.columns)

    def find(self, name: str, role: str = "column") -> TableColumn:
        """Return the column of that name; ``role`` is how a message calls it."""
        if name in self._positions:
            return self.columns[self._positions[name]]
        by_case = [known for known in self.names if known.casefold() == name.casefold()]
        near = by_case or difflib.get_close_matches(name, self.names, n=1)
        shown = ", ".join(self.names[:LISTED]) + (", ..." if len(self.names) > LISTED else "")
        raise InvalidData(
            f"{self.path} has no {role} {name!r}; "
            + (f"did you mean {near[0]!r}? Its" if near else "its")
            + f" columns are {shown}"
        )

    def find_numbers(self, name: str, role: str = "column", kind: str = "numeric") -> int:
        """Return the position of a column that becomes numbers, as its kind says; as ``find``.

        Raises
        ------
        InvalidData
            If the table has no such column or it holds something else.
        """
        column = self.find(name, role)
        if KIND_OF.get(column.holds) == kind:
            return self._positions[name]
        if column.holds == "dates":
            remedy = 'declare it in a schema with kind = "date", and it becomes days since 1970'
        elif kind == "date":
            remedy = "write dates such as 2020-01-31, or declare what it is in the schema"
        else:
            remedy = remedy_for(role)
        wanted = "dates" if kind == "date" else "numbers"
        raise InvalidData(f"{role} {name!r} holds {column.holds}, not {wanted}; {remedy}")

    def numbers(self, name: str, role: str = "column", kind: str = "numeric") -> Vector:
        """Return a column of numbers or dates, NaN where a value is missing; as ``find_numbers``."""
        return self.values(self.find_numbers(name, role, kind))

    def without_category(self, name: str, role: str = "column") -> npt.NDArray[np.bool_]:
        """Return in which records a column of categories has nothing: no value, or an empty text."""
        self.find(name, role)
        meanings = self.meanings(self._positions[name])
        if meanings.dtype == np.float64:
            nothing: npt.NDArray[np.bool_] = np.isnan(meanings)
            return nothing
        absent = (m in (None, "") or (isinstance(m, float) and math.isnan(m)) for m in meanings)
        return np.fromiter(absent, np.bool_, len(meanings))

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


def feature_matrix(table: Table, features: Sequence[Feature], role: str = "column") -> Matrix:
    """Return one column per feature: the number itself, or 1 where a record has the category, else 0.

    Of a feature with classes, the place of the record's class, from 1, else 0.

    Where a value is missing, the column's rule decides: another number is there instead, or NaN for records
    that are to be left out. Without a rule, a missing text is a value outside every list, so 0 in all
    categories, and a missing number is NaN.
    """
    # One allocation, filled a column at a time. Fortran order: each write and each later read of one feature
    # (ranking, correlating) is contiguous; a regressor gets its few columns in C order from Dataset.select.
    X = np.empty((table.rows, len(features)), order="F")
    j = 0
    for name, group in itertools.groupby(features, key=lambda feature: feature.column):
        asked = list(group)
        part = X[:, j : j + len(asked)]
        if asked[0].category is None and asked[0].kind != "categorical":
            numbers = table.numbers(name, role, asked[0].kind)
            for offset, feature in enumerate(asked):
                part[:, offset] = 0.0 if feature.indicator else numbers
                if feature.fill is not None:
                    part[np.isnan(numbers), offset] = feature.fill
        else:
            _categories(part, table, name, asked, role)
        j += len(asked)
    return X


def _categories(part: Matrix, table: Table, name: str, asked: Sequence[Feature], role: str) -> None:
    table.find(name, role)
    part[:] = 0.0
    named = {offset: f.category for offset, f in enumerate(asked) if f.category is not None}
    for offset, has in zip(named, table.matches(name, list(named.values())), strict=True):
        part[:, offset] = has
    for offset, feature in enumerate(asked):
        for place, has in enumerate(table.matches(name, feature.classes), start=1):
            part[has, offset] = place
    if all(feature.missing is None for feature in asked):
        return
    absent = table.without_category(name)
    for offset, feature in enumerate(asked):
        if feature.fill is not None:
            part[absent, offset] = feature.fill
        elif feature.missing == "drop":
            part[absent, offset] = math.nan


def filled(matrix: Matrix, features: Sequence[Feature]) -> Matrix:
    """Return a matrix of features with what the rules of their columns put in the place of NaN.

    A feature that says where its column is missing is 1 there; else it stays as it is.
    """
    ruled = {f.column: j for j, f in enumerate(features) if f.fill is not None and not f.indicator}
    absent = {name: np.isnan(matrix[:, j]) for name, j in ruled.items()}
    if not any(where.any() for where in absent.values()):
        return matrix
    matrix = matrix.copy(order="K")
    for j, feature in enumerate(features):
        if feature.column in absent and feature.fill is not None:
            matrix[absent[feature.column], j] = feature.fill
    return matrix


def transform_matrix(matrix: Matrix, features: Sequence[Feature]) -> Matrix:
    """Return a matrix of features with each column transformed as its rule says; the same one without rules.

    Whoever has applied it does not apply it again: unlike ``filled``, it changes what it has made.
    """
    ruled = [(j, feature.transform) for j, feature in enumerate(features) if feature.transform is not None]
    if not ruled:
        return matrix
    matrix = matrix.copy(order="K")
    for j, transform in ruled:
        matrix[:, j] = transform.apply(matrix[:, j])
    return matrix


def _meaning(text: str, dialect: Dialect) -> float | str:
    if text in dialect.missing:
        return ""
    number = _number(text if dialect.decimal == "." else text.replace(dialect.decimal, "."))
    return text if math.isnan(number) else number


def remedy_for(role: str) -> str:
    """Return what to do about a column of this role that holds no numbers."""
    if role == "target":
        return (
            "a regression predicts a number: correct the column, choose another with --target, or declare it "
            "categorical in a schema, with the category to predict as its positive one"
        )
    return WAY_OUT


def names_number(category: str) -> bool:
    """Return whether a category means a number or a truth value, in a column of such.

    >>> [names_number(category) for category in ("1", "true", "Fair")]
    [True, True, False]
    """
    return not math.isnan(_number(category))


def _number(category: str) -> float:
    booleans = {"true": 1.0, "false": 0.0}
    try:
        return booleans.get(category.lower(), float("nan")) if category.isalpha() else float(category)
    except ValueError:
        return float("nan")  # equal to no number


def read_table(path: Path | str, *, batch: bool = False, dialect: Dialect = PLAIN) -> Table:
    """Return the table in a CSV, TSV, Parquet or NPZ file, or in a folder of Parquet files.

    A folder stands for all Parquet files below it, and a pattern such as ``sales/2020-*.parquet`` for those
    that match; each has the same columns. Folders named ``key=value`` add a column ``key``. A ``batch`` of a
    stream may have no rows. ``dialect`` says how a text file is written.

    Raises
    ------
    InvalidData
        If a file cannot be read, is empty, has no rows, or names a column twice or not at all.
    MissingDependency
        If CSV or Parquet is to be read and pyarrow is not installed.
    """
    if scheme := re.match(r"([a-z][a-z0-9+]+):/", str(path)):
        raise InvalidData(
            f"{path} is an address; dpkit reads files of this machine. Download it first, or mount what "
            f"{scheme[1]} leads to"
        )
    table = _read(Path(path), dialect)
    if table.rows < 1 and not batch:
        raise InvalidData(f"{path} has column names but no rows; give a table with records")
    return table


def _read(path: Path, dialect: Dialect) -> Table:
    if path.is_dir():
        hidden = (".", "_")  # what other tools leave beside the records
        below = (file for file in path.rglob("*.parquet") if file.is_file())
        files = [f for f in below if not any(part.startswith(hidden) for part in f.relative_to(path).parts)]
        return _read_files(path, files, path)
    if glob.has_magic(str(path)) and not path.exists():
        files = [file for name in glob.glob(str(path), recursive=True) if (file := Path(name)).is_file()]
        return _read_files(path, files, _fixed_part(path))
    text = functools.partial(_read_csv, dialect=dialect)
    readers: dict[str, Callable[[Path], Table]] = dict.fromkeys(DELIMITERS, text)
    unpacked = {".parquet": _read_parquet, ".npz": _read_npz}
    if path.suffix.lower() != _PACKED:
        readers |= unpacked
    reader = readers.get(suffix_of(path))
    if reader is None:
        packed = [f"{suffix}{_PACKED}" for suffix in DELIMITERS]
        raise InvalidData(
            f"cannot tell the format of {path} by its name; dpkit reads "
            f"{', '.join([*DELIMITERS, *unpacked, *packed])}. Convert or rename the file"
        )
    try:
        with path.open("rb") as content:
            empty = not content.read(1)
    except OSError as error:
        raise InvalidData(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:  # a zero byte
        raise InvalidData(f"cannot read {str(path)!r}: {error}") from error
    if empty:
        raise InvalidData(f"{path} is empty; give a table with a header and records")
    return reader(path)


def _fixed_part(pattern: Path) -> Path:
    """Return the folder in front of the first wildcard."""
    return Path(*itertools.takewhile(lambda part: not glob.has_magic(part), pattern.parts))


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
            "pyarrow", "reading or writing CSV and Parquet", install("[tables]")
        ) from error


def _read_csv(path: Path, *, dialect: Dialect) -> Table:
    arrow, csv = pyarrow(), pyarrow("pyarrow.csv")
    delimiter = dialect.delimiter_of(path)
    written = csv.ParseOptions(delimiter=delimiter)
    nulls = [*csv.ConvertOptions().null_values, *dialect.missing]
    meant = csv.ConvertOptions(decimal_point=dialect.decimal, null_values=nulls)
    with _told_as_csv(path, delimiter):
        content = csv.read_csv(path, parse_options=written, convert_options=meant)
        _arrow_columns(content.schema)
    _require_delimiter(path, delimiter)
    table = arrow_table(path, content)

    def meanings(position: int) -> npt.NDArray[Any]:
        # Read again as text: whether the inferred type changed the others is up to any single record.
        name = table.columns[position].name
        as_text = csv.ConvertOptions(include_columns=[name], column_types={name: arrow.string()})
        with _told_as_csv(path, delimiter):
            read = csv.read_csv(path, parse_options=written, convert_options=as_text)
            text = read.column(0).combine_chunks().dictionary_encode()
        distinct = np.array([_meaning(entry, dialect) for entry in text.dictionary.to_pylist()], dtype=object)
        found: npt.NDArray[Any] = distinct[_numbers_of(text.indices)]
        return found

    def stored(names: Sequence[str]) -> Any:
        as_text = csv.ConvertOptions(
            include_columns=list(names), column_types=dict.fromkeys(names, arrow.string())
        )
        with _told_as_csv(path, delimiter):
            return csv.read_csv(path, parse_options=written, convert_options=as_text)

    return attrs.evolve(table, meanings=meanings, stored=stored)


@contextmanager
def _told_as_csv(path: Path, delimiter: str) -> Iterator[None]:
    """Say what is wrong with a CSV file without Arrow's sentence, which quotes records."""
    try:
        yield
    except (pyarrow().ArrowInvalid, UnicodeDecodeError, OSError) as error:
        if not isinstance(error, OSError):
            _require_delimiter(path, delimiter)
        detail = "it is not CSV in UTF-8 with a header line"
        if ragged := re.search(r"Expected (\d+) columns, got (\d+)", str(error)):
            detail = f"a row has {ragged[2]} fields where the header has {ragged[1]}"
        elif isinstance(error, OSError):
            detail = error.strerror or f"it is not packed as its name says, {path.suffix}, or damaged"
        raise InvalidData(f"cannot read {path}: {detail}; correct the file") from error


def _require_delimiter(path: Path, delimiter: str) -> None:
    """Raise if the header is of a file with another character between its columns, as spreadsheets write."""
    opened: Callable[..., Any] = gzip.open if path.suffix.lower() == _PACKED else open
    with opened(path, "rb") as file:
        header = file.readline(_HEADER)
    if delimiter.encode() in header or not header.isascii() or b"\0" in header:
        return
    names = {";": "semicolons", "\t": "tabs", ",": "commas", "|": "bars"}
    for other, name in names.items():
        if other != delimiter and other.encode() in header:
            given = "tab" if other == "\t" else other
            raise InvalidData(
                f"{path} has {name} between its columns; give --delimiter '{given}', and --decimal ',' if "
                "numbers are written like 1,5"
            )


def _read_parquet(path: Path) -> Table:
    return _files_as_table(path, [_ParquetFile.of(path)])


def _read_files(path: Path, files: Sequence[Path], base: Path) -> Table:
    """Return the table in several Parquet files, partitioned by the names of folders below ``base``."""
    if not files:
        raise InvalidData(f"{path} has no Parquet files; give a folder or a pattern that has some")
    if (other := next((file for file in files if file.suffix.lower() != ".parquet"), None)) is not None:
        raise InvalidData(f"{path} matches {other}; only Parquet files are read together, so convert it")
    arrow, datasets = pyarrow(), pyarrow("pyarrow.dataset")
    try:
        found = datasets.dataset(
            [str(file) for file in sorted(files)],
            format="parquet",
            partitioning="hive",
            partition_base_dir=str(base),
        )
    except (arrow.ArrowException, OSError, UnicodeDecodeError) as error:
        raise InvalidData(
            f"cannot read {path}: its first file is not a Parquet file, or a damaged one"
        ) from error
    partitions = [
        (Path(part.path), dict(sorted(datasets.get_partition_keys(part.partition_expression).items())))
        for part in found.get_fragments()
    ]
    return _files_as_table(path, [_ParquetFile.of(file, keys) for file, keys in partitions])


@attrs.frozen(eq=False)
class _ParquetFile:
    """A Parquet file, or one of several: its own columns, and those that the names of its folders add."""

    path: Path
    own: tuple[TableColumn, ...]
    rows: int
    keys: Mapping[str, float | str | None]

    @classmethod
    def of(cls, path: Path, keys: Mapping[str, float | str | None] | None = None) -> _ParquetFile:
        """Return what the end of the file says about it."""
        arrow, parquet = pyarrow(), pyarrow("pyarrow.parquet")
        try:
            with parquet.ParquetFile(path) as file:
                return cls(path, _arrow_columns(file.schema_arrow), file.metadata.num_rows, keys or {})
        except (arrow.ArrowException, OSError, UnicodeDecodeError) as error:
            raise InvalidData(f"cannot read {path}: it is not a Parquet file, or a damaged one") from error

    @property
    def columns(self) -> tuple[TableColumn, ...]:
        """All columns; those of folders last."""
        kinds = {name: "text" if isinstance(key, str) else "numbers" for name, key in self.keys.items()}
        return (*self.own, *(TableColumn(name, kind) for name, kind in kinds.items()))

    def values(self, name: str, *, words: bool = False) -> npt.NDArray[Any]:
        """Return a whole column; ``words`` to compare it with categories."""
        if name in self.keys:
            return self._constant(name, self.rows)
        arrow, parquet = pyarrow(), pyarrow("pyarrow.parquet")
        position = [column.name for column in self.own].index(name)
        try:
            with parquet.ParquetFile(self.path, pre_buffer=False) as file:
                stored = file.read(columns=[name]).column(0)
        except (arrow.ArrowException, OSError) as error:
            raise InvalidData(f"cannot read column {name!r} of {self.path}: the file is damaged") from error
        column = self.own[position]
        return _array_of(stored, _in_words(column) if words else column)

    def stored(self, names: Sequence[str]) -> Any:
        """Return columns with the types of the file; those of folders as the text in the folder's name."""
        arrow, parquet = pyarrow(), pyarrow("pyarrow.parquet")
        try:
            with parquet.ParquetFile(self.path, pre_buffer=False) as file:
                own = file.read(columns=[name for name in names if name not in self.keys])
        except (arrow.ArrowException, OSError) as error:
            raise InvalidData(f"cannot read {self.path}: the file is damaged") from error

        def repeated(name: str) -> Any:
            return arrow.array([self._folder(name)] * self.rows, arrow.string())

        return arrow.table({name: repeated(name) if name in self.keys else own[name] for name in names})

    def _folder(self, name: str) -> str | None:
        # As it is written: to pyarrow, store=007 is the number 7.
        if self.keys[name] is None:
            return None
        folders = [part.partition("=") for part in self.path.parts]
        return next(unquote(value) for key, _, value in reversed(folders) if unquote(key) == name)

    def blocks(self, names: Sequence[str], rows: int) -> Iterator[Table]:
        """Yield tables of these columns with at most ``rows`` records each."""
        arrow, parquet = pyarrow(), pyarrow("pyarrow.parquet")
        own = [name for name in names if name not in self.keys]
        with parquet.ParquetFile(self.path, pre_buffer=False, buffer_size=_FETCHED) as file:
            for batch in file.iter_batches(rows, columns=own, use_threads=False):
                if batch.num_rows:
                    part = arrow.Table.from_batches([batch])
                    yield self._block(part, [name for name in names if name in self.keys])

    def _block(self, part: Any, keys: Sequence[str]) -> Table:
        inside = arrow_table(self.path, part)
        kinds = {column.name: column for column in self.columns}
        columns = (*inside.columns, *(kinds[name] for name in keys))

        def values(position: int) -> npt.NDArray[Any]:
            if position < len(inside.columns):
                return inside.values(position)
            return self._constant(columns[position].name, inside.rows)

        def meanings(position: int) -> npt.NDArray[Any]:
            return inside.meanings(position) if position < len(inside.columns) else values(position)

        return Table(self.path, columns, inside.rows, values, meanings)

    def _constant(self, name: str, rows: int) -> npt.NDArray[Any]:
        key = self.keys[name]
        if isinstance(key, str):
            return np.full(rows, key, dtype=object)
        return np.full(rows, math.nan if key is None else float(key))


def _files_as_table(path: Path, files: Sequence[_ParquetFile]) -> Table:
    first = files[0]
    for other in files[1:]:
        _require_same_columns(first, other)
    columns = first.columns

    def values(position: int) -> npt.NDArray[Any]:
        name = columns[position].name
        return np.concatenate([file.values(name) for file in files])

    def meanings(position: int) -> npt.NDArray[Any]:
        name = columns[position].name
        return np.concatenate([file.values(name, words=True) for file in files])

    def blocks(names: Sequence[str], rows: int) -> Iterator[Table]:
        return itertools.chain.from_iterable(file.blocks(names, rows) for file in files)

    def stored(names: Sequence[str]) -> Any:
        parts = [file.stored(names) for file in files]
        if len({part.schema.remove_metadata() for part in parts}) > 1:
            # No common type of numbers holds all digits of both; text does.
            parts = [pyarrow().table({name: texts_of(part, name) for name in names}) for part in parts]
        return pyarrow().concat_tables(parts)

    return Table(path, columns, sum(file.rows for file in files), values, meanings, blocks, stored)


def texts_of(stored: Any, name: str) -> Any:
    """Return a column of a pyarrow table as text, as a text file would hold it; null stays null.

    Raises
    ------
    InvalidData
        If the column holds lists or anything else that is no line of text.
    """
    arrow, column = pyarrow(), stored[name]
    if arrow.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    try:
        return column.cast(arrow.string())
    except arrow.ArrowException as error:
        raise InvalidData(
            f"column {name!r} holds {column.type}, which text cannot stand for; turn it into numbers or text "
            "in the file"
        ) from error


def _require_same_columns(first: _ParquetFile, other: _ParquetFile) -> None:
    ours, theirs = ({column.name: column.holds for column in file.columns} for file in (first, other))
    for one, its, another in ((first, ours, theirs), (other, theirs, ours)):
        absent = next((name for name in its if name not in another), None)
        if absent is not None:
            lacking = other if one is first else first
            raise InvalidData(
                f"{one.path} has a column {absent!r} and {lacking.path} has not; files that are read "
                "together need the same columns"
            )
    differing = next((name for name in ours if ours[name] != theirs[name]), None)
    if differing is not None:
        raise InvalidData(
            f"column {differing!r} holds {ours[differing]} in {first.path} and {theirs[differing]} in "
            f"{other.path}; files that are read together need the same columns"
        )


def _arrow_columns(schema: Any) -> tuple[TableColumn, ...]:
    return tuple(TableColumn(field.name, _holds(field.type)) for field in schema)


def arrow_table(path: Path | str, content: Any) -> Table:
    """Return a pyarrow table as a ``Table``; messages call it ``path``."""
    columns = _arrow_columns(content.schema)

    def values(position: int) -> npt.NDArray[Any]:
        return _array_of(content.column(position), columns[position])

    def meanings(position: int) -> npt.NDArray[Any]:
        return _array_of(content.column(position), _in_words(columns[position]))

    def stored(names: Sequence[str]) -> Any:
        return content.select(list(names))

    return Table(path, columns, content.num_rows, values, meanings, stored=stored)


def _in_words(column: TableColumn) -> TableColumn:
    """Return how a column is read to compare it with categories: dates as text."""
    return attrs.evolve(column, holds="text") if column.holds == "dates" else column


def _days_of(stored: Any) -> npt.NDArray[Any]:
    """Return dates of pyarrow as days since 1970, the time of day as a fraction, NaN where one is missing."""
    arrow = pyarrow()
    kind = stored.type
    if arrow.types.is_date32(kind):
        in_a_day, whole = 1, arrow.int32()
    elif arrow.types.is_date64(kind):
        in_a_day, whole = 86_400_000, arrow.int64()
    else:
        in_a_day, whole = 86_400 * {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[kind.unit], arrow.int64()
    ticks = stored.cast(whole)
    absent = np.asarray(ticks.is_null().to_numpy(zero_copy_only=False), dtype=np.bool_)
    whole_days, rest = np.divmod(
        np.asarray(ticks.fill_null(0).to_numpy(zero_copy_only=False), dtype=np.int64), in_a_day
    )
    # Whole days first: so an instant is one number in every unit, and the unit depends on all records.
    days: npt.NDArray[Any] = whole_days + rest / in_a_day
    days[absent] = math.nan
    return days


def _array_of(stored: Any, column: TableColumn) -> npt.NDArray[Any]:
    arrow = pyarrow()
    as_type = arrow.float64() if column.holds == "numbers" else arrow.string()
    if arrow.types.is_dictionary(stored.type):
        stored = stored.cast(stored.type.value_type)
    if column.holds == "dates":
        return _days_of(stored)
    try:
        # Unsafe only in that integers above 2**53 are rounded to the nearest float64.
        plain = stored.cast(as_type, safe=False)
    except arrow.ArrowException as error:
        raise InvalidData(
            f"column {column.name!r} holds {column.holds}, which dpkit cannot use; turn it into numbers or "
            "text in the file"
        ) from error
    if column.holds == "numbers":
        return _numbers_of(plain)
    encoded = plain.combine_chunks().dictionary_encode(null_encoding="encode")
    distinct = np.array(encoded.dictionary.to_pylist(), dtype=object)
    text: npt.NDArray[Any] = distinct[_numbers_of(encoded.indices)]
    return text


def _numbers_of(stored: Any) -> npt.NDArray[Any]:
    """Return numbers of pyarrow, NaN where one is missing."""
    if stored.null_count:
        filled: npt.NDArray[Any] = stored.to_numpy(zero_copy_only=False)
        return filled
    # By DLPack, because the way above imports pandas where that is installed, which takes a second.
    chunks = [np.from_dlpack(chunk) for chunk in getattr(stored, "chunks", [stored]) if len(chunk)]
    return chunks[0] if len(chunks) == 1 else np.concatenate(chunks or [np.empty(0, dtype=np.int64)])


def _holds(kind: Any) -> str:
    types = pyarrow().types
    if types.is_dictionary(kind):
        kind = kind.value_type
    numeric = (types.is_boolean, types.is_integer, types.is_floating, types.is_decimal, types.is_null)
    if any(check(kind) for check in numeric):
        return "numbers"
    if any(check(kind) for check in (types.is_string, types.is_large_string, types.is_string_view)):
        return "text"
    if types.is_date(kind) or types.is_timestamp(kind):
        return "dates"
    return str(kind)


def _read_npz(path: Path) -> Table:
    arrays, found = read_arrays(path, ("X", "y", "names"))
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
    given = arrays.get("names", np.array([f"x{j + 1}" for j in range(X.shape[1])], dtype=str))
    if given.ndim != 1:
        raise InvalidData(
            f"{path} has names of shape {given.shape}; it must be (d,), one for each column of X"
        )
    names = list(map(str, given.tolist()))
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

    def stored(asked: Sequence[str]) -> Any:
        arrays = {name: X[:, j] for j, name in enumerate(names)} | {NPZ_TARGET: y}
        return pyarrow().table({name: np.ascontiguousarray(arrays[name]) for name in asked})

    return Table(path, columns, len(y), values, stored=stored)


def _npz_holds(array: npt.NDArray[Any]) -> str:
    return {"b": "numbers", "i": "numbers", "u": "numbers", "f": "numbers", "U": "text"}.get(
        array.dtype.kind, str(array.dtype)
    )
