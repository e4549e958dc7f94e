"""What can be wrong with an experiment, beside what can be wrong with a part or a table."""

from __future__ import annotations

from dpkit_core.errors import DpkitError


class InvalidSuite(DpkitError):
    """A suite of experiments that cannot be read, or that asks for what does not exist."""


class InvalidResults(DpkitError):
    """A folder of results that cannot be read or may not be written."""


class MissingTable(DpkitError):
    """A table of a suite that is not at hand; its trials are skipped and counted."""
