"""Noise that another library draws: what it is lent for it, and where it draws."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Protocol

import attrs
import numpy as np


class Lent(Protocol):
    """dpkit's randomness in the hands of another library: it cannot be copied, and its process not forked."""

    def random_state(self) -> np.random.RandomState:
        """Return what older libraries take."""
        ...

    def generator(self) -> np.random.Generator:
        """Return what newer libraries take."""
        ...


@attrs.frozen
class Handed:
    """What another library protects in one call, by which guarantee.

    Attributes
    ----------
    value
        A number or an array.
    sensitivity
        By how much the library says that one record moves each number.
    epsilon, delta
        What it says the call costs.
    lower, upper
        Between which its answers lie.
    """

    value: Any
    sensitivity: float
    epsilon: float
    delta: float = 0.0
    lower: float = -math.inf
    upper: float = math.inf


@attrs.frozen
class Door:
    """A function of another library in which it draws noise, and nowhere else: the kit answers there.

    Named, as class-level ``doors``, by a part whose noise comes from calls that each keep what they say.

    Attributes
    ----------
    function
        ``package.module:Class.method``.
    handed
        Says of the arguments of a call, the object first, what is protected.
    """

    function: str
    handed: Callable[..., Handed]
