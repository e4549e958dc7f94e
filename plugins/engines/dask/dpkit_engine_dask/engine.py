"""Opening a table on a Dask cluster."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar

import attrs
import distributed

from dpkit_core.data.source import DivisibleSource
from dpkit_core.errors import InvalidData
from dpkit_core.plugins.sources import open_source
from dpkit_core.validators import whole_number
from dpkit_engine_dask.records import DaskDataset, answers, read_frame, read_source, truncate

if TYPE_CHECKING:
    from dpkit_core import Schema
    from dpkit_core.data.engine import Engine


#: Without types, since its functions have none.
_DASK: Any = distributed


@attrs.frozen
class DaskEngine:
    """Adds up on the workers of a Dask cluster, each of which keeps a part of the table in memory.

    A worker that is lost is replaced by others, which read its part again and repeat what was changed by
    released values alone: the release is the same. No share is used twice, and noise is drawn here, once.

    Parameters
    ----------
    scheduler
        Address of a cluster, such as ``tcp://10.0.0.5:8786``. Without it, processes on this machine are the
        workers, which end with the ``with`` block.
    workers
        How many such processes; by default one for each core.

    Examples
    --------
    ::

        with DaskEngine().open("sales", schema) as data:
            release = plan.run(data)
    """

    units: ClassVar[bool] = True
    samples: ClassVar[bool] = True

    scheduler: str | None = None
    workers: int | None = attrs.field(
        default=None, validator=attrs.validators.optional(whole_number(1, 2**10))
    )

    @contextmanager
    def open(self, table: Any, schema: Schema, /) -> Iterator[DaskDataset]:
        """Give the records of a table, a part in each task.

        Parameters
        ----------
        table
            A folder, a pattern or an address of Parquet or Arrow files, each of which is a part that a worker
            opens itself, under the same name and by its own credentials. Or a ``dask.dataframe``.
        schema
            The public facts.

        Raises
        ------
        InvalidData
            If a record is not what the schema says, or the table is neither.
        EngineFailed
            If the cluster does not answer.
        """
        with self._client() as client:
            with answers(client):
                parts = truncate(client, _parts(client, table, schema), schema)
            data = DaskDataset.of(client, parts, schema)
            try:
                yield data
            finally:
                data.forget()

    @contextmanager
    def _client(self) -> Iterator[Any]:
        if self.scheduler is not None:
            with answers():
                client = _DASK.Client(self.scheduler, set_as_default=False)
            with client:
                yield client
            return
        with answers():
            cluster = _DASK.LocalCluster(
                n_workers=self.workers,
                threads_per_worker=1,
                dashboard_address=":0",
                silence_logs=logging.CRITICAL,  # what goes wrong is raised; workers that end may log more
            )
        with cluster, _DASK.Client(cluster, set_as_default=False) as client:
            yield client


def _parts(client: Any, table: Any, schema: Schema) -> list[Any]:
    """Return the parts of a table as futures of datasets, or of what is wrong with their records."""
    if hasattr(table, "to_delayed"):
        frames = client.compute(table.to_delayed())
        return [client.submit(read_frame, frame, schema, pure=False) for frame in frames]
    source = open_source(table)
    if not isinstance(source, DivisibleSource):
        raise InvalidData(
            f"{source.called} cannot be read in parts by other processes; give a folder of Parquet files"
        )
    return [client.submit(read_source, part, schema, pure=False) for part in source.parts()]


_: type[Engine] = DaskEngine
