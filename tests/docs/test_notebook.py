"""The notebook of the documentation runs, shows what it says, and is stored as it was run."""

import json
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def pages():
    sys.path.insert(0, str(DOCS))
    try:
        import notebook_page
    finally:
        sys.path.remove(str(DOCS))
    return notebook_page


def stored(pages):
    return json.loads(pages.NOTEBOOK.read_text(encoding="utf-8"))


def kinds(notebook):
    """Return which forms each cell shows, which noise does not change."""
    return [
        [each["output_type"], *sorted(each.get("data", {}))]
        for cell in notebook["cells"]
        for each in cell.get("outputs", ())
    ]


def test_the_notebook_runs_and_shows_what_is_stored(pages, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    ran = pages.executed(stored(pages))
    assert Path.cwd() == tmp_path
    assert kinds(ran) == kinds(stored(pages))
    assert [cell["source"] for cell in ran["cells"]] == [
        "".join(cell["source"]) for cell in stored(pages)["cells"]
    ]
    page = pages.as_markdown(ran)
    assert "# A private model in a notebook" not in page  # the page has a title
    assert page.count("{raw} html") == 3
    assert "epsilon alone" in page
    assert ran["cells"][-1]["outputs"][0]["data"]["text/plain"] == "True"  # it is private


def test_an_error_in_a_cell_is_not_hidden(pages):
    broken = {"cells": [{"cell_type": "code", "source": ["x = 1\n", "x / 0"]}]}
    with pytest.raises(ZeroDivisionError):
        pages.executed(broken)


def test_a_cell_shows_what_it_prints_and_its_last_expression(pages):
    names = {}
    assert pages.outputs("x = 2\nprint(x)", names) == [
        {"name": "stdout", "output_type": "stream", "text": "2\n"}
    ]
    assert pages.outputs("x + 1", names)[0]["data"] == {"text/plain": "3"}
    assert pages.outputs("y = 1", names) == []
