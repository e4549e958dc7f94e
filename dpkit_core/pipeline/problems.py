"""What is wrong with a composition: every reason at once, a sentence each, before any data is touched.

``of_wanted`` and ``of_k`` say what is wrong with what is asked for, ``of_records`` with what a certificate
would say of the parts, ``of_stages`` with what they plan. All of it follows from public facts.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence

from dpkit_core.data.schema import Schema
from dpkit_core.errors import DpkitError, InvalidOption
from dpkit_core.mechanisms.picks import Pick
from dpkit_core.noise.sampler import check_range, gaussian_grid, laplace_grid
from dpkit_core.noise.selection import SMALLEST_EPSILON
from dpkit_core.pipeline.parts import BATCHES, FORMS, ITERATES, Component, Part, Stage, Wanted, forms_of
from dpkit_core.pipeline.units import for_units
from dpkit_core.plugins.promises import Iterating
from dpkit_core.plugins.registry import Registry
from dpkit_core.privacy.budget import Neighboring, Sensitivity
from dpkit_core.privacy.events import (
    Event,
    ExponentialMechanism,
    Filtered,
    Gaussian,
    Laplace,
    NonPrivate,
    PermuteAndFlip,
    PoissonSampled,
    expand,
    is_exact,
    unstated,
    walk,
)
from dpkit_core.protocols import Accountant, Iterates, keeps_accounts
from dpkit_core.release.consistency import other_picks
from dpkit_core.text import number_of

SMALLEST_BUDGET = 1e-100  # epsilon: stages get parts of it, whose squares float64 must hold


def of_wanted(wanted: Wanted, accountant: Part[Accountant] | None) -> Iterator[str]:
    """Yield what is wrong with what a plan is asked for, whatever the parts plan."""
    yield from _of_parts(wanted)
    yield from _of_evaluation(wanted)
    yield from _of_engine(wanted)
    relation = wanted.schema.neighboring
    if accountant is not None and (its := accountant.instance.neighboring) is not relation:
        yield (
            f"neighboring relation differs: {accountant}: {its.value}; schema: {relation.value}. Build the "
            "accountant with the schema's relation"
        )


def _of_parts(wanted: Wanted) -> Iterator[str]:
    assembly, target, epsilon = wanted.assembly, wanted.schema.target, wanted.budget.epsilon
    scorer, selector, regressor = assembly.scorer, assembly.selector, assembly.regressor
    if scorer and not selector:
        yield f"{scorer} has no selector to release its scores; add a selector"
    if selector and not scorer:
        yield f"{selector} has no scores to select by; add a scorer"
    if scorer and not assembly.forms and ITERATES in forms_of(scorer.instance):
        yield _without_iterates(scorer, regressor)
    if not (selector or regressor):
        yield "nothing would be released; add a regressor, or a scorer and a selector"
    yield from _of_batches(wanted)
    if not SMALLEST_BUDGET <= epsilon <= 1 / SMALLEST_BUDGET:
        yield (
            f"epsilon is {epsilon}; no noise is drawn for less than {SMALLEST_BUDGET} or more than "
            f"{1 / SMALLEST_BUDGET}"
        )
    if selector and regressor and not 0 < wanted.select_share < 1:
        yield f"select_share is {wanted.select_share}; it must be above 0 and below 1"
    for part, remedy in (
        (scorer, "all features, without a selection"),
        (regressor, "a regressor that learns classes, such as boosted_trees"),
    ):
        if target.classes and part and not getattr(type(part.instance), "takes_classes", False):
            yield (
                f"{part} knows numbers and targets of two categories, and target {target.name!r} has "
                f"{len(target.classes)}; name the one to be predicted by positive = "
                f'"{target.classes[-1]}" in the schema, or take {remedy}'
            )


def _of_batches(wanted: Wanted) -> Iterator[str]:
    selector, regressor, batches = wanted.assembly.selector, wanted.assembly.regressor, wanted.batches
    if batches < 1:
        yield f"batches is {batches}; there must be at least 1"
    if batches > 1 and wanted.schema.unit is not None:
        yield (
            f"a unit, {wanted.schema.unit}, may have records in several batches, of which nobody counts more "
            "than those of one; give one table"
        )
    if batches > 1 and selector:
        yield f"{selector} selects features when not all batches are there; leave it out, or give one table"
    if batches > 1 and regressor and BATCHES not in forms_of(regressor.instance):
        yield (
            f"{regressor} learns from one table, not from {batches} batches; give one table, or a regressor "
            "for streams, such as sgbdt"
        )


def _of_evaluation(wanted: Wanted) -> Iterator[str]:
    """Yield why no model could be scored, on records that are held out or on those of its fit."""
    assembly, held_out, in_sample = wanted.assembly, wanted.evaluate, wanted.in_sample
    if held_out is in_sample is None:
        return
    if held_out is not None and not 0 < held_out < 1:
        yield f"evaluate is {held_out}; the share of records to be held out must be above 0 and below 1"
    most = 1 - wanted.select_share if assembly.selection is not None else 1.0
    if in_sample is not None and not 0 < in_sample < most:
        yield (
            f"in_sample is {in_sample}; the share of the budget for a score must be above 0 and below "
            f"{most:.3g}, what is left for the regression"
        )
    if not (held_out is None or in_sample is None):
        yield "a model is scored on records held out (evaluate) or on those of its fit (in_sample); give one"
    if assembly.regressor is None:
        yield "an evaluation scores a model, and only features are selected; add a regressor"
    elif not assembly.forms or set(FORMS).isdisjoint(assembly.forms):
        yield f"{assembly.regressor} has a form of data of its own, whose records cannot score a model"
    if wanted.batches > 1:
        yield "one table scores a model, not batches; leave the evaluation out"
    if held_out is not None and wanted.schema.neighboring is not Neighboring.ADD_OR_REMOVE_ONE:
        yield (
            "a record that is replaced may change its side, of which no proof is known; plan for add-remove, "
            "or leave the evaluation out"
        )


def _of_engine(wanted: Wanted) -> Iterator[str]:
    """Yield what is wrong with parts and public facts where an engine has the records."""
    if (engine := wanted.engine) is None:
        return
    for part in wanted.assembly.gathering:
        yield needs_records(part, engine.name)
    if wanted.schema.unit is not None and not engine.instance.units:
        yield (
            f"the schema protects all records of one {wanted.schema.unit}, which may be in several places of "
            f"{engine.name}; leave the engine out"
        )
    if wanted.batches > 1:
        yield f"{engine.name} has one table, not batches; leave the engine out, or give one table"


def of_coins(stages: Iterable[Stage], engine: str) -> Iterator[str]:
    """Yield what is wrong with stages that need coins or accounts of records, where an engine has neither."""
    missing = f"and {engine} has none next to the records; leave the engine out, or take one that has them"
    for stage in stages:
        inner = {type(each) for event in stage.plan.events for each in walk(event)}
        if PoissonSampled in inner:
            yield f"{stage.part} samples by secret coins, {missing}"
        if Filtered in inner:
            yield f"{stage.part} keeps accounts of records, {missing}"


def needs_records(part: Part[Component], engine: str) -> str:
    """Return why a part cannot be run where records are elsewhere."""
    return (
        f"{part} needs the records in one place, and {engine} adds up where they are; choose a part that "
        "asks for sums alone, or leave the engine out"
    )


def of_k(wanted: Wanted) -> Iterator[str]:
    """Yield what is wrong with the number of features to select."""
    assembly, k, most = wanted.assembly, wanted.k, len(wanted.schema.features)
    if k is None:
        return
    if not 1 <= k <= most:
        yield f"k is {k}, the schema has {number_of(most, 'feature')}; k must be from 1 to {most}"
    if (iteration := assembly.iteration) is not None and k != most:
        yield (
            f"k is {k}, but {iteration.scorer} drops features from the iterates of {iteration.regressor}, "
            "and how many are left is up to the data; leave k out"
        )
    elif assembly.selector is None and k != most:
        yield f"k is {k}, but nothing selects features; add a scorer and a selector, or leave k out"


def of_records(parts: Iterable[Part[Component]], known: int | None) -> Iterator[str]:
    """Yield what no certificate could say of the parts, ``known`` being how many records there are."""
    for part in parts:
        try:
            _ = part.record
        except InvalidOption as error:
            yield str(error)
        most = part.most_records
        if known is not None and most is not None and known > most:
            yield (
                f"{part}: the schema says records = {known}, its proof is for {most} at most; draw a sample "
                "by a rule that does not depend on the data"
            )


def of_stages(
    wanted: Wanted, stages: Sequence[Stage], accountant: Part[Accountant], iterates: Iterates | None
) -> Iterator[str]:
    """Yield what is wrong with what the parts plan."""
    yield from _of_events(wanted, stages, accountant)
    yield from _of_turns(stages, iterates)
    if wanted.engine is not None and not wanted.engine.instance.samples:
        yield from of_coins(stages, wanted.engine.name)


def _of_events(wanted: Wanted, stages: Iterable[Stage], accountant: Part[Accountant]) -> Iterator[str]:
    schema = wanted.schema
    for stage in stages:
        part, events = stage.part, stage.plan.events
        picking = stage.name == "selection" and wanted.assembly.iteration is None
        # Picks that no verifier would take for k of these features.
        if picking and (problem := other_picks(events, len(schema.features), wanted.nearest_k)) is not None:
            yield f"{part} plans a selection in which {problem}"
        if not all(map(is_exact, events)):
            yield f"{part} plans events of classes that are not the core's"
            continue
        if not events and stage.name != "scoring":  # scores stay inside
            yield (
                f"{part} plans no event, so nothing would show what it releases; a release without privacy "
                "must be planned as NonPrivate"
            )
        scores = stage.rounds[0].scores if picking else None
        for event in events:  # the first that is wrong with one says enough
            yield from itertools.islice(_of_event(event, stage, accountant, schema, scores), 1)


def _of_turns(stages: Iterable[Stage], facts: Iterates | None) -> Iterator[str]:
    """Yield why the events of a regressor and a selector that take turns could not be put in order."""
    by_name = {stage.name: stage for stage in stages}
    if facts is None or not {"selection", "regression"} <= by_name.keys():
        return
    selection, regression = by_name["selection"], by_name["regression"]
    picks, steps = len(selection.plan.events), sum(1 for _ in expand(regression.plan.events))
    if picks != len(facts.after):
        yield (
            f"{selection.part} plans {number_of(picks, 'event')} for "
            f"{number_of(len(facts.after), 'iterate')}; it must plan one for each"
        )
    if any(isinstance(event, Filtered) for stage in by_name.values() for event in stage.plan.events):
        yield "a loop of parts that take turns has no filter; use another accountant"
    if facts.after[-1] > steps:
        yield (
            f"{regression.part} hands an iterate over after {number_of(facts.after[-1], 'event')} and plans "
            f"{steps}"
        )


def other_sensitivity(event: Event, scores: Sequence[Sensitivity]) -> float | None:
    """Return the sensitivity of a selection that is not one of the scores' that it selects from."""
    declared = [sensitivity.range for sensitivity in scores]
    others = (pick.sensitivity for pick in _picks(event) if pick.sensitivity not in declared)
    return next(others, None) if declared else None


