"""``dpkit predict``: a released model, applied to a table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dpkit_core.cli._options import DecimalOption, DelimiterOption, MissingOption

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpkit_core.data.arrays import Matrix, Vector
    from dpkit_core.data.readers import Table
    from dpkit_core.release.release import Release

_COLUMN = "prediction"


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
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="A .csv or .parquet file. Default: CSV on standard output."
        ),
    ] = None,
    *,
    delimiter: DelimiterOption = None,
    decimal: DecimalOption = ".",
    missing: MissingOption = None,
) -> None:
    """Print one prediction for each record of DATA. Costs no privacy: the model is public.

    Missing values are treated by the rules of the release's schema. Where there is none, or the rule was to
    leave such records out, the prediction is nan. Of a target of several classes, the columns are the
    probabilities of each.
    """
    import sys

    import numpy as np

    from dpkit_core.cli._execute import require_elsewhere
    from dpkit_core.commands.options import note
    from dpkit_core.data.readers import Dialect, read_table
    from dpkit_core.errors import InvalidOption
    from dpkit_core.files.writing import reserved
    from dpkit_core.release.release import Release

    def predictions() -> tuple[Vector | Matrix, tuple[str, ...]]:
        released = Release.read(release)
        table = read_table(data, dialect=Dialect(delimiter, decimal, missing))
        predicted = released.predict(_model_matrix(released, table))
        without = int(np.isnan(predicted.reshape(len(predicted), -1)).any(axis=1).sum())
        if without:
            note(f"{without} of {len(predicted)} records lack a value that the model needs: nan")
        return predicted, getattr(released.model, "classes", (_COLUMN,))

    if output is None:
        sys.stdout.write(_csv(*predictions()))
        return
    as_bytes = {".csv": lambda *table: _csv(*table).encode(), ".parquet": _parquet}.get(output.suffix.lower())
    if as_bytes is None:
        raise InvalidOption(f"--output is {output}; its name must end in .csv or .parquet")
    require_elsewhere(output, (release, data))
    with reserved(output, replace=True) as file:
        predicted, names = predictions()
        file.write(as_bytes(predicted, names))
    note(f"wrote {output}: {len(predicted)} predictions")


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


def _csv(predictions: Vector | Matrix, names: Sequence[str]) -> str:
    import csv
    import io

    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(names)
    rows.writerows(predictions.reshape(-1, len(names)).tolist())
    return text.getvalue()


def _parquet(predictions: Vector | Matrix, names: Sequence[str]) -> bytes:
    from dpkit_core.data.readers import pyarrow

    columns = dict(zip(names, predictions.reshape(-1, len(names)).T, strict=True))
    content = pyarrow().BufferOutputStream()
    pyarrow("pyarrow.parquet").write_table(pyarrow().table(columns), content)
    written: bytes = content.getvalue().to_pybytes()
    return written
