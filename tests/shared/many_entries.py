"""Ledgers with many entries, and how long something takes, for benchmarks of ledgers."""

import time

from dpkit_ledger_sqlite import promises as suite

from dpkit_core.ledger.entries import Entry


def filled(ledger, entries):
    """Fill a ledger as so many charges and settlements would have, in one transaction."""
    ledger.add(suite.account(epsilon=1e6))
    cost = (100_000_000, 0)
    with ledger.store.transaction(write=True) as transaction:
        last, total = transaction.last(), 0
        while last.sequence < entries:
            total += cost[0]
            charge = suite.charge()
            body = charge.to_document(cost)
            facts = {"account": "diamonds", "charge": charge.id, "total": (total, 0)}
            reserved = Entry.after(last, "reserved", body, **facts)
            last = Entry.after(reserved, "released", {"at": "", "release": None}, **facts)
            transaction.append(reserved)
            transaction.append(last)
    return ledger


def seconds(action, times):
    measured = []
    for _ in range(times):
        start = time.perf_counter()
        action()
        measured.append(time.perf_counter() - start)
    return sorted(measured)[times // 2]
