"""Trials are run once each, with the same numbers however they are run."""

import hashlib
import json

import attrs
import numpy as np
import pytest
from dpkit_command_bench.errors import InvalidResults
from dpkit_command_bench.results import Results
from dpkit_command_bench.runner import local_workers, run
from dpkit_command_bench.suite import Suite


def run_here(suite, results, jobs=1, **options):
    with local_workers(jobs) as workers:
        return run(suite, results, workers, **options)


def backwards(suite):
    return attrs.evolve(suite, compositions=suite.compositions[::-1], epsilon=suite.epsilon[::-1])


@pytest.mark.slow
def test_the_numbers_do_not_depend_on_jobs_or_order(suite, tmp_path, numbers):
    folders = [Results(tmp_path / name) for name in ("one", "two", "backwards")]
    run_here(suite, folders[0])
    run_here(suite, folders[1], jobs=2)
    run_here(backwards(suite), folders[2])
    one, two, back = ({row["key"]: row for row in numbers(folder.rows())} for folder in folders)
    assert len(one) == 24
    assert one == two == back
    assert len({row["certificate_sha256"] for row in one.values()}) > 1


@pytest.mark.slow
def test_trials_of_one_setting_differ_in_split_and_noise(suite, results):
    run_here(suite, results)
    setting = [row for row in results.rows() if row["composition"] == "all" and row["epsilon"] == 2.0]
    assert len({row["r2"] for row in setting}) == 4


@pytest.fixture
def few(suite):
    """The suite with six trials of its 24."""
    return attrs.evolve(suite, splits=1, repeats=1)


def test_a_row_says_what_it_is(few, results):
    run_here(few, results)
    row = results.rows()[0]
    assert row["outcome"] == "released"
    assert row["private"] is False
    assert row["mechanism_private"] is True
    reasons = " ".join(row["reasons"])
    assert "seeded research, not releases" in reasons
    assert "held-out private records" in reasons
    assert "bounds were read from the records" in reasons
    assert row["parts"][0] == "scorer dpkit-tiny:large 1.0"
    assert json.loads(row["recipe"])["parts"]["scorer"] == "large"
    assert (row["records"], row["training_records"], row["features"]) == (60, 54, 6)
    assert row["wall_seconds"] > 0
    assert row["peak_memory_mb"] > 10


def test_the_certificate_hash_is_that_of_its_canonical_json(few, results):
    from dpkit_command_bench.sources import load
    from dpkit_command_bench.trial import Split

    from dpkit_core import Budget, Randomness, compose
    from dpkit_core.pipeline.observers import Observers

    run_here(few, results)
    trial = next(trial for trial in few.trials() if trial.composition.name == "all")
    table = load(
        trial.table, data_dir=None, folder=few.folder, seed=trial.seed, neighboring=trial.neighboring
    )
    train, _, _ = Split.write(table, trial, few.folder).read()
    plan = compose(**trial.composition.parts).plan(table.schema, Budget(trial.epsilon, trial.delta))
    release = plan.run(train, randomness=Randomness.from_seed(trial.noise_seed), observers=Observers.none())
    text = json.dumps(release.certificate.to_document(), sort_keys=True, separators=(",", ":"))
    (row,) = (row for row in results.rows() if row["key"] == trial.key)
    assert row["certificate_sha256"] == hashlib.sha256(text.encode()).hexdigest()


def test_refusals_failures_and_the_impossible_are_rows(parts, document, results, tmp_path):
    document |= {"k": [2, 99], "splits": 1, "trials": 1, "epsilon": [1.0], "metrics": ["r2", "rmse"]}
    parts_of = document["compositions"]["selected"]
    document["compositions"] = {
        "refusing": {**parts_of, "options": {"regressor": {"refuse": True}}},
        "failing": {**parts_of, "options": {"regressor": {"fail": True}}},
    }
    run_here(Suite.from_document("tiny", document, tmp_path), results)
    rows = {(row["composition"], row["k"]): row for row in results.rows()}
    refused, failed = rows["refusing", 2], rows["failing", 2]
    assert (refused["outcome"], refused["r2"], refused["rmse"]) == ("refused", -np.inf, np.inf)
    assert refused["certificate_sha256"]
    assert (failed["outcome"], failed["r2"]) == ("failed", None)
    assert "average failed while running" in failed["message"]
    assert {rows[name, 99]["outcome"] for name, _ in rows} == {"impossible"}
    assert "k must be from 1 to 6" in rows["refusing", 99]["message"]


