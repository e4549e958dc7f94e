"""Attacks the claim of a whole composition: what its certificate says, against what its releases betray.

Each part may keep its own promise and the composition still break the total: a scale meant for one relation
used under the other, a sensitivity that does not hold for the scores actually handed over, an event charged
once and drawn twice. Here the plan is run as users run it, many times, on two small neighboring tables of its
own schema, and ``audit`` bounds from outside what the releases tell apart.

The pair is chosen in advance, by runs that are not counted: tables on which two features share all the
weight and one record moves them apart, tables of the kit's ``Population``, and small steps from the best of
them. Both datasets of a candidate get the same seeds, so that a shift shows through the noise in a few runs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence

import attrs
import numpy as np

from dpkit_check.audit import CONFIDENCE, Audit, audit
from dpkit_check.cases.plans import claimed_mu
from dpkit_check.worlds import SIZES, Pair, Population, as_listed, as_number, flagged
from dpkit_core.arrays import Vector
from dpkit_core.data.dataset import Dataset
from dpkit_core.data.schema import Column, Schema
from dpkit_core.errors import InvalidRelease
from dpkit_core.noise.randomness import Randomness
from dpkit_core.pipeline.observers import Observers
from dpkit_core.pipeline.plan import Plan
from dpkit_core.privacy.budget import Budget, Neighboring
from dpkit_core.release.release import Release

Progress = Callable[[int, int], None]
"""Called with the runs done and the runs in all."""

SAMPLES = 10_000
FEWEST_SAMPLES = 1000
DRAWN_PAIRS = 24
STEPS = 24
SCREENING_RUNS = 24
MOST_OF_A_PERSON = 100  # fewer than a schema may allow are tried in its place

# Numbers of records to try in turn where small tables are refused each time.
LARGER_SIZES = (100, 300, 1000, 3000, 10_000)
REFUSAL_RUNS = 6

# What stands for the bounds of a column that has none.
_UNBOUNDED = (-1.0, 1.0)


@attrs.frozen(eq=False)
class Suspects:
    """The pair of neighbors on which a composition is to be audited, and what a run on them takes.

    Attributes
    ----------
    pair
        The two datasets.
    seconds
        Time of one run on one of them.
    """

    pair: tuple[Dataset, Dataset]
    seconds: float

    @property
    def records(self) -> tuple[int, int]:
        """Number of records of each."""
        first, second = self.pair
        return len(first.y), len(second.y)

    def affordable(self, seconds: float) -> int:
        """Return how many runs on each dataset take about so long: from 1000 to 10 000."""
        return int(np.clip(seconds / (2 * self.seconds), FEWEST_SAMPLES, SAMPLES))


@attrs.frozen
class CompositionAudit:
    """What many runs of a composition prove about its claim.

    Attributes
    ----------
    finding
        The lower bounds and the claim.
    records
        Number of records of the two datasets.
    refused
        Share of the runs that ended in a refusal.
    """

    finding: Audit
    records: tuple[int, int]
    refused: float

    @property
    def statement(self) -> str:
        """What the bounds mean, in words."""
        claimed, confidence = self.finding.claimed, f"{100 * self.finding.confidence:g}%"
        if self.finding.violated:
            what = (
                f"mu {self.finding.claimed_mu:.4g}, which its Gaussian noise claims,"
                if self.finding.mu > self.finding.claimed_mu
                else f"epsilon {claimed.epsilon:.4g} and delta {claimed.delta:.3g}"
            )
            return (
                f"REFUTED: no mechanism with {what} "
                f"releases this, with confidence {confidence}. Some part spends more than it declares; "
                "`dpkit check` may find which. Do not publish releases of this composition."
            )
        unused = (
            " Every run was refused, so only the refusal was tried: choose a larger budget or more records."
            if self.refused == 1
            else ""
        )
        return (
            "Not refuted, which proves nothing: other tables or more runs may show more. A bound above the "
            "claim would mean that the composition is broken; a bound below it is what a correct composition "
            f"gives, and also a false one on tables that do not strain its claim.{unused}"
        )


def find_suspects(
    plan: Plan,
    *,
    sizes: Sequence[int] | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> Suspects:
    """Return the neighbors, among those tried, that the composition tells apart best.

    Parameters
    ----------
    plan
        The composition. Nothing of what it is run on here is private.
    sizes
        Numbers of records to try; small ones by default, and where those are refused each time, the fewest
        that are not. Where the schema makes the number public, only that one.
    seed
        Seed of the tables and of the runs on them.
    progress
        Called after each pair.

    Raises
    ------
    InvalidRelease
        If the plan claims no epsilon.
    """
    _claim(plan)
    if plan.schema.records is not None:
        sizes = (plan.schema.records,)
    elif sizes is None:
        sizes = _sizes(plan)
    population, rng = Population(plan.schema), np.random.default_rng(seed)
    candidates = [_torn_apart(plan.schema, size) for size in sizes]
    candidates += [population.pair(rng, int(rng.choice(sizes))) for _ in range(DRAWN_PAIRS)]
    if (most := min(plan.schema.records_of_a_unit, MOST_OF_A_PERSON)) > 1:
        candidates = [pair.of_person(most) for pair in candidates]
    tried = len(candidates) + STEPS
    start = time.perf_counter()
    best, height = candidates[0], -1.0
    for number in range(tried):
        pair = candidates[number] if number < len(candidates) else population.vary(best, rng)
        effect = _effect(plan, population.datasets(pair))
        if effect > height:
            best, height = pair, effect
        if progress is not None:
            progress(number + 1, tried)
    return Suspects(population.datasets(best), (time.perf_counter() - start) / (2 * SCREENING_RUNS * tried))


def audit_composition(
    plan: Plan,
    suspects: Suspects,
    *,
    samples: int = SAMPLES,
    confidence: float = CONFIDENCE,
    progress: Progress | None = None,
) -> CompositionAudit:
    """Return what ``samples`` runs on each of two neighbors, with fresh randomness, prove about the claim.

    Parameters
    ----------
    plan
        The composition, run at its own budget.
    suspects
        Neighbors under the relation of the plan, such as ``find_suspects`` returns.
    samples
        Runs on each dataset.
    confidence
        Probability that the bounds hold.
    progress
        Called after each run.

    Raises
    ------
    InvalidRelease
        If the plan claims no epsilon.
    """
    claimed = _claim(plan)
    start = time.perf_counter()
    probes = _probes(plan.schema)
    randomness = Randomness.from_os()  # every run reads on where the last one stopped
    seen: list[list[tuple[tuple[str, ...], Vector]]] = [[], []]
    for side, data in enumerate(suspects.pair):
        for run in range(samples):
            release = _run(plan, data, randomness)
            seen[side].append((release.selected, _observe(release, probes)))
            if progress is not None:
                progress(side * samples + run + 1, 2 * samples)
    seconds = time.perf_counter() - start
    mu = claimed_mu(item.event for item in plan.events)
    # The selection as a whole, and all that was released as one vector: two looks share the errors.
    confidence_each = 1 - (1 - confidence) / 2
    selections = [[selected for selected, _ in side] for side in seen]
    vectors = [np.array([vector for _, vector in side]) for side in seen]
    findings = [
        audit(first, second, claimed, mu=mu, confidence=confidence_each, seconds=seconds)
        for first, second in (selections, vectors)
    ]
    strongest = max(findings, key=lambda finding: (finding.violated, finding.epsilon))
    return CompositionAudit(
        attrs.evolve(strongest, confidence=confidence),
        suspects.records,
        float(np.mean([side[:, 0].mean() for side in vectors])),
    )


def _claim(plan: Plan) -> Budget:
    if plan.epsilon is None:
        raise InvalidRelease(
            f"the plan claims no epsilon, because {'; '.join(plan.reasons)}: nothing can be refuted"
        )
    return Budget(plan.epsilon, plan.budget.delta)


def _run(plan: Plan, data: Dataset, randomness: Randomness) -> Release:
    # No observer: these are no releases of anything, and a ledger must not count them.
    return plan.run(data, randomness=randomness, observers=Observers(()))


def _sizes(plan: Plan) -> Sequence[int]:
    """Return small sizes, or the fewest records of a longer list with which some run is not refused."""
    for size in (max(SIZES), *LARGER_SIZES):
        data, _ = Population(plan.schema).datasets(_torn_apart(plan.schema, size))
        runs = (_run(plan, data, Randomness.from_seed(seed)) for seed in range(REFUSAL_RUNS))
        if any(release.refusal is None for release in runs):
            return SIZES if size == max(SIZES) else (size,)
    return SIZES


def _effect(plan: Plan, pair: tuple[Dataset, Dataset]) -> float:
    """Return how far the average release moves, in units of its deviation, in the number that moves most."""
    probes = _probes(plan.schema)
    first, second = (
        np.array([_observe(_run(plan, data, Randomness.from_seed(s)), probes) for s in range(SCREENING_RUNS)])
        for data in pair
    )
    moved = np.abs(np.mean(first - second, axis=0))
    deviation = np.sqrt((first.var(axis=0) + second.var(axis=0)) / 2)
    return float((moved / (deviation + 1e-12 * (1 + moved))).max())


def _observe(release: Release, probes: dict[str, Vector]) -> Vector:
    """Return a release as numbers: whether refused, what was selected, the predictions at the probes."""
    selected = [float(name in release.selected) for name in probes]
    predictions = np.zeros(1 + len(probes))
    if release.model is not None:
        predictions = release.predict(np.column_stack([probes[name] for name in release.model.features]))
    return np.nan_to_num(np.concatenate(([release.refusal is not None], selected, predictions)))


def _probes(schema: Schema) -> dict[str, Vector]:
    """Return a value per feature at public points: all features in the middle, and each in turn at its top.

    A linear model is known from its predictions there, and any other from more than its average.
    """
    features = schema.features
    points: dict[str, Vector] = {}
    for j, feature in enumerate(features):
        lower, upper = feature.bounds or _UNBOUNDED
        column = np.full(1 + len(features), (lower + upper) / 2)
        column[1 + j] = upper
        points[feature.name] = column
    return points


def _torn_apart(schema: Schema, records: int) -> Pair:
    """Return a pair on whose tables two columns follow the target and one record parts them.

    Half of the records have both columns and the target at the top, half at the bottom, all other columns in
    the middle. The record that differs has the target and one of the two at the top, the other at the bottom,
    so that one score rises and the other falls; what replaces it exchanges the two.
    """
    replace = schema.neighboring is Neighboring.REPLACE_ONE
    half = np.arange(records if replace else records + 1) % 2 == 0
    table = np.array([_record(schema, (high, high), high) for high in half])
    table[0] = _record(schema, (True, False), True)
    return Pair(table, 0, _record(schema, (False, True), True) if replace else None)


def _record(schema: Schema, first_two: tuple[bool, bool], target: bool) -> Vector:
    places: Iterator[bool | None] = iter((*first_two, *[None] * len(schema.columns)))
    cells = [_cell(column, next(places)) for column in map(as_listed, schema.columns)]
    return np.concatenate([*cells, _cell(as_number(schema.target), target)])


def _cell(column: Column, high: bool | None) -> Vector:
    """Return the entries of one column: at the top, at the bottom, or (None) in the middle."""
    if column.categories:
        # The first category, another value that is listed nowhere, or the last category.
        hot = {True: 0, False: -1, None: len(column.categories) - 1}[high]
        return np.array([float(j == hot) for j in range(len(column.categories))])
    lower, upper = column.bounds or _UNBOUNDED
    number = {True: upper, False: lower, None: (lower + upper) / 2}[high]
    return np.array([number, *[0.0] * flagged(column)])
