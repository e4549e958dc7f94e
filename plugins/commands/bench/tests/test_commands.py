"""What a person types, and what is printed."""

import json
import os

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from dpkit_command_bench.errors import InvalidResults
from dpkit_command_bench.results import Results
from dpkit_command_bench.suite import Suite

SMALL = """
import attrs
from dpkit_core import Sensitivity
from tiny_bench import Large, Counts


@attrs.frozen
class Tiny(Large):
    '''How many records have a tiny value.'''

    def prepare(self, data, plan, meter, /):
        return Counts((abs(data.X) < 0.1).sum(axis=0).astype(float))
"""


@pytest.fixture
def document(document):
    """Six trials."""
    return document | {"splits": 1, "trials": 1}


@pytest.fixture
def bench(dpkit, suite_file):
    """Run the suite with one job; what it printed as JSON, or its error."""
    path = suite_file()

    def run(*arguments):
        done = dpkit("bench", path, "--jobs", "1", "--format", "json", *arguments)
        return json.loads(done.stdout) if done.exit_code == 0 else done.stderr

    return run


def compositions(document):
    return list(dict.fromkeys(cell["composition"] for cell in document["cells"]))


def write_table(path, rows=50):
    rng = np.random.default_rng(0)
    columns = {name: rng.normal(size=rows) for name in ("a", "b", "y")}
    pq.write_table(pa.table(columns), path)


def test_a_suite_is_run_and_summed_up(dpkit, suite_file):
    path = suite_file(tables={"ones": {"generator": "five-ones", "options": {"rows": 60, "features": 6}}})
    done = dpkit("bench", path, "--jobs", "1")
    assert done.exit_code == 0, done.output
    assert "r2 on held-out records: median and quartiles of the trials" in done.stdout
    # Without bounds of the target nothing can be planned, and the table says so.
    assert "ones, selected, k = 1: cannot compose large + best + average" in done.stdout
    assert "the mean needs bounds of the target" in done.stdout
    assert "Trials: 6 impossible; 6 run now, 0 done before." in done.stdout
    assert "Research, not releases: seeded, and scored on held-out private records." in done.stdout
    assert "Rows are in results/tiny" in done.stdout
    assert done.stderr == ""


@pytest.mark.slow
def test_the_table_says_once_what_is_everywhere_the_same(dpkit, suite_file):
    done = dpkit("bench", suite_file(), "--jobs", "1", "--only", "epsilon=2")
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert lines[1] == "epsilon = 2, delta = 1e-06"
    assert lines[2] == "table, composition k median quartiles refused"
    assert lines[4] == "ones"
    assert [line.split()[:2] for line in lines[5:8]] == [["selected", "1"], ["selected", "2"], ["all", "all"]]
    assert lines[5].endswith("0 of 1")


@pytest.mark.slow
def test_several_tables_rank_compositions(dpkit, suite_file, document):
    (facts,) = document["tables"].values()
    path = suite_file(tables={"ones": facts, "twos": facts})
    done = dpkit("bench", path, "--jobs", "1")
    assert "Private compositions over all tables" in done.stdout, done.output
    done = dpkit("bench", path, "--jobs", "1", "--resume", "--only", "table=ones")
    assert "Private compositions over all tables" not in done.stdout, done.output
    done = dpkit("bench", path, "--jobs", "1", "--resume", "--format", "json")
    assert {each["composition"] for each in json.loads(done.stdout)["standings"]} == {"selected", "all"}


def test_the_json_is_strict_and_complete(bench):
    document = bench()
    assert document["trials"] == {"run": 6, "done_before": 0, "skipped": 0}
    assert document["outcomes"] == {"released": 6, "refused": 0, "impossible": 0, "failed": 0}
    assert document["metric_data"] == "held-out private records; research, not a release"
    assert len(document["cells"]) == 6
    assert document["cells"][0]["metrics"].keys() == {"r2", "recall"}
    assert document["standings"] == []  # of one table
    assert (document["skipped"], document["rows_of_other_code"]) == ({}, {})


