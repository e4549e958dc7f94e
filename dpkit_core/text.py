"""Plain text for people: wrapped sentences and columns, of which ``print`` shows a plan or a release."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence

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
