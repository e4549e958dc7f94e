"""Decisions and the changelog have the form that the rules in CONTRIBUTING give them."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DECISIONS = sorted((ROOT / "docs/decisions").glob("0*.md"))
DATE = r"\d{1,2} [A-Z][a-z]+ 20\d\d"
STATUS = re.compile(rf"\*(Accepted|Withdrawn|Superseded by (\d{{4}})), {DATE}\.\*")
KINDS_OF_CHANGE = ["Privacy", "Added", "Changed", "Deprecated", "Removed", "Fixed"]


@pytest.mark.parametrize("path", DECISIONS, ids=lambda path: path.stem)
def test_a_decision_has_title_status_and_date_context_decision_and_consequences(path: Path) -> None:
    title, _, status, _, text = path.read_text(encoding="utf-8").split("\n", 4)
    assert re.fullmatch(rf"# {path.name[:4]}: .+", title)
    found = STATUS.fullmatch(status)
    assert found, status
    if found[2]:
        assert any(other.name.startswith(found[2]) for other in DECISIONS)
    for word in ("Context", "Decision", "Consequences"):
        assert text.count(f"**{word}.**") == 1, word


def test_numbers_are_given_once() -> None:
    numbers = [path.name[:4] for path in DECISIONS]
    assert len(set(numbers)) == len(numbers)


def test_the_changelog_says_of_each_version_what_kind_of_change_there_is() -> None:
    _, *versions = re.split("^## ", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), flags=re.MULTILINE)
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    heads = [text.partition("\n")[0] for text in versions]
    assert all(re.fullmatch(rf"\d+\.\d+\.\d+ \({DATE}\)", head) for head in heads if head != "Unreleased")
    assert "Unreleased" not in heads[1:]
    assert next(head for head in heads if head != "Unreleased").split()[0] == version
    for text in versions[:-1]:  # the first version has no changes, only contents
        kinds = re.findall("^### (.+)$", text, flags=re.MULTILINE)
        assert kinds == [kind for kind in KINDS_OF_CHANGE if kind in kinds]
        assert "\n- " not in text.partition("### ")[0], "a change without a kind"
