"""The tools of the kit against mechanisms whose exact privacy is known."""

import math

import numpy as np
import pytest
from dpkit_check import (
    ReferenceAccountant,
    SensitivityAttack,
    attack_mechanism,
    attack_sensitivity,
    audit,
    box,
    clopper_pearson,
    gaussian_delta,
    hockey_stick,
    laws,
    max_log_ratio,
    same_law,
    schemas,
)
from dpkit_check.instrument import opened
from dpkit_check.laws import (
    NotEnumerable,
    enumerate_law,
    exponential_law,
    gumbel_law,
    ordered_law,
)
from dpkit_check.worlds import PERSON, Population, classified, lattice, of_persons

from dpkit_core import Budget, Dataset, Neighboring, Schema, Sensitivity, StagePlan
from dpkit_core.errors import InvalidData
from dpkit_core.privacy.events import ExponentialMechanism, PureDP, Repeated
from dpkit_core.protocols import Round, Scores

AR, RO = Neighboring


def total(data):
    return np.clip(data.X, -1, 1).sum(axis=0)


# Worlds


@pytest.mark.parametrize("relation", Neighboring)
def test_pairs_are_neighbors_of_their_relation(relation):
    rng = np.random.default_rng(0)
    for schema in schemas(relation).values():
        population = Population(schema)
        for _ in range(50):
            pair = population.vary(population.pair(rng, int(rng.integers(2, 9))), rng)
            larger, other = (sorted(map(tuple, table)) for table in pair.tables())
            common = [row for row in larger if row in other]
            assert len(larger) - len(other) == (relation is AR)
            assert len(common) >= len(larger) - 1


def test_pairs_of_a_person_differ_in_all_records_of_that_person():
    population, rng = Population(of_persons(box(2, AR))), np.random.default_rng(0)
    own, alone, places = set(), 0, set()
    for pair in population.person_pairs(rng, PERSON.most_records, 30):
        larger, others = pair.tables()
        rows = larger[[pair.row, *pair.more]]
        assert len(rows) == PERSON.most_records == len(larger) - len(others)
        assert np.array_equal(np.delete(larger, [pair.row, *pair.more], axis=0), others)
        own.add(len(np.unique(rows, axis=0)))
        alone += len(np.unique(others, axis=0)) == 1 and others[0].tolist() not in rows.tolist()
        places.add("first" if pair.row == 0 else "last" if pair.row == len(others) else "between")
        assert all(data.unit == PERSON for data in population.datasets(pair))
    assert own >= {1, 2, 4}
    assert alone == 6
    assert places == {"first", "last", "between"}


def test_categories_stay_one_hot_in_every_structure():
    population, rng = Population(schemas(AR)["categorical"]), np.random.default_rng(0)
    for _ in range(300):
        hot = population.vary(population.pair(rng, 5), rng).table[:, 1:4]
        assert np.isin(hot, (0, 1)).all()
        assert (hot.sum(axis=1) <= 1).all()


@pytest.mark.parametrize("relation", Neighboring)
def test_the_kits_datasets_are_what_arrays_make_under_every_schema(relation):
    rng = np.random.default_rng(0)
    worlds = {**schemas(relation), **lattice(relation), **classified(relation)}
    for name, schema in worlds.items():
        table = Population(schema).table(rng, 6)
        made = Population(schema).dataset(table)
        expected = Dataset.from_arrays(table[:, :-1], table[:, -1], schema)
        assert np.array_equal(made.X, expected.X), name
        assert np.array_equal(made.y, expected.y), name
        facts = ("features", "outcome", "target", "target_bounds")
        assert [getattr(made, f) for f in facts] == [getattr(expected, f) for f in facts], name
        assert not made.X.flags.writeable, name
        assert not made.y.flags.writeable, name


def test_a_table_that_no_dataset_holds_makes_none():
    table = np.array([[0.0, np.nan, 0.0], [0.0, 0.5, 1.0]])
    with pytest.raises(InvalidData, match="missing"):
        Population(box(2, AR)).dataset(table)
    with pytest.raises(InvalidData, match="columns"):
        Population(box(2, AR)).dataset(table[:, 1:])
    with pytest.raises(InvalidData, match="rows"):
        Population(box(2, AR)).dataset(table[:0])


