"""The conformance kit: which checks a kind of part has, how they are run, and what a run proves."""

from __future__ import annotations

import contextlib
import os
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Literal

import attrs
import numpy as np

from dpkit_check.attacks import (
    amounts,
    answers,
    bits,
    branches,
    budget,
    claims,
    coins,
    digits,
    doors,
    draws,
    elsewhere,
    forms,
    laws,
    memory,
    outcomes,
    parties,
    persons,
    samples,
    sensitivity,
    shapes,
    sums,
    totals,
)
from dpkit_check.cases.every import again
from dpkit_check.cases.parts import class_of, kind_of
from dpkit_check.cases.plans import UNCLAIMED
from dpkit_check.options import options_of
from dpkit_check.reading import Reach, watched
from dpkit_check.trial import (
    GROUPS,
    AnyPart,
    Check,
    CheckFailed,
    CheckFunction,
    Evidence,
    Factory,
    NotApplicable,
    Trial,
)
from dpkit_core.plugins.kinds import PARTS
from dpkit_core.text import number_of

KINDS = tuple(PARTS)

FALSE_ALARM = 1e-3
"""Probability that a run fails a faultless part: shared evenly by its statistical checks (Bonferroni)."""

WORKERS = 1e-5
"""What of it is left to the check of forked workers, whose noise is the system's and follows from no seed."""

THOROUGH = 10
"""How many times the pairs, evaluations and samples of a default run a thorough run has."""

LIMITS = (
    "Passing does not prove privacy. These checks cannot find pure guarantees of several joint picks that "
    "fail only in far tails (below about 10 / runs), errors of a few percent in epsilon or delta, neighbors "
    "unlike any structured table, budget spent on tuning before the release, or public facts that are not "
    "public."
)

PROTOCOL = "check_protocol"
"""What a part has to pass before anything is asked of it that its protocol promises."""

NOT_RUN = "not run: protocol first"
"""Why the checks were skipped that need what a part lacks."""

