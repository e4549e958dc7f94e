"""Fixtures for tests of commands: the command line in this process, small parts, and tables for them."""

import numpy as np
import pytest
from dpkit_cli.app import app
from typer.testing import CliRunner

from dpkit_core.plugins import registry

PARTS = '''
from typing import ClassVar

import attrs
import numpy as np

from dpkit_core import fixed_scores, LinearModel, Refusal, Sensitivity, StagePlan, validators
from dpkit_core.privacy import events
from dpkit_core.errors import Unsuitable

print("importing the parts")


@attrs.frozen
class Large:
    """How many records have a large value of the feature.

    Attributes
    ----------
    threshold
        What counts as large.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "a count changes by 1"
    reference: ClassVar[str] = "folklore"
    adaptive: ClassVar[bool] = False
    threshold: float = attrs.field(default=0.5, validator=validators.positive)

    def sensitivity(self, schema, round, /):
        return Sensitivity.monotone(1.0, schema.neighboring)

    def prepare(self, data, plan, meter, /):
        print("preparing")
        return fixed_scores((np.asarray(data.X) > self.threshold).sum(axis=0).astype(float))


@attrs.frozen
class Best:
    """The best features by the exponential mechanism."""

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "McSherry and Talwar 2007"

    def plan(self, request, /):
        print("planning")
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
        print("selecting")
        event = self.event(plan.settings, scores.round)
        return meter.select(scores, scores.round.picks, event=event)


@attrs.frozen
class Mean:
    """The mean of the target, whatever the features are.

    Attributes
    ----------
    refuse
        Whether to release nothing.
    style
        Does not matter.
    """

    api: ClassVar[int] = 3
    proof: ClassVar[str] = "a clipped sum changes by the larger bound"
    refuse: bool = False
    style: str = attrs.field(default="plain", validator=attrs.validators.in_(("plain", "fancy")))

    def plan(self, request, /):
        if request.schema.target.bounds is None:
            raise Unsuitable("the mean needs bounds of the target: set lower and upper in the schema")
        if request.budget.delta == 0:
            raise Unsuitable("the mean needs a delta above 0; set --delta")
        low, high = request.schema.target.bounds
        planned = [
            events.Laplace(
                2 / request.budget.epsilon, request.neighboring, sensitivity=moves, shape=()
            )
            for moves in (1.0, max(abs(low), abs(high)))
        ]
        few = {"few": "the table may be too small"}
        return StagePlan(planned, assumptions=("the moon is round",), refusals=few)

    def fit(self, data, plan, meter, /):
        print("fitting")
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

SCHEMA = """\
target = "price"

[columns.carat]
kind = "numeric"

[columns.depth]
kind = "numeric"

[columns.cut]
kind = "categorical"
categories = ["Fair", "Good"]

[columns.price]
kind = "numeric"
lower = 0
upper = 10
"""


@pytest.fixture
def parts(site):
    """Install the parts as one distribution: scorer large, selector best, regressor average."""
    site.install(
        "dpkit-tiny",
        version="1.2",
        summary="Small parts",
        entry_points={
            "dpkit.scorers": {"large": "tiny_parts:Large"},
            "dpkit.selectors": {"best": "tiny_parts:Best"},
            "dpkit.regressors": {"average": "tiny_parts:Mean"},
        },
        modules={"tiny_parts": PARTS},
    )
    return site


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A working directory with diamonds.csv, its schema, and numbers.csv, which needs none."""
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    rng = np.random.default_rng(1)
    rows = [
        f"{c:.3f},{d:.3f},{cut},{p:.3f}"
        for c, d, cut, p in zip(
            rng.random(40), rng.random(40), ["Fair", "Good", "Odd", ""] * 10, 10 * rng.random(40), strict=True
        )
    ]
    (folder / "diamonds.csv").write_text("\n".join(["carat,depth,cut,price", *rows]) + "\n")
    (folder / "facts.toml").write_text(SCHEMA)
    numbers = [",".join(f"{value:.3f}" for value in row) for row in rng.random((40, 4))]
    (folder / "numbers.csv").write_text("\n".join(["a,b,c,y", *numbers]) + "\n")
    return folder


@pytest.fixture
def without(monkeypatch):
    """Return a function that hides what a distribution offers, as if it were not installed."""
    installed = registry.installed

    def hide(distribution):
        def others(group):
            return tuple(ref for ref in installed(group) if ref.distribution != distribution)

        monkeypatch.setattr(registry, "installed", others)

    return hide


@pytest.fixture
def dpkit():
    """Run a command line in this process."""
    runner = CliRunner()

    def run(*arguments):
        return runner.invoke(app, [str(argument) for argument in arguments])

    return run
