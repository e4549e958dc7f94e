"""Entries in one SQLite file, by the standard library: the backend for one machine.

Each transaction opens and closes its own connection, so none is shared between threads or inherited by a
forked process. A writer takes the file's lock before it reads (``BEGIN IMMEDIATE``). The rollback journal is
deleted at commit and its folder is synchronized after that (``synchronous = EXTRA``), so that a commit
survives a loss of power, provided that the disk honors synchronization.

File locks and synchronization are unreliable over a network, so a file on a network file system is refused.

Triggers prevent changing or deleting an entry, and adding one that does not follow the last. They guard
against accidents: the owner of the file can remove them. Hashes and witnesses reveal such a change.
"""

from __future__ import annotations

import os
import re
import sqlite3
import warnings
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Self

import attrs

from dpkit_core.errors import InvalidLedger, LedgerUnavailable
from dpkit_core.ledger.entries import KINDS, NOTHING, OUTCOMES, Entry
from dpkit_core.ledger.store import InDoubt

#: Written into the file, so that no other database is mistaken for a ledger: "dpkt".
_APPLICATION = 0x64706B74

#: How long a writer waits for others.
_SECONDS = 60.0

_COLUMNS = ", ".join(field.name for field in attrs.fields(Entry))
_KINDS = ", ".join(f"'{kind}'" for kind in KINDS)
_SETTLED = ", ".join(f"'{outcome}'" for outcome in OUTCOMES)
_SCHEMA = f"""
CREATE TABLE entry (
  sequence INTEGER PRIMARY KEY,
  kind TEXT NOT NULL CHECK (kind IN ({_KINDS})),
  account TEXT NOT NULL,
  charge TEXT NOT NULL,
  body TEXT NOT NULL,
  total TEXT NOT NULL,
  previous TEXT NOT NULL UNIQUE,
  hash TEXT NOT NULL UNIQUE
) STRICT;
CREATE INDEX by_account ON entry (account, sequence);
CREATE INDEX by_charge ON entry (charge, sequence) WHERE charge <> '';
CREATE UNIQUE INDEX opened_once ON entry (account) WHERE kind = 'account';
CREATE UNIQUE INDEX reserved_once ON entry (charge) WHERE kind = 'reserved';
CREATE UNIQUE INDEX settled_once ON entry (charge) WHERE kind IN ({_SETTLED});
CREATE TRIGGER never_changed BEFORE UPDATE ON entry BEGIN SELECT RAISE(ABORT, 'entries never change'); END;
CREATE TRIGGER never_deleted BEFORE DELETE ON entry BEGIN SELECT RAISE(ABORT, 'entries never change'); END;
CREATE TRIGGER at_the_end BEFORE INSERT ON entry
WHEN NEW.sequence IS NOT (SELECT coalesce(max(sequence), 0) + 1 FROM entry)
  OR NEW.previous IS NOT coalesce((SELECT hash FROM entry ORDER BY sequence DESC LIMIT 1), '{NOTHING}')
BEGIN SELECT RAISE(ABORT, 'an entry follows the last one'); END;
PRAGMA application_id = {_APPLICATION};
"""

#: File systems whose locks another machine does not see, or does not keep.
_NETWORK = re.compile(
    r"9p|afs|beegfs|ceph|cifs|davfs2?|glusterfs|gpfs|lustre|ncpfs|nfs4?|smb3|smbfs|vboxsf|vmhgfs"
    r"|fuse\.(?:cephfs|curlftpfs|davfs2?|gcsfuse|glusterfs|juicefs|rclone|s3fs|sshfs|vmhgfs-fuse)"
)
_MOUNTS = Path("/proc/self/mountinfo")


