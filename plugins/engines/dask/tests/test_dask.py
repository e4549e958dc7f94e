"""On a real cluster: the same release as in memory, whatever happens to workers, or none and a sentence."""

import os
import signal
import threading
from functools import partial
from typing import Any

import attrs
import dask
import dask.dataframe
import distributed
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from dpkit_engine_dask import DaskEngine, records
from dpkit_engine_dask import engine as dask_engine

from dpkit_core import Budget, Column, Dataset, Randomness, Schema, Unit, compose, open_source
from dpkit_core.data.engine import Elsewhere
from dpkit_core.data.kept import KeptHere
from dpkit_core.data.sums import Sum
from dpkit_core.errors import BudgetSpent, CannotCompose, EngineFailed, EngineLost, InvalidData, Unsuitable
from dpkit_core.noise.randomness import Coins
from dpkit_core.plugins.registry import load_target
from dpkit_core.plugins.resources import find_resource

FEATURES = ["a", "b", "c", "d"]
N = 1500


@pytest.fixture(scope="module")
def cluster():
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as started:
        yield started


@pytest.fixture
def impatient():
    with dask.config.set({"distributed.comm.timeouts.connect": "3s"}):
        yield


@pytest.fixture
def engine(cluster):
    return DaskEngine(cluster.scheduler_address)


