"""Samples and accounts of records that are elsewhere: as in memory, however the records are divided."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import attrs
import numpy as np
import pytest

from dpkit_core import Budget, Dataset, Randomness, Schema, StagePlan, StreamedDataset, compose
from dpkit_core.data.kept import KeptElsewhere, KeptHere, Placed
from dpkit_core.data.sums import Block, Sum
from dpkit_core.errors import InvalidData, InvalidOption, PlanViolation
from dpkit_core.mechanisms.sums import Sums, sums_event
from dpkit_core.noise.randomness import Coins
from dpkit_core.pipeline.meter import StageMeter
from dpkit_core.privacy.budget import Neighboring
from dpkit_core.privacy.events import Event, Filtered, Repeated

N, LIMIT, ROUNDS, PAID = 70_000, 2**15, 5, 2
SCHEMA = Schema.numeric(["a"], "y")
EVENT = sums_event([1.0], Neighboring.ADD_OR_REMOVE_ONE, limits=[LIMIT], groups=2, rate=0.3)
WHOLE = sums_event([1.0], Neighboring.ADD_OR_REMOVE_ONE, limits=[LIMIT], groups=2)
CASES: dict[str, tuple[Sums, Event]] = {
    "sampled": (EVENT, Repeated(EVENT, ROUNDS)),
    "filtered": (WHOLE, Filtered(WHOLE, rounds=ROUNDS, charged=PAID)),
    "both": (EVENT, Filtered(EVENT, rounds=ROUNDS, charged=PAID)),
}


def table() -> tuple[Any, Any]:
    rng = np.random.default_rng(1)
    return rng.random((N, 1)), rng.random(N)


def itself(block: Block) -> Block:
    return block


def contributed(block: Block) -> tuple[Sequence[Any], Any]:
    return [np.trunc(LIMIT * block.y).astype(np.int64)], (block.X[:, 0] > 0.5).astype(np.uint8)


def meter(event: Event, seed: int = 0) -> StageMeter:
    made = StageMeter("part", StagePlan((event,)), Neighboring.ADD_OR_REMOVE_ONE, Randomness.from_seed(seed))
    made.arrive(N)
    return made


class Parts:
    """What parts keep: made anew before each sum, by all changes, as if every worker was lost."""

    def __init__(self, sizes: Sequence[int]) -> None:
        X, y = table()
        ends = np.cumsum([0, *sizes])
        self.parts = [(int(a), Dataset.from_arrays(X[a:b], y[a:b], SCHEMA)) for a, b in pairwise(ends)]
        self.changes: list[Any] = []

    def change(self, function: Any, /) -> None:
        self.changes.append(function)

    def sum(self, what: Sum[Any], /) -> Any:
        totals = []
        for start, data in self.parts:
            here = data.keep(itself)
            assert isinstance(here, KeptHere)
            kept = here.placed(start)
            for change in self.changes:
                kept.change(change)
            totals.append(kept.sum(what))
        return np.sum(totals, axis=0)


def rounds(made: StageMeter, kept: Any, event: Sums) -> list[Any]:
    ask = partial(made.kept_sums, [kept], contributed, limits=[LIMIT], event=event)
    return [ask().tolist() for _ in range(ROUNDS)]


@pytest.mark.parametrize("case", CASES)
def test_rounds_are_those_of_memory_however_records_are_divided(case: str) -> None:
    event, planned = CASES[case]
    X, y = table()
    here = rounds(meter(planned), Dataset.from_arrays(X, y, SCHEMA).keep(itself), event)
    there = rounds(meter(planned), KeptElsewhere(Parts([1, 40_001, N - 40_002])), event)
    assert there == here
    if case == "sampled":  # by more than noise of one limit: no sample is seen twice
        first, second = np.array(here[0]), np.array(here[1])
        assert np.abs(first - second).max() > 10 * LIMIT
    else:  # who has paid takes part no more
        assert np.sum(here[-1]) < 0.6 * np.sum(here[0])


def test_accounts_are_beside_one_thing_that_is_kept() -> None:
    """Beside another, a record would have an account with nothing spent."""
    event, planned = CASES["filtered"]
    made = meter(planned)
    made.kept_sums([KeptElsewhere(Parts([N]))], contributed, limits=[LIMIT], event=event)
    with pytest.raises(PlanViolation, match="keeps twice"):
        made.kept_sums([KeptElsewhere(Parts([N]))], contributed, limits=[LIMIT], event=event)


def test_rows_that_are_none_of_the_round_void_it() -> None:
    event, planned = CASES["both"]
    made = meter(planned)
    with pytest.raises(PlanViolation, match="rows, limits, groups or numbers"):
        made.kept_sums([KeptElsewhere(Parts([N]))], beyond, limits=[LIMIT], event=event)


def beyond(block: Block) -> tuple[Sequence[Any], Any]:
    return [np.ones(len(block), np.int64)], np.full(len(block), 2)


def test_a_part_changes_what_it_keeps_and_no_account() -> None:
    kept = KeptElsewhere(Parts([N]))
    kept.placed.change(spending)
    kept.change(doubled)
    assert kept.sum(Sum(whole, (), 4 * LIMIT)) == np.trunc(2 * LIMIT * table()[1]).sum()
    assert kept.placed.sum(Sum(spent, (), 9)) == 7 * N


def doubled(block: Block) -> Block:
    return Block(block.X, 2 * block.y)


def whole(block: Block) -> Any:
    return np.trunc(LIMIT * block.y).sum()


def spending(placed: Placed[Block]) -> Placed[Block]:
    return attrs.evolve(placed, spent={3: np.full(len(placed), 7)})


def spent(placed: Placed[Block]) -> Any:
    return placed.account(3).sum() + placed.account(0).sum()


class Older(Dataset):
    """A dataset of an engine before ``samples`` was asked for."""

    engine, dashboard = "older", None


def test_a_dataset_of_an_older_engine_is_not_taken_for_one_of_this_process() -> None:
    """Its certificate would not say who had the records."""
    X, y = table()
    known = Dataset.from_arrays(X, y, SCHEMA)
    older = Older(**{field.alias: getattr(known, field.name) for field in attrs.fields(Dataset)})
    plan = compose(regressor="mean", accountant="rdp").plan(SCHEMA, Budget(1.0, 1e-6))
    assert plan.run(known).certificate.engine is None
    with pytest.raises(InvalidData, match="older has the records"):
        plan.run(older)


def test_an_older_engine_is_refused_by_what_it_lacks() -> None:
    class OlderEngine:
        units = True

        def open(self, table: Any, schema: Schema) -> Any:
            raise AssertionError

    engine: Any = OlderEngine()
    with pytest.raises(InvalidOption, match="engine OlderEngine lacks samples; install a version of it"):
        compose(regressor="mean", accountant="rdp").plan(SCHEMA, Budget(1.0, 1e-6), engine=engine)


def test_an_account_is_of_one_record_though_a_stream_has_another_order_each_time() -> None:
    """Else one could pay by the account of the other."""
    passes: list[int] = []

    def blocks() -> Any:
        passes.append(len(passes))
        order = [0, 1] if len(passes) % 2 else [1, 0]
        yield np.array([[0.1], [0.9]])[order], np.array([1.0, 0.5])[order]

    data = StreamedDataset.from_blocks(blocks, SCHEMA)
    event, planned = WHOLE, Filtered(WHOLE, rounds=8, charged=PAID)
    made = StageMeter("part", StagePlan((planned,)), Neighboring.ADD_OR_REMOVE_ONE, Randomness.from_seed(0))
    made.arrive(2)
    kept = data.keep(itself)
    for _ in range(8):
        made.kept_sums([kept], contributed, limits=[LIMIT], event=event)
    assert len(passes) == 2  # one to check, one to keep


PRECISE = sums_event([0.05], Neighboring.ADD_OR_REMOVE_ONE, limits=[2**24], groups=1)


def large(block: Block) -> tuple[Sequence[Any], Any]:
    return [np.trunc(2**24 * block.y).astype(np.int64)], np.zeros(len(block), np.uint8)


@pytest.mark.parametrize("how", ["stream kept twice", "batch in other rows"])
def test_no_record_pays_by_the_account_of_another(how: str) -> None:
    """Before, one that was to pay for two rounds was in four."""
    planned = Filtered(PRECISE, rounds=6, charged=PAID)
    made = StageMeter("part", StagePlan((planned,)), Neighboring.ADD_OR_REMOVE_ONE, Randomness.from_seed(0))
    order = [0, 1]

    def blocks() -> Any:
        yield np.array([[0.1], [0.9]])[order], np.array([1.0, 0.0])[order]

    data: Any = StreamedDataset.from_blocks(blocks, SCHEMA)
    if how == "batch in other rows":
        data = Dataset.from_arrays([[0.1]], [1.0], SCHEMA)
    made.arrive(data.records)
    ask = partial(made.kept_sums, of=large, limits=[2**24], event=PRECISE)
    kept = [data.keep(itself)]
    assert [round(float(ask(kept)[0, 0]) / 2**24) for _ in range(3)] == [1, 1, 0]
    if how == "batch in other rows":
        made.arrive(1)
    else:
        order.reverse()
        kept = [data.keep(itself)]
    with pytest.raises(PlanViolation, match="account of another"):
        ask(kept)


def test_batches_that_come_one_after_the_other_have_accounts_of_their_own() -> None:
    planned = Filtered(PRECISE, rounds=6, charged=PAID)
    made = StageMeter("part", StagePlan((planned,)), Neighboring.ADD_OR_REMOVE_ONE, Randomness.from_seed(0))
    batches = [Dataset.from_arrays([[0.1]] * n, [1.0] * n, SCHEMA).keep(itself) for n in (3, 5)]
    found = []
    for some in (batches[:1], batches, batches[1:]):  # of the second alone, those before contribute 0
        made.arrive({1: 3, 2: 5}[len(some)] if some != batches[1:] else 0)
        for _ in range(2):
            sums = made.kept_sums(some, large, limits=[2**24], event=PRECISE)
            found.append(round(float(sums[0, 0]) / 2**24))
    assert found == [3, 3, 5, 5, 0, 0]


def test_coins_are_fair_and_of_their_key_and_place() -> None:
    rng = np.random.default_rng(4)
    first, second = Coins.drawn(rng), Coins.drawn(rng)
    a, b = (coins.words(3, 2**16) < 2**31 for coins in (first, second))
    for heads in (a, a ^ b, a[1:] ^ a[:-1]):  # within six deviations
        assert abs(int(heads.sum()) - len(heads) / 2) < 6 * 2**7
    assert "key" not in repr(first)
