"""Plans as files: what was agreed on, before anything is spent.

    write_plan(plan, Path("plan.toml"))       parts with versions and options, public facts, budget, events
    plan = read_plan(Path("plan.toml"))       the same plan, made again by the parts that are installed now

A plan file can be reviewed, committed and run later or elsewhere. It is no recording: the plan is made again
from the parts, so a file that was edited, or parts of another version, can never run events that their own
planning does not stand for. If the events come out differently, the file is refused.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs

import dpkit_core
from dpkit_core.composer import Part, Plan, compose
from dpkit_core.errors import InvalidRelease
from dpkit_core.events import event_to_json
from dpkit_core.privacy import Budget
from dpkit_core.release import RELATIVE_TOLERANCE
from dpkit_core.schema import Schema
from dpkit_core.toml import read_toml, to_toml

FORMAT = "dpkit-plan"
FORMAT_VERSION = 1


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
        "dpkit": dpkit_core.__version__,
        "k": plan.k,
        "select_share": plan.select_share,
        "budget": attrs.asdict(plan.budget),
        "parts": {part.role: _part_document(part) for part in plan.parts},
        "schema": plan.schema.to_document(),
        "events": [{"stage": item.stage, **event_to_json(item.event)} for item in plan.events],
    }


def _part_document(part: Part) -> dict[str, Any]:
    if not part.distribution:
        raise InvalidRelease(
            f"{part} is not an installed component, so a plan file could not name it; install it with an "
            "entry point, or keep the plan in Python"
        )
    for name, value in part.record.options.items():
        if value is None:
            raise InvalidRelease(f"{part} has {name} = None, which TOML cannot hold; keep the plan in Python")
    return {
        "component": part.record.qualified,
        "version": part.version,
        "options": dict(part.record.options),
    }


def write_plan(plan: Plan, path: Path) -> None:
    """Write the plan as TOML."""
    path.write_text(to_toml(plan_document(plan)), encoding="utf-8")


def read_plan(path: Path) -> Plan:
    """Return the plan in a TOML file, made again by the installed parts.

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
    if document.get("format_version") != FORMAT_VERSION:
        raise InvalidRelease(
            f"plan {path} has format version {document.get('format_version')}; this dpkit reads "
            f"{FORMAT_VERSION}. Upgrade dpkit"
        )
    try:
        plan = _replan(document)
        _require_same_events(path, document, plan)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InvalidRelease(f"cannot read plan {path}: {error!r} is missing or malformed") from error
    return plan


def _replan(document: Mapping[str, Any]) -> Plan:
    parts = document["parts"]
    pipeline = compose(
        **{role: part["component"] for role, part in parts.items()},
        options={role: part["options"] for role, part in parts.items()},
    )
    return pipeline.plan(
        Schema.from_document(document["schema"]),
        Budget(**document["budget"]),
        k=document["k"],
        select_share=document["select_share"],
    )


def _require_same_events(path: Path, document: Mapping[str, Any], plan: Plan) -> None:
    saved, now = document["events"], plan_document(plan)["events"]
    if _agree(saved, now):
        return
    changed = [
        f"{part.role} {part.name} {document['parts'][part.role]['version']}, now {part.version}"
        for part in plan.parts
        if document["parts"][part.role]["version"] != part.version
    ]
    first = next((i for i, pair in enumerate(zip(saved, now, strict=False)) if not _agree(*pair)), None)
    difference = (
        f"it lists {len(saved)} events, and they plan {len(now)}"
        if first is None
        else f"event {first + 1} is {_brief(saved[first])} in the file, and they plan {_brief(now[first])}"
    )
    raise InvalidRelease(
        f"plan {path} is not what the installed parts plan: {difference}. "
        + (f"Written with {'; '.join(changed)}. " if changed else "The file may have been edited. ")
        + "Install those versions, or plan again with dpkit compose --save"
    )


def _brief(event: Mapping[str, Any]) -> str:
    facts = ", ".join(f"{key} = {value}" for key, value in event.items() if key not in {"type", "stage"})
    return f"{event.get('type')} of the {event.get('stage')} ({facts})"


def _agree(a: Any, b: Any) -> bool:
    """Return whether plain data agree, numbers up to what another machine's exp and log may change."""
    if isinstance(a, float) and isinstance(b, float):
        return math.isclose(a, b, rel_tol=RELATIVE_TOLERANCE)
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return a.keys() == b.keys() and all(_agree(a[key], b[key]) for key in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(_agree, a, b))
    return bool(a == b)
