"""Runs one part alone, the way the composer runs it, through a real meter."""

from __future__ import annotations

import json
import math
import os
import pickle
import warnings
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from fractions import Fraction
from functools import partial
from typing import Any, Protocol, TypeVar

import attrs
import numpy as np

from dpkit_check.reference import ReferenceAccountant
from dpkit_check.trial import CheckFailed, Evidence, NotApplicable, require
from dpkit_core.arrays import Matrix, Vector
from dpkit_core.data.schema import Schema
from dpkit_core.errors import InvalidRelease, PlanViolation
from dpkit_core.noise.randomness import Randomness
from dpkit_core.noise.sampler import Sampler
from dpkit_core.pipeline.meter import Draw, StageMeter
from dpkit_core.privacy.budget import Budget, Neighboring, Sensitivity
from dpkit_core.privacy.events import Event, NonPrivate, expand, walk
from dpkit_core.protocols import (
    Accountant,
    PreparedScores,
    Refusal,
    Regressor,
    ReleasingScorer,
    Scorer,
    Scores,
    ScoringRequest,
    StagePlan,
    TopKSelector,
)
from dpkit_core.release.kinds import canonical, rebuilt

# Two processes are compared once so many pairs of releases of one process differ; so many pairs are tried.
TELLING_PAIRS, MOST_PAIRS = 12, 100

PICKS = 2
"""How many features a scorer is told are to be picked."""

UNCLAIMED = "it claims no privacy"
"""So begins why a check did not attack a part that plans ``NonPrivate`` whatever it is asked."""

OpenMeter = Callable[[StagePlan, Neighboring], StageMeter]
"""Makes the meter of one run."""


@attrs.frozen(eq=False)
class Rounds:
    """What a selector is shown in each round: scores, their sensitivity, and how many to pick."""

    values: tuple[Vector, ...]
    picks: tuple[int, ...]
    sensitivities: tuple[Sensitivity, ...]

    @property
    def neighboring(self) -> Neighboring:
        """The relation of the scores."""
        return self.sensitivities[0].neighboring


def seeded_meter(seed: int) -> OpenMeter:
    """Return what makes meters whose noise follows from ``seed``."""

    def open_meter(plan: StagePlan, neighboring: Neighboring) -> StageMeter:
        return StageMeter("kit", plan, neighboring, Randomness.from_seed(seed))

    return open_meter


# Values are clamped at this many sensitivities, as on the grid of a real meter: never below.
_CLAMP = 2.0**45

# From this scale on, noise rounded to integers has the law of discrete noise to within 1e-6.
_COARSE = 2**10


@attrs.frozen
class QuickSampler(Sampler):
    """A sampler for thousands of runs: float64 noise, whose law is that of the exact one to within 1e-4.

    What is tried with it is the part, not the core's samplers, which have tests of their own.
    """

    def laplace_on_grid(self, value: Any, *, sensitivity: float, noise_multiplier: float) -> Matrix:
        """Return ``value`` with Laplace noise."""
        center = _clamped(value, sensitivity)
        return center + sensitivity * noise_multiplier * self.generator.laplace(size=center.shape)

    def gaussian_on_grid(self, value: Any, *, sensitivity: float, noise_multiplier: float) -> Matrix:
        """Return ``value`` with Gaussian noise."""
        center = _clamped(value, sensitivity)
        return center + sensitivity * noise_multiplier * self.generator.standard_normal(center.shape)

    def exponential(self, size: int | tuple[int, ...] = ()) -> Matrix:
        """Return standard exponential variables."""
        return np.asarray(self.generator.standard_exponential(size))

    def gumbel(self, size: int | tuple[int, ...] = ()) -> Matrix:
        """Return standard Gumbel variables."""
        return np.asarray(self.generator.gumbel(size=size))

    def discrete_laplace(self, scale: int | Fraction, size: int | tuple[int, ...] = ()) -> Any:
        """Return integers with probability proportional to exp(-|x| / scale)."""
        if scale < _COARSE:
            return Sampler.discrete_laplace(self, scale, size)
        return np.rint(self.generator.laplace(scale=float(scale), size=size)).astype(np.int64)

    def discrete_gaussian(self, sigma: int | Fraction, size: int | tuple[int, ...] = ()) -> Any:
        """Return integers with probability proportional to exp(-x^2 / (2 sigma^2))."""
        if sigma < _COARSE:
            return Sampler.discrete_gaussian(self, sigma, size)
        return np.rint(self.generator.normal(scale=float(sigma), size=size)).astype(np.int64)


