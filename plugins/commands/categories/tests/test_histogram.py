"""The stable histogram: whose counts, what leaks, what it costs."""

import json
import math

import attrs
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from dpkit_command_categories import entries as of_entries
from dpkit_command_categories import histogram
from dpkit_command_categories.entries import UNIT, Entries, share
from dpkit_command_categories.histogram import FINEST, CommonValues, ListingSettings, threshold
from dpkit_command_categories.listed import Categories, Listed
from dpkit_command_categories.planned import plan_of
from hypothesis import given, settings
from hypothesis import strategies as st

from dpkit_core import Budget, Column, Neighboring, Randomness, Release, Schema, Unit, compose, open_source
from dpkit_core.errors import CannotCompose, InvalidData, InvalidRelease, InvalidSchema
from dpkit_core.noise.sampler import Sampler
from dpkit_core.privacy import profiles
from dpkit_core.privacy.events import Gaussian, StableHistogram
from dpkit_core.privacy.units import grouped
from dpkit_core.release.verify import TOTALS, verify

BUDGET = Budget(1.0, 1e-6)
RO = Neighboring.REPLACE_ONE


def schema(most=None, neighboring=Neighboring.ADD_OR_REMOVE_ONE, **facts):
    unit = None if most is None else Unit(("who",), most)
    column = Column("city", "categorical", buckets=2, **facts)
    return Schema((column,), Column("y"), neighboring, unit=unit)


def entries(frame, most=None):
    return Entries.from_source(open_source(pd.DataFrame(frame)), schema(most))


def counted(data, column=0):
    """Return how much each text counts, those that count nothing left out."""
    found = zip(data.texts[column], data.counts(column).tolist(), strict=True)
    return {text: count / UNIT for text, count in found if count}


# Counts


def test_without_a_unit_each_record_counts_one():
    assert counted(entries({"city": ["Bonn", "Köln", None, "", "Bonn"]})) == {"Bonn": 2, "Köln": 1}


def test_a_unit_shares_one_among_its_values_however_many_records_have_them():
    frame = {"city": ["a", "a", "a", "b", "a", "c", "d", "e"], "who": [1, 1, 1, 2, 3, 3, 3, 3]}
    assert counted(entries(frame, 4)) == {"a": 1.5, "b": 1, "c": 0.5, "d": 0.5, "e": 0.5}
    of_one = counted(entries(frame, 1))
    assert sum(of_one.values()) == 3
    assert of_one["b"] == 1


def test_a_share_is_rounded_down_so_that_no_unit_is_longer_than_one():
    for values in [*range(1, 300), 2**20 - 1, 2**20]:
        assert values * share(values) ** 2 <= UNIT**2 < values * (share(values) + 1) ** 2


RECORDS = st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["a", "b", "c", "d", "é", ""])), min_size=1)


@pytest.mark.slow
@given(
    RECORDS, st.lists(st.sampled_from(["a", "b", "x", "y", "z"]), max_size=9), st.randoms(), st.integers(1, 5)
)
@settings(deadline=None)
def test_all_records_of_one_more_unit_move_the_counts_by_one_wherever_they_are(others, own, random, most):
    without = counted(entries(pd.DataFrame(others, columns=["who", "city"]), most))
    every = [*others, *((9, text) for text in own)]
    random.shuffle(every)
    moved = counted(entries(pd.DataFrame(every, columns=["who", "city"]), most))
    steps = [moved.get(text, 0) - without.get(text, 0) for text in without | moved]
    assert math.hypot(*steps) <= 1
    assert sum(step != 0 for step in steps) == min(len(set(own)), most)
    alone = counted(entries({"who": [9] * len(own), "city": own}, most)) if own else {}
    assert {text: step for text, step in zip(without | moved, steps, strict=True) if step} == alone


