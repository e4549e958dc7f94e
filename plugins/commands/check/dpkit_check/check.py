"""What a check of the kit is, and the decorator that makes a function one where it is defined."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, Literal, TypeAlias, get_args

import attrs

from dpkit_check.trial import Evidence, Factory, Trial
from dpkit_core.plugins.kinds import PARTS

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
    thorough_only
        Whether the default run leaves it out.
    """

    group: Group
    run: CheckFunction
    kinds: tuple[str, ...]
    statistical: bool = False
    thorough_only: bool = False

    @property
    def name(self) -> str:
        """``check_<property>``."""
        return self.run.__name__

    @property
    def summary(self) -> str:
        """The first sentence of its documentation."""
        return _paragraphs(self.run)[0]

    @property
    def remedy(self) -> str:
        """What to do if it fails."""
        return _paragraphs(self.run)[-1].removeprefix("If this fails: ")


def check(
    group: Group,
    *,
    kinds: tuple[str, ...] = tuple(PARTS),
    statistical: bool = False,
    thorough_only: bool = False,
) -> Callable[[CheckFunction], Check]:
    """Return a decorator that makes a function ``check_<property>(make, trial)`` a check; the kit finds it.

    Parameters
    ----------
    group, kinds, statistical, thorough_only
        As of ``Check``; every kind by default.
    """

    def decorate(run: CheckFunction) -> Check:
        return Check(group, run, kinds, statistical, thorough_only)

    return decorate


@functools.cache
def _paragraphs(function: CheckFunction) -> tuple[str, ...]:
    text = inspect.getdoc(function) or ""
    return tuple(" ".join(paragraph.split()) for paragraph in text.split("\n\n"))
