"""A folder of results: one row per trial, written once and never changed.

    results/
      suite.json                what ran here, wildcards and recipes in full
      fresh/<key>.parquet       one trial each, while a suite runs
      trials-<hash>.parquet     all of them, once it is done

Files are written under another name and renamed, so they are complete or absent. A kill at any moment
therefore loses at most the trials in flight; at any other moment, also between packing and clearing, each
trial is readable at least once, and a reader counts a key once.

A folder holds one experiment, which may grow by tables, compositions, settings and splits but not change:
rows of two methods with one name must not end up in one median.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs
import pyarrow as arrow
from pyarrow import parquet

from dpkit_command_bench.errors import InvalidResults
from dpkit_command_bench.metrics import METRICS
from dpkit_command_bench.published import Published
from dpkit_command_bench.suite import ORIGINS, default_of
from dpkit_command_bench.trial import Row

_SAME = ("seed", "neighboring", "test_fraction")
_GROWING = ("epsilon", "delta", "k")
_DESCRIBING = ("summary", "reference")  # of a composition, for readers

_COLUMNS = {
    "string": "key suite table origin data_sha256 composition recipe neighboring unit outcome message "
    "certificate_sha256 code_sha256 dpkit numpy python",
    "int64": "seed records training_records features k split trial",
    "float64": "epsilon delta test_fraction spent_epsilon plan_seconds wall_seconds cpu_seconds "
    "peak_memory_mb",
    "bool_": "mechanism_private private",
    "list": "parts selected reasons",
}


def _schema() -> Any:
    columns = {**_COLUMNS, "float64": " ".join([_COLUMNS["float64"], *METRICS])}
    types = {
        kind: arrow.list_(arrow.string()) if kind == "list" else getattr(arrow, kind)() for kind in columns
    }
    return arrow.schema([(name, types[kind]) for kind, names in columns.items() for name in names.split()])


@attrs.frozen
class Results:
    """The results in one folder."""

    folder: Path

    @property
    def _fresh(self) -> Path:
        return self.folder / "fresh"

    def rows(self) -> list[Row]:
        """Return every row, each trial once, in the order of table, composition, settings and split.

        Raises
        ------
        InvalidResults
            If there is no such folder, it holds no trials, or a file in it cannot be read.
        """
        if not self.folder.is_dir():
            raise InvalidResults(
                f"there are no results in {self.folder}: it is not a folder; give one that dpkit bench wrote"
            )
        by_key = {row["key"]: row for row in self.stored()}
        if not by_key:
            raise InvalidResults(
                f"{self.folder} holds no trials; run `dpkit bench SUITE --results {self.folder}`"
            )
        suite = self.suite()
        names = [*suite.get("tables", {}), *suite.get("compositions", {})]
        places = {name: place for place, name in enumerate(names)}
        return sorted(by_key.values(), key=lambda row: _order(row, places))

    def suite(self) -> dict[str, Any]:
        """Return the suite of the rows, as plain data; empty if none was recorded.

        Raises
        ------
        InvalidResults
            If it cannot be read.
        """
        path = self.folder / "suite.json"
        try:
            suite = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
        except (OSError, ValueError) as error:
            raise InvalidResults(f"cannot read {path}: {error}; run the suite again with --resume") from error
        return dict(suite)

    def published(self) -> tuple[Published, ...]:
        """Return the published medians that the suite gives."""
        return tuple(Published.from_document(entry, "r2") for entry in self.suite().get("published", []))

    def stored(self, *columns: str) -> Iterator[Row]:
        """Yield stored rows, unordered and possibly with duplicates; with all columns, or those named."""
        files = [*sorted(self.folder.glob("trials-*.parquet")), *sorted(self._fresh.glob("*.parquet"))]
        return _read(files, columns)

    def add(self, row: Row) -> None:
        """Write the row of one trial."""
        with self._kept():
            self._fresh.mkdir(parents=True, exist_ok=True)
            self._write([row], self._fresh / f"{row['key']}.parquet")

    def begin(self, suite: Mapping[str, Any]) -> None:
        """Record which suite runs, merged with those that ran here before.

        Raises
        ------
        InvalidResults
            If the rows of the suite are not comparable with those that are here.
        """
        path = self.folder / "suite.json"
        plain = json.loads(json.dumps(suite))  # in the form in which it will be read
        grown = _grown(self._suite_of_rows(), plain, self.folder)
        with self._kept():
            self.folder.mkdir(parents=True, exist_ok=True)
        with self._kept(), _appearing(path) as temporary:
            temporary.write_text(json.dumps(grown, indent=2) + "\n", encoding="utf-8")

    def _suite_of_rows(self) -> dict[str, Any]:
        """Return the suite, without what has no rows: nothing has to be comparable with that."""
        rows = list(self.stored("table", "composition"))
        suite = self.suite() if rows else {}
        for kind, column in (("tables", "table"), ("compositions", "composition")):
            if kind in suite:
                held = {row[column] for row in rows}
                suite[kind] = {name: facts for name, facts in suite[kind].items() if name in held}
        return suite

    def pack(self) -> None:
        """Merge the files of single trials into one, then remove them."""
        fresh = sorted(self._fresh.glob("*.parquet"))
        if not fresh:
            return
        rows = list(_read(fresh))
        name = hashlib.sha256("".join(sorted(row["key"] for row in rows)).encode()).hexdigest()[:12]
        with self._kept():
            self._write(rows, self.folder / f"trials-{name}.parquet")
            for path in fresh:
                path.unlink()
            for path in self._fresh.iterdir():  # incomplete files of a killed run
                path.unlink()
            self._fresh.rmdir()

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the folder for one run: two would do every trial twice.

        Raises
        ------
        InvalidResults
            If another run has locked it, it cannot be written to, or it holds something other than results.
        """
        with self._kept():
            self.folder.mkdir(parents=True, exist_ok=True)
            self._require_own()
            lock = (self.folder / "lock").open("w")
        with lock as file:
            try:
                import fcntl
            except ImportError:
                yield
                return
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # released by the system, also after a kill
            except BlockingIOError as error:
                raise InvalidResults(
                    f"another dpkit bench writes to {self.folder}; wait for it, or choose another --results"
                ) from error
            yield

    def _require_own(self) -> None:
        """Refuse a folder of other files, since leftovers of a killed run are removed without asking."""
        names = [path.name for path in self.folder.iterdir()]
        strange = [name for name in names if name != "lock" and not name.startswith("suite.json")]
        if strange and "suite.json" not in names:
            raise InvalidResults(
                f"{self.folder} holds {strange[0]!r} and no results of dpkit bench; choose an empty or a new "
                "folder as --results"
            )

    @contextmanager
    def _kept(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise InvalidResults(
                f"cannot write to {self.folder}: {error.strerror or error}. Finished trials are kept: make "
                "room, or correct the permissions of the folder, and run again with --resume"
            ) from error

    def _write(self, rows: list[Row], path: Path) -> None:
        table = arrow.Table.from_pylist(rows, schema=_schema())
        with _appearing(path) as temporary:
            if len(rows) > 1:
                parquet.write_table(table, temporary, compression="zstd")
            else:  # takes a third of the time
                parquet.write_table(
                    table, temporary, compression="none", use_dictionary=False, write_statistics=False
                )


def _read(files: Iterable[Path], columns: Sequence[str] = ()) -> Iterator[Row]:
    wanted = columns or _schema().names
    for path in files:
        try:
            # Not parquet.read_table: it imports pandas where that is installed, and that takes a second.
            with parquet.ParquetFile(path) as file:
                held = set(file.schema_arrow.names)
                table = file.read(columns=sorted(held & set(wanted)))
        except (arrow.ArrowException, OSError) as error:
            raise InvalidResults(f"cannot read the results {path}: {error}; remove the file") from error
        if "key" not in held:
            raise InvalidResults(f"{path} was not written by dpkit bench; move it elsewhere")
        # A file of an earlier dpkit may lack columns; they are None.
        yield from ({name: row.get(name) for name in wanted} for row in table.to_pylist())


def _grown(known: Mapping[str, Any], suite: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Return the union of two suites; ``known`` is empty in a new folder."""
    if not known:
        return dict(suite)
    for fact in _SAME:
        if known.get(fact) != suite[fact]:
            raise _different(folder, fact, known.get(fact), suite[fact])
    for kind, meaning in (("tables", _table_meaning), ("compositions", _composition_meaning)):
        for name, facts in suite[kind].items():
            if name not in known.get(kind, {}):
                continue
            before, now = meaning(known[kind][name]), meaning(facts)
            if before != now:
                raise _different(folder, f"{kind}.{name}", before, now)
    return {
        **suite,
        **{kind: {**known.get(kind, {}), **suite[kind]} for kind in ("tables", "compositions")},
        **{axis: list(dict.fromkeys([*known.get(axis, []), *suite[axis]])) for axis in _GROWING},
        **{count: max(known.get(count, 1), suite[count]) for count in ("splits", "trials")},
    }


def _table_meaning(facts: Mapping[str, Any]) -> dict[str, Any]:
    has_origin = any(origin in facts for origin in ORIGINS)  # if so, a local file is a copy of the same table
    return {key: value for key, value in facts.items() if key != "file" or not has_origin}


def _composition_meaning(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parts and options of a composition, with its default accountant if it names none."""
    meaning = {key: value for key, value in facts.items() if key not in _DESCRIBING}
    accountant = default_of(facts)
    return meaning if accountant is None else meaning | {"accountant_by_default": accountant}


def _different(folder: Path, fact: str, before: Any, now: Any) -> InvalidResults:
    return InvalidResults(
        f"{folder} has results with {fact} = {json.dumps(before)}, and the suite now has {json.dumps(now)}: "
        "they are not comparable. Choose another --results"
    )


@contextmanager
def _appearing(path: Path) -> Iterator[Path]:
    """Yield a file to write that becomes ``path`` once it is complete and on disk."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}.part")
    yield temporary
    with temporary.open("rb") as file:
        os.fsync(file.fileno())
    temporary.replace(path)


def _order(row: Row, places: Mapping[str, int]) -> tuple[Any, ...]:
    last = len(places)
    return (
        places.get(row["table"], last), row["table"],
        places.get(row["composition"], last), row["composition"],
        row["epsilon"], row["delta"], row["k"] or 0, row["split"], row["trial"], row["key"],
    )  # fmt: skip
