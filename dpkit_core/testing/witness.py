"""What failed, as a file: whoever has it and the part sees the same checks fail, by the same seed."""

from __future__ import annotations

import json
from pathlib import Path

import attrs

from dpkit_core.errors import InvalidRelease
from dpkit_core.files.documents import Fields, read_json
from dpkit_core.testing.kit import Report

FORMAT = "dpkit-witness"


@attrs.frozen
class Witness:
    """Which checks of which part failed in which run.

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
    """

    part: str
    kind: str
    seed: int
    thorough: bool
    checks: tuple[str, ...]


def witness_of(part: str, report: Report) -> str:
    """Return the file of a report in which something failed; with what was found, for people."""
    failed = [result for result in report.results if result.status == "failed"]
    document = {
        "format": FORMAT,
        "part": part,
        "kind": report.kind,
        "seed": report.seed,
        "thorough": report.thorough,
        "checks": [result.check for result in failed],
        "found": [
            {"samples": r.samples, "confidence": r.confidence, "detail": r.detail.splitlines()}
            for r in failed
        ],
    }
    return json.dumps(document, indent=2) + "\n"


def read_witness(path: Path) -> Witness:
    """Return what ``witness_of`` wrote.

    Raises
    ------
    InvalidRelease
        If the file is something else.
    """
    document = read_json(path, "the witness", InvalidRelease)
    fields = Fields(document, "the witness", InvalidRelease)
    if fields.text("format") != FORMAT or not fields.texts("checks"):
        raise InvalidRelease(f"{path} is not a witness; give a file that dpkit check --witness wrote")
    return Witness(
        fields.text("part"),
        fields.text("kind"),
        fields.whole("seed"),
        fields.truth("thorough"),
        fields.texts("checks"),
    )
