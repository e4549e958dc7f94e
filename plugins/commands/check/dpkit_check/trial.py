"""What a check is, its arguments, its evidence, and its failures."""

from __future__ import annotations

import inspect
import random
from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias, TypeVar, get_args

import attrs
import numpy as np

from dpkit_check.fresh import Fresh
from dpkit_check.reading import Watch
from dpkit_core.plugins.kinds import PARTS
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
        The levels of all tests so far, whose sum may not exceed ``error``.
    watch
        What reads the code of the part during the whole run, if anything does.
    fresh
        What answers questions in processes that have seen no table, if anything does.
    """

    seed: int = 0
    effort: int = 1
    error: float = 1e-4
    spent: list[float] = attrs.field(factory=list, eq=False, repr=False)
    watch: Watch | None = attrs.field(default=None, eq=False, repr=False)
    fresh: Fresh | None = attrs.field(default=None, eq=False, repr=False)

    def level(self, tests: int = 1) -> float:
        """Return the level of one of ``tests`` tests, and record that it is made.

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
    """A part breaks a promise; the message names the promise and shows the counterexample."""

    def __init__(self, message: str, *, samples: int = 0, confidence: float = 1.0) -> None:
        super().__init__(message)
        self.samples = samples
        self.confidence = confidence
        self.scene: Mapping[str, Any] | None = None
        """On what it was found, see ``dpkit_check.cases.scenes``; None where the check alone finds it."""


class NotApplicable(Exception):
    """A check does not apply to this part; the message says why."""


class TooMany(NotApplicable):
    """A table has more records than the proof of the part is for; a run refuses it."""


def require(condition: object, message: str) -> None:
    """Raise ``CheckFailed`` with ``message`` unless ``condition`` holds.

    Where the message takes long to write, say of two tables, raise it by an ``if``.
    """
    if not condition:
        raise CheckFailed(message)


def global_generators() -> tuple[Any, ...]:
    """Return the state of the generators that every module shares, to see whether a part moved them."""
    numpy_state: Any = np.random.get_state()  # noqa: NPY002 - read, never drawn from
    return random.getstate(), numpy_state[1].tolist(), numpy_state[2:]


def moved_generators() -> tuple[Any, ...]:
    """Return their state after a draw from each: a part that seeds them as others did before is seen, too."""
    random.random()
    np.random.random()  # noqa: NPY002 - this moves them, which is all
    return global_generators()


Group = Literal["static", "numerical", "randomness", "privacy", "composition"]

#: In the order in which they run.
GROUPS: tuple[Group, ...] = get_args(Group)

CheckFunction: TypeAlias = Callable[[Factory[Any], Trial], Evidence]


@attrs.frozen
class Check:
    """One named property of a kind of part.

    Attributes
    ----------
    group
        What it is about.
    run
        The plain function: takes a factory and a ``Trial``.
    kinds
        The kinds of parts that have the property: scorer, selector, regressor, accountant.
    statistical
        Whether it may fail a faultless part, with a probability that the trial limits.
    """

    group: Group
    run: CheckFunction
    kinds: tuple[str, ...]
    statistical: bool = False

    @property
    def name(self) -> str:
        """``check_<property>``."""
        return self.run.__name__

    @property
    def summary(self) -> str:
        """The first paragraph of its documentation."""
        return self._paragraphs[0]

    @property
    def remedy(self) -> str:
        """What to do if it fails: the last paragraph of its documentation."""
        return self._paragraphs[-1].removeprefix("If this fails: ")

    @property
    def _paragraphs(self) -> list[str]:
        text = inspect.getdoc(self.run) or ""
        return [" ".join(paragraph.split()) for paragraph in text.split("\n\n")]


def attack(
    group: Group,
    *,
    kinds: tuple[str, ...] = tuple(PARTS),
    statistical: bool = False,
) -> Callable[[CheckFunction], Check]:
    """Return a decorator that makes ``check_<property>(make, trial)`` a check, which the kit finds.

    Parameters
    ----------
    group, kinds, statistical
        As of ``Check``; every kind by default.
    """

    def decorate(run: CheckFunction) -> Check:
        return Check(group, run, kinds, statistical)

    return decorate
