"""Plans as files: what was agreed on, before anything is spent.

    write_plan(plan, Path("plan.toml"))       parts with versions and options, public facts, budget, events
    plan = read_plan(Path("plan.toml"))       the same plan, made again by the parts that are installed now

A plan file can be reviewed, committed and run later or elsewhere. It is no recording: the plan is made again
from the parts, so a file that was edited, or parts of another version, can never run events that their own
planning does not stand for. If the events come out differently, the file is refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import attrs

from dpkit_core._version import __version__
from dpkit_core.data.schema import Schema
from dpkit_core.errors import InvalidRelease
from dpkit_core.files.documents import Fields, read_toml, require_version, to_toml
from dpkit_core.files.writing import write_whole
from dpkit_core.pipeline.compose import compose
from dpkit_core.pipeline.forecasts import StageForecast
from dpkit_core.pipeline.observers import warn
from dpkit_core.pipeline.parts import Component, Part
from dpkit_core.pipeline.plan import Plan
from dpkit_core.pipeline.policy import Policy
from dpkit_core.plugins.kinds import PARTS
from dpkit_core.privacy.budget import Budget
from dpkit_core.privacy.events import UNPRICED, event_from_json, event_to_json, priced
from dpkit_core.release.verify import RELATIVE_TOLERANCE
from dpkit_core.text import number_of
from dpkit_core.validators import thawed

FORMAT = "dpkit-plan"
FORMAT_VERSION = 1


def forecast_document(found: StageForecast) -> dict[str, Any]:
    """Return a forecast of a plan as plain data."""
    return {"stage": found.stage, "part": found.part, **attrs.asdict(found.forecast)}


def plan_document(plan: Plan) -> dict[str, Any]:
    """Return the plan as plain data, the shape of its TOML file.

    Raises
    ------
    InvalidRelease
        If a part is not an installed one, so that no name would find it again.
    """
    return {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "dpkit": __version__,
        "k": plan.k,
        "select_share": plan.select_share,
        **({} if plan.batches == 1 else {"batches": plan.batches}),
        "budget": attrs.asdict(plan.budget),
        "parts": {part.role: _part_document(part) for part in plan.parts},
        "schema": plan.schema.to_document(),
        "events": [{"stage": item.stage, **event_to_json(item.event)} for item in plan.events],
    }


def _part_document(part: Part[Component]) -> dict[str, Any]:
    if not part.distribution:
        raise InvalidRelease(
            f"{part} is not an installed component, so a plan file could not name it; install it with an "
            "entry point, or keep the plan in Python"
        )
    record = part.record
    for name, value in record.options.items():
        if value is None:
            raise InvalidRelease(f"{part} has {name} = None, which TOML cannot hold; keep the plan in Python")
    return {"component": record.qualified, "version": part.version, "options": thawed(record.options)}


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
    fields = Fields(document, f"plan {path}", InvalidRelease)
    fields.value("format")
    require_version(fields.what, fields.whole("format_version"), FORMAT_VERSION, InvalidRelease)
    written = {"dpkit": fields.text("dpkit")}
    saved = [_event(event, fields.what) for event in fields.mappings("events")]
    plan, versions = _replan(fields)
    fields.close()
    installed = {"dpkit": __version__, **{part.role: part.version for part in plan.parts}}
    names = {"dpkit": "dpkit", **{part.role: str(part) for part in plan.parts}}
    changed = [
        f"{names[key]} {version}, now {installed[key]}"
        for key, version in {**versions, **written}.items()
        if version != installed[key]
    ]
    if (difference := other_events(saved, plan)) is not None:
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


def _event(document: Mapping[str, Any], what: str) -> dict[str, Any]:
    fields = Fields(document, f"{what}, an event", InvalidRelease)
    return {**document, "stage": fields.text("stage")}


def _replan(fields: Fields) -> tuple[Plan, dict[str, str]]:
    """Return the plan that is made now, and role -> version of the part that it was made by."""
    names: dict[str, Any] = {}
    options, versions = {}, {}
    for role in (parts := fields.fields("parts")).names():
        part = parts.fields(role)
        if role not in PARTS:
            raise InvalidRelease(f"{parts.what}: no part is called {role!r}; parts are {', '.join(PARTS)}")
        names[role], versions[role] = part.text("component"), part.text("version")
        options[role] = part.mapping("options", {})
        part.close()
    limits = fields.fields("budget")
    budget = Budget(limits.number("epsilon"), limits.number("delta"))
    limits.close()
    Policy.of_site().require_budget(budget)  # before a part is loaded
    plan = compose(**names, options=options).plan(
        Schema.from_document(fields.mapping("schema")),
        budget,
        k=fields.whole("k"),
        select_share=fields.number("select_share"),
        batches=fields.whole("batches", 1),
    )
    if plan.accountant.role not in names:
        raise InvalidRelease(f"{parts.what}: accountant is missing; it must be a mapping")
    return plan, versions


def other_events(saved: list[dict[str, Any]], plan: Plan) -> str | None:
    """Return how events that were written, as plain data with their stages, are not those of a plan."""
    now = [{"stage": item.stage, **event_to_json(item.event)} for item in plan.events]
    if _agree(saved, now):
        return None
    if not _says_facts(saved):  # of 0.1.0, whose events say what they cost and no more
        saved, now = ([_priced(event) for event in events] for events in (saved, now))
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
    return isinstance(document, list) and any(map(_says_facts, document))


def _priced(event: Mapping[str, Any]) -> dict[str, Any]:
    fields = dict(event)
    return {"stage": fields.pop("stage"), **event_to_json(priced(event_from_json(fields)))}


def _brief(event: Mapping[str, Any]) -> str:
    facts = ", ".join(f"{key} = {value}" for key, value in event.items() if key not in {"type", "stage"})
    return f"{event.get('type')} of the {event.get('stage')} ({facts})"


def _agree(a: object, b: object) -> bool:
    """Return whether plain data agree, numbers up to what another machine's exp and log may change."""
    if isinstance(a, float) and isinstance(b, float):
        return math.isclose(a, b, rel_tol=RELATIVE_TOLERANCE)
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return a.keys() == b.keys() and all(_agree(a[key], b[key]) for key in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(_agree, a, b))
    return bool(a == b)
