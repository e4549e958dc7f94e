"""Runs a notebook and gives its page, for the build; with ``--write`` its outputs go into the notebook, too.

Jupyter is not needed: a cell is run as Python, and its last expression is shown as a notebook shows it, by
``_repr_html_`` where it has one. That covers what the notebooks here use::

    uv run python docs/notebook_page.py --write
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import os
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

NOTEBOOK = Path(__file__).parent / "tutorial/notebook.ipynb"


def outputs(source: str, names: dict[str, Any]) -> list[dict[str, Any]]:
    """Return what a cell shows, as a notebook keeps it; ``names`` are those of all cells."""
    body = ast.parse(source).body
    last = body[-1] if body and isinstance(body[-1], ast.Expr) else None
    body = body if last is None else body[:-1]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(ast.Module(body, []), "<cell>", "exec"), names)
        shown = None if last is None else eval(compile(ast.Expression(last.value), "<cell>", "eval"), names)
    found: list[dict[str, Any]] = []
    if printed.getvalue():
        found.append({"name": "stdout", "output_type": "stream", "text": printed.getvalue()})
    if shown is not None:
        data = {"text/plain": repr(shown)}
        if hasattr(shown, "_repr_html_"):
            data = {"text/plain": str(shown), "text/html": shown._repr_html_()}
        found.append({"data": data, "execution_count": None, "metadata": {}, "output_type": "execute_result"})
    return found


def executed(notebook: dict[str, Any]) -> dict[str, Any]:
    """Return a notebook with new outputs, run in an empty folder."""
    names: dict[str, Any] = {"__name__": "__main__"}
    here, count, cells = Path.cwd(), 0, []
    with tempfile.TemporaryDirectory() as place, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        os.chdir(place)
        try:
            for cell in notebook["cells"]:
                source = "".join(cell["source"])  # a text, or a list of its lines
                if cell["cell_type"] == "markdown":
                    cells.append({**cell, "source": source})
                    continue
                count += 1
                found = outputs(source, names)
                for each in found:
                    each.update({"execution_count": count} if "execution_count" in each else {})
                cells.append({**cell, "source": source, "execution_count": count, "outputs": found})
        finally:
            os.chdir(here)
    return {**notebook, "cells": cells}


def as_markdown(notebook: dict[str, Any]) -> str:
    """Return the page of a notebook that was run, without its title."""
    parts = []
    for cell in notebook["cells"]:
        if cell["cell_type"] == "markdown":
            parts.append(cell["source"])
            continue
        parts.append(f"```python\n{cell['source']}\n```")
        for each in cell["outputs"]:
            data = each.get("data", {})
            if "text/html" in data:
                parts.append(f"````{{raw}} html\n{data['text/html']}\n````")
            else:
                parts.append(f"```text\n{each.get('text') or data['text/plain']}\n```")
    return "\n\n".join(parts).partition("\n")[2].strip()


def page() -> str:
    """Return the page of the tutorial's notebook, run now."""
    return as_markdown(executed(json.loads(NOTEBOOK.read_text(encoding="utf-8"))))


if __name__ == "__main__" and "--write" in sys.argv:
    ran = executed(json.loads(NOTEBOOK.read_text(encoding="utf-8")))
    NOTEBOOK.write_text(json.dumps(ran, indent=1) + "\n", encoding="utf-8")
