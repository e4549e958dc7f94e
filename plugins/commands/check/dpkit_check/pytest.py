"""The kit under pytest: one test item for each check of each part.

A plugin's whole conformance test::

    from dpkit_check.pytest import parametrize_with_checks

    @parametrize_with_checks([KendallScorer])
    def test_conforms(check):
        check()
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import pytest

from dpkit_check.attacks.claims import check_protocol
from dpkit_check.cases.parts import class_of, kind_of
from dpkit_check.kit import NOT_RUN, PROTOCOL, checks_for, needs_protocol, trial_for
from dpkit_check.trial import AnyPart, Check, CheckFailed, Factory, NotApplicable, Trial


def parametrize_with_checks(
    parts: Iterable[Factory[AnyPart]],
    *,
    expected_failures: Mapping[str, str] | None = None,
    thorough: bool = False,
    seed: int = 0,
) -> pytest.MarkDecorator:
    """Return a decorator that gives a test each check of each part, as the argument ``check``.

    Parameters
    ----------
    parts
        Classes, or functions that make parts.
    expected_failures
        Check -> reason. Marked as strict xfail, so that an unexpected pass fails.
    thorough, seed
        As in ``run_checks``.
    """
    expected = dict(expected_failures or {})
    items = []
    for make in parts:
        kind = kind_of(make)
        trial = trial_for(kind, thorough=thorough, seed=seed)
        for check in checks_for(kind):
            marks = _marks(expected.get(check.name))
            name = f"{class_of(make).__name__}-{check.name.removeprefix('check_')}"
            first = needs_protocol(check) and PROTOCOL not in expected
            items.append(pytest.param(_bound(check, make, trial, first), id=name, marks=marks))
    return pytest.mark.parametrize("check", items)


def _marks(reason: str | None) -> list[Any]:
    return [] if reason is None else [pytest.mark.xfail(strict=True, reason=reason)]


def _bound(check: Check, make: Factory[AnyPart], trial: Trial, protocol_first: bool) -> Callable[[], None]:
    def run() -> None:
        if protocol_first and not _has_members(make, trial):
            pytest.skip(NOT_RUN)
        try:
            with np.errstate(all="ignore"):
                check.run(make, trial)
        except NotApplicable as reason:
            pytest.skip(str(reason))
        except CheckFailed as failure:
            failure.add_note(f"If this fails: {check.remedy}")
            raise

    return run


def _has_members(make: Factory[AnyPart], trial: Trial) -> bool:
    try:
        check_protocol.run(make, trial)
    except CheckFailed:
        return False
    return True
