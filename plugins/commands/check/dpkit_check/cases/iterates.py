"""Scorers of iterates, and regressors that show them."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import attrs
import numpy as np

from dpkit_check.cases.parts import chooses, each_variant, two_options
from dpkit_check.cases.plans import REFUSALS, denial, draws, keeping_plan, offered
from dpkit_check.instrument import Blind, opened
from dpkit_check.reference import ReferenceAccountant
from dpkit_check.trial import CheckFailed, Factory, NotApplicable, require
from dpkit_check.worlds import Population, box
from dpkit_core.arrays import Vector
from dpkit_core.data.dataset import Dataset
from dpkit_core.data.schema import Column, Schema
from dpkit_core.errors import Unsuitable
from dpkit_core.pipeline.parts import ITERATES, forms_of
from dpkit_core.pipeline.screen import public
from dpkit_core.plugins.promises import Iterating, Reading
from dpkit_core.privacy.budget import Budget, Neighboring, Sensitivity
from dpkit_core.protocols import Iterate, Iterates, Meter, Regressor, Request, Scorer, StagePlan

ITERATE_FEATURES = 3

_RADII = (0.5, 4.0)

_CLIPS = (0.25, None)

_KNOWN = (2, 8)

# Of what is tried with a scorer, every which one with another value of a number of its options.
_SOME = 3


@attrs.frozen(eq=False, slots=False)
class IterateCase:
    """A scorer of iterates, what is public of them, and the schema of tables that they are about.

    ``often``, if not two of its options differ from those with which it is checked.
    """

    part: Any
    facts: Iterates
    schema: Schema
    often: bool = True

    @functools.cached_property
    def _meter(self) -> Meter:
        """A meter without an event."""
        return opened(Blind(0), StagePlan(()), self.facts.neighboring).window

    def sensitivity(self) -> Sensitivity:
        """Return what it declares."""
        declared: Sensitivity = self.part.sensitivity(self.facts, 0)
        return declared

    def scores(self, iterate: Iterate) -> Vector:
        """Return the scores of an iterate, or the components that it releases instead."""
        scores: Vector = self.part.prepare(iterate, StagePlan(()), self._meter)(())
        return scores

    def scores_at(self, weights: Vector, intercept: float, data: Dataset) -> Vector:
        """Return the scores of a table's iterate at some weights, and the 0 of *none* if it is there."""
        scores = self.scores(reference_state(data, weights, intercept, self.facts))
        return np.append(scores, 0.0) if getattr(self.part, "none", True) else scores

    @property
    def components(self) -> int:
        """How many components it reads its scores off; 0 where it reads none."""
        return self.part.components(self.facts) if isinstance(self.part, Reading) else 0

    def read(self, noisy: Vector, deviation: float, iterate: Iterate) -> Vector:
        """Return the scores that it reads from noisy components and public facts of an iterate."""
        reader = self.part.prepare(public(iterate), StagePlan(()), self._meter)
        scores: Vector = reader.read(noisy, deviation)
        return scores

    def weights(self, rng: np.random.Generator) -> Iterator[tuple[Vector, float]]:
        """Yield coefficients and intercepts in the ball: none, a vertex, some inside."""
        features, radius = self.facts.features, self.facts.radius
        yield np.zeros(features), 0.0
        yield radius * np.eye(features)[0], 0.0
        inside = rng.dirichlet(np.ones(features + 1)) * rng.choice((-1.0, 1.0), features + 1)
        yield radius * inside[:-1], float(radius * inside[-1])


