"""On a Dask cluster the numbers are the same, also when a worker is killed."""

import json
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import pytest
from dpkit_command_bench.errors import InvalidResults
from dpkit_command_bench.results import Results
from dpkit_command_bench.runner import cluster_workers, local_workers, run
from dpkit_command_bench.suite import find_suite

PATIENCE = 120.0  # seconds; the machine may be busy

# Not imported here: each worker of the default suite would spend two seconds on tests that it leaves out.
pytestmark = [pytest.mark.slow, pytest.mark.skipif(find_spec("distributed") is None, reason="without Dask")]


@pytest.fixture
def scheduler(parts, tmp_path):
    """Start a scheduler; return its address, and what starts a worker process of it."""
    address = tmp_path / "scheduler.json"
    environment = {"PYTHONPATH": str(parts.folder), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    dask = Path(sys.executable).with_name("dask")
    where = ["--scheduler-file", str(address), "--no-dashboard"]

    started = []

    def spawn(*arguments):
        process = subprocess.Popen(
            [dask, *arguments, *where],
            env=environment,
            cwd=tmp_path,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        started.append(process)
        return process

    spawn("scheduler", "--host", "127.0.0.1", "--port", "0")
    wait_until(address.is_file)
    yield json.loads(address.read_text())["address"], lambda: spawn("worker", "--nthreads", "1", "--no-nanny")
    for process in reversed(started):
        process.kill()
        process.wait()


@pytest.fixture
def cluster(scheduler):
    """Return the address of a scheduler, and its two workers."""
    import distributed

    address, worker = scheduler
    workers = [worker(), worker()]
    with distributed.Client(address, set_as_default=False) as client:
        client.wait_for_workers(2, timeout=PATIENCE)
    return address, workers


def wait_until(condition):
    deadline = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            pytest.fail("nothing happened")
        time.sleep(0.05)


@pytest.fixture
def suite(document, suite_file):
    for composition in document["compositions"].values():
        composition["options"] = {"regressor": {"seconds": 0.1}}
    return suite_file()


@pytest.mark.exhaustive  # CI kills workers of the engine, whose cluster this is
def test_a_killed_worker_loses_nothing_and_nothing_counts_twice(cluster, suite, start, results, numbers):
    address, workers = cluster
    process = start("bench", suite, "--scheduler", address, "--results", results.folder, "--format", "json")
    wait_until(lambda: len(list(results.folder.glob("fresh/*.parquet"))) >= 4)
    workers[0].kill()
    output, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, errors
    assert json.loads(output)["trials"] == {"run": 24, "done_before": 0, "skipped": 0}
    stored = [row["key"] for row in results.stored("key")]
    assert len(stored) == len(set(stored)) == 24
    here = Results(results.folder.with_name("here"))
    with local_workers(1) as local:
        run(find_suite(str(suite)), here, local)
    assert numbers(results.rows()) == numbers(here.rows())


def test_a_cluster_without_workers_ends_the_run_with_a_sentence(scheduler, suite, start, results):
    address, _ = scheduler
    process = start("bench", suite, "--scheduler", address, "--results", results.folder)
    _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 2
    assert f"the Dask scheduler at {address} has no workers; start some" in errors


def test_a_scheduler_that_does_not_answer_is_named():
    import dask

    with (
        dask.config.set({"distributed.comm.timeouts.connect": "1s"}),
        pytest.raises(InvalidResults, match=r"no Dask scheduler answers at tcp://127\.0\.0\.1:9"),
        cluster_workers("tcp://127.0.0.1:9"),
    ):
        pass
