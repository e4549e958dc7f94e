"""Finding the source that reads a table, by the suffix of its name or the scheme of its URL.

Each is an entry point of the group ``dpkit.sources``: a suffix such as ``.csv``, the scheme of an URL
such as ``postgresql``, or ``-`` for standard input. Its value is a function that takes the name and the
options and returns a ``Source``. Only the one that is needed is imported::

    [project.entry-points."dpkit.sources"]
    ".csv" = "dpkit_source_text:open_text"
"""

from __future__ import annotations

import difflib
import glob
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from dpkit_core.data.fields import require_names
from dpkit_core.data.source import ReadOptions, Source, is_frame
from dpkit_core.errors import BrokenPlugin, InvalidData, install
from dpkit_core.plugins.registry import load_target
from dpkit_core.plugins.resources import find_resource, resources

if TYPE_CHECKING:
    from dpkit_core.plugins.kinds import ComponentRef

#: Suffixes that may follow the one of the format.
PACKED = frozenset({".gz", ".zst", ".bz2"})

#: The folder of the plugin that would read a table that no installed source reads, or how to convert it.
ELSEWHERE = {
    **dict.fromkeys((".csv", ".tsv", "-"), "/text"),
    ".txt": "rename it to .csv, or to .tsv if it is tab-separated",
    **dict.fromkeys((".parquet", ".feather", ".arrow", ".arrows", ".ipc"), "/columnar"),
    **dict.fromkeys(("file", "s3", "gs", "gcs", "hdfs", "abfs", "abfss"), "/columnar"),
    ".npz": "/npz",
    **dict.fromkeys((".sqlite", ".db", ".duckdb"), "/sql"),
    **dict.fromkeys(("postgresql", "postgres", "sqlite", "duckdb"), "/sql"),
    **dict.fromkeys((".xlsx", ".xls", ".ods"), "export the sheet as CSV"),
    **dict.fromkeys(
        (".json", ".jsonl", ".ndjson"),
        "convert it to Parquet, for example with duckdb -c \"copy (from 'TABLE.jsonl') to 'TABLE.parquet'\"",
    ),
    **dict.fromkeys(
        (".dta", ".sav", ".sas7bdat", ".rds"), "export it as CSV or Parquet from its own program"
    ),
    **dict.fromkeys((".pkl", ".pickle"), "reading a pickle runs code in it; save it as Parquet"),
    **dict.fromkeys(("http", "https", "ftp"), "download it first"),
    **dict.fromkeys(("mysql", "mariadb", "oracle", "mssql"), "export the table as Parquet or CSV"),
}


def open_source(where: str | Path | Any, options: ReadOptions = ReadOptions()) -> Source:
    """Return the source of a table: a file, a folder, a pattern, an address, ``-``, or a table in memory.

    Parameters
    ----------
    where
        The name of a file (``visits.csv``, ``visits.csv.gz``), a folder or a pattern (``visits/*.parquet``)
        of files that are read together, an address (``postgresql://host/clinic``), ``-`` for standard input;
        a table of pandas, polars or pyarrow, a relation of DuckDB or any Arrow stream; or a source.
    options
        How to read it, where the table itself does not show it.

    Raises
    ------
    InvalidData
        If no installed source reads it, naming one that would, or if the columns have no proper names.
    BrokenPlugin
        If the entry point that should read it does not return a source.

    Examples
    --------
    >>> source = open_source("docs/data/diamonds.parquet")
    >>> source.fields.names[:3]
    ['carat', 'cut', 'color']
    """
    if is_frame(where):
        from dpkit_core.data.frames import frame_source  # noqa: PLC0415 - sources are listed without pyarrow

        source: Source = frame_source(where, options)
    elif isinstance(where, str | Path):
        ref = _found(str(where))
        opened = admit(ref, load_target(ref))(str(where), options)
        if not isinstance(opened, Source):
            raise BrokenPlugin(f"{ref} is not a source: {ref.target} returned a {type(opened).__name__}")
        source = opened
    elif isinstance(where, Source):
        source = where
    else:
        raise InvalidData(
            f"a {type(where).__name__} is not a table; give the name of a file, an address, or a table in "
            "memory"
        )
    require_names(source)
    return source


