"""Tables of PostgreSQL, SQLite and DuckDB as read-only sources, with one snapshot for all passes.

``postgresql``, ``sqlite`` and ``duckdb`` each know one engine. What they share is how an address is read
without its secrets (``address``), how a table is found by name (``tables``), how what the driver yields is
handed on (``entries``), and, for the two whose driver is ADBC, the connection (``session``).
"""