@pytest.mark.parametrize("relation", Neighboring)
def test_some_pairs_of_corners_are_among_all_of_them(relation):
    population = Population(schemas(relation)["categorical"])
    every = [pair.table.tobytes() for pair in population.corner_pairs(5)]
    some = population.some_corner_pairs(np.random.default_rng(0), 5, 10**6)
    assert sorted(pair.table.tobytes() for pair in some) == sorted(every)
    few = population.some_corner_pairs(np.random.default_rng(0), 5, 7)
    assert [pair.table.tobytes() for pair in few] == [pair.table.tobytes() for pair in some[:7]]


def test_data_leave_the_bounds_only_where_asked():
    rng = np.random.default_rng(0)
    inside, beyond = (Population(box(2, AR), beyond=flag) for flag in (False, True))
    assert max(np.abs(inside.table(rng, 9)).max() for _ in range(50)) <= 1
    assert max(np.abs(beyond.table(rng, 9)).max() for _ in range(50)) > 100


# Sensitivity


@pytest.mark.slow
def test_the_search_reaches_a_tight_sensitivity_and_does_not_exceed_it():
    for relation, exact in ((AR, 1.0), (RO, 2.0)):
        found = attack_sensitivity(total, Sensitivity.general(exact, relation), box(3, relation))
        assert not found.violated
        assert found.ratio == pytest.approx(1, abs=0.01)
        half = attack_sensitivity(total, Sensitivity.general(exact / 2, relation), box(3, relation))
        assert half.violated


def test_the_search_is_a_function_of_its_seed():
    one, two = (attack_sensitivity(total, {"linf": 1}, box(2, RO), evaluations=90, seed=3) for _ in "ab")
    assert (one.change, one.found_after, one.evaluations) == (two.change, two.found_after, 90)
    assert np.array_equal(one.pair[0].X, two.pair[0].X)


def test_the_witness_shows_the_change_that_is_reported():
    found = attack_sensitivity(total, {"linf": 0.1}, box(2, AR))
    first, second = found.pair
    assert np.abs(total(first) - total(second)).max() == pytest.approx(found.change)


@pytest.mark.parametrize("relation", [AR, RO])
def test_the_witness_has_no_more_records_than_it_needs(relation):
    found = attack_sensitivity(total, {"linf": 0.1}, box(2, relation), sizes=(3, 40))
    assert [len(data.y) for data in found.pair] == ([4, 3] if relation is AR else [3, 3])
    # Of a count of pairs, every record is needed.
    found = attack_sensitivity(lambda data: len(data.y) ** 2, {"linf": 1}, box(1, AR), sizes=(3, 40))
    assert [len(data.y) for data in found.pair] == [41, 40]


def test_the_witness_is_printed_with_equal_records_together_and_what_changes():
    schema = box(1, AR)
    table = Dataset.from_arrays([[0.5]] * 4 + [[1 / 3]], [1.0] * 4 + [-2.0], schema)
    without = Dataset.from_arrays([[0.5]] * 3 + [[1 / 3]], [1.0] * 3 + [-2.0], schema)
    other = Dataset.from_arrays([[0.5]] * 4 + [[1000.0]], [1.0] * 4 + [-2.0], schema)
    told = SensitivityAttack("linf", 2.0, 1.0, (table, without), 5, 3, 0.0).describe().splitlines()
    assert told == [
        "linf change 2, declared 1 (2 times), after 3 pairs, between neighbors with 5 and 4 records:",
        "  public bounds: x0 from -1 to 1, y from -1 to 1",
        "  records 1 to 3: X = (0.5), y = 1",
        "  record 4: X = (0.5), y = 1",
        "  record 5: X = (0.333333), y = -2",
        "and the same without record 4",
    ]
    told = SensitivityAttack("linf", 2.0, 1.0, (table, other), 5, 3, 0.0).describe().splitlines()
    assert told[2:] == [
        "  records 1 to 4: X = (0.5), y = 1",
        "  record 5: X = (0.333333), y = -2",
        "and the same with X = (1000), y = -2 as record 5",
    ]
    far = Schema.numeric(["a"], "y", {"a": (1e8 + 3.5, 1e8 + 4.5), "y": (0.0, 1.0)})
    pair = [Dataset.from_arrays([[1e8 + 4.0]] * n, [0.5] * n, far) for n in (2, 1)]
    told = SensitivityAttack("linf", 2.0, 1.0, tuple(pair), 5, 3, 0.0).describe().splitlines()
    assert told[1] == "  public bounds: a from 100000003.5 to 100000004.5, y from 0 to 1"


