"""A large table is in memory once, however many jobs read it."""

import time
from pathlib import Path

import pytest

ROWS, FEATURES = 500_000, 12
TABLE_MB = 8 * ROWS * FEATURES / 2**20
PATIENCE = 300.0  # seconds; the machine may be busy

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="needs /proc/PID/smaps_rollup"),
]


def family(pid):
    """Return a process and those that it and they started."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return []
    return [pid, *(each for child in children for each in family(int(child)))]


def memory(pid):
    """Return the memory of a family in megabytes; a page that several map counts once."""
    total = 0
    for each in family(pid):
        try:
            lines = Path(f"/proc/{each}/smaps_rollup").read_text().splitlines()
        except OSError:  # just ended
            continue
        total += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return total / 1024


@pytest.fixture
def peak(start, suite_file, document, tmp_path):
    """Return the largest memory of a run on a table of that many records while trials were running."""

    def measure(rows, jobs):
        options = {"rows": rows, "features": FEATURES}
        path = suite_file(
            tables={"ones": {"generator": "five-ones", "options": options, "bounds": "from-data"}},
            # With a selection: otherwise each regressor gets a copy of the table, by record.
            compositions={
                "selected": document["compositions"]["selected"]
                | {"options": {"regressor": {"seconds": 0.5}}}
            },
            k=[1],
            splits=1,
            trials=4,
            epsilon=[1.0],
        )
        folder = tmp_path / f"{rows}-{jobs}"
        process = start("bench", path, "--jobs", jobs, "--results", folder)
        largest, deadline = 0.0, time.monotonic() + PATIENCE
        while process.poll() is None:
            if time.monotonic() > deadline:
                pytest.fail("the run does not end")
            if list(folder.glob("fresh/*.parquet")):
                largest = max(largest, memory(process.pid))
            time.sleep(0.02)
        assert process.returncode == 0, process.stderr.read()
        return largest

    return measure


@pytest.mark.exhaustive
def test_memory_of_a_large_table_does_not_grow_with_jobs(peak):
    one, three = (peak(ROWS, jobs) - peak(100, jobs) for jobs in (1, 3))
    print(f"table {TABLE_MB:.0f} MB; for it, one job takes {one:.0f} MB, three take {three:.0f} MB")
    assert one > 0.8 * TABLE_MB  # or else this measures nothing
    # A copy for each job would be two tables more; what a trial itself computes with is far less than one.
    assert three < one + TABLE_MB
