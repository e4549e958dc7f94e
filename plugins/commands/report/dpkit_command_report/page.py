"""The content of the page, gathered from a release; ``page.html`` has its layout.

Everything comes from the release file, which is public. Bars show what each stage would cost by itself, at
the release's whole delta; together they cost less than the sum, and the total has a bar of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta

import attrs
from jinja2 import Environment, PackageLoader, StrictUndefined, Template

from dpkit_core import Certificate, Release, Verification, verify
from dpkit_core.data.features import EPOCH
from dpkit_core.data.schema import Column, Schema
from dpkit_core.errors import DpkitError, InvalidRelease, install
from dpkit_core.privacy.budget import rounded_up
from dpkit_core.privacy.events import Event, events_in_words
from dpkit_core.privacy.units import grouped
from dpkit_core.release.intervals import HEADER, Intervals
from dpkit_core.release.kinds import shown
from dpkit_core.release.verify import TOTALS
from dpkit_core.text import Shown

#: Computes the cost of stages if the certificate's accountant needs a plugin.
FALLBACK = "rdp"

ASSUMPTION = "Assumption: "


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


def page(release: Release, name: str) -> str:
    """Return a page about ``release``, whose file is called ``name``.

    Parameters
    ----------
    release
        Recomputed here: the page shows whether its total is confirmed.
    name
        Shown in the commands that check the release.
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
        header=HEADER,
        by=_by(certificate),
        intervals=intervals(release),
        score=release.scored.sentences,
        model=shown(release.model) if release.model is not None else Shown(),
        epsilon=rounded_up(certificate.budget.epsilon, 6),
        delta=rounded_up(certificate.budget.delta, 3),
    )


def verdict(release: Release) -> Verification | None:
    """Return the result of recomputing the total; None if that needs a plugin that is not installed."""
    try:
        return verify(release)
    except DpkitError:
        return None


def intervals(release: Release) -> Intervals | str | None:
    """Return intervals for the coefficients, why there are none, or None without a model."""
    if release.model is None:
        return None
    try:
        return release.intervals()
    except InvalidRelease as error:
        return str(error)


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
