"""The conformance kit: claims that are tested, not believed.

    from dpkit_check import run_checks
    report = run_checks(MyScorer)
    assert report.ok, report.statement

``run_checks`` tries every promise of a kind of part; ``attack_sensitivity`` and ``attack_mechanism`` attack
one statistic or one mechanism that is not a part yet, ``find_suspects`` and ``audit_composition`` a whole
plan. Nothing here needs pytest but
``dpkit_check.pytest``.
"""

from dpkit_check.attacks.budget import trace_difference
from dpkit_check.audit import Audit, attack_mechanism, audit, clopper_pearson
from dpkit_check.cases.parts import kind_of
from dpkit_check.climb import SensitivityAttack, attack_sensitivity
from dpkit_check.compositions import CompositionAudit, Suspects, audit_composition, find_suspects
from dpkit_check.kit import Report, Result, checks_for, run_checks, trial_for
from dpkit_check.laws import enumerate_law, hockey_stick, max_log_ratio, same_law
from dpkit_check.reference import (
    Protected,
    RecordingMeter,
    ReferenceAccountant,
    ReferenceRegressor,
    ReferenceScorer,
    ReferenceSelector,
    gaussian_delta,
)
from dpkit_check.trial import Check, CheckFailed, Evidence, NotApplicable, Trial
from dpkit_check.worlds import Pair, Population, box, schemas
from dpkit_core.pipeline.meter import StageMeter as StageMeter

__all__ = [
    "Audit",
    "Check",
    "CheckFailed",
    "CompositionAudit",
    "Evidence",
    "NotApplicable",
    "Pair",
    "Population",
    "Protected",
    "RecordingMeter",
    "ReferenceAccountant",
    "ReferenceRegressor",
    "ReferenceScorer",
    "ReferenceSelector",
    "Report",
    "Result",
    "SensitivityAttack",
    "StageMeter",
    "Suspects",
    "Trial",
    "attack_mechanism",
    "attack_sensitivity",
    "audit",
    "audit_composition",
    "box",
    "checks_for",
    "clopper_pearson",
    "enumerate_law",
    "find_suspects",
    "gaussian_delta",
    "hockey_stick",
    "kind_of",
    "max_log_ratio",
    "run_checks",
    "same_law",
    "schemas",
    "trace_difference",
    "trial_for",
]
