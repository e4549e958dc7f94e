"""Everything that is drawn: the only module that imports rich."""

from __future__ import annotations

import math
import sys
import textwrap
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.padding import Padding
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from dpkit_core.composer import Progress as Report

# Seconds. What is over sooner needs no bar.
_PATIENCE = 2.0
_MINUTE, _HOUR = 60.0, 3600.0


def heading(text: str) -> None:
    """Print a heading on standard output."""
    _stdout().print(Text(text, style="bold"))


def lines(texts: Iterable[str]) -> None:
    """Print sentences on standard output, indented and wrapped."""
    width = _stdout().width
    for text in texts:
        print(textwrap.fill(text, width, initial_indent="  ", subsequent_indent="    "))


def table(header: Sequence[str], rows: Iterable[Sequence[str]], *, numeric: Sequence[str] = ()) -> None:
    """Print a table on standard output; columns named in ``numeric`` are aligned on the right."""
    drawn = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for title in header:
        drawn.add_column(title, justify="right" if title in numeric else "left", overflow="fold")
    for row in rows:
        drawn.add_row(*map(Text, row))
    _stdout().print(Padding(drawn, (0, 0, 0, 2), expand=False))


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
        # A stage of one step tells nothing on the way, so its bar only moves.
        bar.update(tasks[stage], completed=done, total=steps if steps > 1 or done else None)

    start = threading.Timer(_PATIENCE, bar.start)
    start.start()
    try:
        yield report
    finally:
        start.cancel()
        start.join()
        bar.stop()


def _stdout() -> Console:
    return Console(file=sys.stdout, highlight=False)


@contextmanager
def trials() -> Iterator[Callable[[int, int, float | None], None]]:
    """Give a report of trials done, in all, and seconds left: a bar on stderr, if that is a terminal."""
    console = Console(file=sys.stderr)
    if not console.is_terminal:
        yield lambda done, total, left: None
        return
    columns = (
        TextColumn("{task.completed:.0f} of {task.total:.0f} trials"),
        BarColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, TextColumn("{task.fields[left]}"), console=console, transient=True) as bar:
        task = bar.add_task("trials", total=0, left="")

        def report(done: int, total: int, left: float | None) -> None:
            bar.update(task, completed=done, total=total, left=_left(left))

        yield report


def duration(seconds: float) -> str:
    """Return a length of time as a person says it.

    >>> duration(0.2), duration(42.4), duration(200.0), duration(7000.0)
    ('1 s', '42 s', '4 min', '1.9 h')
    """
    if seconds < _MINUTE:
        return f"{max(seconds, 1):.0f} s"
    return f"{math.ceil(seconds / _MINUTE)} min" if seconds < _HOUR else f"{seconds / _HOUR:.1f} h"


def _left(seconds: float | None) -> str:
    """Return an estimate no finer than it deserves.

    >>> _left(None), _left(42.0), _left(200.0), _left(7000.0)
    ('no estimate yet', 'less than a minute left', 'about 4 min left', 'about 1.9 h left')
    """
    if seconds is None:
        return "no estimate yet"
    if seconds < _MINUTE:
        return "less than a minute left"
    return f"about {duration(seconds)} left"
