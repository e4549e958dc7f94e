"""Text for people: sentences and tables, as ``print`` shows them and as HTML for a notebook.

HTML is escaped here and nowhere else. It has no style beyond what a browser or a notebook gives.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from html import escape

import attrs

WIDTH = 80

#: Of many names in a sentence, this many are shown.
SHOWN = 5


def number_of(number: int, noun: str, plural: str | None = None) -> str:
    """Return how many there are of something.

    >>> number_of(1, "feature"), number_of(2, "feature"), number_of(0, "entry", "entries")
    ('1 feature', '2 features', '0 entries')
    """
    return f"{number} {noun if number == 1 else plural or noun + 's'}"


def some_of(names: Sequence[str]) -> str:
    """Return names in quotes, the first few where they are many.

    >>> some_of(["a", "b"]), some_of("abcdefg")
    ("'a', 'b'", "'a', 'b', 'c', 'd', 'e' and 2 more")
    """
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(map(repr, names[:SHOWN])) + more


def indented(sentences: Iterable[str]) -> list[str]:
    """Return the lines of sentences, indented and wrapped."""
    return [
        line
        for sentence in sentences
        for line in textwrap.wrap(sentence, WIDTH, initial_indent="  ", subsequent_indent="    ")
    ]


def columns(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return the lines of a table of short cells; all columns but the first are aligned on the right.

    >>> columns(("feature", "coefficient"), [("carat", "7000")])
    ['  feature  coefficient', '  carat           7000']
    """
    cells = [tuple(header), *map(tuple, rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return [
        "  ".join(["", row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]).rstrip()
        for row in cells
    ]


@attrs.frozen
class Shown:
    """A table of text, all columns but the first aligned on the right, and sentences below it.

    >>> table = Shown(("feature", "coefficient"), (("carat", "7000"),), ("In dollars.",))
    >>> print(table)
      feature  coefficient
      carat           7000
      In dollars.
    >>> table._repr_html_()[:42]
    '<table><thead><tr><th scope="col">feature<'
    """

    header: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    sentences: tuple[str, ...] = ()

    def __str__(self) -> str:
        table = columns(self.header, self.rows) if self.header else []
        return "\n".join([*table, *indented(self.sentences)])

    def _repr_html_(self) -> str:
        table = _table(self.header, self.rows) if self.header else ""
        return table + (f"<ul>{''.join(map(_item, self.sentences))}</ul>" if self.sentences else "")


@attrs.frozen
class Section:
    """A heading, and below it a table, sentences, or both.

    >>> Section("a < b", Shown())._repr_html_()
    '<h4>a &lt; b</h4>'
    """

    heading: str
    table: Shown

    def __str__(self) -> str:
        return f"{self.heading}\n{self.table}"

    def _repr_html_(self) -> str:
        return f"<h4>{escape(self.heading)}</h4>{self.table._repr_html_()}"


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in HTML, whose first column names the rows; a cell may have lines."""
    head = "".join(f'<th scope="col">{_cell(cell)}</th>' for cell in header)
    body = "".join(
        f'<tr><th scope="row">{_cell(first)}</th>'
        + "".join(f"<td>{_cell(cell)}</td>" for cell in rest)
        + "</tr>"
        for first, *rest in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(text: str) -> str:
    return "<br>".join(escape(line) for line in text.splitlines())


def _item(sentence: str) -> str:
    """Return an item of a list in HTML, emphasized if it begins with capitals, such as NOT PRIVATE."""
    first = sentence.partition(":")[0]
    text = f"<strong>{escape(sentence)}</strong>" if first.isupper() else escape(sentence)
    return f"<li>{text}</li>"
