"""``dpkit predict``: a released model, applied to a table."""

from __future__ import annotations

import enum
import io
import itertools
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpkit_core.commands.options import (
    DecimalOption,
    DelimiterOption,
    EncodingOption,
    MissingOption,
    SpoolOption,
    TableOption,
    ThousandsOption,
    split_names,
)

if TYPE_CHECKING:
    import pyarrow as pa


class FileFormat(enum.StrEnum):
    """How predictions are written, and how the name of such a file ends."""

    CSV = "csv"
    JSON = "json"
    PARQUET = "parquet"


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
    keep: Annotated[
        list[str] | None,
        typer.Option(
            "--keep",
            metavar="COLUMNS",
            help="Columns of DATA to copy, unchanged, next to the predictions, such as id,name. Repeatable.",
        ),
    ] = None,
    called: Annotated[
        str | None,
        typer.Option(
            "--as",
            metavar="NAME",
            help="Name of the prediction column.",
            show_default="prediction; for a categorical target, its name",
        ),
    ] = None,
    threshold: Annotated[
        float | None,
        typer.Option(
            "--threshold",
            metavar="P",
            help="Predict the positive category from this probability on.",
            show_default="0.5",
        ),
    ] = None,
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="A .csv, .json or .parquet file.",
            show_default="-, standard output",
        ),
    ] = Path("-"),
    format: Annotated[
        FileFormat | None,
        typer.Option(
            "--format",
            help="How to write: csv; json, one object with a list of records; or parquet.",
            show_default="by the name of --output, else csv",
        ),
    ] = None,
    delimiter: DelimiterOption = None,
    decimal: DecimalOption = ".",
    thousands: ThousandsOption = "",
    missing: MissingOption = None,
    encoding: EncodingOption = None,
    table: TableOption = None,
    spool: SpoolOption = None,
) -> None:
    """Print one prediction for each record of DATA. Costs no privacy: the model is public.

    Numbers are in a column named prediction. For a categorical target, a column named after it has the
    predicted category, and TARGET=CATEGORY the probability: of the positive category, which is predicted
    from --threshold on, or of each class, the most probable of which is predicted.

    Missing values follow the rules of the release's schema. Without a rule, or if the rule was to drop the
    record, the prediction is nan (null in JSON), and there is no category.

    The columns of --keep come first and are copied unchanged: 007 stays 007, and an id of twenty digits
    keeps them all. They are as private as they are in DATA.

    The table is read and written in batches, so it can be larger than memory. If a record cannot be read, no
    file is written; on standard output, the predictions before it have already been printed.
    """
    import sys

    from dpkit_core.cli._outputs import STANDARD
    from dpkit_core.commands import render
    from dpkit_core.commands.options import note, require_elsewhere
    from dpkit_core.data.source import ReadOptions
    from dpkit_core.errors import InvalidOption
    from dpkit_core.files.writing import reserved
    from dpkit_core.release.release import Release
    from dpkit_core.text import number_of

    kept = split_names(keep or [], "--keep") or []
    chosen = _format_of(output, format)
    if chosen is FileFormat.PARQUET and output == STANDARD and sys.stdout.isatty():
        raise InvalidOption("Parquet is not readable on a terminal; name a file with --output")
    options = ReadOptions(
        table=table,
        delimiter=delimiter,
        encoding=encoding,
        decimal=decimal,
        thousands=thousands,
        missing=missing or (),
        spool=spool,
    )
    count = without = 0

    def pieces() -> Iterator[bytes]:
        nonlocal count, without
        released = Release.read(release)
        batches = released.predictions(data, kept, name=called, threshold=threshold, options=options)

        def counted() -> Iterator[pa.RecordBatch]:
            nonlocal count, without
            for batch in batches:
                count += batch.num_rows
                without += _nothing(batch.column(len(kept)))
                yield batch

        yield from _WRITERS[chosen](counted(), len(kept))

    if output == STANDARD:
        binary = getattr(sys.stdout, "buffer", None)  # not where a program took its place by one of text
        for piece in pieces():
            if binary is None:
                sys.stdout.write(piece.decode())
            else:
                binary.write(piece)
    else:
        require_elsewhere(output, (release, data))
        with reserved(output, replace=True) as file, render.progress() as progress:
            progress("predicting", 0, 1)
            file.write(pieces())
    if without:
        lack = f"{without} of {number_of(count, 'record')} {'lacks' if without == 1 else 'lack'}"
        note(f"{lack} a value that the model needs; the prediction is nan")
    if output != STANDARD:
        note(f"wrote {output}: {number_of(count, 'prediction')}")


def _nothing(column: pa.Array) -> int:
    """Return how many of a column's entries are no prediction."""
    missing = column.is_null(nan_is_null=True).sum().as_py()
    return int(missing or 0)


def _format_of(output: Path, asked: FileFormat | None) -> FileFormat:
    from dpkit_core.cli._outputs import STANDARD
    from dpkit_core.errors import InvalidOption

    if output == STANDARD:
        return asked or FileFormat.CSV
    by_name = {f".{known}": known for known in FileFormat}.get(output.suffix.lower())
    if by_name is None and asked is None:
        raise InvalidOption(
            f"--output is {output}; its name must end in .csv, .json or .parquet, or --format must say how "
            "to write it"
        )
    if by_name is not None and asked not in (None, by_name):
        raise InvalidOption(
            f"--output is {output} and --format is {asked}; leave --format out, or choose another name"
        )
    return asked or by_name or FileFormat.CSV


def _lists(batch: pa.RecordBatch, kept: int) -> list[list[Any]]:
    """Return the columns of a batch as Python knows them; what is kept, as text."""
    from dpkit_core.release.predictions import texts_of

    texts = [texts_of(batch.column(j), batch.schema.names[j]) for j in range(kept)]
    return [column.to_pylist() for column in (*texts, *batch.columns[kept:])]


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
    pieces = _Pieces()
    with pq.ParquetWriter(pieces, first.schema) as file:
        for batch in itertools.chain([first], batches):
            file.write_batch(_of_types(batch, first.schema))
            yield pieces.taken()
    yield pieces.taken()


def _of_types(batch: pa.RecordBatch, wanted: pa.Schema) -> pa.RecordBatch:
    """Return a batch with the types of the first one: the files of a folder may have others."""
    import pyarrow as pa

    from dpkit_core.errors import InvalidData

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


class _Pieces(io.RawIOBase):
    """What is written to it, to be taken away piece by piece."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._end = 0

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._end

    def write(self, piece: Any) -> int:
        content = bytes(piece)
        self._pieces.append(content)
        self._end += len(content)
        return len(content)

    def taken(self) -> bytes:
        """Return what was written since this was asked last."""
        content = b"".join(self._pieces)
        self._pieces.clear()
        return content


_WRITERS = {FileFormat.CSV: _csv, FileFormat.JSON: _json, FileFormat.PARQUET: _parquet}
