"""Everything that is drawn: the only module that imports rich."""

from __future__ import annotations

import itertools
import math
import operator
import sys
import textwrap
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console
from rich.padding import Padding
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from dpkit_core.pipeline.plan import Progress as Report

# Shorter work needs no bar.
_SECONDS_BEFORE_A_BAR = 2.0
# From this many rows on, a table is laid out without rich, which takes about a millisecond a row.
_MANY_ROWS = 500
_NARROWEST = 8
_MINUTE, _HOUR = 60.0, 3600.0


def heading(text: str) -> None:
    """Print a heading on standard output."""
    _stdout().print(Text(text, style="bold"))


def width() -> int:
    """Return how many columns standard output has."""
    return _stdout().width


def lines(texts: Iterable[str]) -> None:
    """Print sentences on standard output, indented and wrapped."""
    width = _stdout().width
    for text in texts:
        print(textwrap.fill(text, width, initial_indent="  ", subsequent_indent="    "))


def table(
    header: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    numeric: Sequence[str] = (),
    whole: Sequence[str] = (),
) -> None:
    """Print a table on standard output.

    Columns named in ``numeric`` are aligned on the right; neither those nor the ones in ``whole``
    are broken into lines. Of many rows the first ones decide how wide the columns are, and the others are
    printed as they come.
    """
    rows = iter(rows)
    first = list(itertools.islice(rows, _MANY_ROWS))
    if len(first) == _MANY_ROWS:
        for line in _lines_of_many(header, first, rows, numeric, whole):
            print(line)
        return
    drawn = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for title in header:
        if title in numeric:
            drawn.add_column(title, justify="right", no_wrap=True)
        else:
            drawn.add_column(title, overflow="fold", no_wrap=title in whole)
    for row in first:
        drawn.add_row(*map(Text, row))
    _stdout().print(Padding(drawn, (0, 0, 0, 2), expand=False))


def _lines_of_many(
    header: Sequence[str],
    first: Sequence[Sequence[str]],
    others: Iterable[Sequence[str]],
    numeric: Sequence[str],
    whole: Sequence[str],
) -> Iterator[str]:
    """Yield the lines of a table of many rows, where rich would measure each cell a dozen times."""
    widths = [max(map(cell_len, cells)) for cells in zip(header, *first, strict=True)]
    broken = [place for place, title in enumerate(header) if title not in (*numeric, *whole)]
    gap = "   "
    room = width() - 2 - len(gap) * (len(header) - 1)
    while sum(widths) > room and max((widths[place] for place in broken), default=0) > _NARROWEST:
        widths[max(broken, key=widths.__getitem__)] -= 1

    simple = "  " + gap.join(
        f"{{:{'>' if title in numeric else '<'}{size}}}" for title, size in zip(header, widths, strict=True)
    )
    limits = [size if place in broken else sys.maxsize for place, size in enumerate(widths)]

    def laid_out(row: Sequence[str]) -> Iterator[str]:
        # Of plain text, every letter is as wide as one.
        if "".join(row).isascii() and all(map(operator.le, map(len, row), limits)):
            yield simple.format(*row).rstrip()
            return
        cells = [
            textwrap.wrap(cell, widths[place])
            if place in broken and cell_len(cell) > widths[place]
            else [cell]
            for place, cell in enumerate(row)
        ]
        for line in itertools.zip_longest(*cells, fillvalue=""):
            padded = []
            for text, size, title in zip(line, widths, header, strict=True):
                space = " " * (size - cell_len(text))
                padded.append(space + text if title in numeric else text + space)
            yield "  " + gap.join(padded).rstrip()

    yield from laid_out(header)
    yield "  " + "─" * (sum(widths) + len(gap) * (len(header) - 1))
    for row in itertools.chain(first, others):
        yield from laid_out(row)


@contextmanager
def progress() -> Iterator[Report]:
    """Give a report function; after two seconds of work it draws a bar on stderr, if that is a terminal."""
    console = Console(file=sys.stderr)
    if not console.is_terminal:
        yield lambda stage, done, steps: None
        return
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        # Started from another thread, it must not exchange the streams under the work.
        redirect_stdout=False,
        redirect_stderr=False,
    )
    tasks = {}

    def report(stage: str, done: int, steps: int) -> None:
        if stage not in tasks:
            tasks[stage] = bar.add_task(stage)
        # A stage of one step reports no progress, so its bar only moves.
        bar.update(tasks[stage], completed=done, total=steps if steps > 1 or done else None)

    start = threading.Timer(_SECONDS_BEFORE_A_BAR, bar.start)
    start.start()
    try:
        yield report
    finally:
        start.cancel()
        start.join()
        bar.stop()


class _Output(Console):
    def on_broken_pipe(self) -> None:
        """Leave the error to the caller; rich would end the program, whatever it was about to do."""
        raise  # noqa: PLE0704 - rich calls this where it has caught the error


def _stdout() -> Console:
    return _Output(file=sys.stdout, highlight=False)


def duration(seconds: float) -> str:
    """Return a length of time as a person says it.

    >>> duration(0.2), duration(42.4), duration(200.0), duration(7000.0)
    ('1 s', '42 s', '4 min', '1.9 h')
    """
    if seconds < _MINUTE:
        return f"{max(seconds, 1):.0f} s"
    return f"{math.ceil(seconds / _MINUTE)} min" if seconds < _HOUR else f"{seconds / _HOUR:.1f} h"
