"""Entries in a PostgreSQL table: the backend for several machines.

*Serial.* A second table has one row, the *turn*. A writing transaction first takes a lock on it (``SELECT
... FOR UPDATE``), so one writes at a time. The isolation level is READ COMMITTED, at which every statement
sees what was committed before it began, hence all earlier writes. No transaction has to be retried because of
others; one that the server ends for its own reasons is retried. Readers take one snapshot (REPEATABLE READ)
and never wait.

*Durable.* A commit returns when it is on disk (``synchronous_commit = on``, whatever the defaults of the role
or database), and a server that does not wait for its disk (``fsync = off``) is refused. An asynchronous
replica may lack the last entries when it takes over: releases are witnesses to them, and the audit reports
it.

*Atomic.* A connection that is lost before the commit is sent undoes everything. One that is lost afterwards
leaves the outcome unknown: that is ``InDoubt``, and repeating the request resolves it.

Triggers prevent changing or deleting an entry, and adding one that does not follow the last. The roles of
users need only ``SELECT`` and ``INSERT`` on the entries and ``SELECT`` and ``UPDATE`` on the turn: then the
server itself protects entries from them.

Each transaction opens and closes its own connection, so none is shared between threads or inherited by a
forked process. A client that is idle in a transaction is disconnected after ``SECONDS``, so that it cannot
block others.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Self

import attrs
import psycopg
from sqlalchemy import Connection, Engine, create_engine, exc, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.pool import NullPool

from dpkit_core.errors import InvalidLedger, LedgerUnavailable
from dpkit_core.ledger.entries import KINDS, NOTHING, OUTCOMES, Entry
from dpkit_core.ledger.store import InDoubt, Store, Transaction

#: How long a writer waits for others, and others for an idle writer.
SECONDS = 60

_COLUMNS = tuple(field.name for field in attrs.fields(Entry))
_SELECT = f"SELECT {', '.join(_COLUMNS)} FROM dpkit_entry"
_INSERT = text(
    f"INSERT INTO dpkit_entry ({', '.join(_COLUMNS)}) VALUES ({', '.join(f':{name}' for name in _COLUMNS)})"
)
_KINDS = ", ".join(f"'{kind}'" for kind in KINDS)
_SETTLED = ", ".join(f"'{outcome}'" for outcome in OUTCOMES)
# One statement per paragraph, since the driver takes one at a time.
_SCHEMA = f"""
CREATE TABLE dpkit_turn (whose INTEGER PRIMARY KEY CHECK (whose = 1))

INSERT INTO dpkit_turn VALUES (1)

CREATE TABLE dpkit_entry (
  sequence BIGINT PRIMARY KEY,
  kind TEXT NOT NULL CHECK (kind IN ({_KINDS})),
  account TEXT NOT NULL,
  charge TEXT NOT NULL,
  body TEXT NOT NULL,
  total TEXT NOT NULL,
  previous TEXT NOT NULL UNIQUE,
  hash TEXT NOT NULL UNIQUE
)

CREATE INDEX dpkit_by_account ON dpkit_entry (account, sequence)

CREATE INDEX dpkit_by_charge ON dpkit_entry (charge, sequence) WHERE charge <> ''

CREATE UNIQUE INDEX dpkit_opened_once ON dpkit_entry (account) WHERE kind = 'account'

CREATE UNIQUE INDEX dpkit_reserved_once ON dpkit_entry (charge) WHERE kind = 'reserved'

CREATE UNIQUE INDEX dpkit_settled_once ON dpkit_entry (charge) WHERE kind IN ({_SETTLED})

CREATE FUNCTION dpkit_never_changed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN RAISE EXCEPTION 'entries never change'; END $$

CREATE FUNCTION dpkit_at_the_end() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE last RECORD;
BEGIN
  SELECT sequence, hash INTO last FROM dpkit_entry ORDER BY sequence DESC LIMIT 1;
  IF NEW.sequence <> coalesce(last.sequence, 0) + 1 OR NEW.previous <> coalesce(last.hash, '{NOTHING}') THEN
    RAISE EXCEPTION 'an entry follows the last one';
  END IF;
  RETURN NEW;
END $$

