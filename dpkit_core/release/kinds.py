"""Models of every kind as documents: plain data that leaves, and a model made of it again.

What leaves a run is a document: plain data in one canonical form, in which every number is a finite float64,
minus zero is zero, and 1 and 1.0 are one. The model that a program is handed is made of that document again,
by the reader of its kind, so that nothing travels with it that the file does not show.

The core reads linear models. Other kinds are entry points in the group ``dpkit.models``, named like the
kind::

    [project.entry-points."dpkit.models"]
    step = "my_package:StepModel"            a class with from_document

A document that no reader knows stays an ``OpaqueModel``: it is kept and shown, and cannot predict. Kinds that
come with dpkit (``OWN_KINDS``) are read by one distribution each, whatever else offers their names.
"""

from __future__ import annotations

import math
import reprlib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs

from dpkit_core.errors import DpkitError, InvalidRelease, UnknownName, install
from dpkit_core.plugins.registry import load_target
from dpkit_core.plugins.resources import find_resource
from dpkit_core.release.models import LinearModel
from dpkit_core.text import Shown
from dpkit_core.validators import exact_text, frozen_mapping, thawed

if TYPE_CHECKING:
    from dpkit_core.arrays import Matrix, Vector
    from dpkit_core.protocols import Model

#: Documents of models are nested no deeper.
DEPTH = 32

Reader = Callable[[Mapping[str, Any]], "Model"]
"""Makes a model of a canonical document."""


@attrs.frozen
class OpaqueModel:
    """A model of a kind that nothing installed here can read: its document, kept as it is.

    Attributes
    ----------
    document
        What the model's ``to_document`` returned.
    why
        Why it cannot be read, a sentence.
    """

    document: Mapping[str, Any] = attrs.field(converter=frozen_mapping)
    why: str = attrs.field(default="", eq=False)

    @property
    def kind(self) -> str:
        """The kind that its document names."""
        return str(self.document.get("kind"))

    @property
    def features(self) -> tuple[str, ...]:
        """None are known: only a reader of the kind could name them."""
        return ()

    def predict(self, X: Matrix, /) -> Vector:
        """Raise ``InvalidRelease``: nothing here knows how."""
        raise self.unusable

    @property
    def unusable(self) -> InvalidRelease:
        """The error that every request for predictions raises, whatever the records are."""
        return InvalidRelease(
            f"this release has a model of kind {self.kind!r}, which cannot be used for predictions here: "
            f"{self.why}"
        )

    def shown(self) -> Shown:
        """Return the kind, the only thing known."""
        return Shown(sentences=(f"{self.kind}; see the release file",))

    def to_document(self) -> dict[str, Any]:
        """Return the document."""
        document: dict[str, Any] = thawed(self.document)
        return document


#: The kinds of the core and who reads them.
CORE_KINDS: Mapping[str, Reader] = {
    "linear": LinearModel.from_document,
}

#: Other kinds that come with dpkit, and the folder of the distribution that alone reads each.
OWN_KINDS: Mapping[str, str] = {
    "row-clipped linear": "models/lines",
    "winsorized linear": "models/lines",
    "trees": "models/trees",
    "class trees": "models/trees",
}


def canonical(value: object, depth: int = DEPTH) -> Any:
    """Return plain data in the one form in which it leaves: numbers as finite floats, minus zero as zero.

    >>> canonical({"a": (1, -0.0, True, None)})
    {'a': [1.0, 0.0, True, None]}

    Raises
    ------
    InvalidRelease
        If something is not plain data, not finite or no whole text, or is nested too deeply.
    """
    if depth < 0:
        raise InvalidRelease(f"a document is nested more than {DEPTH} times")
    match value:
        case list() | tuple():
            numbers = _numbers(value) if depth else None
            return [canonical(item, depth - 1) for item in value] if numbers is None else numbers
        case None | bool():
            return value
        case str():
            return _text(value)
        case int() | float():
            number = _float(value)
            if not math.isfinite(number):
                raise InvalidRelease("a document has a number that is not finite")
            return number + 0.0  # minus zero becomes zero
        case Mapping():
            return {_key(key): canonical(item, depth - 1) for key, item in value.items()}
    raise InvalidRelease(f"a document has a {type(value).__name__}, which is not plain data")


