"""The witnessed ledger: what a table has cost, over all runs, processes and machines.

    ledger = Ledger.create("ledger.db")
    ledger.add(Account("diamonds", schema, Budget(3.0, 1e-5)))
    reservation = ledger.reserve(charge)                  before any part is given data
    ledger.settle(reservation, "released", digest)        for people; what is reserved is spent

``ledger`` has the rules, which are the same wherever entries are kept. ``store`` is what a backend promises;
the one in memory is there, too, and distributions have the others. ``entries`` and ``accounts`` are what is
written down, and ``dpkit ledger audit`` compares it with releases. What may be added up, and why, is in
``dpkit_core.privacy.filters``.
"""
