"""Scorers of tables, as attacks see them."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any

import attrs
import numpy as np

from dpkit_check.cases.parts import each_variant
from dpkit_check.cases.plans import REFUSALS, keeping_plan, offered
from dpkit_check.cases.scenes import Document, beside_tables, documented, rows_of, tables_of
from dpkit_check.instrument import AllAsked, Answers, Blind, Transcript, opened
from dpkit_check.reference import ReferenceAccountant
from dpkit_check.trial import Factory, NotApplicable, Trial, require
from dpkit_check.worlds import Population, classified, lattice, presented, schemas, takes_classes
from dpkit_core.arrays import Vector
from dpkit_core.data.dataset import Dataset
from dpkit_core.data.schema import Schema
from dpkit_core.errors import Unsuitable
from dpkit_core.noise.randomness import Randomness
from dpkit_core.pipeline.meter import Draw
from dpkit_core.pipeline.parts import FORMS, forms_of
from dpkit_core.pipeline.units import for_units
from dpkit_core.plugins.promises import Planning
from dpkit_core.privacy.budget import Budget, Neighboring, Sensitivity
from dpkit_core.protocols import Request, Scorer, StagePlan

# How many features are to be picked, by default.
PICKS = 2


@attrs.frozen(eq=False, slots=False)
class ScorerCase:
    """A scorer, the schema of its tables, and how many features are going to be picked."""

    part: Scorer
    schema: Schema
    picks: int = PICKS

    @functools.cached_property
    def plan(self) -> StagePlan:
        """What it releases before it scores, if it plans that at all."""
        if not isinstance(self.part, Planning):
            return StagePlan(())
        accountant = for_units(ReferenceAccountant(self.schema.neighboring), self.most_records)
        k = min(self.picks, len(self.schema.features))
        return self.part.plan(Request(self.schema, k, Budget(1.0, 1e-6), accountant))

    @property
    def population(self) -> Population:
        """What draws its tables."""
        return Population(self.schema)

    @property
    def name(self) -> str:
        """The relation."""
        return self.schema.neighboring.value

    @property
    def most_records(self) -> int:
        """Of one unit."""
        return self.schema.records_of_a_unit

    def sensitivity(self, selected: Sequence[int]) -> Sensitivity:
        """Return the sensitivity of the scores after these picks; fail where it is of another relation."""
        declared = self.part.sensitivity(self.schema, len(selected))
        require(
            getattr(declared, "neighboring", None) is self.schema.neighboring,
            f"sensitivity is {declared!r}; it must be a Sensitivity for {self.schema.neighboring.value}",
        )
        return declared

    def served(self) -> str:
        """Return why the scorer calls the schema unsuitable; nothing where it does not."""
        try:
            self.part.sensitivity(self.schema, 0)
        except Unsuitable as error:
            return str(error) or "unsuitable"
        return ""

    def scoring(self, data: Any, seed: int = 0) -> Callable[[Sequence[int]], Vector]:
        """Return what scores a table, after the same release for every table."""
        scores: Callable[[Sequence[int]], Vector] = self.run(data, Blind(seed))[0]
        return scores

    def run(
        self, data: Any, by: Answers | Randomness, *, finish: bool = False
    ) -> tuple[Any, tuple[Draw, ...]]:
        """Return what scores a table after the release of the scorer's own, and the draws made."""
        meter = opened(by, self.plan, self.schema.neighboring)
        meter.arrive(data.records)
        shown: Any = presented(self.part, data, self.schema)
        with keeping_plan():
            scored = self.part.prepare(shown, self.plan, meter.window)
            if finish:
                meter.finish()
        return lambda picked: np.asarray(scored(picked), dtype=np.float64), meter.draws  # as a run takes them

    def ask(self, data: Dataset, transcript: Transcript) -> None:
        """Keep what the release of the scorer's own asks."""
        transcript.leave = True
        with suppress(AllAsked):
            self.run(data, transcript)

    def selections(self, rounds: int = 3) -> Iterator[tuple[int, ...]]:
        """Yield lists of features that may already have been selected, one for each round to try."""
        features = len(self.schema.features)
        for r in range(min(rounds, features) if self.part.adaptive else 1):
            yield tuple((features - 1 - j) % features for j in range(r))

    def tables(self, trial: Trial) -> Iterator[Dataset]:
        """Yield small tables."""
        population, rng = self.population, np.random.default_rng(trial.seed)
        for _ in range(8 * trial.effort):
            yield population.dataset(population.table(rng, int(rng.integers(2, 20))))

    def table(self, records: int, seed: int) -> Dataset:
        """Return a table with ``records`` records."""
        return self.population.dataset(self.population.table(np.random.default_rng(seed), records))

    beside = staticmethod(beside_tables)

    def document(self, pair: tuple[Dataset, Dataset]) -> Document | None:
        """Return the case and two tables as plain data."""
        tables, schema = list(map(rows_of, pair)), self.schema.to_document()
        return documented(self.part, schema=schema, tables=tables, picks=self.picks)

    @classmethod
    def of(cls, part: Scorer, facts: dict[str, Any]) -> tuple[ScorerCase, tuple[Dataset, Dataset]]:
        """Return the case and the tables of a scene."""
        schema = Schema.from_document(facts.pop("schema"))
        return cls(part, schema, facts.pop("picks", PICKS)), tables_of(facts, schema)


def scorer_of_tables(make: Factory[Scorer]) -> Scorer:
    """Return the scorer, if it scores tables; raise ``NotApplicable`` where it scores iterates alone."""
    scorer: Scorer = make()
    if not set(forms_of(scorer)) & set(FORMS):
        raise NotApplicable("it scores iterates of a regressor, not tables")
    return scorer


def scorings(make: Factory[Scorer], *relations: Neighboring) -> Iterator[ScorerCase]:
    """Yield the scorer with each schema that it does not call unsuitable, of all relations by default."""
    scorer = scorer_of_tables(make)

    def asked() -> Iterator[ScorerCase | str]:
        for neighboring in relations or Neighboring:
            classes = [classified(neighboring)["three classes"]] if takes_classes(scorer) else []
            for schema in (*schemas(neighboring).values(), *classes):
                case = ScorerCase(scorer, schema)
                yield case.served() or case

    return offered(asked(), "the scorer rejects every schema of the kit as unsuitable")


def releasing(make: Factory[Scorer]) -> Iterator[ScorerCase]:
    """Yield the scorer, also with other options, and each schema for which it plans a release.

    How many features are going to be picked follows in turn, for one after another.
    """
    places = itertools.cycle((2, 1, 5))
    for one in each_variant(make):
        scorer = scorer_of_tables(one)
        if not isinstance(scorer, Planning):
            return
        for neighboring in Neighboring:
            classes = classified(neighboring) if takes_classes(scorer) else {}
            for schema in {**schemas(neighboring), **lattice(neighboring), **classes}.values():
                try:
                    scorer.sensitivity(schema, 0)
                    ScorerCase(scorer, schema).plan  # noqa: B018 - whether there is one
                except REFUSALS:
                    continue
                if schema.records is None and len(schema.features) < 100:
                    yield ScorerCase(scorer, schema, next(places))
