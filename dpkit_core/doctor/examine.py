"""How every installed part, source, observer and command fares when it is loaded, each in its own process.

One that hangs, prints, exits or crashes the interpreter while it is imported cannot disturb the
examination of the others, and its import time is not hidden by what another one imported before.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Literal

import attrs

from dpkit_core.doctor.probe import Finding
from dpkit_core.pipeline.observers import left_out
from dpkit_core.plugins.registry import ComponentRef, Registry
from dpkit_core.plugins.resources import resources

Status = Literal["ok", "broken", "incompatible", "ambiguous", "noisy", "slow"]

TIME_LIMIT = 30.0
# Seconds. Twice what numpy and scipy.special take together on a slow machine; scipy.stats alone takes longer.
SLOW = 3.0
# Two at a time: import times are what is measured, and more would compete for the cores.
_PROCESSES = 2


@attrs.frozen
class Diagnosis:
    """How one part, observer or command fares.

    Attributes
    ----------
    ref
        What was loaded.
    status
        The first that applies of ``broken`` (cannot be loaded), ``incompatible`` (does not fit this dpkit),
        ``ambiguous`` (another distribution, or dpkit itself, has its name), ``noisy`` (prints while it is
        imported), ``slow`` to import, and ``ok``.
    detail
        What is wrong and what to do, in a sentence; for one that loads, which large libraries it imports.
    seconds
        Time to import it with everything it imports; None where it did not come to an end.
    """

    ref: ComponentRef
    status: Status
    detail: str
    seconds: float | None


def installed() -> tuple[ComponentRef, ...]:
    """Return every installed part, then sources, observers and commands; nothing is imported."""
    return (*Registry().refs(), *resources("sources"), *resources("hooks"), *resources("commands"))


def examine(
    refs: Sequence[ComponentRef] | None = None,
    *,
    built_in: Collection[str] = (),
    time_limit: float = TIME_LIMIT,
    slow: float = SLOW,
) -> list[Diagnosis]:
    """Return a diagnosis of each of ``refs``, in their order.

    Parameters
    ----------
    refs
        What to load; everything that is ``installed()`` by default.
    built_in
        Names that no command may take, because dpkit's own have them.
    time_limit
        Seconds after which something that is still being imported is given up as broken.
    slow
        Seconds of import time above which it is called slow.
    """
    refs = installed() if refs is None else tuple(refs)
    with ThreadPoolExecutor(_PROCESSES) as pool:
        findings = list(pool.map(lambda ref: _find(ref, time_limit), refs))
    return [
        _diagnose(ref, _namesakes(ref, refs, built_in), finding, slow)
        for ref, finding in zip(refs, findings, strict=True)
    ]


def _namesakes(ref: ComponentRef, refs: Sequence[ComponentRef], built_in: Collection[str]) -> list[str]:
    if ref.kind == "hooks":
        return []  # all observers are told, whatever they are called
    own = [f"dpkit's own {ref.name}"] if ref.kind == "commands" and ref.name in built_in else []
    return own + [other.qualified for other in refs if other.kind == ref.kind and other.name == ref.name]


def _find(ref: ComponentRef, time_limit: float) -> Finding:
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-m", "dpkit_core.doctor.probe", json.dumps(attrs.asdict(ref))],
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


def _diagnose(ref: ComponentRef, namesakes: Sequence[str], finding: Finding, slow: float) -> Diagnosis:
    def diagnosis(status: Status, detail: str) -> Diagnosis:
        if ref.kind == "hooks" and left_out(ref):
            detail = f"left out by DPKIT_DISABLE_PLUGINS; {detail}"
        return Diagnosis(ref, status, detail, finding.seconds)

    if finding.status != "ok":
        return diagnosis(finding.status, finding.detail)
    if len(namesakes) > 1:
        return diagnosis("ambiguous", f"{ref.name!r} has {len(namesakes)} meanings: {', '.join(namesakes)}")
    if finding.printed:
        return diagnosis("noisy", f"prints while it is imported: {finding.printed!r}")
    imports = f"imports {', '.join(finding.imports) or 'no large library'}"
    if finding.seconds is not None and finding.seconds > slow:
        return diagnosis("slow", f"takes {finding.seconds:.1f} s to import; {imports}")
    return diagnosis("ok", imports)
