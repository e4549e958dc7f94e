"""The conformance kit: which checks a kind of part has, how they are run, and what a run proves."""

from __future__ import annotations

import functools
import inspect
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import attrs
import numpy as np

from dpkit_core.testing.checks import accountants, parts, regressors, releases, scorers, selectors
from dpkit_core.testing.checks.parts import PROTOCOLS, class_of, kind_of
from dpkit_core.testing.drive import UNCLAIMED
from dpkit_core.testing.trial import CheckFailed, Evidence, Factory, NotApplicable, Trial

KINDS = tuple(PROTOCOLS)

FALSE_ALARM = 1e-3
"""Probability that a run fails a faultless part: shared evenly by its statistical checks (Bonferroni)."""

THOROUGH = 10
"""How many times the pairs, evaluations and samples of a default run a thorough run has."""

LIMITS = (
    "Passing proves no privacy. Not found this way: pure guarantees that fail only in far tails (below about "
    "10 / runs), errors of a few percent in epsilon or delta, neighbors that no structured table comes near, "
    "budget spent on tuning before the release, and public facts that are not public."
)

Group = Literal["static", "numerical", "randomness", "privacy", "composition"]
Status = Literal["passed", "failed", "xfail", "skipped"]
CheckFunction = Callable[[Factory, Trial], Evidence]
Progress = Callable[["Check", int, int], None]
"""Called before each check with the checks done and the checks in all."""


@attrs.frozen
class Check:
    """One named property of a kind of part.

    Attributes
    ----------
    name
        ``check_<property>``.
    group
        What it is about.
    run
        The plain function: takes a factory and a ``Trial``.
    statistical
        Whether it may fail a faultless part, with a probability that the trial limits.
    thorough_only
        Whether the default run leaves it out.
    """

    name: str
    group: Group
    run: CheckFunction
    statistical: bool = False
    thorough_only: bool = False

    @property
    def summary(self) -> str:
        """The first sentence of its documentation."""
        return _paragraphs(self.run)[0]

    @property
    def remedy(self) -> str:
        """What to do if it fails."""
        return _paragraphs(self.run)[-1].removeprefix("If this fails: ")


@attrs.frozen
class Result:
    """How one check ended.

    Attributes
    ----------
    check
        Its name.
    group
        Its group.
    status
        ``passed``, ``failed``, ``xfail`` (failed as expected) or ``skipped``.
    detail
        The strongest finding, the witness of the failure, or the reason for skipping.
    remedy
        What to do about a failure; empty otherwise.
    seconds
        Time taken.
    samples
        Pairs, laws or runs examined.
    confidence
        1 - probability of a false alarm.
    """

    check: str
    group: str
    status: Status
    detail: str
    remedy: str
    seconds: float
    samples: int
    confidence: float


@attrs.frozen
class Report:
    """What was tried on a part, and what came out.

    Attributes
    ----------
    part
        Qualified name of its class.
    kind
        scorer, selector, accountant or regressor.
    results
        One for each check that the kind has, in order.
    thorough
        Whether the thorough effort was made.
    seed
        Seed of everything drawn.
    """

    part: str
    kind: str
    results: tuple[Result, ...]
    thorough: bool
    seed: int

    @property
    def ok(self) -> bool:
        """Whether nothing failed."""
        return all(result.status != "failed" for result in self.results)

    @property
    def seconds(self) -> float:
        """Time taken by all checks."""
        return sum(result.seconds for result in self.results)

    def count(self, status: Status) -> int:
        """Return how many checks ended so."""
        return sum(result.status == status for result in self.results)

    @property
    def forecast(self) -> float:
        """Seconds that the thorough run of the same part will take, roughly: static checks do no more."""
        again = sum(r.seconds for r in self.results if r.group != "static")
        once = self.seconds - again
        # A check that only the thorough run makes costs about as much as the others do on average.
        left = sum(check.thorough_only for check in checks_for(self.kind))
        return once + THOROUGH * again * len(self.results) / (len(self.results) - left)

    @property
    def statement(self) -> str:
        """What was tried, with which confidence, and what cannot be found this way."""
        effort = "thorough" if self.thorough else "default"
        return (
            f"{len(self.results)} checks of kind {self.kind} ({effort} effort, seed {self.seed}): "
            f"{self.count('passed')} passed, {self.count('failed')} failed, {self.count('xfail')} failed as "
            f"expected, {self.count('skipped')} skipped, in {self.seconds:.1f} s. {self._unclaimed}"
            f"A faultless part fails such a run with probability at most {FALSE_ALARM:g}. {LIMITS}"
        )

    @property
    def _unclaimed(self) -> str:
        spared = sum(r.status == "skipped" and r.detail.startswith(UNCLAIMED) for r in self.results)
        if not spared:
            return ""
        return f"{spared} of the skipped attacked nothing, as every plan they asked for claims no privacy. "

    def to_document(self) -> dict[str, Any]:
        """Return the report as plain data that ``json`` can write."""
        return {
            "part": self.part,
            "kind": self.kind,
            "ok": self.ok,
            "thorough": self.thorough,
            "seed": self.seed,
            "seconds": self.seconds,
            "checks": len(self.results),
            "statement": self.statement,
            "results": [attrs.asdict(result) for result in self.results],
        }


