"""The command ``dpkit``. Importing this costs nothing; each command imports what it needs when it runs."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line and exit: 0 done, 2 wrong use or bad data, 3 refused, 4 spent in vain."""
    try:
        from dpkit_cli.process import run

        run(_commands)
    except KeyboardInterrupt:  # before a command has begun, or after it has ended
        sys.exit(130)


def _commands() -> None:
    from dpkit_cli.app import app

    app(prog_name="dpkit")
