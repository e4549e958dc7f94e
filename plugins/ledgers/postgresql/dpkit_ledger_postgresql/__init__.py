"""Ledgers of dpkit in PostgreSQL: one budget for runs on several machines."""

from dpkit_ledger_postgresql.postgresql import PostgresqlStore

__all__ = ["PostgresqlStore"]