def test_a_table_that_is_not_at_hand_is_counted(parts, document, results, tmp_path):
    document |= {"splits": 1, "trials": 1}
    document["tables"]["gone"] = {"file": "gone.csv", "target": "y"}
    ran = run_here(Suite.from_document("tiny", document, tmp_path), results)
    assert (ran.done, ran.trials_skipped) == (6, 6)
    assert "gone.csv is not in" in ran.skipped["table gone"]


@pytest.mark.slow
def test_a_part_that_is_not_installed_is_counted_and_run_when_it_is(parts, document, results, tmp_path):
    document["compositions"]["missing"] = {**document["compositions"]["selected"], "scorer": "small"}
    suite = Suite.from_document("tiny", document, tmp_path)
    ran = run_here(suite, results)
    assert (ran.done, ran.trials_skipped) == (24, 16)
    assert "no scorer 'small' is installed" in ran.skipped["composition missing"]
    parts.install("dpkit-other", entry_points={"dpkit.scorers": {"small": "tiny_bench:Small"}})
    ran = run_here(suite, results)
    assert (ran.done, ran.before, ran.skipped) == (16, 24, {})


@pytest.mark.slow
def test_nothing_is_repeated_and_more_is_added(suite, results, numbers):
    assert run_here(suite, results).done == 24
    before = numbers(results.rows())
    again = run_here(suite, results)
    assert (again.done, again.before) == (0, 24)
    longer = run_here(attrs.evolve(suite, splits=3), results)
    assert (longer.done, longer.before) == (12, 24)
    assert [row for row in numbers(results.rows()) if row["split"] < 2] == before


@pytest.mark.slow
def test_a_run_leaves_rows_and_nothing_else(few, results):
    run_here(few, results)
    (trials,) = results.folder.glob("trials-*.parquet")
    assert {path.name for path in results.folder.iterdir()} == {"suite.json", "lock", trials.name}


def test_two_runs_cannot_share_a_folder(suite, results):
    with results.locked(), pytest.raises(InvalidResults, match="another dpkit bench writes to"):
        run_here(suite, results)


@pytest.mark.slow
def test_packing_that_is_killed_halfway_counts_no_trial_twice(suite, results, numbers):
    run_here(suite, results)
    rows = results.rows()
    for row in rows[:5]:  # as if the files of single trials were not yet removed
        results.add(row)
    assert numbers(results.rows()) == numbers(rows)
    results.pack()
    assert numbers(results.rows()) == numbers(rows)


@pytest.mark.slow
def test_half_a_file_is_no_result(suite, results):
    run_here(suite, results)
    (results.folder / "fresh").mkdir()
    (results.folder / "fresh" / "abc.parquet.17.part").write_bytes(b"PAR1")
    assert len(results.rows()) == 24


def test_damaged_results_are_named(results):
    with pytest.raises(InvalidResults, match="not a folder"):
        results.rows()
    results.folder.mkdir()
    with pytest.raises(InvalidResults, match="holds no trials"):
        results.rows()
    (results.folder / "trials-1.parquet").write_bytes(b"nothing")
    with pytest.raises(InvalidResults, match=r"cannot read the results .*trials-1\.parquet"):
        results.rows()


@pytest.mark.slow
def test_progress_ends_at_the_number_of_trials(suite, results):
    reports = []
    run_here(suite, results, report=lambda *report: reports.append(report))
    assert reports[0] == (0, 24, None)
    assert [done for done, _, _ in reports] == list(range(25))
    assert reports[-1] == (24, 24, 0.0)


def test_a_fault_of_the_harness_is_not_a_result(suite, results, monkeypatch):
    def broken(*arguments, **options):
        raise OSError("the disk is full")

    monkeypatch.setattr("dpkit_command_bench.trial.measure", broken)
    with pytest.raises(InvalidResults, match=r"a worker cannot run a trial: the disk is full\."):
        run_here(suite, results)
    assert not list(results.folder.glob("trials-*"))
    assert not (results.folder / "splits").exists()
