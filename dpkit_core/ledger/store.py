"""What a backend promises: a list of entries that grows at its end, one writer at a time.

A backend knows nothing of privacy. Whether a run is admitted, what an entry says and how entries are chained
is decided once, in ``dpkit_core.ledger.ledger``, inside one transaction of the backend. So it has three
duties, which ``dpkit_check.ledger`` tests:

*serial*: what a writing transaction reads, nobody changes before it has ended;

*durable*: what was appended is there after a loss of power, once the transaction has ended without an error;

*whole*: of a transaction that ends in an error nothing remains, or all of it does and ``InDoubt`` is
raised.

Backends of other distributions are entry points, named like the scheme of their URLs::

    [project.entry-points."dpkit.ledgers"]
    postgresql = "dpkit_ledger_postgresql:PostgresqlStore"
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol, Self

from dpkit_core.ledger.entries import Entry


class InDoubt(Exception):
    """A transaction that may or may not have taken place, or that has to be begun again."""


class Transaction(Protocol):
    """What can be asked of the entries, and added to them, in one go."""

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
        """Return how many entries an account has, of any kind or of one; none is returned."""
        ...

    def append(self, entry: Entry, /) -> None:
        """Add an entry at the end."""
        ...


class Store(Protocol):
    """Where entries are kept."""

    @classmethod
    def create(cls, url: str, /) -> Self:
        """Return a new place, without entries.

        Raises
        ------
        InvalidLedger
            If there is something already, or entries cannot be kept there.
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
        """What opens it again, in another process, too."""
        ...

    @property
    def shown(self) -> str:
        """The same for people, without a password."""
        ...

    def transaction(self, *, write: bool) -> AbstractContextManager[Transaction]:
        """Return a transaction; it is undone if the block raises.

        Raises
        ------
        InDoubt
            If it may have taken place although it failed, or would succeed if it were begun again.
        LedgerUnavailable
            If it has not taken place, and will not for now.
        InvalidLedger
            If what is stored is damaged.
        """
        ...
