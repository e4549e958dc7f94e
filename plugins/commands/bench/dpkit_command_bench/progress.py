"""A progress bar for trials: how many are done, and how long the rest will take."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from dpkit_cli.render import duration
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

_MINUTE = 60.0  # seconds


@contextmanager
def trials() -> Iterator[Callable[[int, int, float | None], None]]:
    """Yield a report of trials done, in total, and seconds left: a bar on stderr, if that is a terminal."""
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


def _left(seconds: float | None) -> str:
    """Return an estimate, rounded to its precision.

    >>> _left(None), _left(42.0), _left(200.0), _left(7000.0)
    ('no estimate yet', 'less than a minute left', 'about 4 min left', 'about 1.9 h left')
    """
    if seconds is None:
        return "no estimate yet"
    if seconds < _MINUTE:
        return "less than a minute left"
    return f"about {duration(seconds)} left"