CREATE TRIGGER dpkit_never_changed BEFORE UPDATE OR DELETE OR TRUNCATE ON dpkit_entry
  FOR EACH STATEMENT EXECUTE FUNCTION dpkit_never_changed()

CREATE TRIGGER dpkit_at_the_end BEFORE INSERT ON dpkit_entry
  FOR EACH ROW EXECUTE FUNCTION dpkit_at_the_end()
"""

_DRIVER = "postgresql+psycopg"

# A lock number that others are unlikely to use: "dpkit" in ASCII.
_CREATING = 0x64706B6974

# Classes of errors, by the first two of the five characters of PostgreSQL's codes.
_AGAIN = ("08", "40", "57")  # connection, transaction rolled back, ended by an operator or a shutdown
_DAMAGED = ("XX",)
_REFUSED = ("22", "23", "42", "P0")  # data, integrity, missing tables, triggers
_NOT_ALLOWED = "42501"


class _Transaction:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def last(self, account: str | None = None, /) -> Entry | None:
        if account is None:
            return self._one("ORDER BY sequence DESC LIMIT 1")
        return self._one("WHERE account = :account ORDER BY sequence DESC LIMIT 1", account=account)

    def at(self, sequence: int, /) -> Entry | None:
        return self._one("WHERE sequence = :sequence", sequence=sequence)

    def opening(self, account: str, /) -> Entry | None:
        return self._one("WHERE account = :account AND kind = 'account'", account=account)

    def of_charge(self, charge: str, /) -> Sequence[Entry]:
        return self._all("WHERE charge = :charge AND charge <> '' ORDER BY sequence", charge=charge)

    def after(self, sequence: int, limit: int, /) -> Sequence[Entry]:
        return self._all(
            "WHERE sequence > :sequence ORDER BY sequence LIMIT :limit", sequence=sequence, limit=limit
        )

    def before(self, sequence: int, limit: int, account: str | None = None, /) -> Sequence[Entry]:
        whose = "" if account is None else "account = :account AND "
        return self._all(
            f"WHERE {whose}sequence < :sequence ORDER BY sequence DESC LIMIT :limit",
            sequence=sequence,
            limit=limit,
            **({} if account is None else {"account": account}),
        )

    def openings(self) -> Sequence[Entry]:
        return self._all("WHERE kind = 'account' ORDER BY sequence")

    def count(self, account: str, kind: str | None = None, /) -> int:
        which = "" if kind is None else " AND kind = :kind"
        statement = text(f"SELECT count(*) FROM dpkit_entry WHERE account = :account{which}")
        values = {"account": account} | ({} if kind is None else {"kind": kind})
        return self._connection.execute(statement, values).scalar_one()

    def append(self, entry: Entry, /) -> None:
        self._connection.execute(_INSERT, attrs.asdict(entry, recurse=False))

    def _all(self, condition: str, **values: str | int) -> list[Entry]:
        return [Entry(*row) for row in self._connection.execute(text(f"{_SELECT} {condition}"), values)]

    def _one(self, condition: str, **values: str | int) -> Entry | None:
        return next(iter(self._all(condition, **values)), None)


@attrs.frozen
class PostgresqlStore:
    """The tables ``dpkit_entry`` and ``dpkit_turn`` of one schema of a database.

    Its transactions are those that ``dpkit_core.ledger.store`` specifies. The schema is the first on the
    search path; the URL can name another, ``postgresql://HOST/DATABASE?options=-csearch_path%3Dlucky``.

    Attributes
    ----------
    url
        In the form of libpq, such as ``postgresql://user@host/database``. Keep a password in ``~/.pgpass``,
        where no command line or policy shows it.
    """

    url: str = attrs.field(repr=False)

    @classmethod
    def create(cls, url: str, /) -> Self:
        """Return the tables, created if there are none."""
        store = cls(url)
        with store._connection() as connection:
            # If two create them at once, the second waits, and finds the tables of the first.
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _CREATING})
            if not store._exists(connection):
                for statement in _SCHEMA.split("\n\n"):
                    connection.exec_driver_sql(statement)
        return store

    @classmethod
    def open(cls, url: str, /) -> Self:
        """Return the tables that ``create`` made."""
        store = cls(url)
        with store._connection() as connection:
            if not store._exists(connection):
                raise InvalidLedger(
                    f"there is no ledger in {store.shown}; `dpkit ledger create URL ...` creates one"
                )
        return store

    @property
    def shown(self) -> str:
        """The URL without its password."""
        return _url(self.url).set(drivername="postgresql").render_as_string(hide_password=True)

    @contextmanager
    def transaction(self, *, write: bool) -> Iterator[_Transaction]:
        """Yield a transaction on its own connection."""
        with self._connection(write=write) as connection:
            if write and connection.execute(text("SELECT whose FROM dpkit_turn FOR UPDATE")).first() is None:
                raise InvalidLedger(
                    f"the row of dpkit_turn in {self.shown} is missing; without it, writers do not wait"
                )
            yield _Transaction(connection)

    @staticmethod
    def _exists(connection: Connection) -> bool:
        return connection.execute(text("SELECT to_regclass('dpkit_entry') IS NOT NULL")).scalar_one() is True

    @contextmanager
    def _connection(self, *, write: bool = True) -> Iterator[Connection]:
        sent = False
        try:
            with _engine(self.url).connect() as connection:
                connection.execution_options(isolation_level="READ COMMITTED" if write else "REPEATABLE READ")
                self._prepare(connection, write=write)
                yield connection
                sent = True
                connection.commit()
        except exc.SQLAlchemyError as error:
            self._raise(error, sent=sent)
        except UnicodeError as error:
            raise InvalidLedger(f"{self.shown} cannot store a text: {error}") from error

    def _prepare(self, connection: Connection, *, write: bool) -> None:
        if not write:
            return
        for setting, value in (
            ("synchronous_commit", "on"),
            ("lock_timeout", f"{SECONDS}s"),
            ("idle_in_transaction_session_timeout", f"{SECONDS}s"),
        ):
            connection.exec_driver_sql(f"SET LOCAL {setting} = '{value}'")
        if connection.exec_driver_sql("SHOW fsync").scalar_one() != "on":
            raise InvalidLedger(
                f"{self.shown} has fsync = off, so committed entries may be lost; set it to on, and restart "
                "the server"
            )

    def _raise(self, error: exc.SQLAlchemyError, *, sent: bool) -> None:
        """Raise the error that ``Store`` specifies for an error of the database or the connection."""
        origin = getattr(error, "orig", None)
        code = (origin.sqlstate or "") if isinstance(origin, psycopg.Error) else ""
        why = str(origin or error).strip().partition("\n")[0]
        lost = bool(getattr(error, "connection_invalidated", False))
        if sent or lost or code.startswith(_AGAIN):
            raise InDoubt(f"interrupted: {why}") from error
        if code.startswith(_DAMAGED):
            raise InvalidLedger(f"{self.shown} is damaged ({why})") from error
        if isinstance(error, exc.DataError) or (code.startswith(_REFUSED) and code != _NOT_ALLOWED):
            raise InvalidLedger(f"{self.shown} is not a ledger, or refuses an entry ({why})") from error
        raise LedgerUnavailable(
            f"ledger {self.shown} cannot be used now ({why}); nothing was written to it"
        ) from error


@functools.lru_cache(maxsize=8)
def _engine(url: str) -> Engine:
    """Return the engine of a database; it keeps no connection, so a forked process may use it."""
    return create_engine(_url(url), poolclass=NullPool, connect_args={"connect_timeout": 10})


def _url(url: str) -> URL:
    try:
        # libpq accepts both spellings, SQLAlchemy one.
        parsed = make_url(re.sub("^postgres:", "postgresql:", url))
    except (exc.ArgumentError, ValueError) as error:
        raise InvalidLedger(
            "a ledger in PostgreSQL needs a URL such as postgresql://user@host/database"
        ) from error
    if parsed.drivername not in ("postgresql", _DRIVER):
        raise InvalidLedger(
            f"a ledger is reached by psycopg; give a URL with postgresql:, not {parsed.drivername}:"
        )
    return parsed.set(drivername=_DRIVER)


_: type[Store] = PostgresqlStore
_transaction: type[Transaction] = _Transaction
