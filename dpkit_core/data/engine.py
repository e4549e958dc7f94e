"""Records that are elsewhere: an engine adds up where they are, and only sums come here.

An engine is an entry point of the group ``dpkit.engines``: a class whose objects open a table by a schema, as
a dataset of the form ``streamed`` that answers ``sum``, ``keep``, ``select`` and ``side``. Functions and
releases go to the records. Shares come back, arrays of whole numbers, which are checked and added up here
(``dpkit_core.data.sums.total``). They are whole, so the release is the one that the same records give in
memory, bit for bit, whatever the division.

A share is as private as the records. An engine is trusted as this process is, and so is the network between.

    [project.entry-points."dpkit.engines"]
    dask = "dpkit_engine_dask:DaskEngine"
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self, TypeVar, runtime_checkable

import numpy as np

from dpkit_core.data.dataset import AnyDataset, Untruncated
from dpkit_core.errors import EngineFailed, InvalidData, PlanViolation

if TYPE_CHECKING:
    from dpkit_core.data.schema import Schema
    from dpkit_core.data.sides import Side


__all__ = ["Elsewhere", "Engine", "Untruncated", "answered", "trusted"]

T = TypeVar("T")


@runtime_checkable
class Elsewhere(AnyDataset, Protocol):
    """A dataset whose records are not in this process: ``dense`` raises ``EngineFailed``."""

    @property
    def engine(self) -> str:
        """The name of the engine that has them."""
        ...

    @property
    def samples(self) -> bool:
        """As ``Engine`` says."""
        ...

    @property
    def dashboard(self) -> str | None:
        """The address of a page that shows what the engine is doing, if it has one."""
        ...

    def side(self, side: Side, /) -> Self:
        """Return the records on one side, of which there may be none."""
        ...


def trusted(batches: Sequence[AnyDataset]) -> tuple[str, ...]:
    """Return what a certificate assumes about where the records were; a sentence for each engine."""
    engines = dict.fromkeys(batch.engine for batch in batches if isinstance(batch, Elsewhere))
    return tuple(
        f"those who run {engine}, where the records were, and the network to it are trusted as much as "
        "the process that drew the noise"
        for engine in engines
    )


def answered(ask: Callable[[], T]) -> T | Exception:
    """Return what a function of records returns, or why it fails in words that quote none.

    To be called where the records are: an exception that left would be kept, with what it says of records, in
    the logs of workers and scheduler. So would a warning of NumPy, which depends on them, too.
    """
    try:
        with np.errstate(all="ignore"):
            return ask()
    except (EngineFailed, InvalidData, PlanViolation) as problem:
        return type(problem)(str(problem))  # without the frames that read the records
    except Exception as problem:
        return RuntimeError(f"a function that was asked of records raised {type(problem).__name__}")


class Engine(Protocol):
    """Where sums are computed.

    Attributes
    ----------
    units
        Whether it keeps, of each unit of the schema, the records that ``dpkit_core.data.units`` says, though
        they may be in several places. Else a schema with a unit is refused in the plan.
    samples
        Whether what it keeps is a ``KeptElsewhere``, which has the places of records, for coins and accounts.
        Else rounds that are sampled or filtered are refused in the plan.
    """

    units: ClassVar[bool]
    samples: ClassVar[bool]

    def open(self, table: Any, schema: Schema, /) -> AbstractContextManager[Elsewhere]:
        """Return the records of a table, checked where they are, until the end of a ``with`` block.

        Raises
        ------
        InvalidData
            As ``Dataset.from_source``, or if the engine cannot reach such a table.
        EngineFailed
            If the engine does not answer.
        """
        ...
