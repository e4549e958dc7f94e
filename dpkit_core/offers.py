"""What distributions offer besides parts: recipes, suites of experiments, generators of tables.

Each is an entry point, so third parties add theirs beside the parts that need them::

    [project.entry-points."dpkit.recipes"]
    k-tukey = "dpkit_regressor_tukey.recipes"           the file recipes/k-tukey.toml of that package

    [project.entry-points."dpkit.suites"]
    dpkendall = "dpkit_regressor_tukey.suites"          the file suites/dpkendall.toml

    [project.entry-points."dpkit.generators"]
    waves = "my_package:waves"                          a function that makes a table

A recipe or suite is data: it is read where its package lies, and the package's code is not imported.
"""

from __future__ import annotations

import difflib
import importlib.metadata
import importlib.util
from pathlib import Path
from typing import Any

import attrs

from dpkit_core.errors import AmbiguousName, BrokenPlugin, UnknownName
from dpkit_core.registry import ComponentRef
from dpkit_core.toml import read_toml

KINDS = ("recipes", "suites", "generators")


def offers(kind: str) -> tuple[ComponentRef, ...]:
    """Return what is installed of one of ``KINDS``, by name; nothing is imported."""
    found = importlib.metadata.entry_points(group=f"dpkit.{kind}")
    # A set, because a folder that is on sys.path twice offers its files twice.
    return tuple(sorted({ComponentRef.from_entry_point(point) for point in found}, key=attrs.astuple))


def find_offer(kind: str, name: str) -> ComponentRef:
    """Return the one offer that ``name``, plain or qualified by its distribution, means.

    Raises
    ------
    UnknownName
        With the installed names and the nearest one.
    AmbiguousName
        If several distributions offer the name.
    """
    refs = offers(kind)
    matches = [ref for ref in refs if ref.answers_to(name)]
    if len(matches) == 1:
        return matches[0]
    if matches:
        spellings = " or ".join(ref.qualified for ref in matches)
        raise AmbiguousName(f"{matches[0].role} {name!r} has {len(matches)} meanings: write {spellings}")
    names = sorted({ref.name for ref in refs})
    near = difflib.get_close_matches(name, names, n=1)
    raise UnknownName(
        f"no {kind.removesuffix('s')} {name!r} is installed; installed {kind}: {', '.join(names) or 'none'}."
        + (f" Did you mean {near[0]!r}?" if near else " Install the distribution that offers it")
    )


def offered_file(ref: ComponentRef) -> Path:
    """Return the TOML file of a recipe or suite, found without importing its package.

    Raises
    ------
    BrokenPlugin
        If the distribution does not hold the file that its entry point promises.
    """
    package, *folders = ref.module.split(".")
    spec = importlib.util.find_spec(package)
    for location in (spec.submodule_search_locations or ()) if spec else ():
        path = Path(location, *folders, f"{ref.name}.toml")
        if path.is_file():
            return path
    raise BrokenPlugin(
        f"{ref} is installed, but {ref.target} holds no file {ref.name}.toml. Reinstall "
        f"{ref.distribution}, or tell its authors"
    )


def read_offer(ref: ComponentRef) -> dict[str, Any]:
    """Return the content of a recipe or suite."""
    return read_toml(offered_file(ref), ref.role, BrokenPlugin)
