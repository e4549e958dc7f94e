"""The witness of a ledger: what a certificate says about the account that paid for its run.

A chain of hashes shows that a ledger was not edited in the middle. It cannot show that the ledger is an old
copy of itself, that a second copy is in use, or that its last entries are gone: such a ledger is consistent.
Each release therefore carries away where in the ledger it was charged and the hash of everything up to there.
The releases together then testify to what the ledger must contain; ``dpkit ledger audit`` compares.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

import attrs

from dpkit_core.errors import InvalidRelease
from dpkit_core.privacy.filters import Ticks, filter_from_document, frozen_ticks
from dpkit_core.validators import frozen_mapping, hexadecimal


@attrs.frozen
class Witness:
    """Where a run was charged, and what its account had spent after it.

    Attributes
    ----------
    ledger
        Identity of the ledger, which copies of it share.
    account
        The account that paid.
    charge
        Identity of the charge.
    sequence
        Number of the entry in the whole ledger; the first is 1.
    head
        Hash of that entry, which covers all entries before it.
    measure
        How the account adds up, as ``dpkit_core.privacy.filters.Filter.to_document`` writes it.
    total
        The account's total after the charge, in ticks of its measure.
    limits
        What the account allows, likewise.
    """

    ledger: str
    account: str
    charge: str
    sequence: int
    head: str = attrs.field(validator=hexadecimal(64))
    measure: Mapping[str, Any] = attrs.field(converter=frozen_mapping)
    total: Ticks = attrs.field(converter=frozen_ticks)
    limits: Ticks = attrs.field(converter=frozen_ticks)

    def __attrs_post_init__(self) -> None:
        if self.sequence < 1:
            raise ValueError(f"sequence is {self.sequence}; it must be at least 1")
        if not all(ticks is None or _is_count(ticks) for ticks in (*self.total, *self.limits)):
            raise ValueError("total and limits must be whole numbers of at least 0, or null")
        if len(self.total) != len(self.limits):
            raise ValueError("total and limits are not of the same units")

    def in_words(self) -> str:
        """Return what the account has spent, for a person; or that its measure is not known here."""
        spent = "how much of its budget that is cannot be told here, because its measure is not known"
        with contextlib.suppress(InvalidRelease):
            measure = filter_from_document(self.measure)
            if len(measure.units) == len(self.total):
                spent = measure.in_words(self.total, self.limits)
        return f"Charged to account {self.account}, entry {self.sequence} of ledger {self.ledger}: {spent}"


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
