"""Attacks on budgets: plans stay within their budget, and runs emit exactly the planned events."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import scipy

from dpkit_check.cases.every import composed, requested
from dpkit_check.cases.parts import kind_of
from dpkit_check.cases.plans import claiming
from dpkit_check.cases.regressors import fitted
from dpkit_check.cases.scenes import Case, Pair, judged
from dpkit_check.cases.scorers import scorings
from dpkit_check.cases.selectors import SelectorCase, selections
from dpkit_check.instrument import Answers
from dpkit_check.trial import CheckFailed, Evidence, Factory, NotApplicable, Trial, attack, require
from dpkit_core.noise.randomness import Randomness
from dpkit_core.pipeline.meter import Draw
from dpkit_core.pipeline.problems import other_sensitivity
from dpkit_core.privacy.budget import Neighboring
from dpkit_core.privacy.events import ApproxDP, unstated
from dpkit_core.protocols import Refusal, Scorer, TopKSelector
from dpkit_core.release.release import Release
from dpkit_core.release.verify import verify
from dpkit_core.text import number_of


@attack("composition", kinds=("selector", "regressor"))
def check_plans_keep_the_budget(make: Factory[Any], trial: Trial) -> Evidence:
    """Under every accountant that can serve it, a plan costs at most its budget.

    If this fails: calibrate with ``request.accountant`` at the request's delta and return the safe end of the
    bisection (``dpkit_core.mechanisms.calibration`` does); count every round, and plan every event, including
    those before a refusal.
    """
    plans = 0
    for case in claiming(requested(make)):
        accountant, budget = case.request.accountant, case.request.budget
        for event in case.plan.events:
            require(
                accountant.supports(event),
                f"the plan has {event}, which its accountant does not support ({case.name})",
            )
            require(unstated(event) is None, f"the plan has {unstated(event)}")
            if isinstance(case, SelectorCase):
                other = other_sensitivity(event, case.sensitivities)
                require(other is None, f"the plan has sensitivity {other}, which is not that of the scores")
            accountant = accountant.compose(event)
        spent = accountant.epsilon(budget.delta)
        require(
            spent <= budget.epsilon * (1 + 1e-9),
            f"the plan costs epsilon {spent:.6g}; its budget is {budget.epsilon:.6g} ({case.name})",
        )
        plans += 1
    return Evidence(number_of(plans, "plan"), plans)


@attack("privacy", kinds=("scorer", "selector", "regressor"))
def check_noise_is_the_same_for_neighbors(make: Factory[Any], trial: Trial) -> Evidence:
    """A run emits all planned events in order, by scales and shapes that do not depend on records or scores.

    If this fails: ask the meter for exactly the events of the plan. Look for a scale computed from scores or
    divided by the number of records, a skipped round, or a shape read off the data. Replace the private
    number by a public one, or release it with noise first.

    In a mechanism of the part's own whose event may fail, a scale may follow the records, as that of a smooth
    sensitivity does, by as much as its delta pays for: where noise is released, its tail is.
    """
    samples = 0
    for case, pair, runs in _TRACES[kind_of(make)](make, trial):
        difference = _difference(runs)
        if difference is not None:
            _same_noise(case, pair, seed=samples)
        require(difference is None, f"between neighbors, {difference} ({case.name})")
        samples += 1
    if not samples:
        raise NotApplicable("the scorer plans no release")
    return Evidence(f"{number_of(samples, 'pair')} of traces", samples)


_Runs = Sequence[tuple[Any, tuple[Draw, ...]]]
_Traced = Iterator[tuple[Case, Pair, _Runs]]


def _before_scoring(make: Factory[Scorer], trial: Trial) -> _Traced:
    for case in scorings(make):
        if not case.plan.events and case.plan.settings is None:
            continue
        population, rng = case.population, np.random.default_rng(trial.seed)
        for seed in range(8 * trial.effort):
            pair = population.datasets(population.pair(rng, int(rng.integers(3, 20))))
            yield case, pair, [case.run(data, Randomness.from_seed(seed), finish=True) for data in pair]


def _selected(make: Factory[TopKSelector], trial: Trial) -> _Traced:
    rng = np.random.default_rng(trial.seed)
    for case in selections(make, Neighboring):
        for pair in case.neighbors(rng, 4 * trial.effort):
            yield case, pair, [case.run(values, Answers(trial.seed)) for values in pair]


_TRACES: dict[str, Callable[[Factory[Any], Trial], Iterable[tuple[Case, Pair, _Runs]]]] = {
    "scorer": _before_scoring,
    "selector": _selected,
    "regressor": fitted,
}


@attack("composition")
def check_releases_keep_their_plan(make: Factory[Any], trial: Trial) -> Evidence:
    """Composed with the kit's own parts, it releases what was planned, with a certificate that verifies.

    A fresh accountant confirms the total, which is within the budget. A seed gives the same release each
    time, unless another library draws the noise, and that release is not called private; one from the
    system's randomness is called private unless the plan has a reason against it. Written as JSON and read
    back, a release is the same. Neighbors go through the same stages and rounds. No run changes an option.

    If this fails: the message says which. A part that works alone but not here relies on something that the
    composer does not promise, such as a fixed number of features, or draws noise outside the meter. What a
    part keeps of a table in an option is told by its next certificate.
    """
    released = 0
    for composition in composed(make, trial):
        plan, (first, second) = composition.plan, composition.pair
        require(
            plan.epsilon is None or plan.epsilon <= plan.budget.epsilon,
            f"the plan costs epsilon {plan.epsilon}, above its budget {plan.budget.epsilon}",
        )
        stages: list[list[tuple[Any, ...]]] = [[], []]
        documents = [
            composition.run(
                data, Randomness.from_seed(trial.seed), lambda *step, seen=seen: seen.append(step)
            ).to_document()
            for data, seen in zip((first, second), stages, strict=True)
        ]
        require(stages[0] == stages[1], f"neighbors go through different stages: {stages[0]} and {stages[1]}")
        again = composition.run(first, Randomness.from_seed(trial.seed)).to_document()
        foreign = any(stage.plan.foreign for stage in plan.stages)
        require(foreign or documents[0] == again, "the same seed gave different releases")
        require(not again["certificate"]["private"], "a release with seeded noise is called private")
        release = composition.run(first, Randomness.from_os())
        certificate = release.certificate
        require(
            certificate.private is (not plan.reasons),
            f"the certificate says private = {certificate.private}; reasons in the plan: {plan.reasons}",
        )
        require(certificate.events == plan.events, "the certificate does not list the planned events")
        found = verify(release, composition.accountant)
        require(found.confirmed, f"the certificate does not verify: {'; '.join(found.problems)}")
        _require_same_when_read_back(release)
        for part, planned in zip(plan.parts, plan.records, strict=True):
            require(
                part.record == planned,
                f"runs changed the options of {planned.name}, which the next certificate shows, from "
                f"{dict(planned.options)} to {dict(part.record.options)}",
            )
        released += 4
    return Evidence(f"{number_of(released, 'release')}, their certificates confirmed", released)


def _require_same_when_read_back(release: Release) -> None:
    document = json.loads(json.dumps(release.to_document(), allow_nan=False))
    same = json.loads(json.dumps(Release.from_document(document).to_document())) == document
    require(same, "the release changes when written as JSON and read back")


@judged("trace_again")
def _same_noise(case: Case, pair: Pair, *, seed: int) -> None:
    """Fail if runs on two worlds draw different noise."""
    difference = _difference([case.run(world, Answers(seed)) for world in pair])
    if difference is not None:
        raise CheckFailed(f"{difference}, between {case.beside(pair)} ({case.name})")


def _difference(runs: _Runs) -> str | None:
    refused = any(isinstance(outcome, Refusal) for outcome, _ in runs)
    return trace_difference(runs[0][1], runs[1][1], refused=refused)


def trace_difference(first: Sequence[Draw], second: Sequence[Draw], *, refused: bool = False) -> str | None:
    """Return a sentence on the first difference between two traces, or None where they agree.

    Which mechanisms are called, how often, with which scale and on how many numbers is planned from public
    facts. If it differs between two datasets, it was computed from private data, as when a scale is divided
    by the number of records. One run on each finds what no sampling would.

    Parameters
    ----------
    first, second
        Draws of two runs with the same seed.
    refused
        Whether one of the runs ended in a refusal, after which nothing more is drawn.

    Examples
    --------
    >>> from dpkit_core.privacy.events import Laplace
    >>> trace_difference([Draw(Laplace(1.0), 1.0, ())], [Draw(Laplace(1.0), 0.95, ())])
    'draw 1 has scale 1.0 on one dataset and 0.95 on the other'
    """
    for number, (one, other) in enumerate(zip(first, second, strict=False), start=1):
        for fact in ("event", "scale", "shape"):
            if getattr(one, fact) != getattr(other, fact):
                return (
                    f"draw {number} has {fact} {getattr(one, fact)} on one dataset and "
                    f"{getattr(other, fact)} on the other"
                )
        if not refused and _scales(one) != _scales(other) and not _delta_pays(one, other):
            return f"draw {number} has noise of scales {_scales(one)} on one dataset, else {_scales(other)}"
    if len(first) != len(second) and not refused:
        return f"{number_of(len(first), 'draw')} on one dataset and {len(second)} on the other"
    return None


def _delta_pays(one: Draw, other: Draw) -> bool:
    """Return whether an event's delta pays for noise of another scale.

    Wherever the two centers are, beyond some t from that of the wider noise, on the side that leads away from
    the other, the wider one is with the chance of its tail, and the other with that of its own at most. So
    what the tails differ by after a factor of e^epsilon is a delta that no proof avoids where the noise is
    released: less is asked of an honest part than it has proved.
    """
    scales, others = (dict(_scales(draw)) for draw in (one, other))
    if not isinstance(one.event, ApproxDP) or scales.keys() != others.keys():
        return False
    epsilon, delta = one.event.pair()
    several = len(_scales(one)) > len(scales) or len(_scales(other)) > len(others)
    spent = [_between_tails(method, scales[method], others[method], epsilon) for method in scales]
    return not several and max(spent) <= delta


def _between_tails(method: str, one: float, other: float, epsilon: float) -> float:
    """Return the most by which tails of two scales differ, after a factor of e^epsilon for the narrower."""
    narrow, wide = sorted((one, other))
    places = np.linspace(0, 60, 6001)
    if "laplace" in method:
        tail, least = np.exp(-places) / 2, np.exp(epsilon - places * wide / narrow) / 2
    elif "gaussian" in method:
        tail = scipy.special.ndtr(-places)
        least = np.exp(epsilon + scipy.special.log_ndtr(-places * wide / narrow))
    else:
        return 1.0
    return float((tail - least).max())


def _scales(draw: Draw) -> set[tuple[str, float]]:
    """Return the noise with a scale that a custom mechanism drew; how often may depend on the data."""
    return {(call.method, call.scale) for call, _ in draw.calls if call.scale is not None}
