"""Loads every installed part, source, observer and command, each in its own process.

One that hangs, prints, exits or crashes the interpreter on import cannot disturb the examination of the
others, and its import time is not hidden by earlier imports. Only dpkit and NumPy are imported once for all,
as every run imports them: where possible, the processes are forks of one that has.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from typing import Literal

import attrs
from dpkit_cli.installed import OWN, is_own

from dpkit_command_doctor.probe import ProbeResult
from dpkit_core.pipeline.observers import left_out
from dpkit_core.plugins.kinds import ComponentRef
from dpkit_core.plugins.registry import Registry
from dpkit_core.plugins.resources import resources

Status = Literal["ok", "broken", "incompatible", "ambiguous", "noisy", "slow"]

TIME_LIMIT = 30.0
# Seconds. Twice the time for numpy and scipy.special on a slow machine; scipy.stats alone takes longer.
SLOW = 3.0
# Not on macOS, whose libraries may not survive a fork.
FORKS = hasattr(os, "fork") and sys.platform != "darwin"
_PROBE = (sys.executable, "-P", "-m", "dpkit_command_doctor.probe")


@attrs.frozen
class Diagnosis:
    """The state of one part, source, observer or command.

    Attributes
    ----------
    ref
        What was loaded.
    status
        The first that applies of ``broken`` (cannot be loaded), ``incompatible`` (does not fit this dpkit),
        ``ambiguous`` (another distribution, or dpkit itself, has its name), ``noisy`` (prints while it is
        imported), ``slow`` to import, and ``ok``.
    detail
        What is wrong and what to do, in a sentence; if it loads, which large libraries it imports.
    seconds
        Time to import it with everything it imports besides dpkit and NumPy; None if it did not finish.
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
    time_limit: float = TIME_LIMIT,
    slow: float = SLOW,
) -> list[Diagnosis]:
    """Return a diagnosis of each of ``refs``, in their order.

    Parameters
    ----------
    refs
        What to load; by default everything ``installed()``.
    time_limit
        Seconds after which an import is abandoned as broken.
    slow
        Seconds of import time above which a plugin is slow.
    """
    refs = installed() if refs is None else tuple(refs)
    findings = _findings(refs, time_limit)
    return [
        _diagnose(ref, _namesakes(ref, refs), finding, slow)
        for ref, finding in zip(refs, findings, strict=True)
    ]


def _namesakes(ref: ComponentRef, refs: Sequence[ComponentRef]) -> list[str]:
    """Return everything with the name of ``ref``, itself included; only itself for a command of dpkit."""
    if ref.kind == "hooks" or is_own(ref):
        return [ref.qualified]  # all observers are called, whatever their names
    reserved = ref.kind == "commands" and ref.name in OWN
    alike = [other for other in refs if (other.kind, other.name) == (ref.kind, ref.name)]
    return [f"dpkit's own {ref.name}"] * reserved + [other.qualified for other in alike if not is_own(other)]


def _findings(refs: Sequence[ComponentRef], time_limit: float) -> list[ProbeResult]:
    """Return the results: from forks of one process, or, after that has died, from a process each."""
    findings = _together(refs, time_limit) if refs and FORKS else []
    return [*findings, *(_alone(ref, time_limit) for ref in refs[len(findings) :])]


def _together(refs: Sequence[ComponentRef], time_limit: float) -> list[ProbeResult]:
    done = subprocess.run(
        [*_PROBE, "--each", str(time_limit)],
        # The forking process must not have threads.
        env=_environment() | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
        input="".join(json.dumps(attrs.asdict(ref)) + "\n" for ref in refs),
        capture_output=True,
        text=True,
        check=False,
    )
    return [ProbeResult(**json.loads(line)) for line in done.stdout.split("\n")[:-1]]


def _alone(ref: ComponentRef, time_limit: float) -> ProbeResult:
    try:
        done = subprocess.run(
            [*_PROBE, json.dumps(attrs.asdict(ref))],
            env=_environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=time_limit,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return ProbeResult.unfinished(ref, time_limit)
    if done.returncode != 0:
        return ProbeResult.died(ref, done.returncode, done.stderr)
    return ProbeResult(**json.loads(done.stdout))


def _environment() -> dict[str, str]:
    # The same search path as here, whatever put its entries there.
    return {**os.environ, "PYTHONPATH": os.pathsep.join(entry or os.getcwd() for entry in sys.path)}


def _diagnose(ref: ComponentRef, namesakes: Sequence[str], finding: ProbeResult, slow: float) -> Diagnosis:
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
    if finding.kernels:
        imports += f"; {finding.kernels}"
    if finding.seconds is not None and finding.seconds > slow:
        return diagnosis("slow", f"takes {finding.seconds:.1f} s to import; {imports}")
    return diagnosis("ok", imports)
