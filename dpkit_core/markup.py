"""HTML for people: tables and sentences, of which a notebook shows a plan or a release.

Text is escaped here and nowhere else. There is no style beyond what a browser or a notebook gives.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape


def heading(text: str, level: int = 4) -> str:
    """Return a heading.

    >>> heading("a < b")
    '<h4>a &lt; b</h4>'
    """
    return f"<h{level}>{escape(text)}</h{level}>"


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table whose first column names the rows; a cell may have lines.

    >>> table(("feature", "coefficient"), [("carat", "7000")])[:42]
    '<table><thead><tr><th scope="col">feature<'
    """
    head = "".join(f'<th scope="col">{_cell(cell)}</th>' for cell in header)
    body = "".join(
        f'<tr><th scope="row">{_cell(first)}</th>'
        + "".join(f"<td>{_cell(cell)}</td>" for cell in rest)
        + "</tr>"
        for first, *rest in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def sentences(texts: Iterable[str]) -> str:
    """Return sentences as a list; one that begins with capitals, such as NOT PRIVATE, is emphasized.

    >>> sentences(["NOT PRIVATE: a seed.", "Total: 1."])
    '<ul><li><strong>NOT PRIVATE: a seed.</strong></li><li>Total: 1.</li></ul>'
    """
    return f"<ul>{''.join(f'<li>{_emphasized(text)}</li>' for text in texts)}</ul>"


def _emphasized(text: str) -> str:
    first = text.partition(":")[0]
    return f"<strong>{escape(text)}</strong>" if first.isupper() else escape(text)


def _cell(text: str) -> str:
    return "<br>".join(escape(line) for line in text.splitlines())
