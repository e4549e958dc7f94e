"""Warnings about what no certificate covers, and about budgets that nobody adds up."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterator
from typing import Any

from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags


class ExactScore(UserWarning):
    """A score computed from records without noise: a release that no certificate covers."""


class ExactStep(UserWarning):
    """A step of a pipeline that learns from records without noise, before a step that is private."""


class RefusedFit(UserWarning):
    """A fit whose private test said no: its budget is spent, and there is no model."""


class UnpaidFits(UserWarning):
    """Several fits of copies of one estimator without a ledger, which would add up what they spend."""


def warn_of_exact_score() -> None:
    """Warn that a score is about to be computed from records without noise."""
    warnings.warn(
        "the score is computed from the records without noise, and no certificate covers it; "
        "show it to others only if these records are public",
        ExactScore,
        stacklevel=3,
    )


def warn_of_exact_steps(estimator: object) -> None:
    """Warn of steps that have learned from the records before a private estimator is given them."""
    found = dict.fromkeys(type(step).__name__ for step in _steps_before(estimator) if _learns(step))
    if found:
        warnings.warn(
            f"{' and '.join(found)} learned from the records without noise before "
            f"{type(estimator).__name__} was fitted, and no certificate covers what the pipeline releases of "
            "that. Leave such steps out: parts scale by private or public bounds, and a schema says how to "
            "read missing values",
            ExactStep,
            stacklevel=4,
        )


def warn_of_unpaid_fits(estimator: Any, fits: int) -> None:
    """Warn that copies of an estimator have been fitted without a ledger, and how often."""
    warnings.warn(
        f"fit {fits} of copies of one {type(estimator).__name__} without a ledger: if all were of the same "
        f"records, these have spent up to epsilon {fits * estimator.epsilon:g} and delta "
        f"{fits * estimator.delta:g}. Give a ledger, which adds fits up and enforces a limit, or use "
        "PrivateSearchCV",
        UnpaidFits,
        stacklevel=4,
    )


def _steps_before(estimator: object) -> Iterator[Any]:
    """Yield the steps before an estimator in the pipelines that are fitting it at the moment.

    A step is told nothing about the pipeline that it is in, so the callers are asked.
    """
    frame = inspect.currentframe()
    inner: Any = estimator
    while frame is not None:
        caller = frame.f_locals.get("self")
        if isinstance(caller, Pipeline) and caller is not inner:
            steps = [step for _, step in caller.steps]
            # With ``memory`` a pipeline fits a copy, which is none of its steps.
            place = next((i for i, step in enumerate(steps) if step is inner), len(steps) - 1)
            yield from steps[:place]
            inner = caller
        frame = frame.f_back


def _learns(step: Any) -> bool:
    """Return whether fitting a step reads anything off the records."""
    if step is None or isinstance(step, str):  # "passthrough", "drop"
        return False
    for composite in ("transformers", "transformer_list", "steps"):
        if hasattr(step, composite):
            return any(_learns(inner) for _, inner, *_ in getattr(step, composite))
    # A private step, or an encoder that was told the categories.
    told = hasattr(step, "certificate_") or not isinstance(getattr(step, "categories", ""), str)
    return not told and bool(get_tags(step).requires_fit)
