"""Small parts that are quick, or slow, refuse or fail on demand, and a suite of them."""

import contextlib
import copy
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from distributions import site
from dpkit_cli.app import app
from dpkit_command_bench.results import Results
from dpkit_command_bench.suite import Suite
from typer.testing import CliRunner

from dpkit_core.files.documents import to_toml

__all__ = ["site"]

# A shell ignores ctrl-C for what it starts in the background; the processes that tests interrupt must not.
signal.signal(signal.SIGINT, signal.default_int_handler)

PARTS = '''
import time
from typing import Any, ClassVar

import attrs
import numpy as np

from dpkit_core import LinearModel, Refusal, Sensitivity, StagePlan
from dpkit_core.privacy import events
from dpkit_core.errors import Unsuitable


@attrs.frozen
class Large:
    """How many records have a value above the threshold."""

    api: ClassVar[int] = 3
    adaptive: ClassVar[bool] = False
    threshold: float = 0.0

    def sensitivity(self, schema, round, /):
        return Sensitivity.monotone(1.0, schema.neighboring)

    def prepare(self, data, plan, meter, /):
        return Counts((data.X > self.threshold).sum(axis=0).astype(float))


@attrs.frozen
class Small(Large):
    """How many records have a value below the threshold."""

    def prepare(self, data, plan, meter, /):
        return Counts((data.X < self.threshold).sum(axis=0).astype(float))


@attrs.frozen
class Counts:
    values: Any

    def __call__(self, selected, /):
        return self.values


@attrs.frozen
class Best:
    """The best features by the exponential mechanism."""

    api: ClassVar[int] = 3

    def plan(self, request, /):
        k = sum(request.picks)
        planned = [
            self.event(request.budget.epsilon / k, round_)
            for round_ in request.rounds
            for _ in range(round_.picks)
        ]
        return StagePlan(planned, request.budget.epsilon / k)

    def event(self, epsilon, round_):
        declared = round_.sensitivity
        return events.ExponentialMechanism(
            epsilon, declared.neighboring, sensitivity=declared.range, candidates=round_.scores
        )

    def select(self, scores, plan, meter, /):
        event = self.event(plan.settings, scores.round)
        return meter.select(scores, scores.round.picks, event=event)


@attrs.frozen
class Mean:
    """The noisy mean of the target."""

    api: ClassVar[int] = 3
    refuse: bool = False
    fail: bool = False
    seconds: float = 0.0
    work: int = 0

    def plan(self, request, /):
        if request.schema.target.bounds is None:
            raise Unsuitable("the mean needs bounds of the target")
        low, high = request.schema.target.bounds
        planned = [
            events.Laplace(
                2 / request.budget.epsilon, request.neighboring, sensitivity=moves, shape=()
            )
            for moves in (1.0, max(abs(low), abs(high)))
        ]
        return StagePlan(planned, refusals={"few": "the table may be too small"})

    def fit(self, data, plan, meter, /):
        time.sleep(self.seconds)
        for _ in range(self.work):
            np.linalg.svd(np.eye(60))
        if self.fail:
            raise RuntimeError("out of order")
        event = plan.events[0]
        low, high = data.target_bounds
        n = meter.laplace(float(len(data.y)), sensitivity=1.0, noise_multiplier=event.noise_multiplier)
        if self.refuse:
            return Refusal("few")
        total = meter.laplace(
            np.clip(data.y, low, high).sum(),
            sensitivity=max(abs(low), abs(high)),
            noise_multiplier=event.noise_multiplier,
        )
        return LinearModel(data.names, (0.0,) * len(data.names), float(total / max(n, 1.0)))
'''

DOCUMENT = {
    "seed": 7,
    "epsilon": [0.5, 2.0],
    "delta": [1e-6],
    "k": [1, 2],
    "splits": 2,
    "trials": 2,
    "metrics": ["r2", "recall"],
    "tables": {
        "ones": {"generator": "five-ones", "options": {"rows": 60, "features": 6}, "bounds": "from-data"},
    },
    "compositions": {
        "selected": {"scorer": "large", "selector": "best", "regressor": "average", "accountant": "basic"},
        "all": {"regressor": "average", "accountant": "basic"},
    },
}

# How long something took is all that may differ between two runs of a trial.
MEASURED = {"plan_seconds", "wall_seconds", "cpu_seconds", "peak_memory_mb"}


@pytest.fixture
def parts(site):
    """Install the parts as one distribution."""
    site.install(
        "dpkit-tiny",
        entry_points={
            "dpkit.scorers": {"large": "tiny_bench:Large"},
            "dpkit.selectors": {"best": "tiny_bench:Best"},
            "dpkit.regressors": {"average": "tiny_bench:Mean"},
        },
        modules={"tiny_bench": PARTS},
    )
    return site


@pytest.fixture
def document():
    """The suite as plain data, free to be changed."""
    return copy.deepcopy(DOCUMENT)


@pytest.fixture
def suite(parts, document, tmp_path):
    return Suite.from_document("tiny", document, tmp_path)


@pytest.fixture
def results(tmp_path):
    return Results(tmp_path / "results")


@pytest.fixture
def numbers():
    """Give what rows say, without what was measured of the machine."""

    def without_measurements(rows):
        return [{name: value for name, value in row.items() if name not in MEASURED} for row in rows]

    return without_measurements


@pytest.fixture
def dpkit(parts, tmp_path, monkeypatch):
    """Run a command line in this process, in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")

    def run(*arguments):
        return CliRunner().invoke(app, [str(argument) for argument in arguments])

    return run


@pytest.fixture
def start(parts, tmp_path):
    """Start ``dpkit`` as a command of its own, with the parts within its reach; it ends with the test."""
    running = []

    def command(*arguments, **options):
        process = subprocess.Popen(
            [Path(sys.executable).with_name("dpkit"), *map(str, arguments)],
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": str(parts.folder), "COLUMNS": "200"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            **options,
        )
        running.append(process)
        return process

    yield command
    for process in running:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


@pytest.fixture
def suite_file(document, tmp_path):
    """Write the suite, which tests change, to a file and return its path."""

    def write(**facts):
        path = tmp_path / "tiny.toml"
        path.write_text(to_toml(document | facts))
        return path

    return write
