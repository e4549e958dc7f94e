"""A run that is stopped in any way keeps the trials that are done, and the rest can follow."""

import os
import signal
import time
from pathlib import Path

import pytest
from dpkit_command_bench.results import Results
from dpkit_command_bench.runner import local_workers, run
from dpkit_command_bench.suite import find_suite

PATIENCE = 900.0  # seconds; the machine may be busy

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs /proc")]


@pytest.fixture
def slow_suite(document, suite_file):
    """A suite of 24 trials that take a tenth of a second each."""
    for composition in document["compositions"].values():
        composition["options"] = {"regressor": {"seconds": 0.1}}
    return suite_file()


@pytest.fixture
def uninterrupted(slow_suite, tmp_path, numbers):
    """What the rows must be in the end."""
    whole = Results(tmp_path / "whole")
    with local_workers(1) as workers:
        run(find_suite(str(slow_suite)), whole, workers)
    return numbers(whole.rows())


def wait_until(condition):
    deadline = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            pytest.fail("nothing happened")
        time.sleep(0.01)


def stored(results):
    return len(set(results.folder.glob("fresh/*.parquet")))


def descendants(pid):
    """Return the processes that a process started, and those that they started."""
    found = []
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        found += [int(child), *descendants(int(child))]
    return found


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.fixture
def bench(start, slow_suite, results):
    """Start the suite with that many jobs, going on where it was."""

    def command(jobs=2, **options):
        return start("bench", slow_suite, "--jobs", jobs, "--results", results.folder, "--resume", **options)

    return command


@pytest.fixture
def finish(bench, results, numbers, uninterrupted):
    """Run what is left, and compare everything with the run that was not interrupted."""

    def command(jobs=2):
        before = stored(results)
        process = bench(jobs)
        output, errors = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0, errors
        assert f"{24 - before} run now, {before} done before." in output
        assert numbers(results.rows()) == uninterrupted
        names = {path.name.partition("-")[0] for path in results.folder.iterdir()}
        assert names == {"suite.json", "lock", "trials"}

    return command


@pytest.mark.first(1)
@pytest.mark.parametrize(("jobs", "finished"), [(2, 3), (1, 12)])
def test_a_killed_run_goes_on_to_the_same_numbers(jobs, finished, bench, finish, results):
    process = bench(jobs)
    wait_until(lambda: stored(results) >= finished)
    workers = descendants(process.pid)
    process.kill()
    process.wait()
    # At once, while processes that the killed one started may still be there: the folder is not locked.
    with results.locked():
        assert len(results.rows()) == stored(results)
    wait_until(lambda: not any(map(alive, workers)))
    finish(jobs)


def test_an_interrupt_from_the_keyboard_keeps_what_is_done(bench, results):
    process = bench()
    wait_until(lambda: stored(results) >= 3)
    workers = descendants(process.pid)
    os.killpg(process.pid, signal.SIGINT)  # to every process of the group, as a terminal does
    _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert f"interrupted; finished trials are in {results.folder}" in errors
    assert "Traceback" not in errors
    wait_until(lambda: not any(map(alive, workers)))
    assert len(results.rows()) == stored(results) >= 3  # how a run goes on is shown where it was killed


def test_a_worker_that_dies_ends_the_run_with_a_sentence(bench, results):
    process = bench()
    wait_until(lambda: stored(results) >= 3)
    commands = {pid: Path(f"/proc/{pid}/cmdline").read_bytes() for pid in descendants(process.pid)}
    os.kill(next(pid for pid, command in commands.items() if b"LokyProcess" in command), signal.SIGKILL)
    _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 2
    assert "a worker process died, perhaps for lack of memory" in errors
    assert "run again with --resume, and fewer --jobs" in errors
    assert "Traceback" not in errors
    assert len(results.rows()) == stored(results) >= 3


@pytest.mark.first(1)
@pytest.mark.parametrize(
    ("room", "message"), [(2_000, "cannot write a split of table 'ones'"), (5_000, "cannot write to")]
)
def test_a_full_disk_is_a_sentence(room, message, bench, finish):
    import resource

    def limit():  # no file may become larger, which is what a full disk looks like to a writer
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))

    process = bench(1, preexec_fn=limit)
    _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 2
    assert message in errors
    assert "run again with --resume" in errors
    assert "Traceback" not in errors
    if room == 5_000:  # where something was written
        finish(1)