@pytest.mark.slow
def test_a_third_party_scorer_is_added_by_its_name_alone(bench, site):
    site.install(
        "dpkit-scorer-tiny", entry_points={"dpkit.scorers": {"mine": "tiny_scorer:Tiny"}},
        modules={"tiny_scorer": SMALL},
    )  # fmt: skip
    document = bench("--add", "scorer=mine")
    assert compositions(document) == ["selected", "all", "selected + scorer mine"]
    assert document["outcomes"]["released"] == 6 + 4


@pytest.mark.slow
def test_a_third_party_scorer_appears_by_a_wildcard(dpkit, suite_file, site):
    each = {"scorer": "*", "selector": "best", "regressor": "average", "accountant": "basic"}
    path = suite_file(compositions={"scorers": each})
    planned = dpkit("bench", path, "--dry-run")
    assert "scorers: large" in planned.stdout
    assert "scorers: mine" not in planned.stdout
    site.install(
        "dpkit-scorer-tiny", entry_points={"dpkit.scorers": {"mine": "tiny_scorer:Tiny"}},
        modules={"tiny_scorer": SMALL},
    )  # fmt: skip
    done = dpkit("bench", path, "--jobs", "1", "--only", "composition=scorers: mine,scorers: large")
    assert done.exit_code == 0, done.output
    assert "Trials: 8 released; 8 run now" in done.stdout
    assert "scorers: mine" in done.stdout


@pytest.mark.slow
def test_a_recipe_is_added(bench, tmp_path):
    (tmp_path / "mine.toml").write_text('[parts]\nregressor = "average"\naccountant = "rdp"\n')
    assert compositions(bench("--add", "recipe=mine.toml")) == ["selected", "all", "mine"]


def test_a_suite_is_cut(bench):
    document = bench("--only", "composition=all", "--only", "epsilon=0.5")
    assert [(cell["composition"], cell["epsilon"]) for cell in document["cells"]] == [("all", 0.5)]


@pytest.mark.slow
def test_a_small_run_of_a_suite_is_a_part_of_the_whole(dpkit, suite_file):
    path = suite_file(splits=2, quick={"composition": "all", "epsilon": 0.5, "splits": 1})
    done = dpkit("bench", path, "--jobs", "1", "--quick")
    assert "Trials: 1 released; 1 run now, 0 done before." in done.stdout, done.output
    done = dpkit("bench", path, "--jobs", "1", "--resume")
    assert "Trials: 12 released; 11 run now, 1 done before." in done.stdout, done.output


@pytest.mark.slow
def test_an_axis_that_is_named_twice_keeps_both(bench):
    document = bench("--only", "composition=all", "--only", "composition=selected")
    assert {cell["composition"] for cell in document["cells"]} == {"all", "selected"}


def test_a_dry_run_says_what_would_be_done_and_does_nothing(dpkit, suite_file, document, tmp_path):
    tables = {
        **document["tables"],
        "far": {"openml": 42225, "file": "far.parquet", "target": "y"},
        "gone": {"file": "gone.parquet", "target": "y"},
    }
    missing = {**document["compositions"]["selected"], "scorer": "small"}
    path = suite_file(tables=tables, compositions={**document["compositions"], "missing": missing})
    done = dpkit("bench", path, "--dry-run")
    assert done.exit_code == 0
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert lines[0] == "Suite tiny: 12 trials"
    assert "ones generator five-ones" in lines
    assert "far OpenML data set 42225" in lines
    assert "gone skipped: gone.parquet is not in the suite's folder; name another with --data-dir" in lines
    assert any(line.startswith("missing skipped: no scorer 'small' is installed") for line in lines)
    plain = json.loads(dpkit("bench", path, "--dry-run", "--format", "json").stdout)
    assert plain["trials"] == 12
    assert plain["skipped"].keys() == {"composition missing", "table gone"}
    assert plain["suite"]["tables"].keys() == {"ones", "far", "gone"}
    assert not (tmp_path / "results").exists()


