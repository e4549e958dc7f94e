"""The content of the page, gathered from a release; ``page.html`` has its layout.

Everything comes from the release file, which is public. Bars show what each stage would cost by itself, at
the release's whole delta; together they cost less than the sum, and the total has a bar of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from datetime import timedelta

import attrs
from jinja2 import Environment, PackageLoader, StrictUndefined, Template

from dpkit_core import Certificate, Ledger, Release, Verification, verify
from dpkit_core.data.features import EPOCH
from dpkit_core.data.schema import Column, Schema
from dpkit_core.errors import DpkitError, InvalidRelease, install
from dpkit_core.files.documents import digest
from dpkit_core.privacy.budget import attack_accuracy, rounded_up
from dpkit_core.privacy.events import Event, events_in_words
from dpkit_core.privacy.units import grouped
from dpkit_core.release.certificate import EVALUATION, IN_SAMPLE
from dpkit_core.release.evaluation import CAPPED_R2
from dpkit_core.release.kinds import shown
from dpkit_core.release.models import INTERCEPT, digits
from dpkit_core.release.signing import unsigned
from dpkit_core.release.verify import TOTALS
from dpkit_core.text import Shown

#: Computes the cost of stages if the certificate's accountant needs a plugin.
FALLBACK = "rdp"

ASSUMPTION = "Assumption: "

#: What the readers of a page know of stages.
STEPS = {
    "scoring": "Features are scored",
    "selection": "Features are selected",
    "regression": "A model is fitted",
    EVALUATION: "The model is scored",
    IN_SAMPLE: "The model is scored",
}

#: By which part.
PARTS_OF = {"scoring": "scorer", "selection": "selector", "regression": "regressor"}


@attrs.frozen
class About:
    """What a release does not say, given by whoever reports it.

    Attributes
    ----------
    purpose, owner, dated
        In the user's words; empty for none.
    evaluation
        A later evaluation of the model, in a release of its own.
    history
        The ledger and the name of the account of the table, for the other releases of it.
    """

    purpose: str = ""
    owner: str = ""
    dated: str = ""
    evaluation: Release | None = None
    history: tuple[Ledger, str] | None = None


@attrs.frozen
class Bar:
    """A cost as a fraction of the widest bar; ``epsilon`` is None if none is proved."""

    name: str
    epsilon: str | None
    fraction: float
    releases: tuple[str, ...] = ()

    @property
    def percent(self) -> str:
        """The length of the bar, with a visible minimum."""
        return f"{100 * max(self.fraction, 0.004):.4g}"


@attrs.frozen
class Interval:
    """A score and its interval, in percent of the picture from 0 to 1."""

    value: float
    low: float
    high: float
    says: str
    ends: tuple[str, str]


@attrs.frozen
class PipelineStep:
    """A box in the picture of the pipeline."""

    name: str
    says: str


@attrs.frozen
class Past:
    """An earlier run on the table, from a ledger."""

    at: str
    parts: str
    epsilon: str
    outcome: str
    this: bool


@attrs.frozen
class Fact:
    """A column of the schema, in words."""

    name: str
    role: str
    says: str


def template(name: str) -> Template:
    """Return a page template; values are inserted as text and escaped."""
    environment = Environment(
        loader=PackageLoader("dpkit_command_report", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(name)


def page(release: Release, name: str, about: About = About()) -> str:
    """Return a page about ``release``, whose file is called ``name``.

    Parameters
    ----------
    release
        Recomputed here: the page shows whether its total is confirmed.
    name
        Shown in the commands that check the release.
    about
        What else is to be on the page.

    Raises
    ------
    InvalidRelease
        If what is given as an evaluation is none of this release, or not confirmed.
    """
    certificate = release.certificate
    words = certificate.in_words()
    return template("page.html").render(
        name=name,
        install=install(),
        release=release,
        certificate=certificate,
        verdict=verdict(release),
        guarantee=[sentence for sentence in words if not sentence.startswith(ASSUMPTION)],
        assumptions=certificate.assumptions,
        facts=list(facts(certificate.schema)),
        bars=bars(certificate),
        by=_by(certificate),
        why_none=_none_told(release),
        about=about,
        scores=scores(release, about.evaluation),
        odds=odds(certificate, *([] if about.evaluation is None else [about.evaluation.certificate])),
        steps=list(steps(certificate)),
        past=list(past(certificate, about.history)),
        spent=_spent(about.history),
        model=model_and_intervals(release),
        epsilon=rounded_up(certificate.budget.epsilon, 6),
        delta=rounded_up(certificate.budget.delta, 3),
    )


def verdict(release: Release) -> Verification | None:
    """Return the result of recomputing the total; None if that needs a plugin that is not installed."""
    try:
        return verify(release)
    except DpkitError:
        return None


def scores(release: Release, later: Release | None) -> list[tuple[Shown, Interval | None, str]]:
    """Return what is known of how good the model is: sentences, a picture, and what it cost."""
    found = [] if release.evaluation is None else [(release, "Its cost is in that of the release.")]
    if later is not None:
        if later.evaluation is None or later.evaluation.of != digest(unsigned(release.to_document())):
            raise InvalidRelease(
                "the evaluation is not one of this release; give the file that `dpkit evaluate` wrote for it"
            )
        if not verify(later).confirmed:
            raise InvalidRelease("the evaluation is not confirmed; see `dpkit verify`")
        epsilon, delta = later.certificate.epsilon or 0.0, later.certificate.delta
        cost = f"It cost epsilon {rounded_up(epsilon, 4)}, delta {rounded_up(delta, 3)} more."
        found.append((later, cost))
    return [(each.scored, _interval(each), cost) for each, cost in found]


def _interval(release: Release) -> Interval | None:
    found = release.evaluation
    score = None if found is None else found.score()
    if found is None or score is None:
        return None
    ends = ("none right", "all right")
    if found.measure == CAPPED_R2:
        ends = ("0: no better than the mean", "1: no error")
    value, low, high = (
        round(100 * min(max(each, 0.0), 1.0), 2) for each in (score.value, score.low, score.high)
    )
    return Interval(value, low, high, str(score), ends)


def odds(*certificates: Certificate) -> int | None:
    """Return how many of 100 attackers who see all of it may be right; None where nothing is proved."""
    epsilon = delta = 0.0
    for certificate in certificates:
        if not certificate.private or certificate.epsilon is None:
            return None
        epsilon, delta = epsilon + certificate.epsilon, delta + certificate.delta  # basic composition
    return min(100, math.ceil(100 * attack_accuracy(epsilon, min(delta, 1.0))))


def steps(certificate: Certificate) -> Iterator[PipelineStep]:
    """Yield the stages of a run, as boxes of a picture."""
    parts = {part.role: part.name for part in certificate.parts}
    for stage in dict.fromkeys(item.stage for item in certificate.events):
        by = parts.get(PARTS_OF.get(stage, ""), "")
        if stage == "selection" and "scorer" in parts:
            by = f"{by} on {parts['scorer']}"
        if stage == IN_SAMPLE:
            by = "the records that it was fitted to"
        elif stage == EVALUATION:
            rule = certificate.plan.evaluate
            by = (
                "its records"
                if rule is None
                else f"the {100 * rule.share:.3g} % of records that are held out"
            )
        yield PipelineStep(STEPS.get(stage, stage), f"by {by}, with noise" if by else "with noise")


def past(certificate: Certificate, history: tuple[Ledger, str] | None) -> Iterator[Past]:
    """Yield the runs that an account has paid for, in order."""
    if history is None:
        return
    ledger, account = history
    entries = list(ledger.entries(ledger.account(account).name))
    ended = {entry.charge: entry.kind for entry in entries if entry.kind != "reserved"}
    own = None if certificate.witness is None else certificate.witness.charge
    for entry in entries:
        if entry.kind == "reserved":
            facts = entry.facts
            about, epsilon = facts.get("about", {}), facts.get("epsilon")
            yield Past(
                str(about.get("at", ""))[:10],
                " + ".join(part.split(":")[-1].split()[0] for part in about.get("parts", ())),
                "" if epsilon is None else rounded_up(float(epsilon), 4),
                ended.get(entry.charge, "not settled"),
                entry.charge == own,
            )


def _spent(history: tuple[Ledger, str] | None) -> str:
    if history is None:
        return ""
    ledger, account = history
    words = ledger.statement(account).in_words()
    return f"Account {account} has spent {words}"


def model_and_intervals(release: Release) -> Shown:
    """Return what is known of the model: for a line, coefficients and their uncertainty in one table."""
    if release.model is None:
        return Shown()
    table = shown(release.model)
    try:
        intervals = release.intervals()
    except InvalidRelease:
        return table
    line = release.coefficients()
    for column in intervals.centered:
        filled = [name for name in column if name not in intervals.empty]
        shared = math.fsum(line[name] for name in filled) / len(filled)
        line |= {name: line[name] - shared for name in column} | {INTERCEPT: line[INTERCEPT] + shared}
    first, second, *others = table.header
    header = (first, second, "95 % from", "to", *others)
    told = {row[0]: (*row[1:], "")[:2] for row in intervals.rows}
    rows = tuple((row[0], digits(line[row[0]]), *told[row[0]], *row[2:]) for row in table.rows)
    return Shown(header, rows, (*table.sentences, *intervals.sentences))


def _none_told(release: Release) -> str | None:
    """Return why there are no intervals; None where there are, or no line is released."""
    if release.model is None:
        return None
    try:
        release.intervals()
    except InvalidRelease as error:
        return str(error)
    return None


def facts(schema: Schema) -> Iterator[Fact]:
    """Yield what the schema says about each column."""
    for column in (schema.target, *schema.columns):
        noun = "date" if column.kind == "date" else "number"
        if column.buckets is not None:
            says = f"text, by a public hash in one of {column.buckets} buckets"
        elif column.kind == "categorical":
            says = f"one of {', '.join(column.categories)}"
        elif column.bounds is not None:
            lower, upper = (_bound(column, bound) for bound in column.bounds)
            says = f"a {noun} from {lower} to {upper}"
        else:
            says = f"a {noun}; no bounds are public"
        if column.rule is not None:
            says += f"; {column.rule}"
        yield Fact(column.name, "target" if column is schema.target else "feature", says)


def _bound(column: Column, bound: float) -> str:
    return str(EPOCH + timedelta(days=bound)) if column.kind == "date" else f"{bound:g}"


def bars(certificate: Certificate) -> list[Bar]:
    """Return a bar for each stage, one for the total, and one for the budget."""
    stages = list(dict.fromkeys(item.stage for item in certificate.events))
    events = {s: [item.event for item in certificate.events if item.stage == s] for s in stages}
    costs = {stage: _cost(certificate, events[stage]) for stage in stages}
    allowed = certificate.budget.epsilon
    widest = max([allowed, *(cost for cost in costs.values() if cost is not None)])
    found = [_bar(stage, costs[stage], widest, tuple(events_in_words(events[stage]))) for stage in stages]
    return [
        *found,
        _bar("together", certificate.epsilon, widest, (f"by accountant {certificate.accountant}",)),
        _bar("allowed", allowed, widest, ("the budget that was set before the run",)),
    ]


def _bar(name: str, cost: float | None, widest: float, releases: tuple[str, ...]) -> Bar:
    if cost is None:
        return Bar(name, None, 0.0, releases)
    return Bar(name, rounded_up(cost, 4), cost / widest if widest else 0.0, releases)


def _cost(certificate: Certificate, events: list[Event]) -> float | None:
    total: Callable[..., float] = TOTALS[_by(certificate)]
    try:
        charged = [grouped(event, certificate.schema.records_of_a_unit) for event in events]
        cost = total(charged, certificate.neighboring, certificate.delta)
    except (DpkitError, ValueError):
        return None
    return cost if cost < float("inf") else None


def _by(certificate: Certificate) -> str:
    return certificate.accountant if certificate.accountant in TOTALS else FALLBACK
