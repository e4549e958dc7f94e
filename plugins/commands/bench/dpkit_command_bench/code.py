"""Which code a trial ran: versions alone are not enough while a part is under development."""

from __future__ import annotations

import functools
import hashlib
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import attrs
import numpy as np

from dpkit_command_bench.suite import Suite
from dpkit_core import Registry, __version__
from dpkit_core.errors import DpkitError
from dpkit_core.pipeline.recipes import Recipe

Row = dict[str, Any]

_CODE = {".py", ".so", ".pyd"}


def code_hash(recipe: Recipe) -> str:
    """Return a hash of the files of the packages of a recipe's parts.

    Raises
    ------
    DpkitError
        If a part is not installed, cannot be imported, or does not fit this dpkit.
    """
    registry = Registry()
    parts = [registry.load(registry.find(role, name)) for role, name in sorted(recipe.parts.items())]
    packages = sorted({part.__module__.partition(".")[0] for part in parts})
    origins = (getattr(sys.modules.get(package), "__file__", None) for package in packages)
    return hashlib.sha256("".join(map(_package_hash, packages, origins)).encode()).hexdigest()


@functools.cache
def _package_hash(package: str, origin: str | None) -> str:
    digest = hashlib.sha256(package.encode())
    for path in _files(Path(origin)) if origin else ():
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _files(origin: Path) -> Iterable[Path]:
    if origin.name != "__init__.py":
        return [origin]
    return sorted(path for path in origin.parent.rglob("*") if path.suffix in _CODE)


@attrs.frozen
class Code:
    """The code of the compositions of a suite in this environment.

    Attributes
    ----------
    hashes
        Composition -> ``code_hash``, if all its parts are available.
    missing
        Composition -> why not, for the others.
    """

    hashes: dict[str, str]
    missing: dict[str, str]

    def others(self, rows: Iterable[Row]) -> Counter[str]:
        """Return, by composition, the number of rows from other code: other parts, dpkit or NumPy."""
        return Counter(
            row["composition"]
            for row in rows
            if (row["code_sha256"], row["dpkit"], row["numpy"])
            != (self.hashes.get(row["composition"]), __version__, np.__version__)
        )

    @classmethod
    def of(cls, suite: Suite) -> Code:
        """Return the code of a suite; imports its parts."""
        hashes, missing = {}, {}
        for recipe in suite.compositions:
            try:
                hashes[recipe.name] = code_hash(recipe)
            except DpkitError as error:
                missing[recipe.name] = str(error)
        return cls(hashes, missing)
