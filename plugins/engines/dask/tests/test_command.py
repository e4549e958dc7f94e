"""``dpkit compose --engine dask`` on a real cluster, the plan it saves, and what is charged if it ends."""

import contextlib
import json
import subprocess
import sys
import tomllib

import dask
import distributed
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from dpkit_engine_dask import DaskDataset

from dpkit_core import Release, verify

#: Which sum of the run is the last.
LAST = 12

TREES = ("--regressor", "boosted_trees", "--set", "regressor.trees=3")

ACCOUNT = ("--account", "sales", "--schema", "sales.schema.toml", "--epsilon", "9", "--delta", "1e-4")

FACTS = """
target = "y"
[columns.a]
lower = 0
upper = 1
[columns.y]
lower = -1
upper = 2
"""


@pytest.fixture
def table(folder):
    rng = np.random.default_rng(7)
    a = rng.random(300)
    (folder / "sales").mkdir()
    for i in range(2):
        part = slice(150 * i, 150 * (i + 1))
        pq.write_table(pa.table({"a": a[part], "y": a[part] ** 2}), folder / "sales" / f"{i}.parquet")
    (folder / "sales.schema.toml").write_text(FACTS)
    return "sales"


@pytest.fixture(scope="module")
def cluster():
    with distributed.LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=":0") as started:
        yield f"engine.scheduler={started.scheduler_address}"


@pytest.fixture
def impatient():
    with dask.config.set({"distributed.comm.timeouts.connect": "1s", "distributed.comm.retry.count": 0}):
        yield


@pytest.mark.slow
def test_a_release_and_a_saved_plan_are_those_of_one_machine(dpkit, table, folder, cluster):
    saved = ("--seed", "5", "--save", "there.toml", "-o", "there.json")
    result = dpkit("compose", table, *TREES, "--engine", "dask", "--set", cluster, *saved)
    assert result.exit_code == 0, result.output
    assert "dask shows its work at http" in result.stderr
    assert "records stay on dask" in " ".join(result.stdout.split())
    assert dpkit("run", "there.toml", table, "--seed", "5", "-o", "again.json").exit_code == 0
    assert dpkit("compose", table, *TREES, "--seed", "5", "-o", "here.json").exit_code == 0
    there, again, here = (
        json.loads((folder / f"{name}.json").read_text()) for name in ("there", "again", "here")
    )
    assert there == again
    assert there["model"] == here["model"]
    assert there["certificate"]["engine"] == {
        "name": "dask",
        "distribution": "dpkit-engine-dask",
        "version": "0.1.0",
    }
    assert "scheduler" not in json.dumps(there)
    plan = tomllib.loads((folder / "there.toml").read_text())
    assert plan["engine"]["options"]["scheduler"] in cluster
    assert verify(Release.read(folder / "there.json")).epsilon == here["certificate"]["epsilon"]
    del there["certificate"]["engine"]
    assert "names no engine" in str(verify(Release.from_document(there)).problems)


def test_what_cannot_run_there_is_refused_in_the_plan(dpkit, table):
    result = dpkit("compose", table, "--regressor", "tukey", "--engine", "dask", "--dry-run")
    assert result.exit_code == 2
    assert "tukey needs the records in one place, but dask computes sums where they are" in " ".join(
        result.output.split()
    )
    alone = dpkit("compose", table, "--set", "engine.workers=2", "--dry-run")
    assert alone.exit_code == 2
    assert "name it, as in --engine dask" in " ".join(alone.output.split())
    wrong = dpkit("compose", table, "--engine", "dask", "--set", "engine.wrkers=2", "--dry-run")
    assert "engine dask has no option 'wrkers'; it has scheduler, workers" in " ".join(wrong.output.split())


def test_a_cluster_that_is_not_there_costs_nothing(dpkit, table, folder, impatient):
    dpkit("ledger", "create", "ledger.db", *ACCOUNT)
    nowhere = ("--engine", "dask", "--set", "engine.scheduler=tcp://127.0.0.1:9")
    paid = ("--ledger", "ledger.db", "--account", "sales", "--format", "json")
    result = dpkit("compose", table, *TREES, *nowhere, *paid)
    assert result.exit_code == 2
    assert "the Dask cluster does not answer" in result.output
    assert charged(dpkit) == []


@contextlib.contextmanager
def processes(folder):
    """Run a scheduler and a worker by themselves, as on other machines."""
    where = ("--scheduler-file", str(folder / "scheduler.json"))
    started = []
    for kind, *options in (
        ("scheduler", "--port", "0", "--dashboard-address", ":0"),
        ("worker", "--no-nanny"),
    ):
        command = [sys.executable, "-m", f"distributed.cli.dask_{kind}", *where, *options]
        started.append(subprocess.Popen(command, stderr=subprocess.DEVNULL))
    try:
        with distributed.Client(scheduler_file=where[1], timeout=60, set_as_default=False) as client:
            client.wait_for_workers(1)
            yield started[0], client.scheduler.address
    finally:
        for process in started:
            process.kill()
            process.wait()


@pytest.mark.slow
@pytest.mark.usefixtures("impatient")
def test_a_scheduler_that_is_killed_before_the_run_costs_nothing(dpkit, table, folder, monkeypatch):
    dpkit("ledger", "create", "ledger.db", *ACCOUNT)
    ordinary = DaskDataset.of
    with processes(folder) as (scheduler, address):

        def opened(client, parts, schema):
            scheduler.kill()
            return ordinary(client, parts, schema)

        monkeypatch.setattr(DaskDataset, "of", opened)
        there = ("--engine", "dask", "--set", f"engine.scheduler={address}")
        result = dpkit("compose", table, *TREES, *there, "--ledger", "ledger.db", "--account", "sales")
    assert result.exit_code == 2, result.output
    assert not (folder / "release.json").exists()
    assert charged(dpkit) == []


@pytest.mark.parametrize(
    "step",
    [
        pytest.param(4, marks=pytest.mark.slow),
        *(pytest.param(step, marks=pytest.mark.exhaustive) for step in (1, LAST)),
    ],
)
@pytest.mark.usefixtures("impatient")
def test_a_run_whose_scheduler_is_killed_is_charged_once(dpkit, table, folder, monkeypatch, step):
    """As soon as the first sum was asked for, or between two trees; after the last one the run ends well."""
    dpkit("ledger", "create", "ledger.db", *ACCOUNT)
    ordinary, asked = DaskDataset.total, []
    with processes(folder) as (scheduler, address):

        def counted(self, what, shares):
            asked.append(what)
            if len(asked) == step:
                scheduler.kill()
            return ordinary(self, what, shares)

        monkeypatch.setattr(DaskDataset, "total", counted)
        there = ("--engine", "dask", "--set", f"engine.scheduler={address}")
        result = dpkit("compose", table, *TREES, *there, "--ledger", "ledger.db", "--account", "sales")
    assert len(asked) == step, asked
    assert result.exit_code == (0 if step == LAST else 4), result.output
    assert ("the planned budget counts as spent" in " ".join(result.output.split())) is (step != LAST)
    assert (folder / "release.json").exists() is (step == LAST)
    assert charged(dpkit) == ["released" if step == LAST else "failed", "reserved"]


def charged(dpkit):
    """Return what happened to the account since it was opened, the last first."""
    shown = json.loads(dpkit("ledger", "show", "ledger.db", "--account", "sales", "--format", "json").stdout)
    return [entry["kind"] for entry in shown["entries"][:-1]]
