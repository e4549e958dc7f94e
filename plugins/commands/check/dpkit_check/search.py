"""Looks for a world in which a law is broken, led by what the code of the part has not yet done.

Worlds that reach new code are kept and varied; constants of the code become fields of worlds at once. The
budget counts worlds, not seconds, so that one seed gives one report on every machine.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import TypeVar

import numpy as np

from dpkit_check.reading import Watch
from dpkit_check.recipes import Constants, WorldRecipe

W = TypeVar("W", bound=WorldRecipe)

#: Worlds that reached something new and are varied as often as all that did.
KEPT = 20


def worlds(
    starts: Iterable[W],
    watch: Watch,
    constants: Constants,
    rng: np.random.Generator,
    *,
    variants: int,
    most: int,
) -> Iterator[W]:
    """Yield the starts, and ``most`` worlds besides: those at constants, and variations of what reached more.

    The caller runs each world before it asks for the next, under the watch.
    """
    begun = list(starts)
    at_constants = [*dict.fromkeys(other for start in begun[:2] for other in start.at_constants(constants))]
    # A long table of constants leaves a quarter of the budget to the variations.
    room = 3 * most // 4
    if len(at_constants) > room:
        at_constants = [at_constants[i] for i in sorted(rng.permutation(len(at_constants))[:room])]
    waiting = deque([*begun, *at_constants])
    kept: list[W] = []
    for _ in range(len(begun) + most):
        if waiting:
            world = waiting.popleft()
        else:
            pool = kept[-KEPT:] if kept and rng.random() < 0.5 else kept or begun
            world = pool[int(rng.integers(len(pool)))]
            for _ in range(1 + int(rng.geometric(0.5))):
                world = world.varied(rng, constants, variants)
        before = watch.mark
        yield world
        if watch.mark > before:
            kept.append(world)
