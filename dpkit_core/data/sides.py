r"""Two sides of a table, drawn by a public rule: records to fit a model to, and records held out to score it.

A record, or with a unit all records of one, is held out if a hash of 64 bits is below ``share`` times 2^64:
of its content after encoding (``dpkit_core.data.units.contents``), or of its unit's identifier. So the side
of a record is a function of that record alone. Under add-remove, a record more is one record more on one side
and nothing on the other: what ``dpkit_core.privacy.events.Apart`` needs. Equal records are on one side, so no
copy of a held out record is fitted to; and a table of few distinct records falls into lumps, so that what is
held out may be far from ``share``.

The key follows from the names of target and unit. Nothing in it is of the table, and nobody who holds a table
can try keys until the score is good, but by renaming a column. Share and key are kept in the release, and a
later evaluation takes them from there. A smaller share is a part of a larger one.

A record of the other side changes no bit of this one: sides are copied, in one layout, and cut into blocks
anew.
"""

from __future__ import annotations

import hashlib

import attrs
import numpy as np

from dpkit_core.arrays import Booleans
from dpkit_core.data.schema import Schema
from dpkit_core.data.units import Hashes, mixed
from dpkit_core.validators import fraction

# Keeps these numbers apart from those that other hashes of records give.
_DOMAIN = b"dpkit apart"


@attrs.frozen
class Side:
    """Which records are on one side.

    Attributes
    ----------
    share
        Of the records that are held out, about.
    key
        64 bits.
    held_out
        Whether this is their side; else that of all others.
    """

    share: float = attrs.field(validator=fraction)
    key: int
    held_out: bool

    def keeps(self, lots: Hashes) -> Booleans:
        """Return which records are on this side, by a number of 64 bits of each.

        >>> lots = np.arange(1000, dtype=np.uint64)
        >>> int(Side(0.1, 7, True).keeps(lots).sum()), int(Side(0.1, 7, False).keeps(lots).sum())
        (92, 908)
        """
        below = mixed(mixed(lots) ^ np.uint64(self.key)) < np.uint64(int(self.share * 2.0**64))
        return below if self.held_out else ~below


def sides(share: float, key: int) -> tuple[Side, Side]:
    """Return the side of the fit and the side that is held out."""
    return Side(share, key, held_out=False), Side(share, key, held_out=True)


def key_of(schema: Schema) -> int:
    """Return the key for a table."""
    digest = hashlib.blake2b(_DOMAIN, digest_size=8)
    for name in (schema.target.name, *(() if schema.unit is None else schema.unit.columns)):
        encoded = name.encode()
        digest.update(len(encoded).to_bytes(8, "little") + encoded)
    return int.from_bytes(digest.digest(), "little")
