"""What a check is given, what it returns, and how it says no."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, TypeVar

import attrs
import numpy as np

from dpkit_core.protocols import Accountant, Regressor, Scorer, TopKSelector

AnyPart: TypeAlias = Scorer | TopKSelector | Regressor | Accountant

P = TypeVar("P")

Factory: TypeAlias = Callable[..., P]
"""Makes a fresh part: its class, or a function with chosen options. Accountants are given ``neighboring``."""


@attrs.frozen
class Trial:
    """How hard a check tries.

    Attributes
    ----------
    seed
        Seed of everything that the check draws.
    effort
        Multiplies numbers of pairs, evaluations and samples.
    error
        Probability with which the check may fail a faultless part.
    spent
        The levels of all tests so far, of which no more than ``error`` may come together.
    """

    seed: int = 0
    effort: int = 1
    error: float = 1e-4
    spent: list[float] = attrs.field(factory=list, eq=False, repr=False)

    def level(self, tests: int = 1) -> float:
        """Return at which level to make one of so many tests, and note that it is made.

        By Bonferroni's inequality, all of them together fail a faultless part with probability ``error`` at
        most.
        """
        self.spent.append(self.error / tests)
        return self.error / tests


@attrs.frozen
class Evidence:
    """What a check that passed has seen.

    Attributes
    ----------
    detail
        The strongest finding, a sentence.
    samples
        How many pairs, laws or runs it rests on.
    confidence
        1 - probability of a false alarm; 1 where nothing was left to chance.
    scene
        Of a failure: on what it was found, where that can be told.
    """

    detail: str = ""
    samples: int = 0
    confidence: float = 1.0
    scene: Mapping[str, Any] | None = None


class CheckFailed(AssertionError):
    """A part that does not keep a promise; the message says which and shows the witness."""

    def __init__(self, message: str, *, samples: int = 0, confidence: float = 1.0) -> None:
        super().__init__(message)
        self.samples = samples
        self.confidence = confidence
        self.scene: Mapping[str, Any] | None = None
        """On what it was found, see ``dpkit_check.scene``; None where the check alone finds it."""


class NotApplicable(Exception):
    """A check that has nothing to examine here; the message says why."""


def require(condition: object, message: str) -> None:
    """Raise ``CheckFailed`` with ``message`` unless ``condition`` holds."""
    if not condition:
        raise CheckFailed(message)


def global_generators() -> tuple[Any, ...]:
    """Return the state of the generators that every module shares, to see whether a part moved them."""
    numpy_state: Any = np.random.get_state()  # noqa: NPY002 - read, never drawn from
    return random.getstate(), numpy_state[1].tolist(), numpy_state[2:]
