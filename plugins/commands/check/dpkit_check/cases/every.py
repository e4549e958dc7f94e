"""What parts of every kind are attacked by: all requests, releases, and whole compositions."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

import attrs
import numpy as np

from dpkit_check.cases.parts import accountants, installed, kind_of
from dpkit_check.cases.plans import EDGES, NO_BUDGET, claiming, offered
from dpkit_check.cases.regressors import RegressorCase, personal, regressions, served
from dpkit_check.cases.scenes import Case, Pair, replayed
from dpkit_check.cases.scorers import PICKS, ScorerCase, scorings
from dpkit_check.cases.selectors import SHAPES, SelectorCase, claimed_selection, edges, selections
from dpkit_check.instrument import Answers
from dpkit_check.reference import ReferenceRegressor, ReferenceScorer, ReferenceSelector
from dpkit_check.trial import Evidence, Factory, NotApplicable, Trial
from dpkit_check.worlds import PERSON, Population, box, largest, presented, schemas
from dpkit_core.arrays import Vector
from dpkit_core.data.dataset import Dataset
from dpkit_core.errors import CannotCompose
from dpkit_core.noise.randomness import Randomness
from dpkit_core.pipeline.compose import compose
from dpkit_core.pipeline.observers import Observers
from dpkit_core.pipeline.plan import Plan
from dpkit_core.privacy.budget import Budget, Neighboring
from dpkit_core.protocols import Accountant
from dpkit_core.release.release import Release

_CASES: Mapping[str, Callable[[Any, dict[str, Any]], tuple[Case, Pair]]] = {
    "scorer": ScorerCase.of,
    "selector": SelectorCase.of,
    "regressor": RegressorCase.of,
}


def again(make: Factory[Any], scene: Mapping[str, Any]) -> Evidence:
    """Return what a scene shows of the part now; raise ``CheckFailed`` where it shows the failure again."""
    facts = {key: value for key, value in scene.items() if key not in {"again", "options"}}
    make = partial(make, **scene["options"]) if scene["options"] else make
    case, pair = _CASES[kind_of(make)](make(), facts)
    return replayed(case, pair, scene, facts)


def requested(make: Factory[Any]) -> Iterator[SelectorCase | RegressorCase]:
    """Yield the plans for all that a selector or a regressor is asked, at edges of the budget, too.

    Some are for four records of one person.
    """
    if kind_of(make) == "selector":
        yield from itertools.chain(selections(make, Neighboring), edges(make, EDGES))
        if together := claimed_selection(make, *SHAPES[0], most_records=PERSON.most_records):
            yield together
        return
    yield from regressions(make, every_schema=True)
    with suppress(NotApplicable):
        yield from personal(make)
    for budget, neighboring in zip(EDGES, itertools.cycle(Neighboring), strict=False):
        case = served(make, box(2, neighboring), budget)
        if isinstance(case, RegressorCase):
            yield case


def releases(make: Factory[Any], trial: Trial) -> Callable[[Randomness], Any]:
    """Return what makes one release of a part by some randomness, that can be compared with others."""
    kind = kind_of(make)
    if kind == "scorer":
        scoring = next(scorings(make))
        if not scoring.plan.events:
            raise NotApplicable("the scorer plans no release, so it draws no noise")
        data = next(scoring.tables(trial))
        return lambda randomness: tuple(scoring.run(data, randomness)[0](()).tolist())
    if kind == "selector":
        selection = next(claiming(selections(make, budgets=(NO_BUDGET,))))
        return partial(selection.selected, selection.level)
    regression = list(claiming(regressions(make)))[-1]  # of the larger budget: fewer fits are refused
    table = next(regression.pairs(np.random.default_rng(trial.seed), 1))[0]

    def release(randomness: Randomness) -> tuple[float, ...] | None:
        numbers = regression.numbers(table, randomness)[0]
        return None if numbers is None else tuple(numbers.tolist())

    return release


def used(make: Factory[Any], trial: Trial) -> Iterator[tuple[Dataset, Callable[[Dataset], Any]]]:
    """Yield tables and what a scorer or a regressor does with one."""
    if kind_of(make) == "scorer":
        for scoring in scorings(make):
            for data in scoring.tables(trial):
                yield data, partial(_scored, scoring)
        return
    rng = np.random.default_rng(trial.seed)
    for regression in regressions(make):
        for data, _ in regression.pairs(rng, 4 * trial.effort):
            yield data, partial(regression.run, by=Answers(trial.seed))


def _scored(case: ScorerCase, data: Dataset) -> Vector:
    return case.scoring(data)(())


# A common budget, and a large one for methods that refuse most tables under a small one.
_COMPOSED = ((Budget(2.0, 1e-6), 20), (Budget(12.0, 0.1), 300))

_PARTNERS: Mapping[str, Callable[[], Any]] = {
    "scorer": ReferenceScorer,
    "selector": ReferenceSelector,
    "regressor": ReferenceRegressor,
}


@attrs.frozen(eq=False)
class Composition:
    """A plan of the part under test with the kit's parts, and a table to run it on."""

    plan: Plan
    accountant: Accountant
    pair: tuple[Dataset, Dataset]

    def run(self, data: Dataset, randomness: Randomness, progress: Any = None) -> Release:
        """Return the release of one run."""
        shown: Any = data
        for part in self.plan.parts:
            shown = presented(part.instance, shown, self.plan.schema)
        # No observer: these are no releases of anything, and a ledger must not count them.
        return self.plan.run(shown, randomness=randomness, observers=Observers(()), progress=progress)


def composed(make: Factory[Any], trial: Trial) -> Iterator[Composition]:
    """Yield plans with the kit's parts under both relations, the first budget and accountant that serve."""
    kind = kind_of(make)
    makers = [lambda relation: make(neighboring=relation)] if kind == "accountant" else accountants()

    def asked() -> Iterator[Composition | str]:
        for neighboring in Neighboring:
            others = schemas(neighboring)
            for schema in (box(4, neighboring), others["unbounded"], others["categorical"]):
                for (budget, records), maker in itertools.product(_COMPOSED, makers):
                    parts = {role: partner() for role, partner in _PARTNERS.items()}
                    accountant = maker(neighboring)
                    if kind != "accountant":
                        parts[kind] = make()
                    try:
                        pipeline = compose(**parts, accountant=accountant, registry=installed())
                        plan = pipeline.plan(schema, budget, k=PICKS)
                    except CannotCompose as error:
                        yield str(error)
                        continue
                    population, rng = Population(schema), np.random.default_rng(trial.seed)
                    fewer = largest(parts.get(kind), records + 1) - 1
                    pair = population.datasets(population.pair(rng, max(fewer, 1)))
                    yield Composition(plan, accountant, pair)
                    break

    return offered(asked(), "it composes with none of the kit's parts")