def test_texts_that_collide_change_nothing_of_other_units(monkeypatch):
    monkeypatch.setattr(of_entries, "hashes_of", lambda texts: np.zeros(len(list(texts)), np.uint64))
    own = [(1, text) for text in "abc"]
    first = [counted(entries(pd.DataFrame(rows, columns=["who", "city"]), 1)) for rows in (own, own[::-1])]
    assert first[0] == first[1]
    more = pd.DataFrame([(2, "c"), (2, "b"), *own], columns=["who", "city"])
    assert all(counted(entries(more, 1)).get(text, 0) >= 1 for text in first[0])


def test_every_source_has_the_same_texts_and_counts(tmp_path):
    table = {"city": ["Bonn", "53113", None, "1.50", "São Paulo", "true", "Bonn"], "y": list(range(7))}
    lines = "".join(f"{city or ''},{y}\n" for city, y in zip(*table.values(), strict=True))
    (tmp_path / "t.csv").write_text(f"city,y\n{lines}", encoding="utf-8")
    pq.write_table(pa.table(table), tmp_path / "t.parquet")
    frames = pd.DataFrame(table), pl.DataFrame(table), pa.table(table)
    made = [str(tmp_path / "t.csv"), str(tmp_path / "t.parquet"), *frames]
    for each in made:
        data = Entries.from_source(open_source(each), schema())
        assert counted(data) == {"Bonn": 2, "53113": 1, "1.5": 1, "São Paulo": 1, "1": 1}
    numbers = entries({"city": [53113, 1.5, 53113.0]})
    assert counted(numbers) == {"53113": 2, "1.5": 1}


def test_a_text_that_could_not_stand_in_a_schema_counts_nothing():
    assert counted(entries({"city": ["a\x1bb", "a", "a\x00"]})) == {"a": 1}


def test_tables_that_cannot_be_read_are_refused_before_anything_is_spent():
    with pytest.raises(InvalidData, match="no records"):
        entries({"city": pd.Series([], dtype="str")})
    with pytest.raises(InvalidData, match="no column 'city'"):
        entries({"town": ["a"]})
    facts = Schema(schema().columns, Column("y"), RO, records=3)
    with pytest.raises(InvalidData, match="records = 3"):
        Entries.from_source(open_source(pd.DataFrame({"city": ["a"]})), facts)
    with pytest.raises(InvalidData, match="'who'"):
        entries({"city": ["a"]}, 1)


def test_entries_have_no_numbers():
    data = entries({"city": ["a"]})
    for asked in (data.dense, lambda: data.sum(None), lambda: data.keep(None)):
        with pytest.raises(TypeError):
            asked()


# The threshold


def tail(sigma, least):
    """Return P(N_Z(0, sigma^2) >= least), exactly up to rounding: the sum of the law itself."""
    x = np.arange(max(least, -14 * sigma), max(least, 0) + 14 * sigma, dtype=np.float64)
    return float(np.exp(-0.5 * (x / sigma) ** 2).sum() / (math.sqrt(2 * math.pi) * sigma))


@pytest.mark.first(3)
@pytest.mark.parametrize("leak", [1e-2, 1e-4, 1e-9])
@pytest.mark.parametrize("most", [1, 4, 16])
@pytest.mark.parametrize("sigma", [FINEST, 5 * FINEST + 7])
def test_no_more_leaks_than_is_said_and_half_of_it_does(sigma, most, leak):
    limit = threshold(sigma, leak, most)
    leaks = [1 - (1 - tail(sigma, limit + 1 - share(t))) ** t for t in range(1, most + 1)]
    assert leak / 2 < 0.97 * leak <= max(leaks) <= leak
    lower = [1 - (1 - tail(sigma, limit + 1 - UNIT - share(t))) ** t for t in range(1, most + 1)]
    assert max(lower) > 2 * leak


