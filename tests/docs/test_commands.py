"""Every command and every Python block of the README and the documentation runs.

A block marked ``sh`` holds commands; one marked ``console`` holds commands after ``$``, each followed by
lines that it prints. The blocks of one page run in order, in one folder that holds what a clone has
beside the code. There ``dpkit`` is the installed one, called in this process where no shell is needed, as a
process of its own imports for a second. The set-up in front of a command, exactly
``SETUP``, is left to the slow test, which types the line into a fresh copy of the repository. ``TESTS``
is this suite; ``.ci/run`` types it. Python or TOML that is to be saved as a file is saved, and not run.

The pages of ``AUTHORS`` install things, so each runs on a machine of its own: an active virtual environment,
where CLONE is this checkout.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest
from dpkit_cli.app import app
from typer.testing import CliRunner

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
CONTRIBUTING = ROOT / "CONTRIBUTING.md"
PAGES = [
    README,
    CONTRIBUTING,
    *sorted(ROOT.glob("docs/**/*.md")),
    *sorted(ROOT.glob("plugins/*/*/README.md")),
]
AUTHORS = {
    ROOT / "docs/howto/publish-a-scorer.md": (),
    ROOT / "docs/howto/publish-a-source.md": (),
    ROOT / "docs/howto/wrap-a-score.md": ("scikit-learn",),
    ROOT / "docs/howto/add-a-command.md": (),
    ROOT / "docs/howto/share-an-experiment.md": ("joblib", "matplotlib", "pyarrow", "scikit-learn"),
}
IN_CI = {"publish-a-scorer", "add-a-command"}
# These take a quarter of a minute: scripts that show no more than that they run, and the kit on parts.
BY_HAND = {"publish-other-parts", "s-gbdt", "trees", "kit"}
SETUP = "python -m pip install -q uv && uv run "
TESTS = f"{SETUP}pytest"
BLOCK = re.compile(
    r"^(?:[^\n]*Save this as `([\w.]+)`:\n\n)?```(sh|console|python|toml)\n(.*?)^```$",
    flags=re.MULTILINE | re.DOTALL,
)
OTHER_SHELLS = re.compile(r"^```(bash|shell|zsh|shell-session|powershell)$", flags=re.MULTILINE)


@attrs.frozen
class Block:
    """A block that is to be run, what it shows of the output, and the file that it is to be saved as."""

    language: str
    code: str
    shown: tuple[str, ...] = ()
    file: str = ""


def blocks(page: Path) -> Iterator[Block]:
    for file, language, body in BLOCK.findall(page.read_text(encoding="utf-8")):
        if language in {"python", "toml"}:
            if language == "python" or file:
                yield Block(language, body, file=file)
        elif language == "sh":
            yield from (Block("sh", line) for line in body.replace("\\\n", " ").splitlines() if line)
        else:
            for part in re.split(r"^\$ ", body.replace("\\\n", " "), flags=re.MULTILINE)[1:]:
                command, *shown = part.splitlines()
                yield Block("sh", command, tuple(line for line in shown if line.strip() not in {"", "..."}))


def shape(line: str) -> str:
    """Return the line with numbers made equal, and one counted as many: noise differs from run to run."""
    numbered = re.sub(r"[-+]?\d[\d.,e+-]*", "#", line)
    return " ".join(re.sub(r"# (\w+?)s\b", r"# \1", numbered).split())


def run(command: str, folder: Path, env: dict[str, str]) -> str:
    done = subprocess.run(
        command, shell=True, cwd=folder, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"$ {command}\n{done.stdout}{done.stderr}"
    return done.stdout + done.stderr


def call(command: str, folder: Path, env: dict[str, str]) -> str:
    """Return what a command prints, of dpkit in this process where no shell has to read the line."""
    if not command.startswith("dpkit ") or set(command) & set("|&;<>$`*"):
        return run(command, folder, env)
    done = CliRunner(env={"COLUMNS": env["COLUMNS"], "NO_COLOR": "1"}).invoke(app, shlex.split(command)[1:])
    assert done.exit_code == 0, f"$ {command}\n{done.output}{done.exception!r}"
    return done.output


def environment(*folders: Path) -> dict[str, str]:
    """Return the environment of a person outside this virtual environment, with ``folders`` on their PATH."""
    own = str(Path(sys.executable).parent)
    path = [folder for folder in os.environ["PATH"].split(os.pathsep) if folder != own]
    kept = {name: value for name, value in os.environ.items() if name not in {"VIRTUAL_ENV", "PYTHONPATH"}}
    return {**kept, "PATH": os.pathsep.join([*map(str, folders), *path]), "COLUMNS": "120", "NO_COLOR": "1"}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("data", "results", "reference"):
        shutil.copytree(ROOT / "docs" / name, tmp_path / "docs" / name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def case(page: Path) -> Any:
    """Return the page as a parameter; all pages take a minute, so the default suite runs the README alone."""
    mark = pytest.mark.exhaustive if page.stem in BY_HAND else pytest.mark.slow
    return pytest.param(page, marks=() if page == README else mark, id=str(page.relative_to(ROOT)))


@pytest.mark.parametrize(
    "page",
    [case(page) for page in PAGES if page not in {CONTRIBUTING, *AUTHORS} and any(blocks(page))],
)
def test_blocks_of_a_page_run_in_order(page: Path, folder: Path) -> None:
    env = environment(Path(sys.executable).parent)
    names: dict[str, object] = {"__name__": "__main__"}
    for block in blocks(page):
        if block.file:
            (folder / block.file).write_text(block.code, encoding="utf-8")
        elif block.language == "python":
            exec(compile(block.code, str(page), "exec"), names)
        elif block.code != TESTS:
            require_shown(block, call(block.code.removeprefix(SETUP), folder, env))


def require_shown(block: Block, output: str) -> None:
    printed = {shape(line) for line in output.splitlines()}
    for line in block.shown:
        assert shape(line) in printed, f"$ {block.code}\ndoes not print\n{line}\nbut\n{output}"


@pytest.mark.parametrize(
    "page",
    [
        # Of the others, CI tries new parts of each kind as wheels, and a new source.
        pytest.param(page, marks=pytest.mark.slow if page.stem in IN_CI else pytest.mark.exhaustive)
        for page in AUTHORS
    ],
    ids=[page.stem for page in AUTHORS],
)
def test_pages_for_authors_run_on_a_machine_of_their_own(
    page: Path, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    # Each is new, but in one place, where libraries that were compiled for another page count as compiled.
    machine, folder = tmp_path_factory.getbasetemp() / "machine", tmp_path / "folder"
    venv.create(machine, clear=True)
    folder.mkdir()
    env = environment(machine / "bin") | {
        "CLONE": str(ROOT),
        "VIRTUAL_ENV": str(machine),
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }
    # What is to be fetched comes first, by uv, from its cache; the commands of the page install dpkit.
    wanted = ["pip", "-r", str(ROOT / "pyproject.toml"), "--extra", "testing", *AUTHORS[page]]
    fetched = subprocess.run(
        ["uv", "pip", "install", "-q", "--python", machine / "bin/python", *wanted], check=False
    )
    if fetched.returncode:
        pytest.skip(f"{', '.join(AUTHORS[page]) or 'a dependency'} cannot be installed here")
    for block in blocks(page):
        if block.file:
            (folder / block.file).write_text(block.code, encoding="utf-8")
        elif block.language == "python":
            subprocess.run([machine / "bin/python", "-c", block.code], cwd=folder, env=env, check=True)
        else:
            require_shown(block, run(block.code, folder, env))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_shell_blocks_are_marked_so_that_they_are_run(page: Path) -> None:
    assert not OTHER_SHELLS.search(page.read_text(encoding="utf-8"))


def test_the_readme_starts_with_the_main_job_and_the_tests() -> None:
    first, second = [block.code for block in blocks(README) if block.language == "sh"][:2]
    assert first.startswith(f"{SETUP}dpkit compose docs/data/diamonds.parquet ")
    assert second == TESTS


@pytest.fixture
def fresh_copy(tmp_path: Path) -> Path:
    """What somebody has who has cloned the repository, and nothing more."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True).stdout
    for name in names.decode().split("\0"):
        if (ROOT / name).is_file():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, tmp_path / name)
    run("git init -q && git add -A", tmp_path, dict(os.environ))
    return tmp_path