@pytest.fixture
def folder(tmp_path):
    """A folder of files of very different sizes, one of them empty."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(N, 4)) * [1, 5, 0.1, 1e3]
    table = pa.table({"y": X[:, 0] + 0.1 * rng.normal(size=N), **dict(zip(FEATURES, X.T, strict=True))})
    for i, (start, stop) in enumerate([(0, 1), (1, 700), (700, 700), (700, 1100), (1100, N)]):
        pq.write_table(table.slice(start, stop - start), tmp_path / f"{i}.parquet")
    return tmp_path


def schema_of(bounds=(-3.0, 4.0)):
    lower, upper = bounds
    return Schema(
        [Column(name, lower=lower, upper=upper) for name in FEATURES], Column("y", lower=lower, upper=upper)
    )


def document(plan, data):
    """Return the release without what it assumes of the cluster."""
    released = plan.run(data, randomness=Randomness.from_seed(5)).to_document()
    assumed = released["certificate"]["assumptions"]
    trusted = [sentence for sentence in assumed if sentence.startswith("those who run dask")]
    assert len(trusted) == isinstance(data, Elsewhere)
    released["certificate"]["assumptions"] = [each for each in assumed if each not in trusted]
    engine = released["certificate"].pop("engine", None)
    assert (engine is not None and engine["name"] == "dask") == isinstance(data, Elsewhere)
    return released


def in_memory(folder, schema):
    return Dataset.from_source(open_source(folder), schema)


CASES: dict[str, dict[str, Any]] = {
    "boosted_trees": {"trees": 30},
    "mean": {},
    "adassp": {},
    "boosted_adassp": {"rounds": 4},
    "winsorized_least_squares": {"refits": 3},
    "frank_wolfe": {"rounds": 3},
    "sgbdt": {"rounds": 12, "count_share": 0.2},
}


@pytest.mark.slow
@pytest.mark.parametrize("regressor", CASES)
def test_a_release_is_the_one_of_memory(regressor, engine, folder):
    schema = schema_of()
    pipeline = compose(regressor=regressor, options={"regressor": CASES[regressor]})
    plan = pipeline.plan(schema, Budget(3.0, 1e-6))
    with engine.open(folder, schema) as data:
        assert data.records == N
        assert document(plan, data) == document(plan, in_memory(folder, schema))


@pytest.mark.slow
def test_a_selection_is_the_one_of_memory(engine, folder):
    schema = schema_of()
    trees = {"regressor": {"trees": 10}}
    pipeline = compose(scorer="correlation", selector="peel", regressor="boosted_trees", options=trees)
    plan = pipeline.plan(schema, Budget(6.0, 1e-5), k=2)
    with engine.open(str(folder), schema) as data:
        assert document(plan, data) == document(plan, in_memory(folder, schema))


@pytest.mark.slow
def test_a_dask_dataframe_is_a_table(engine, folder):
    schema = schema_of()
    plan = compose(regressor="mean").plan(schema, Budget(3.0, 1e-6))
    frame = dask.dataframe.from_pandas(pq.read_table(folder).to_pandas(), npartitions=3)
    with engine.open(frame, schema) as data:
        assert len(data.parts) == 3
        assert document(plan, data) == document(plan, in_memory(folder, schema))


@pytest.mark.slow
def test_what_computes_a_dask_dataframe_is_not_quoted(engine):
    frame = dask.dataframe.from_map(broken, range(2), meta=pd.DataFrame({"y": [1.0]}))
    with (
        pytest.raises(InvalidData, match="computing it raised KeyError") as caught,
        engine.open(frame, schema_of()),
    ):
        pass
    assert "secret" not in str(caught.value)
    assert caught.value.__context__ is None


def broken(number):
    raise KeyError("secret")


@pytest.mark.slow
def test_columns_without_bounds_and_missing_values_are_those_of_memory(engine, folder):
    table = pq.read_table(folder / "1.parquet").to_pandas()
    table.loc[::7, "b"] = np.nan
    table.loc[::5, "a"] = np.nan
    table.to_parquet(folder / "1.parquet")
    columns = [
        Column("a", missing="indicator", fill=0.0),
        Column("b", missing="drop"),
        Column("c"),
        Column("d"),
    ]
    schema = Schema(columns, Column("y"))
    plan = compose(regressor="boosted_trees", options={"regressor": {"trees": 20}}).plan(
        schema, Budget(3.0, 1e-6)
    )
    with engine.open(folder, schema) as data:
        assert data.records == N - 100
        assert document(plan, data) == document(plan, in_memory(folder, schema))


@pytest.mark.parametrize(
    "step",
    [
        pytest.param(4, marks=pytest.mark.slow),
        *(pytest.param(step, marks=pytest.mark.exhaustive) for step in (0, 1, -1)),
    ],
)
def test_a_worker_that_is_killed_changes_no_byte(folder, monkeypatch, step):
    """Killed once it has read its part, before it keeps anything, and as some tree or the last is asked for,
    while its state is nowhere else.
    """
    schema = schema_of()
    plan = compose(regressor="boosted_trees", options={"regressor": {"trees": 5}}).plan(
        schema, Budget(3.0, 1e-6)
    )
    sums = []
    alone = KeptHere.sum
    monkeypatch.setattr(KeptHere, "sum", lambda self, what: sums.append(what) or alone(self, what))
    expected = document(plan, in_memory(folder, schema))
    step, asked, again = len(sums) if step < 0 else step, [], []
    ordinary = records.KeptThere._asked

    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster:

        def kill():
            os.kill(next(iter(cluster.workers.values())).pid, signal.SIGKILL)

        def counted(self, which, what, first):
            asked.append(first)
            if len(asked) == step:
                kill()
            answered = ordinary(self, which, what, first)
            again.extend(share for share in answered if share is None)
            return answered

        monkeypatch.setattr(records.KeptThere, "_asked", counted)
        with DaskEngine(cluster.scheduler_address).open(folder, schema) as data:
            if step == 0:
                kill()
            assert document(plan, data) == expected
    assert len(asked) >= step
    assert bool(again) == (step > 1)  # whether a part was asked for twice, because its state was gone


@pytest.mark.slow
def test_a_worker_that_is_killed_as_it_reads_or_adds_up_changes_no_number(
    folder, monkeypatch, tmp_path_factory
):
    marks = [tmp_path_factory.mktemp("marks") / name for name in ("read", "sum", "kept")]

    def targets(block, mark):
        if mark.exists():  # on a worker, once
            mark.unlink()
            os.kill(os.getpid(), signal.SIGKILL)
        return np.rint(1000 * block.y).astype(np.int64)[:, np.newaxis].sum(axis=0)

    def adding(mark):
        return Sum(partial(targets, mark=mark), (1,), bound=10**5)

    expected = in_memory(folder, schema_of()).sum(adding(marks[0]))
    ordinary = dask_engine.read_source

    def read(source, schema):
        if marks[0].exists():
            marks[0].unlink()
            os.kill(os.getpid(), signal.SIGKILL)
        return ordinary(source, schema)

    monkeypatch.setattr(dask_engine, "read_source", read)
    for mark in marks:
        mark.touch()
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,
        DaskEngine(cluster.scheduler_address).open(folder, schema_of()) as data,
    ):
        assert data.sum(adding(marks[1])) == expected
        assert data.keep(lambda block: block).sum(adding(marks[2])) == expected
    assert not any(mark.exists() for mark in marks)


@pytest.mark.slow
def test_a_cluster_that_is_lost_fails_the_run_by_itself(folder, impatient):
    schema = schema_of()
    plan = compose(regressor="boosted_trees", options={"regressor": {"trees": 1000}}).plan(
        schema, Budget(3.0, 1e-6)
    )
    cluster = distributed.LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=":0")
    with DaskEngine(cluster.scheduler_address).open(folder, schema) as data:
        threading.Timer(2.0, cluster.close).start()
        with pytest.raises(EngineLost, match="the engine that has the records failed while regressor"):
            plan.run(data, randomness=Randomness.from_seed(5))


@pytest.mark.slow
def test_states_are_made_again_from_the_list_of_changes(engine, folder):
    schema = schema_of()
    with engine.open(folder, schema) as data:
        kept = data.keep(targets)
        for _ in range(3):
            kept.change(doubled)
        number = records.Sum(whole, (), bound=2**20)
        before = kept.sum(number)
        data.client.run(records._forget, data.session)
        assert kept.sum(number) == before
        kept.change(doubled)
        data.client.run(records._forget, data.session)
        doubled_once_more = kept.sum(number)
    y = in_memory(folder, schema).y
    assert before == np.trunc(8 * y * 2**10).sum()
    assert doubled_once_more == np.trunc(16 * y * 2**10).sum()


def targets(block):
    return block.y


def doubled(state):
    return 2 * state


def doubled_there(placed):
    return attrs.evolve(placed, kept=2 * placed.kept)


def whole_there(placed):
    return whole(placed.kept)


def whole(state):
    return np.trunc(state * 2**10).sum()


def test_a_question_that_comes_twice_has_one_answer(folder):
    """As where a task is stolen or retried."""
    part = in_memory(folder, schema_of())
    number, key = records.Sum(whole_there, (), bound=2**20), ("session", "number", 0)
    first = records.Question(number, targets, 0, (doubled_there,))
    later = records.Question(number, None, 1, (doubled_there, doubled_there))
    assert records._kept_share(part, (0,), key, later) is None
    answers = [records._kept_share(part, (0,), key, question) for question in (first, first, later, later)]
    records._forget("session")
    assert [total for _, total in answers] == [
        np.trunc(factor * part.y * 2**10).sum() for factor in (2, 2, 8, 8)
    ]
    assert records._HELD == {}


@pytest.mark.parametrize("coins", ["of_the_place", "of_the_task"])
def test_a_recomputation_keeps_the_coins_of_places_and_not_those_of_a_task(folder, coins):
    """Which answer counts would follow from who was lost."""
    part, key = in_memory(folder, schema_of()), ("session", "number", 0)
    drawn = Coins.drawn(np.random.default_rng(2))
    number = records.Sum(partial(heads, drawn if coins == "of_the_place" else None), (), bound=1)
    answers = []
    for _ in range(2):
        answers.append(records._kept_share(part, (0,), key, records.Question(number, targets, 0, (), 7)))
        records._forget("session")
    assert (answers[0] == answers[1]) is (coins == "of_the_place")
    if coins == "of_the_place":
        assert answers[0] == (N, (drawn.words(0, N + 7)[7:] < 2**31).sum())


def heads(drawn, placed):
    if drawn is None:
        return (np.random.default_rng().random(len(placed)) < 0.5).sum()
    return (drawn.words(placed.start, len(placed)) < 2**31).sum()


@pytest.mark.slow
def test_what_is_wrong_with_the_first_part_is_told_without_its_values(engine, folder):
    table = pq.read_table(folder / "3.parquet").to_pandas()
    table.loc[5, "c"] = np.inf
    table.to_parquet(folder / "3.parquet")
    with pytest.raises(InvalidData, match="column 'c' has infinite values"), engine.open(folder, schema_of()):
        pass


@pytest.mark.slow
def test_parts_that_need_the_records_in_one_place_are_refused_before_anything_is_spent(engine, folder):
    schema = schema_of()
    with engine.open(folder, schema) as data:
        for pipeline in (compose(regressor="tukey"), compose(regressor="ols")):
            plan = pipeline.plan(schema, Budget(3.0, 1e-6))
            with pytest.raises(Unsuitable, match="needs the records in one place, but dask computes sums"):
                plan.run(data)
        with pytest.raises(EngineFailed, match="the records themselves") as failed:
            data.dense()
        assert not isinstance(failed.value, BudgetSpent)


def test_the_plan_refuses_parts_that_need_the_records_in_one_place():
    every = {"scorer": "kendall", "selector": "peel", "regressor": "tukey"}
    with pytest.raises(CannotCompose) as refused:
        compose(**every).plan(schema_of(), Budget(3.0, 1e-6), engine="dask")
    assert [problem.partition(" needs")[0] for problem in refused.value.problems] == [
        "scorer kendall",
        "regressor tukey",
    ]


SAMPLED: dict[str, dict[str, Any]] = {
    "rdp": {"rate": 0.5},
    "individual_filter": {"rate": 0.5, "extra": 0.5},
}


def sampled(accountant):
    options = {"regressor": {"rounds": 6, **SAMPLED[accountant]}}
    pipeline = compose(regressor="sgbdt", accountant=accountant, options=options)
    return pipeline.plan(schema_of(), Budget(3.0, 1e-6), engine="dask")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("accountant", "problem"),
    [("rdp", "samples by secret coins"), ("individual_filter", "keeps accounts of records")],
)
def test_the_plan_refuses_coins_and_accounts_where_an_engine_has_none(monkeypatch, accountant, problem):
    sampled(accountant)
    monkeypatch.setattr(DaskEngine, "samples", False)
    with pytest.raises(CannotCompose, match=f"regressor sgbdt {problem}.*dask"):
        sampled(accountant)


@pytest.mark.slow
def test_a_sample_is_that_of_memory(engine, folder):
    plan = sampled("rdp")
    with engine.open(folder, schema_of()) as data:
        there = document(plan, data)
    assert there == document(attrs.evolve(plan, engine=None), in_memory(folder, schema_of()))


@pytest.mark.exhaustive  # CI kills one before sums of another model
def test_a_worker_that_is_killed_changes_no_sample_and_no_account(folder, monkeypatch):
    plan = sampled("individual_filter")
    asked, again = [], []
    ordinary = records.KeptThere._asked
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster:

        def counted(self, which, what, first):
            asked.append(first)
            if len(asked) == 5:
                os.kill(next(iter(cluster.workers.values())).pid, signal.SIGKILL)
            found = ordinary(self, which, what, first)
            again.extend(share for share in found if share is None)
            return found

        monkeypatch.setattr(records.KeptThere, "_asked", counted)
        with DaskEngine(cluster.scheduler_address).open(folder, schema_of()) as data:
            there = document(plan, data)
    assert again
    assert there == document(attrs.evolve(plan, engine=None), in_memory(folder, schema_of()))


def test_a_plan_for_an_engine_is_not_run_on_records_in_memory(folder):
    schema = schema_of()
    plan = compose(regressor="mean").plan(schema, Budget(3.0, 1e-6), engine=DaskEngine())
    assert plan.engine.name == "dask"
    assert "records stay on dask" in str(plan)
    with pytest.raises(InvalidData, match="for records that dask has"):
        plan.run(in_memory(folder, schema))


@pytest.fixture
def visits(tmp_path):
    """Records of people who are in several files, with copies within and across files; one has no record."""
    rng = np.random.default_rng(4)
    who = rng.integers(0, 40, N) ** 2 // 40
    X = rng.integers(0, 3, (N, 2)) / 2.0
    table = pa.table(
        {"who": [f"p{i}" for i in who], "a": X[:, 0], "b": X[:, 1], "y": np.round(X.sum(axis=1) + who / 40)}
    )
    for i, (start, stop) in enumerate([(0, 3), (3, 900), (900, 900), (900, N)]):
        pq.write_table(table.slice(start, stop - start), tmp_path / f"{i}.parquet")
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize("evaluate", [None, 0.3])
def test_the_same_records_of_each_unit_are_kept(engine, visits, evaluate):
    unit = Unit(("who",), most_records=3)
    schema = Schema([Column(c, lower=0, upper=1) for c in "ab"], Column("y", lower=0, upper=8), unit=unit)
    plan = compose(regressor="adassp").plan(schema, Budget(3.0, 1e-6), evaluate=evaluate)
    with engine.open(visits, schema) as data:
        here = in_memory(visits, schema)
        assert data.records == here.records < 40 * 3 + 1
        assert document(plan, data) == document(plan, here)


def test_no_unit_has_more_records_where_a_lost_part_comes_back_in_another_order():
    """As of a frame that was shuffled, whose rows nobody orders: places would keep other records."""
    unit = Unit(("who",), most_records=1)
    schema = Schema([Column("a", lower=0, upper=9)], Column("y", lower=0, upper=9), unit=unit)
    frame = pd.DataFrame({"who": list("aaabcd"), "a": range(6), "y": range(6)})
    first, again = records.read_frame(frame, schema), records.read_frame(frame[::-1], schema)
    attending = records._attendance(first)
    (keep,) = records.truncated([attending], 1)
    packed, digest = np.packbits(keep), attending.digest
    assert records._kept(first, packed, digest).records == 4
    assert records._kept(records.read_frame(frame, schema), packed, digest).records == 4
    # By places alone, two of these would be of one unit.
    kept = again.only(keep)
    assert len({frame.who[row] for row in kept.X[:, 0].astype(int)}) < kept.records
    assert "another order" in str(records._kept(again, packed, digest))


@pytest.mark.slow
def test_held_out_records_are_those_of_memory(engine, folder):
    schema = schema_of()
    plan = compose(regressor="boosted_trees", options={"regressor": {"trees": 5}}).plan(
        schema, Budget(3.0, 1e-6), evaluate=0.2, engine=engine
    )
    with engine.open(folder, schema) as data:
        there = document(plan, data)
    assert there == document(attrs.evolve(plan, engine=None), in_memory(folder, schema))


@pytest.mark.slow
def test_a_table_that_others_cannot_open_is_refused(engine):
    table = pd.DataFrame({name: [1.0] for name in [*FEATURES, "y"]})
    with pytest.raises(InvalidData, match="cannot be read in parts"), engine.open(table, schema_of()):
        pass


@pytest.mark.slow
def test_a_part_that_changes_is_noticed(engine, folder):
    schema = schema_of()
    with engine.open(folder, schema) as data:
        moved = records.attrs.evolve(data, sizes=(*data.sizes[:-1], data.sizes[-1] + 1))
        with pytest.raises(EngineFailed, match="different records"):
            moved.sum(records.Sum(len_of, (), bound=1))


def len_of(block):
    return np.array(len(block))


def quoting(block):
    raise ValueError(f"record {block.X[0]}, target {block.y[0]!r}")


def overflowing(block):
    return np.array((block.y * 1e308 * 1e308 > 0).sum())


@pytest.mark.slow  # as all that starts a cluster, which takes ten seconds
@pytest.mark.parametrize("keep", [False, True])
def test_no_log_of_the_cluster_quotes_records(engine, folder, keep):
    """What a function raises or warns of, where the records are, is kept by workers and by the scheduler."""
    with engine.open(folder, schema_of()) as data, distributed.Client(engine.scheduler) as client:
        asked = data.keep(itself) if keep else data
        with pytest.raises(RuntimeError, match=r"^a function that was asked of records raised ValueError$"):
            asked.sum(records.Sum(quoting, (), bound=1))
        asked.sum(records.Sum(overflowing, (), bound=1))
        said = str(client.get_worker_logs()) + str(client.get_scheduler_logs())
    assert "target" not in said
    assert "overflow" not in said


def itself(block):
    return block


@pytest.mark.slow
def test_a_part_that_cannot_be_read_is_told_without_its_words(engine, folder):
    (folder / "3.parquet").write_bytes(b"PAR1 secret PAR1")
    with pytest.raises(InvalidData) as failed, engine.open(folder, schema_of()):
        pass
    assert "secret" not in str(failed.value)


def test_a_cluster_that_is_not_there_is_said_to_be(impatient):
    nowhere = DaskEngine("tcp://127.0.0.1:9").open("docs/data/diamonds.parquet", schema_of())
    with pytest.raises(EngineFailed, match="does not answer"), nowhere:
        pass


def test_it_is_found_by_its_name():
    assert load_target(find_resource("engine", "dask")) is DaskEngine
