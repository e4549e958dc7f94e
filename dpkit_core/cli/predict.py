"""``dpkit predict``: a released model, applied to a table."""

from __future__ import annotations

import enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpkit_core.cli._options import DecimalOption, DelimiterOption, MissingOption, split_names

if TYPE_CHECKING:
    from dpkit_core.data.arrays import Matrix, Vector
    from dpkit_core.data.readers import Table
    from dpkit_core.release.release import Release

_COLUMN = "prediction"


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
        Path,
        typer.Argument(
            metavar="DATA", help="A table with the columns that the model uses; no target needed."
        ),
    ],
    keep: Annotated[
        list[str] | None,
        typer.Option(
            "--keep",
            metavar="COLUMNS",
            help="Columns of DATA to write beside the predictions, such as id,name: as they are in the file, "
            "digit by digit. Repeatable.",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="A .csv, .json or .parquet file.",
            show_default="standard output",
        ),
    ] = None,
    format: Annotated[
        FileFormat | None,
        typer.Option(
            "--format",
            help="How to write: csv; json, one object with a list of records; or parquet.",
            show_default="by the name of --output, else csv",
        ),
    ] = None,
    *,
    delimiter: DelimiterOption = None,
    decimal: DecimalOption = ".",
    missing: MissingOption = None,
) -> None:
    """Print one prediction for each record of DATA. Costs no privacy: the model is public.

    Missing values are treated by the rules of the release's schema. Where there is none, or the rule was to
    leave such records out, the prediction is nan, in JSON null. Of a target of several classes, the columns
    are the probabilities of each.

    What --keep names comes first and is copied, not read: 007 stays 007, and an id of twenty digits has all
    of them. It is as private as it is in DATA.
    """
    import sys

    import numpy as np

    from dpkit_core.cli._outputs import require_elsewhere
    from dpkit_core.commands.options import note
    from dpkit_core.data.readers import Dialect, read_table
    from dpkit_core.errors import InvalidOption
    from dpkit_core.files.writing import reserved
    from dpkit_core.release.release import Release
    from dpkit_core.text import number_of

    kept = split_names(keep or [], "--keep") or []
    chosen = _format_of(output, format)
    if chosen is FileFormat.PARQUET and output is None and sys.stdout.isatty():
        raise InvalidOption("Parquet is nothing to read on a terminal; name a file with --output")

    def predictions() -> tuple[bytes, int]:
        """Return the content of the file, and of how many records it is."""
        released = Release.read(release)
        table = read_table(data, dialect=Dialect(delimiter, decimal, missing))
        names = getattr(released.model, "classes", (_COLUMN,))
        _require_columns(table, kept, names)
        predicted = released.predict(_model_matrix(released, table)).reshape(-1, len(names))
        without = int(np.isnan(predicted).any(axis=1).sum())
        if without:
            lack = f"{without} of {number_of(len(predicted), 'record')} {'lacks' if without == 1 else 'lack'}"
            note(f"{lack} a value that the model needs: nan")
        stored = table.stored(kept) if kept else None
        return _WRITERS[chosen](stored, dict(zip(names, predicted.T, strict=True))), len(predicted)

    if output is None:
        content, _ = predictions()
        if chosen is FileFormat.PARQUET:
            sys.stdout.buffer.write(content)
        else:
            sys.stdout.write(content.decode())
        return
    require_elsewhere(output, (release, data))
    with reserved(output, replace=True) as file:
        content, count = predictions()
        file.write(content)
    note(f"wrote {output}: {number_of(count, 'prediction')}")


def _format_of(output: Path | None, asked: FileFormat | None) -> FileFormat:
    from dpkit_core.errors import InvalidOption

    if output is None:
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


def _require_columns(table: Table, kept: list[str], predicted: tuple[str, ...]) -> None:
    """Raise unless the table has the columns to keep, and none of them is called as a prediction is."""
    from dpkit_core.errors import InvalidData, InvalidOption

    for name in kept:
        try:
            table.find(name)
        except InvalidData as error:
            # What may have been meant, and the names that there are, the table says.
            raise InvalidOption(
                f"--keep {name}: {error}. Keep columns by the names they have there"
            ) from None
        if name in predicted:
            raise InvalidOption(
                f"--keep {name}: the predictions themselves go into a column of that name; rename the one of "
                "the table, or leave it out"
            )


def _model_matrix(release: Release, table: Table) -> Matrix:
    import numpy as np

    from dpkit_core.data.readers import feature_matrix
    from dpkit_core.errors import InvalidData, InvalidRelease

    known = {feature.name: feature for feature in release.certificate.schema.features}
    wanted = () if release.model is None else release.model.features
    missing = [name for name in wanted if name not in known]
    if missing:
        raise InvalidRelease(
            f"the model uses {missing[0]!r}, which is no feature of the certificate's schema; the release "
            "file was changed or is damaged"
        )
    features = [known[name] for name in wanted]
    X = feature_matrix(table, features)
    for feature, column in zip(features, X.T, strict=True):
        if np.isinf(column).any():
            raise InvalidData(
                f"column {feature.column!r} has infinite values, for which the model has no prediction; "
                "remove or replace them"
            )
    return X


def _texts(stored: Any) -> dict[str, list[str | None]]:
    from dpkit_core.data.readers import texts_of

    return (
        {} if stored is None else {name: texts_of(stored, name).to_pylist() for name in stored.column_names}
    )


def _csv(stored: Any, predictions: dict[str, Vector]) -> bytes:
    import csv
    import io

    columns = {**_texts(stored), **{name: column.tolist() for name, column in predictions.items()}}
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(columns)
    rows.writerows(zip(*columns.values(), strict=True))
    return text.getvalue().encode()


def _json(stored: Any, predictions: dict[str, Vector]) -> bytes:
    import json
    import math

    numbers = {
        name: [None if math.isnan(value) else value for value in column.tolist()]
        for name, column in predictions.items()
    }
    columns = {**_texts(stored), **numbers}
    # A record on each line: a program reads it as any object, and a person can, too.
    records = (
        json.dumps(dict(zip(columns, row, strict=True))) for row in zip(*columns.values(), strict=True)
    )
    return ('{"predictions": [\n  ' + ",\n  ".join(records) + "\n]}\n").encode()


def _parquet(stored: Any, predictions: dict[str, Vector]) -> bytes:
    from dpkit_core.data.readers import pyarrow

    kept = {} if stored is None else {name: stored[name] for name in stored.column_names}
    content = pyarrow().BufferOutputStream()
    table = pyarrow().table({**kept, **predictions})
    pyarrow("pyarrow.parquet").write_table(table, content)
    written: bytes = content.getvalue().to_pybytes()
    return written


_WRITERS = {FileFormat.CSV: _csv, FileFormat.JSON: _json, FileFormat.PARQUET: _parquet}
