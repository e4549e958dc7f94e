"""Passes over a table: what a driver opens for one is closed at its end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pyarrow as pa

from dpkit_core.data.source import Explain, tried
from dpkit_core.errors import InvalidData


class Passes:
    """The current pass of a connection: there is one at a time, so the next one ends it."""

    def __init__(self) -> None:
        self._now: ExitStack | None = ExitStack()

    def read(
        self, begin: Callable[[ExitStack], Iterator[pa.RecordBatch]], explain: Explain
    ) -> Iterator[pa.RecordBatch]:
        """Yield the batches of what ``begin`` opens; closes it at their end, or when the caller stops."""
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
        """End the pass; no other can begin."""
        if self._now is not None:
            self._end()
        self._now = None

    def _end(self) -> None:
        if self._now is None:
            raise InvalidData("a source was read after it was closed")
        self._now.close()
