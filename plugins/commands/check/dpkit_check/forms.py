"""The same records in every form in which a part may get them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np

from dpkit_check.trial import NotApplicable, require
from dpkit_core.arrays import Matrix, Vector
from dpkit_core.data.dataset import AnyDataset, Dataset, SparseDataset, StreamedDataset
from dpkit_core.data.schema import Schema


def sparse(data: Dataset, schema: Schema) -> SparseDataset:
    """Return the records of ``data`` as a sparse matrix."""
    from scipy import sparse

    return SparseDataset.from_arrays(sparse.csr_array(data.X), data.y, schema)


def streamed(data: Dataset, schema: Schema) -> StreamedDataset:
    """Return the records of ``data`` in blocks of very different sizes, which come in another order."""

    def blocks() -> Iterator[tuple[Matrix, Vector]]:
        breaks = [1, 1 + len(data.y) // 3]
        parts = list(zip(np.array_split(data.X, breaks), np.array_split(data.y, breaks), strict=True))
        return reversed(parts)

    return StreamedDataset.from_blocks(blocks, schema)


FORMS: Mapping[str, Callable[[Dataset, Schema], AnyDataset]] = {"sparse": sparse, "streamed": streamed}


def accepted_forms(part: type) -> list[str]:
    """Return the forms beside dense that a class of parts says it accepts.

    Raises
    ------
    CheckFailed
        If ``forms`` lacks ``dense`` or names another form.
    NotApplicable
        If there are none.
    """
    forms = tuple(getattr(part, "forms", ("dense",)))
    require(
        "dense" in forms and set(forms) <= {"dense", *FORMS},
        f"forms is {forms}; it must hold dense, and may hold {' and '.join(FORMS)}",
    )
    others = [form for form in forms if form != "dense"]
    if not others:
        raise NotApplicable("it accepts dense data only")
    return others
