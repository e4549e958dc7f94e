"""Finds the part to check by what its author has at hand: a name, ``module:Class``, or a file."""

from __future__ import annotations

import difflib
import functools
import importlib
import importlib.util
import sys
from pathlib import Path
from typing import Any

from dpkit_check.cases.parts import kind_of
from dpkit_core.errors import AmbiguousName, BrokenPlugin, UnknownName
from dpkit_core.pipeline.parts import BATCHES, FORMS, ITERATES
from dpkit_core.plugins.kinds import PARTS, kind_named
from dpkit_core.plugins.registry import Registry, load_target
from dpkit_core.plugins.resources import resources


def find_part(
    target: str, kind: str | None = None, registry: Registry | None = None
) -> tuple[type[Any], str]:
    """Return the class that ``target`` means and its kind: scorer, selector, accountant or regressor.

    Parameters
    ----------
    target
        An installed name, plain or qualified; ``module:Class``; ``path.py``, or ``path.py:Class`` where the
        file holds several parts.
    kind
        What it is to be, where that cannot be told or several are meant.
    registry
        Which parts are installed.

    Raises
    ------
    UnknownName, AmbiguousName
        If nothing, or more than one thing, is meant.
    BrokenPlugin
        If it cannot be imported.
    """
    role = kind_named(kind, PARTS.values()).name if kind else None
    path, _, attribute = target.partition(".py:")
    if target.endswith(".py") or attribute:
        component = _in_file(Path(path if target.endswith(".py") else f"{path}.py"), attribute, role)
    else:
        component = _installed(target, role, registry or Registry()) or _in_module(target)
    try:
        found = component, role or kind_of(component)
    except ValueError as error:
        raise UnknownName(f"{error}. Give --kind") from error
    _require_common_form(component)
    return found


def _require_common_form(component: type[Any]) -> None:
    """Raise if a part takes no form of data that the kit can make."""
    forms = getattr(component, "forms", ())
    known = {*FORMS, BATCHES, ITERATES}
    if isinstance(forms, tuple) and forms and not known.intersection(map(str, forms)):
        raise UnknownName(
            f"{component.__name__} takes data of a form of its own, {forms[0]}, and only its own tests know "
            "how those are made: attack it there, by dpkit_check.attack_mechanism on pairs of neighbors"
        )


def _installed(name: str, role: str | None, registry: Registry) -> type[Any] | None:
    refs = [ref for ref in registry.refs(role) if ref.answers_to(name)]
    if len(refs) > 1:
        choices = ", ".join(f"{ref.qualified} ({ref.role})" for ref in refs)
        raise AmbiguousName(f"{name!r} may mean {choices}; write the qualified name, or give --kind")
    if not refs and ":" not in name:
        _require_no_source(name)
        names = sorted({ref.name for ref in registry.refs(role)})
        near = difflib.get_close_matches(name, names, n=1)
        hint = f"Did you mean {near[0]!r}? " if near else ""
        what = f"among the {role}s" if role else f"of any kind ({', '.join(f'{each}s' for each in PARTS)})"
        raise UnknownName(
            f"no part {name!r} {what} is installed; installed: {', '.join(names) or 'none'}. "
            f"{hint}Write module:Class or path.py for a part that is not installed"
        )
    # Not ``registry.load``: a class that departs from its protocol is what the kit is there to report.
    component: type[Any] | None = load_target(refs[0]) if refs else None
    return component


def _require_no_source(name: str) -> None:
    """Raise if a name is that of a source: only its tests know how records are written for it."""
    for ref in resources("sources"):
        if ref.answers_to(name):
            raise UnknownName(
                f"{ref} is no part but a source, and only its own tests know how its records are written. "
                "They attack it by dpkit_check.sources.check_source, as those that `dpkit new source` "
                f"writes: run the tests of {ref.distribution}"
            )


def _in_module(target: str) -> type[Any]:
    module, _, attribute = target.partition(":")
    try:
        found: Any = importlib.import_module(module)
        component: type[Any] = functools.reduce(getattr, attribute.split("."), found)
    except Exception as error:
        raise BrokenPlugin(
            f"cannot import {target} ({type(error).__name__}: {error}); give module:Class, importable here"
        ) from error
    return component


def _in_file(path: Path, attribute: str, role: str | None) -> type[Any]:
    # The name under which instances can be pickled; the prefix keeps it from hiding a library.
    name = f"_checked_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise UnknownName(f"there is no Python file {path}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise BrokenPlugin(f"cannot import {path} ({type(error).__name__}: {error})") from error
    own = {
        key: value
        for key, value in vars(module).items()
        # The line that proves conformance calls the class `_` as well.
        if isinstance(value, type) and value.__module__ == name and key != "_" and _is_part(value, role)
    }
    if attribute in own:
        return own[attribute]
    if attribute or len(own) != 1:
        names = ", ".join(own) or "none"
        raise AmbiguousName(
            f"{path} has these parts: {names}; write {path}:Class for the one to check, or give --kind"
        )
    return next(iter(own.values()))


def _is_part(cls: type[Any], role: str | None) -> bool:
    try:
        return role in {None, kind_of(cls)}
    except ValueError:
        return False
