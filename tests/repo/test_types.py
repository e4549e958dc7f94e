"""Every part proves to the type checker that it keeps its protocol, and the proof is worth something."""

import ast
import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from dpkit_core.plugins import kinds
from dpkit_core.plugins.promises import PROTOCOLS

ROOT = Path(__file__).parents[2]


def parts() -> Iterator[tuple[str, str, Path]]:
    """Yield kind, class name and module of each part in the workspace."""
    for kind in (kind.plural for kind in kinds.PARTS.values()):
        for project in sorted(ROOT.glob(f"plugins/{kind}/*/pyproject.toml")):
            document = tomllib.loads(project.read_text(encoding="utf-8"))
            for target in document["project"]["entry-points"][f"dpkit.{kind}"].values():
                package, _, name = target.partition(":")
                (module,) = (
                    path
                    for path in (project.parent / package).glob("*.py")
                    if f"\nclass {name}:" in path.read_text(encoding="utf-8")
                )
                yield kind, name, module


PARTS = {name: (kind, name, module) for kind, name, module in parts()}


def proved(path: Path) -> set[str]:
    """Return ``Protocol = Class`` for each line ``_: type[Protocol] = Class`` of a module."""
    return {
        f"{ast.unparse(node.annotation.slice)} = {ast.unparse(node.value)}"
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.AnnAssign) and isinstance(node.annotation, ast.Subscript) and node.value
    }


def test_there_are_parts() -> None:
    assert {kind for kind, _, _ in PARTS.values()} == {kind.plural for kind in kinds.PARTS.values()}


@pytest.mark.parametrize(("kind", "name", "module"), PARTS.values(), ids=PARTS)
def test_each_part_proves_that_it_keeps_its_protocol(kind: str, name: str, module: Path) -> None:
    protocol = PROTOCOLS[kinds.kind_named(kind).name]
    assert f"{protocol.__name__} = {name}" in proved(module)


WRONG = '''
from collections.abc import Callable, Sequence
from typing import ClassVar, Self

import attrs

from dpkit_core import (
    Accountant,
    Budget,
    Dataset,
    LinearModel,
    Meter,
    Neighboring,
    Regressor,
    Request,
    Schema,
    Scorer,
    Scores,
    SelectionRequest,
    Sensitivity,
    StagePlan,
    TopKSelector,
    Vector,
    fixed_scores,
)
from dpkit_core.privacy.events import Event


@attrs.frozen
class WordyScorer:
    """Takes the index of a round for a word."""

    api: ClassVar[int] = 3
    adaptive: ClassVar[bool] = False

    def sensitivity(self, schema: Schema, round_index: str, /) -> Sensitivity:
        return Sensitivity.general(1.0, schema.neighboring)

    def prepare(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> Callable[[Sequence[int]], Vector]:
        return fixed_scores(data.y)


@attrs.frozen
class ForgetfulSelector:
    """Does not take the plan."""

    api: ClassVar[int] = 3

    def plan(self, request: SelectionRequest, /) -> StagePlan:
        return StagePlan(())

    def select(self, scores: Scores, meter: Meter, /) -> Sequence[int]:
        return range(scores.round.candidates)


@attrs.frozen
class BudgetedAccountant:
    """Answers with a budget where a number is asked for."""

    api: ClassVar[int] = 3
    neighboring: Neighboring = Neighboring.REPLACE_ONE

    def supports(self, event: Event, /) -> bool:
        return False

    def compose(self, event: Event, count: int = 1, /) -> Self:
        return self

    def epsilon(self, delta: float, /) -> Budget:
        return Budget(1.0, delta)

    def delta(self, epsilon: float, /) -> float:
        return 1.0


@attrs.frozen
class SilentRegressor:
    """May return nothing."""

    api: ClassVar[int] = 3

    def plan(self, request: Request, /) -> StagePlan:
        return StagePlan(())

    def fit(self, data: Dataset, plan: StagePlan, meter: Meter, /) -> LinearModel | None:
        return None


scorer: type[Scorer] = WordyScorer
selector: type[TopKSelector] = ForgetfulSelector
accountant: type[Accountant] = BudgetedAccountant
regressor: type[Regressor] = SilentRegressor
'''


@pytest.mark.slow
def test_a_wrong_signature_fails_the_type_checker(tmp_path: Path) -> None:
    (tmp_path / "wrong_parts.py").write_text(WRONG, encoding="utf-8")
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "mypy",
            "--strict",
            "--config-file",
            ROOT / "pyproject.toml",
            "wrong_parts.py",
        ],
        cwd=tmp_path,
        env={**os.environ, "MYPY_CACHE_DIR": str(ROOT / ".mypy_cache")},
        capture_output=True,
        text=True,
        check=False,
    )
    lines = WRONG.splitlines()
    found = [int(line.split(":")[1]) for line in done.stdout.splitlines() if ": error:" in line]
    assert [lines[number - 1] for number in found] == lines[-4:], done.stdout + done.stderr