@pytest.mark.slow
def test_a_newcomer_gets_on_by_the_commands_of_the_readme_and_contributing_alone(fresh_copy: Path) -> None:
    first = next(block.code for block in blocks(README) if block.code.startswith(SETUP))
    run(first, fresh_copy, environment())
    assert (fresh_copy / "release.json").is_file()
    commands = [block.code for block in blocks(CONTRIBUTING) if block.language == "sh"]
    assert commands.count(TESTS) == 1
    for command in commands:
        if (tests := command.removeprefix("uv run pytest ")) != command:
            # The tests of the clone are this suite; those of new parts are run on their wheels.
            assert all((fresh_copy / path).exists() for path in tests.removeprefix('-m "" ').split())
        elif command != TESTS:
            run(command, fresh_copy, environment())
    run("uv run pytest -n0 tests/repo/test_workspace.py", fresh_copy, environment())
    listed = run("uv run dpkit list scorers", fresh_copy, environment())
    assert "\n  mine " in listed


def test_git_ignores_what_the_commands_of_the_readme_write_into_a_clone() -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    text = README.read_text(encoding="utf-8")
    assert "`dpkit report release.json`" in text  # which writes release.html
    for name in ("release.json", "release.html"):
        ignored = subprocess.run(["git", "check-ignore", "-q", name], cwd=ROOT, check=False)
        assert ignored.returncode == 0, name
