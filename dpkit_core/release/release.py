"""A release: released values only, and the certificate of what they cost."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from dpkit_core.data.features import Feature
from dpkit_core.errors import InvalidRelease
from dpkit_core.files.documents import (
    Fields,
    as_document,
    first_difference,
    from_document,
    read_json,
    require_plain,
    require_version,
    spelled,
)
from dpkit_core.files.writing import write_whole
from dpkit_core.protocols import Model
from dpkit_core.release.certificate import Certificate
from dpkit_core.release.evaluation import Evaluation
from dpkit_core.release.kinds import CORE_KINDS, OWN_KINDS, OpaqueModel, canonical, read_model, shown
from dpkit_core.release.models import INTERCEPT, IntervalsOfALine
from dpkit_core.release.signing import Signature
from dpkit_core.text import Section, Shown

if TYPE_CHECKING:
    from dpkit_core.arrays import Vector

FORMAT = "dpkit-release"
FORMAT_VERSION = 1

spelled(Model, lambda model: canonical(model.to_document()), read_model)


@attrs.frozen
class Release:
    """Released values only, and their certificate.

    Attributes
    ----------
    selected
        Names of the selected features, in the order released; empty if nothing was selected.
    model
        The released model; None for a selection alone or a refusal.
    refusal
        Why no model was released, where a private test failed.
    refusal_code
        Which of the plan's refusals it was; None in files of 0.1.0.
    evaluation
        How good the model is, by records that were held out; None if none were.
    certificate
        What it cost.
    signature
        Who signed it (``dpkit_core.release.signing``); None if it is not signed.
    """

    selected: tuple[str, ...]
    model: Model | None
    refusal: str | None
    refusal_code: str | None = attrs.field(default=None, kw_only=True)
    evaluation: Evaluation | None = attrs.field(default=None, kw_only=True)
    certificate: Certificate
    signature: Signature | None = None

    def __str__(self) -> str:
        return "\n\n".join(map(str, self.sections()))

    def _repr_html_(self) -> str:
        return "".join(section._repr_html_() for section in self.sections())

    def sections(self) -> Iterator[Section]:
        """Yield what a person reads: the score, the selection, the model or the refusal, the certificate."""
        if self.evaluation is not None:
            yield Section("How good it is", self.scored)
        if self.selected:
            names = ", ".join(self.selected)
            yield Section("Selected features, in the order released", Shown(sentences=(names,)))
        if self.model is not None:
            yield Section("Model", shown(self.model))
        if self.refusal is not None:
            why = (
                f"{self.refusal.rstrip('.')}.",
                "This is an honest outcome and counts as spent. More records, a larger epsilon or fewer "
                "features (-k) make it less likely.",
            )
            yield Section("Refused: no model is released", Shown(sentences=why))
        yield self.certificate.section

    @property
    def scored(self) -> Shown:
        """What a person reads of the score; nothing where there is none."""
        if self.evaluation is None:
            return Shown()
        transformed = self.certificate.schema.target.transform is not None
        scale = ("This is on the scale of the transformed target.",) if transformed else ()
        return Shown(
            *self.evaluation.table(), (*self.evaluation.sentences(self.certificate.schema.unit), *scale)
        )

    def predict(self, X: Any) -> Vector:
        """Return one prediction per row of ``X``; a row of probabilities where the model has ``classes``.

        Parameters
        ----------
        X
            A matrix whose columns are ``model.features``, in order. Or a table of pandas, polars, pyarrow or
            any library that speaks Arrow's C stream: its columns are found by name, and those of categories
            by the schema. Columns that the schema does not name are ignored, with an ``UnusedColumns``
            warning. Numbers are in the table's units, and so are predictions: the schema's transforms are
            applied, and that of the target is taken back. Missing values are treated by the rules of the
            schema; where one remains that the model cannot handle, the prediction is NaN.

        Raises
        ------
        InvalidData
            If a column is missing, or a matrix has another number of them.
        InvalidRelease
            If there is no model.
        """
        import numpy as np  # noqa: PLC0415 - a release is read without it

        from dpkit_core.data.rules import matrix_of, transformed  # noqa: PLC0415 - likewise

        model = self.usable_model
        schema = self.certificate.schema
        known = {feature.name: feature for feature in schema.features}
        features = [known.get(name, Feature(name, name)) for name in model.features]
        unit = () if schema.unit is None else schema.unit.columns
        expected = [*unit, *(column.name for column in (*schema.columns, schema.target))]
        matrix = matrix_of(X, features, expected=expected)
        predicted = model.predict(transformed(matrix, features))
        if schema.target.transform is not None:
            predicted = schema.target.transform.invert(predicted)
        lacking = np.isnan(matrix).any(axis=1)
        if lacking.any() and not getattr(model, "takes_missing", False):
            predicted = predicted.copy()
            predicted[lacking] = math.nan
        return predicted

    @property
    def usable_model(self) -> Model:
        """The model, if there is one that can predict.

        Raises
        ------
        InvalidRelease
            If there is none.
        """
        if self.model is None:
            other = "only features were selected"
            if self.evaluation is not None:
                other = "it scores the model of another one"
            raise InvalidRelease(f"the release has no model to predict with: {self.refusal or other}")
        if isinstance(self.model, OpaqueModel):
            raise self.model.unusable
        return self.model

    def coefficients(self) -> dict[str, float]:
        """Return the coefficients of a linear model per unit of the data, and ``(intercept)``.

        Where the schema transforms a column, the unit is that of the transformed numbers. The line that they
        describe is the model where nothing is clipped; ``print`` shows the clips.

        Raises
        ------
        InvalidRelease
            If there is no model, or it is not linear.
        """
        line: Any = self.model
        if not (hasattr(line, "slopes") and hasattr(line, "level")):
            kind = (
                "no model" if self.model is None else f"a model of kind {self.model.to_document()['kind']!r}"
            )
            raise InvalidRelease(f"the release has {kind}, and only linear models have coefficients")
        return {**dict(zip(line.features, line.slopes, strict=True)), INTERCEPT: line.level}

    def intervals(self, level: float = 0.95) -> IntervalsOfALine:
        """Return intervals of the line's coefficients, from released numbers alone.

        For models of ``winsorized_least_squares``; it costs no budget. ``dpkit_model_lines.intervals``
        documents what is estimated, and how.

        Raises
        ------
        InvalidRelease
            If the model does not keep its noisy moments.
        """
        of_model = getattr(self.usable_model, "intervals", None)
        if of_model is None:
            raise InvalidRelease(
                "there are no intervals for this release: its model does not keep the noisy numbers that it "
                "was computed from, as models of winsorized_least_squares do"
            )
        schema = self.certificate.schema
        found: IntervalsOfALine = of_model(schema.target.name, level, schema.one_of_each)
        return found

    def to_document(self) -> dict[str, Any]:
        """Return the release as plain data."""
        return {"format": FORMAT, "format_version": FORMAT_VERSION, **as_document(self)}

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Release:
        """Return the release that ``to_document`` wrote.

        Raises
        ------
        InvalidRelease
            If it is not a release, was written by a newer dpkit, lacks something, or has what dpkit would not
            write: there is one document for each release, up to the order of keys and 1 for 1.0.
        """
        require_plain(document, "the release", InvalidRelease)
        fields = Fields(document, "the release", InvalidRelease)
        if fields.value("format") != FORMAT:
            raise InvalidRelease("this is not a dpkit release; give a file written by dpkit compose or run")
        require_version("the release", fields.read("format_version", int), FORMAT_VERSION, InvalidRelease)
        release = from_document(cls, fields.rest(), "the release", InvalidRelease)
        written = release.to_document()
        model = document["model"]
        if model is not None and model["kind"] not in {*CORE_KINDS, *OWN_KINDS}:
            written["model"] = model  # whose form is up to the distribution of its kind
        if (place := first_difference(document, written)) is not None:
            raise InvalidRelease(
                f"the release spells {place} differently from dpkit: with a value of another type, with "
                "null for something left out, or with a default written out. Restore the file as it was "
                "written"
            )
        return release

    def to_json(self) -> str:
        """Return the text of a release file."""
        return json.dumps(self.to_document(), indent=2, allow_nan=False) + "\n"

    def write(self, path: Path | str) -> None:
        """Write the release as JSON: whole, or not at all."""
        write_whole(path, self.to_json())

    @classmethod
    def read(cls, path: Path | str) -> Release:
        """Return the release in a JSON file."""
        document = read_json(path, "release", InvalidRelease)
        try:
            return cls.from_document(document)
        except InvalidRelease as error:
            raise InvalidRelease(f"cannot read {path}: {error}") from error
