"""What the papers' suites give in full on tables that need neither file nor network: ``tables/suites.csv``.

python docs/results/suites.py [RESULTS]

runs ``dpkit bench SUITE --only table=...`` for each suite that ships with the parts of a paper, and writes
the quartiles of each cell's trials. ``dpkit bench SUITE --quick`` is a part of it, and a test compares the
two. Rows are kept in RESULTS, where an interrupted run goes on.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from dpkit_command_bench.results import Results
from dpkit_command_bench.runner import local_workers, run
from dpkit_command_bench.suite import Suite, find_suite
from dpkit_command_bench.summary import summarize
from pages import keep

SUITES = ("dp-sis", "dpkendall", "rnm-screen", "s-gbdt")


def self_contained(suite: Suite) -> Suite:
    """Return the suite with the tables that are generated."""
    return suite.only("table", ",".join(table.name for table in suite.tables if table.generator))


def quartiles(suite: Suite, rows: Iterable[dict[str, Any]]) -> Iterable[dict[str, str]]:
    """Yield a row for each cell of the suite: the quartiles of its first metric."""
    wanted = {trial.key for trial in suite.trials()}
    metric = suite.metrics[0]
    for cell in summarize([row for row in rows if row["key"] in wanted], metric).cells:
        if cell.quartiles is None:
            continue
        at = cell.setting
        numbers = (cell.quartiles.low, cell.quartiles.median, cell.quartiles.high)
        yield {
            "suite": suite.name,
            "table": at.table,
            "composition": at.composition,
            "epsilon": f"{at.epsilon:.4g}",
            "k": "" if at.k is None else str(at.k),
            "trials": str(cell.trials),
            "metric": metric,
            **dict(zip(("low", "median", "high"), (f"{number:z.3f}" for number in numbers), strict=True)),
        }


def main(folder: Path) -> None:
    """Run what is missing, and write the table."""
    found: list[dict[str, str]] = []
    for name in SUITES:
        suite, results = self_contained(find_suite(name)), Results(folder / name)
        with local_workers(1) as workers:
            run(suite, results, workers, data_dir=None)
        found += quartiles(suite, results.rows())
    keep("suites", [*found[0]], [[*row.values()] for row in found])


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "results/suites"))
