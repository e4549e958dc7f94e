"""How every installed part fares when it is loaded, each in a process of its own.

A part that hangs, prints, exits or crashes the interpreter while it is imported cannot disturb the
examination of the others, and its import time is not hidden by what another part imported before.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Literal

import attrs

from dpkit_core.doctor_probe import Finding
from dpkit_core.registry import ComponentRef, Registry

Status = Literal["ok", "broken", "incompatible", "ambiguous", "noisy", "slow"]

TIME_LIMIT = 30.0
# Seconds. Twice what numpy and scipy.special take together on a slow machine; scipy.stats alone takes longer.
SLOW = 3.0
# Two at a time: import times are what is measured, and more would compete for the cores.
_PROCESSES = 2


@attrs.frozen
class Diagnosis:
    """How one part fares.

    Attributes
    ----------
    ref
        The part.
    status
        The first that applies of ``broken`` (cannot be loaded), ``incompatible`` (does not fit this dpkit),
        ``ambiguous`` (another distribution offers its name), ``noisy`` (prints while it is imported),
        ``slow`` to import, and ``ok``.
    detail
        What is wrong and what to do, in a sentence; for a part that loads, which large libraries it imports.
    seconds
        Time to import it with everything it imports; None where it did not come to an end.
    """

    ref: ComponentRef
    status: Status
    detail: str
    seconds: float | None


def examine(
    registry: Registry | None = None, *, time_limit: float = TIME_LIMIT, slow: float = SLOW
) -> list[Diagnosis]:
    """Return a diagnosis of every installed part, in the order of the registry.

    Parameters
    ----------
    registry
        Which parts; all that are installed by default.
    time_limit
        Seconds after which a part that is still being imported is given up as broken.
    slow
        Seconds of import time above which a part is called slow.
    """
    refs = (registry or Registry()).refs()
    with ThreadPoolExecutor(_PROCESSES) as pool:
        findings = list(pool.map(lambda ref: _find(ref, time_limit), refs))
    return [_diagnose(ref, refs, finding, slow) for ref, finding in zip(refs, findings, strict=True)]


def _find(ref: ComponentRef, time_limit: float) -> Finding:
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-m", "dpkit_core.doctor_probe", json.dumps(attrs.asdict(ref))],
            # The same search path as here, whatever put its entries there.
            env={**os.environ, "PYTHONPATH": os.pathsep.join(entry or os.getcwd() for entry in sys.path)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=time_limit,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Finding("broken", f"{ref} was still being imported after {time_limit:g} s")
    if done.returncode != 0:
        last_words = done.stderr.strip().rpartition("\n")[2]
        return Finding(
            "broken",
            f"{ref} ended its process with code {done.returncode} while imported. {last_words}".strip(),
        )
    return Finding(**json.loads(done.stdout))


def _diagnose(ref: ComponentRef, refs: tuple[ComponentRef, ...], finding: Finding, slow: float) -> Diagnosis:
    def diagnosis(status: Status, detail: str) -> Diagnosis:
        return Diagnosis(ref, status, detail, finding.seconds)

    if finding.status != "ok":
        return diagnosis(finding.status, finding.detail)
    namesakes = [other.qualified for other in refs if other.answers_to(ref.name) and other.kind == ref.kind]
    if len(namesakes) > 1:
        return diagnosis("ambiguous", f"{ref.name!r} has {len(namesakes)} meanings: {', '.join(namesakes)}")
    if finding.noise:
        return diagnosis("noisy", f"prints while it is imported: {finding.noise!r}")
    imports = f"imports {', '.join(finding.imports) or 'no large library'}"
    if finding.seconds is not None and finding.seconds > slow:
        return diagnosis("slow", f"takes {finding.seconds:.1f} s to import; {imports}")
    return diagnosis("ok", imports)
