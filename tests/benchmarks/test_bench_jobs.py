"""What a second job is worth, on a suite of 200 trials; needs two idle cores.

uv run pytest -n0 tests/benchmarks/test_bench_jobs.py --benchmark-only
"""

import itertools

import pytest
from dpkit_command_bench.results import Results
from dpkit_command_bench.runner import local_workers, run
from dpkit_command_bench.suite import Suite

DOCUMENT = {
    "epsilon": [0.5, 1.0, 2.0, 4.0],
    "k": [5],
    "splits": 10,
    "trials": 5,
    "tables": {"ones": {"generator": "five-ones", "options": {"rows": 20_000, "features": 40}}},
    "compositions": {"k-tukey": {"recipe": "k-tukey"}},
}


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_suite_of_200_trials(jobs, benchmark, tmp_path):
    suite = Suite.from_document("speed", DOCUMENT, tmp_path)
    folders = itertools.count()

    def run_anew():
        # Starting the worker processes is part of what a user waits for.
        with local_workers(jobs) as workers:
            return run(suite, Results(tmp_path / str(next(folders))), workers)

    ran = benchmark.pedantic(run_anew, rounds=2, iterations=1)
    assert ran.done == 200
