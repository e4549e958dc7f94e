"""The page of authors is what ``help`` shows of the protocols, is short, and says what the code says."""

from __future__ import annotations

import inspect
import pydoc
import re
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest

from dpkit_core import protocols
from dpkit_core.plugins.promises import PROTOCOLS

#: Members that a part may have or not: they are in no protocol.
OPTIONAL = {
    "Scorer": {"plan", "components", "none"},
    "TopKSelector": {"reads"},
    "Accountant": {"keeps_accounts"},
    "Regressor": {"iterates"},
}


def blocks() -> Iterator[tuple[str, dict[str, str]]]:
    """Yield each class of the page, and its members with the rest of their lines."""
    page = inspect.getdoc(protocols) or ""
    for name, body in re.findall(
        r"^    class (\w+):.*\n((?:        .*\n|\n(?=        ))+)", page + "\n", re.M
    ):
        members = re.findall(r"^        (\w+)(.*)", body, re.M)
        yield name, {member: rest.split("#")[0].strip() for member, rest in members}


PAGE = dict(blocks())


def test_help_shows_one_page_of_at_most_150_lines() -> None:
    shown = pydoc.plain(pydoc.render_doc(protocols)).splitlines()
    assert "class Iterate:" in " ".join(shown)
    assert len(shown) <= 150


def test_the_documentation_shows_the_same_page() -> None:
    shown = Path(__file__).parents[2] / "docs/reference/part-protocols.md"
    assert ".. automodule:: dpkit_core.protocols\n```" in shown.read_text(encoding="utf-8")


def test_the_page_has_every_class_that_an_author_may_use() -> None:
    own = {
        name
        for name, value in vars(protocols).items()
        if getattr(value, "__module__", "") == protocols.__name__
    }
    assert set(PAGE) == {name for name in own if inspect.isclass(getattr(protocols, name))}
    assert {protocol.__name__ for protocol in PROTOCOLS.values()} <= set(PAGE)


@pytest.mark.parametrize("name", PAGE)
def test_the_page_says_what_the_code_says(name: str) -> None:
    cls, said = getattr(protocols, name), dict(PAGE[name])
    for member in OPTIONAL.get(name, ()):
        said.pop(member)
    if attrs.has(cls):
        fields = [field.name for field in attrs.fields(cls)]
        assert list(said)[: len(fields)] == fields
        for field in attrs.fields(cls):
            assert ("=" in said[field.name]) == (field.default is not attrs.NOTHING)
        computed = {n for n, v in vars(cls).items() if isinstance(v, property)}
        assert set(list(said)[len(fields) :]) == computed
        return
    members = {n: v for n, v in vars(cls).items() if not n.startswith("_")}
    assert list(said) == list(members)
    for member, value in members.items():
        if inspect.isfunction(value):
            given = re.split(r"\)", said[member].lstrip("("), maxsplit=1)[0]
            named = [word.split(":")[0].split("=")[0].strip() for word in given.split(",") if word.strip()]
            kept = [n for n in named if n not in "*/"]
            assert kept == list(inspect.signature(value).parameters)[1:], member
        else:
            assert isinstance(value, property)