class QuickMeter(StageMeter):
    """A meter that keeps the books of a real one and draws by a ``QuickSampler``."""

    def __init__(
        self,
        generator: np.random.Generator,
        randomness: Randomness,
        plan: StagePlan,
        neighboring: Neighboring,
        *,
        accountant: Accountant | None = None,
    ) -> None:
        super().__init__("kit", plan, neighboring, randomness, accountant=accountant)
        self._generator = generator
        self._sampler = QuickSampler(generator)

    @property
    def coins(self) -> np.random.Generator:
        """The one generator of this meter."""
        return self._generator


def quick_meters(accountant: Accountant | None = None) -> Callable[[int | Sequence[int]], OpenMeter]:
    """Return what makes, of a seed, what makes meters that are quick to make and to draw from.

    ``accountant`` keeps the accounts of records, where a plan needs them.
    """
    randomness = Randomness.from_seed(0)  # never drawn from

    def seeded(seed: int | Sequence[int]) -> OpenMeter:
        return partial(QuickMeter, np.random.default_rng(seed), randomness, accountant=accountant)

    return seeded


def _clamped(value: Any, sensitivity: float) -> Matrix:
    array = np.asarray(value, dtype=np.float64)
    if not (np.isfinite(array).all() and 0 < sensitivity < np.inf):
        raise CheckFailed(f"asked for noise on {array} with sensitivity {sensitivity}; both must be finite")
    limit = _CLAMP * sensitivity
    return np.clip(array, -limit, limit)


class BlindMeter(QuickMeter):
    """A meter whose answers hold no data: noise alone, as if every value were 0.

    Scores must keep their sensitivity whatever was released before; this gives neighbors the same release.
    """

    def laplace(self, value: Any, *, sensitivity: float, noise_multiplier: float) -> Any:
        """Return noise of the shape of ``value``."""
        blank = np.zeros_like(value, dtype=np.float64)
        return super().laplace(blank, sensitivity=sensitivity, noise_multiplier=noise_multiplier)

    def gaussian(self, value: Any, *, sensitivity: float, noise_multiplier: float) -> Any:
        """Return noise of the shape of ``value``."""
        blank = np.zeros_like(value, dtype=np.float64)
        return super().gaussian(blank, sensitivity=sensitivity, noise_multiplier=noise_multiplier)

    def select(self, scores: Scores, k: int, **options: Any) -> tuple[int, ...]:
        """Return candidates drawn as if all had the score 0."""
        blank = np.zeros_like(scores.values)
        return super().select(attrs.evolve(scores, values=blank), k, **options)

    def sums(self, contributions: Sequence[Any], groups: Any, **options: Any) -> Any:
        """Return noise of the shape of the sums."""
        blank = [np.zeros_like(column) for column in map(np.asarray, contributions)]
        return super().sums(blank, groups, **options)

    def foreign(self, event: Event, *, whose: str, proof: str) -> AbstractContextManager[None]:
        """Refuse: what somebody else draws is not the same for neighbors."""
        raise NotApplicable(f"its own release is drawn by {whose}, so that scores cannot be compared")


class Planned(Protocol):
    """Something that was planned."""

    @property
    def plan(self) -> StagePlan:
        """What it emits."""


P = TypeVar("P", bound=Planned)


def claiming(cases: Iterable[P]) -> Iterator[P]:
    """Yield the cases whose plans claim to be private; the certificates of the others deny it.

    Raises
    ------
    NotApplicable
        After the last, where none claims it.
    """
    claimed, reason = False, ""
    for case in cases:
        if denied := denial(case.plan):
            reason = denied
        else:
            claimed = True
            yield case
    if reason and not claimed:
        raise NotApplicable(f"{UNCLAIMED}, and its certificate says why: {reason}")


def denial(plan: StagePlan) -> str:
    """Return why ``plan`` claims no privacy; nothing where it claims it."""
    events = (e for event in plan.events for e in walk(event))
    return next((e.reason for e in events if isinstance(e, NonPrivate)), "")


