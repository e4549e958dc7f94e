"""What leaves a run: released values and the certificate by which anyone can recompute what they cost."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from dpkit_core.errors import DpkitError, InvalidBudget, InvalidRelease
from dpkit_core.events import Event, NonPrivate, Repeated, Sequence, event_from_json, event_to_json, walk
from dpkit_core.models import LinearModel, RowClippedLinearModel, WinsorizedLinearModel
from dpkit_core.privacy import Budget, Neighboring, rounded_up
from dpkit_core.registry import Registry
from dpkit_core.schema import Schema

if TYPE_CHECKING:
    from dpkit_core.dataset import Matrix, Vector
    from dpkit_core.protocols import Accountant, Model

FORMAT = "dpkit-release"
FORMAT_VERSION = 1

# Recomputing a total on another machine may differ in the last digits of exp and log.
RELATIVE_TOLERANCE = 1e-9

# Above, e^epsilon is no float.
LARGEST_EXPONENT = 700.0


def _is_truth(instance: object, attribute: attrs.Attribute[Any], value: object) -> None:
    if not isinstance(value, bool):
        raise ValueError(f"{attribute.name} is {value!r}; it must be true or false")


def _is_number(instance: object, attribute: attrs.Attribute[Any], value: Any) -> None:
    # JSON as Python reads it has NaN, with which every comparison is false.
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not (number and 0 <= value < math.inf):
        raise ValueError(f"{attribute.name} is {value!r}; it must be a finite number of at least 0")


def _is_text(instance: object, attribute: attrs.Attribute[Any], value: object) -> None:
    if not isinstance(value, str):
        raise ValueError(f"{attribute.name} is {value!r}; it must be text")


@attrs.frozen
class PartRecord:
    """Which code ran, from which distribution, and where its proof is.

    ``options`` are those that differ from the defaults of that version.
    """

    role: str
    name: str
    distribution: str
    version: str
    options: Mapping[str, Any]
    proof: str
    reference: str

    @property
    def qualified(self) -> str:
        """The spelling that always finds this part again."""
        return f"{self.distribution}:{self.name}" if self.distribution else self.name


@attrs.frozen
class StageEvent:
    """One event and the stage of the pipeline that emits it."""

    stage: str
    event: Event


@attrs.frozen
class Certificate:
    """Everything needed to judge a release, and to recompute its total.

    Attributes
    ----------
    private
        Whether the total below is a proved guarantee of this very release.
    reasons
        Why not, one sentence each; empty when private.
    epsilon, delta
        The total by ``accountant``; epsilon is None where no number is proved.
    neighboring
        The relation that the guarantee is about.
    accountant
        Name of the accountant that computed the total.
    events
        Every planned event in order. A refusal is charged in full.
    parts
        Every part with distribution, version, options and proof.
    assumptions
        What the guarantee rests on beyond the schema.
    randomness, arithmetic
        Where the bits came from and how numbers were rounded.
    schema
        The public facts relied on.
    budget
        What was allowed.
    outcome
        ``released`` or ``refused``.
    dpkit
        Version of the core.
    """

    private: bool = attrs.field(validator=_is_truth)
    reasons: tuple[str, ...]
    epsilon: float | None = attrs.field(validator=attrs.validators.optional(_is_number))
    delta: float = attrs.field(validator=_is_number)
    neighboring: Neighboring
    accountant: str = attrs.field(validator=_is_text)
    events: tuple[StageEvent, ...]
    parts: tuple[PartRecord, ...]
    assumptions: tuple[str, ...]
    randomness: str
    arithmetic: tuple[str, ...]
    schema: Schema
    budget: Budget
    outcome: str
    dpkit: str

    def in_words(self) -> list[str]:
        """Return the certificate as sentences for a person."""
        relation = {
            Neighboring.ADD_OR_REMOVE_ONE: "adding or removing one record",
            Neighboring.REPLACE_ONE: "replacing one record",
        }[self.neighboring]
        if self.private and self.epsilon is not None:
            factor = f"e^{rounded_up(self.epsilon, 4)}"
            if self.epsilon < LARGEST_EXPONENT:
                factor += f" (about {math.exp(self.epsilon):.4g})"
            exception = f", except with probability {rounded_up(self.delta, 3)}" if self.delta else ""
            sentences = [
                f"Private: {relation} changes the probability of any outcome by a factor of at most "
                f"{factor}{exception}."
            ]
        else:
            sentences = ["NOT PRIVATE: do not publish as a private release."]
            sentences += [f"Reason: {reason}." for reason in self.reasons]
        if self.outcome == "refused":
            sentences.append("The mechanism refused to release a model; the whole plan is charged.")
        events = sum(_count(item.event) for item in self.events)
        sentences.append(
            f"Total by accountant {self.accountant} over {events} event{'s' * (events != 1)}: "
            + ("no proved epsilon" if self.epsilon is None else f"epsilon {rounded_up(self.epsilon, 6)}")
            + f", delta {rounded_up(self.delta, 3)}; allowed: epsilon {rounded_up(self.budget.epsilon, 6)}, "
            f"delta {rounded_up(self.budget.delta, 3)}."
        )
        sentences.append(f"Randomness: {self.randomness}.")
        sentences += [f"Arithmetic: {sentence}." for sentence in self.arithmetic]
        sentences += [f"Assumption: {assumption}." for assumption in self.assumptions]
        return sentences

    def to_document(self) -> dict[str, Any]:
        """Return the certificate as plain data."""
        return {
            "private": self.private,
            "reasons": list(self.reasons),
            "epsilon": self.epsilon,
            "delta": self.delta,
            "neighboring": self.neighboring.value,
            "accountant": self.accountant,
            "events": [{"stage": e.stage, **event_to_json(e.event)} for e in self.events],
            "parts": [attrs.asdict(part) for part in self.parts],
            "assumptions": list(self.assumptions),
            "randomness": self.randomness,
            "arithmetic": list(self.arithmetic),
            "schema": self.schema.to_document(),
            "budget": attrs.asdict(self.budget),
            "outcome": self.outcome,
            "dpkit": self.dpkit,
        }

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Certificate:
        """Return the certificate that ``to_document`` wrote."""
        fields = dict(document)
        try:
            events = [dict(event) for event in fields["events"]]
            return cls(
                **{
                    **fields,
                    "reasons": tuple(fields["reasons"]),
                    "neighboring": Neighboring(fields["neighboring"]),
                    "events": tuple(
                        StageEvent(event.pop("stage"), event_from_json(event)) for event in events
                    ),
                    "parts": tuple(PartRecord(**part) for part in fields["parts"]),
                    "assumptions": tuple(fields["assumptions"]),
                    "arithmetic": tuple(fields["arithmetic"]),
                    "schema": Schema.from_document(fields["schema"]),
                    "budget": Budget(**fields["budget"]),
                }
            )
        except (KeyError, TypeError, ValueError, AttributeError, InvalidBudget) as error:
            raise InvalidRelease(f"cannot read the certificate: {error!r}") from error


def _count(event: Event) -> int:
    match event:
        case Repeated():
            return event.count * _count(event.event)
        case Sequence():
            return sum(map(_count, event.events))
        case _:
            return 1


@attrs.frozen
class Release:
    """Released values only, and their certificate.

    Attributes
    ----------
    selected
        Names of the selected features in the order that the selector released; empty where nothing was
        selected.
    model
        The released model; None for a selection alone or a refusal.
    refusal
        Why no model was released, where a private test failed.
    certificate
        What it cost.
    """

    selected: tuple[str, ...]
    model: Model | None
    refusal: str | None
    certificate: Certificate

    def predict(self, X: Matrix) -> Vector:
        """Return one prediction per row of ``X``, whose columns are ``model.features``, in order."""
        if self.model is None:
            raise InvalidRelease(
                f"the release has no model to predict with: {self.refusal or 'only features were selected'}"
            )
        return self.model.predict(X)

    def to_document(self) -> dict[str, Any]:
        """Return the release as plain data."""
        return {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "selected": list(self.selected),
            "model": None if self.model is None else dict(self.model.to_document()),
            "refusal": self.refusal,
            "certificate": self.certificate.to_document(),
        }

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Release:
        """Return the release that ``to_document`` wrote.

        Raises
        ------
        InvalidRelease
            If it is not a release, was written by a newer dpkit, or lacks something.
        """
        if document.get("format") != FORMAT:
            raise InvalidRelease("this is not a dpkit release; give a file written by dpkit compose or run")
        if document.get("format_version") != FORMAT_VERSION:
            raise InvalidRelease(
                f"the release has format version {document.get('format_version')}; this dpkit reads "
                f"{FORMAT_VERSION}. Upgrade dpkit"
            )
        try:
            if not isinstance(document["selected"], list):
                raise TypeError(f"selected is {document['selected']!r}; it must be a list")
            return cls(
                tuple(document["selected"]),
                _model(document["model"]),
                document["refusal"],
                Certificate.from_document(document["certificate"]),
            )
        except (KeyError, TypeError) as error:
            raise InvalidRelease(f"cannot read the release: {error!r} is missing or malformed") from error

    def write(self, path: Path) -> None:
        """Write the release as JSON."""
        text = json.dumps(self.to_document(), indent=2, allow_nan=False)
        path.write_text(text + "\n", encoding="utf-8")

    @classmethod
    def read(cls, path: Path) -> Release:
        """Return the release in a JSON file."""
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise InvalidRelease(f"cannot read release {path}: {error.strerror}") from error
        except (ValueError, RecursionError) as error:
            raise InvalidRelease(f"release {path} is not valid JSON: {error}") from error
        if not isinstance(document, dict):
            raise InvalidRelease(f"release {path} holds a {type(document).__name__}, not a dpkit release")
        return cls.from_document(document)


def _model(document: Mapping[str, Any] | None) -> Model | None:
    if document is None:
        return None
    if not isinstance(document, Mapping):
        raise TypeError(f"model is {document!r}; it must be an object or null")
    match document.get("kind"):
        case "linear":
            return LinearModel.from_document(document)
        case "row-clipped linear":
            return RowClippedLinearModel.from_document(document)
        case "winsorized linear":
            return WinsorizedLinearModel.from_document(document)
    raise InvalidRelease(f"unknown model kind {document.get('kind')!r}; a newer dpkit may have written it")


@attrs.frozen
class Verification:
    """The outcome of recomputing a certificate's total.

    Attributes
    ----------
    confirmed
        Whether the recomputed total is at most the claimed one and nothing contradicts ``private``.
    epsilon
        The recomputed total at the claimed delta; None where an event has no proved cost.
    claimed
        The certificate's epsilon.
    accountant
        Name of the accountant that recomputed it.
    problems
        What contradicts the certificate, one sentence each.
    """

    confirmed: bool
    epsilon: float | None
    claimed: float | None
    accountant: str
    problems: tuple[str, ...]


def verify(release: Release, accountant: Accountant | str | None = None) -> Verification:
    """Return whether the certificate's total follows from its events.

    Parameters
    ----------
    release
        The release to check; nothing but its certificate is used.
    accountant
        A fresh accountant, or the name of an installed one; the one that the certificate names by default.
        Another accountant may prove a larger total only; then the claim is neither confirmed nor refuted.
    """
    certificate = release.certificate
    name = accountant if isinstance(accountant, str) else certificate.accountant
    if accountant is None or isinstance(accountant, str):
        accountant = _installed_accountant(name, certificate)
    else:
        name = type(accountant).__name__
    problems = [
        f"event {e.event} holds for {e.event.neighboring.value}, the certificate for "
        f"{certificate.neighboring.value}"
        for e in certificate.events
        if e.event.neighboring is not certificate.neighboring
    ]
    if certificate.private and certificate.reasons:
        problems.append("the certificate says private and gives reasons why not")
    if certificate.private and "not private" in certificate.randomness:
        problems.append(f"the certificate says private, but randomness was {certificate.randomness}")
    if not certificate.events:
        problems.append("the certificate lists no event, so nothing shows what the release cost")
    problems += _contradictions(release)
    epsilon = None
    if any(isinstance(e, NonPrivate) for item in certificate.events for e in walk(item.event)):
        if certificate.private or certificate.epsilon is not None:
            problems.append("an event is not private at all, yet the certificate claims a guarantee")
    elif not problems:
        try:
            epsilon = total([item.event for item in certificate.events], accountant, certificate.delta)
        except DpkitError as error:
            problems.append(str(error))
        problems += _disagreement(epsilon, certificate, name)
    return Verification(not problems, epsilon, certificate.epsilon, name, tuple(problems))


def _contradictions(release: Release) -> list[str]:
    certificate, budget = release.certificate, release.certificate.budget
    problems = []
    if certificate.outcome not in {"released", "refused"}:
        problems.append(f"unknown outcome {certificate.outcome!r}")
    elif (certificate.outcome == "refused") != (release.refusal is not None):
        problems.append(f"the outcome is {certificate.outcome}, the refusal {release.refusal!r}")
    elif release.refusal is not None and release.model is not None:
        problems.append("the release has a model, although it was refused")
    if certificate.schema.neighboring is not certificate.neighboring:
        problems.append(
            f"the certificate is for {certificate.neighboring.value}, its schema for "
            f"{certificate.schema.neighboring.value}"
        )
    if (certificate.epsilon or 0.0) > budget.epsilon or certificate.delta > budget.delta:
        problems.append(
            f"the claimed epsilon {certificate.epsilon} and delta {certificate.delta} are above the budget, "
            f"epsilon {budget.epsilon} and delta {budget.delta}"
        )
    return problems


def _disagreement(epsilon: float | None, certificate: Certificate, name: str) -> list[str]:
    claimed = certificate.epsilon
    if claimed is None:
        return ["the certificate says private but claims no epsilon"] if certificate.private else []
    if epsilon is not None and epsilon > claimed * (1 + RELATIVE_TOLERANCE):
        return [
            f"accountant {name} proves epsilon {epsilon:.6g} at delta {certificate.delta:.3g}; the "
            f"certificate claims {claimed:.6g}"
        ]
    return []


def total(events: list[Event], accountant: Accountant, delta: float) -> float:
    """Return epsilon at ``delta`` of all ``events`` together, by a fresh ``accountant``."""
    for event in events:
        accountant = accountant.compose(event)
    return accountant.epsilon(delta)


def _installed_accountant(name: str, certificate: Certificate) -> Accountant:
    options: Mapping[str, Any] = {}
    spelling = name
    for part in certificate.parts:
        if part.role == "accountant" and part.name == name:
            options, spelling = part.options, part.qualified
    registry = Registry()
    component = registry.load(registry.find("accountants", spelling))
    try:
        accountant: Accountant = component(neighboring=certificate.neighboring, **options)
    except (TypeError, ValueError) as error:
        raise InvalidRelease(
            f"accountant {name} does not accept the certificate's options {options}: {error}"
        ) from error
    return accountant
