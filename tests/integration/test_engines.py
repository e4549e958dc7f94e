"""Wherever the records are: every part whose sums add up releases the same bytes at one seed."""

from importlib.util import find_spec
from typing import Any

import distributed
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from dpkit_engine_dask import DaskEngine
from dpkit_engine_federation import Identity, Relay, agree, join

from dpkit_core import (
    Budget,
    Column,
    Dataset,
    Randomness,
    Registry,
    Schema,
    StreamedDataset,
    compose,
    open_source,
)

pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")

PARTS: dict[str, dict[str, Any]] = {
    "adassp": {},
    "boosted_adassp": {"rounds": 2},
    "boosted_trees": {"trees": 3},
    "mean": {"noise": "gaussian"},
    "sgbdt": {"rounds": 3, "noise": "gaussian"},
    "winsorized_least_squares": {"noise": "gaussian", "refits": 1},
}
N = 400
SCHEMA = Schema([Column(name, lower=-3, upper=4) for name in "ab"], Column("y", lower=-3, upper=4))


def test_no_additive_regressor_is_left_out():
    registry = Registry()
    loaded = {ref.name: registry.load(ref) for ref in registry.refs("regressors")}
    assert {name for name, part in loaded.items() if getattr(part, "additive", False)} == set(PARTS)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    where, rng = tmp_path_factory.mktemp("table"), np.random.default_rng(3)
    X = rng.normal(size=(N, 2)) * [1, 5]
    table = pa.table({"y": X[:, 0] + 0.1 * rng.normal(size=N), "a": X[:, 0], "b": X[:, 1]})
    for i, (start, stop) in enumerate([(0, 1), (1, 150), (150, 150), (150, N)]):
        pq.write_table(table.slice(start, stop - start), where / f"{i}.parquet")
    return where


@pytest.fixture(scope="module")
def elsewhere(folder):
    """Open the table on Spark where it is installed, else on Dask: engine -> dataset."""
    if find_spec("pyspark") is not None:
        from dpkit_engine_spark import SparkEngine

        with SparkEngine("local[2]").open(folder, SCHEMA) as data:
            yield {"spark": data}
    else:
        local = distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0")
        with local as cluster, DaskEngine(cluster.scheduler_address).open(folder, SCHEMA) as data:
            yield {"dask": data}


def in_a_federation_of_one(plan, data):
    key, server = Identity(), Identity()
    terms = agree(plan, {"north": key.public}, server=server.public, colluders=0, least=1, spare=0)
    return join(
        data,
        terms,
        identity=key,
        transport=Relay(("north",), 30.0),
        seed=7,
        randomness=Randomness.from_seed(7),
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", PARTS)
def test_every_engine_releases_the_model_of_memory(name, folder, elsewhere):
    pipeline = compose(regressor=name, options={"regressor": PARTS[name]})
    plan = pipeline.plan(SCHEMA, Budget(3.0, 1e-6))
    here = Dataset.from_source(open_source(folder), SCHEMA)
    pieces = np.array_split(np.arange(N), 7)
    blocks = StreamedDataset.from_blocks(lambda: iter([(here.X[i], here.y[i]) for i in pieces]), SCHEMA)
    released = {
        where: plan.run(data, randomness=Randomness.from_seed(7))
        for where, data in {"memory": here, "blocks": blocks, **elsewhere}.items()
    }
    released["federation"] = in_a_federation_of_one(plan, here)
    models = {where: each.to_document()["model"] for where, each in released.items()}
    assert models == dict.fromkeys(models, models["memory"])