@pytest.mark.slow
def test_tables_come_from_the_folder_that_is_named(dpkit, suite_file, tmp_path):
    local = tmp_path / "tables"
    local.mkdir()
    write_table(local / "here.parquet")
    tables = {
        "here": {"openml": 42225, "file": "here.parquet", "target": "y", "bounds": "from-data"},
        "gone": {"file": "gone.parquet", "target": "y"},
    }
    path = suite_file(tables=tables)
    done = dpkit("bench", path, "--jobs", "1", "--data-dir", local)
    assert done.exit_code == 0, done.output
    assert "Trials: 6 released; 6 run now, 0 done before." in done.stdout
    assert "Skipped: 6 trials, because these are missing:" in done.stdout
    assert "table gone: gone.parquet is not in --data-dir or next to the suite." in done.stdout
    assert {row["origin"] for row in Results(tmp_path / "results" / "tiny").rows()} == {"here.parquet"}


@pytest.mark.slow
def test_nothing_is_overwritten_and_nothing_repeated(bench):
    bench()
    assert "results/tiny has results already; add --resume to continue there" in bench()
    assert bench("--resume")["trials"] == {"run": 0, "done_before": 6, "skipped": 0}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seed": 8}, "has results with seed = 7, and the suite now has 8"),
        ({"neighboring": "replace-one"}, 'neighboring = "add-remove", and the suite now has "replace-one"'),
        ({"test_fraction": 0.5}, "test_fraction = 0.1, and the suite now has 0.5"),
        ({"compositions": {"all": {"regressor": "average"}}}, "results with compositions.all = "),
        ({"tables": {"ones": {"generator": "five-ones"}}}, "results with tables.ones = "),
    ],
    ids=lambda given: next(iter(given)) if isinstance(given, dict) else None,
)
def test_results_that_would_not_go_together_are_kept_apart(dpkit, suite_file, results, change, message):
    assert dpkit("bench", suite_file(), "--jobs", "1", "--results", results.folder).exit_code == 0
    before = results.rows()
    done = dpkit("bench", suite_file(**change), "--jobs", "1", "--results", results.folder, "--resume")
    assert done.exit_code == 2
    assert message in done.stderr
    assert "they are not comparable. Choose another --results" in done.stderr
    assert results.rows() == before


def test_results_of_another_default_accountant_are_kept_apart(document, results, tmp_path, monkeypatch):
    named = {**document["compositions"]["all"], "accountant": "basic"}
    unnamed = {key: value for key, value in named.items() if key != "accountant"}
    suite = Suite.from_document("tiny", {**document, "compositions": {"x": unnamed, "y": named}}, tmp_path)

    def begin(default, *compositions):
        monkeypatch.setattr("dpkit_command_bench.suite.by_default", lambda neighboring: default)
        results.begin(suite.only("composition", ",".join(compositions)).to_document())
        for name in compositions:
            results.add({"key": name, "table": "ones", "composition": name})

    begin("rdp", "x", "y")
    begin("tight, else rdp", "y")  # which names its own
    with pytest.raises(InvalidResults, match=r'compositions.x = .*"rdp".*now has .*"tight, else rdp"'):
        begin("tight, else rdp", "x")
    begin("rdp", "x")


