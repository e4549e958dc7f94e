"""Every command and every Python block of the README and the documentation runs.

A block marked ``sh`` holds commands; one marked ``console`` holds commands after ``$``, each followed by
lines that it prints. The blocks of one page run in order, in one folder that holds what a clone has
beside the code. There ``dpkit`` is the installed one; the set-up in front of a command, exactly
``SETUP``, is left to the slow test, which types the line into a fresh copy of the repository. ``TESTS``
is this suite; ``.ci/run`` types it.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
PAGES = [README, *sorted(ROOT.glob("docs/**/*.md")), *sorted(ROOT.glob("plugins/*/*/README.md"))]
SETUP = "python -m pip install -q uv && uv run "
TESTS = f"{SETUP}pytest"
BLOCK = re.compile(r"^```(sh|console|python)\n(.*?)^```$", flags=re.MULTILINE | re.DOTALL)
OTHER_SHELLS = re.compile(r"^```(bash|shell|zsh|shell-session|powershell)$", flags=re.MULTILINE)


@attrs.frozen
class Block:
    """A block that is to be run, and what it shows of the output."""

    language: str
    code: str
    shown: tuple[str, ...] = ()


def blocks(page: Path) -> Iterator[Block]:
    for language, body in BLOCK.findall(page.read_text(encoding="utf-8")):
        if language == "python":
            yield Block("python", body)
        elif language == "sh":
            yield from (Block("sh", line) for line in body.replace("\\\n", " ").splitlines() if line)
        else:
            for part in re.split(r"^\$ ", body.replace("\\\n", " "), flags=re.MULTILINE)[1:]:
                command, *shown = part.splitlines()
                yield Block("sh", command, tuple(line for line in shown if line.strip() not in {"", "..."}))


def shape(line: str) -> str:
    """Return the line with numbers made equal, since noise and versions differ from run to run."""
    return " ".join(re.sub(r"[-+]?\d[\d.,e+-]*", "#", line).split())


def run(command: str, folder: Path, env: dict[str, str]) -> str:
    done = subprocess.run(
        command, shell=True, cwd=folder, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"$ {command}\n{done.stdout}{done.stderr}"
    return done.stdout + done.stderr


def environment(*folders: Path) -> dict[str, str]:
    """Return the environment of a person outside this virtual environment, with ``folders`` on their PATH."""
    own = str(Path(sys.executable).parent)
    path = [folder for folder in os.environ["PATH"].split(os.pathsep) if folder != own]
    kept = {name: value for name, value in os.environ.items() if name not in {"VIRTUAL_ENV", "PYTHONPATH"}}
    return {**kept, "PATH": os.pathsep.join([*map(str, folders), *path]), "COLUMNS": "120", "NO_COLOR": "1"}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(ROOT / "docs/data", tmp_path / "docs/data")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def case(page: Path) -> Any:
    """Return the page as a parameter; all pages take a minute, so the default suite runs the README alone."""
    return pytest.param(
        page, marks=() if page == README else pytest.mark.slow, id=str(page.relative_to(ROOT))
    )


@pytest.mark.parametrize("page", [case(page) for page in PAGES if any(blocks(page))])
def test_blocks_of_a_page_run_in_order(page: Path, folder: Path) -> None:
    env = environment(Path(sys.executable).parent)
    names: dict[str, object] = {"__name__": "__main__"}
    for block in blocks(page):
        if block.language == "python":
            exec(compile(block.code, str(page), "exec"), names)
        elif block.code != TESTS:
            printed = {shape(line) for line in run(block.code.removeprefix(SETUP), folder, env).splitlines()}
            for line in block.shown:
                assert shape(line) in printed, f"$ {block.code}\ndoes not print\n{line}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_shell_blocks_are_marked_so_that_they_are_run(page: Path) -> None:
    assert not OTHER_SHELLS.search(page.read_text(encoding="utf-8"))


def test_the_readme_starts_with_the_main_job_and_the_tests() -> None:
    first, second = [block.code for block in blocks(README) if block.language == "sh"][:2]
    assert first.startswith(f"{SETUP}dpkit compose docs/data/diamonds.parquet ")
    assert second == TESTS


@pytest.mark.slow
@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="not a git checkout")
def test_the_first_command_of_the_readme_sets_up_a_fresh_copy(tmp_path: Path) -> None:
    names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True).stdout
    for name in names.decode().split("\0"):
        if (ROOT / name).is_file():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, tmp_path / name)
    command = next(block.code for block in blocks(README) if block.code.startswith(SETUP))
    run(command, tmp_path, environment())
    assert (tmp_path / "release.json").is_file()
