"""Text of the scaffold left in a part whose code has changed."""

from __future__ import annotations

import ast
import importlib.metadata
import inspect
import sys
from collections.abc import Iterator
from typing import Any

from dpkit_command_new.scaffold import PLACEHOLDER, Blueprint
from dpkit_core.plugins.kinds import PARTS, ComponentRef
from dpkit_core.plugins.registry import Registry

#: Paragraphs that begin like this are commands or headings, which hold for any part.
TRUE_OF_ALL = ("    ", "`dpkit", "#")


def leftovers(component: type[Any]) -> list[str]:
    """Return a sentence for each text of ``dpkit new`` left in a part whose code has changed.

    Nothing for a part with the original code, for which the texts are true, nor for one that cannot be found.
    """
    registry = Registry()
    found = [ref for role in PARTS if (ref := registry.provenance(component, role)) is not None]
    if len(found) != 1:
        return []
    (ref,) = found
    blueprint = Blueprint(ref.role, ref.name)
    try:
        source = inspect.getsource(sys.modules[component.__module__])
        metadata = importlib.metadata.metadata(ref.distribution)
    except (OSError, TypeError, KeyError, importlib.metadata.PackageNotFoundError):
        return []
    template = blueprint.files()[f"{blueprint.package}/{blueprint.name}.py"]
    if _code(source) == _code(template):
        return []
    return [
        f"{text} is still what `dpkit new` wrote, but the code is not: say what your part does"
        for text in _stale(component, ref, blueprint, template, metadata)
    ]


def _stale(
    component: type[Any], ref: ComponentRef, blueprint: Blueprint, template: str, metadata: Any
) -> Iterator[str]:
    if ref.summary == blueprint.summary:
        yield f"the description in pyproject.toml, {ref.summary!r},"
    said = (inspect.getdoc(component) or "").partition("\n")[0]
    if said and said in template:
        yield f"the docstring of {component.__name__}, {said!r},"
    readme = metadata.get_payload() or metadata.get("Description", "")
    paragraphs = blueprint.files()["README.md"].split("\n\n")
    kept = [text for text in paragraphs if not text.startswith(TRUE_OF_ALL) and text.strip() in readme]
    if kept:
        yield f"a paragraph of README.md, {kept[0].split('.')[0]!r},"
    if any(PLACEHOLDER in address for address in metadata.get_all("Project-URL") or ()):
        yield f"an address in pyproject.toml, {PLACEHOLDER},"


def _code(source: str) -> str:
    """Return the code of a module without its docstrings."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        match node:
            case ast.Module(body=body) | ast.ClassDef(body=body) | ast.FunctionDef(body=body):
                if ast.get_docstring(node) is not None:
                    node.body = body[1:]
    return ast.dump(tree)