@pytest.mark.slow
@pytest.mark.parametrize("noted", [True, False])
def test_results_of_an_earlier_default_accountant_are_gone_on_with(dpkit, suite_file, results, noted):
    unnamed = {"all": {"regressor": "average"}}
    options = ("--jobs", "1", "--results", results.folder, "--resume", "--format", "json")
    run = ("bench", suite_file(compositions=unnamed, epsilon=[0.5]), *options)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dpkit_core.pipeline.choose.PREFERRED", "nowhere")
        assert json.loads(dpkit(*run).stdout)["trials"]["run"] == 1
    if not noted:  # as 0.1.0 wrote it
        path = results.folder / "suite.json"
        document = json.loads(path.read_text())
        assert document["compositions"]["all"].pop("accountant_by_default") == "rdp"
        path.write_text(json.dumps(document))
    assert json.loads(dpkit(*run).stdout)["trials"] == {"run": 0, "done_before": 1, "skipped": 0}
    more = suite_file(compositions=unnamed, epsilon=[0.5, 1.0])
    assert json.loads(dpkit("bench", more, *options).stdout)["trials"]["run"] == 1
    assert len(results.rows()) == 2
    assert all(row["parts"][-1].startswith("accountant dpkit-accountant-rdp:rdp ") for row in results.rows())


@pytest.mark.slow
def test_an_experiment_may_grow(dpkit, suite_file, results):
    done = dpkit("bench", suite_file(), "--jobs", "1", "--results", results.folder, "--only", "epsilon=0.5")
    assert "3 run now" in done.stdout
    path = suite_file(splits=3, metrics=["rmse"], summary="longer")
    done = dpkit("bench", path, "--jobs", "1", "--results", results.folder, "--resume")
    assert "Trials: 18 released; 15 run now, 3 done before." in done.stdout
    assert "rmse on held-out records" in done.stdout
    assert results.suite()["splits"] == 3
    # The first rows were made when the suite named another metric.
    assert all(row["rmse"] is not None for row in results.rows())


@pytest.mark.slow
def test_what_has_no_rows_may_be_corrected(dpkit, suite_file, results, tmp_path):
    write_table(tmp_path / "t.parquet")
    t = {"file": "t.parquet", "target": "y", "bounds": "from-data"}

    def run(**facts):
        path = suite_file(epsilon=[0.5], k=[1], **facts)
        return dpkit("bench", path, "--jobs", "1", "--results", results.folder, "--resume")

    done = run(seed=8, tables={"t": {**t, "target": "z"}})
    assert "Trials: none; 0 run now" in done.stdout, done.output
    assert "Rows are in" not in done.stdout
    # No row is of the wrong seed or target, so both may change; later, only the table without rows may.
    assert "2 released; 2 run now" in run(tables={"t": t, "u": {**t, "file": "u.csv"}}).stdout
    assert "2 released; 2 run now" in run(tables={"u": t}).stdout
    assert "results with tables.t = " in run(tables={"t": {**t, "target": "a"}}).stderr


@pytest.mark.slow
def test_another_table_by_the_same_name_is_refused(dpkit, suite_file, results, tmp_path):
    write_table(tmp_path / "t.parquet")
    tables = {"t": {"file": "t.parquet", "target": "y", "bounds": "from-data"}}
    assert (
        dpkit("bench", suite_file(tables=tables), "--jobs", "1", "--results", results.folder).exit_code == 0
    )
    write_table(tmp_path / "t.parquet", rows=51)
    path = suite_file(tables=tables, splits=3)
    done = dpkit("bench", path, "--jobs", "1", "--results", results.folder, "--resume")
    assert done.exit_code == 2
    assert "has results on another table 't' than the one from t.parquet: the numbers differ" in done.stderr


@pytest.mark.slow
def test_rows_of_other_code_are_pointed_out(bench, site, monkeypatch):
    from dpkit_command_bench import code

    bench()
    monkeypatch.setattr(code, "__version__", "99.0")
    assert bench("--resume")["rows_of_other_code"] == {"selected": 4, "all": 2}
    monkeypatch.undo()


