"""Validators and converters of options, for attrs fields of the core and of any part."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import attrs


def positive(instance: object, attribute: attrs.Attribute[Any], value: float) -> None:
    """Accept a finite number above 0."""
    if not 0 < value < math.inf:
        raise ValueError(f"{attribute.name} is {value}; it must be a finite number above 0")


def length(instance: object, attribute: attrs.Attribute[Any], value: float) -> None:
    """Accept a number from 2^-500 to 2^500.

    A product or a quotient of two of them is neither 0 nor infinite.
    """
    if not 2.0**-500 <= value <= 2.0**500:
        raise ValueError(f"{attribute.name} is {value}; it must be a number from 2^-500 to 2^500")


def probability(instance: object, attribute: attrs.Attribute[Any], value: float) -> None:
    """Accept a number from 0 to below 1."""
    if not 0 <= value < 1:
        raise ValueError(f"{attribute.name} is {value}; it must be at least 0 and below 1")


def fraction(instance: object, attribute: attrs.Attribute[Any], value: float) -> None:
    """Accept a number strictly between 0 and 1."""
    if not 0 < value < 1:
        raise ValueError(f"{attribute.name} is {value}; it must be above 0 and below 1")


def rate(instance: object, attribute: attrs.Attribute[Any], value: float) -> None:
    """Accept a number above 0 and at most 1."""
    if not 0 < value <= 1:
        raise ValueError(f"{attribute.name} is {value}; it must be above 0 and at most 1")


def frozen_tuple(values: Iterable[Any]) -> tuple[Any, ...]:
    """Return ``values`` as a tuple, so that a frozen class holds nothing that can change."""
    return tuple(values)


def frozen_floats(values: Iterable[float]) -> tuple[float, ...]:
    """Return ``values`` as a tuple of floats."""
    return tuple(float(value) for value in values)
