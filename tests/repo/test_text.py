"""Nothing in the repository depends on the machine or the package index of whoever wrote it."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

FORBIDDEN = {
    "an absolute path of a machine": re.compile(
        rb"(?<![\w.)}~\]])/(?:home|root|Users|work|tmp|mnt|opt|srv|var)/[\w.]", flags=re.ASCII
    ),
    "a package index": re.compile(
        rb"\b(?:pypi\.org|pythonhosted\.org|anaconda\.org|conda\.io)|artifactory|devpi|/simple/|index-url"
    ),
    "British spelling of a term": re.compile(
        rb"neighbour|(?<!\.)randomis(?:e|ation)|regularis",  # a method of another library has its own name
        flags=re.IGNORECASE,
    ),
}
BINARY = {".parquet", ".npz", ".png"}


def tracked() -> list[Path]:
    names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True).stdout
    return [path for name in names.decode().split("\0") if name and (path := ROOT / name).is_file()]


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="not a git checkout")
@pytest.mark.parametrize("what", FORBIDDEN)
def test_no_tracked_file_contains(what: str) -> None:
    found = [
        f"{path.relative_to(ROOT)}: {match.group().decode()}"
        for path in tracked()
        if path.suffix not in BINARY and path != Path(__file__)
        for match in FORBIDDEN[what].finditer(path.read_bytes())
    ]
    assert not found


@pytest.mark.parametrize(
    ("what", "text"),
    [
        ("an absolute path of a machine", b"see /home/someone/notes"),
        ("a package index", b"https://pypi.org/project/x"),
        ("British spelling of a term", b"the neighbouring dataset"),
    ],
)
def test_the_patterns_find_what_they_forbid(what: str, text: bytes) -> None:
    assert FORBIDDEN[what].search(text)
