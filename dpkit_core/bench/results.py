"""A folder of results: one row a trial, written once and never changed.

    results/
      suite.json                what ran last, wildcards and recipes in full
      fresh/<key>.parquet       one trial each, while a suite runs
      trials-<hash>.parquet     all of them, once it is done

A file appears by being renamed, whole or not at all. A kill at any moment therefore loses at most the trials
in flight, and every other moment of this story, also between packing and clearing, leaves each trial readable
at least once; a reader counts a key once.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs

from dpkit_core.bench.metrics import METRICS
from dpkit_core.bench.published import Published
from dpkit_core.bench.trial import Row
from dpkit_core.errors import InvalidResults
from dpkit_core.tables import pyarrow

_COLUMNS = {
    "string": "key suite table origin data_sha256 composition recipe neighboring outcome message "
    "certificate_sha256 dpkit numpy python",
    "int64": "seed records training_records features k split trial",
    "float64": "epsilon delta test_fraction spent_epsilon plan_seconds wall_seconds cpu_seconds "
    "peak_memory_mb",
    "bool_": "mechanism_private private",
    "list": "parts selected reasons",
}


def _schema() -> Any:
    arrow = pyarrow()
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
            raise InvalidResults(f"there are no results in {self.folder}: it is not a folder")
        by_key = {row["key"]: row for row in self._read(self._files())}
        if not by_key:
            raise InvalidResults(
                f"{self.folder} holds no trials; run `dpkit bench SUITE --results {self.folder}`"
            )
        suite = self.suite()
        names = [*suite.get("tables", {}), *suite.get("compositions", {})]
        places = {name: place for place, name in enumerate(names)}
        return sorted(by_key.values(), key=lambda row: _order(row, places))

    def suite(self) -> dict[str, Any]:
        """Return the suite that the rows are of, as plain data; empty where none was noted.

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

    def keys(self) -> set[str]:
        """Return the keys of the trials that are done."""
        return {row["key"] for row in self._read(self._files(), ["key"])}

    def add(self, row: Row) -> None:
        """Write the row of one trial."""
        self._fresh.mkdir(parents=True, exist_ok=True)
        self._write([row], self._fresh / f"{row['key']}.parquet")

    def begin(self, suite: Mapping[str, Any]) -> None:
        """Note which suite runs."""
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / "suite.json"
        with _appearing(path) as temporary:
            temporary.write_text(json.dumps(suite, indent=2) + "\n", encoding="utf-8")

    def pack(self) -> None:
        """Gather the files of single trials into one, then remove them."""
        fresh = sorted(self._fresh.glob("*.parquet"))
        if not fresh:
            return
        rows = list(self._read(fresh))
        name = hashlib.sha256("".join(sorted(row["key"] for row in rows)).encode()).hexdigest()[:12]
        self._write(rows, self.folder / f"trials-{name}.parquet")
        for path in fresh:
            path.unlink()
        for path in self._fresh.iterdir():  # what a killed run was writing
            path.unlink()
        self._fresh.rmdir()

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep the folder for one run: two would do every trial twice.

        Raises
        ------
        InvalidResults
            If another run has it.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / "lock").open("w") as file:
            try:
                import fcntl  # noqa: PLC0415 - where there is none, the folder is not locked
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

    def _files(self) -> list[Path]:
        return [*sorted(self.folder.glob("trials-*.parquet")), *sorted(self._fresh.glob("*.parquet"))]

    def _read(self, files: Iterable[Path], columns: list[str] | None = None) -> Iterator[Row]:
        arrow, parquet = pyarrow(), pyarrow("pyarrow.parquet")
        for path in files:
            try:
                yield from parquet.read_table(path, columns=columns, partitioning=None).to_pylist()
            except (arrow.ArrowException, OSError) as error:
                raise InvalidResults(f"cannot read the results {path}: {error}; remove the file") from error

    def _write(self, rows: list[Row], path: Path) -> None:
        table = pyarrow().Table.from_pylist(rows, schema=_schema())
        with _appearing(path) as temporary:
            pyarrow("pyarrow.parquet").write_table(table, temporary, compression="zstd")


@contextmanager
def _appearing(path: Path) -> Iterator[Path]:
    """Give a file to write that becomes ``path`` when it is whole and on the disk."""
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
