"""How dpkit is installed is said in one place, and so that it works: no package index has it."""

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from dpkit_core.errors import install

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/howto/install.md"
#: What was told before, the build of a release from an index of its own, and what this test itself says.
ELSEWHERE = {"CHANGELOG.md", ".ci/release", "tests/docs/test_install.py"}


def stray(line: str) -> bool:
    """Return whether a line has a reader take dpkit, or a part that comes with it, from a package index."""
    line = re.sub(r"dpkit\S* @ ", "", line)  # from where it says
    for command in re.findall(r"(?:pip install|uv add|pipx install|uv tool install)\b([^`&|<(,]*)", line):
        words = [word.strip("'\"().,;") for word in command.split()]
        for before, word in zip(["", *words], words, strict=False):
            if before != "-e" and re.fullmatch(r"dpkit(-[a-z-]+)?(\[[\w,]*\])?([=<>~]=.*)?", word):
                return True
    return False


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("<pre>python -m pip install dpkit</pre>", True),
        ("    pip install dpkit dpkit-scorer-kendall", True),
        ("Both come with an extra (`pip install 'dpkit[bench]'`).", True),
        ("uv add dpkit-selector-joint (or pip install dpkit-selector-joint)", True),
        ("- run: python -m pip install -q -e . 'dpkit[testing]' build", True),
        ("- run: uv pip install 'dpkit[testing] @ git+https://host/dpkit'", False),
        ("uv pip install 'CLONE[report]'", False),
        ("python -m pip install -q uv && uv run dpkit compose table.csv", False),
        ("python -m pip install -q -e dpkit-scorer-covariance", False),
        ("uv pip install x dist/dpkit_scorer_covariance-0.1.0-py3-none-any.whl", False),
    ],
)
def test_an_instruction_that_does_not_work_is_recognized(line: str, expected: bool) -> None:
    assert stray(line) is expected


def test_nothing_tells_a_reader_to_install_dpkit_from_an_index() -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
    ).stdout
    names = [name for name in listed.decode().split("\0") if name and name not in ELSEWHERE]
    texts = {}
    for name in names:
        if (ROOT / name).is_file():
            texts[name] = (ROOT / name).read_bytes().decode("utf-8", errors="ignore")
    assert len(texts) > 300
    found = [f"{name}: {line}" for name, text in texts.items() for line in text.splitlines() if stray(line)]
    assert found == []


def test_the_sentence_of_messages_is_that_of_the_page() -> None:
    page = " ".join(PAGE.read_text(encoding="utf-8").split())
    assert 'uv pip install "${CLONE}[starter]"' in page
    assert "No package index has dpkit yet" in page
    assert install("[starter]").startswith("uv pip install 'CLONE[starter]', where CLONE is")


def test_the_page_has_every_extra() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    page = PAGE.read_text(encoding="utf-8")
    assert [name for name in project["optional-dependencies"] if f"`{name}`" not in page] == []


@pytest.mark.slow
def test_the_command_of_the_page_installs_dpkit_into_an_environment_of_its_own(tmp_path: Path) -> None:
    def run(*command: str | Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    assert run("uv", "venv", "-q", "own").returncode == 0
    done = run("uv", "pip", "install", "-q", "--python", "own", f"{ROOT}[report]")
    assert done.returncode == 0, done.stderr
    done = run("uv", "pip", "install", "-q", "--python", "own", f"{ROOT}/plugins/selectors/joint")
    assert done.returncode == 0, done.stderr
    dpkit = tmp_path / "own/bin/dpkit"
    assert "report" in run(dpkit, "list", "commands").stdout
    assert "joint" in run(dpkit, "list", "selectors").stdout