def _numbers(values: Sequence[Any]) -> list[float] | None:
    """Return values as ``canonical`` does each, if they are finite numbers: most of a long document."""
    if not {float, int}.issuperset(map(type, values)):
        return None
    try:
        numbers = [value + 0.0 for value in values]
    except OverflowError:
        return None
    return numbers if math.isfinite(sum(numbers)) else None


def _float(value: float) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _key(key: object) -> str:
    if type(key) is str and key.isascii():
        return key
    if not isinstance(key, str):
        raise InvalidRelease(f"a document has a key that is not text but a {type(key).__name__}")
    return _text(key)


def _text(value: str) -> str:
    text = exact_text(value)
    if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
        raise InvalidRelease("a document has half of a character in its text")
    return text


def read_model(document: Mapping[str, Any], *, fallback: Reader | None = None) -> Model:
    """Return the model of a document: by the reader of its kind, or opaque.

    Parameters
    ----------
    document
        What a model's ``to_document`` returned.
    fallback
        A reader for kinds that neither the core nor an installed distribution reads.

    Raises
    ------
    InvalidRelease
        If it has no kind, or is of a kind that comes with dpkit and is incomplete.
    """
    kind = document.get("kind")
    if not isinstance(kind, str):
        raise InvalidRelease(f"a model has the kind {reprlib.repr(kind)}; it must be text")
    try:
        reader = _reader(kind)
    except DpkitError as error:
        if fallback is None or kind in OWN_KINDS:
            return OpaqueModel(document, str(error))
        reader = fallback
    try:
        return reader(document)
    except Exception as error:
        if kind in CORE_KINDS or kind in OWN_KINDS:
            raise
        return OpaqueModel(document, f"its reader failed ({type(error).__name__}: {error})")


def _reader(kind: str) -> Reader:
    """Return what reads a kind: the core, the one distribution of dpkit that does, or any that offers it."""
    if kind in CORE_KINDS:
        return CORE_KINDS[kind]
    folder = OWN_KINDS.get(kind)
    distribution = folder and "dpkit-model-" + folder.partition("/")[2]
    try:
        ref = find_resource("models", f"{distribution}:{kind}" if folder else kind)
    except UnknownName:
        if folder is None:
            raise
        command = install(f"/plugins/{folder}")
        raise UnknownName(
            f"{distribution} reads it, and is not installed. Install it with: {command}"
        ) from None
    reader: Reader | None = getattr(load_target(ref), "from_document", None)
    if not callable(reader):
        raise InvalidRelease(f"{ref} points to {ref.target}, which has no from_document")
    return reader


def shown(model: Model) -> Shown:
    """Return what a person reads of a model: what its own ``shown`` returns, or its kind.

    >>> print(shown(LinearModel(("carat",), (7000.0,), -2000.0)))
      feature      coefficient
      carat               7000
      (intercept)        -2000
    """
    own = getattr(model, "shown", None)
    table = own() if callable(own) else None
    return table if isinstance(table, Shown) else OpaqueModel(model.to_document()).shown()


def rebuilt(model: Model) -> Model:
    """Return the model that is made of ``model``'s document, and of nothing else that it holds.

    Raises
    ------
    InvalidRelease
        If its document is not plain data, or its kind cannot read it.
    """
    document = canonical(model.to_document())
    if not isinstance(document, dict):
        raise InvalidRelease("the document of a model is not a mapping")
    own = getattr(type(model), "from_document", None)
    again = read_model(document, fallback=own if callable(own) else None)
    if not isinstance(again, OpaqueModel) and canonical(again.to_document()) != document:
        raise InvalidRelease("a model that is made of its document has another document")
    return again
