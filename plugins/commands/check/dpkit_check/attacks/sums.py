"""Attacks on what a part has added up: a sum over records is one of what each of them is.

A sum that is asked of a table is a function of blocks, and tables in a test are one block. Where the function
is no sum of shares, it may keep its sensitivity there and lose it where a large table is divided: one record
less then moves the ends of all blocks after it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import attrs
import numpy as np

from dpkit_check.cases.every import used
from dpkit_check.trial import Evidence, Factory, NotApplicable, Trial, attack, require
from dpkit_core.arrays import Integers
from dpkit_core.data.dataset import Dataset
from dpkit_core.data.sums import Block, Sum, pieces, shares, total
from dpkit_core.text import number_of

# Into how many blocks a table is divided at most.
_BLOCKS = 4


@attrs.frozen(eq=False)
class _Divided(Dataset):
    """Records that are added up at once, and again in blocks."""

    both: list[tuple[Integers, Integers]] = attrs.field(factory=list, kw_only=True)

    def sum(self, what: Sum[Block], /) -> Integers:
        whole = super().sum(what)
        blocks = pieces(Block(self.X, self.y), -(-self.records // _BLOCKS))
        self.both.append((whole, total(what, self.records, shares(what.of, blocks))))
        return whole


@attack("privacy", kinds=("scorer", "regressor"))
def check_sums_are_made_of_shares(make: Factory[Any], trial: Trial) -> Evidence:
    """What a part asks ``data.sum`` for is the same however the records are divided into blocks.

    Small tables are added up as one block, and again as several.

    If this fails: the function takes something of a block that is no sum over its records, such as the
    magnitude of a sum, a mean or a largest value. Take it of what ``data.sum`` returns.
    """
    sums = 0
    for one, other in _sums(make, trial):
        sums += 1
        require(
            np.array_equal(one, other),
            f"a sum over records is {one} of one block, and {other} of the same records in several",
        )
    if not sums:
        raise NotApplicable("it does not call data.sum")
    return Evidence(number_of(sums, "sum"), sums)


def _sums(make: Factory[Any], trial: Trial) -> Iterator[tuple[Integers, Integers]]:
    fields = [field.name for field in attrs.fields(Dataset)]
    for data, use in used(make, trial):
        divided = _Divided(**{name: getattr(data, name) for name in fields})
        use(divided)
        yield from divided.both
