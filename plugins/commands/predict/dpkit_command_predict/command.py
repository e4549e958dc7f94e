"""``dpkit predict``: a released model, applied to a table."""

from __future__ import annotations

import enum
import io
import itertools
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import attrs
import typer
from dpkit_cli.options import (
    STANDARD,
    ReadingOptions,
    grouped,
    note,
    require_elsewhere,
    split_names,
)

from dpkit_core.errors import InvalidData, InvalidOption
from dpkit_core.text import number_of

if TYPE_CHECKING:
    import pyarrow as pa


class FileFormat(enum.StrEnum):
    """How predictions are written, and how the name of such a file ends."""

    CSV = "csv"
    JSON = "json"
    PARQUET = "parquet"


@attrs.frozen
class PredictionOptions:
    """What is printed of each prediction, and where."""

    panel: ClassVar[None] = None
    keep: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMNS",
            help="Columns of DATA to copy, unchanged, next to the predictions, such as id,name. Repeatable.",
        ),
    ] = None
    called: Annotated[
        str | None,
        typer.Option(
            "--as",
            metavar="NAME",
            help="Name of the prediction column.",
            show_default="prediction; for a categorical target, its name",
        ),
    ] = None
    threshold: Annotated[
        float | None,
        typer.Option(
            metavar="P",
            help="Predict the positive category at this probability or more.",
            show_default="0.5",
        ),
    ] = None
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="A .csv, .json or .parquet file.",
            show_default="-, standard output",
        ),
    ] = STANDARD
    format: Annotated[
        FileFormat | None,
        typer.Option(
            help="How to write: csv; json, one object with a list of records; or parquet.",
            show_default="by the name of --output, else csv",
        ),
    ] = None

    def file_format(self) -> FileFormat:
        """Return how to write, which the name of the output and the format have to agree about."""
        if self.output == STANDARD:
            chosen = self.format or FileFormat.CSV
            if chosen is FileFormat.PARQUET and sys.stdout.isatty():
                raise InvalidOption("Parquet is not readable on a terminal; name a file with --output")
            return chosen
        by_name = {f".{known}": known for known in FileFormat}.get(self.output.suffix.lower(), self.format)
        if by_name is None:
            raise InvalidOption(
                f"--output is {self.output}; its name must end in .csv, .json or .parquet, or --format must "
                "say how to write it"
            )
        if self.format not in (None, by_name):
            raise InvalidOption(
                f"--output is {self.output} and --format is {self.format}; leave --format out, or choose "
                "another name"
            )
        return by_name


@grouped
def predict(
    release: Annotated[
        Path, typer.Argument(metavar="RELEASE", help="A release written by `dpkit compose` or `dpkit run`.")
    ],
    data: Annotated[
        str,
        typer.Argument(
            metavar="DATA",
            help="A table with the columns that the model uses, in any format that compose reads; - is "
            "standard input. It needs no target.",
        ),
    ],
    *,
    wanted: PredictionOptions,
    reading: ReadingOptions,
) -> None:
    """Print one prediction for each record of DATA, at no privacy cost: the model is public.

    Numbers are in a column named prediction. For a categorical target, a column named after it has the
    predicted category. Columns TARGET=CATEGORY have probabilities: that of the positive category, which is
    predicted at --threshold or above, or those of all classes, of which the most probable is predicted.

    Missing values follow the rules of the release's schema. Without a rule, or if the rule was to drop the
    record, the prediction is nan (null in JSON), and there is no category.

    The columns of --keep come first and are copied unchanged: 007 stays 007, and an id of twenty digits
    keeps them all. They are as private as they are in DATA.

    The table is read and written in batches, so it can be larger than memory. If a record cannot be read, no
    file is written; on standard output, the predictions before it have already been printed.
    """
    from dpkit_cli import render

    from dpkit_core.files.writing import reserved

    output, counted = wanted.output, _Counted()
    pieces = _pieces(release, data, wanted, reading, counted)
    if output == STANDARD:
        _print(pieces)
    else:
        require_elsewhere(output, (release, data))
        with reserved(output, replace=True) as file, render.progress() as progress:
            progress("predicting", 0, 1)
            file.write(pieces)
    if counted.without:
        lack = f"{counted.without} of {number_of(counted.records, 'record')}"
        lack += " lacks" if counted.without == 1 else " lack"
        note(f"{lack} a value that the model needs; the prediction is nan")
    if output != STANDARD:
        note(f"wrote {output}: {number_of(counted.records, 'prediction')}")


@attrs.define
class _Counted:
    """How many records were read, and how many of them have no prediction."""

    records: int = 0
    without: int = 0

    def through(self, batches: Iterable[pa.RecordBatch], column: int) -> Iterator[pa.RecordBatch]:
        """Yield batches that have a prediction in ``column``, and count them."""
        for batch in batches:
            self.records += batch.num_rows
            self.without += batch.column(column).is_null(nan_is_null=True).sum().as_py() or 0
            yield batch


