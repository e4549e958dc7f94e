"""A charge and an audit of a ledger of 10^5 entries, beside what the bare database needs for its part of it.

uv run pytest -n0 tests/benchmarks/test_ledger.py --benchmark-only
"""

import shutil
import sqlite3
from contextlib import closing

import attrs
import pytest
from dpkit_command_ledger.audit import audit
from dpkit_ledger_sqlite import promises as suite
from many_entries import filled, seconds

from dpkit_core.ledger.ledger import Ledger

ENTRIES = 100_000


@pytest.fixture(scope="module")
def ledger(tmp_path_factory):
    return filled(Ledger.create(str(tmp_path_factory.mktemp("ledger") / "ledger.db")), ENTRIES)


def test_a_charge(benchmark, ledger, tmp_path):
    benchmark.pedantic(lambda: ledger.reserve(suite.charge()), rounds=50, warmup_rounds=2)
    path = shutil.copy(ledger.url, tmp_path / "bare.db")
    with ledger.store.transaction(write=False) as transaction:
        row = list(attrs.astuple(transaction.last()))

    def bare():
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute("PRAGMA synchronous = EXTRA")
            connection.execute("BEGIN IMMEDIATE")
            row[0], row[3], row[6], row[7] = row[0] + 1, f"charge{row[0]}", row[7], f"hash{row[0]}"
            connection.execute("INSERT INTO entry VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
            connection.execute("COMMIT")

    ratio = benchmark.stats.stats.median / seconds(bare, 50)
    benchmark.extra_info["times as long as a bare commit"] = round(ratio, 2)


def test_an_audit(benchmark, ledger):
    found = benchmark.pedantic(lambda: audit(ledger), rounds=3, warmup_rounds=0)
    assert found.sound
    assert found.head.sequence >= ENTRIES

    def scan():
        with closing(sqlite3.connect(ledger.url)) as connection:
            assert len(connection.execute("SELECT * FROM entry ORDER BY sequence").fetchall()) >= ENTRIES

    benchmark.extra_info["times as long as a bare scan"] = round(
        benchmark.stats.stats.min / seconds(scan, 3), 1
    )