def admit(ref: ComponentRef, target: object) -> Callable[[str, ReadOptions], Source]:
    """Return the function that an entry point names.

    Raises
    ------
    BrokenPlugin
        If it cannot be called.
    """
    if not callable(target):
        raise BrokenPlugin(
            f"{ref} cannot be called: a source's entry point must name a function that takes a name and "
            f"ReadOptions and returns a Source. Tell the authors of {ref.distribution}"
        )
    return cast(Callable[[str, ReadOptions], Source], target)


def suffix_of(name: str) -> str:
    """Return the suffix of the format, without that of compression.

    >>> suffix_of("visits.csv.gz"), suffix_of("VISITS.CSV")
    ('.csv', '.csv')
    """
    return unpacked(Path(name)).suffix.lower()


def unpacked(path: Path) -> Path:
    """Return a path without the suffix of compression."""
    return path.with_suffix("") if path.suffix.lower() in PACKED else path


def _found(where: str) -> ComponentRef:
    """Return the entry point that reads a table of this name."""
    known = {ref.name: ref for ref in resources("sources")}
    key, called = _key(where, known)
    if key in known:
        return find_resource("sources", key)
    kind = f"the address {called}" if "://" in where else called
    if key in ELSEWHERE:
        hint = ELSEWHERE[key]
        if hint.startswith("/"):
            hint = f"install what does: {install(f'/plugins/sources{hint}')}"
        raise InvalidData(f"cannot read {kind}: nothing installed reads it; {hint}")
    near = difflib.get_close_matches(key, known, n=1)
    raise InvalidData(
        f"cannot tell the format of {kind} by its {'beginning' if '://' in where else 'end'}"
        + (f"; did you mean {near[0]!r}?" if near else ";")
        + f" the installed sources read {', '.join(sorted(known)) or 'nothing'}. Convert or rename it"
    )


def _key(where: str, known: Iterable[str]) -> tuple[str, str]:
    """Return the name of the entry point, and what messages call the table."""
    if where in {"-", "/dev/stdin"}:
        return "-", "standard input"
    if address := re.match(r"([A-Za-z][A-Za-z0-9+.-]*):/", where):
        # Never more of an address than this: it may hold a password.
        return address[1].lower(), f"{address[1]}://..."
    path = Path(where)
    try:
        if path.is_dir():
            return _of_files(where, (file for file in path.rglob("*") if file.is_file()), path, known), where
        if glob.has_magic(where) and not path.exists():
            files = (Path(name) for name in glob.glob(where, recursive=True))
            return _of_files(where, (file for file in files if file.is_file()), Path(), known), where
        if not path.exists():
            raise InvalidData(f"cannot read {where}: No such file or directory")
    except ValueError as error:  # a zero byte
        raise InvalidData(f"cannot read {where!r}: {error}") from error
    return suffix_of(where), where


def _of_files(where: str, files: Iterable[Path], below: Path, known: Iterable[str]) -> str:
    """Return the one suffix of a folder's readable files; hidden ones do not count."""
    ends: dict[str, Path] = {}
    for file in files:
        shown = file.relative_to(below) if file.is_relative_to(below) else file
        if not any(part.startswith((".", "_")) for part in shown.parts) and suffix_of(str(file)) in known:
            ends.setdefault(suffix_of(str(file)), file)
    if not ends:
        raise InvalidData(
            f"{where} has no files that an installed source reads; give a folder or a pattern that has some"
        )
    if len(ends) > 1:
        one, other = list(ends.values())[:2]
        raise InvalidData(
            f"{where} has {one} and {other}; files that are read together need the same format; give a "
            "pattern such as folder/*.parquet"
        )
    return next(iter(ends))
