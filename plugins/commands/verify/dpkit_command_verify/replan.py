"""Plans made again from a release, to be compared with it.

``dpkit_core.release.verify`` checks that a total is what the events compose to. Only the parts can tell
whether these are their events: they plan from public facts alone, and a release contains all of these. So a
deleted event is detected even if the total was corrected.
"""

from __future__ import annotations

import importlib.metadata
from typing import ClassVar, Protocol, runtime_checkable

import attrs
from dpkit_cli.planfile import composed, other_events, written_events

from dpkit_core import __version__
from dpkit_core.errors import InvalidRelease
from dpkit_core.files.documents import as_document
from dpkit_core.pipeline.plan import Plan
from dpkit_core.pipeline.planner import evaluation_again
from dpkit_core.plugins.kinds import PARTS
from dpkit_core.release.certificate import Certificate
from dpkit_core.release.release import Release
from dpkit_core.validators import thawed


@attrs.frozen
class Replanned:
    """The result of planning again, one sentence each.

    Attributes
    ----------
    problems
        What the parts would not have planned; empty if they plan exactly these events.
    notes
        Differences that change no event: versions, and how parts describe themselves.
    """

    problems: tuple[str, ...]
    notes: tuple[str, ...]


def replan(release: Release, *, select_share: float | None = None) -> Replanned:
    """Return how the plan of the installed parts differs from a release; touches no data.

    Parameters
    ----------
    release
        Of a run of installed parts.
    select_share
        The selection's fraction of the budget, for older releases that do not record it.

    Raises
    ------
    InvalidRelease
        If it is of a search, which has no plan, or of a part that was not an installed one.
    DpkitError
        Whatever planning raises, such as for a part that is not installed or a budget above the site's.
    """
    certificate = release.certificate
    plan = _plan_of(release, select_share)
    problems = []
    if (difference := other_events(written_events(certificate), plan)) is not None:
        problems.append(f"the certificate is not what the installed parts plan: {difference}")
        if _may_lack_its_share(certificate) and select_share is None:
            problems[0] += (
                ". If an older dpkit wrote it, the selection may have had another share of the budget: "
                "give that with --select-share"
            )
    held_out = None if plan.evaluation is None else plan.evaluation.rule
    if held_out != certificate.plan.evaluate:
        problems.append("records are held out under another key than the names of target and unit give")
    iterates = None if plan.iterates is None else len(plan.iterates.after)
    if iterates != certificate.plan.iterates:
        problems.append(
            f"the parts plan {iterates or 'no'} iterates to drop features from, and the certificate says "
            f"{certificate.plan.iterates or 'none'}"
        )
    regression = plan.stage("regression")
    refusals = {} if regression is None else regression.plan.refusals
    if release.refusal_code is not None and release.refusal_code not in refusals:
        known = ", ".join(sorted(refusals)) or "none"
        problems.append(f"refusal {release.refusal_code!r} is not one of those that the parts plan: {known}")
    return Replanned(tuple(problems), tuple(_notes(release, plan)))


def _may_lack_its_share(certificate: Certificate) -> bool:
    """Return whether a selection had a share of the budget that is not recorded."""
    roles = {part.role for part in certificate.parts}
    return {"selector", "regressor"} <= roles and "select_share" not in as_document(certificate.plan)


@runtime_checkable
class PlansAgain(Protocol):
    """A released model whose plan is no composition of installed parts.

    ``planner`` names, as entry points do, a function that returns the plan of a certificate's public facts,
    budget and parts.
    """

    planner: ClassVar[str]


def _plan_of(release: Release, select_share: float | None) -> Plan:
    certificate = release.certificate
    parts = {part.role: part for part in certificate.parts}
    model: object = release.model
    if isinstance(model, PlansAgain):
        plan: Plan = importlib.metadata.EntryPoint("", model.planner, "").load()(certificate)
        if [part.role for part in certificate.parts] != [part.role for part in plan.parts]:
            raise InvalidRelease("the release does not list the parts of its plan")
        return plan
    if len(parts) < len(certificate.parts) or "accountant" not in parts or not parts.keys() <= PARTS.keys():
        raise InvalidRelease("the release does not list the parts of a plan, so it cannot be planned again")
    for part in parts.values():
        if not part.distribution:
            raise InvalidRelease(
                f"{part.role} {part.name} was not an installed part, so it cannot be found by name; "
                "whoever has the part can plan the release again in Python"
            )
    settings = certificate.plan
    if release.evaluation is not None and parts.keys() == {"accountant"}:
        by = parts["accountant"]
        return evaluation_again(certificate, release.evaluation, by.qualified, thawed(by.options))
    selecting = "selector" in parts and settings.iterates is None
    pipeline = composed({role: (part.qualified, part.options) for role, part in parts.items()})
    budget, spare = certificate.budget, settings.spare
    again = pipeline.plan(
        certificate.schema,
        budget if spare is None else attrs.evolve(budget, epsilon=spare.epsilon),
        k=len(release.selected) if selecting else None,
        select_share=settings.select_share if select_share is None else select_share,
        batches=settings.batches,
        evaluate=None if settings.evaluate is None else settings.evaluate.share,
        in_sample=settings.in_sample,
    )
    return again if spare is None else again.with_spare(spare.attempts, budget)


def _notes(release: Release, plan: Plan) -> list[str]:
    """Return the differences in wording: versions first, which may be the reason."""
    certificate = release.certificate
    notes = [
        f"the release was written by {old} and planned again by {new}"
        for old, new in _versions(certificate, plan)
    ]
    for was, now in zip(certificate.parts, plan.records, strict=True):
        said = [
            word for word in ("options", "proof", "reference") if getattr(was, word) != getattr(now, word)
        ]
        if said:
            notes.append(f"{now.role} {now.name} now describes itself with other {' and '.join(said)}")
    missing = [sentence for sentence in plan.assumptions if sentence not in certificate.assumptions]
    notes += [
        f"the parts also assume something that the certificate does not state: {sentence}"
        for sentence in missing
    ]
    regression = plan.stage("regression")
    refusals = {} if regression is None else regression.plan.refusals
    if refusals.get(release.refusal_code or "", release.refusal) != release.refusal:
        notes.append(f"the parts now word refusal {release.refusal_code!r} differently")
    return notes


def _versions(certificate: Certificate, plan: Plan) -> list[tuple[str, str]]:
    pairs = [(f"dpkit {certificate.dpkit}", f"dpkit {__version__}")]
    for was, now in zip(certificate.parts, plan.records, strict=True):
        pairs.append((f"{was.role} {was.name} {was.version}", f"{now.role} {now.name} {now.version}"))
        both = was.libraries.keys() & now.libraries.keys()
        pairs += [(f"{name} {was.libraries[name]}", f"{name} {now.libraries[name]}") for name in sorted(both)]
    return [(old, new) for old, new in dict.fromkeys(pairs) if old != new]
