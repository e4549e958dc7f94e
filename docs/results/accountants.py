"""Noise of each recipe under accountant rdp, in that under tight.

python docs/results/accountants.py

writes ``tables/accountants.csv``: for each recipe and stage how many times as much noise rdp asks for: thirty
numeric columns with bounds, records join or leave, delta 1e-6. Only plans: no data, no randomness.
"""

from __future__ import annotations

from collections.abc import Iterator

from pages import keep

from dpkit_core import Budget, Schema, compose
from dpkit_core.pipeline.recipes import find_recipe
from dpkit_core.privacy.events import Event, walk

EPSILONS = (0.1, 1.0, 10.0)
RECIPES = ("trees", "k-trees", "winsorized", "k-winsorized", "k-bas", "l-bas", "bas", "k-tukey", "l-tukey")


def strengths(event: Event) -> Iterator[float]:
    """Yield what each mechanism of an event has beside its sensitivity: 1 / noise, or epsilon."""
    for inner in walk(event):
        if (multiplier := getattr(inner, "noise_multiplier", None)) is not None:
            yield 1 / multiplier
        elif (epsilon := getattr(inner, "epsilon", None)) is not None:
            yield epsilon


def planned(recipe: str, epsilon: float, accountant: str) -> dict[str, list[float]]:
    """Return the strengths of all mechanisms of each stage."""
    names = [f"x{j}" for j in range(30)]
    schema = Schema.numeric(names, "y", dict.fromkeys([*names, "y"], (0.0, 1.0)))
    found = find_recipe(recipe)
    parts = {**found.parts, "accountant": accountant}
    plan = compose(**parts, options=found.options).plan(schema, Budget(epsilon, 1e-6))
    return {stage.name: [s for event in stage.plan.events for s in strengths(event)] for stage in plan.stages}


def ratio(recipe: str, epsilon: float) -> str:
    """Return how much more noise rdp asks for, stage by stage."""
    rdp, tight = (planned(recipe, epsilon, accountant) for accountant in ("rdp", "tight"))
    cells = []
    for stage, there in tight.items():
        factors = [ours / other for ours, other in zip(there, rdp[stage], strict=True)]
        if factors:
            low, high = min(factors), max(factors)
            told = f"{low:.3f}" if high - low < 5e-4 else f"{low:.3f}-{high:.3f}"
            cells.append(f"{stage} {told}")
    return ", ".join(cells)


if __name__ == "__main__":
    rows = ([f"`{recipe}`", *(ratio(recipe, epsilon) for epsilon in EPSILONS)] for recipe in RECIPES)
    keep("accountants", ["recipe", *(f"epsilon {epsilon:g}" for epsilon in EPSILONS)], rows)