def test_a_statistic_that_is_not_finite_refutes_its_claim():
    with np.errstate(divide="ignore", invalid="ignore"):
        assert attack_sensitivity(lambda data: data.y / 0, {"linf": 1}, box(1, RO), evaluations=5).violated


# Audit


def test_clopper_pearson_is_exact_at_its_ends():
    low, high = clopper_pearson([0, 10], 10, 0.05)
    assert low[0] == 0
    assert high[1] == 1
    assert high[0] == pytest.approx(1 - 0.05 ** (1 / 10))  # (1 - p)^10 = 0.05
    assert low[1] == pytest.approx(0.05 ** (1 / 10))


@pytest.mark.slow
def test_the_audit_nears_the_exact_epsilon_of_laplace_noise_from_below():
    rng = np.random.default_rng(0)
    first, second = (rng.laplace(loc, size=(40_000, 1)) for loc in (1, 0))
    found = audit(first, second, Budget(1.0))
    assert 0.85 < found.epsilon <= 1  # exceeds 1 with probability 1e-3 at most
    assert not found.violated
    assert audit(first, second, Budget(0.5)).violated


@pytest.mark.slow
def test_the_audit_nears_the_exact_delta_and_mu_of_gaussian_noise_from_below():
    rng = np.random.default_rng(1)
    first, second = (rng.normal(loc, size=(40_000, 2)) for loc in (1 / math.sqrt(2), 0))
    found = audit(first, second, Budget(0.5, 1e-6))
    exact = gaussian_delta(0.5, 1.0)
    assert 0.8 * exact < found.delta <= exact
    assert 0.9 < found.mu <= 1


def test_the_renyi_bound_is_below_the_exact_divergence():
    rng = np.random.default_rng(2)
    first, second = (rng.normal(loc, size=(20_000, 1)) for loc in (1, 0))
    found = audit(first, second, Budget(1.0))
    for order in (2, 8):
        assert 0.2 < found.renyi(order) <= order / 2


@pytest.mark.slow
def test_the_false_alarm_rate_is_the_stated_one():
    rng = np.random.default_rng(3)
    alarms = sum(
        audit(rng.laplace(1, size=(400, 1)), rng.laplace(size=(400, 1)), Budget(1.0), confidence=0.9).violated
        for _ in range(100)
    )
    assert alarms <= 10  # the bounds are conservative; 100 audits of a tight claim expect fewer than 10


def test_discrete_outputs_are_audited_as_sets():
    def response(data, rng):
        truth = len(data.y) % 2 == 1
        return "odd" if truth == (rng.random() < math.e / (1 + math.e)) else "even"

    pair = Population(box(1, AR)).datasets(Population(box(1, AR)).pair(np.random.default_rng(0), 4))
    assert not attack_mechanism(response, Budget(1.0), pair, samples=4000).violated
    assert attack_mechanism(response, Budget(0.5), pair, samples=4000).violated


# Exact laws


@pytest.mark.parametrize(("law", "noise"), [(gumbel_law, "gumbel"), (exponential_law, "exponential")])
def test_laws_agree_with_sampling(law, noise):
    rng, scores = np.random.default_rng(0), np.array([0.0, 0.3, 1.5, 1.4])
    draws = (scores + getattr(rng, noise)(size=(200_000, 4))).argmax(axis=1)
    # Each share is within 5 standard deviations with probability 1 - 4 * 6e-7.
    assert np.bincount(draws, minlength=4) / 200_000 == pytest.approx(
        law(scores), abs=5 * 0.5 / math.sqrt(2e5)
    )
    assert sum(law(scores)) == pytest.approx(1, abs=1e-12)


def test_picks_in_turn_sum_to_one_and_skip_what_is_excluded():
    scores = np.array([0.0, 1.0, -np.inf, 2.0])
    law = ordered_law(scores, 2, gumbel_law)
    assert sum(law.values()) == pytest.approx(1)
    assert {i for picks in law for i in picks} == {0, 1, 3}
    weights = np.exp([2.0, 1.0, 0.0])
    assert law[3, 1] == pytest.approx(weights[0] / weights.sum() * weights[1] / weights[1:].sum())