def failure_allowed(plan: StagePlan) -> bool:
    """Return whether an event of ``plan`` has a delta of its own, with which its promise may fail."""
    return any(getattr(e, "delta", 0.0) > 0 for event in plan.events for e in walk(event))


def draws(plan: StagePlan) -> int:
    """Return how many events a run of ``plan`` emits."""
    return sum(1 for _ in expand(plan.events))


def claimed_mu(events: Iterable[Event]) -> float | None:
    """Return mu where ``events`` are Gaussian noise alone, so that they claim mu-GDP; None elsewhere.

    It is a sharper claim than any one (epsilon, delta), and far fewer runs refute it.
    """
    events = list(events)
    if not events:
        return None
    accountant = ReferenceAccountant(events[0].neighboring)
    if not all(map(accountant.supports, events)):
        return None
    for event in events:
        accountant = accountant.compose(event)
    return math.sqrt(accountant.inverse_variance) if accountant.pure == accountant.failure == 0 else None


def scoring_plan(scorer: Scorer, schema: Schema, picks: int = PICKS) -> StagePlan | None:
    """Return the plan that ``scorer`` makes before it scores, or None where it asks for nothing.

    It is told that so many features are going to be picked, or all where there are fewer.
    """
    if not isinstance(scorer, ReleasingScorer):
        return None
    accountant = ReferenceAccountant(schema.neighboring)
    k = min(picks, len(schema.features))
    plan = scorer.plan(ScoringRequest(schema, k, Budget(1.0, 1e-6), accountant))
    return plan if plan.events or plan.settings is not None else None


def preparer(scorer: Scorer, schema: Schema, seed: int = 0) -> Callable[[Any], PreparedScores]:
    """Return what prepares ``scorer`` for a dataset, with the same release of its own for every dataset."""
    plan = scoring_plan(scorer, schema)
    if plan is None or not isinstance(scorer, ReleasingScorer):
        return scorer.prepare
    releasing, fixed = scorer, plan

    randomness = Randomness.from_seed(0)  # never drawn from

    def prepare(data: Any) -> PreparedScores:
        meter = BlindMeter(np.random.default_rng(seed), randomness, fixed, schema.neighboring)
        meter.arrive(data.records)
        return releasing.prepare_released(data, fixed, meter.window)

    return prepare


def pick(
    selector: TopKSelector, plan: StagePlan, rounds: Rounds, open_meter: OpenMeter
) -> tuple[tuple[int, ...], tuple[Draw, ...]]:
    """Return what ``selector`` picks over all rounds, and the draws it made.

    Raises
    ------
    CheckFailed
        If the events emitted are not those planned, or something else than candidates is picked.
    """
    meter = open_meter(plan, rounds.neighboring)
    window = meter.window
    candidates = np.ones(len(rounds.values[0]), dtype=bool)
    picked: list[int] = []
    shown = zip(rounds.values, rounds.picks, rounds.sensitivities, strict=True)
    for r, (values, count, sensitivity) in enumerate(shown):
        scores = Scores(values.copy(), sensitivity, candidates.copy(), r)
        meter.offer(sensitivity)
        with keeping_plan():
            chosen = [int(i) for i in selector.select(scores, count, plan, window)]
        if len(set(chosen)) != count or not all(0 <= i < len(values) and candidates[i] for i in chosen):
            raise CheckFailed(
                f"round {r} returned {chosen}; it must return {count} distinct indices among the candidates "
                f"{np.flatnonzero(candidates).tolist()}"
            )
        candidates[chosen] = False
        picked += chosen
    with keeping_plan():
        meter.finish()
    return tuple(picked), meter.draws


def fit(
    regressor: Regressor,
    plan: StagePlan,
    data: Any,
    neighboring: Neighboring,
    open_meter: OpenMeter,
    *,
    leave: Callable[[Any], Any] = rebuilt,
) -> tuple[Any, tuple[Draw, ...]]:
    """Return what would leave a run, a refusal or the model made of its document, and the draws made.

    ``leave`` makes something else of the model where its document is all that matters.

    Raises
    ------
    CheckFailed
        If the events emitted are not those planned, the reason for a refusal is not in the plan, or the model
        has no document of plain data that it can be made of again.
    """
    meter = open_meter(plan, neighboring)
    meter.arrive(data.records)
    with keeping_plan():
        outcome = regressor.fit(data, plan, meter.window)
        meter.finish(refused=isinstance(outcome, Refusal))
    if isinstance(outcome, Refusal):
        require(
            outcome.code in plan.refusals,
            f"refused for {outcome.code!r}, which is none of the plan's reasons {sorted(plan.refusals)}",
        )
        return outcome, meter.draws
    try:
        return leave(outcome), meter.draws
    except (InvalidRelease, AttributeError) as error:
        raise CheckFailed(f"a model that cannot leave: {error}") from error


