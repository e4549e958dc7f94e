"""What ``dpkit list`` and ``dpkit --help`` cost beside ``import typer``, which every command needs.

uv run pytest -n0 tests/benchmarks/test_startup.py --benchmark-only
"""

import subprocess
import sys
import time
from pathlib import Path

import pytest

DPKIT = Path(sys.executable).with_name("dpkit")


def run(*words):
    subprocess.run([*map(str, words)], check=True, capture_output=True)


def typer_seconds():
    start = time.perf_counter()
    run(sys.executable, "-c", "import typer, typer.core")
    return time.perf_counter() - start


@pytest.mark.parametrize("arguments", [("list",), ("--help",), ("list", "--format", "json")], ids=" ".join)
def test_start_up(benchmark, arguments):
    benchmark.pedantic(lambda: run(DPKIT, *arguments), rounds=10, warmup_rounds=1)
    reference = min(typer_seconds() for _ in range(10))
    benchmark.extra_info["times import typer"] = round(benchmark.stats.stats.min / reference, 2)
