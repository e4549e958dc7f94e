"""One round of noisy sums: sensitivities reached and never passed, its law, and what a meter holds to."""

import itertools
import math
import pickle

import attrs
import numpy as np
import pytest
from scipy.sparse import csr_array

from dpkit_core import Dataset, Neighboring, Randomness, Sampler, Schema, StagePlan
from dpkit_core.data.dataset import SparseDataset, StreamedDataset
from dpkit_core.data.kept import Placed
from dpkit_core.errors import PlanViolation, Unsuitable
from dpkit_core.mechanisms.sums import (
    PlacedRound,
    coins_of,
    deviations,
    group_sums,
    noise_of,
    quantize,
    sums_event,
    tick_costs,
    with_noise,
)
from dpkit_core.pipeline.meter import StageMeter
from dpkit_core.privacy.accounts import TICKS
from dpkit_core.privacy.events import Filtered, Gaussian, Laplace, PoissonSampled, Repeated

ADD_REMOVE, REPLACE = Neighboring
LIMIT = 2**15
MULTIPLIERS = (3.0, 1.5)


class Silent(Sampler):
    """A sampler without noise."""

    def discrete_gaussian(self, sigma, size=()):
        return np.zeros(size, dtype=np.int64)


def event(multipliers=MULTIPLIERS, neighboring=ADD_REMOVE, **options):
    limits = [LIMIT] * len(multipliers)
    return sums_event(multipliers, neighboring, **{"limits": limits, "groups": 3, **options})


def release(contributions, groups, round_):
    """Return the exact sums of one round, each record having a row of its own."""
    columns = [np.asarray(column, dtype=np.int64) for column in contributions]
    coins = coins_of(round_, np.random.default_rng(0))
    limits = [LIMIT] * len(columns)
    placed = PlacedRound(lambda groups: (columns, groups), round_, limits, coins)
    *exact, (_, *_), (wrong, *_) = placed.sum.of(Placed(np.asarray(groups), 0))
    assert not wrong
    return np.array(exact)


def squared_distance(first, second, scales):
    return sum(((a - b) ** 2).sum() / s**2 for a, b, s in zip(first, second, scales, strict=True))


def precision_of(multipliers):
    return sum(m**-2 for m in multipliers)


def test_add_remove_is_reached_and_not_passed():
    scales = deviations(MULTIPLIERS, (LIMIT, LIMIT))
    precision, worst = precision_of(MULTIPLIERS), 0.0
    rng = np.random.default_rng(0)
    for _ in range(300):
        n = int(rng.integers(1, 6))
        numbers, groups = rng.integers(-LIMIT, LIMIT, n, endpoint=True), rng.integers(0, 3, n)
        if rng.random() < 0.3:
            numbers[0] = LIMIT
        moved = squared_distance(
            release((LIMIT, numbers), groups, event()),
            release((LIMIT, numbers[1:]), groups[1:], event()),
            scales,
        )
        own = tick_costs([np.array(LIMIT), numbers[:1]], event())
        assert moved <= int(own[0]) / TICKS * precision  # the record's own cost, not only the worst
        worst = max(worst, moved)
    assert precision * (1 - 1e-4) <= worst <= precision


@pytest.mark.parametrize("with_count", [True, False])
@pytest.mark.parametrize("share", [0.05, 0.5, 0.9])
def test_replace_one_is_reached_and_not_passed(with_count, share):
    multipliers = (2 / math.sqrt(share), 2 / math.sqrt(1 - share)) if with_count else (2.0,)
    round_ = event(multipliers, REPLACE, alike=[True, False][-len(multipliers) :])

    def columns(number):
        return (LIMIT, [number]) if with_count else ([number],)

    scales = deviations(multipliers, noise_of(round_)[1])
    worst = max(
        squared_distance(release(columns(a), [g], round_), release(columns(b), [h], round_), scales)
        for a, b, g, h in itertools.product((-LIMIT, 0, LIMIT), (-LIMIT, 0, LIMIT), (0, 1), (0, 1))
    )
    assert precision_of(multipliers) * (1 - 1e-4) <= worst <= precision_of(multipliers)


def test_halved_noise_would_pass():
    scales = [s / 2 for s in deviations(MULTIPLIERS, (LIMIT, LIMIT))]
    moved = squared_distance(
        release((LIMIT, [LIMIT]), [0], event()), release((LIMIT, []), np.empty(0, int), event()), scales
    )
    assert moved > 3.9 * precision_of(MULTIPLIERS)