def iterate_scorings(make: Factory[Scorer]) -> Iterator[IterateCase]:
    """Yield facts that the scorer does not call unsuitable, with the schema of tables that they are about.

    The scorer with its options, and with other values of one or two of them, which may be another rule; one
    that its certificate calls not private is left out.
    """
    if ITERATES not in forms_of(make()):
        raise NotApplicable("it scores no iterates")
    others = each_variant(make)[1:]
    often = [make(), *(one() for one in others if chooses(one, make))]
    scorers = [*often, *(one() for one in (*others, *two_options(make)) if not chooses(one, make))]
    for schema in (box(ITERATE_FEATURES, relation) for relation in Neighboring):
        with suppress(*REFUSALS):
            make().sensitivity(schema, 0)
            raise CheckFailed("it scores iterates alone; for a table, sensitivity must raise Unsuitable")
        with suppress(*REFUSALS):
            table = Population(schema).dataset(np.zeros((1, ITERATE_FEATURES + 1)))
            make().prepare(table, StagePlan(()), opened(Blind(0), StagePlan(()), schema.neighboring).window)
            raise CheckFailed("it scores iterates alone; for a table, prepare must raise Unsuitable")
    claiming = [scorer for scorer in scorers if not getattr(scorer, "not_private", ())]

    def asked() -> Iterator[IterateCase | str]:
        every = list(itertools.product(Neighboring, ("squared", "logistic"), _CLIPS, _RADII))
        choices = (
            (scorer, *choice)
            for number, scorer in enumerate(claiming)
            for choice in (every if scorer in often else every[number % _SOME :: _SOME])
        )
        for scorer, relation, loss, clip, radius in choices:
            for records in _KNOWN if relation is Neighboring.REPLACE_ONE else (None,):
                facts = Iterates(loss, radius, clip, ITERATE_FEATURES, (1,), relation, records)
                schema = attrs.evolve(box(ITERATE_FEATURES, relation), records=records)
                case = IterateCase(scorer, facts, schema, often=scorer in often)
                try:
                    case.sensitivity()
                except Unsuitable as error:
                    yield str(error)
                else:
                    yield case

    return offered(asked(), "the scorer rejects all iterates of the kit as unsuitable")


def reference_state(data: Dataset, weights: Vector, intercept: float, facts: Iterates) -> Iterate:
    """Return the iterate of a table in [-1, 1], by the definitions of ``Iterates`` and nothing else."""
    X, y = np.clip(data.X, -1, 1), np.clip(data.y, -1, 1)
    u = X @ weights + intercept
    r = 1 / (1 + np.exp(-u)) - (y + 1) / 2 if facts.loss == "logistic" else u - y
    if facts.clip is not None:
        r = np.clip(r, -facts.clip, facts.clip)
    gradient = X.T @ r
    exact = facts.clip is None
    return Iterate(
        facts,
        1,
        weights,
        float(np.abs(weights).sum() + abs(intercept)),
        gradient,
        max(float(np.abs(gradient).max()), abs(float(r.sum()))),
        float(u @ r) if exact else None,
        float(u @ u) if exact else None,
        np.square(X).sum(axis=0) if exact else None,
    )


@attrs.frozen(eq=False)
class IteratingCase:
    """One plan of a regressor that shows its iterates; ``often``, if by its default method."""

    part: Regressor
    schema: Schema
    plan: StagePlan
    facts: Iterates
    often: bool = True

    def iterates(self, data: Dataset, seed: int) -> list[tuple[int, Iterate]]:
        """Return after how many draws each iterate came, and it; releases hold no data."""
        meter = opened(Blind(seed), self.plan, self.schema.neighboring)
        meter.arrive(data.records)
        coins = np.random.default_rng([seed, 1])
        shown: list[tuple[int, Iterate]] = []

        def screen(iterate: Iterate) -> tuple[int, ...]:
            shown.append((len(meter.draws), iterate))
            support = np.flatnonzero(iterate.weights)
            return tuple(int(j) for j in support[coins.random(support.size) < 0.3])

        meter.screen_by(screen)
        with keeping_plan():
            self.part.fit(data, self.plan, meter.window)
            meter.finish()
        return shown


def iterating(make: Factory[Regressor]) -> Iterator[IteratingCase]:
    """Yield plans of a regressor that shows its iterates, by each method, for both kinds of targets."""
    if not isinstance(make(), Iterating):
        raise NotApplicable("it shows no iterates")
    methods = [make, *(one for one in each_variant(make)[1:] if chooses(one, make))]
    for one, neighboring in itertools.product(methods, Neighboring):
        regressor: Any = one()
        numeric = box(ITERATE_FEATURES, neighboring)
        category = Column("y", "categorical", categories=("no", "yes"))
        for schema in (numeric, attrs.evolve(numeric, target=category)):
            accountant = ReferenceAccountant(neighboring)
            try:
                facts = regressor.iterates(schema)
                request = Request(schema, ITERATE_FEATURES, Budget(2.0, 1e-5), accountant, iterates=facts)
                plan = regressor.plan(request)
            except REFUSALS:
                continue
            if denial(plan):
                continue
            require(
                facts.after and facts.after[-1] <= draws(plan),
                f"iterates are declared after {facts.after} draws, but {draws(plan)} are planned",
            )
            yield IteratingCase(regressor, schema, plan, facts, often=one is make)
