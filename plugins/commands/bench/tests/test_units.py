"""Trials that protect units: none has records on both sides of a split, and each is charged as a unit."""

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from dpkit_command_bench.errors import MissingTable
from dpkit_command_bench.results import Results
from dpkit_command_bench.runner import local_workers, run
from dpkit_command_bench.sources import load
from dpkit_command_bench.suite import Suite
from dpkit_command_bench.trial import Split

from dpkit_core import Dataset

UNITS = 40
BOUNDS = {name: {"lower": -5, "upper": 5} for name in ("x", "y")}


@pytest.fixture
def visits(tmp_path):
    """Write a table of 40 patients of 1 to 12 visits, of which each tells whose it is by its target."""
    rng = np.random.default_rng(0)
    whose = np.repeat(np.arange(UNITS), 1 + np.arange(UNITS) % 12)
    rng.shuffle(whose)
    columns = {"patient": [f"p{i}" for i in whose], "x": rng.normal(size=len(whose)), "y": whose / 10}
    pq.write_table(pa.table(columns), tmp_path / "visits.parquet")
    return whose


def suite_of(folder, unit=None, **facts):
    table = {"file": "visits.parquet", "target": "y", "columns": BOUNDS}
    document = {
        "splits": 2,
        "test_fraction": 0.3,
        "tables": {"visits": {**table, "unit": {"column": "patient", "most_records": 2} | (unit or {})}},
        "compositions": {"mean": {"regressor": "mean"}},
    }
    return Suite.from_document("units", document | facts, folder)


def loaded_of(suite):
    (table,) = suite.tables
    return load(table, data_dir=None, folder=suite.folder, seed=0, neighboring=suite.neighboring)


def test_no_unit_is_trained_on_and_held_out(visits, tmp_path):
    suite = suite_of(tmp_path)
    held_out = []
    for trial in suite.trials():
        folder = tmp_path / str(trial.split)
        folder.mkdir()
        train, X, y = Split.write(loaded_of(suite), trial, folder).read()
        kept = np.bincount(np.round(train.y * 10).astype(int), minlength=UNITS)
        scored = np.bincount(np.round(y * 10).astype(int), minlength=UNITS)
        every = np.bincount(visits)
        assert (scored > 0).sum() == 12
        assert (scored[scored > 0] == every[scored > 0]).all()
        assert (kept == np.where(scored > 0, 0, np.minimum(every, 2))).all()
        assert X.shape == (len(y), 1)  # the unit is no feature
        held_out.append(set(np.flatnonzero(scored).tolist()))
    assert held_out[0] != held_out[1]


def test_a_trial_spends_the_budget_on_units_and_says_so(visits, tmp_path):
    results = Results(tmp_path / "results")
    with local_workers(1) as workers:
        run(suite_of(tmp_path), results, workers)
    for row in results.rows():
        assert row["outcome"] == "released"
        assert row["unit"] == "'patient', 2 of each"
        assert row["spent_epsilon"] == pytest.approx(1, rel=1e-3)
        assert row["records"] == len(visits)


def test_units_of_two_columns(visits, tmp_path):
    table = pq.read_table(tmp_path / "visits.parquet")
    digits = [[text[1:2], text[2:] or "x"] for text in table["patient"].to_pylist()]
    for j, name in enumerate(("tens", "ones")):
        table = table.append_column(name, pa.array([pair[j] for pair in digits]))
    pq.write_table(table.drop_columns("patient"), tmp_path / "visits.parquet")
    suite = suite_of(tmp_path, {"column": ["tens", "ones"]})
    folder = tmp_path / "split"
    folder.mkdir()
    train, _, y = Split.write(loaded_of(suite), next(suite.trials()), folder).read()
    assert train.records == sum(min(2, n) for n in np.bincount(np.round(train.y * 10).astype(int)))
    assert not set(train.y) & set(y)
    assert isinstance(train, Dataset)


@pytest.mark.parametrize(
    ("unit", "facts", "message"),
    [
        ({"column": "whom"}, {}, "no column 'whom'"),
        ({"most_records": 0}, {}, "a whole number from 1 to 2\\^20"),
        ({"most": 1}, {}, "unknown key 'most'"),
        ({"column": "x"}, {}, "which table 'visits' does not have"),
        ({}, {"neighboring": "replace-one"}, "replace-one makes the number of records public"),
    ],
    ids=str,
)
def test_a_unit_that_is_none_is_refused_with_the_reason(visits, tmp_path, unit, facts, message):
    with pytest.raises(MissingTable, match=message):
        loaded_of(suite_of(tmp_path, unit, **facts))


def test_without_a_unit_the_numbers_are_those_of_before(visits, tmp_path):
    """The unit is a part of the table's facts only where there is one, so that old results go on."""
    suite = suite_of(tmp_path)
    (table,) = suite.tables
    assert "unit" in table.to_document()
    assert "unit" not in attrs.evolve(table, unit=None).to_document()