@pytest.mark.parametrize("neighboring", Neighboring)
def test_a_record_beyond_the_limits_is_left_out_without_an_error(neighboring):
    noisy = release(([LIMIT, 50 * LIMIT, -(2**63)],), [0, 0, 0], event((1.5,), neighboring))
    assert noisy.tolist() == [[LIMIT, 0, 0]]


@pytest.mark.parametrize("records", [0, 1])
def test_no_record_and_one(records):
    noisy = release((LIMIT, np.full(records, 5)), np.zeros(records, dtype=int), event())
    assert noisy.shape == (2, 3)
    assert noisy[:, 0].tolist() == [LIMIT * records, 5 * records]


def test_coins_have_at_most_the_rate():
    for rate in (0.01, 0.3, 1.0):
        many = release((np.ones(200_000),), np.zeros(200_000, dtype=int), event((1.0,), rate=rate))
        assert many[0, 0] / 200_000 == pytest.approx(
            rate, abs=4 * math.sqrt(rate * (1 - rate) / 200_000) + 1e-12
        )


def test_noise_has_the_deviation_it_says():
    sampler = Sampler(np.random.default_rng(2))
    noisy = with_noise(
        event(groups=20_000, rate=0.5), lambda j, scale: sampler.discrete_gaussian(scale, 20_000)
    )
    assert noisy.std(axis=1) / LIMIT == pytest.approx(MULTIPLIERS, rel=0.02)


def test_deviations_are_fine_enough_for_every_accountant_and_can_be_drawn():
    assert deviations((1e-9,), (1.0,)) == (2**15,)  # more than asked for, never less
    with pytest.raises(Unsuitable, match="more than can be drawn"):
        event((1e12,))


def test_sampling_is_not_for_replace_one():
    with pytest.raises(Unsuitable, match="add-remove neighbors, not for replace-one"):
        event(neighboring=REPLACE, rate=0.5)


def test_rounding_after_summing_moves_what_seems_to_contribute_nothing():
    """Why contributions are rounded before: a record of 0.2 steps would be charged .04 and cost 1."""
    others, record = np.array([0.4]), 0.2
    assert np.rint(others.sum() + record) - np.rint(others.sum()) == 1.0
    assert quantize(np.array([record]), 1.0, 1).tolist() == [0]


def test_quantization_never_lengthens():
    values = np.array([-9.0, -1.0, -0.3, -1e-9, 0.0, 1e-9, 0.3, 1.0, np.inf])
    units = quantize(values, 0.5, 2**15)
    assert units.tolist() == [-(2**15), -(2**15), -19660, 0, 0, 0, 19660, 2**15, 2**15]
    assert (np.abs(units) <= np.minimum(np.abs(values) / 0.5, 1) * 2**15).all()


def test_sums_of_integers_are_exact_in_any_order():
    rng = np.random.default_rng(3)
    values, groups = rng.integers(-(2**26), 2**26, 10_000), rng.integers(0, 8, 10_000)
    expected = [int(values[groups == g].sum()) for g in range(8)]
    order = rng.permutation(10_000)
    assert group_sums(values, groups, 8).tolist() == expected
    assert group_sums(values[order], groups[order], 8).tolist() == expected


# The meter --------------------------------------------------------------------------------------------------


SUM = event((1.5,))


def meter(*events, records=4, **options):
    made = StageMeter("part", StagePlan(events), ADD_REMOVE, Randomness.from_seed(0), **options)
    made._sampler, made.batches = Silent(np.random.default_rng(0)), []
    if records is not None:
        made.arrive(records)
    return made


SCHEMA = Schema.numeric(["a"], "y")


def place_of(block):
    return block.y.astype(np.int64)


def ask(m, numbers, groups=None, *, limits=(LIMIT,), of=SUM):
    """Ask for sums of numbers over all records that have arrived, whose places are kept of them."""
    groups = np.zeros(len(numbers), dtype=np.int64) if groups is None else groups

    def rows(places):
        return [np.asarray(numbers)[places]], np.asarray(groups)[places]

    known, records = sum(batch.records for batch in m.batches), m._records or 0
    if known < records:
        places = np.arange(known, records)
        m.batches.append(Dataset.from_arrays(places[:, np.newaxis], places, SCHEMA).keep(place_of))
    return m.window.kept_sums(m.batches, rows, limits=limits, event=of)


