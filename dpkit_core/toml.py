"""TOML files: the form of everything that a person writes or reviews, schemas and plans."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tomli_w

from dpkit_core.errors import DpkitError


def read_toml(path: Path, what: str, error: type[DpkitError]) -> dict[str, Any]:
    """Return the content of a TOML file.

    Raises
    ------
    error
        If ``path`` cannot be read or is not TOML; ``what`` says what it was taken for.
    """
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as cause:
        raise error(f"cannot read {what} {path}: {cause.strerror}") from cause
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as cause:
        raise error(f"{what} {path} is not valid TOML: {cause}") from cause


def to_toml(document: Mapping[str, Any]) -> str:
    """Return plain data as TOML.

    >>> print(to_toml({"columns": {"a b": {"kind": "numeric"}}}), end="")
    [columns."a b"]
    kind = "numeric"
    """
    return tomli_w.dumps(document)
