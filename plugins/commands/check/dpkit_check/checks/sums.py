"""What a regressor promises that draws by ``Meter.sums``: each record answers for itself alone."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, TypeAlias

import attrs
import numpy as np
import numpy.typing as npt

from dpkit_check.check import check
from dpkit_check.checks.regressors import cases_of, name_of
from dpkit_check.drive import QuickMeter, claiming, fit
from dpkit_check.trial import Evidence, Factory, NotApplicable, Trial, require
from dpkit_core.noise.randomness import Randomness
from dpkit_core.privacy.budget import Neighboring
from dpkit_core.privacy.events import Event
from dpkit_core.protocols import Accountant, Custom, Regressor, Scores, StagePlan
from dpkit_core.text import number_of

TABLES = 3

_Asked: TypeAlias = tuple[Sequence[npt.NDArray[Any]], npt.NDArray[Any]]
"""Contributions and groups of one round."""


@check("privacy", kinds=("regressor",))
def check_records_answer_for_themselves(make: Factory[Regressor], trial: Trial) -> Evidence:
    """What a record contributes to sums depends on that record, and on what was released before.

    The fit is run on a table, and on its neighbor with the very same releases and public coins. Every other
    record must then contribute the same whole numbers to the same groups, in as many rounds.

    If this fails: a clip, a scale, a threshold or an order of records was taken from the data without a
    release; numbers were rounded together; or a round was skipped, as when nobody is left.
    """
    rng = np.random.default_rng(trial.seed)
    rounds = 0
    for case in claiming(cases_of(make, every_schema=True)):
        for seed in range(TABLES * trial.effort):
            pair = case.population.pair(rng, int(rng.choice(case.sizes)))
            first, second = _Tape(), _Tape()
            second.source = first
            for tape, data in zip((first, second), case.population.datasets(pair), strict=True):
                meters = partial(_ReplayMeter, tape, seed, case.request.accountant)
                fit(case.regressor, case.plan, data, case.schema.neighboring, meters)
            if not first.asked:
                raise NotApplicable("it asks for no sums")
            require(
                len(first.asked) == len(second.asked),
                f"{number_of(len(first.asked), 'round')} on a table, {len(second.asked)} on its neighbor",
            )
            for turn, (one, other) in enumerate(zip(first.asked, second.asked, strict=True)):
                replaced = pair.replacement is not None
                require(
                    _same_rows(one, other, pair.row, replaced),
                    f"in round {turn + 1} other records contribute otherwise than on a neighboring table, "
                    f"though all that was released is the same ({name_of(case)})",
                )
                rounds += 1
    return Evidence(number_of(rounds, "round"), rounds)


@attrs.define(eq=False)
class _Tape:
    """What a fit was given, and what it asked sums of; with a source, it gives what that one gave."""

    source: _Tape | None = None
    given: list[Any] = attrs.field(factory=list)
    asked: list[_Asked] = attrs.field(factory=list)

    def give(self, value: Any) -> Any:
        """Return ``value``, or what was given at this place the first time."""
        place = len(self.given)
        self.given.append(value)
        if self.source is None or place >= len(self.source.given):
            return value
        return self.source.given[place]


class _ReplayMeter(QuickMeter):
    """A meter that gives what is on a tape, with public coins of their own."""

    def __init__(
        self, tape: _Tape, seed: int, accountant: Accountant, plan: StagePlan, neighboring: Neighboring
    ) -> None:
        generator, randomness = np.random.default_rng(seed), Randomness.from_seed(0)
        super().__init__(generator, randomness, plan, neighboring, accountant=accountant)
        self._tape = tape
        self._public = np.random.default_rng(seed)

    @property
    def coins(self) -> np.random.Generator:
        """Public coins, which no noise moves."""
        return self._public

    def laplace(self, value: Any, **options: Any) -> Any:
        """Return what is on the tape."""
        return self._tape.give(super().laplace(value, **options))

    def gaussian(self, value: Any, **options: Any) -> Any:
        """Return what is on the tape."""
        return self._tape.give(super().gaussian(value, **options))

    def select(self, scores: Scores, k: int, **options: Any) -> tuple[int, ...]:
        """Return what is on the tape."""
        picks: tuple[int, ...] = self._tape.give(super().select(scores, k, **options))
        return picks

    def sums(self, contributions: Sequence[Any], groups: Any, **options: Any) -> Any:
        """Return what is on the tape, and keep what was asked."""
        self._tape.asked.append(([np.array(column) for column in contributions], np.array(groups)))
        return self._tape.give(super().sums(contributions, groups, **options))

    def custom(self, event: Event, *, proof: str, arithmetic: str) -> AbstractContextManager[Custom]:
        """Refuse: what is made of a sampler cannot be given again."""
        raise NotApplicable("it draws by a sampler, so that a fit cannot be replayed")

    def foreign(self, event: Event, *, whose: str, proof: str) -> AbstractContextManager[None]:
        """Refuse: what somebody else draws cannot be given again."""
        raise NotApplicable(f"its noise is drawn by {whose}, so that a fit cannot be replayed")


def _same_rows(one: _Asked, other: _Asked, row: int, replaced: bool) -> bool:
    """Return whether both ask the same of all records but that of ``row``, which the second may lack."""

    def others(rows: npt.NDArray[Any], present: bool) -> npt.NDArray[Any]:
        return np.delete(rows, row) if rows.ndim and present else rows

    columns = [(one[1], other[1]), *zip(one[0], other[0], strict=True)]
    return all(np.array_equal(others(a, True), others(b, replaced)) for a, b in columns)
