"""The certificate of a release: what it cost, as data by which anyone can recompute the total."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Mapping
from typing import Any

import attrs

from dpkit_core.data.schema import Schema
from dpkit_core.errors import InvalidRelease
from dpkit_core.files.documents import Fields, as_document, from_document, spelled
from dpkit_core.privacy.budget import Budget, Neighboring, attack_in_words, rounded_up, vacuous
from dpkit_core.privacy.events import (
    Apart,
    Event,
    Repeated,
    Sequence,
    event_from_json,
    event_to_json,
)
from dpkit_core.privacy.filters import Ticks, filter_from_document
from dpkit_core.text import Section, Shown
from dpkit_core.validators import (
    exact_text,
    finite,
    fraction,
    frozen_mapping,
    frozen_texts,
    frozen_tuple,
    hexadecimal,
)


@attrs.frozen
class Witness:
    """The witness of a ledger: where a run was charged, and what its account had spent after it.

    A chain of hashes shows that a ledger was not edited in the middle. It cannot show that the ledger is an
    old copy of itself, that a second copy is in use, or that its last entries are gone: such a ledger is
    consistent. Each release therefore carries away where in the ledger it was charged and the hash of
    everything up to there. The releases together then testify to what the ledger must contain; ``dpkit ledger
    audit`` compares.

    Attributes
    ----------
    ledger
        Identity of the ledger, which copies of it share.
    account
        The account that paid.
    charge
        Identity of the charge.
    sequence
        Number of the entry in the whole ledger; the first is 1.
    head
        Hash of that entry, which covers all entries before it.
    measure
        How the account adds up, as ``dpkit_core.privacy.filters.filter_to_document`` writes it.
    total
        The account's total after the charge, in ticks of its measure.
    limits
        What the account allows, likewise.
    """

    ledger: str
    account: str
    charge: str
    sequence: int
    head: str = attrs.field(validator=hexadecimal(64))
    measure: Mapping[str, Any] = attrs.field(converter=frozen_mapping)
    total: Ticks = attrs.field(converter=frozen_tuple)
    limits: Ticks = attrs.field(converter=frozen_tuple)

    def __attrs_post_init__(self) -> None:
        if self.sequence < 1:
            raise ValueError(f"sequence is {self.sequence}; it must be at least 1")
        if not all(ticks is None or _is_count(ticks) for ticks in (*self.total, *self.limits)):
            raise ValueError("total and limits must be whole numbers of at least 0, or null")
        if len(self.total) != len(self.limits):
            raise ValueError("total and limits are not of the same units")

    def in_words(self) -> str:
        """Return what the account has spent, for a person; or that its measure is not known here."""
        spent = "its spending cannot be shown here, because its measure is not known"
        with contextlib.suppress(InvalidRelease):
            measure = filter_from_document(self.measure)
            if len(measure.units) == len(self.total):
                spent = measure.in_words(self.total, self.limits)
        return f"Charged to account {self.account}, entry {self.sequence} of ledger {self.ledger}: {spent}"


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


#: Introduces a guarantee that is proved but too weak to protect anyone.
NOTHING_SAID = "NO MEANINGFUL PRIVACY"

# Above this, e^epsilon exceeds the range of float64.
LARGEST_EXPONENT = 700.0


@attrs.frozen
class PartRecord:
    """Which code ran, from which distribution, and where its proof is.

    ``options`` are those that differ from the defaults of that version, ``libraries`` the versions of other
    distributions of dpkit whose code it uses.
    """

    role: str
    name: str
    distribution: str
    version: str
    options: Mapping[str, Any] = attrs.field(converter=frozen_mapping)
    proof: str
    reference: str
    libraries: Mapping[str, str] = attrs.field(default=frozen_mapping({}), converter=frozen_mapping)

    @property
    def qualified(self) -> str:
        """The spelling that always finds this part again."""
        return f"{self.distribution}:{self.name}" if self.distribution else self.name


@attrs.frozen
class EngineRecord:
    """Which code had the records and added up where they were; no total depends on it."""

    name: str
    distribution: str
    version: str


@attrs.frozen
class StageEvent:
    """One event and the stage of the pipeline that emits it."""

    stage: str
    event: Event


def _read_stage_event(document: Mapping[str, Any]) -> StageEvent:
    fields = Fields(document, "the event", InvalidRelease)
    return StageEvent(fields.read("stage", str), event_from_json(fields.rest()))


spelled(StageEvent, lambda item: {"stage": item.stage, **event_to_json(item.event)}, _read_stage_event)


#: The stage whose records were held out from all others, and that which scores the model on its own.
EVALUATION, IN_SAMPLE = "evaluation", "in-sample"


def charged(events: Iterable[StageEvent], schema: Schema) -> tuple[Event, ...]:
    """Return what events of stages cost together: those of an evaluation are apart from all others."""
    listed = tuple(events)
    scored = tuple(item.event for item in listed if item.stage == EVALUATION)
    others = tuple(item.event for item in listed if item.stage != EVALUATION)
    if not (scored and others):
        return (*others, *scored)
    return (Apart((Sequence(others), Sequence(scored)), units=schema.unit is not None),)


@attrs.frozen
class HeldOut:
    """Which records are held out from a fit: see ``dpkit_core.data.sides``.

    Attributes
    ----------
    share
        Of the records, about.
    key
        Of the hash, 64 bits: 16 hexadecimal digits.
    """

    share: float = attrs.field(converter=float, validator=fraction)
    key: str = attrs.field(validator=hexadecimal(16))


@attrs.frozen
class Spare:
    """What a run of several parties has paid for besides its plan.

    Attributes
    ----------
    attempts
        How many releases may be repeated without a party that is missing. Their events are the last.
    epsilon
        That the plan without them was made for.
    """

    attempts: int = attrs.field(validator=attrs.validators.ge(1))
    epsilon: float = attrs.field(converter=float, validator=attrs.validators.gt(0))


@attrs.frozen
class Settings:
    """Further settings of a plan, after public facts, budget and parts; defaults are not written.

    Attributes
    ----------
    select_share
        The selection's fraction of the budget, where a regression follows it.
    batches
        Number of batches of records in the run.
    iterates
        Number of iterates from which the selector dropped features; None if it selected first.
    evaluate
        The records that were held out to score the model; None if none were, or if others score it.
    in_sample
        The fraction of the budget for a score of the model on the records of its fit; None for none.
    spare
        Attempts that several parties have paid for; None if they have not.
    """

    select_share: float = attrs.field(default=0.05, converter=float, validator=fraction)
    batches: int = attrs.field(default=1, validator=attrs.validators.ge(1))
    iterates: int | None = attrs.field(
        default=None, validator=attrs.validators.optional(attrs.validators.ge(1))
    )
    evaluate: HeldOut | None = None
    in_sample: float | None = attrs.field(
        default=None,
        converter=attrs.converters.optional(float),
        validator=attrs.validators.optional(fraction),
    )
    spare: Spare | None = None


@attrs.frozen
class Certificate:
    """Everything needed to judge a release, and to recompute its total. Nothing in it can be changed.

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
    plan
        The plan's further settings; with them the release can be planned again.
    witness
        Where the run was charged and what the account had spent after it; None for a run without an account.
    engine
        What had the records; None where they were in the process that drew the noise.
    """

    private: bool = attrs.field(validator=attrs.validators.instance_of(bool))
    reasons: tuple[str, ...] = attrs.field(converter=frozen_texts)
    epsilon: float | None = attrs.field(validator=attrs.validators.optional(finite))
    delta: float = attrs.field(validator=finite)
    neighboring: Neighboring
    accountant: str = attrs.field(converter=exact_text)
    events: tuple[StageEvent, ...] = attrs.field(converter=frozen_tuple)
    parts: tuple[PartRecord, ...] = attrs.field(converter=frozen_tuple)
    assumptions: tuple[str, ...] = attrs.field(converter=frozen_texts)
    randomness: str = attrs.field(converter=exact_text)
    arithmetic: tuple[str, ...] = attrs.field(converter=frozen_texts)
    schema: Schema
    budget: Budget
    outcome: str
    dpkit: str
    plan: Settings = Settings()
    witness: Witness | None = None
    engine: EngineRecord | None = None

    def __str__(self) -> str:
        return str(self.section)

    def _repr_html_(self) -> str:
        return self.section._repr_html_()

    @property
    def section(self) -> Section:
        """The certificate as a person reads it."""
        return Section("Certificate", Shown(sentences=tuple(self.in_words())))

    @property
    def charged(self) -> tuple[Event, ...]:
        """What is to be composed."""
        return charged(self.events, self.schema)

    @property
    def vacuous(self) -> tuple[str, ...]:
        """Why the guarantee is too weak to mean anything; empty if it is not."""
        if not self.private or self.epsilon is None:
            return ()
        return vacuous(self.epsilon, self.delta, self.schema.records)

    def in_words(self) -> list[str]:
        """Return the certificate as sentences for a person."""
        sentences = self._guarantee()
        if self.outcome == "refused":
            sentences.append("The mechanism refused to release a model; the whole plan is charged.")
        events = sum(_count(item.event) for item in self.events)
        sentences.append(
            f"Total by accountant {self.accountant} over {events} event{'s' * (events != 1)}: "
            + ("no proved epsilon" if self.epsilon is None else f"epsilon {rounded_up(self.epsilon, 6)}")
            + f", delta {rounded_up(self.delta, 3)}; allowed: epsilon {rounded_up(self.budget.epsilon, 6)}, "
            f"delta {rounded_up(self.budget.delta, 3)}."
        )
        if self.witness is not None:
            sentences.append(f"{self.witness.in_words()}.")
        if self.engine is not None:
            which = f"{self.engine.distribution} {self.engine.version}".strip() or "no installed distribution"
            sentences.append(f"Engine: {self.engine.name}, of {which}, added up where the records were.")
        sentences.append(f"Randomness: {self.randomness.rstrip('.')}.")
        sentences += [f"Arithmetic: {sentence.rstrip('.')}." for sentence in self.arithmetic]
        sentences += [f"Reading: {rule}." for rule in self.schema.rules]
        sentences += [f"Assumption: {assumption.rstrip('.')}." for assumption in self.assumptions]
        return sentences

    def _guarantee(self) -> list[str]:
        """Return what is proved, and what it means; or why it is not private."""
        if not self.private or self.epsilon is None:
            reasons = [f"Reason: {reason}." for reason in self.reasons]
            return ["NOT PRIVATE: do not publish as a private release.", *reasons]
        relation = {
            Neighboring.ADD_OR_REMOVE_ONE: "adding or removing one record",
            Neighboring.REPLACE_ONE: "replacing one record",
        }[self.neighboring]
        if (unit := self.schema.unit) is not None:
            relation = f"adding or removing all records of one {unit}"
        factor = f"e^{rounded_up(self.epsilon, 4)}"
        if self.epsilon < LARGEST_EXPONENT:
            factor += f" (about {math.exp(self.epsilon):.4g})"
        exception = f", except with probability {rounded_up(self.delta, 3)}" if self.delta else ""
        promise = (
            f"{relation} changes the probability of any outcome by a factor of at most {factor}{exception}."
        )
        if self.vacuous:
            return [f"{NOTHING_SAID}: {'; '.join(self.vacuous)}.", f"What is proved: {promise}"]
        attack = attack_in_words(self.epsilon, self.delta, self.neighboring, "this release", unit)
        return [f"Private: {promise}", f"{attack[0].upper()}{attack[1:]}."]

    def to_document(self) -> dict[str, Any]:
        """Return the certificate as plain data."""
        return as_document(self)

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Certificate:
        """Return the certificate that ``to_document`` wrote.

        Raises
        ------
        InvalidRelease
            If a field is missing, unknown, or not what it must be.
        """
        return from_document(cls, document, "the certificate", InvalidRelease)


def _count(event: Event) -> int:
    match event:
        case Repeated():
            return event.count * _count(event.event)
        case Sequence():
            return sum(map(_count, event.events))
        case _:
            return 1
