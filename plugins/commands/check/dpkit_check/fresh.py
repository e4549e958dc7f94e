"""A process that was forked before the part saw any table, and forks again for each question."""

from __future__ import annotations

import importlib
import os
import pickle
import select
import struct
import sys
import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Self

# Seconds after which an answer is not waited for: a lock may have been held when the process was forked.
_PATIENCE = 120.0


class NothingAnswers(Exception):
    """Nothing answers; the message says why."""


_SIZE = struct.Struct("!Q")


class Fresh:
    """Answers questions, each in a process of its own that knows nothing but what was imported.

    Parameters
    ----------
    answer
        What makes an answer of a question; both are pickled.
    prepare
        Is given each question before the process is forked that answers it: what it keeps is known to all.
    """

    def __init__(self, answer: Callable[[Any], Any], prepare: Callable[[Any], object]) -> None:
        self._questions = self._answers = self._server = -1
        self._late: list[str] = []
        if not hasattr(os, "fork"):
            return
        asked, self._questions = os.pipe()
        self._answers, given = os.pipe()
        self._server = _forked()
        if self._server == 0:
            try:
                os.close(self._questions)
                os.close(self._answers)
                _serve(asked, given, answer, prepare)
            finally:
                os._exit(0)  # without clean-up, which is the parent's
        os.close(asked)
        os.close(given)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        if self._server > 0:
            os.close(self._questions)
            os.close(self._answers)
            os.waitpid(self._server, 0)
            self._server = -1

    def ask(self, question: Any) -> Any:
        """Return the answer to a question, of a process that has imported what earlier answers had to.

        Not what this process has imported: which modules a part has imported may tell of the tables it saw.

        Raises
        ------
        NothingAnswers
            If there is no fork on this system, what is asked cannot be sent, or the process does not answer.
        """
        if self._server <= 0:
            raise NothingAnswers("this system has no fork")
        try:
            sent = pickle.dumps((self._late, question))
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise NothingAnswers(f"a question cannot be sent to another process: {error}") from error
        os.write(self._questions, _SIZE.pack(len(sent)))
        _write(self._questions, sent)
        ready, _, _ = select.select([self._answers], [], [], _PATIENCE)
        given = _read(self._answers) if ready else None
        if given is None:
            raise NothingAnswers("a process that was forked does not answer")
        self._late, answer = pickle.loads(given)
        return answer


def _forked() -> int:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of threads: the child needs no lock of theirs
        return os.fork()


def _serve(asked: int, given: int, answer: Callable[[Any], Any], prepare: Callable[[Any], object]) -> None:
    """Answer until nobody asks any more."""
    # What a part prints belongs to nobody.
    sys.stdout = sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    while (sent := _read(asked)) is not None:
        imports, question = pickle.loads(sent)
        for name in imports:  # once here; in each answer, what parts import late took most of the time
            with suppress(Exception):
                importlib.import_module(name)
        prepare(question)
        known = set(sys.modules)
        child = _forked()
        if child == 0:
            status = 1
            try:
                found = answer(question)
                sent = pickle.dumps(([name for name in sys.modules if name not in known], found))
                os.write(given, _SIZE.pack(len(sent)))
                _write(given, sent)
                status = 0
            finally:
                os._exit(status)
        with suppress(ChildProcessError):
            _, status = os.waitpid(child, 0)
            if status:
                return


def _write(pipe: int, sent: bytes) -> None:
    view = memoryview(sent)
    while view:
        view = view[os.write(pipe, view) :]


def _read(pipe: int) -> bytes | None:
    head = _exactly(pipe, _SIZE.size)
    return None if head is None else _exactly(pipe, _SIZE.unpack(head)[0])


def _exactly(pipe: int, size: int) -> bytes | None:
    found = b""
    while len(found) < size:
        more = os.read(pipe, size - len(found))
        if not more:
            return None
        found += more
    return found
