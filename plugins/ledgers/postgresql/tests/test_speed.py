"""A charge and an audit of a ledger of 10^5 entries, beside what the bare database needs for its part of it.

uv run pytest -n0 plugins/ledgers/postgresql/tests/test_speed.py --benchmark-only
"""

import attrs
import pytest
from dpkit_command_ledger.audit import audit
from dpkit_ledger_sqlite import promises as suite
from many_entries import filled, seconds

from dpkit_core.ledger.ledger import Ledger

ENTRIES = 100_000


@pytest.fixture(scope="module")
def ledger(server):
    return filled(Ledger.create(server.url()), ENTRIES)


def connection(server, ledger):
    return server.connection("ledgers", schema=ledger.url.rpartition("%3D")[2])


def test_a_charge(benchmark, server, ledger):
    benchmark.pedantic(lambda: ledger.reserve(suite.charge()), rounds=50, warmup_rounds=2)
    with ledger.store.transaction(write=False) as transaction:
        row = list(attrs.astuple(transaction.last()))

    def bare():
        row[0], row[3], row[6], row[7] = row[0] + 1, f"charge{row[0]}", row[7], f"hash{row[0]}"
        with connection(server, ledger) as opened:
            opened.execute("INSERT INTO bare VALUES (%s, %s, %s, %s, %s, %s, %s, %s)", row)

    with connection(server, ledger) as opened:
        opened.execute("CREATE TABLE bare AS SELECT * FROM dpkit_entry WITH NO DATA")
    ratio = benchmark.stats.stats.median / seconds(bare, 50)
    benchmark.extra_info["times as long as a bare commit"] = round(ratio, 2)


def test_an_audit(benchmark, server, ledger):
    found = benchmark.pedantic(lambda: audit(ledger), rounds=3, warmup_rounds=0)
    assert found.sound
    assert found.head.sequence >= ENTRIES

    def scan():
        with connection(server, ledger) as opened:
            assert len(opened.execute("SELECT * FROM dpkit_entry ORDER BY sequence").fetchall()) >= ENTRIES

    benchmark.extra_info["times as long as a bare scan"] = round(
        benchmark.stats.stats.min / seconds(scan, 3), 1
    )
