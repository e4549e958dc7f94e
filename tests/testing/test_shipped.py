"""Every shipped part passes the kit, and keeps passing whatever the seed."""

import pytest

from dpkit_core.registry import KINDS, Registry
from dpkit_core.testing import checks_for, run_checks, trial_for

REGISTRY = Registry()
SHIPPED = [ref for kind in KINDS for ref in REGISTRY.refs(kind) if ref.distribution.startswith("dpkit-")]
QUICK = {"accountant", "scorer", "selector"}


def failures(report):
    return [f"{r.check}: {r.detail}" for r in report.results if r.status == "failed"]


def test_parts_of_every_kind_are_shipped():
    assert {ref.kind for ref in SHIPPED} == set(KINDS)


@pytest.mark.parametrize(
    "ref",
    [pytest.param(r, id=r.name, marks=[] if r.role in QUICK else [pytest.mark.slow]) for r in SHIPPED],
)
def test_a_shipped_part_passes(ref):
    report = run_checks(REGISTRY.load(ref), ref.role)
    assert report.ok, failures(report)


@pytest.mark.slow
@pytest.mark.parametrize("ref", [r for r in SHIPPED if r.role in QUICK], ids=lambda ref: ref.name)
def test_no_false_alarm_over_fifty_seeds(ref):
    """One of 50 runs with false-alarm probability 1e-3 fails with probability 5% at most; seeds are fixed."""
    make = REGISTRY.load(ref)
    for seed in range(50):
        trial = trial_for(ref.role, seed=seed)
        for check in checks_for(ref.role):
            if check.group in {"numerical", "privacy"}:
                check.run(make, trial)
