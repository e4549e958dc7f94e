"""Attacks in a separate process: what a part does besides its release, and without the kit."""

from __future__ import annotations

import base64
import functools
import json
import os
import pickle
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Self

import attrs

from dpkit_check import elsewhere
from dpkit_check.cases.parts import class_of, kind_of, kinds_of
from dpkit_check.trial import AnyPart, Evidence, Factory, NotApplicable, Trial, attack, require
from dpkit_core.text import number_of

# Each takes longer to import than everything that a part needs.
SLOW_TO_IMPORT = elsewhere.SLOW_TO_IMPORT


@attack("privacy")
def check_nothing_leaves_beside_the_release(make: Factory[AnyPart], trial: Trial) -> Evidence:
    """In a separate process, it writes no file, starts no process, and logs the same for neighbors.

    Nor does it write to the file descriptors of standard output and error, bypassing the streams, which a
    run captures. Module and class variables are the same after runs on neighbors, and one run does not
    change the next.

    If this fails: what depends on records may leave through the release alone. Log public facts only, write
    no file, and keep no state between runs.
    """
    told = _told(make)
    require(not told["opened"], f"a run {'; '.join(told['opened'][:3])}; it must only return its release")
    require(not told["environment"], f"a run changed environment variables: {', '.join(told['environment'])}")
    logged, results = told["logged"], told["results"]
    for name, text in told["wrote"].items():
        require(not text, f"{name}: a run wrote {text[:60]!r} to the descriptor of standard output or error")
    for name in results:
        stem, _, table = name.rpartition(": ")
        if table == "a neighbor":
            one, other = logged[f"{stem}: a table"], logged[name]
            require(one == other, f"{stem}: logs {one} for one table and {other} for its neighbor")
            mine, its = told["kept"][f"{stem}: a table"], told["kept"][name]
            for variable in mine.keys() & its.keys():
                require(
                    mine[variable] == its[variable],
                    f"{stem}: the variable {variable} is {mine[variable]:.60} after a run, and "
                    f"{its[variable]:.60} after one on a neighbor",
                )
        if table == "a table again":
            one, other = results[f"{stem}: a table"], results[name]
            require(
                one == other,
                f"{stem}: the release changed from {one} to {other} after a run on another table",
            )
    return Evidence(f"{number_of(len(results), 'run')} in a separate process", len(results))


@attack("composition")
def check_it_is_the_same_where_nobody_tests(make: Factory[AnyPart], trial: Trial) -> Evidence:
    """A process without the kit gets the same plans and, for the same seed, the same releases.

    If this fails: the part detects that it is being tested, by loaded modules, the stack, arguments, the
    environment, or state kept from earlier runs.
    """
    cls = class_of(make)
    theirs = _told(make)["results"]
    if not any(theirs.values()):
        raise NotApplicable("it composes with none of the small parts tried")
    ours = json.loads(json.dumps(elsewhere.told(make, kind_of(make), once=True)["results"]))
    for name, result in ours.items():
        require(
            result == theirs[name],
            f"{name}: {cls.__qualname__} gives {result} under the kit, and {theirs[name]} in another process",
        )
    return Evidence(f"{len(ours)} plans, totals and releases", len(ours))


@attrs.frozen
class _Request:
    """What a separate process is asked: which module to import, and the part as a pickle."""

    module: str
    file: str
    part: str
    kind: str

    @classmethod
    def of(cls, make: Factory[AnyPart]) -> Self:
        module = class_of(make).__module__
        try:
            part = base64.b64encode(pickle.dumps(make)).decode()
        except (pickle.PicklingError, AttributeError, TypeError):
            part = ""
        kind = kinds_of(class_of(make))[0]
        return cls(module, getattr(sys.modules.get(module), "__file__", None) or "", part, kind)


def _told(make: Factory[AnyPart]) -> dict[str, Any]:
    found = imported(make)
    if found is None or found.get("told") is None:
        raise NotApplicable("the part cannot be made in a separate process")
    told: dict[str, Any] = found["told"]
    return told


def imported(make: Factory[AnyPart]) -> dict[str, Any] | None:
    """Return what a process without the kit reports of a part; None where it cannot import it."""
    return _elsewhere(_Request.of(make))


@functools.lru_cache(maxsize=8)
def _elsewhere(request: _Request) -> dict[str, Any] | None:
    """Return what a process without the kit reports; None where it cannot import the part."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    asked = {**attrs.asdict(request), "path": [entry or os.getcwd() for entry in sys.path]}
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-c", Path(elsewhere.__file__).read_text(encoding="utf-8")],
            input=json.dumps(asked) + "\n",
            env={**environment, "TMPDIR": folder},
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode or not done.stdout.strip():
        return None
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found
