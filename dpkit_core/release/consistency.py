"""Whether a release is consistent: nothing in it contradicts anything else.

This needs neither the data nor the parts: each event belongs to a listed part, a selection is as long as its
picks say, a model uses selected features, and so on. ``docs/reference/release-file.md`` lists the conditions,
and its program without dependencies checks the same ones. ``dpkit_core.release.verify`` compares the total.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from typing import TypeGuard

from dpkit_core.errors import DpkitError
from dpkit_core.files.documents import as_document, first_difference
from dpkit_core.privacy.events import (
    Event,
    ExponentialMechanism,
    NonPrivate,
    PermuteAndFlip,
    expand,
    says_facts,
    unstated,
    walk,
)
from dpkit_core.privacy.filters import filter_from_document
from dpkit_core.release.certificate import Certificate, PartRecord
from dpkit_core.release.release import Release
from dpkit_core.text import number_of

#: What the parts of a run are, in order.
RUNS = (
    ("regressor", "accountant"),
    ("scorer", "selector", "accountant"),
    ("scorer", "selector", "regressor", "accountant"),
)

#: The stages of a run, in order, and which part each belongs to.
STAGES = {"scoring": "scorer", "selection": "selector", "regression": "regressor"}

#: The stages of a search among settings, in order: fits, empty folds, the comparison.
SEARCH = re.compile(r"(fits of candidate (0|[1-9][0-9]*))|(folds)|(comparison)")

_NOT_PRIVATE = "not private"
_FOREIGN = "for the noise that it drew"


def contradictions(release: Release) -> list[str]:
    """Return the contradictions in a release, one sentence each."""
    certificate = release.certificate
    return [
        *_of_relations(certificate),
        *_of_privacy(certificate),
        *_of_budget(certificate),
        *_of_outcome(release),
        *_of_facts(certificate),
        *(_of_search(release) if _is_search(certificate) else _of_run(release)),
        *_of_features(release),
        *_of_witness(certificate),
    ]


def _of_relations(certificate: Certificate) -> Iterator[str]:
    relation = certificate.neighboring
    for e in certificate.events:
        if e.event.neighboring is not relation:
            yield (
                f"event {e.event} holds for {e.event.neighboring.value}, the certificate for {relation.value}"
            )
    if certificate.schema.neighboring is not relation:
        its = certificate.schema.neighboring
        yield f"the certificate is for {relation.value}, its schema for {its.value}"
    if not certificate.events:
        yield "the certificate lists no event, so nothing shows what the release cost"


def _of_privacy(certificate: Certificate) -> Iterator[str]:
    """Yield what is wrong with whether it is private, and with the reasons why not."""
    leaks = [inner for e in certificate.events for inner in walk(e.event) if isinstance(inner, NonPrivate)]
    if certificate.private and certificate.reasons:
        yield "the certificate says private but gives reasons why not"
    if not (certificate.private or certificate.reasons):
        yield "the certificate says not private but gives no reason"
    if certificate.private and _NOT_PRIVATE in certificate.randomness:
        yield f"the certificate says private, but randomness was {certificate.randomness}"
    if leaks and (certificate.private or certificate.epsilon is not None):
        yield "an event is not private at all, yet the certificate claims a guarantee"
    if certificate.private and certificate.epsilon is None:
        yield "the certificate says private but claims no epsilon"
    planned = tuple(dict.fromkeys(leak.reason for leak in leaks))
    seeds = certificate.reasons[len(planned) :]
    if certificate.reasons[: len(planned)] != planned:
        yield "the reasons why it is not private do not match those of its events"
    elif len(seeds) > 1 or (bool(seeds) != _seeded(certificate) and not _may_be_seeded(certificate)):
        yield (
            f"randomness was {certificate.randomness}, and besides those of its events the certificate gives "
            f"{len(seeds)} reasons why it is not private; it gives one exactly where a seed gave the noise"
        )


def _seeded(certificate: Certificate) -> bool:
    return _NOT_PRIVATE in certificate.randomness


def _may_be_seeded(certificate: Certificate) -> bool:
    """Return whether another library drew all noise, so that nothing is said about ours."""
    return _FOREIGN in certificate.randomness and not _seeded(certificate)


def _of_budget(certificate: Certificate) -> Iterator[str]:
    budget = certificate.budget
    if (certificate.epsilon or 0.0) > budget.epsilon or certificate.delta > budget.delta:
        yield (
            f"the claimed epsilon {certificate.epsilon} and delta {certificate.delta} are above the budget, "
            f"epsilon {budget.epsilon} and delta {budget.delta}"
        )
    elif certificate.delta != budget.delta:
        yield f"the total is at delta {certificate.delta}, but the budget has delta {budget.delta}"


def _of_outcome(release: Release) -> Iterator[str]:
    outcome, refusal = release.certificate.outcome, release.refusal
    if outcome not in {"released", "refused"}:
        yield f"unknown outcome {outcome!r}"
    elif (outcome == "refused") != (refusal is not None):
        yield f"the outcome is {outcome}, the refusal {refusal!r}"
    elif refusal is not None and release.model is not None:
        yield "the release has a model although it was refused"
    if release.refusal_code is not None and refusal is None:
        yield f"the release names refusal {release.refusal_code!r} but was not refused"


def _of_facts(certificate: Certificate) -> Iterator[str]:
    """Yield facts that only some events state; events of 0.1.0 state their cost and nothing more."""
    events = [e.event for e in certificate.events]
    if any(map(says_facts, events)):
        for event in events:
            if (fact := unstated(event)) is not None:
                yield f"the certificate lists {fact}, and says such facts of other events"


def _of_run(release: Release) -> Iterator[str]:
    """Yield what is wrong with the parts and stages of a run, and with what came out of them."""
    certificate = release.certificate
    roles = _roles(certificate.parts)
    if roles not in RUNS:
        known = "; or ".join(", ".join(one) for one in RUNS)
        yield f"the parts are {', '.join(roles) or 'none'}; those of a run are {known}, in this order"
        return
    yield from _of_accountant(certificate)
    stages = [e.stage for e in certificate.events]
    for stage in dict.fromkeys(stages):
        if stage not in STAGES:
            yield f"an event is of stage {stage!r}; the stages of a run are {', '.join(STAGES)}"
        elif STAGES[stage] not in roles:
            yield f"an event is of the {stage}, and no {STAGES[stage]} is listed"
    for stage in ("selection", "regression"):
        if STAGES[stage] in roles and stage not in stages:
            yield f"the certificate lists a {STAGES[stage]}, and no event of the {stage}"
    order = [list(STAGES).index(stage) for stage in stages if stage in STAGES]
    if order != sorted(order):
        yield f"the stages are out of order; the order is {', '.join(STAGES)}"
    if "regressor" not in roles and (release.model is not None or release.refusal is not None):
        yield "the release has a model or a refusal, but the certificate lists no regressor"
    if "regressor" in roles and release.model is None and release.refusal is None:
        yield "the certificate lists a regressor, but the release has neither a model nor a refusal"
    yield from _of_settings(certificate, roles)
    yield from _of_selection(release, roles)


def _of_settings(certificate: Certificate, roles: Sequence[str]) -> Iterator[str]:
    """Yield which setting of the plan is of parts that the run does not have."""
    given = as_document(certificate.plan)
    alone = sorted({"select_share", "iterates"} & given.keys())
    if alone and roles != RUNS[-1]:
        yield f"the plan has {alone[0]}, for a selector with a regressor; listed are {', '.join(roles)}"
    if "batches" in given and "selector" in roles:
        yield f"the plan is for {given['batches']} batches, but a selector is listed, which needs a single "
        "table"


def _of_selection(release: Release, roles: Sequence[str]) -> Iterator[str]:
    certificate, iterates = release.certificate, release.certificate.plan.iterates
    k = len(release.selected)
    if "selector" not in roles:
        if k:
            yield f"{k} features are selected, but the certificate lists no selector"
        return
    events = [e.event for e in certificate.events if e.stage == "selection"]
    if iterates is not None:
        if k:
            yield f"{k} features are selected, but the plan is to drop some from {iterates} iterates"
        if len(events) != iterates:
            yield f"{len(events)} events of the selection are listed for {iterates} iterates"
    elif not k:
        yield "the certificate lists a selector, but nothing is selected"
        return
    every = _features(certificate)
    if iterates is not None:
        yield from _of_candidates(events, {every, every + 1}, "features")
    elif (problem := other_picks(events, every, k)) is not None:
        yield problem


def other_picks(events: Sequence[Event], offered: int, k: int) -> str | None:
    """Return what is wrong with the picks of a selection of k among so many features; None if nothing is.

    No pick has more candidates than there are features. If a selection consists of picks alone, the first one
    is among all features, and there is one pick, or at least one for each selected feature.
    """
    picks = [inner for event in events for inner in walk(event) if _is_pick(inner)]
    listed = [pick.candidates for pick in picks if pick.candidates is not None]
    if listed and max(listed) > offered:
        return f"a pick is among {max(listed)} candidates, but there are {number_of(offered, 'feature')}"
    steps = list(expand(events))
    if not all(map(_is_pick, steps)):
        return None
    if listed and listed[0] != offered:
        return (
            f"the first pick is among {listed[0]} candidates, but there are {number_of(offered, 'feature')}"
        )
    if 1 < len(steps) < k:
        return f"{len(steps)} picks are listed for {k} features; there must be one for all, or one for each"
    return None


def _of_search(release: Release) -> Iterator[str]:
    """Yield what is wrong with a search: fits of candidates on folds, and a comparison of how they did."""
    certificate = release.certificate
    roles = _roles(certificate.parts)
    if roles[-1:] != ("accountant",) or roles.count("accountant") > 1:
        yield "the parts of a search must end with its only accountant"
    else:
        yield from _of_accountant(certificate)
    missing = [role for role in RUNS[-1][:-1] if role not in roles]
    strange = [role for role in roles if role not in RUNS[-1]]
    if missing or strange:
        yield f"a search has scorers, selectors and regressors; listed are {', '.join(roles)}"
    if release.selected or release.model is not None or release.refusal is not None:
        yield "a search releases only its certificate, but this one has a selection, a model or a refusal"
    if as_document(certificate.plan):
        yield "a search has no plan settings, but this one gives some"
    stages = list(dict.fromkeys(e.stage for e in certificate.events))
    runs = [e.stage for e in certificate.events]
    candidates = sum(stage.startswith("fits") for stage in stages)
    added = certificate.neighboring.value == "add-remove"
    expected = [f"fits of candidate {c}" for c in range(candidates)] + ["folds"] * added + ["comparison"]
    if (
        stages != expected
        or not candidates
        or runs != sorted(runs, key=stages.index)
        or runs.count("folds") > 1
    ):
        yield (
            "the stages of a search are its fits of candidate 0, 1 and so on, its folds under add-remove, "
            f"and its comparison; these are {', '.join(stages)}"
        )
    compared = [e.event for e in certificate.events if e.stage == "comparison"]
    yield from _of_candidates(compared, {candidates}, "candidates of the search")


def _is_search(certificate: Certificate) -> bool:
    return any(SEARCH.fullmatch(e.stage) for e in certificate.events)


def _of_accountant(certificate: Certificate) -> Iterator[str]:
    listed = certificate.parts[-1].name
    if listed != certificate.accountant:
        yield f"the total is by accountant {certificate.accountant}, and the parts list accountant {listed}"


def _of_candidates(events: Sequence[Event], allowed: set[int], what: str) -> Iterator[str]:
    for inner in itertools.chain.from_iterable(map(walk, events)):
        match inner:
            case (
                ExponentialMechanism(candidates=int() as listed) | PermuteAndFlip(candidates=int() as listed)
            ):
                if listed not in allowed:
                    known = " or ".join(map(str, sorted(allowed)))
                    yield f"a pick is among {listed} candidates, and there are {known} {what}"
                    return
            case _:
                pass


def _of_features(release: Release) -> list[str]:
    """Return what is wrong with the features: all are the schema's, and a model's are the selected ones."""
    schema, model = release.certificate.schema, release.model
    try:
        known = {feature.name for feature in schema.features}
    except DpkitError as error:
        return [str(error)]
    problems = [
        f"{name!r} is selected, but the certificate's schema has no such feature"
        for name in release.selected
        if name not in known
    ]
    if len(set(release.selected)) < len(release.selected):
        problems.append("a feature is selected twice")
    chosen = set(release.selected) or known
    used = () if model is None else model.features
    strange = [name for name in used if name not in chosen]
    if strange and not problems:
        problems.append(f"the model uses {strange[0]!r}, which is not one of the features that it may use")
    if len(set(used)) < len(used):
        problems.append("the model names a feature twice")
    classes = getattr(model, "classes", ())
    if classes and classes != schema.target.classes:
        problems.append(
            f"the model is of classes {', '.join(classes)}, and the classes of target "
            f"{schema.target.name!r} are {', '.join(schema.target.classes) or 'none'}"
        )
    return problems


def _of_witness(certificate: Certificate) -> Iterator[str]:
    witness = certificate.witness
    if witness is None:
        return
    try:
        measure = filter_from_document(witness.measure)
    except DpkitError as error:
        yield f"the witness: {error}"
        return
    if (place := first_difference(witness.measure, measure.to_document())) is not None:
        yield f"the witness does not write its measure as dpkit does: {place}"
    elif len(witness.total) != len(measure.units):
        yield f"the witness has {len(witness.total)} totals, and its measure counts {len(measure.units)}"
    elif not measure.admits(witness.total, witness.limits):
        yield "the account of the witness was charged for more than it allows"


def _features(certificate: Certificate) -> int:
    try:
        return len(certificate.schema.features)
    except DpkitError:  # told by what compares them
        return 0


def _roles(parts: Sequence[PartRecord]) -> tuple[str, ...]:
    return tuple(part.role for part in parts)


def _is_pick(event: Event) -> TypeGuard[ExponentialMechanism | PermuteAndFlip]:
    return isinstance(event, ExponentialMechanism | PermuteAndFlip)
