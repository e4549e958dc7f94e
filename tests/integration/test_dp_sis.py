"""DP-SIS from end to end: certified with public scales, and as published certified not to be private."""

import numpy as np
import pytest
from dpkit_command_bench.generators import fan_lv
from scipy import sparse

from dpkit_core import Budget, Dataset, Randomness, SparseDataset, StreamedDataset, compose, verify
from dpkit_core.data.schema import Schema

NAMES = [f"x{j}" for j in range(50)]
SCHEMA = Schema.numeric(NAMES, "y", dict.fromkeys(NAMES, (-4.0, 4.0)) | {"y": (-20.0, 20.0)})


@pytest.fixture(scope="module")
def table():
    return fan_lv(np.random.default_rng(1), rows=3000, features=50, relevant=3)


def run(data, **options):
    pipeline = compose(
        scorer="correlation",
        selector="canonical_lipschitz",
        accountant="basic",
        options={"scorer": options},
    )
    return pipeline.plan(SCHEMA, Budget(2.0), k=3).run(data, randomness=Randomness.from_seed(0))


@pytest.mark.parametrize("center", ["schema", "private"])
def test_the_relevant_features_are_selected_within_the_budget(table, center):
    release = run(Dataset.from_arrays(table.X, table.y, SCHEMA), center=center)
    assert set(release.selected) == {f"x{j}" for j in table.relevant}
    assert release.certificate.epsilon <= 2
    assert verify(release).confirmed
    assert [e.stage for e in release.certificate.events] == ["scoring", "selection"][center == "schema" :]


def test_as_published_nothing_is_claimed_and_the_reason_is_given(table):
    release = run(Dataset.from_arrays(table.X, table.y, SCHEMA), calibration="published")
    assert not release.certificate.private
    assert release.certificate.epsilon is None
    assert any("largest deviations of the private data" in reason for reason in release.certificate.reasons)
    assert verify(release).confirmed


def test_sparse_and_streamed_tables_make_the_same_release(table):
    expected = run(Dataset.from_arrays(table.X, table.y, SCHEMA))
    blocks = list(zip(np.array_split(table.X, 7), np.array_split(table.y, 7), strict=True))
    for data in (
        SparseDataset.from_arrays(sparse.csc_array(table.X), table.y, SCHEMA),
        StreamedDataset.from_blocks(lambda: iter(blocks), SCHEMA),
    ):
        assert run(data) == expected
