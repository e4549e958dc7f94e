"""Importing pandas, polars or pyarrow.dataset takes a second; ADBC's own DBAPI layer imports them all."""

import os
import subprocess
import sys

import pytest

WITHOUT = "pandas", "polars", "pyarrow.dataset", "adbc_driver_manager.dbapi", "sqlite3"


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["sqlite", "duckdb"])
def test_a_read_imports_no_more_than_it_needs(engine, tmp_path):
    path = tmp_path / f"x.{engine}"
    others = {"sqlite", "duckdb"} - {engine}
    module = {"sqlite": "sqlite3", "duckdb": "duckdb"}[engine]
    subprocess.run(
        [
            sys.executable,
            "-c",
            f"import {module}, sys; c = {module}.connect(sys.argv[1]); c.execute('CREATE TABLE t (a "
            "INTEGER)'); c.execute('INSERT INTO t VALUES (1)'); c.commit(); c.close()",
            str(path),
        ],
        check=True,
    )
    code = f"""
import sys
from importlib.metadata import entry_points
from dpkit_core.data.features import Written
from dpkit_core.data.source import ReadOptions
[found] = entry_points(group="dpkit.sources", name=".{engine}")
source = found.load()(sys.argv[1], ReadOptions(table="t"))
assert [batch.num_rows for batch in source.batches({{"a": Written()}}, 10)] == [1]
source.close()
print(*sys.modules)
"""
    command = [sys.executable, "-W", "error", "-c", code, str(path)]
    # Measuring what tests reach would import sqlite3.
    alone = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE")}
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=alone)
    assert done.stderr == ""
    assert not set(WITHOUT) & set(done.stdout.split())
    assert not {f"dpkit_source_sql.{other}" for other in others} & set(done.stdout.split())
