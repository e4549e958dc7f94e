"""What the README says about utility is what a page of results says, which names the command that made it."""

import csv
import re
import runpy
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pages
import pytest
from dpkit_command_bench.results import Results
from dpkit_command_bench.runner import local_workers, run
from dpkit_command_bench.suite import find_suite
from scipy.stats import binom, kendalltau

from dpkit_core.release.evaluation import SEEN_BY_HOW_MUCH

ROOT = Path(__file__).parents[2]
#: What names a cell in the table of the suites' quartiles.
CELL = ("suite", "table", "composition", "epsilon", "k")


def table(name: str) -> list[dict[str, str]]:
    """Return the rows of a table of results."""
    with (pages.HERE / "tables" / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return [*csv.DictReader(file)]


#: Page, and what it shows of a file.
SHOWN = [
    (page.name, at) for page in pages.PAGES for at in pages.MARKED.finditer(page.read_text(encoding="utf-8"))
]


@pytest.mark.parametrize(("page", "at"), SHOWN, ids=[f"{page}-{at['name']}" for page, at in SHOWN])
def test_a_page_shows_its_table(page: str, at: re.Match[str]) -> None:
    found = table(at["name"])
    expected = pages.shown(at["asked"] or "", at["table"], [*found[0]], [[*row.values()] for row in found])
    assert pages.plain([at["table"]]) == pages.plain([expected])


def test_nothing_is_below_zero_by_its_sign_alone() -> None:
    assert [pages.short(value) for value in (-0.001, -0.006, 0.5)] == [".00", "-.01", ".50"]
    for path in pages.HERE.glob("tables/*.csv"):
        assert not re.search(r"-0?\.0+(?!\d)", path.read_text(encoding="utf-8")), path.name


#: Tables that a script writes in a way of its own, which tests of its own compare.
WRITTEN = re.compile(r"<!-- written by [\w/.]+ -->.*?<!-- (?:its end|until here) -->", re.DOTALL)
NUMBER = re.compile(r"[-+]?\d*\.?\d+(e[-+]?\d+)?( ?%| ± \d+)?( \([^)]*\))?")


def by_hand(text: str) -> list[str]:
    """Return the heads of tables of numbers, by column or row, that no file has."""
    rest = WRITTEN.sub("", pages.MARKED.sub("", text))
    found = []
    for head, body in re.findall(r"^(\|.*\|)\n\|[-:| ]+\|\n((?:\|.*\|\n?)+)", rest, re.MULTILINE):
        rows = [
            [cell.strip() for cell in pages.plain([row])[0].strip("|").split("|")]
            for row in body.splitlines()
        ]
        columns, long = [*zip(*rows, strict=True)][1:], [row[1:] for row in rows if len(row) > 2]
        if any(
            sum(bool(NUMBER.fullmatch(cell)) for cell in line) > len(line) / 2 for line in [*columns, *long]
        ):
            found.append(head)
    return found


@pytest.mark.parametrize("page", sorted(path.name for path in pages.HERE.glob("*.md")))
def test_no_table_of_numbers_is_written_by_hand(page: str) -> None:
    assert by_hand((pages.HERE / page).read_text(encoding="utf-8")) == []


def test_a_table_of_numbers_is_known_by_its_columns_and_rows() -> None:
    words = "| what | told |\n|---|---|\n| one | at .5 and 20 % |\n| two | 3 |\n| three | no |\n"
    numbers = "| what | at 1 |\n|---|---:|\n| one | -.5 ± 3 |\n| two | 90.2% |\n| three | no |\n"
    assert by_hand(f"{words}\n{numbers}") == ["| what | at 1 |"]
    assert by_hand(f"<!-- found.csv -->\n\n{numbers.rstrip()}\n\n<!-- its end -->\n") == []


def test_the_readme_has_the_pipelines_of_its_script() -> None:
    assert ("README.md", "diamonds") in {(page, at["name"]) for page, at in SHOWN}
    made = runpy.run_path(str(ROOT / "docs/results/diamonds.py"))
    assert [row["pipeline"] for row in table("diamonds")] == [
        pages.plain([name])[0] for name in made["PIPELINES"]
    ]


def test_two_pages_say_the_same_of_the_same_fits() -> None:
    here = {row["pipeline"]: row["R² on held-out diamonds"] for row in table("diamonds")}
    beside = {row["fit"]: row["R², median"] for row in table("beside")}
    for name in ("winsorized_least_squares", "boosted_trees"):
        assert beside[f"dpkit {name}"] == here[f"{name}, all features"]
    assert beside["least squares, no privacy"] == here["least squares, no privacy"]


def test_the_landing_page_says_what_the_tables_of_its_papers_say() -> None:
    said = (pages.HERE / "index.md").read_text(encoding="utf-8")
    recall = {(row["scorer"], row["selector"]): row["2"] for row in table("dp-sis-1000-records")}
    assert recall["correlation, clip 1 sd", "canonical_lipschitz"] == "1.00"
    assert recall["correlation, published (not private)", "canonical_lipschitz"] == "0.08"
    assert "All of 8 relevant columns among 1000 at epsilon 2, instead of .08" in said

    medians = table("dpkendall-k5")
    positive = {
        name: sum(not row[name].startswith(("-", "refused")) for row in medians)
        for name in ("k-tukey", "k-winsorized")
    }
    assert (len(medians), positive) == (11, {"k-tukey": 10, "k-winsorized": 11})
    assert "on ten of eleven tables by the paper's `k-tukey`, on all by `k-winsorized`" in said

    f1 = {row[""]: float(row["F1"]) for row in table("screening-uncorrelated")}
    found = f1["proved: frank_wolfe"], f1["paper: RNM-Screen as printed, T = 1000"]
    assert f"F1 {found[0]:.2f} of the true coefficients by `frank_wolfe`".replace("0.", ".") in said
    assert f"the printed rule, which is not private, has {found[1]:.2f}".replace("0.", ".") in said

    trees = {row["epsilon"]: row for row in table("s-gbdt-abalone")}
    ours, theirs, more = trees["0.2"]["sgbdt"], trees["0.2"]["authors' repository"], trees["1"]["sgbdt"]
    assert (ours[:5], theirs, more[:5]) == ("0.337", "0.317", "0.441")
    assert ".337 at epsilon .2, where the authors' code with valid accounting has .317, and .441 at 1" in said


#: How prose writes whole numbers.
WORDS = re.findall(r"\w+", "none one two three four five six seven eight nine ten eleven twelve")


def number(cell: str) -> float:
    """Return the number that a cell begins with: a refusal as 0, and a mean without its worst or error."""
    return 0.0 if cell.startswith("refused") else float(cell.split(maxsplit=1)[0])


def said(page: str) -> str:
    """Return the text of a page on one line."""
    return " ".join((pages.HERE / f"{page}.md").read_text(encoding="utf-8").split())


def test_trees_are_said_to_be_ahead_where_their_tables_have_them() -> None:
    splits = {row["table"]: row for row in table("trees-splits")}
    behind = {
        name
        for name, row in splits.items()
        for way in ("told nothing", "told ranges")
        if number(row[f"1 {way}"]) <= number(row["OLS"])
    }
    assert behind == {"abalone"}
    assert f"least squares on {WORDS[len(splits) - 1]} of twelve tables, told the ranges or nothing" in said(
        "trees"
    )
    more = {"0.5": 0, "2": 0}
    for row in table("s-gbdt-other-tables"):
        if row["epsilon"] in more:
            ours = number(splits[row["table"]][f"{row['epsilon']} told ranges"])
            more[row["epsilon"]] += ours > number(row["sgbdt"])
    few, many = (WORDS[count] for count in more.values())
    assert f"has more on {few} of twelve tables at .5 and on {many} at 2" in said("s-gbdt")


def test_poisson_loss_is_said_to_be_worse_where_its_table_has_it() -> None:
    worse, compared = Counter[bool](), Counter[bool]()
    for row in table("trees-counts-deviance"):
        for column in row:
            cells = row[column], row.get(column.replace(" Poisson", " squared"), "refused")
            if column.endswith(" Poisson") and "refused" not in cells:
                low = column.startswith("0.1 ")
                compared[low] += 1
                worse[low] += number(cells[0]) > number(cells[1])
    counts = [f"{worse[low]} of {compared[low]}" for low in (False, True)]
    assert f"higher deviance in {counts[0]} comparisons, at .1 in {counts[1]}" in said("trees")


def test_kendall_and_spearman_take_the_seconds_that_are_said() -> None:
    first, more = (
        {
            row["scorer"]: f"{number(row[column]):.1f}".removeprefix("0")
            for row in table("spearman-seconds")
            if row["records, features"] == "1000000, 20"
        }
        for column in ("first round", "four more")
    )
    assert (
        f"10^6 records of 20 features take {first['spearman']} s "
        f"and {more['spearman']} s for four more rounds, "
        f"`kendall` with kernels {first['kendall']} and {more['kendall']} s"
    ) in said("features")


def test_ranks_on_dpkendalls_page_are_those_of_its_table() -> None:
    ranks = {row["method"]: row for row in table("dpkendall-ranks-k5")}
    theirs = WORDS[int(ranks["k-tukey"]["here, the paper's methods"].split(", ")[1])]
    ours = WORDS[int(ranks["k-winsorized"]["here, all"].split(", ")[1])]
    assert f"on {theirs}; `k-winsorized` beside the paper's methods on {ours}" in said("dpkendall")


def test_the_guide_to_scores_says_what_was_measured() -> None:
    guide = (ROOT / "docs/howto/score-a-model.md").read_text(encoding="utf-8")

    def short(number: float, digits: int = 2) -> str:
        return f"{number:.{digits}f}".replace("0.", ".")

    found = {(row["part"], row["records"], row["epsilon"]): row for row in table("optimism")}
    few, many = (found["boosted_trees", records, "1"] for records in ("2000", "20000"))
    middle, most = ([float(row[column]) for row in (few, many)] for column in ("optimism, median", "largest"))
    above = f"too high by {short(middle[0])} in the median and by {short(most[0])} at most"
    more = f"by {short(middle[1], 3)} and {short(most[1])}"
    assert f"{above} with 2 000 records, {more} with 20 000" in guide
    assert (
        f"In {few['fits']} fits of trees to 2 000 records at epsilon 1, capped R2 was {above}; "
        f"with 20 000 records, {more}."
    ) == SEEN_BY_HOW_MUCH
    ways = {row["way"]: row for row in table("optimism-ways")}
    none, held, seen, again = (
        ways[way]
        for way in ("no score", "a tenth held out", "in-sample, share .3", "a second run with epsilon .3")
    )
    assert held["scores told"].startswith("0 of")
    known, mean = "half of the interval, median", "R², mean"
    cost = [short(float(none[mean]) - float(way[mean]), 3) for way in (seen, again)]
    fits = held["scores told"].removeprefix("0 of ")
    assert f"a tenth held out told nothing in {fits} of {fits} fits" in guide
    assert f"known to ±{short(float(seen[known]))} in all, for {cost[0]} of R²" in guide
    said = again["scores told"].split(" of ")[0]
    assert f"to ±{short(float(again[known]))} in {said} of them, for {cost[1]}" in guide


SCRIPTS = [
    script.read_text(encoding="utf-8")
    for script in (*pages.HERE.glob("*.py"), ROOT / "tests/benchmarks/speed.py")
]
#: Tables of what an earlier version did, which no script can measure again.
BEFORE = {"trees-categories", "trees-factor", "trees-factor-means"}


@pytest.mark.parametrize("name", sorted({path.stem for path in pages.HERE.glob("tables/*.csv")} - BEFORE))
def test_a_table_is_written_by_a_script(name: str) -> None:
    # By its name, or by the first words of it, as in keep(f"penalties-{which}", ...).
    starts = [f'"{name}', f'/{name}.csv"', *(f'"{name[: at.end()]}{{' for at in re.finditer("-", name))]
    assert any(start in source for source in SCRIPTS for start in starts)


@pytest.mark.parametrize("page", sorted({page for page, _ in SHOWN} - {"README.md"}))
def test_a_page_with_tables_has_the_commands_that_measure_them(page: str) -> None:
    commands = pages.commands(page.removesuffix(".md"))
    assert commands
    for command in commands:
        (script,) = re.findall(r"docs/results/\w+\.py", command)
        assert (ROOT / script).is_file()


def test_a_page_is_rebuilt_where_it_leaves_nothing_else(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    page, script = tmp_path / "docs/results/page.md", tmp_path / "docs/results/measure.py"
    script.parent.mkdir(parents=True)
    page.write_text("    python docs/results/measure.py FOLDER kept.json\n\n$ python docs/results/other.py\n")
    script.write_text(
        "import pathlib, sys\n"
        "pathlib.Path(sys.argv[2]).write_text('kept')\n"
        "pathlib.Path(__file__).with_name('found').write_text(sys.argv[1])\n"
    )
    monkeypatch.setattr(pages, "HERE", page.parent)
    pages.rebuild("page", tmp_path / "data")
    assert (page.parent / "found").read_text() == str(tmp_path / "data")
    assert {path.name for path in page.parent.iterdir()} == {"page.md", "measure.py", "found"}


def test_a_table_is_kept_when_it_is_whole(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "tables").mkdir()
    page = tmp_path / "page.md"
    end = "<!-- its end -->"
    some = "<!-- found.csv: fit | R² -->\n\n| what | score |\n|---|---:|\n| **a**, b | {} |\n\n"
    page.write_text(f"before\n<!-- found.csv -->\n\n| old |\n\n{end} after\n{some.format(0)}{end}\n")
    monkeypatch.setattr(pages, "HERE", tmp_path)
    monkeypatch.setattr(pages, "PAGES", (page,))
    monkeypatch.setattr(pages, "draw", lambda name: None)

    def rows(*, broken: bool) -> Iterator[list[object]]:
        yield ["`a`, b", 1]
        if broken:
            raise ArithmeticError

    with pytest.raises(ArithmeticError):
        pages.keep("found", ["fit", "**R²**"], rows(broken=True))
    assert not list(tmp_path.glob("tables/*"))
    assert "| old |" in page.read_text(encoding="utf-8")
    pages.keep("found", ["fit", "**R²**"], rows(broken=False))
    assert (tmp_path / "tables/found.csv").read_text(encoding="utf-8") == 'fit,R²\n"a, b",1\n'
    lines = "| fit | **R²** |\n|---|---:|\n| `a`, b | 1 |\n"
    assert page.read_text(encoding="utf-8") == (
        f"before\n<!-- found.csv -->\n\n{lines}\n{end} after\n{some.format(1)}{end}\n"
    )
    assert capsys.readouterr().out.endswith(f"{lines}\n")


def test_a_page_asks_for_columns_and_rows_that_there_are() -> None:
    head, rows = ["fit", "epsilon", "R²"], [["a", 1, 0.5], ["a", 2, 0.7], ["b", 1, 0.1]]
    table = "| | at | score |\n|---|---|---:|\n| *a* | 2 | |"
    assert pages.shown("fit; epsilon | R²", table, head, rows).endswith("|---:|\n| *a* | 2 | 0.7 |")
    for asked, words in (
        ("fit; seed | R²", "seed"),
        ("fit | R²", "the same fit"),
        ("epsilon; fit | R²", r"\*a\*, 2"),
    ):
        with pytest.raises(ValueError, match=words):
            pages.shown(asked, table, head, rows)


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
    full = {tuple(row[fact] for fact in CELL): row for row in table("suites")}
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
    found = table("dpkendall-recovery")
    assert all(float(row["promised for max"]) <= float(row["max"]) for row in found)
    assert {row["mean"] for row in found if row["world"] == "weights 5, .5, .5"} == {"0.00"}


def test_the_correlations_of_its_bound_are_those_of_tables() -> None:
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
    assert made["page_table"](table("elsewhere")) in (ROOT / "docs/results/elsewhere.md").read_text(
        encoding="utf-8"
    )


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
