"""Ledgers in a file of SQLite, for the runs of one machine."""

from dpkit_ledger_sqlite.sqlite import SqliteStore

__all__ = ["SqliteStore"]
