"""Loads one plugin and writes what happened as JSON: the process behind ``dpkit_core.doctor.examine``.

python -m dpkit_core.doctor.probe '{"kind": "scorers", "name": "kendall", "target": "..."}'
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from typing import Literal, TextIO

import attrs

from dpkit_core.errors import BrokenPlugin, IncompatiblePlugin
from dpkit_core.plugins.registry import ComponentRef, load_target

# Worth telling, because they are what makes a part slow to import.
LARGE = ("numpy", "scipy", "scipy.stats", "sklearn", "pandas", "numba", "jax", "torch")
_SHOWN = 80


@attrs.frozen
class Finding:
    """What one process saw: whether the plugin loads, and what its import did."""

    status: Literal["ok", "broken", "incompatible"]
    detail: str = ""
    seconds: float | None = None
    imports: Sequence[str] = ()
    printed: str = ""


def probe(ref: ComponentRef, printed: TextIO) -> Finding:
    """Return what loading the plugin does; what it prints goes to ``printed``."""
    started = time.perf_counter()
    try:
        target = load_target(ref, printed)
    except BrokenPlugin as error:
        return Finding("broken", str(error), time.perf_counter() - started)
    seconds = time.perf_counter() - started
    imports = [name for name in LARGE if name in sys.modules]
    try:
        _admit(ref, target)
    except IncompatiblePlugin as error:
        return Finding("incompatible", str(error), seconds, imports)
    except BrokenPlugin as error:
        return Finding("broken", str(error), seconds, imports)
    return Finding("ok", "", seconds, imports)


def _admit(ref: ComponentRef, target: object) -> None:
    # Imported for their kind alone, because parts need no typer and commands no pluggy.
    match ref.kind:
        case "hooks":
            from dpkit_core.pipeline import observers

            observers.admit(ref, target)
        case "commands":
            from dpkit_core.commands import installed

            installed.admit(ref, target)
        case "sources":
            from dpkit_core.plugins import sources

            sources.admit(ref, target)
        case _:
            from dpkit_core.plugins import registry

            registry.admit(ref, target)


def main(argument: str) -> None:
    """Write the finding to what was standard output, in whose place the plugin gets a file."""
    report = os.dup(1)
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as printed:
        os.dup2(printed.fileno(), 1)
        finding = probe(ComponentRef(**json.loads(argument)), printed)
        printed.flush()
        printed.seek(0)
        finding = attrs.evolve(finding, printed=printed.read().strip()[:_SHOWN])
    with os.fdopen(report, "w", encoding="utf-8") as output:
        json.dump(attrs.asdict(finding), output)


if __name__ == "__main__":
    main(sys.argv[1])