@pytest.mark.parametrize("most", [1, 4])
def test_a_person_alone_with_values_is_found_out_as_often_as_the_event_says(most):
    """By the part itself: 20000 runs at a leak of 2 %, in whose interval half of it is not."""
    leak, runs = 0.02, 20_000
    plan = plan_of(schema(most), Budget(1.0, 2 * leak)).stages[0].plan
    chosen = plan.settings_as(ListingSettings)
    assert chosen.event.leak == leak
    data = entries({"city": ["a", "b", "c", "d"][:most], "who": [1] * most}, most)
    sampler = Sampler(np.random.default_rng(most))
    noisy = data.counts(0) + sampler.discrete_gaussian(chosen.sigma, (runs, most))
    passed = (noisy > chosen.threshold).any(axis=1).mean()
    deviation = math.sqrt(leak / runs)
    assert leak / 2 + 4 * deviation < passed < leak + 4 * deviation


@pytest.mark.first(2)
@pytest.mark.parametrize(("most", "own"), [(1, 0), (1, 1), (4, 0), (4, 2), (4, 4)])
def test_an_attack_on_one_person_shows_no_more_than_is_charged_and_more_than_half_of_it(most, own):
    """By what the part runs, with and without a person, who alone has ``own`` of ``most`` values."""
    plan = plan_of(schema(most), Budget(1.0, 0.04)).stages[0].plan
    chosen = plan.settings_as(ListingSettings)
    cities = [f"of all {i}" for i in range(most)] + [f"own {i}" for i in range(most)]
    others = [(who, city) for who in range(300) for city in cities[:most]]
    person = [(300, city) for city in cities[own : own + most]]
    tables = [pd.DataFrame(rows, columns=["who", "city"]) for rows in (others, others + person)]
    found = [counted(entries(table, most)) for table in tables]
    counts = np.array([[UNIT * table.get(city, 0) for city in cities] for table in found]).astype(np.int64)
    moved = (counts[1] - counts[0])[:most] / chosen.sigma
    runs, sampler = 50_000, Sampler(np.random.default_rng(most + own))

    def delta(epsilon, settings):
        """Return what is shown of delta: a new value tells, else how far counts moved, as of noise alone."""
        told = []
        for row in counts:
            noisy = np.zeros((runs, len(row)))
            known = np.tile(row > 0, (runs, 1))
            of_known = np.zeros(known.sum())
            passed, of_known[passed] = histogram.above(np.tile(row[row > 0], runs), settings, sampler)
            noisy[known] = of_known
            shift = (noisy - counts[0])[:, :most] / chosen.sigma
            told.append((noisy[:, most:].any(axis=1) | (shift @ moved > epsilon + moved @ moved / 2)).mean())
        alarms, hits = told
        error = math.sqrt((hits + math.exp(2 * epsilon) * alarms) / runs)
        return hits - math.exp(epsilon) * alarms - 4 * error

    assert delta(1.0, chosen) < 0.04
    if not own:
        assert delta(0.5, chosen) > 0.04
    if own == most:
        assert delta(1.0, chosen) > chosen.event.leak / 2
        assert delta(1.0, attrs.evolve(chosen, threshold=chosen.threshold // 2)) > 0.04


def test_the_noise_is_the_same_for_any_number_of_records_and_the_threshold_hardly():
    plans = [
        plan_of(schema(most), BUDGET).stages[0].plan.settings_as(ListingSettings) for most in (None, 1, 4, 16)
    ]
    assert len({each.sigma for each in plans}) == 1
    limits = [each.threshold / UNIT for each in plans]
    assert limits[0] == limits[1] < limits[2] < limits[3] < 1.1 * limits[0]


def test_a_replaced_record_moves_two_counts():
    one, other = (plan_of(schema(None, relation), BUDGET).stages[0].plan for relation in Neighboring)
    added, replaced = one.settings_as(ListingSettings), other.settings_as(ListingSettings)
    assert replaced.event.noise_multiplier == added.event.noise_multiplier
    assert replaced.event.sensitivity >= math.sqrt(2)
    assert replaced.sigma >= math.sqrt(2) * replaced.event.noise_multiplier * UNIT


# What it costs


def test_a_list_costs_its_noise_and_its_leak_however_many_records_a_unit_has():
    event, rest = StableHistogram(5.0, 1e-3), Gaussian(5.0)
    assert grouped(event, 16) is event
    for name in ("tight", "rdp"):
        alone = TOTALS[name]([rest], rest.neighboring, 1e-6)
        assert TOTALS[name]([event], event.neighboring, 1e-3 + 1e-6) == pytest.approx(alone, rel=1e-9)
        assert TOTALS[name]([event], event.neighboring, 1e-3) == math.inf


def exact(multiplier, leak, epsilon):
    """Return delta of the worst pair, both ways: a coin of one table alone, and noise that moves by one."""

    def gaussian(at):
        return float(profiles.gaussian(np.array([at]), multiplier**-2)[0])

    heads = math.log1p(-leak)
    return max(gaussian(epsilon + heads), leak + (1 - leak) * gaussian(epsilon - heads))


@pytest.mark.parametrize("leak", [1e-2, 1e-5])
@pytest.mark.parametrize("epsilon", [0.1, 0.5, 2.0])
def test_the_worst_pair_of_tables_is_charged_for_and_not_without_its_leak(epsilon, leak):
    from dpkit_accountant_tight import TightAccountant

    delta = exact(4.0, leak, epsilon)
    spent = TightAccountant().compose(StableHistogram(4.0, leak))
    assert delta <= spent.delta(epsilon) <= delta + 0.5 * leak
    assert TightAccountant().compose(StableHistogram(4.0, leak / 2)).delta(epsilon) < delta


# Releases


def people(n=3000, most=None, seed=0):
    rng = np.random.default_rng(seed)
    cities = rng.choice(["Bonn", "Köln", "53113 Nord", "Aachen"], n, p=[0.5, 0.3, 0.15, 0.05])
    cities[:4] = ["Rare 1", "Rare 2", "Rare 3", "Rare 3"]
    return entries({"city": cities, "who": np.arange(n)}, most)


@pytest.mark.parametrize("most", [None, 3])
@pytest.mark.parametrize("frequencies", [False, True])
def test_common_values_are_released_in_order_and_verified(most, frequencies):
    plan = plan_of(schema(most), BUDGET, frequencies=frequencies)
    release = plan.run(people(most=most))
    (listed,) = release.model.columns
    assert listed.values == ("Bonn", "Köln", "53113 Nord", "Aachen")
    assert (listed.counts is not None) is frequencies
    if frequencies:
        assert np.abs(np.array(listed.counts) - [1500, 900, 450, 150]).max() < 100
        assert min(listed.counts) > listed.threshold
    verification = verify(release)
    assert verification.confirmed
    assert verification.private
    again = Release.from_document(json.loads(release.to_json()))
    assert again == release
    with pytest.raises(InvalidRelease, match="nothing to predict with"):
        again.predict(np.zeros((1, 0)))
    part = release.certificate.parts[0]
    assert (part.distribution, part.name) == ("dpkit-command-categories", "stable_histogram")
    assert part.options == ({"frequencies": True} if frequencies else {})


def test_a_certificate_with_half_the_leak_or_more_noise_is_not_confirmed():
    release = plan_of(schema(), BUDGET).run(people())
    for change in ({"leak": 1e-9}, {"noise_multiplier": 9.0}, {"leak": 9e-7}):
        document = json.loads(release.to_json())
        document["certificate"]["events"][0] |= change
        assert not verify(Release.from_document(document)).confirmed


def test_where_nothing_is_common_nothing_is_listed():
    for frame in ({"city": ["a", "b", "c"]}, {"city": [None, None]}):
        release = plan_of(schema(), BUDGET).run(entries(frame))
        assert release.model.columns[0].values == ()
        assert verify(release).confirmed
        assert "0 values" in str(release)


def test_several_columns_share_the_budget():
    columns = (Column("city", "categorical", buckets=2), Column("job", "categorical"))
    plan = plan_of(Schema(columns, Column("y")), BUDGET)
    assert [item.event.leak for item in plan.events] == [2.5e-7] * 2
    assert plan.epsilon <= 1
    frame = pd.DataFrame({"city": ["a"] * 500, "job": ["x", "y"] * 250})
    release = plan.run(Entries.from_source(open_source(frame), plan.schema))
    assert [set(column.values) for column in release.model.columns] == [{"a"}, {"x", "y"}]
    assert verify(release).confirmed


def test_a_seeded_run_is_not_private_and_repeats():
    plan = plan_of(schema(), BUDGET, frequencies=True)
    one, two = (plan.run(people(), randomness=Randomness.from_seed(3)) for _ in range(2))
    assert one == two
    assert not one.certificate.private


def test_what_cannot_be_planned_is_refused_with_the_reason(monkeypatch):
    with pytest.raises(CannotCompose, match="a delta above 0"):
        plan_of(schema(), Budget(1.0, 0.0))
    with pytest.raises(CannotCompose, match="does not support StableHistogram"):
        plan_of(schema(), BUDGET, accountant="basic")
    with pytest.raises(InvalidSchema, match="nothing to find"):
        plan_of(Schema((Column("c", categories=("a",)),), Column("y")), BUDGET)
    with pytest.raises(InvalidSchema, match="is numeric"):
        plan_of(Schema((Column("c"),), Column("y")), BUDGET)
    monkeypatch.setattr(histogram, "COARSEST", 2**22)
    with pytest.raises(CannotCompose, match="more noise than"):
        plan_of(schema(), BUDGET)


def test_other_data_are_refused_and_entries_are_for_nothing_else():
    from dpkit_core import Dataset

    plan = plan_of(schema(), BUDGET)
    with pytest.raises(InvalidData, match="accepts entries data only"):
        plan.run(Dataset.from_arrays(np.zeros((3, 2)), np.zeros(3), schema()))
    with pytest.raises(InvalidData, match="the data are entries"):
        compose(regressor="winsorized_least_squares").plan(schema(), BUDGET).run(people())


def test_the_forecast_says_how_many_must_have_a_value():
    plan = plan_of(schema(), BUDGET)
    (forecast,) = plan.forecasts
    needed = int(forecast.forecast.sentence.split(" if ")[1].split()[0])
    chosen = plan.stages[0].plan.settings_as(ListingSettings)
    data = entries({"city": ["a"] * needed})
    noisy = data.counts(0) + Sampler(np.random.default_rng(0)).discrete_gaussian(chosen.sigma, 4000)
    assert 0.93 < (noisy > chosen.threshold).mean() < 0.97


def test_a_part_of_one_form_of_its_own_is_run_on_that_alone():
    plan = plan_of(schema(), BUDGET)
    assert plan.assembly.forms == CommonValues.forms == ("entries",)
    assert not plan.reads_numbers


@pytest.mark.parametrize(
    "change",
    [
        {"values": ["a", "a"]},
        {"counts": [1.0]},
        {"values": "ab"},
        {"extra": 1},
        {"deviation": "1"},
    ],
)
def test_a_list_that_contradicts_itself_is_no_model(change):
    whole = Categories((Listed("c", 1.0, 2.0, ("a", "b"), (9.0, 8.0)),)).to_document()
    assert Categories.from_document(whole).columns[0].counts == (9.0, 8.0)
    whole["columns"][0] |= change
    with pytest.raises(InvalidRelease):
        Categories.from_document(whole)


def test_an_event_states_its_sensitivity():
    release = plan_of(schema(), BUDGET).run(people())
    event = release.certificate.events[0]
    bare = attrs.evolve(event, event=attrs.evolve(event.event, sensitivity=None))
    certificate = attrs.evolve(release.certificate, events=(bare,))
    assert verify(attrs.evolve(release, certificate=certificate)).confirmed  # as of files that say none
