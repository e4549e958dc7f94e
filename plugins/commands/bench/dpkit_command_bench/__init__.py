"""Experiments as data: any compositions side by side, on any tables.

    suite.toml --suite--> trials --runner--> rows in Parquet --summary--> tables --plots--> pictures

A trial is one fit of one composition on one random split of one table, scored on the records that were held
out. Trials are research and never releases: they are seeded, they are run many times on the same records, and
held-out private records are scored without noise. Every row says so.
"""
