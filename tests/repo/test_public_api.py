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
NAMES = sorted(dpkit_core._HOME_OF)

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


def declared_to_type_checkers() -> dict[str, str]:
    """Return public name -> module, from the ``if TYPE_CHECKING`` block of the package."""
    tree = ast.parse((ROOT / "dpkit_core/__init__.py").read_text(encoding="utf-8"))
    (block,) = (node for node in tree.body if isinstance(node, ast.If) and isinstance(node.test, ast.Name))
    return {
        str(alias.asname): str(node.module)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def public_members(owner: Any) -> dict[str, Any]:
    """Return the methods and properties of a class itself whose names do not start with an underscore."""
    kinds = (FunctionType, classmethod, property)
    return {
        name: member
        for name, member in vars(owner).items()
        if isinstance(member, kinds) and not name.startswith("_")
    }


def test_type_checkers_see_the_names_that_load_at_run_time() -> None:
    homes = {name: f"dpkit_core.{home}" for name, home in dpkit_core._HOME_OF.items()}
    assert declared_to_type_checkers() == homes


def test_type_checkers_do_not_see_the_function_that_would_accept_any_name() -> None:
    tree = ast.parse((ROOT / "dpkit_core/__init__.py").read_text(encoding="utf-8"))
    assert "__getattr__" not in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    assert "if not TYPE_CHECKING:" in {ast.unparse(node).splitlines()[0] for node in tree.body}


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
    assert {name: documented.count(name) for name in dpkit_core.__all__} == dict.fromkeys(
        dpkit_core.__all__, 1
    )


def test_no_public_name_is_hidden_by_a_module_of_the_same_name() -> None:
    modules = {path.stem for path in (ROOT / "dpkit_core").glob("*")}
    assert not modules & set(NAMES)
