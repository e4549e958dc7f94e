"""Errors of experiments, in addition to those of parts and tables."""

from __future__ import annotations

from dpkit_core.errors import DpkitError


class InvalidSuite(DpkitError):
    """A suite of experiments that cannot be read, or that refers to something that does not exist."""


class InvalidResults(DpkitError):
    """A folder of results that cannot be read or may not be written."""


class MissingTable(DpkitError):
    """A table of a suite that is not available; its trials are skipped and counted."""
