"""The seven methods of DPKendall and one of dpkit's own, beside the paper's Figures 1, 2, 4 and 5.

python docs/results/dpkendall.py TABLES [RESULTS]

runs the suite ``dpkendall`` on the tables in the folder TABLES, keeps its rows in RESULTS, where an
interrupted run goes on, writes ``tables/dpkendall-{k*,ranks-k*}.csv`` and draws ``dpkendall-*.svg``.
Research, not releases: trials are seeded and scored on private records.
"""

from __future__ import annotations

import math
import statistics
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from dpkit_command_bench.plots import draw
from dpkit_command_bench.published import Published, find_value
from dpkit_command_bench.results import Results
from dpkit_command_bench.runner import local_workers, run
from dpkit_command_bench.suite import find_suite
from dpkit_command_bench.summary import Standing, summarize
from pages import keep, within

OURS = "k-winsorized"
SPEARMAN = f"{OURS} + scorer spearman"
PICTURES = ("tables-k5", "tables-k10")

Row = dict[str, Any]


def number(value: float | None) -> str:
    """Return a median as short as it can be read."""
    if value is None:
        return ""
    if math.isinf(value):
        return "refused"
    return f"{value:z.2f}" if value > -10 else f"{value:.0e}".replace("e+0", "e").replace("e+", "e")


def medians(rows: Iterable[Row], published: Sequence[Published], names: Sequence[str], k: int) -> None:
    """Keep the medians of each table, with the paper's in brackets, and the worst split of our method."""
    r2: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
    settings: dict[str, dict[str, float]] = {}
    for row in rows:
        if row["k"] in (k, None) and row["r2"] is not None:
            r2[row["table"], row["composition"]].append(row["r2"])
            settings[row["table"]] = {"epsilon": row["epsilon"], "delta": row["delta"]}

    def cell(place: str, name: str) -> str:
        ours = r2.get((place, name))
        if not ours:
            return ""
        theirs = find_value(published, metric="r2", table=place, composition=name, k=k, **settings[place])
        return number(statistics.median(ours)) + (f" ({number(theirs.median)})" if theirs else "")

    keep(
        f"dpkendall-k{k}",
        ("table", *names, "worst"),
        [
            (place, *(cell(place, name) for name in names), number(min(r2[place, OURS])))
            for place in settings
            if r2[place, OURS]
        ],
    )


def standings(rows: Sequence[Row], published: Sequence[Published], names: Sequence[str]) -> None:
    """Keep how often each private method is positive, first, and first or second."""
    everyone = summarize(rows, "r2", published).standings
    theirs = summarize([row for row in rows if row["composition"] != OURS], "r2", published).standings

    def counts(standing: Standing | None) -> str:
        if standing is None:
            return ""
        first, second = standing.ranks[1], standing.ranks[2]
        return f"{standing.positive}, {first}, {first + second}"

    for k in sorted({standing.k for standing in everyone if standing.k is not None}):
        among = [
            {standing.composition: standing for standing in each if standing.k == k}
            for each in (everyone, theirs)
        ]
        keep(
            f"dpkendall-ranks-k{k}",
            ("method", "in the paper", "here, the paper's methods", "here, all"),
            [
                (
                    name,
                    counts(among[0][name].published),
                    counts(among[1].get(name)),
                    counts(among[0][name]),
                )
                for name in names
                if name in among[0]
            ],
        )


def spearman(rows: Sequence[Row], ks: Sequence[int]) -> None:
    """Keep the medians of our method with each of two scorers, and the worst split with the other one."""
    found: defaultdict[tuple[int, str], defaultdict[str, list[float]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for row in rows:
        found[row["k"], row["table"]][row["composition"]].append(row["r2"])
    keep(
        "dpkendall-spearman",
        ("k", "table", OURS, "with spearman", "worst with spearman"),
        [
            (
                k,
                table,
                number(statistics.median(each[OURS])),
                number(statistics.median(each[SPEARMAN])),
                number(min(each[SPEARMAN])),
            )
            for k in ks
            for (at, table), each in found.items()
            if at == k
        ],
    )


def main(tables: Path, folder: Path) -> None:
    """Run what is missing, then keep and draw."""
    suite, results = find_suite("dpkendall"), Results(folder)
    suite = suite.only("table", ",".join(suite.published[0].values["non-dp"]))  # without what is made up
    other, others = suite.only("composition", OURS).add("scorer", "spearman"), Results(folder / "spearman")
    other = other.only("composition", SPEARMAN)
    with local_workers(-1) as workers:
        for some, kept in ((suite, results), (other, others)):
            run(some, kept, workers, data_dir=within(tables, "361072_cpu_act.parquet"))
    rows, published = results.rows(), results.published()
    spearman([*rows, *others.rows()], suite.k)
    names = [recipe.name for recipe in suite.compositions]
    for k in suite.k:
        medians(rows, published, names, k)
    standings(rows, published, names)
    with tempfile.TemporaryDirectory() as drawn:
        draw(rows, Path(drawn), published=published)
        for picture in PICTURES:
            target = Path(__file__).with_name(f"dpkendall-{picture}.svg")
            target.write_bytes(Path(drawn, f"{picture}.svg").read_bytes())


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2] if len(sys.argv) > 2 else "results/dpkendall"))
