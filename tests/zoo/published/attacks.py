"""How published claims are attacked: a row for each kind of claim, with a twin whose claim is true."""

from __future__ import annotations

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
from zoo.rows import Row

EVALUATIONS = 1000


@attrs.frozen
class Finding:
    """Whether an attack refuted a claim, and after how many samples."""

    caught: bool
    samples: int
    detail: str


def claim(name, says, published, *, attack, false, true, samples, found_by) -> Row:
    """Return the row of a published claim: ``false`` and ``true`` are what ``attack`` takes."""
    return Row(name, says, found_by, false, true, "slow", published, attack, samples)


def statistic(name, says, published, *, schema, false, true, samples=100) -> Row:
    """Return the row of a sensitivity: ``false`` and ``true`` are (statistic, declared norms)."""

    def attack(claimed, seed: int) -> Finding:
        found = attack_sensitivity(*claimed, schema, evaluations=EVALUATIONS, seed=seed)
        return Finding(found.violated, found.found_after or found.evaluations, found.describe())

    found_by = "attack_sensitivity"
    return claim(
        name, says, published, attack=attack, false=false, true=true, samples=samples, found_by=found_by
    )


def law(name, says, published, *, schema, false, true, samples=100) -> Row:
    """Return the row of an exact law: ``false`` and ``true`` are (law, norms of its log).

    epsilon-DP bounds the change of every log probability by epsilon; bounded range does that for the range
    of all changes.
    """

    def logs(of):
        return lambda data: np.log(np.maximum(of(data), 1e-300))

    false, true = ((logs(of), declared) for of, declared in (false, true))
    return statistic(name, says, published, schema=schema, false=false, true=true, samples=samples)


def mechanism(name, says, published, *, pair, claimed: Budget, false, true, samples, mu=None) -> Row:
    """Return the row of a budget, or of ``mu`` of Gaussian differential privacy."""

    def attack(run, seed: int) -> Finding:
        found = attack_mechanism(run, claimed, pair, samples=samples, seed=seed)
        caught = found.violated if mu is None else found.mu > mu
        detail = found.describe() if mu is None else f"mu at least {found.mu:.3g} (claimed {mu:.3g})"
        return Finding(caught, samples, detail)

    found_by = "attack_mechanism" if mu is None else "attack_mechanism (mu)"
    return claim(
        name, says, published, attack=attack, false=false, true=true, samples=samples, found_by=found_by
    )


def part(name, says, published, *, check: str, false, true, samples) -> Row:
    """Return the row of a whole part: one check of its kind must fail on it."""

    def attack(make, seed: int) -> Finding:
        kind = kind_of(make)
        run = next(c.run for c in checks_for(kind) if c.name == check)
        trial = Trial(seed=seed, error=trial_for(kind).error)
        try:
            with np.errstate(all="ignore"):
                evidence = run(make, trial)
        except CheckFailed as failure:
            return Finding(True, failure.samples, str(failure))
        return Finding(False, evidence.samples, evidence.detail)

    return claim(
        name, says, published, attack=attack, false=false, true=true, samples=samples, found_by=check
    )
