"""What every part promises together with others: releases that keep their plan and can be checked.

The other parts are the kit's own, so that a plugin can be checked where nothing else is installed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import attrs
import numpy as np

from dpkit_check.check import check
from dpkit_check.checks.parts import kind_of
from dpkit_check.checks.selectors import accountants, installed
from dpkit_check.reference import (
    ReferenceRegressor,
    ReferenceScorer,
    ReferenceSelector,
)
from dpkit_check.trial import Evidence, Factory, NotApplicable, Trial, require
from dpkit_check.worlds import Population, box, schemas
from dpkit_core.data.dataset import Dataset
from dpkit_core.errors import CannotCompose
from dpkit_core.noise.randomness import Randomness
from dpkit_core.pipeline.compose import compose
from dpkit_core.pipeline.observers import Observers
from dpkit_core.pipeline.plan import Plan
from dpkit_core.privacy.budget import Budget, Neighboring
from dpkit_core.protocols import Accountant
from dpkit_core.release.release import Release
from dpkit_core.release.verify import verify
from dpkit_core.text import number_of

# A common budget, and a large one for methods that refuse most tables under a small one.
BUDGETS = ((Budget(2.0, 1e-6), 20), (Budget(12.0, 0.1), 300))
PICKS = 2

_PARTNERS: Mapping[str, Callable[[], Any]] = {
    "scorer": ReferenceScorer,
    "selector": ReferenceSelector,
    "regressor": ReferenceRegressor,
}


@attrs.frozen(eq=False)
class _Composition:
    """A plan of the part under test with the kit's parts, and a table to run it on."""

    plan: Plan
    accountant: Accountant
    pair: tuple[Dataset, Dataset]

    def run(self, data: Dataset, randomness: Randomness, progress: Any = None) -> Release:
        # No observer: these are no releases of anything, and a ledger must not count them.
        return self.plan.run(data, randomness=randomness, observers=Observers(()), progress=progress)


@check("composition")
def check_releases_keep_their_plan(make: Factory[Any], trial: Trial) -> Evidence:
    """Composed with the kit's own parts, it releases what was planned, and the certificate can be checked.

    The total follows from the events by an accountant that starts afresh and is within the budget; one seed
    gives one release, unless somebody else draws its noise, and it is called not private; a release by the
    system's randomness is called private exactly where nothing in the plan says otherwise; written as JSON
    and read back, it is the same; and neighbors go through the same stages and rounds.

    If this fails: the message says which. A part that works alone and not here reads something that the
    composer does not promise, such as a fixed number of features, or draws noise outside the meter.
    """
    released = 0
    for composition in _compositions(make, trial):
        plan, (first, second) = composition.plan, composition.pair
        require(plan.epsilon is None or plan.epsilon <= plan.budget.epsilon, "the plan is above its budget")
        stages: list[list[tuple[Any, ...]]] = [[], []]
        documents = [
            composition.run(
                data, Randomness.from_seed(trial.seed), lambda *step, seen=seen: seen.append(step)
            ).to_document()
            for data, seen in zip((first, second), stages, strict=True)
        ]
        require(stages[0] == stages[1], f"neighbors go through different stages: {stages[0]}, {stages[1]}")
        again = composition.run(first, Randomness.from_seed(trial.seed)).to_document()
        foreign = any(stage.plan.foreign for stage in plan.stages)
        require(foreign or documents[0] == again, "the same seed gave two releases")
        require(not again["certificate"]["private"], "a release with seeded noise is called private")
        release = composition.run(first, Randomness.from_os())
        certificate = release.certificate
        require(
            certificate.private is (not plan.reasons),
            f"private is {certificate.private}, where the plan's reasons against it are {plan.reasons}",
        )
        require(certificate.events == plan.events, "the certificate lists other events than were planned")
        found = verify(release, composition.accountant)
        require(found.confirmed, f"the certificate is not confirmed: {'; '.join(found.problems)}")
        _require_same_when_read_back(release)
        released += 4
    return Evidence(f"{number_of(released, 'release')}, their certificates confirmed", released)


def _compositions(make: Factory[Any], trial: Trial) -> Iterator[_Composition]:
    """Yield plans with the kit's parts under both relations, the first budget and accountant that serve."""
    kind = kind_of(make)
    makers = [lambda relation: make(neighboring=relation)] if kind == "accountant" else accountants()
    problems: list[str] = []
    composed = 0
    for neighboring in Neighboring:
        others = schemas(neighboring)
        for schema in (box(4, neighboring), others["unbounded"], others["categorical"]):
            for (budget, records), maker in ((b, m) for b in BUDGETS for m in makers):
                parts = {role: partner() for role, partner in _PARTNERS.items()}
                accountant = maker(neighboring)
                if kind != "accountant":
                    parts[kind] = make()
                try:
                    pipeline = compose(**parts, accountant=accountant, registry=installed())
                    plan = pipeline.plan(schema, budget, k=PICKS)
                except CannotCompose as error:
                    problems.append(str(error))
                    continue
                composed += 1
                population, rng = Population(schema), np.random.default_rng(trial.seed)
                yield _Composition(plan, accountant, population.datasets(population.pair(rng, records)))
                break
    if not composed:
        raise NotApplicable(f"it composes with none of the kit's parts: {problems[0]}")


def _require_same_when_read_back(release: Release) -> None:
    document = json.loads(json.dumps(release.to_document(), allow_nan=False))
    same = json.loads(json.dumps(Release.from_document(document).to_document())) == document
    require(same, "the release changed when it was written and read back")