def test_the_gumbel_law_is_the_tight_exponential_mechanism():
    first, second = (dict(enumerate(gumbel_law(scores))) for scores in ([0.0] * 50, [0.5] + [-0.5] * 49))
    assert max_log_ratio(first, second) == pytest.approx(1, abs=0.05)
    assert max_log_ratio(first, second) <= 1
    assert hockey_stick(first, second, 1.0) == 0
    assert hockey_stick(first, second, 0.0) == pytest.approx(second[0] - first[0])


def test_two_laws_are_told_apart_and_one_is_not():
    rng = np.random.default_rng(0)
    normal = rng.normal(size=(4, 1000, 2))
    assert same_law(normal[0], normal[1]) > 1e-3
    assert same_law(normal[0], normal[1] + [0, 0.5]) < 1e-6
    dice = [rng.integers(6, size=2000).tolist() for _ in range(2)]
    assert same_law(*dice) > 1e-3
    assert same_law(dice[0], [max(d, 1) for d in dice[1]]) < 1e-6


def own(answers):
    """Return what opens a mechanism of one's own."""
    event = PureDP(1.0, proof="none")
    meter = opened(answers, StagePlan([event], arithmetic=["none"]), AR)
    return meter.custom(event, proof="none", arithmetic="none")


def test_coins_orders_and_whole_numbers_have_the_law_of_all_their_answers():
    def outcome(answers):
        with own(answers) as sampler:
            heads = sampler.bernoulli_exp(np.array([1, 0]), 2)
            number = int(sampler.integers(3))
            order = sampler.permutation(np.array([4, 5]))
            some = sampler.subset(np.arange(3), 2)
        return *map(bool, heads), number, int(order[0]), tuple(map(int, some))

    law = enumerate_law(outcome, own=True)
    assert len(law) == 2 * 3 * 2 * 6
    assert law[True, True, 2, 5, (2, 0)] == pytest.approx(math.exp(-1 / 2) / 36)
    assert math.fsum(law.values()) == pytest.approx(1)


def test_drawing_until_one_is_accepted_has_the_law_of_those_accepted():
    def accepted(answers):
        with own(answers) as sampler:
            while True:
                number = int(sampler.integers(2))
                if sampler.bernoulli_exp(number, 1):
                    return number

    law = enumerate_law(accepted, own=True)
    assert law == pytest.approx({0: 1 / (1 + math.exp(-1)), 1: 1 / (1 + math.e)}, abs=1e-15)


@pytest.mark.parametrize("draw", ["gumbel", "exponential"])
def test_noise_of_infinitely_many_values_is_not_enumerated(draw):
    def noise(answers):
        with own(answers) as sampler:
            return float(getattr(sampler, draw)(1)[0])

    with pytest.raises(NotEnumerable):
        enumerate_law(noise, own=True)


# The reference accountant


def test_the_reference_accountant_is_exact_for_gaussians():
    spent = ReferenceAccountant(AR, inverse_variance=1.0)
    assert spent.epsilon(1e-5) == pytest.approx(4.376, abs=2e-3)  # Balle and Wang 2018, sigma = 1
    assert spent.delta(spent.epsilon(1e-5)) <= 1e-5


@pytest.mark.parametrize("rounds", [2, 30])
def test_a_law_of_too_many_answers_is_not_enumerated(rounds, monkeypatch):
    monkeypatch.setattr(laws, "MOST_SEQUENCES", 100)
    moves = Sensitivity.general(1.0, Neighboring.ADD_OR_REMOVE_ONE)
    scores = Scores(np.zeros(5), Round(5, 5, 1, moves), np.ones(5, dtype=bool))
    event = ExponentialMechanism(0.1, sensitivity=2.0, candidates=5)
    runs = []

    def last_pick(answers):
        runs.append(1)
        meter = opened(answers, StagePlan([Repeated(event, rounds)]), Neighboring.ADD_OR_REMOVE_ONE)
        return [meter.select(scores, 1, event=event) for _ in range(rounds)][-1]

    if 5**rounds < 100:
        assert enumerate_law(last_pick) == pytest.approx({(j,): 1 / 5 for j in range(5)})
    else:
        with pytest.raises(NotEnumerable):
            enumerate_law(last_pick)
        assert len(runs) < 100
