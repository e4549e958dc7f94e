"""Reading a text file into a matrix in C order, beside polars; and the memory of a pass over a longer one.

uv run pytest -n0 tests/benchmarks/test_text_source.py --benchmark-only
"""

import subprocess
import sys
import time

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from dpkit_source_text import open_csv
from pyarrow import csv

from dpkit_core.data.features import Written
from dpkit_core.data.source import ReadOptions

N, D = 1_000_000, 10


@pytest.fixture(scope="module")
def numbers(tmp_path_factory):
    rng = np.random.default_rng(0)
    path = tmp_path_factory.mktemp("text") / "numbers.csv"
    csv.write_csv(pa.table({f"x{j}": rng.standard_normal(N).round(6) for j in range(D)}), path)
    return path


def matrix(path):
    source, X, filled = open_csv(str(path), ReadOptions()), np.empty((N, D)), 0
    for batch in source.batches(dict.fromkeys(source.fields.names, Written()), N):
        block = X[filled : filled + batch.num_rows]
        for j, column in enumerate(batch.columns):
            block[:, j] = np.from_dlpack(column)
        block += 0.0  # as the encoder does, for one zero
        filled += batch.num_rows
    return X


def test_a_matrix_of_numbers(benchmark, numbers):
    processor = []

    def timed(read):
        start = time.process_time()
        X = read()
        return time.process_time() - start, X

    def ours():
        taken, X = timed(lambda: matrix(numbers))
        others, Y = timed(lambda: pl.read_csv(numbers).to_numpy(order="c"))
        processor.append((taken, others))
        assert np.array_equal(X, Y)

    benchmark.pedantic(ours, rounds=5, warmup_rounds=1)
    taken, others = np.median(processor, axis=0)
    benchmark.extra_info["processor seconds"] = round(taken, 2)
    benchmark.extra_info["processor seconds of polars"] = round(others, 2)


PASS = """
import sys
import pyarrow.csv
from dpkit_core.data.features import Written
from dpkit_core.data.source import ReadOptions
from dpkit_source_text import open_csv
source = open_csv(sys.argv[1], ReadOptions())
wanted = dict.fromkeys(source.fields.names, Written())
print(sum(batch.num_rows for batch in source.batches(wanted, 10**6)))
for line in open("/proc/self/status"):
    if line.startswith("VmHWM"):  # unlike that of getrusage, not the peak of what started it
        print(int(line.split()[1]) // 1024)
"""


def test_the_memory_of_a_pass(benchmark, numbers, tmp_path):
    long = tmp_path / "long.csv"
    header, _, records = numbers.read_bytes().partition(b"\n")
    with long.open("wb") as file:
        file.write(header + b"\n")
        for _ in range(6):
            file.write(records)

    def read():
        command = [sys.executable, "-c", PASS, str(long)]
        return subprocess.run(command, capture_output=True, check=True, text=True).stdout.split()

    rows, peak = benchmark.pedantic(read, rounds=1)
    assert int(rows) == 6 * N
    benchmark.extra_info["MB of the file"] = round(long.stat().st_size / 2**20)
    benchmark.extra_info["MB at most"] = int(peak)