def _pieces(
    release: Path, data: str, wanted: PredictionOptions, reading: ReadingOptions, counted: _Counted
) -> Iterator[bytes]:
    """Return the content of the output piece by piece; nothing is read before the first one."""
    keep = split_names(wanted.keep or [], "--keep") or []
    write = _WRITERS[wanted.file_format()]
    options = reading.read_options()

    def pieces() -> Iterator[bytes]:
        from dpkit_command_predict.predictions import predictions
        from dpkit_core.release.release import Release

        batches = predictions(
            Release.read(release), data, keep, name=wanted.called, threshold=wanted.threshold, options=options
        )
        yield from write(counted.through(batches, len(keep)), len(keep))

    return pieces()


def _print(pieces: Iterable[bytes]) -> None:
    binary = getattr(sys.stdout, "buffer", None)  # a program that calls us may have put text in its place
    for piece in pieces:
        if binary is None:
            sys.stdout.write(piece.decode())
        else:
            binary.write(piece)


def _lists(batch: pa.RecordBatch, kept: int) -> list[list[Any]]:
    """Return the columns of a batch as Python knows them; what is kept, as text."""
    texts = [_texts(batch.column(j), batch.schema.names[j]) for j in range(kept)]
    return [column.to_pylist() for column in (*texts, *batch.columns[kept:])]


def _texts(entries: pa.Array, name: str) -> pa.Array:
    """Return a column as text, as a text file would hold it; null stays null.

    Raises
    ------
    InvalidData
        If it holds lists or anything else that cannot be one line of text.
    """
    import pyarrow as pa

    if isinstance(entries, pa.ExtensionArray):  # a database's exact numbers
        return _texts(entries.storage, name)
    if pa.types.is_dictionary(entries.type):
        entries = entries.dictionary_decode()
    try:
        return entries.cast(pa.string())
    except pa.ArrowException as error:
        raise InvalidData(
            f"column {name!r} holds {entries.type}, which cannot be written as text; convert it to numbers "
            "or text in the table"
        ) from error


def _csv(batches: Iterable[pa.RecordBatch], kept: int) -> Iterator[bytes]:
    import csv

    header = True
    for batch in batches:
        text = io.StringIO()
        rows = csv.writer(text, lineterminator="\n")
        if header:
            rows.writerow(batch.schema.names)
        rows.writerows(zip(*_lists(batch, kept), strict=True))
        header = False
        yield text.getvalue().encode()


def _json(batches: Iterable[pa.RecordBatch], kept: int) -> Iterator[bytes]:
    import json
    import math

    # A record on each line: a program reads it as any object, and a person can, too.
    before = '{"predictions": [\n  '
    for batch in batches:
        lines = []
        for row in zip(*_lists(batch, kept), strict=True):
            values = (None if isinstance(value, float) and math.isnan(value) else value for value in row)
            lines.append(before + json.dumps(dict(zip(batch.schema.names, values, strict=True))))
            before = ",\n  "
        yield "".join(lines).encode()
    yield b"\n]}\n" if before == ",\n  " else b'{"predictions": []}\n'


def _parquet(batches: Iterable[pa.RecordBatch], kept: int) -> Iterator[bytes]:
    import pyarrow.parquet as pq

    batches = iter(batches)
    first = next(batches)
    written = io.BytesIO()  # Arrow counts what it has written, so this can be emptied
    with pq.ParquetWriter(written, first.schema) as file:
        for batch in itertools.chain([first], batches):
            file.write_batch(_of_types(batch, first.schema))
            yield _taken(written)
    yield _taken(written)


def _taken(written: io.BytesIO) -> bytes:
    """Empty a buffer, and return what it held."""
    content = written.getvalue()
    written.seek(0)
    written.truncate()
    return content


def _of_types(batch: pa.RecordBatch, wanted: pa.Schema) -> pa.RecordBatch:
    """Return a batch with the types of the first one: the files of a folder may have others."""
    import pyarrow as pa

    columns = []
    for field, column in zip(wanted, batch.columns, strict=True):
        try:
            columns.append(column.cast(field.type))
        except pa.ArrowException:
            raise InvalidData(
                f"--keep {field.name}: it is {field.type} in one file and {column.type} in another, but a "
                "Parquet column has one type; write CSV or JSON instead"
            ) from None
    return pa.RecordBatch.from_arrays(columns, schema=wanted)


_WRITERS: dict[FileFormat, Callable[[Iterable[pa.RecordBatch], int], Iterator[bytes]]] = {
    FileFormat.CSV: _csv,
    FileFormat.JSON: _json,
    FileFormat.PARQUET: _parquet,
}
