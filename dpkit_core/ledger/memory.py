"""Entries in the memory of one process: for notebooks and tests, where nothing has to outlive the session.

Other processes are refused, forked ones too: each would have a copy of the budget.
"""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Self

from dpkit_core.errors import InvalidLedger
from dpkit_core.ledger.entries import Entry


class MemoryStore:
    """A list of entries, one thread at a time."""

    url = "memory:"
    shown = "the ledger in memory"

    def __init__(self) -> None:
        self._entries: list[Entry] = []
        self._lock = threading.Lock()
        self._process = os.getpid()

    @classmethod
    def create(cls, url: str = url, /) -> Self:
        """Return an empty one."""
        return cls()

    @classmethod
    def open(cls, url: str, /) -> Self:
        """Raise: what is in memory cannot be opened a second time."""
        raise InvalidLedger(
            "a ledger in memory belongs to the program that made it; keep one in a file to open it elsewhere"
        )

    @contextmanager
    def transaction(self, *, write: bool) -> Iterator[_Transaction]:
        """Return a transaction; entries are added when it ends."""
        if self._process != os.getpid():
            raise InvalidLedger(
                f"this ledger is in the memory of process {self._process}, and this is process "
                f"{os.getpid()}: "
                "each would spend the whole budget. Keep the ledger in a file"
            )
        with self._lock:
            transaction = _Transaction(self._entries)
            yield transaction
            self._entries += transaction.added


class _Transaction:
    def __init__(self, entries: list[Entry]) -> None:
        self._entries = entries
        self.added: list[Entry] = []

    def last(self, account: str | None = None, /) -> Entry | None:
        return next((e for e in reversed(self._entries) if account in (None, e.account)), None)

    def at(self, sequence: int, /) -> Entry | None:
        return self._entries[sequence - 1] if 1 <= sequence <= len(self._entries) else None

    def opening(self, account: str, /) -> Entry | None:
        return next((e for e in self._entries if e.kind == "account" and e.account == account), None)

    def of_charge(self, charge: str, /) -> Sequence[Entry]:
        return [e for e in self._entries if charge and e.charge == charge]

    def after(self, sequence: int, limit: int, /) -> Sequence[Entry]:
        return self._entries[sequence : sequence + limit]

    def before(self, sequence: int, limit: int, account: str | None = None, /) -> Sequence[Entry]:
        older = (e for e in reversed(self._entries[: max(sequence - 1, 0)]) if account in (None, e.account))
        return list(itertools.islice(older, limit))

    def openings(self) -> Sequence[Entry]:
        return [e for e in self._entries if e.kind == "account"]

    def count(self, account: str, kind: str | None = None, /) -> int:
        return sum(e.account == account and kind in (None, e.kind) for e in self._entries)

    def append(self, entry: Entry, /) -> None:
        self.added.append(entry)