def test_a_round_and_its_record_are_one_call():
    m = meter(Repeated(SUM, 2))
    assert ask(m, [1, 2, 3, LIMIT], np.array([0, 1, 1, 2])).tolist() == [[1, 5, LIMIT]]
    ask(m, [0, 0, 0, 0])
    m.finish()
    assert [(d.event, d.scale, d.shape) for d in m.draws] == [(SUM, None, (1, 3))] * 2
    assert m.arithmetic == ("exact discrete noise on sums of whole numbers",)


def test_the_filter_ends_who_has_spent_everything():
    m = meter(Filtered(SUM, 10, 2), records=2)
    totals = [float(ask(m, [LIMIT, LIMIT // 2])[0, 0]) for _ in range(10)]
    m.finish()
    half = LIMIT // 2  # a quarter of the cost: 8 rounds
    assert totals == [LIMIT + half] * 2 + [half] * 6 + [0.0] * 2


def test_who_comes_later_has_an_account_of_its_own():
    m = meter(Filtered(SUM, 4, 1), records=1)
    assert [float(ask(m, [LIMIT])[0, 0]) for _ in range(2)] == [LIMIT, 0]
    m.arrive(2)
    assert [float(ask(m, [LIMIT] * 3)[0, 0]) for _ in range(2)] == [2 * LIMIT, 0]


def test_two_filters_have_accounts_of_their_own():
    m = meter(Filtered(SUM, 1, 1), Filtered(SUM, 1, 1), records=1)
    assert [float(ask(m, [LIMIT])[0, 0]) for _ in range(2)] == [LIMIT, LIMIT]


def test_a_record_that_contributes_more_than_the_event_allows_takes_no_part():
    m = meter(Filtered(SUM, 2, 1), records=2)
    assert ask(m, [LIMIT, 2 * LIMIT]).tolist() == [[LIMIT, 0, 0]]


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (lambda m: ask(m, [0.5, 0, 0, 0]), "rows, limits, groups or numbers"),
        (lambda m: ask(m, [1, 2, 3, 4], np.array([0, 1, 2, 3])), "rows, limits, groups or numbers"),
        (lambda m: ask(m, [1, 2, 3, 4], np.array([0, 1, 2, -1])), "rows, limits, groups or numbers"),
        (lambda m: ask(m, [1, 2, 3, 4], limits=(2 * LIMIT,)), "rows, limits"),
        (lambda m: ask(m, [1, 2, 3, 4], limits=(LIMIT, LIMIT)), "other limits"),
        (lambda m: ask(m, [1, 2, 3, 4], of=event((1.4,))), "not the next one"),
        (lambda m: ask(m, [1, 2, 3, 4], of=event((1.5,), rate=0.1)), "not the next one"),
        (lambda m: ask(m, [1, 2, 3, 4], of=Gaussian(1.5)), "other limits"),
    ],
)
def test_a_round_that_is_not_as_planned_voids_the_run(asked, message):
    m = meter(SUM)
    with pytest.raises(PlanViolation, match=message):
        asked(m)
    assert m.violated


@attrs.frozen(eq=False)
class Far:
    """What is kept in another process."""

    here: object

    def sum(self, what):
        return self.here.sum(pickle.loads(pickle.dumps(what)))


def asked_of_kept(m, y, *, far=False, of=None, limits=(LIMIT,), round_=SUM):
    """Ask for sums of targets, in the groups of the features."""
    kept = kept_of(y)
    of = of or contributed
    return m.window.kept_sums([Far(kept) if far else kept], of, limits=limits, event=round_)


def kept_of(y):
    data = Dataset.from_arrays(np.arange(len(y))[:, np.newaxis] % 3, np.array(y, float), SCHEMA)
    return data.keep(targets)


def targets(block):
    return block


def contributed(state):
    return [state.y.astype(np.int64)], state.X[:, 0].astype(np.int64)


def twice(state):
    return [np.repeat(state.y.astype(np.int64), 2)], np.repeat(state.X[:, 0].astype(np.int64), 2)


def fractions(state):
    return [state.y / 2], state.X[:, 0].astype(np.int64)


def beyond(state):
    return [state.y.astype(np.int64)], np.full(len(state), 3)


@pytest.mark.parametrize("far", [False, True])
def test_sums_of_what_is_kept_are_those_of_rows_wherever_it_is(far):
    rows, m = meter(SUM), meter(SUM)
    y = [1, 2 * LIMIT, 3, LIMIT]  # one of which is beyond the limit, and takes no part
    expected = ask(rows, y, np.array([0, 1, 2, 0]))
    assert asked_of_kept(m, y, far=far).tolist() == expected.tolist() == [[LIMIT + 1, 0, 3]]
    m.finish()
    assert (m.draws, m.arithmetic) == (rows.draws, rows.arithmetic)


@pytest.mark.parametrize("far", [False, True])
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"of": twice}, "rows"),
        ({"of": fractions}, "numbers"),
        ({"of": beyond}, "groups"),
        ({"limits": (2 * LIMIT,)}, "limits"),
        ({"y": [1, 2, 3, 4, 5]}, "more rows than records have arrived"),
    ],
)
def test_sums_of_what_is_kept_that_are_not_as_planned_void_the_run(options, message, far):
    m = meter(SUM)
    with pytest.raises(PlanViolation, match=message):
        asked_of_kept(m, **{"y": [1, 2, 3, 4], "far": far} | options)
    assert m.violated


