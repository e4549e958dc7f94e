"""Loads plugins and writes what happened as JSON: the processes behind ``dpkit_command_doctor.examine``.

python -m dpkit_command_doctor.probe '{"kind": "scorers", "name": "kendall", "target": "..."}'

loads one. With ``--each SECONDS`` instead, each line of standard input is such a plugin, and a line is
written for each in turn. They are loaded in forks of one process, which has imported dpkit and no plugin:
plugins do not see each other, and a fork that dies or takes too long affects no other.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from typing import Literal, TextIO

import attrs

from dpkit_core.errors import BrokenPlugin, IncompatiblePlugin
from dpkit_core.plugins.kinds import ComponentRef
from dpkit_core.plugins.registry import load_target

# Reported, because they make a part slow to import; NumPy comes with dpkit.
LARGE = ("scipy", "scipy.stats", "sklearn", "pandas", "numba", "jax", "torch")
_SHOWN = 80
_BETWEEN_LOOKS = 0.005  # seconds


@attrs.frozen
class ProbeResult:
    """The result of one process: whether the plugin loads, and what its import did."""

    status: Literal["ok", "broken", "incompatible"]
    detail: str = ""
    seconds: float | None = None
    imports: Sequence[str] = ()
    kernels: str = ""
    printed: str = ""

    @classmethod
    def unfinished(cls, ref: ComponentRef, time_limit: float) -> ProbeResult:
        """Return the result for a plugin whose import was abandoned."""
        return cls("broken", f"{ref} was still being imported after {time_limit:g} s")

    @classmethod
    def died(cls, ref: ComponentRef, code: int, stderr: str) -> ProbeResult:
        """Return the result for a plugin whose process ended, with the last line of its errors."""
        last_words = stderr.strip().rpartition("\n")[2]
        return cls("broken", f"{ref} ended its process with code {code} while imported. {last_words}".strip())


def probe(ref: ComponentRef, printed: TextIO) -> ProbeResult:
    """Return what loading the plugin does; what it prints goes to ``printed``."""
    started = time.perf_counter()
    try:
        target = load_target(ref, printed)
    except BrokenPlugin as error:
        return ProbeResult("broken", str(error), time.perf_counter() - started)
    seconds = time.perf_counter() - started
    imports = [name for name in LARGE if name in sys.modules]
    try:
        _admit(ref, target)
    except IncompatiblePlugin as error:
        return ProbeResult("incompatible", str(error), seconds, imports)
    except BrokenPlugin as error:
        return ProbeResult("broken", str(error), seconds, imports)
    # Whether inner loops are compiled.
    kernels = getattr(sys.modules.get("dpkit_kernels"), "STATUS", "")
    return ProbeResult("ok", "", seconds, imports, kernels)


def _admit(ref: ComponentRef, target: object) -> None:
    # Imported by kind, because parts do not need typer nor commands pluggy.
    match ref.kind:
        case "hooks":
            from dpkit_core.pipeline import observers

            observers.admit(ref, target)
        case "commands":
            from dpkit_cli import installed

            installed.admit(ref, target)
        case "sources":
            from dpkit_core.plugins import sources

            sources.admit(ref, target)
        case _:
            from dpkit_core.plugins import promises

            promises.admit(ref, target)


def import_dpkit() -> None:
    """Import what every run imports, NumPy with it: that is no plugin's import time."""
    for name in ("data.dataset", "pipeline.compose", "pipeline.runner"):
        importlib.import_module(f"dpkit_core.{name}")


def _report(argument: str, report: int) -> None:
    """Write the result to a descriptor; standard output of the plugin goes to a file."""
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as printed:
        os.dup2(printed.fileno(), 1)
        finding = probe(ComponentRef(**json.loads(argument)), printed)
        printed.flush()
        printed.seek(0)
        finding = attrs.evolve(finding, printed=printed.read().strip()[:_SHOWN])
    with os.fdopen(report, "w", encoding="utf-8") as output:
        json.dump(attrs.asdict(finding), output)


def _apart(argument: str, time_limit: float) -> ProbeResult:
    """Return the result of a fork of this process."""
    ref = ComponentRef(**json.loads(argument))
    with tempfile.TemporaryFile() as report, tempfile.TemporaryFile() as stderr:
        child = os.fork()
        if child == 0:
            code = 1
            try:
                os.setsid()  # so that a plugin that kills its process group kills only itself
                os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
                os.dup2(stderr.fileno(), 2)
                _report(argument, os.dup(report.fileno()))
                code = 0
            except BaseException:
                traceback.print_exc()
                sys.stderr.flush()
            finally:
                os._exit(code)
        ended = _ended(child, time_limit)
        if ended is None:
            return ProbeResult.unfinished(ref, time_limit)
        for file in (report, stderr):
            file.seek(0)
        if ended:
            return ProbeResult.died(ref, ended, stderr.read().decode(errors="replace"))
        return ProbeResult(**json.load(report))


def _ended(child: int, time_limit: float) -> int | None:
    """Return the exit code of a process; None if it took too long and was killed with its children."""
    deadline = time.monotonic() + time_limit
    while time.monotonic() < deadline:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(_BETWEEN_LOOKS)
    for kill in (os.killpg, os.kill):  # it may not have become the leader of its group yet
        try:
            kill(child, signal.SIGKILL)
        except ProcessLookupError:
            continue
    os.waitpid(child, 0)
    return None


def main(arguments: Sequence[str]) -> None:
    """Write the results to standard output."""
    import_dpkit()
    match arguments:
        case ["--each", time_limit]:
            for line in sys.stdin:
                print(json.dumps(attrs.asdict(_apart(line, float(time_limit)))), flush=True)
        case [argument]:
            _report(argument, os.dup(1))


if __name__ == "__main__":
    main(sys.argv[1:])
