"""The public names exist, say what they are, and are all in the reference."""

import ast
import importlib
import inspect
import re
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest

import dpkit_core

ROOT = Path(__file__).parents[2]
NAMES = [name for name in dpkit_core.__all__ if name != "__version__"]

#: Public as a whole, besides the names of ``dpkit_core`` itself; the reference lists those that parts need,
#: and then those for whatever examines parts.
FOR_PARTS, FOR_TOOLS = (
    modules
    for text in (ROOT / "docs/reference/python.md").read_text(encoding="utf-8").split("\n\n")
    if (modules := re.findall(r"^- `(dpkit_core\.[a-z_.]+)`", text, flags=re.MULTILINE))
)
MODULES = [*FOR_PARTS, *FOR_TOOLS]


def test_the_reference_lists_the_public_modules_in_order() -> None:
    assert "dpkit_core.privacy.events" in FOR_PARTS
    for modules in (FOR_PARTS, FOR_TOOLS):
        assert sorted(set(modules)) == modules
    assert len(set(MODULES)) == len(MODULES)


def public_members(owner: Any) -> dict[str, Any]:
    """Return the methods and properties of a class itself whose names do not start with an underscore."""
    kinds = (FunctionType, classmethod, property)
    return {
        name: member
        for name, member in vars(owner).items()
        if isinstance(member, kinds) and not name.startswith("_")
    }


def test_names_in_the_stub_are_those_of_their_modules() -> None:
    tree = ast.parse((ROOT / "dpkit_core/__init__.pyi").read_text(encoding="utf-8"))
    declared = [
        (alias.name, node.module)
        for node in tree.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    ]
    assert sorted(name for name, _ in declared) == sorted(dpkit_core.__all__)
    for name, module in declared:
        assert getattr(dpkit_core, name) is getattr(importlib.import_module(f"dpkit_core.{module}"), name)


@pytest.mark.parametrize("name", NAMES)
def test_public_names_are_documented(name: str) -> None:
    thing = getattr(dpkit_core, name)
    if not (inspect.isclass(thing) or inspect.isfunction(thing)):
        return  # a constant or a type alias: the reference page says what it is
    assert inspect.getdoc(thing), name
    if inspect.isclass(thing):
        for member, value in public_members(thing).items():
            assert inspect.getdoc(value), f"{name}.{member}"


@pytest.mark.parametrize("name", MODULES)
def test_public_modules_are_documented(name: str) -> None:
    module = importlib.import_module(name)
    assert inspect.getdoc(module)
    for member, thing in vars(module).items():
        if inspect.isclass(thing) and thing.__module__ == module.__name__ and not member.startswith("_"):
            assert inspect.getdoc(thing), f"{name}.{member}"


def test_the_reference_has_every_public_name_once() -> None:
    pages = "\n".join(
        page.read_text(encoding="utf-8") for page in sorted((ROOT / "docs/reference").glob("*.md"))
    )
    documented = re.findall(r"^\.\. (?:auto\w+|py:type):: dpkit_core\.(\w+)$", pages, flags=re.MULTILINE)
    assert {name: documented.count(name) for name in NAMES} == dict.fromkeys(NAMES, 1)


def test_no_public_name_is_hidden_by_a_module_of_the_same_name() -> None:
    modules = {path.stem for path in (ROOT / "dpkit_core").glob("*")}
    assert not modules & set(NAMES)