_PARTS = (
    Check("check_protocol", "static", parts.check_protocol),
    Check("check_options_are_frozen_data", "static", parts.check_options_are_frozen_data),
    Check("check_documented", "static", parts.check_documented),
    Check("check_import_is_cheap", "static", parts.check_import_is_cheap),
)


def _named(
    module: Any, group: Group, *names: str, statistical: bool = False, thorough_only: bool = False
) -> tuple[Check, ...]:
    return tuple(
        Check(f"check_{name}", group, getattr(module, f"check_{name}"), statistical, thorough_only)
        for name in names
    )


_CHECKS: Mapping[str, tuple[Check, ...]] = {
    "scorer": (
        *_PARTS,
        *_named(
            scorers,
            "numerical",
            "scores_are_finite_vectors",
            "scores_follow_the_features",
            "input_is_unchanged",
            "memory_layout_is_irrelevant",
            "forms_agree",
        ),
        *_named(scorers, "randomness", "scores_are_deterministic"),
        *_named(scorers, "privacy", "sensitivity_add_remove", "sensitivity_replace_one"),
        *_named(scorers, "privacy", "sensitivity_in_larger_tables", thorough_only=True),
        *_named(scorers, "randomness", "forked_workers_differ"),
        *_named(scorers, "composition", "release_keeps_its_plan"),
        *_named(releases, "composition", "releases_keep_their_plan"),
    ),
    "selector": (
        *_PARTS,
        *_named(selectors, "numerical", "only_candidates_are_picked"),
        *_named(selectors, "numerical", "ties_are_broken_evenly", statistical=True),
        *_named(selectors, "randomness", "randomness_is_the_meters"),
        *_named(selectors, "randomness", "forked_workers_differ"),
        *_named(
            selectors, "privacy", "selection_hides_the_scores", "no_budget_tells_nothing", statistical=True
        ),
        *_named(selectors, "privacy", "many_picks_hide_the_scores", statistical=True, thorough_only=True),
        *_named(selectors, "composition", "plans_keep_the_budget", "events_are_those_planned"),
        *_named(releases, "composition", "releases_keep_their_plan"),
    ),
    "accountant": (
        *_PARTS,
        *_named(accountants, "numerical", "totals_are_monotone", "epsilon_and_delta_agree"),
        *_named(accountants, "privacy", "never_below_the_exact_law"),
        *_named(
            accountants,
            "composition",
            "supports_tells_the_truth",
            "other_relations_are_refused",
            "order_is_irrelevant",
            "repetition_is_a_loop",
            "dry_runs_change_nothing",
        ),
        *_named(releases, "composition", "releases_keep_their_plan"),
    ),
    "regressor": (
        *_PARTS,
        *_named(
            regressors,
            "numerical",
            "models_have_one_shape",
            "extreme_tables_are_fitted",
            "input_is_unchanged",
        ),
        *_named(regressors, "randomness", "randomness_is_the_meters"),
        *_named(regressors, "randomness", "forked_workers_differ"),
        *_named(regressors, "privacy", "noise_is_the_same_for_neighbors"),
        *_named(
            regressors,
            "privacy",
            "neighbors_cannot_be_told_apart",
            "no_budget_tells_nothing",
            statistical=True,
        ),
        *_named(regressors, "composition", "plans_keep_the_budget"),
        *_named(releases, "composition", "releases_keep_their_plan"),
    ),
}