@contextmanager
def keeping_plan() -> Iterator[None]:
    """Fail the check where the part departs from its plan, and say what it emitted: none of it is private."""
    try:
        yield
    except PlanViolation as error:
        raise CheckFailed("; ".join([str(error), *getattr(error, "__notes__", ())])) from error


def require_workers_differ(release: Callable[[], Any]) -> Evidence:
    """Check that ``release``, called in two forked processes, repeats neither its parent nor the other.

    Raises
    ------
    NotApplicable
        Where this system has no fork, or releases of one process hardly differ, as after refusals.
    CheckFailed
        If two processes make the same releases.
    """
    if not hasattr(os, "fork"):
        raise NotApplicable("this system has no fork")

    # In the parent first, so that every stream has begun when the process is forked.
    runs = _telling_runs(release)

    def releases() -> list[Any]:
        return [release() for _ in range(runs)]

    one, other = _in_child(releases), _in_child(releases)
    require(one != other, "two forked workers made the same releases: they share their noise")
    require(
        releases() not in (one, other), "a forked worker made the releases of its parent: it repeats noise"
    )
    return Evidence(f"{runs} releases of two forked workers differ", 2 * runs)


def _telling_runs(release: Callable[[], Any]) -> int:
    """Return how many releases in a row two processes do not make alike by chance.

    Pairs are made until 12 of them differ. If a pair differs with probability q, two processes agree in all
    2 N releases with probability (1 - q)^(2 N), and N has a negative binomial law, under which the mean of
    that is ((1 - q)^2 / (3 - 3 q + q^2))^12: at most 3^-12, below 2e-6, whatever q is.
    """
    differing = 0
    for pairs in range(1, MOST_PAIRS + 1):
        differing += release() != release()
        if differing == TELLING_PAIRS:
            return 2 * pairs
    raise NotApplicable(f"no noise shows in most of {2 * MOST_PAIRS} releases")


def _in_child(work: Callable[[], Any]) -> Any:
    """Return what ``work`` returns in a forked process."""
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of threads: the child needs no lock of theirs
        child = os.fork()
    if child == 0:
        status = 1
        try:
            with os.fdopen(writing, "wb") as pipe:
                pickle.dump(work(), pipe)
            status = 0
        finally:
            os._exit(status)  # without clean-up, which is the parent's
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        sent = pipe.read()
    _, status = os.waitpid(child, 0)
    require(status == 0, "a forked worker failed where its parent did not")
    return pickle.loads(sent)


def released_numbers(outcome: Any) -> Vector | None:
    """Return everything that a released model tells, as one vector; None for a refusal.

    The numbers of its document, of which it is made when it leaves, then one number in [0, 1) for all its
    words.

    >>> from dpkit_core.release.models import LinearModel
    >>> released_numbers(LinearModel(("a", "b"), (1.0, 2.0), 3.0)).round(2).tolist()
    [3.0, 1.0, 2.0, 0.5]
    """
    if isinstance(outcome, Refusal):
        return None
    numbers: list[float] = []
    words: list[str | None] = []
    _gather(canonical(outcome.to_document()), numbers, words)
    numbers.append(zlib.crc32(json.dumps(words).encode()) / 2**32)
    return np.array(numbers, dtype=np.float64)


def _gather(document: Any, numbers: list[float], words: list[str | None]) -> None:
    """Add the numbers and the words of canonical data, in order; thousands of documents go through here."""
    if type(document) is float or type(document) is bool:
        numbers.append(document)
    elif type(document) is list:
        for value in document:
            _gather(value, numbers, words)
    elif type(document) is dict:
        for name, value in document.items():
            words.append(name)
            _gather(value, numbers, words)
    else:
        words.append(document)