@pytest.mark.slow
def test_an_edited_part_is_pointed_out(dpkit, suite_file, site):
    from dpkit_command_bench import code

    path = suite_file()
    dpkit("bench", path, "--jobs", "1")
    module = site.folder / "tiny_bench.py"
    module.write_text(module.read_text() + "\n# a change\n")
    code._package_hash.cache_clear()  # as a new process would find it
    done = dpkit("bench", path, "--jobs", "1", "--resume")
    assert "Warning: 4 rows of selected are from other code" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--jobs", "0"], "--jobs is 0; give a number of at least 1"),
        (["--add", "scorer"], "--add 'scorer' is not NAME=VALUE, such as scorer=mine"),
        (["--only", "table="], "--only 'table=' is not NAME=VALUE, such as table=diamonds"),
        (["--only", "table=twos"], "table=twos: suite 'tiny' has ones"),
        (["--add", "scorer=lage"], "no scorer 'lage' is installed"),
        (["--data-dir", "nowhere"], "--data-dir nowhere is not a folder"),
        (["--results", "tiny.toml"], "cannot write to tiny.toml: File exists"),
        (["--results", "."], "holds 'tiny.toml' and no results of dpkit bench"),
    ],
    ids=lambda given: " ".join(given) if isinstance(given, list) else None,
)
def test_wrong_use_is_named(bench, arguments, message):
    if arguments == ["--results", "."]:
        message = "and no results of dpkit bench; choose an empty or a new folder"
    assert message in bench(*arguments)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written_to_is_named(bench, tmp_path):
    (tmp_path / "locked").mkdir(mode=0o500)
    assert "cannot write to locked: Permission denied" in bench("--results", "locked")


@pytest.mark.slow
def test_plot_draws_what_the_rows_say(dpkit, bench, tmp_path):
    bench()
    done = dpkit("plot", "results/tiny")
    assert done.exit_code == 0, done.output
    names = {path.name for path in (tmp_path / "results" / "tiny" / "plots").iterdir()}
    pictures = {"difference-all-selected"}  # one table: no ranks
    pictures |= {f"{name}-k{k}" for name in ("epsilon", "tables") for k in (1, 2)}
    assert names == {f"{name}.{suffix}" for name in pictures for suffix in ("png", "svg")}
    assert "wrote results/tiny/plots/epsilon-k1.png" in done.stderr
    done = dpkit("plot", "results/tiny", "--metric", "rmse", "--output", "elsewhere", "--against", "all")
    assert (tmp_path / "elsewhere" / "difference-selected-all.svg").is_file()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere"], "there are no results in nowhere: it is not a folder"),
        (["."], "holds no trials; run `dpkit bench SUITE --results"),
        (["results/tiny", "--metric", "r3"], "no metric 'r3'; they have r2, rmse, recall"),
        (["results/tiny", "--against", "none"], "no composition 'none'; they have selected, all"),
    ],
    ids=lambda given: " ".join(given) if isinstance(given, list) else None,
)
def test_what_cannot_be_drawn_is_named(dpkit, bench, arguments, message):
    bench()
    done = dpkit("plot", *arguments)
    assert done.exit_code == 2
    assert message in done.stderr


@pytest.mark.slow
def test_results_of_an_earlier_dpkit_can_still_be_read(bench, tmp_path):
    bench()
    (path,) = (tmp_path / "results" / "tiny").glob("trials-*.parquet")
    pq.write_table(pq.read_table(path, partitioning=None).drop_columns(["rmse", "code_sha256"]), path)
    document = bench("--resume")
    assert document["trials"]["done_before"] == 6
    assert document["rows_of_other_code"] == {"selected": 4, "all": 2}
    assert {row["rmse"] for row in Results(tmp_path / "results" / "tiny").rows()} == {None}


@pytest.mark.slow
def test_a_file_of_something_else_is_named(bench, tmp_path):
    bench()
    write_table(tmp_path / "results" / "tiny" / "trials-9.parquet")
    assert "trials-9.parquet was not written by dpkit bench; move it elsewhere" in bench("--resume")


@pytest.mark.slow
def test_replace_one_is_run(dpkit, suite_file, results):
    path = suite_file(neighboring="replace-one")
    done = dpkit("bench", path, "--jobs", "1", "--results", results.folder)
    assert done.exit_code == 0, done.output
    assert {row["neighboring"] for row in results.rows()} == {"replace-one"}
