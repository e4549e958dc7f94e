"""What a unit of several records costs: one million records of 1e5 units in Parquet, beside no unit.

OPENBLAS_NUM_THREADS=1 uv run pytest -n0 tests/benchmarks/test_units.py --benchmark-only
"""

import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpkit_core import Budget, Column, Dataset, Schema, StreamedDataset, Unit, compose, open_source

N, UNITS, D = 1_000_000, 100_000, 8
COLUMNS = tuple(Column(f"x{j}", lower=-4.0, upper=4.0) for j in range(D))


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    rng = np.random.default_rng(0)
    columns = {f"x{j}": rng.standard_normal(N) for j in range(D)}
    columns["y"] = columns["x0"] + rng.standard_normal(N)
    patients = [f"patient-{i}" for i in rng.integers(0, UNITS, N)]
    file = tmp_path_factory.mktemp("units") / "visits.parquet"
    pq.write_table(pa.table({**columns, "patient": patients}), file)
    return file


def seconds(path, form, regressor, unit):
    """Return the processor time of a release: the table is read, truncated and fitted to."""
    schema = Schema(COLUMNS, Column("y", lower=-6.0, upper=6.0), unit=unit)
    plan = compose(regressor=regressor).plan(schema, Budget(1.0, 1e-6))
    start = time.process_time()
    plan.run(form.from_source(open_source(path), schema))
    return time.process_time() - start


@pytest.mark.parametrize("most", [1, 4])
@pytest.mark.parametrize("regressor", ["adassp", "winsorized_least_squares", "boosted_trees"])
@pytest.mark.parametrize("form", [Dataset, StreamedDataset], ids=lambda form: form.form)
def test_a_release_for_units(form, regressor, most, path, benchmark):
    unit = Unit(("patient",), most)
    benchmark.pedantic(seconds, args=(path, form, regressor, unit), rounds=1)
    times = [[seconds(path, form, regressor, each) for each in (unit, None)] for _ in range(2)]
    with_unit, without = map(min, zip(*times, strict=True))
    benchmark.extra_info["times as long as without a unit"] = round(with_unit / without, 2)
    benchmark.extra_info["seconds"] = round(with_unit, 2)
