"""The command ``dpkit``. Importing this costs nothing; each command imports what it needs when it runs."""

from __future__ import annotations


def main() -> None:
    """Run the command line and exit: 0 done, 2 wrong use or bad data, 3 refused, 4 spent in vain."""
    from dpkit_core.cli._app import app

    app(prog_name="dpkit")
