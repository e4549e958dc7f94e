"""Plain text for people: wrapped sentences and columns, of which ``print`` shows a plan or a release."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence

WIDTH = 80


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
