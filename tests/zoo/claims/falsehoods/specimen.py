"""A specimen of the zoo: a published falsehood, its corrected twin, and the attack that tells them apart."""

from __future__ import annotations

from collections.abc import Callable

import attrs
import numpy as np
from dpkit_check import (
    CheckFailed,
    attack_mechanism,
    attack_sensitivity,
    checks_for,
    kind_of,
    trial_for,
)
from dpkit_check.trial import Trial

from dpkit_core import Budget

EVALUATIONS = 1000


@attrs.frozen
class Finding:
    """Whether an attack refuted a claim, and after how many samples."""

    caught: bool
    samples: int
    detail: str


@attrs.frozen
class Specimen:
    """One false claim; ``samples`` is how many the attack may need at most."""

    name: str
    bug: str
    published: str
    caught_by: str
    attack: Callable[[int], Finding]
    twin: Callable[[int], Finding]
    samples: int


def statistic(name, bug, published, *, schema, false, true, samples=100) -> Specimen:
    """Return a specimen that claims a sensitivity: ``false`` and ``true`` are (statistic, declared norms)."""

    def attack_on(claim):
        def attack(seed: int) -> Finding:
            found = attack_sensitivity(*claim, schema, evaluations=EVALUATIONS, seed=seed)
            needed = found.found_after or found.evaluations
            return Finding(found.violated, needed, found.describe())

        return attack

    return Specimen(name, bug, published, "attack_sensitivity", attack_on(false), attack_on(true), samples)


def law(name, bug, published, *, schema, false, true, samples=100) -> Specimen:
    """Return a specimen whose claim is an exact law: ``false`` and ``true`` are (law, norms of its log).

    epsilon-DP bounds the change of every log probability by epsilon; bounded range does that for the range
    of all changes.
    """

    def logs(of):
        return lambda data: np.log(np.maximum(of(data), 1e-300))

    false, true = ((logs(of), declared) for of, declared in (false, true))
    return statistic(name, bug, published, schema=schema, false=false, true=true, samples=samples)


def mechanism(name, bug, published, *, pair, claimed: Budget, false, true, samples, mu=None) -> Specimen:
    """Return a specimen whose claim is a budget, or ``mu`` of Gaussian differential privacy."""

    def attack_on(run):
        def attack(seed: int) -> Finding:
            found = attack_mechanism(run, claimed, pair, samples=samples, seed=seed)
            caught = found.violated if mu is None else found.mu > mu
            detail = found.describe() if mu is None else f"mu at least {found.mu:.3g} (claimed {mu:.3g})"
            return Finding(caught, samples, detail)

        return attack

    tool = "attack_mechanism" if mu is None else "attack_mechanism (mu)"
    return Specimen(name, bug, published, tool, attack_on(false), attack_on(true), samples)


def part(name, bug, published, *, check: str, false, true, samples) -> Specimen:
    """Return a specimen that is a whole part: one check of its kind must fail on it."""

    def attack_on(make):
        def attack(seed: int) -> Finding:
            kind = kind_of(make)
            run = next(c.run for c in checks_for(kind) if c.name == check)
            trial = Trial(seed=seed, error=trial_for(kind).error)
            try:
                with np.errstate(all="ignore"):
                    evidence = run(make, trial)
            except CheckFailed as failure:
                return Finding(True, failure.samples, str(failure))
            return Finding(False, evidence.samples, evidence.detail)

        return attack

    return Specimen(name, bug, published, check, attack_on(false), attack_on(true), samples)
