"""Optional libraries, imported when they are needed and named when they are missing."""

from __future__ import annotations

import importlib
from typing import Any

from dpkit_core.errors import MissingDependency


def extra(module: str, purpose: str, *, install: str = "dpkit[bench]") -> Any:
    """Return a module of an optional library.

    Raises
    ------
    MissingDependency
        With what to install.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        library = module.partition(".")[0].replace("sklearn", "scikit-learn")
        raise MissingDependency(library, purpose, f"pip install '{install}'") from error
