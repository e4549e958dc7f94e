"""What a part does apart from its work while it has the data: what it prints, warns, and where it goes.

None of that is part of a release, and all of it may say something about the data. So while a part is at work,
what it writes to ``sys.stdout`` and ``sys.stderr`` is kept from everybody, warnings are not shown, and the
working directory and the environment are put back. Threads that are not at work here print as before. While
it is at work, it can neither make a meter nor start a run: what it tried is said in place of a release.

A process has one of each of these, so this is for careless parts. What compiled code writes to a file
descriptor, or a thread that a part starts, is for the command line to catch, and the privacy model has the
rest.
"""

from __future__ import annotations

import io
import os
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TextIO

from dpkit_core.errors import PlanViolation

_SINK: ContextVar[TextIO | None] = ContextVar("_SINK", default=None)


class _Diverted:
    """A standard stream: of the sink where a part is at work, and of the process elsewhere."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(_SINK.get() or self.stream, name)


class _Diversions:
    """Puts diverted streams in place for as long as some part is at work in this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = 0
        self._before: tuple[TextIO, TextIO, Any] = (sys.stdout, sys.stderr, warnings.showwarning)

    def enter(self) -> None:
        with self._lock:
            self._count += 1
            if self._count == 1:
                out, err, show = self._before = (sys.stdout, sys.stderr, warnings.showwarning)
                diverted: list[Any] = [_Diverted(out), _Diverted(err)]
                sys.stdout, sys.stderr = diverted

                def show_elsewhere(*arguments: Any, **options: Any) -> None:
                    if _SINK.get() is None:
                        show(*arguments, **options)

                warnings.showwarning = show_elsewhere

    def leave(self) -> None:
        with self._lock:
            self._count -= 1
            if self._count == 0:
                sys.stdout, sys.stderr, warnings.showwarning = self._before


_DIVERSIONS = _Diversions()


@contextmanager
def confined() -> Iterator[TextIO]:
    """Keep what the code in the block prints; give a stream that holds it."""
    sink = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="replace", write_through=True)
    folder, environment = _folder(), _environment()
    token = _SINK.set(sink)
    _DIVERSIONS.enter()
    try:
        yield sink
    finally:
        _DIVERSIONS.leave()
        _SINK.reset(token)
        if folder is not None and _folder() != folder:
            os.chdir(folder)
        if _environment() != environment:
            os.environ.clear()
            os.environ.update({os.fsdecode(name): os.fsdecode(value) for name, value in environment.items()})


def printed(sink: TextIO) -> str:
    """Return what was written to the stream of ``confined``."""
    sink.seek(0)
    return sink.read()


def _environment() -> dict[str | bytes, str | bytes]:
    """Return the environment as ``os`` keeps it: to decode it for each call takes a third of a small run."""
    return dict(os.environ._data)  # type: ignore[attr-defined]


def _folder() -> str | None:
    try:
        return os.getcwd()
    except OSError:  # it was removed
        return None


# Of each part at work in this context, what it tried. Making a meter or starting a run is for whoever calls
# parts, not for them.
_AT_WORK: ContextVar[tuple[list[str], ...]] = ContextVar("_AT_WORK", default=())


@contextmanager
def at_work() -> Iterator[list[str]]:
    """Mark that a part is at work, so that it can neither make a meter nor start a run.

    Gives a list of what it tried all the same.
    """
    attempts: list[str] = []
    token = _AT_WORK.set((*_AT_WORK.get(), attempts))
    try:
        yield attempts
    finally:
        _AT_WORK.reset(token)


def require_nobody_at_work(what: str) -> None:
    """Raise if a part is at work in this context.

    Raises
    ------
    PlanViolation
        ``what`` says what it tried.
    """
    if at := _AT_WORK.get():
        sentence = f"tried to {what} while it was run; what it released there would be in no certificate"
        at[-1].append(sentence)
        raise PlanViolation(f"a part {sentence}. Parts draw by the meter that they are given")