@pytest.mark.parametrize(
    ("planned", "round_"),
    [
        (Filtered(SUM, 2, 1), SUM),
        (event((1.5,), rate=0.5), event((1.5,), rate=0.5)),
    ],
)
def test_rounds_that_need_the_records_are_not_drawn_where_they_are_elsewhere(planned, round_):
    m = meter(planned)
    with pytest.raises(PlanViolation, match="need the records in one place"):
        asked_of_kept(m, [1, 2, 3, 4], far=True, round_=round_)


def test_accounts_are_kept_of_what_is_kept_here():
    m, half = meter(Filtered(SUM, 10, 2), records=2), LIMIT // 2
    kept = kept_of([LIMIT, half])
    totals = [
        float(m.window.kept_sums([kept], contributed, limits=(LIMIT,), event=SUM).sum()) for _ in range(10)
    ]
    assert totals == [LIMIT + half] * 2 + [half] * 6 + [0.0] * 2


@pytest.mark.parametrize("again", [lambda data: data, lambda data: data.select([0])])
@pytest.mark.parametrize(
    "form",
    [
        lambda X, y: Dataset.from_arrays(X, y, SCHEMA),
        lambda X, y: SparseDataset.from_arrays(csr_array(X), y, SCHEMA),
        lambda X, y: StreamedDataset.from_blocks(lambda: iter([(X, y)]), SCHEMA),
    ],
)
def test_a_record_is_not_added_up_twice(form, again):
    data = form(np.zeros((4, 1)), np.array([1.0, 2.0, 3.0, 4.0]))
    first, second = (each.keep(targets) for each in (data, again(data)))
    for kept in ([first, first], [first, second]):
        m = meter(SUM, records=8)  # two batches
        with pytest.raises(PlanViolation, match="the same records twice"):
            m.window.kept_sums(kept, contributed, limits=(LIMIT,), event=SUM)


def test_nobody_has_arrived():
    m = meter(SUM, records=None)
    with pytest.raises(PlanViolation, match="before any record arrived"):
        ask(m, [])


def test_rounds_of_a_filter_are_drawn_by_sums_alone():
    gaussian = Gaussian(1.5, sensitivity=1.0, shape=(1, 1))
    m = meter(Filtered(gaussian, 2, 1))
    with pytest.raises(PlanViolation, match="in another way than by sums"):
        m.window.gaussian([[0.0]], sensitivity=1.0, noise_multiplier=1.5)
    m = StageMeter(
        "part",
        StagePlan([Filtered(gaussian, 2, 1)], arithmetic=["own"]),
        ADD_REMOVE,
        Randomness.from_seed(0),
    )
    with (
        pytest.raises(PlanViolation, match="in another way"),
        m.custom(gaussian, proof="p", arithmetic="own"),
    ):
        pass


def test_a_filter_inside_another_event_is_refused():
    with pytest.raises(ValueError, match="plan Filtered on its own"):
        meter(Repeated(Filtered(SUM, 2, 1), 2))


def test_progress_counts_draws():
    seen = []
    m = meter(
        Laplace(1.0, sensitivity=1.0, shape=()),
        Repeated(SUM, 2),
        report=lambda done, steps: seen.append((done, steps)),
    )
    m.laplace(0.0, sensitivity=1.0, noise_multiplier=1.0)
    for _ in range(2):
        ask(m, [0, 0, 0, 0])
    assert seen == [(1, 3), (2, 3), (3, 3)]


def test_secret_coins_are_not_the_public_ones():
    """The public generator tells nothing of the sample: it is another stream, not moved by a draw."""
    sampled = event((1.5,), rate=0.5)
    m, other = meter(sampled, records=100), meter(sampled)
    ask(m, np.zeros(100, int), of=sampled)
    assert m.coins.random() == other.coins.random()
    assert isinstance(sampled, PoissonSampled)
