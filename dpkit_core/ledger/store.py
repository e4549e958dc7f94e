"""The contract of a backend: a list of entries that grows at its end, with one writer at a time.

A backend knows nothing of privacy. Whether a run is admitted, what an entry holds and how entries are chained
is decided once, in ``dpkit_core.ledger.ledger``, inside one transaction of the backend. So it has three
duties, which ``dpkit_ledger_sqlite.promises`` tests:

*serial*: what a writing transaction reads does not change before it has ended;

*durable*: once a transaction has ended without an error, its entries survive a loss of power;

*whole*: a transaction that ends in an error leaves nothing, or leaves everything and raises ``InDoubt``.

Backends of other distributions are entry points, named like the scheme of their URLs::

    [project.entry-points."dpkit.ledgers"]
    postgresql = "dpkit_ledger_postgresql:PostgresqlStore"
"""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol, Self

from dpkit_core.errors import InvalidLedger
from dpkit_core.ledger.entries import Entry


class InDoubt(Exception):
    """A transaction may or may not have taken place, or must be repeated."""


class Transaction(Protocol):
    """The queries on entries, and the additions to them, in one transaction."""

    def last(self, account: str | None = None, /) -> Entry | None:
        """Return the last entry, of the ledger or of one account."""
        ...

    def at(self, sequence: int, /) -> Entry | None:
        """Return the entry of that number."""
        ...

    def opening(self, account: str, /) -> Entry | None:
        """Return the entry of kind ``account`` that opened it."""
        ...

    def of_charge(self, charge: str, /) -> Sequence[Entry]:
        """Return the entries of a charge, in order: none, its reservation, and its settlement."""
        ...

    def after(self, sequence: int, limit: int, /) -> Sequence[Entry]:
        """Return up to ``limit`` entries that follow the one of that number, in order."""
        ...

    def before(self, sequence: int, limit: int, account: str | None = None, /) -> Sequence[Entry]:
        """Return up to ``limit`` entries that precede the one of that number, newest first.

        Of the ledger, or of one account.
        """
        ...

    def openings(self) -> Sequence[Entry]:
        """Return the entries of kind ``account``, in order."""
        ...

    def count(self, account: str, kind: str | None = None, /) -> int:
        """Return how many entries an account has, of any kind or of one."""
        ...

    def append(self, entry: Entry, /) -> None:
        """Add an entry at the end."""
        ...


class Store(Protocol):
    """A place that keeps entries."""

    @classmethod
    def create(cls, url: str, /) -> Self:
        """Return a new place, without entries.

        Raises
        ------
        InvalidLedger
            If something is there already, or entries cannot be stored there.
        """
        ...

    @classmethod
    def open(cls, url: str, /) -> Self:
        """Return the place that ``create`` made.

        Raises
        ------
        InvalidLedger
            If there is none.
        """
        ...

    @property
    def url(self) -> str:
        """The URL that opens it again, also in another process."""
        ...

    @property
    def shown(self) -> str:
        """The same, without a password, for messages."""
        ...

    def transaction(self, *, write: bool) -> AbstractContextManager[Transaction]:
        """Return a transaction; it is undone if the block raises.

        Raises
        ------
        InDoubt
            If it may have taken place although it failed, or would succeed if repeated.
        LedgerUnavailable
            If it has not taken place, and will not for now.
        InvalidLedger
            If what is stored is damaged.
        """
        ...


class MemoryStore:
    """Entries in the memory of one process, one thread at a time: for notebooks and tests.

    Other processes are refused, forked ones too: each would have a copy of the budget.
    """

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
    def transaction(self, *, write: bool) -> Iterator[_InMemory]:
        """Return a transaction; entries are added when it ends."""
        if self._process != os.getpid():
            raise InvalidLedger(
                f"this ledger is in the memory of process {self._process}, and this is process "
                f"{os.getpid()}: each would spend the whole budget. Keep the ledger in a file"
            )
        with self._lock:
            transaction = _InMemory(self._entries)
            yield transaction
            self._entries += transaction.added


class _InMemory:
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
