"""Passes over a table: closes what a driver opens, and never repeats its errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TypeVar

import pyarrow as pa

from dpkit_core.errors import DpkitError, InvalidData

_Result = TypeVar("_Result")

#: What to say of an error of a driver. It may look at the driver's sentence, and never repeats it: that
#: quotes records, and passwords.
Explain = Callable[[Exception], DpkitError]


def tried(step: Callable[[], _Result], explain: Explain) -> _Result:
    """Return what a driver call returns.

    Its error is replaced by one from ``explain`` without cause or context, which tracebacks and ledgers would
    show.
    """
    try:
        return step()
    except DpkitError:
        raise
    except Exception as failure:
        problem = explain(failure)
    # Here, where the failure is no longer handled, so that it does not become the context.
    raise problem


class Passes:
    """The pass that a connection is reading: one at a time, so that another ends it."""

    def __init__(self) -> None:
        self._now: ExitStack | None = ExitStack()

    def read(
        self, begin: Callable[[ExitStack], Iterator[pa.RecordBatch]], explain: Explain
    ) -> Iterator[pa.RecordBatch]:
        """Yield the batches of what ``begin`` opens, which is closed at their end, or when they are left."""
        self._end()
        with ExitStack() as opened:
            self._now = opened
            batches = tried(lambda: begin(opened), explain)
            while (batch := tried(lambda: next(batches, None), explain)) is not None:
                yield batch
                if self._now is not opened:
                    raise InvalidData(
                        "a pass over a database continued after another began or its source was closed"
                    )

    def close(self) -> None:
        """End the pass; there is none after it."""
        if self._now is not None:
            self._end()
        self._now = None

    def _end(self) -> None:
        if self._now is None:
            raise InvalidData("a source was read after it was closed")
        self._now.close()
