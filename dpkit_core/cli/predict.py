"""``dpkit predict``: a released model, applied to a table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dpkit_core.cli._options import DecimalOption, DelimiterOption, MissingOption

if TYPE_CHECKING:
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
            "--output", metavar="FILE", help="A .csv or .parquet file. Default: CSV on standard output."
        ),
    ] = None,
    *,
    delimiter: DelimiterOption = None,
    decimal: DecimalOption = ".",
    missing: MissingOption = None,
) -> None:
    """Print one prediction for each record of DATA. Costs no privacy: the model is public.

    Missing values are treated by the rules of the release's schema. Where there is none, or the rule was to
    leave such records out, the prediction is nan.
    """
    import sys

    import numpy as np

    from dpkit_core.cli._execute import require_elsewhere
    from dpkit_core.commands.options import note
    from dpkit_core.data.readers import Dialect, read_table
    from dpkit_core.errors import InvalidOption
    from dpkit_core.files.writing import reserved
    from dpkit_core.release.release import Release

    def predictions() -> Vector:
        released = Release.read(release)
        table = read_table(data, dialect=Dialect(delimiter, decimal, missing))
        predicted = released.predict(_model_matrix(released, table))
        without = int(np.isnan(predicted).sum())
        if without:
            note(f"{without} of {len(predicted)} records lack a value that the model needs: nan")
        return predicted

    if output is None:
        sys.stdout.write(_csv(predictions()))
        return
    as_bytes = {".csv": lambda vector: _csv(vector).encode(), ".parquet": _parquet}.get(output.suffix.lower())
    if as_bytes is None:
        raise InvalidOption(f"--output is {output}; its name must end in .csv or .parquet")
    require_elsewhere(output, (release, data))
    with reserved(output, replace=True) as file:
        predicted = predictions()
        file.write(as_bytes(predicted))
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


def _csv(predictions: Vector) -> str:
    return "\n".join([_COLUMN, *map(repr, predictions.tolist())]) + "\n"


def _parquet(predictions: Vector) -> bytes:
    from dpkit_core.data.readers import pyarrow

    content = pyarrow().BufferOutputStream()
    pyarrow("pyarrow.parquet").write_table(pyarrow().table({_COLUMN: predictions}), content)
    written: bytes = content.getvalue().to_pybytes()
    return written
