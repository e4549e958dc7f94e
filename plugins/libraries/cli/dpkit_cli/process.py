"""The process of a command line: its standard streams and signals, from the first moment to the last.

Standard output belongs to the result. Compiled code knows it by its number and writes there unasked, as
LAPACK does about a NaN, so here Python's ``sys.stdout`` and ``sys.stderr`` get numbers of their own. The
well-known ones lead to standard error, and to nowhere while parts have the data (``unheard``): what they let
out there may say something about the data. Streams that were closed are opened on nothing, lest a file that
is opened later takes their place and the next message is written into it.
"""

from __future__ import annotations

import io
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

_STOPPING = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
_BY_SIGNAL = 128  # what shells add to the number of a signal that ended a program
_WRONG_USE = 2


class Stopped(KeyboardInterrupt):
    """A signal other than that of ctrl-C which asks the program to end; the reservations are released."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.exit_code = _BY_SIGNAL + number


@contextmanager
def undisturbed() -> Iterator[None]:
    """Let no signal stop the block: what it does takes a moment, and half of it would be worse than none."""
    if threading.current_thread() is not threading.main_thread():
        yield  # signals reach the main thread alone
        return
    before = {number: signal.signal(number, lambda *_: None) for number in _STOPPING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def unheard() -> Iterator[None]:
    """Send to nowhere what is written to the numbers of the standard streams and not to Python's.

    Only where these are apart, as in a process of our own.
    """
    if sys.stderr is sys.__stderr__ or not isinstance(sys.stderr, io.TextIOWrapper):
        yield
        return
    kept = [(number, os.dup(number)) for number in (1, 2)]
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        for number, _ in kept:
            os.dup2(nowhere, number)
        yield
    finally:
        for number, copy in kept:
            os.dup2(copy, number)
            os.close(copy)
        os.close(nowhere)


def run(program: Callable[[], None]) -> None:
    """Run a program with standard streams of its own, and end the process with its exit code."""
    own = sys.stdout is sys.__stdout__ and threading.current_thread() is threading.main_thread()
    if own:  # else a program calls us, whose streams and signals are its own
        _open_streams()
        _listen()
    try:
        program()
    finally:
        if own:
            _end()


def _end() -> None:
    # Nothing is left to be interrupted, and a traceback at the end would look like a failure.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if "dpkit_cli.app" not in sys.modules:
        return  # stopped while that was imported: nothing is printed yet, and half of a library is no use
    from dpkit_cli.options import note, until_nobody_reads

    try:
        with until_nobody_reads():
            pass  # of help, say, which typer prints
    except OSError as error:
        note(f"standard output: {error.strerror or error}")
        sys.exit(_WRONG_USE)


def _listen() -> None:
    for number in _STOPPING:
        if number != signal.SIGINT and signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _stop)


def _stop(number: int, frame: FrameType | None) -> None:
    raise Stopped(number)


def _open_streams() -> None:
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the smallest number that is free, which is this one
    if sys.stdin is None:
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - for the whole process
    if sys.stderr is None:
        sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
    own = os.dup(1)
    os.dup2(2, 1)
    sys.stdout = _written_to(own, sys.stdout)
    sys.stderr = _written_to(os.dup(2), sys.stderr)
    sys.stderr.reconfigure(line_buffering=True)


def _written_to(descriptor: int, like: Any) -> io.TextIOWrapper:
    """Return a text stream; a character that it cannot encode is written as an escape, and stops nothing."""
    return open(
        descriptor, "w", encoding=getattr(like, "encoding", None) or "utf-8", errors="backslashreplace"
    )
