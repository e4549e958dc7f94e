"""What a regressor promises that learns from batches: a record costs what the sets cost that it moves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

import attrs
import numpy as np

from dpkit_check.check import check
from dpkit_check.checks.parts import class_of
from dpkit_check.checks.regressors import EASY_DRAWS
from dpkit_check.checks.selectors import accountants
from dpkit_check.drive import claiming, draws, keeping_plan
from dpkit_check.replay import ReplayingMeter, Transcript
from dpkit_check.scene import (
    Document,
    Replay,
    budget_document,
    maker_named,
    options_document,
    part_with,
    staged,
)
from dpkit_check.shares import shares_moved, spent_in_sets
from dpkit_check.trial import CheckFailed, Evidence, Factory, NotApplicable, Trial
from dpkit_check.worlds import Population, schemas
from dpkit_core.arrays import Matrix
from dpkit_core.data.dataset import Dataset
from dpkit_core.data.schema import Schema
from dpkit_core.errors import CalibrationFailed, Unsuitable, UnsupportedEvent
from dpkit_core.privacy.budget import Budget, Neighboring
from dpkit_core.privacy.events import Disjoint
from dpkit_core.protocols import Accountant, Refusal, RegressionRequest, StagePlan, StreamRegressor
from dpkit_core.release.kinds import canonical

BUDGET = Budget(6.0, 0.1)
# Records of each batch, of which some have none: how many come in each is private.
SIZES = {3: ((5, 9, 4), (6, 0, 7), (0, 12, 3)), 2: ((1, 30), (8, 0))}
PAIRS = 6

_Stream: TypeAlias = Sequence[Matrix]
"""The records of each batch, the target last."""


@check("privacy", kinds=("regressor",))
def check_batches_are_disjoint(make: Factory[Any], trial: Trial) -> Evidence:
    """What one record moves in all batches costs no more than the one batch that was planned for it.

    Streams of two and three batches, some of them empty, differ in one record of one batch, or in the batch
    that a replaced record is in, and get the same answers of the meter. Each draw moves by at most its
    sensitivity. Where batches are charged as sets that have no record in common (``Disjoint``), the shares
    of their sensitivities by which the draws of all batches move are at most 1 in all: the shares of Laplace
    noise, the squares of those of Gaussian noise. Streams that share nothing, with the same answers, release
    the same document.

    If this fails: a sum over all batches so far moves in each batch that follows. Charge every batch
    (``Repeated``), or ask noise for what is new in a batch and add up the answers.
    """
    if not callable(getattr(class_of(make), "fit_batches", None)):
        raise NotApplicable("it learns from one table, not from batches")
    rng = np.random.default_rng(trial.seed)
    worst, samples = 0.0, 0
    for case in claiming(_cases(make)):
        for number in range(case.affordable(PAIRS) * trial.effort):
            sizes = SIZES[case.request.batches][number % len(SIZES[case.request.batches])]
            pair = case.pair(rng, sizes, number)
            strangers = [case.population.table(rng, n) if n else pair[0][0][:0] for n in sizes[::-1]]
            samples += 1
            with staged(streams_again, partial(_scene, case, (*pair, strangers))):
                worst = max(worst, _tried(case, pair, strangers, samples))
    return Evidence(f"{worst:.3f} of what was planned for one batch reached", samples)


def streams_again(make: Factory[Any], facts: Mapping[str, Any]) -> Evidence:
    """Fail if one record costs more than its batch again, or if two streams release different documents."""
    schema = Schema.from_document(facts["schema"])
    maker = maker_named(accountants(), facts["accountant"])
    request = RegressionRequest(
        schema, facts["k"], Budget(*facts["budget"]), maker(schema.neighboring), facts["batches"]
    )
    regressor = part_with(make, facts)
    case = _Case(regressor, request, regressor.plan(request))
    width = len(schema.features) + 1
    one, other, strangers = (
        [np.array(rows, dtype=np.float64).reshape(-1, width) for rows in stream]
        for stream in facts["streams"]
    )
    return Evidence(f"{_tried(case, (one, other), strangers, 1):.3f} of what was planned reached", 1)


REPLAYS: tuple[Replay, ...] = (streams_again,)


@attrs.frozen(eq=False)
class _Case:
    """A plan for so many batches."""

    regressor: StreamRegressor
    request: RegressionRequest
    plan: StagePlan

    @property
    def schema(self) -> Schema:
        return self.request.schema

    @property
    def population(self) -> Population:
        return Population(self.schema)

    def affordable(self, pairs: int) -> int:
        """Return how many of ``pairs`` to try: one, where a fit asks the meter very often."""
        return max(1, pairs // -(-draws(self.plan) // EASY_DRAWS))

    @property
    def name(self) -> str:
        return f"{self.request.batches} batches, {self.schema.neighboring.value}"

    def pair(
        self, rng: np.random.Generator, sizes: Sequence[int], number: int
    ) -> tuple[list[Matrix], list[Matrix]]:
        """Return two streams that differ in a record: in one batch, or in which one it is replaced.

        Only who charges sets of records answers for a record that changes its set.
        """
        population, corners = self.population, self.population.corners()
        record, other = (corners[i] for i in rng.permutation(len(corners))[:2])
        base = [population.table(rng, n) if n else np.empty((0, len(record))) for n in sizes]
        turn = number % len(base)
        one, two = list(base), list(base)
        one[turn] = np.vstack((base[turn], record))
        if self.schema.neighboring is Neighboring.REPLACE_ONE:
            moves = number % 2 and any(isinstance(event, Disjoint) for event in self.plan.events)
            place = (turn + 1) % len(base) if moves else turn
            two[place] = np.vstack((base[place], other))
        return one, two

    def run(self, stream: _Stream, transcript: Transcript) -> Any:
        """Fit to the batches as they arrive; return the document, or the refusal."""
        relation = self.schema.neighboring
        meter = ReplayingMeter(transcript, 0, self.plan, relation, accountant=self.request.accountant)

        def arriving() -> Iterator[Dataset]:
            for rows in stream:
                data = Dataset.from_arrays(rows[:, :-1], rows[:, -1], self.schema, batch=True)
                meter.arrive(data.records)
                yield data

        with keeping_plan():
            outcome = self.regressor.fit_batches(arriving(), self.plan, meter.window)
            meter.finish(refused=isinstance(outcome, Refusal))
        return outcome if isinstance(outcome, Refusal) else canonical(outcome.to_document())


def _tried(case: _Case, pair: tuple[_Stream, _Stream], strangers: _Stream, samples: int) -> float:
    """Return which share of what is planned for one record neighbors reach; fail if above 1, or if told."""
    first = Transcript()
    second, third = Transcript(first.answers), Transcript(first.answers)
    released = [case.run(stream, t) for stream, t in zip(pair, (first, second), strict=True)]
    reached = _covered(case, first, second, pair)
    if not first.opaque:
        released.append(case.run(strangers, third))
    if not (first.opaque or second.opaque or third.opaque) and released[0] != released[-1]:
        raise CheckFailed(
            f"with the same answers of the meter, streams that share nothing release {released[0]} "
            f"and {released[-1]} ({case.name}, {_sizes(pair[0])} and {_sizes(strangers)} records)",
            samples=samples,
        )
    return reached


def _scene(case: _Case, streams: Sequence[_Stream]) -> Document | None:
    options, request = options_document(case.regressor), case.request
    if options is None:
        return None
    return {
        "options": options,
        "schema": case.schema.to_document(),
        "k": request.k,
        "batches": request.batches,
        "budget": budget_document(request.budget),
        "accountant": type(request.accountant).__name__,
        "streams": [[rows.tolist() for rows in stream] for stream in streams],
    }


def _cases(make: Factory[Any]) -> Iterator[_Case]:
    reasons: list[str] = []
    found = 0
    for neighboring in Neighboring:
        for schema in schemas(neighboring).values():
            cases = [_planned(make, schema, batches) for batches in SIZES]
            served = [case for case in cases if isinstance(case, _Case)]
            reasons += [case for case in cases if isinstance(case, str)]
            found += len(served)
            yield from served
            if any(draws(case.plan) > EASY_DRAWS for case in served):
                break  # one schema takes so long that it has to do
    if not found:
        raise NotApplicable(f"the regressor calls every stream of the kit unsuitable: {reasons[0]}")


def _planned(make: Factory[Any], schema: Schema, batches: int) -> _Case | str:
    reason = ""
    for maker in accountants():
        accountant: Accountant = maker(schema.neighboring)
        request = RegressionRequest(schema, len(schema.features), BUDGET, accountant, batches)
        regressor = make()
        try:
            return _Case(regressor, request, regressor.plan(request))
        except (Unsuitable, CalibrationFailed, UnsupportedEvent) as error:
            reason = str(error)
    return reason


def _covered(case: _Case, first: Transcript, second: Transcript, pair: tuple[_Stream, _Stream]) -> float:
    """Return which share of what is planned for one record two streams reach; fail if above 1."""
    shares = shares_moved(first, second)
    reached = max([*shares, spent_in_sets(case.plan, shares)], default=0.0)
    if reached > 1 + 1e-9:
        raise CheckFailed(
            f"one record costs {reached:.6g} times what was planned ({case.name}): between batches of "
            f"{_sizes(pair[0])} and of {_sizes(pair[1])} records, the draws move by "
            f"{', '.join(f'{share:.3g}' for share in shares)} of their sensitivities, which were planned as "
            f"{'; '.join(map(str, case.plan.events))}"
        )
    return reached


def _sizes(stream: _Stream) -> str:
    return ", ".join(str(len(rows)) for rows in stream)
