"""In Spark's local mode: the same release as in memory, from a data frame of Spark and from files."""

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpkit_core import Budget, Column, Dataset, Randomness, Schema, Unit, compose, open_source
from dpkit_core.errors import CannotCompose, InvalidData

pytest.importorskip("pyspark", reason="Spark is not installed; the extra `spark` has it")

from dpkit_engine_spark import SparkEngine

# Spark says so of pandas 3, of which these tests use nothing.
pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")

N = 600
SCHEMA = Schema([Column(name, lower=-3, upper=4) for name in "ab"], Column("y", lower=-3, upper=4))


@pytest.fixture(scope="module")
def session():
    from pyspark.errors import PySparkException

    from dpkit_core.errors import EngineFailed

    try:
        with SparkEngine("local[2]")._session() as started:
            started.sparkContext.setLogLevel("ERROR")
            yield started
    except (EngineFailed, PySparkException) as error:
        pytest.skip(f"Spark does not start here: {error}")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Files of very different sizes, one of them empty."""
    where, rng = tmp_path_factory.mktemp("table"), np.random.default_rng(3)
    X = rng.normal(size=(N, 2)) * [1, 5]
    table = pa.table({"y": X[:, 0] + 0.1 * rng.normal(size=N), "a": X[:, 0], "b": X[:, 1]})
    for i, (start, stop) in enumerate([(0, 1), (1, 300), (300, 300), (300, N)]):
        pq.write_table(table.slice(start, stop - start), where / f"{i}.parquet")
    return where


# That every regressor has one release wherever the records are is shown with those of other engines.
CASES = {"mean": {}, "boosted_trees": {"trees": 1}}


def model(plan, data):
    return plan.run(data, randomness=Randomness.from_seed(5)).to_document()["model"]


@pytest.mark.slow
def test_a_release_is_the_one_of_memory(session, folder):
    here = Dataset.from_source(open_source(folder), SCHEMA)
    with SparkEngine().open(session.read.parquet(str(folder)), SCHEMA) as data:
        assert data.records == N
        for regressor, options in CASES.items():
            pipeline = compose(regressor=regressor, options={"regressor": options})
            plan = pipeline.plan(SCHEMA, Budget(3.0, 1e-6), engine="spark")
            assert model(plan, data) == model(attrs.evolve(plan, engine=None), here)


@pytest.mark.slow
def test_files_that_workers_open_and_records_held_out_are_those_of_memory(session, folder):
    here = Dataset.from_source(open_source(folder), SCHEMA)
    plan = compose(regressor="adassp").plan(SCHEMA, Budget(3.0, 1e-6), evaluate=0.3)
    with SparkEngine().open(folder, SCHEMA) as data:
        there = plan.run(data, randomness=Randomness.from_seed(5)).to_document()
    assert there["certificate"].pop("engine")["distribution"] == "dpkit-engine-spark"
    expected = plan.run(here, randomness=Randomness.from_seed(5)).to_document()
    assert (there["model"], there["evaluation"]) == (expected["model"], expected["evaluation"])


@pytest.mark.slow
def test_what_is_wrong_with_records_is_told_without_their_values(session, folder):
    lacking = attrs.evolve(SCHEMA, columns=(Column("c"),))
    with pytest.raises(InvalidData, match="'c'"), SparkEngine().open(folder, lacking):
        pass


def test_units_and_parts_that_need_the_records_are_refused_in_the_plan():
    schema = attrs.evolve(SCHEMA, unit=Unit(("who",), 2))
    with pytest.raises(CannotCompose) as refused:
        compose(regressor="tukey").plan(schema, Budget(3.0, 1e-6), engine=SparkEngine())
    assert [problem.partition(",")[0] for problem in refused.value.problems] == [
        "regressor tukey needs the records in one place",
        "the schema protects all records of one 'who'",
    ]
