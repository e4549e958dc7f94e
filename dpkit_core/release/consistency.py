"""Whether a release is consistent: nothing in it contradicts anything else.

This needs neither the data nor the parts: each event belongs to a listed part, a selection is as long as its
picks say, a model uses selected features, and so on. ``docs/reference/release-file.md`` lists the conditions,
and its program without dependencies checks the same ones. ``dpkit_core.release.verify`` compares the total.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Iterator, Sequence

from dpkit_core.errors import DpkitError
from dpkit_core.files.documents import as_document, first_difference
from dpkit_core.privacy.events import (
    Event,
    ExponentialMechanism,
    Gaussian,
    NonPrivate,
    PermuteAndFlip,
    PoissonSampled,
    says_facts,
    unstated,
    walk,
)
from dpkit_core.privacy.filters import filter_from_document, filter_to_document
from dpkit_core.release.certificate import EVALUATION, IN_SAMPLE, Certificate
from dpkit_core.release.evaluation import ACCURACY, FITTED, HELD_OUT, OTHER, UNSEEN, Evaluation
from dpkit_core.release.release import Release
from dpkit_core.text import number_of

#: What the parts of a run are, in order; those of one that only evaluates a model are the last.
RUNS = (
    ("regressor", "accountant"),
    ("scorer", "selector", "accountant"),
    ("scorer", "selector", "regressor", "accountant"),
    ("accountant",),
)

#: The stages of a run, in order, and which part each belongs to.
STAGES = {
    "scoring": "scorer",
    "selection": "selector",
    "regression": "regressor",
    EVALUATION: "regressor",
    IN_SAMPLE: "regressor",
}

#: The stages of a search among settings, in order: fits, empty folds, the comparison.
SEARCH = re.compile(r"(fits of candidate (0|[1-9][0-9]*))|(folds)|(comparison)")

#: How an assumption begins on who had the records, where these were not in the process that drew all noise.
ELSEWHERE = re.compile(
    "those who run .+, where the records were, and the network to it |"
    "at most [0-9]+ of the [0-9]+ parties that hold the records "
)

_NOT_PRIVATE = "not private"
_FOREIGN = "for the noise that it drew"
_PICKS = ExponentialMechanism | PermuteAndFlip


def contradictions(release: Release) -> list[str]:
    """Return the contradictions in a release, one sentence each."""
    search = any(SEARCH.fullmatch(item.stage) for item in release.certificate.events)
    run = _search if search else _run
    checks = (_relations, _privacy, _budget, _outcome, _facts, _engine, run, _features, _witness)
    return [sentence for check in checks for sentence in check(release)]


def _relations(release: Release) -> Iterator[str]:
    certificate = release.certificate
    relation, known = certificate.neighboring, certificate.schema.neighboring
    for event in _events(certificate):
        holds = event.neighboring
        if holds is not relation:
            yield f"event {event} is for {holds.value}, the certificate for {relation.value}"
    if known is not relation:
        yield f"the certificate is for {relation.value}, its schema for {known.value}"
    if not certificate.events:
        yield "the certificate lists no event, so nothing shows what the release cost"


def _privacy(release: Release) -> Iterator[str]:
    """Check whether it is private, and the reasons why not."""
    certificate = release.certificate
    private, reasons = certificate.private, certificate.reasons
    inside = itertools.chain.from_iterable(map(walk, _events(certificate)))
    leaks = tuple(dict.fromkeys(inner.reason for inner in inside if isinstance(inner, NonPrivate)))
    others = reasons[len(leaks) :]
    seeded = _NOT_PRIVATE in certificate.randomness
    # Where another library drew all noise, the certificate says nothing about the noise of dpkit.
    unknown = _FOREIGN in certificate.randomness and not seeded
    listed = reasons[: len(leaks)] == leaks
    counted = len(others) <= 1 and (bool(others) == seeded or unknown)
    if private and reasons:
        yield "the certificate says private but gives reasons why not"
    if not (private or reasons):
        yield "the certificate says not private but gives no reason"
    if private and seeded:
        yield f"the certificate says private, but randomness was {certificate.randomness}"
    if leaks and (private or certificate.epsilon is not None):
        yield "an event is not private at all, yet the certificate claims a guarantee"
    if private and certificate.epsilon is None:
        yield "the certificate says private but claims no epsilon"
    if not listed:
        yield "the reasons why it is not private do not match those of its events"
    if listed and not counted:
        yield (
            f"randomness was {certificate.randomness}, and beyond those of its events the certificate gives "
            f"{len(others)} reasons why it is not private; it gives one exactly where a seed gave the noise"
        )


def _budget(release: Release) -> Iterator[str]:
    certificate, budget = release.certificate, release.certificate.budget
    above = (certificate.epsilon or 0.0) > budget.epsilon or certificate.delta > budget.delta
    if above:
        yield (
            f"the claimed epsilon {certificate.epsilon} and delta {certificate.delta} are above the budget, "
            f"epsilon {budget.epsilon} and delta {budget.delta}"
        )
    if not above and certificate.delta != budget.delta:
        yield f"the total is at delta {certificate.delta}, but the budget has delta {budget.delta}"


def _outcome(release: Release) -> Iterator[str]:
    outcome, refusal, code = release.certificate.outcome, release.refusal, release.refusal_code
    known, refused = outcome in {"released", "refused"}, refusal is not None
    agrees = known and (outcome == "refused") == refused
    if not known:
        yield f"unknown outcome {outcome!r}"
    if known and not agrees:
        yield f"the outcome is {outcome}, the refusal {refusal!r}"
    if agrees and refused and release.model is not None:
        yield "the release has a model although it was refused"
    if code is not None and not refused:
        yield f"the release names refusal {code!r} but was not refused"


def _facts(release: Release) -> Iterator[str]:
    """Check for facts that only some events state; events of 0.1.0 state their cost and nothing more."""
    events = _events(release.certificate)
    if any(map(says_facts, events)):
        for fact in map(unstated, events):
            if fact is not None:
                yield f"the certificate lists {fact}, but states such facts of other events"


def _engine(release: Release) -> Iterator[str]:
    """Check that what had the records is named exactly where something is assumed of it."""
    engine, assumptions = release.certificate.engine, release.certificate.assumptions
    assumed = any(map(ELSEWHERE.match, assumptions))
    if engine is None and assumed:
        yield "the certificate assumes something of who had the records, but names no engine that had them"
    if engine is not None and not assumed:
        yield f"the certificate names engine {engine.name}, but assumes nothing of who had the records"
    if engine is None and release.certificate.plan.spare is not None:
        yield "spare attempts are of several parties, but the certificate names no engine that added up"


def _run(release: Release) -> Iterator[str]:
    """Check the parts and stages of a run, and what came out of them."""
    certificate = release.certificate
    roles = _roles(certificate)
    if roles not in RUNS:
        known = "; or ".join(", ".join(one) for one in RUNS)
        yield f"the parts are {', '.join(roles) or 'none'}; those of a run are {known}, in this order"
        return
    yield from _accountant(certificate)
    yield from _stages(certificate, roles)
    if roles == RUNS[3]:
        yield from _evaluated_alone(release)
        return
    fitted, regressing = release.model is not None or release.refusal is not None, "regressor" in roles
    if fitted and not regressing:
        yield "the release has a model or a refusal, but the certificate lists no regressor"
    if regressing and not fitted:
        yield "the certificate lists a regressor, but the release has neither a model nor a refusal"
    yield from _settings(certificate, roles)
    yield from _evaluation(release)
    if "selector" in roles:
        yield from _selection(release)
    elif k := len(release.selected):
        yield f"the release selects {number_of(k, 'feature')}, but the certificate lists no selector"


def _settings(certificate: Certificate, roles: Sequence[str]) -> Iterator[str]:
    given = as_document(certificate.plan)
    both = sorted({"select_share", "iterates"} & given.keys())
    if both and roles != RUNS[2]:
        yield (
            f"the plan sets {', '.join(both)}, which needs a selector and a regressor; listed are "
            f"{', '.join(roles)}"
        )
    if "batches" in given and "selector" in roles:
        yield (
            f"the plan is for {given['batches']} batches, but a selector is listed, which needs a single "
            "table"
        )
    if "batches" in given and certificate.schema.unit is not None:
        yield (
            f"the plan is for {given['batches']} batches, in several of which a unit, "
            f"{certificate.schema.unit}, may have records"
        )
    if "spare" in given and (roles != RUNS[0] or given.keys() & {"batches", "evaluate", "in_sample"}):
        yield "spare attempts are of a fit by several parties, which select no features and score no model"


def _stages(certificate: Certificate, roles: Sequence[str]) -> Iterator[str]:
    stages = [item.stage for item in certificate.events]
    for stage in dict.fromkeys(stages):
        part = STAGES.get(stage)
        if not part:
            yield f"an event is of stage {stage!r}; the stages of a run are {', '.join(STAGES)}"
        if part and part not in roles and not (roles == RUNS[3] and stage == EVALUATION):
            yield f"an event is of the {stage}, but no {part} is listed"
    for stage in ("selection", "regression"):
        part = STAGES[stage]
        if part in roles and stage not in stages:
            yield f"the certificate lists a {part}, but no event of the {stage}"
    order = [list(STAGES).index(stage) for stage in stages if stage in STAGES]
    if order != sorted(order):
        yield f"the stages are out of order; the order is {', '.join(STAGES)}"


def _evaluation(release: Release) -> Iterator[str]:
    """Check that a model was scored exactly where that is planned, by noise that the events have."""
    certificate, found = release.certificate, release.evaluation
    by_stage = {
        stage: [item.event for item in certificate.events if item.stage == stage]
        for stage in (EVALUATION, IN_SAMPLE)
    }
    held_out, in_sample = by_stage.values()
    events = held_out or in_sample
    rule, share = certificate.plan.evaluate, certificate.plan.in_sample
    if bool(held_out) != (rule is not None):
        listed = number_of(len(held_out), "event")
        yield f"{listed} of an evaluation, and the plan holds out {'some' if rule else 'no'} records"
    if bool(in_sample) != (share is not None):
        listed = number_of(len(in_sample), "event")
        yield f"{listed} in-sample, and the plan has {'some' if share else 'no'} budget for such a score"
    if held_out and in_sample:
        yield "a model is scored on records held out and on those of its fit, which no plan does"
    if (found is not None) != bool(events and release.model is not None):
        yield "the release has an evaluation exactly where a model was evaluated, and this one does not"
    if not events:
        return
    if certificate.plan.batches > 1 or (held_out and certificate.neighboring.value != "add-remove"):
        yield "records are held out under add-remove, and score a model from a single table; these are not"
    if found is not None and (found.records != (HELD_OUT if held_out else FITTED) or found.of is not None):
        yield "a model is evaluated in its own run by other records than its events are of"
    if found is not None:
        yield from _noise(certificate, found, events)


def _evaluated_alone(release: Release) -> Iterator[str]:
    """Check a run that only evaluates a model, which is in another release."""
    certificate, found = release.certificate, release.evaluation
    if release.model is not None or release.refusal is not None or release.selected:
        yield "only a model is evaluated, but the release has a selection, a model or a refusal"
    if as_document(certificate.plan).keys() - {"evaluate"}:
        yield "a run that only evaluates a model has no other settings of a plan"
    if found is None or found.of is None:
        yield "the release lists no part but the accountant, and evaluates no model of another release"
        return
    rule = certificate.plan.evaluate
    if (found.records == HELD_OUT) != (rule is not None):
        yield "the rule by which records are held out is there exactly where these score the model"
    if (found.records == OTHER) != (UNSEEN in certificate.assumptions):
        yield "that the model was not fitted to these records is assumed exactly where others score it"
    if rule is not None and certificate.neighboring.value != "add-remove":
        yield "records are held out under add-remove, and this is for replace-one"
    yield from _noise(certificate, found, _events(certificate))


def _noise(certificate: Certificate, found: Evaluation, events: Sequence[Event]) -> Iterator[str]:
    """Check that an evaluation has the noise and the numbers of its events."""
    last = events[-1] if events else None
    if len(events) != (1 if found.measure == ACCURACY else 5):
        yield "the evaluation does not have the events of its measure"
    elif not isinstance(last, Gaussian) or last.sensitivity is None or last.shape is None:
        yield "the last event of an evaluation is Gaussian noise of a known sensitivity and shape"
    elif not math.isclose(found.deviation, last.noise_multiplier * last.sensitivity, rel_tol=1e-9):
        yield "the evaluation states other noise than its event"
    elif len(found.released) != math.prod(last.shape):
        yield "the evaluation has another number of numbers than its event"
    if (found.measure == ACCURACY) != (certificate.schema.target.kind == "categorical"):
        yield "accuracy is of targets of categories, and R2 of numbers"


def _selection(release: Release) -> Iterator[str]:
    certificate, iterates = release.certificate, release.certificate.plan.iterates
    events = [item.event for item in certificate.events if item.stage == "selection"]
    k, every = len(release.selected), _count_features(certificate)
    if iterates is not None:
        if k:
            yield f"{number_of(k, 'feature')} selected, although the run drops some from {iterates} iterates"
        if len(events) != iterates:
            yield f"the certificate lists {len(events)} events of the selection for {iterates} iterates"
        yield from _candidates(events, {every, every + 1}, "features")
    elif not k:
        yield "the certificate lists a selector, but nothing is selected"
    else:
        problem = other_picks(events, every, k)
        if problem is not None:
            yield problem


def other_picks(events: Sequence[Event], offered: int, k: int) -> str | None:
    """Return what is wrong with the picks of a selection of k among ``offered`` features, if anything is.

    No pick has more candidates than there are features. If a selection consists of picks alone, the first one
    is among all features, and there is one pick, or at least one for each selected feature.
    """
    inside = itertools.chain.from_iterable(map(walk, events))
    listed = [pick.candidates for pick in inside if isinstance(pick, _PICKS) and pick.candidates is not None]
    if listed and max(listed) > offered:
        return f"a pick is among {max(listed)} candidates, but there are {number_of(offered, 'feature')}"
    singles = list(_counted(events))
    if not all(isinstance(single, _PICKS) for single, _ in singles):
        return None
    if listed and listed[0] != offered:
        return (
            f"the first pick is among {listed[0]} candidates, but there are {number_of(offered, 'feature')}"
        )
    if 1 < (picks := sum(count for _, count in singles)) < k:
        return f"{picks} picks are listed for {k} features; there must be one for all, or one for each"
    return None


def _counted(events: Iterable[Event], times: int = 1) -> Iterator[tuple[Event, int]]:
    """Yield the single events that make up ``events``, and how often each: a file may say 10^18 times."""
    for event in events:
        if isinstance(event, PoissonSampled) or not event.inner:
            yield event, times
        else:
            for inner, count in event.inner:
                yield from _counted((inner,), times * count)


def _search(release: Release) -> Iterator[str]:
    """Check a search: fits of candidates on folds, and a comparison of how they did."""
    certificate = release.certificate
    roles = _roles(certificate)
    if roles[-1:] != ("accountant",) or roles.count("accountant") > 1:
        yield "the parts of a search must end with its only accountant"
    else:
        yield from _accountant(certificate)
    if {*roles, "accountant"} != {*RUNS[2]}:
        yield f"a search has scorers, selectors and regressors; listed are {', '.join(roles)}"
    if release.selected or release.model is not None or release.refusal is not None:
        yield "a search releases only its certificate, but this one has a selection, a model or a refusal"
    if as_document(certificate.plan):
        yield "a search has no plan settings, but this one gives some"
    runs = [item.stage for item in certificate.events]
    stages = list(dict.fromkeys(runs))
    candidates = sum(stage.startswith("fits") for stage in stages)
    added = certificate.neighboring.value == "add-remove"
    expected = [f"fits of candidate {c}" for c in range(candidates)] + ["folds"] * added + ["comparison"]
    ordered = stages == expected and runs == sorted(runs, key=stages.index)
    if not (ordered and candidates and runs.count("folds") <= 1):
        yield (
            "the stages of a search are its fits of candidate 0, 1 and so on, its folds under add-remove, "
            f"and its comparison; these are {', '.join(stages)}"
        )
    compared = [item.event for item in certificate.events if item.stage == "comparison"]
    yield from _candidates(compared, {candidates}, "candidates of the search")


def _accountant(certificate: Certificate) -> Iterator[str]:
    named, listed = certificate.accountant, certificate.parts[-1].name
    if listed != named:
        yield f"the total is by accountant {named}, but the parts list accountant {listed}"


def _candidates(events: Sequence[Event], allowed: set[int], what: str) -> Iterator[str]:
    inside = itertools.chain.from_iterable(map(walk, events))
    listed = [pick.candidates for pick in inside if isinstance(pick, _PICKS)]
    others = [count for count in listed if count is not None and count not in allowed]
    known = " or ".join(map(str, sorted(allowed)))
    if others:
        yield f"a pick is among {others[0]} candidates, but there are {known} {what}"


def _features(release: Release) -> Iterator[str]:
    """Check that all features are the schema's, and a model's are the selected ones."""
    schema, model, selected = release.certificate.schema, release.model, release.selected
    try:
        known = {feature.name for feature in schema.features}
    except DpkitError as error:
        yield str(error)
        return
    unknown, doubled = [name for name in selected if name not in known], len(set(selected)) < len(selected)
    for name in unknown:
        yield f"{name!r} is selected, but the certificate's schema has no such feature"
    if doubled:
        yield "a feature is selected twice"
    used = () if model is None else model.features
    strange = [name for name in used if name not in (selected or known)]
    if strange and not unknown and not doubled:
        yield f"the model uses {strange[0]!r}, which is not one of the features that it may use"
    if len(set(used)) < len(used):
        yield "the model names a feature twice"
    classes, target = getattr(model, "classes", ()), schema.target
    if classes and classes != target.classes:
        yield (
            f"the model is of classes {', '.join(classes)}, but the classes of target {target.name!r} are "
            f"{', '.join(target.classes) or 'none'}"
        )


def _witness(release: Release) -> Iterator[str]:
    witness = release.certificate.witness
    if witness is None:
        return
    try:
        measure = filter_from_document(witness.measure)
    except DpkitError as error:
        yield f"the witness: {error}"
        return
    if (place := first_difference(witness.measure, filter_to_document(measure))) is not None:
        yield f"the witness does not write its measure as dpkit does: {place}"
    elif len(witness.total) != len(measure.units):
        yield f"the witness has {len(witness.total)} totals, but its measure has {len(measure.units)}"
    elif not measure.admits(witness.total, witness.limits):
        yield "the account of the witness was charged for more than it allows"


def _events(certificate: Certificate) -> list[Event]:
    return [item.event for item in certificate.events]


def _roles(certificate: Certificate) -> tuple[str, ...]:
    return tuple(part.role for part in certificate.parts)


def _count_features(certificate: Certificate) -> int:
    try:
        return len(certificate.schema.features)
    except DpkitError:  # reported by ``_features``
        return 0
