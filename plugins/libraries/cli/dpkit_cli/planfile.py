"""Plans made again from a file, to be run.

    write_plan(plan, Path("plan.toml"))       parts with versions and options, public facts, budget, events
    plan = read_plan(Path("plan.toml"))       the same plan, made again by the parts that are installed now

A plan file can be reviewed, committed and run later or elsewhere. It is no recording: the plan is made again
from the parts, so a file that was edited, or parts of another version, can never run events that their own
planning does not stand for. If the events come out differently, the file is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from dpkit_core import __version__
from dpkit_core.data.engine import Engine
from dpkit_core.data.schema import Schema
from dpkit_core.errors import InvalidRelease
from dpkit_core.files.documents import (
    Fields,
    as_document,
    first_difference,
    from_document,
    read_toml,
    require_version,
    to_toml,
)
from dpkit_core.files.writing import write_whole
from dpkit_core.pipeline.compose import Pipeline, compose
from dpkit_core.pipeline.forecasts import StageForecast
from dpkit_core.pipeline.observers import warn
from dpkit_core.pipeline.parts import Component, Part, make_engine
from dpkit_core.pipeline.plan import Plan
from dpkit_core.pipeline.policy import Policy
from dpkit_core.plugins.kinds import PARTS
from dpkit_core.privacy.budget import Budget
from dpkit_core.privacy.events import UNPRICED, event_from_json, event_to_json, priced
from dpkit_core.release.certificate import Certificate
from dpkit_core.release.verify import RELATIVE_TOLERANCE
from dpkit_core.text import number_of
from dpkit_core.validators import thawed

FORMAT = "dpkit-plan"
FORMAT_VERSION = 1


def forecast_document(found: StageForecast) -> dict[str, Any]:
    """Return a forecast of a plan as plain data."""
    return {"stage": found.stage, "part": found.part, **attrs.asdict(found.forecast)}


@attrs.frozen
class _SavedPart:
    """What a plan file says of a part: which it is, and how it was made."""

    component: str
    version: str
    options: Mapping[str, Any] = attrs.field(factory=dict)

    @classmethod
    def of(cls, part: Part[Component | Engine]) -> _SavedPart:
        if not part.distribution:
            raise InvalidRelease(
                f"{part} is not an installed component, so a plan file could not name it; install it with an "
                "entry point, or keep the plan in Python"
            )
        record = part.record
        for name, value in record.options.items():
            if value is None:
                raise InvalidRelease(
                    f"{part} has {name} = None, which TOML cannot hold; keep the plan in Python"
                )
        return cls(record.qualified, part.version, record.options)


def _known(instance: object, attribute: attrs.Attribute[Any], parts: Mapping[str, _SavedPart]) -> None:
    for role in parts:
        if role not in PARTS:
            raise ValueError(f"no part is called {role!r}; parts are {', '.join(PARTS)}")
    if "accountant" not in parts:
        raise ValueError("parts: accountant is missing; it must be a mapping")


@attrs.frozen
class _SavedPlan:
    """The fields of a plan file besides its format; events as they are written."""

    dpkit: str
    k: int
    select_share: float
    batches: int = attrs.field(default=1, kw_only=True)
    evaluate: float | None = attrs.field(default=None, kw_only=True)
    in_sample: float | None = attrs.field(default=None, kw_only=True)
    budget: Budget
    parts: Mapping[str, _SavedPart] = attrs.field(validator=_known)
    engine: _SavedPart | None = attrs.field(default=None, kw_only=True)
    schema: Schema
    events: tuple[Mapping[str, Any], ...]

    @classmethod
    def of(cls, plan: Plan) -> _SavedPlan:
        parts = {part.role: _SavedPart.of(part) for part in plan.parts}
        return cls(
            __version__,
            plan.k,
            plan.select_share,
            plan.budget,
            parts,
            plan.schema,
            written_events(plan),
            batches=plan.batches,
            evaluate=None if plan.evaluation is None else plan.evaluation.share,
            in_sample=None if plan.evaluation is None else plan.evaluation.of_budget,
            engine=None if plan.engine is None else _SavedPart.of(plan.engine),
        )


def written_events(of: Plan | Certificate) -> tuple[Mapping[str, Any], ...]:
    """Return the events of a plan or a certificate as plain data, each with its stage."""
    return tuple({"stage": item.stage, **event_to_json(item.event)} for item in of.events)


def plan_document(plan: Plan) -> dict[str, Any]:
    """Return the plan as plain data, the shape of its TOML file.

    Raises
    ------
    InvalidRelease
        If a part is not an installed one, so that no name would find it again.
    """
    return {"format": FORMAT, "format_version": FORMAT_VERSION, **as_document(_SavedPlan.of(plan))}


def write_plan(plan: Plan, path: Path | str) -> None:
    """Write the plan as TOML: whole, or not at all."""
    write_whole(path, to_toml(plan_document(plan)))


def read_plan(path: Path | str, *, report: Callable[[str], None] = warn) -> Plan:
    """Return the plan in a TOML file, made again by the installed parts.

    Parameters
    ----------
    path
        The file.
    report
        Called with a sentence where the plan was made by other versions of dpkit or of its parts that plan
        the same events; a warning by default.

    Raises
    ------
    InvalidRelease
        If the file is no plan, or the parts now plan other events than it lists.
    DpkitError
        Whatever planning raises, such as for a part that is no longer installed.
    """
    document = read_toml(path, "plan", InvalidRelease)
    if document.get("format") != FORMAT:
        raise InvalidRelease(f"{path} is not a dpkit plan; give a file written by dpkit compose --save")
    return plan_from_document(document, f"plan {path}", report=report)


def plan_from_document(document: Mapping[str, Any], what: str, *, report: Callable[[str], None]) -> Plan:
    """Return the plan that ``plan_document`` wrote; ``what`` is its name, and the rest as ``read_plan``."""
    fields = Fields(document, what, InvalidRelease)
    fields.value("format")
    require_version(fields.what, fields.read("format_version", int), FORMAT_VERSION, InvalidRelease)
    saved = from_document(_SavedPlan, fields.rest(), fields.what, InvalidRelease)
    plan = _plan_in(saved)
    engines = []
    if saved.engine is not None and plan.engine is not None:
        engines = [(str(plan.engine), saved.engine.version, plan.engine.version)]
    changed = [
        f"{name} {before}, now {now}"
        for name, before, now in (
            *((str(part), saved.parts[part.role].version, part.version) for part in plan.parts),
            *engines,
            ("dpkit", saved.dpkit, __version__),
        )
        if before != now
    ]
    if (difference := other_events(saved.events, plan)) is not None:
        raise InvalidRelease(
            f"{fields.what} is not what the installed parts plan: {difference}. "
            + (f"Written with {'; '.join(changed)}. " if changed else "The file may have been edited. ")
            + "Install those versions, or plan again with dpkit compose --save"
        )
    if changed:
        report(
            f"{fields.what} was made by {'; '.join(changed)}. The same events are planned, and the "
            "certificate will name what ran; plan again with dpkit compose --save to review these versions"
        )
    return plan


def _plan_in(saved: _SavedPlan) -> Plan:
    """Return the plan that the installed parts make now."""
    Policy.of_site().require_budget(saved.budget)  # before a part is loaded
    parts = {role: (part.component, part.options) for role, part in saved.parts.items()}
    engine = saved.engine
    return composed(parts).plan(
        saved.schema,
        saved.budget,
        k=saved.k,
        select_share=saved.select_share,
        batches=saved.batches,
        evaluate=saved.evaluate,
        in_sample=saved.in_sample,
        engine=None if engine is None else make_engine(engine.component, thawed(engine.options)).instance,
    )


def composed(parts: Mapping[str, tuple[str, Mapping[str, Any]]]) -> Pipeline:
    """Return a pipeline of installed parts: of each role, a name and options."""
    names: dict[str, Any] = {role: name for role, (name, _) in parts.items()}
    return compose(**names, options={role: thawed(options) for role, (_, options) in parts.items()})


def other_events(saved: Sequence[Mapping[str, Any]], plan: Plan) -> str | None:
    """Return how events that were written, as plain data with their stages, are not those of a plan."""
    now: Sequence[Mapping[str, Any]] = written_events(plan)
    if _agree(saved, now):
        return None
    if not _says_facts(saved):  # of 0.1.0, whose events say what they cost and no more
        saved, now = [tuple(map(_priced, events)) for events in (saved, now)]
        if _agree(saved, now):
            return None
    first = next((i for i, pair in enumerate(zip(saved, now, strict=False)) if not _agree(*pair)), None)
    return (
        f"it lists {number_of(len(saved), 'event')}, and they plan {len(now)}"
        if first is None
        else f"event {first + 1} is {_brief(saved[first])} in the file, and they plan {_brief(now[first])}"
    )


def _says_facts(document: object) -> bool:
    """Return whether an event in plain data says anything on which its cost does not depend."""
    if isinstance(document, Mapping):
        return not UNPRICED.keys().isdisjoint(document) or any(map(_says_facts, document.values()))
    return isinstance(document, list | tuple) and any(map(_says_facts, document))


def _priced(event: Mapping[str, Any]) -> dict[str, Any]:
    fields = dict(event)
    return {"stage": fields.pop("stage", None), **event_to_json(priced(event_from_json(fields)))}


def _brief(event: Mapping[str, Any]) -> str:
    facts = ", ".join(f"{key} = {value}" for key, value in event.items() if key not in {"type", "stage"})
    return f"{event.get('type')} of the {event.get('stage')} ({facts})"


def _agree(one: object, other: object) -> bool:
    """Return whether plain data agree, numbers up to what another machine's exp and log may change."""
    return first_difference(one, other, tolerance=RELATIVE_TOLERANCE) is None