Status = Literal["passed", "failed", "xfail", "skipped"]
Verdict = Literal["passed", "not private", "not as we ask", "not judged"]
Progress = Callable[[Check, int, int], None]
"""Called before each check with the checks done and the checks in all."""


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
        What to do about a failure; empty if there is none.
    seconds
        Time taken.
    samples
        Pairs, laws or runs examined.
    confidence
        1 - probability of a false alarm.
    scene
        Of a failure: its tables, options and seeds, for a witness; None where only the check finds it.
    level
        Sum of the levels of its tests: with which probability it might have failed a faultless part.
    """

    check: str
    group: str
    status: Status
    detail: str
    remedy: str
    seconds: float
    samples: int
    confidence: float
    scene: Mapping[str, Any] | None = None
    level: float = 0.0


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
    options
        With which the part was made, others than its defaults.
    reach
        How much of the part's code the attacks reached.
    """

    part: str
    kind: str
    results: tuple[Result, ...]
    thorough: bool
    seed: int
    options: Mapping[str, Any] = attrs.field(factory=dict)
    reach: Reach = attrs.field(default=Reach())

    @property
    def ok(self) -> bool:
        """Whether nothing failed."""
        return all(result.status != "failed" for result in self.results)

    @property
    def judged(self) -> bool:
        """Whether anything was compared or sampled, or the part claims no privacy."""
        attacks = [r for r in self.results if r.group == "privacy" and r.check not in _BESIDE_THE_CLAIM]
        skipped = [r for r in attacks if r.status == "skipped"]
        return len(skipped) < len(attacks) or not attacks or any(_unclaimed(r) for r in skipped)

    @property
    def verdict(self) -> Verdict:
        """``not private``, ``not as we ask``, ``not judged``, or ``passed``."""
        failed = [result for result in self.results if result.status == "failed"]
        if failed:
            return "not private" if any(map(refutes, failed)) else "not as we ask"
        return "passed" if self.judged else "not judged"

    @property
    def causes(self) -> tuple[tuple[Result, tuple[Result, ...]], ...]:
        """What failed, one result for each cause, with those that follow from it, or may.

        Whatever refutes the claim is one cause, shown where there are tables to look at; so is an exception
        that is raised in one place, shown where one of two neighbors raises it.
        """
        found: dict[str, list[Result]] = {}
        failed = [result for result in self.results if result.status == "failed"]
        raised = [r.detail.rpartition("\n")[2] for r in failed if r.detail.startswith("raised ")]
        for result in failed:
            place = next((error for error in raised if error in result.detail), "")
            claim = refutes(result) and result.group != "randomness"
            cause = place or ("the claim" if claim else result.check)
            found.setdefault(cause, []).append(result)
        told = (sorted(results, key=lambda result: result.scene is None) for results in found.values())
        return tuple((first, tuple(rest)) for first, *rest in told)

    @property
    def seconds(self) -> float:
        """Time taken by all checks."""
        return sum(result.seconds for result in self.results)

    @property
    def strict(self) -> bool:
        """Whether nothing failed, and no code of the part was left without an attack."""
        return self.ok and not (self.reach.unreached or self.reach.not_read)

    def count(self, status: Status) -> int:
        """Return how many checks ended so."""
        return sum(result.status == status for result in self.results)

    @property
    def forecast(self) -> float:
        """Seconds that the thorough run of the same part will take, roughly: static checks do no more."""
        again = sum(r.seconds for r in self.results if r.group != "static")
        return self.seconds - again + THOROUGH * again

    @property
    def statement(self) -> str:
        """What was tried, with which confidence, and what cannot be found this way."""
        effort = "thorough" if self.thorough else "default"
        options = ", ".join(f"{name} = {value!r}" for name, value in self.options.items())
        skipped = [result.detail for result in self.results if result.status == "skipped"]
        not_run = skipped.count(NOT_RUN)
        unread, (core, cores) = len(self.reach.not_read), self.reach.core
        unclaimed = sum(result.status == "skipped" and _unclaimed(result) for result in self.results)
        sentences = [
            f"{number_of(len(self.results), 'check')} of kind {self.kind} ({effort} effort, seed "
            f"{self.seed}): "
            f"{self.count('passed')} passed, {self.count('failed')} failed, {self.count('xfail')} failed as "
            f"expected, {len(skipped)} skipped, in {self.seconds:.1f} s.",
            *([f"Attacked with {options}, and not with the defaults alone."] * bool(options)),
            *([f"{not_run} of the skipped need the members that check_protocol lists."] * bool(not_run)),
            *([f"{unclaimed} of the skipped had no private plan to attack."] * bool(unclaimed)),
            f"{number_of(len(self.reach.unreached), 'place')} of the code not attacked: "
            f"{self.reach.blocks[0]} of {self.reach.blocks[1]} blocks and {self.reach.sides[0]} of "
            f"{self.reach.sides[1]} sides of conditions were reached"
            f"{f', and {core} of {cores} blocks of the mechanisms that it calls' if cores else ''}.",
            *([f"{number_of(unread, 'function')} could not be read."] * bool(unread)),
            *(["Not judged: nothing that it releases was compared or sampled."] * (not self.judged)),
            f"A correct part fails such a run with probability at most {FALSE_ALARM:g}.",
            LIMITS,
        ]
        return " ".join(sentences)

    def to_document(self) -> dict[str, Any]:
        """Return the report as plain data that ``json`` can write."""
        return {
            "part": self.part,
            "kind": self.kind,
            "ok": self.ok,
            "verdict": self.verdict,
            "thorough": self.thorough,
            "seed": self.seed,
            "options": {name: _plain(value) for name, value in self.options.items()},
            "seconds": self.seconds,
            "checks": len(self.results),
            "statement": self.statement,
            "results": [attrs.asdict(result, filter=_told) for result in self.results],
            "reach": attrs.asdict(self.reach),
        }


_ATTACKS = (
    claims,
    elsewhere,
    shapes,
    sums,
    forms,
    totals,
    coins,
    sensitivity,
    laws,
    draws,
    doors,
    amounts,
    answers,
    samples,
    outcomes,
    parties,
    persons,
    digits,
    bits,
    budget,
    memory,
    branches,
)


def _found() -> tuple[Check, ...]:
    """Return every check of the modules of attacks: by group, then as they are defined."""
    checks = (
        thing
        for module in _ATTACKS
        for thing in vars(module).values()
        if isinstance(thing, Check) and thing.run.__module__ == module.__name__
    )
    return tuple(sorted(checks, key=lambda check: GROUPS.index(check.group)))


