"""Ledgers in a SQLite file, for the runs of one machine."""

from dpkit_ledger_sqlite.sqlite import SqliteStore

__all__ = ["SqliteStore"]