def _without_iterates(scorer: Part[Component], regressor: Part[Component] | None) -> str:
    """Return why a scorer of iterates cannot be used, and which installed regressors have iterates."""
    registry, names = Registry(), []
    for ref in registry.refs("regressors"):
        try:
            if issubclass(registry.load(ref), Iterating):
                names.append(ref.name)
        except DpkitError:
            continue  # told whoever asks for it
    who = f"{regressor} shows none" if regressor else "there is no regressor"
    return (
        f"{scorer} scores the iterates of a regressor, and {who}; use one that has iterates: "
        f"{', '.join(names) or 'none is installed'}"
    )


def _of_event(
    event: Event, stage: Stage, accountant: Part[Accountant], schema: Schema, scores: int | None
) -> Iterator[str]:
    """Yield what is wrong with an event; ``scores`` is among how many a pick must be, if that is known."""
    part, relation = stage.part, schema.neighboring
    if event.neighboring is not relation:
        yield (
            f"neighboring relation differs: {part} plans {event} for {event.neighboring.value}; schema: "
            f"{relation.value}"
        )
    if any(isinstance(inner, Filtered) for inner in walk(event)):
        if not isinstance(event, Filtered):
            yield (
                f"{part} plans a filter inside another event, so that its rounds could not be told; plan it "
                "on its own"
            )
        if not keeps_accounts(accountant.instance):
            yield f"{part} plans a filter, for which {accountant} keeps no accounts; use individual_filter"
    if (fact := unstated(event)) is not None:
        yield f"{part} plans {fact}, so that nothing could be compared with it"
    if (other := other_sensitivity(event, [each.sensitivity for each in stage.rounds])) is not None:
        yield (
            f"{part} plans a selection for range sensitivity {other:g}, which is none that the scorer "
            f"declares: {', '.join(f'{each.sensitivity.range:g}' for each in stage.rounds)}"
        )
    for pick in _picks(event) if scores is not None else ():
        if pick.candidates != scores:
            yield (
                f"{part} plans a selection among {pick.candidates} candidates, and is offered {scores} "
                "scores; say so by the candidates of the event"
            )
    for inner in walk(event):
        try:
            _require_drawable(inner)
        except (ValueError, OverflowError) as error:  # would otherwise show after it is paid
            yield (f"{part} plans noise that cannot be drawn ({error}); give another budget or select fewer")
    private = not any(isinstance(inner, NonPrivate) for inner in walk(event))
    if private and not for_units(accountant.instance, schema.records_of_a_unit).supports(event):
        yield f"{accountant} cannot account for {event} of {part}"


def _picks(event: Event) -> Iterator[Pick]:
    return (inner for inner in walk(event) if isinstance(inner, Pick))


def _require_drawable(event: Event) -> None:
    match event:
        case ExponentialMechanism() | PermuteAndFlip() if event.epsilon < SMALLEST_EPSILON:
            raise ValueError(
                f"a selection at epsilon {event.epsilon:.2g} is below {SMALLEST_EPSILON:.2g}, where the "
                "rounding of its noise is no longer covered"
            )
        case ExponentialMechanism() | PermuteAndFlip() if event.sensitivity is not None:
            check_range("scale of the noise", event.sensitivity / event.epsilon)
        case Laplace() if event.sensitivity is not None:
            laplace_grid(event.sensitivity, event.noise_multiplier, _size(event))
        case Gaussian() if event.sensitivity is not None:
            gaussian_grid(event.sensitivity, event.noise_multiplier, _size(event))
        case _:
            pass


def _size(event: Laplace | Gaussian) -> int:
    return max(math.prod(event.shape or ()), 1)