_CHECKS: Mapping[str, tuple[Check, ...]] = {
    kind: tuple(check for check in _found() if kind in check.kinds) for kind in KINDS
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
    statistical = sum(check.statistical for check in checks_for(kind))
    return Trial(seed, THOROUGH if thorough else 1, (FALSE_ALARM - WORKERS) / max(statistical, 1))


def run_checks(
    make: Factory[AnyPart],
    kind: str | None = None,
    *,
    expected_failures: Mapping[str, str] | None = None,
    thorough: bool = False,
    seed: int = 0,
    progress: Progress | None = None,
    only: Sequence[str] = (),
    scenes: Mapping[str, Mapping[str, Any]] | None = None,
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
    only
        Names of the checks to make, all by default: what one of them finds by a seed, it finds again by it.
    scenes
        Check -> what it failed on before, to be looked at again instead of the check.

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
    if unknown := set(only) - {check.name for check in checks}:
        raise ValueError(f"no check of kind {kind} is called {min(unknown)!r}")
    checks = tuple(check for check in checks if not only or check.name in only)
    cls = class_of(make)
    results: list[Result] = []
    with contextlib.ExitStack() as stack:
        asks = any(check is memory.check_nothing_is_remembered for check in checks)
        fresh = stack.enter_context(memory.fresh_processes(make)) if asks else None
        watch = stack.enter_context(watched(cls))
        trial = attrs.evolve(trial_for(kind, thorough=thorough, seed=seed), watch=watch, fresh=fresh)
        for number, check in enumerate(checks):
            if progress is not None:
                progress(check, number, len(checks))
            run = check.run
            if scenes and check.name in scenes:
                run = partial(_again, scenes[check.name])
            if needs_protocol(check) and results and _lacks_members(results[0]):
                run = _not_run
            results.append(_run(check, run, make, trial, expected.get(check.name)))
    # Fewer results than checks would be a report on something else than was promised.
    assert len(results) == len(checks)
    name = f"{cls.__module__}:{cls.__qualname__}"
    return Report(name, kind, tuple(results), thorough, seed, options_of(make), watch.reach())


#: What an accountant whose totals are true may still break: rules of the house.
_HOUSE = (
    "check_supports_tells_the_truth",
    "check_dry_runs_change_nothing",
)

#: Attacks on what a part does besides its release: they judge no claim.
_BESIDE_THE_CLAIM = ("check_nothing_leaves_beside_the_release", "check_nothing_is_remembered")


def refutes(result: Result) -> bool:
    """Return whether a failure is one of privacy: of a claim, and not of a rule of the house."""
    house = result.group in {"static", "numerical"} or result.check in _HOUSE
    return not house and not result.detail.startswith("raised ")


def _unclaimed(result: Result) -> bool:
    return result.detail.startswith(UNCLAIMED)


def needs_protocol(check: Check) -> bool:
    """Return whether a check asks a part for what its protocol promises, rather than look at its class."""
    return check.group != "static"


def _lacks_members(first: Result) -> bool:
    return first.check == PROTOCOL and first.status == "failed"


def _not_run(make: Factory[AnyPart], trial: Trial) -> Evidence:
    raise NotApplicable(NOT_RUN)


def _told(field: attrs.Attribute[Any], value: Any) -> bool:
    return field.name != "scene"  # a table of a thousand records belongs into a witness


def _plain(value: Any) -> Any:
    return value if isinstance(value, str | int | float | None) else repr(value)


def _require_reasons(expected: Mapping[str, str], checks: Sequence[Check]) -> None:
    names = [check.name for check in checks]
    for name, reason in expected.items():
        if name not in names:
            raise ValueError(f"no check is called {name!r}; the checks are {', '.join(names)}")
        if not reason.strip():
            raise ValueError(f"{name} is expected to fail but no reason is given; give one in a sentence")


def _again(scene: Mapping[str, Any], make: Factory[AnyPart], trial: Trial) -> Evidence:
    return again(make, scene)


def _run(
    check: Check, run: CheckFunction, make: Factory[AnyPart], trial: Trial, expected: str | None
) -> Result:
    start = time.perf_counter()
    trial = attrs.evolve(trial, spent=[])
    status, evidence = _outcome(check, run, make, trial)
    level = sum(trial.spent)
    # Uncounted tests would break the bound on false alarms.
    assert level <= (trial.error if check.statistical else 0.0) * (1 + 1e-9), (check.name, trial.spent)
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
        evidence.scene,
        level,
    )


def _outcome(
    check: Check, run: CheckFunction, make: Factory[AnyPart], trial: Trial
) -> tuple[Status, Evidence]:
    try:
        # Overflow inside a part is the part's affair, as is what it prints: what it returns is judged.
        with np.errstate(all="ignore"), open(os.devnull, "w") as sink, contextlib.redirect_stdout(sink):
            return "passed", run(make, trial)
    except NotApplicable as reason:
        return "skipped", Evidence(str(reason))
    except CheckFailed as failure:
        return "failed", Evidence(str(failure), failure.samples, failure.confidence, failure.scene)
    except Exception as error:
        where = "".join(traceback.format_exception(error)[-3:]).rstrip()
        return "failed", Evidence(f"raised {type(error).__name__}: {error}\n{where}")
