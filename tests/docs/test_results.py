"""What the README says about utility is what a page of results says, which names the command that made it."""

import csv
import re
import runpy
from pathlib import Path

import numpy as np
import pytest
from dpkit_command_bench.results import Results
from dpkit_command_bench.runner import local_workers, run
from dpkit_command_bench.suite import find_suite
from scipy.stats import binom, kendalltau

ROOT = Path(__file__).parents[2]
#: What names a cell in the table of the suites' quartiles.
CELL = ("suite", "table", "composition", "epsilon", "k")


def rows(text: str) -> list[tuple[str, str]]:
    """Return the rows of the table of pipelines: what is fitted, and its R^2."""
    return re.findall(r"^\| (.*\S) \| (\**\d\.\d{3}\**) \|$", text, re.MULTILINE)


def test_the_readme_has_the_table_of_the_results() -> None:
    stated = rows((ROOT / "README.md").read_text(encoding="utf-8"))
    shown = rows((ROOT / "docs/results/index.md").read_text(encoding="utf-8"))
    made = runpy.run_path(str(ROOT / "docs/results/diamonds.py"))
    assert stated == shown
    assert [what for what, _ in stated] == list(made["PIPELINES"])


def measured(text: str) -> list[str]:
    """Return what looks like a figure of utility or speed, outside of examples and tables."""
    prose = re.sub(r"^(```.*?^```$|\|.*?$)", "", text, flags=re.MULTILINE | re.DOTALL)
    return re.findall(
        r"\d[\d.]* ?(?:%|(?:ms|s|x|seconds?|minutes?|hours?|times)\b)|(?<!\d)0?\.\d+|R² \S* ?\d", prose
    )


def test_the_readme_has_no_other_figure_of_utility_or_speed() -> None:
    assert measured("3.6 times as fast, in 20 ms, at .81 or 0.9, by 5 %") == [
        "3.6 times",
        "20 ms",
        ".81",
        "0.9",
        "5 %",
    ]
    assert measured((ROOT / "README.md").read_text(encoding="utf-8")) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", runpy.run_path(str(ROOT / "docs/results/suites.py"))["SUITES"])
def test_a_quick_run_of_a_suite_lands_within_the_quartiles_of_the_full_run(name: str, tmp_path: Path) -> None:
    made = runpy.run_path(str(ROOT / "docs/results/suites.py"))
    with made["TABLE"].open(encoding="utf-8", newline="") as file:
        full = {tuple(row[fact] for fact in CELL): row for row in csv.DictReader(file)}
    suite, results = find_suite(name).quickly(), Results(tmp_path / "results")
    with local_workers(1) as workers:
        run(suite, results, workers, data_dir=None)
    quick = list(made["quartiles"](suite, results.rows()))
    assert len(quick) == len({trial.setting for trial in suite.trials()})  # nothing is missing or impossible
    for row in quick:
        whole = full[tuple(row[fact] for fact in CELL)]
        assert int(row["trials"]) < int(whole["trials"])
        assert float(whole["low"]) <= float(row["median"]) <= float(whole["high"]), (row, whole)


def test_the_theorem_of_dpkendall_promises_no_more_than_was_measured() -> None:
    with (ROOT / "docs/results/tables/dpkendall-recovery.csv").open(encoding="utf-8", newline="") as file:
        found = [*csv.DictReader(file)]
    assert all(float(row["promised for max"]) <= float(row["max"]) for row in found)
    assert {row["mean"] for row in found if row["world"] == "weights 5, .5, .5"} == {"0.00"}


def test_the_correlations_of_its_bound_are_those_of_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "docs/results"))
    made = runpy.run_path(str(ROOT / "docs/results/recovery.py"))
    for world in made["WORLDS"]:
        data = world.table(2000, seed=1)
        taus = [abs(kendalltau(data.X[:, 3 * j], data.y).statistic) for j in range(len(world.weights))]
        assert min(taus) == pytest.approx(world.tau(), abs=0.04)  # three standard deviations at most
        assert made["promised"](world, 100) == 0.0
        assert made["promised"](world, 10**6) > 0.99


def elsewhere() -> dict:
    return runpy.run_path(str(ROOT / "docs/results/elsewhere.py"))


def test_the_page_of_other_libraries_shows_its_table() -> None:
    made = elsewhere()
    with (ROOT / "docs/results/tables/elsewhere.csv").open(encoding="utf-8", newline="") as file:
        found = [*csv.DictReader(file)]
    assert made["page_table"](found) in (ROOT / "docs/results/elsewhere.md").read_text(encoding="utf-8")


def test_only_faults_with_a_public_thread_are_shown() -> None:
    made = elsewhere()
    thread = re.compile(r"https://github\.com/[\w-]+/[\w-]+/(issues|pull)/\d+")
    assert all(thread.search(row.fault) for row in made["ROWS"] if row.fault or row.attack)
    found = [dict.fromkeys(made["COLUMNS"], "") | {"claimed": 1, "kit": "not private"} for _ in made["ROWS"]]
    with pytest.raises(ValueError, match="no public thread is known"):
        made["page_table"](found)


@pytest.mark.parametrize("runs", [5, 300])
@pytest.mark.parametrize("chance", [0.001, 0.3, 0.9])
def test_counts_of_an_attack_bound_the_chance_of_its_event(runs: int, chance: float) -> None:
    made = runpy.run_path(str(ROOT / "docs/results/elsewhere/attacks.py"))
    counts = np.arange(runs + 1)
    for up in (False, True):
        bounds = np.array([made["farthest"](count / runs, runs, up) for count in counts])
        wrong = bounds < chance if up else bounds > chance
        assert binom.pmf(counts, runs, chance)[wrong].sum() <= made["LEVEL"] / 2
    low, high = made["farthest"](0.9, 300, False), made["farthest"](0.1, 300, True)
    assert made["proved"](270, 30, 300) == np.log(low / high)
    assert made["proved"](30, 30, 300) == 0