def checks_for(kind: str) -> tuple[Check, ...]:
    """Return every check that a kind of part has, in the order in which they run.

    >>> [check.group for check in checks_for("scorer")][:2]
    ['static', 'static']
    """
    if kind not in _CHECKS:
        raise ValueError(f"there is no kind of part called {kind!r}; the kinds are {', '.join(_CHECKS)}")
    return _CHECKS[kind]


def trial_for(kind: str, *, thorough: bool = False, seed: int = 0) -> Trial:
    """Return how hard each check of ``kind`` tries, and which share of the false alarms it may have."""
    if seed < 0:
        raise ValueError(f"seed is {seed}; it must be a whole number of at least 0")
    tried = [check for check in checks_for(kind) if thorough or not check.thorough_only]
    statistical = sum(check.statistical for check in tried)
    return Trial(seed, THOROUGH if thorough else 1, FALSE_ALARM / max(statistical, 1))


def run_checks(
    make: Factory,
    kind: str | None = None,
    *,
    expected_failures: Mapping[str, str] | None = None,
    thorough: bool = False,
    seed: int = 0,
    progress: Progress | None = None,
) -> Report:
    """Return how a part fares in every check of its kind.

    Parameters
    ----------
    make
        The part's class, or a function that makes it. Accountants are made with ``neighboring=``.
    kind
        What it claims to be; told from its methods by default.
    expected_failures
        Check -> reason why the part fails it and is published all the same. A check that passes though it was
        expected to fail counts as a failure.
    thorough
        Whether to try ten times as hard, on larger tables too, which takes more than ten times as long.
    seed
        Seed of everything drawn: the same seed gives the same report.
    progress
        Called before each check.

    Raises
    ------
    ValueError
        If an expected failure has no reason, or names a check that the kind does not have; if the seed is
        negative.
    """
    kind = kind or kind_of(make)
    checks = checks_for(kind)
    expected = dict(expected_failures or {})
    _require_reasons(expected, checks)
    trial = trial_for(kind, thorough=thorough, seed=seed)
    results = []
    for number, check in enumerate(checks):
        if progress is not None:
            progress(check, number, len(checks))
        results.append(_run(check, make, trial, expected.get(check.name)))
    # Fewer results than checks would be a report on something else than was promised.
    assert len(results) == len(checks)
    cls = class_of(make)
    return Report(f"{cls.__module__}:{cls.__qualname__}", kind, tuple(results), thorough, seed)


def _require_reasons(expected: Mapping[str, str], checks: Sequence[Check]) -> None:
    names = [check.name for check in checks]
    for name, reason in expected.items():
        if name not in names:
            raise ValueError(f"no check is called {name!r}; the checks are {', '.join(names)}")
        if not reason.strip():
            raise ValueError(f"{name} is expected to fail but no reason is given; say why in a sentence")


def _run(check: Check, make: Factory, trial: Trial, expected: str | None) -> Result:
    start = time.perf_counter()
    status, evidence = _outcome(check, make, trial)
    detail = evidence.detail
    if expected is not None and status == "failed":
        status, detail = "xfail", f"expected: {expected}"
    elif expected is not None and status == "passed":
        status, detail = "failed", f"passed, though it was expected to fail: {expected}"
    return Result(
        check.name,
        check.group,
        status,
        detail,
        check.remedy if status == "failed" else "",
        time.perf_counter() - start,
        evidence.samples,
        evidence.confidence,
    )


def _outcome(check: Check, make: Factory, trial: Trial) -> tuple[Status, Evidence]:
    if check.thorough_only and trial.effort == 1:
        return "skipped", Evidence("left to the thorough run")
    try:
        # Overflow inside a part is the part's affair: what it returns is judged.
        with np.errstate(all="ignore"):
            return "passed", check.run(make, trial)
    except NotApplicable as reason:
        return "skipped", Evidence(str(reason))
    except CheckFailed as failure:
        return "failed", Evidence(str(failure), failure.samples, failure.confidence)
    except Exception as error:
        where = "".join(traceback.format_exception(error)[-3:]).strip()
        return "failed", Evidence(f"raised {type(error).__name__}: {error}\n{where}")


@functools.cache
def _paragraphs(function: CheckFunction) -> tuple[str, ...]:
    text = inspect.getdoc(function) or ""
    return tuple(" ".join(paragraph.split()) for paragraph in text.split("\n\n"))