class _Transaction:
    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def last(self, account: str | None = None, /) -> Entry | None:
        if account is None:
            return self._one("ORDER BY sequence DESC LIMIT 1")
        return self._one("WHERE account = ? ORDER BY sequence DESC LIMIT 1", account)

    def at(self, sequence: int, /) -> Entry | None:
        return self._one("WHERE sequence = ?", sequence)

    def opening(self, account: str, /) -> Entry | None:
        return self._one("WHERE account = ? AND kind = 'account'", account)

    def of_charge(self, charge: str, /) -> Sequence[Entry]:
        return self._all("WHERE charge = ? AND charge <> '' ORDER BY sequence", charge)

    def after(self, sequence: int, limit: int, /) -> Sequence[Entry]:
        return self._all("WHERE sequence > ? ORDER BY sequence LIMIT ?", sequence, limit)

    def before(self, sequence: int, limit: int, account: str | None = None, /) -> Sequence[Entry]:
        if account is None:
            return self._all("WHERE sequence < ? ORDER BY sequence DESC LIMIT ?", sequence, limit)
        return self._all(
            "WHERE account = ? AND sequence < ? ORDER BY sequence DESC LIMIT ?", account, sequence, limit
        )

    def openings(self) -> Sequence[Entry]:
        return self._all("WHERE kind = 'account' ORDER BY sequence")

    def count(self, account: str, kind: str | None = None, /) -> int:
        which, values = ("", (account,)) if kind is None else (" AND kind = ?", (account, kind))
        rows = self._connection.execute(f"SELECT count(*) FROM entry WHERE account = ?{which}", values)
        return rows.fetchone()[0]

    def append(self, entry: Entry, /) -> None:
        row = attrs.astuple(entry, recurse=False)
        self._connection.execute(f"INSERT INTO entry ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)

    def _all(self, condition: str, *values: str | int) -> list[Entry]:
        rows = self._connection.execute(f"SELECT {_COLUMNS} FROM entry {condition}", values)
        return [Entry(*row) for row in rows]

    def _one(self, condition: str, *values: str | int) -> Entry | None:
        return next(iter(self._all(condition, *values)), None)


@attrs.frozen
class SqliteStore:
    """One file, with the transactions that ``dpkit_core.ledger.store`` specifies."""

    path: Path

    @classmethod
    def create(cls, url: str, /) -> Self:
        """Return a new file, or one without entries."""
        store = cls(_absolute(url))
        if not store.path.parent.is_dir():
            raise InvalidLedger(f"cannot create {store.path}: there is no folder {store.path.parent}")
        store._require_local()
        with store._connection("rwc") as connection, _begun(connection, write=True):
            if connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0:
                for statement in _statements(_SCHEMA):
                    connection.execute(statement)
            else:
                store._require_ledger(connection)
        return store

    @classmethod
    def open(cls, url: str, /) -> Self:
        """Return the file that ``create`` made."""
        store = cls(_absolute(url))
        if not store.path.is_file():
            raise InvalidLedger(
                f"there is no ledger {store.path}; `dpkit ledger create {store.path.name} ...` creates one"
            )
        store._require_local()
        store._require_one_name()
        return store

    @property
    def url(self) -> str:
        """The path."""
        return str(self.path)

    @property
    def shown(self) -> str:
        """The path."""
        return str(self.path)

    @contextmanager
    def transaction(self, *, write: bool) -> Iterator[_Transaction]:
        """Yield a transaction on its own connection."""
        with self._connection("rw") as connection, _begun(connection, write=write):
            self._require_ledger(connection)
            yield _Transaction(connection)

    @contextmanager
    def _connection(self, mode: str) -> Iterator[sqlite3.Connection]:
        try:
            uri = f"{self.path.as_uri()}?mode={mode}"
            with closing(
                sqlite3.connect(uri, uri=True, timeout=_SECONDS, isolation_level=None)
            ) as connection:
                for pragma in ("synchronous = EXTRA", "fullfsync = ON", "trusted_schema = OFF"):
                    connection.execute(f"PRAGMA {pragma}")
                (journal,) = connection.execute("PRAGMA journal_mode = DELETE").fetchone()
                if journal != "delete":
                    raise InvalidLedger(
                        f"ledger {self.path} has journal mode {journal}, which may lose committed entries; "
                        "set it to DELETE while the ledger is not in use"
                    )
                yield connection
        except sqlite3.OperationalError as error:  # locked, read-only, full, no permission
            raise LedgerUnavailable(
                f"ledger {self.path} cannot be used now ({error}); nothing was written to it"
            ) from error
        except sqlite3.IntegrityError as error:
            raise InvalidLedger(f"ledger {self.path} refuses an entry ({error})") from error
        except sqlite3.DatabaseError as error:
            raise InvalidLedger(f"{self.path} is not a ledger, or is damaged ({error})") from error

    def _require_ledger(self, connection: sqlite3.Connection) -> None:
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        if application != _APPLICATION:
            raise InvalidLedger(f"{self.path} is another kind of database, not a dpkit ledger")

    def _require_one_name(self) -> None:
        # Recovery after a crash finds the journal by the file's name.
        if (links := self.path.stat().st_nlink) > 1:
            raise InvalidLedger(
                f"ledger {self.path} has {links} names (hard links), and recovery from a crash under one of "
                "them does not work under another; remove all but one"
            )

    def _require_local(self) -> None:
        kind = file_system(self.path)
        if kind is not None and _NETWORK.fullmatch(kind):
            raise InvalidLedger(
                f"{self.path} is on a network file system ({kind}), whose locks are unreliable: two runs "
                "could spend the same budget. Keep the ledger on a local disk, or in PostgreSQL"
            )
        if kind is not None and kind.startswith("fuse."):
            warnings.warn(
                f"{self.path} is on a file system of type {kind}; if other machines can access it, keep "
                "the ledger on a local disk, or in PostgreSQL",
                RuntimeWarning,
                stacklevel=4,
            )


@contextmanager
def _begun(connection: sqlite3.Connection, *, write: bool) -> Iterator[None]:
    connection.execute("BEGIN IMMEDIATE" if write else "BEGIN")
    try:
        yield
    except BaseException:
        if connection.in_transaction:  # some errors end the transaction
            connection.execute("ROLLBACK")
        raise
    try:
        connection.execute("COMMIT")
    except sqlite3.Error as error:
        # An error may occur after the journal is deleted, which is the moment of the commit.
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise InDoubt(f"could not commit: {error}") from error


def _statements(script: str) -> Iterator[str]:
    statement = ""
    for line in script.splitlines():
        statement += line + "\n"
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""


def _absolute(url: str) -> Path:
    return Path(str(url).removeprefix("sqlite://")).expanduser().resolve()


def file_system(path: Path, mounts: str | None = None) -> str | None:
    """Return the Linux name of the file system type of a path; None if it is unknown.

    Parameters
    ----------
    path
        Absolute, without links; it need not exist.
    mounts
        The table of mounts; by default that of the kernel.
    """
    if mounts is None:
        try:
            mounts = os.fsdecode(_MOUNTS.read_bytes())
        except OSError:
            return None
    found: tuple[int, str] | None = None
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        point = Path(re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), before.split()[4]))
        # Of two mounts at one path the later covers the earlier.
        if path.is_relative_to(point) and (found is None or len(point.parts) >= found[0]):
            found = (len(point.parts), after.split()[0])
    return found and found[1]
