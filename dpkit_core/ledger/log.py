"""One line of JSON for each event of a ledger, for whoever watches over it. Nothing private is ever in it."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import attrs

from dpkit_core.errors import LedgerUnavailable


@attrs.frozen
class EventLog:
    """A file to which lines are added, or nothing.

    Lines are written whole, whoever else writes. Each has ``at``, the time; ``event``: ``declined``,
    ``reserved``, ``released``, ``refused``, ``failed`` or ``vetoed``; ``ledger``, ``account`` and ``charge``;
    the number of the ledger's entry as ``sequence``; its hash as ``head`` where it was charged, and the
    digest of the release, where there is one, as ``release``.

    Attributes
    ----------
    path
        The file; None for no log.
    """

    path: Path | None = None

    def write(self, event: str, facts: Mapping[str, Any]) -> None:
        """Add a line.

        Raises
        ------
        LedgerUnavailable
            If it cannot be written.
        """
        if self.path is None:
            return
        at = datetime.now(UTC).isoformat(timespec="milliseconds")
        line = (json.dumps({"at": at, "event": event, **facts}) + "\n").encode("ascii")
        try:
            descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
            try:
                if os.write(descriptor, line) < len(line):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            finally:
                os.close(descriptor)
        except OSError as error:
            raise LedgerUnavailable(f"cannot write the log {self.path}: {error.strerror or error}") from error
