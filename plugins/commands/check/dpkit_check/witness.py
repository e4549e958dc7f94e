"""Failures as a file: with it and the part, anyone can see the same tables refute it, in seconds."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs

from dpkit_check.kit import Report
from dpkit_core.errors import InvalidRelease
from dpkit_core.files.documents import Fields, read_json

FORMAT = "dpkit-witness"


@attrs.frozen
class Witness:
    """The failed checks of one run on a part.

    Attributes
    ----------
    part
        As it was given to ``dpkit check``.
    kind
        scorer, selector, accountant or regressor.
    seed, thorough
        Of the run; a check draws the same again.
    checks
        Names of those that failed.
    options
        With which the part was made.
    scenes
        Check -> the tables or scores, options and seeds that it failed on; where it lacks some, the check is
        made again by its seed.
    """

    part: str
    kind: str
    seed: int
    thorough: bool
    checks: tuple[str, ...]
    options: Mapping[str, Any]
    scenes: Mapping[str, Mapping[str, Any]]


def witness_of(part: str, report: Report) -> str:
    """Return the file of a report in which something failed; with what was found, for people."""
    failed = [result for result in report.results if result.status == "failed"]
    document = {
        "format": FORMAT,
        "part": part,
        "kind": report.kind,
        "seed": report.seed,
        "thorough": report.thorough,
        "options": dict(report.options),
        "checks": [result.check for result in failed],
        "found": [
            {"samples": r.samples, "confidence": r.confidence, "detail": r.detail.splitlines()}
            for r in failed
        ],
        "scenes": {r.check: dict(r.scene) for r in failed if r.scene is not None},
    }
    return json.dumps(document, indent=2, default=repr) + "\n"


def read_witness(path: Path) -> Witness:
    """Return what ``witness_of`` wrote.

    Raises
    ------
    InvalidRelease
        If the file is something else.
    """
    document = read_json(path, "the witness", InvalidRelease)
    fields = Fields(document, "the witness", InvalidRelease)
    if fields.read("format", str) != FORMAT or not fields.read("checks", tuple[str, ...]):
        raise InvalidRelease(f"{path} is not a witness; pass a file written by dpkit check --witness")
    options, scenes = document.get("options", {}), document.get("scenes", {})
    mappings = isinstance(options, Mapping) and isinstance(scenes, Mapping)
    if not mappings or not all(isinstance(scene, Mapping) for scene in scenes.values()):
        raise InvalidRelease(
            f"{path} has options or scenes that are not JSON objects; write the witness again"
        )
    return Witness(
        fields.read("part", str),
        fields.read("kind", str),
        fields.read("seed", int),
        fields.read("thorough", bool),
        fields.read("checks", tuple[str, ...]),
        options,
        scenes,
    )
