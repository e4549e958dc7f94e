"""A model is scored on records that it was not fitted to, and the interval holds what it says it holds."""

import json
import math
from typing import ClassVar

import attrs
import numpy as np
import pytest
from dpkit_cli.planfile import read_plan, write_plan
from dpkit_command_verify.replan import replan
from scipy import stats
from sklearn.metrics import roc_auc_score

from dpkit_core import (
    Account,
    Budget,
    Dataset,
    Ledger,
    LinearModel,
    Neighboring,
    Randomness,
    Release,
    Schema,
    StagePlan,
    compose,
    plan_evaluation,
    verify,
)
from dpkit_core.data.columns import Column, Unit
from dpkit_core.data.sides import key_of, sides
from dpkit_core.data.sums import Block
from dpkit_core.errors import CannotCompose, InvalidOption, InvalidRelease
from dpkit_core.files.documents import digest
from dpkit_core.mechanisms.calibration import total
from dpkit_core.mechanisms.moments import flatten, sum_of_products
from dpkit_core.mechanisms.scores import NORM, SAID, SIZE, _counts, score_events, score_of_numbers, score_rows
from dpkit_core.pipeline.evaluate import _one_by_one
from dpkit_core.privacy.composition import elements
from dpkit_core.privacy.events import Apart, Gaussian, Sequence
from dpkit_core.privacy.filters import filter_for
from dpkit_core.release.certificate import HeldOut, Settings
from dpkit_core.release.evaluation import CELLS, SHOWN_CELLS, Evaluation
from dpkit_core.release.signing import unsigned

BUDGET, RO = Budget(1.0, 1e-6), Neighboring.REPLACE_ONE
SCHEMA = Schema.numeric(["a", "b"], "y")
YES_NO = Schema(SCHEMA.columns, Column("y", "categorical", categories=("no", "yes")))
THREE = Schema(SCHEMA.columns, Column("y", "categorical", categories=("low", "mid", "high")))
SLOPE = LinearModel(("a", "b"), (2.0, 1.0))


def line(n=20_000, seed=0, schema=SCHEMA, **more):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 2))
    y = 2 * X[:, 0] + X[:, 1] + rng.normal(size=n) / 2
    if schema is YES_NO:
        y = (y > 0).astype(float)
    if schema.target.classes:
        y = np.array(schema.target.classes)[np.digitize(y, (-1, 1))]
    return Dataset.from_arrays(X, y, schema, **more)


def scored(schema=SCHEMA, budget=BUDGET, evaluate=0.1, data=None, **parts):
    plan = compose(**({"regressor": "winsorized_least_squares"} | parts)).plan(
        schema, budget, evaluate=evaluate
    )
    return plan, plan.run(data or line(schema=schema), randomness=Randomness.from_seed(3))


# What it costs


@pytest.mark.parametrize("regressor", ["winsorized_least_squares", "boosted_trees", "adassp"])
def test_it_takes_nothing_from_a_fit_with_gaussian_noise(regressor):
    schema = Schema.numeric(["a", "b"], "y", {"a": (-1, 1), "b": (-1, 1), "y": (-5, 5)})
    without = compose(regressor=regressor).plan(schema, BUDGET)
    plan = compose(regressor=regressor).plan(schema, BUDGET, evaluate=0.1)
    assert plan.stages == without.stages
    assert plan.epsilon == pytest.approx(without.epsilon, rel=1e-9)
    assert plan.epsilon <= BUDGET.epsilon


def test_a_fit_without_gaussian_noise_leaves_it_a_share():
    plan = compose(regressor="tukey").plan(SCHEMA, BUDGET, evaluate=0.1)
    alone = compose(regressor="tukey").plan(SCHEMA, BUDGET)
    assert plan.events[0].event.noise_multiplier > alone.events[0].event.noise_multiplier
    assert 0.99 < plan.epsilon <= BUDGET.epsilon


def test_an_account_pays_for_the_fit():
    ledger = Ledger.in_memory()
    ledger.add(Account("t", SCHEMA, Budget(3.0, 1e-5), filter_for("gdp", Budget(3.0, 1e-5))))
    plain = compose(regressor="adassp", accountant="tight")
    schema = Schema.numeric(["a", "b"], "y", {"a": (-1, 1), "b": (-1, 1), "y": (-5, 5)})
    ledger.add(Account("u", schema, Budget(3.0, 1e-5), filter_for("gdp", Budget(3.0, 1e-5))))
    totals = []
    for share in (None, 0.2):
        before = ledger.statement("u").total
        plain.plan(schema, BUDGET, evaluate=share).run(line(schema=schema), paid_by=ledger.payer("u"))
        after = ledger.statement("u").total
        totals.append([b - a for a, b in zip(before, after, strict=True) if a is not None and b is not None])
    assert totals[0] == pytest.approx(totals[1], rel=1e-9)


def test_what_cannot_be_scored_is_refused_before_anything_is_spent():
    replaced = attrs.evolve(SCHEMA, neighboring=Neighboring.REPLACE_ONE, records=100)
    for schema, parts, more, why in (
        (replaced, {"regressor": "winsorized_least_squares"}, {}, "may change its side"),
        (SCHEMA, {"scorer": "kendall", "selector": "peel"}, {}, "add a regressor"),
        (SCHEMA, {"regressor": "boosted_trees"}, {"evaluate": 1.5}, "above 0 and below 1"),
        (SCHEMA, {"regressor": "sgbdt"}, {"batches": 2}, "one table scores a model"),
        (SCHEMA, {"regressor": "tukey", "accountant": "basic"}, {}, "does not support Gaussian"),
    ):
        with pytest.raises(CannotCompose, match=why):
            compose(**parts).plan(schema, BUDGET, **({"evaluate": 0.1} | more))


# On the records of the fit


@pytest.mark.slow
@pytest.mark.parametrize("schema", [SCHEMA, YES_NO, attrs.evolve(SCHEMA, neighboring=RO, records=20_000)])
def test_a_score_on_the_records_of_the_fit_is_one_more_step_on_them(schema):
    data = line(schema=schema)
    regressor = "boosted_trees" if schema is YES_NO else "winsorized_least_squares"
    plan = compose(regressor=regressor).plan(schema, BUDGET, in_sample=0.3)
    release = plan.run(data, randomness=Randomness.from_seed(3))
    assert verify(release).confirmed
    assert replan(release).problems == ()
    assert release.evaluation.records == "fitted"
    assert release.evaluation.of is None
    assert "optimistic" in str(release)
    assert "held out" not in str(release)
    # All events are on the same records: none is taken off the total.
    every = [item.event for item in plan.events]
    assert plan.charged == tuple(every)
    assert not any(isinstance(event, Apart) for event in every)
    if schema is not YES_NO:
        truth = exact(release, data)
        assert abs(release.evaluation.score().value - truth) < 5 * (0.01 if schema is SCHEMA else 0.02)


def exact(release, data):
    """Return the capped R2 of a model on these records, without noise."""
    found = release.evaluation
    rows = score_rows(Block(data.X, data.y), release.model.predict, found.center, found.cap)
    return attrs.evolve(found, released=flatten(rows.T @ rows).tolist(), deviation=1e-9).score().value


def test_a_score_on_the_records_of_the_fit_is_never_taken_for_one_apart():
    """Charged as if it were, the total would be that of the fit alone; each single change is refused."""
    plan = compose(regressor="winsorized_least_squares").plan(SCHEMA, BUDGET, in_sample=0.5)
    release = plan.run(line())
    by = plan.accountant.instance
    sides = (Sequence(plan.stages[0].plan.events), Sequence(plan.evaluation.events))
    apart = total((Apart(sides),), by, 1e-6)
    assert apart < 0.95 * plan.epsilon
    document = release.to_document()
    assert verify(Release.from_document(document)).confirmed
    cheaper = json.loads(json.dumps(document))
    cheaper["certificate"]["epsilon"] = apart
    assert not verify(Release.from_document(cheaper)).confirmed
    for event in cheaper["certificate"]["events"]:
        if event["stage"] == "in-sample":
            event["stage"] = "evaluation"
    assert not verify(Release.from_document(cheaper)).confirmed  # no records are held out
    cheaper["certificate"]["plan"] = {"evaluate": {"share": 0.5, "key": f"{key_of(SCHEMA):016x}"}}
    assert not verify(Release.from_document(cheaper)).confirmed  # the score says that it is of fitted ones
    for records in ("held-out", "other"):
        assert not verify(renamed(release, records)).confirmed


@pytest.mark.slow
def test_a_score_on_the_records_of_the_fit_leaves_more_to_it_than_two_budgets_would():
    both = compose(regressor="winsorized_least_squares").plan(SCHEMA, BUDGET, in_sample=0.3)
    alone = compose(regressor="winsorized_least_squares").plan(SCHEMA, Budget(0.7, 7e-7))
    precisions = [
        sum(
            count / event.noise_multiplier**2
            for inner in plan.stages[0].plan.events
            for event, count in elements(inner)
            if isinstance(event, Gaussian)
        )
        for plan in (both, alone)
    ]
    assert precisions[0] > 1.2 * precisions[1]


def test_what_cannot_be_scored_in_sample_is_refused_before_anything_is_spent():
    for parts, more, why in (
        ({"regressor": "boosted_trees"}, {"in_sample": 1.0}, "above 0 and below 1"),
        (
            {"scorer": "kendall", "selector": "peel", "regressor": "tukey"},
            {"in_sample": 0.8, "select_share": 0.3},
            "below 0.7",
        ),
        ({"regressor": "boosted_trees"}, {"in_sample": 0.1, "evaluate": 0.1}, "give one"),
        ({"scorer": "kendall", "selector": "peel"}, {"in_sample": 0.1}, "add a regressor"),
        ({"regressor": "sgbdt"}, {"batches": 2, "in_sample": 0.1}, "not batches"),
        ({"regressor": "tukey", "accountant": "basic"}, {"in_sample": 0.1}, "Gaussian"),
    ):
        with pytest.raises(CannotCompose, match=why):
            compose(**parts).plan(SCHEMA, BUDGET, **more)


def test_a_plan_with_a_score_in_sample_is_written_and_read(tmp_path):
    plan = compose(regressor="winsorized_least_squares").plan(SCHEMA, BUDGET, in_sample=0.3)
    write_plan(plan, tmp_path / "plan.toml")
    assert read_plan(tmp_path / "plan.toml").events == plan.events
    assert "in-sample" in str(plan)
    assert "30% of the budget" in str(plan)


# What one record moves


def block(y, said):
    return Block(np.array([[said, 0.0]], dtype=float), np.array([y], dtype=float))


def first(X):
    return X[:, 0]


def test_the_norm_of_a_row_is_attained_and_never_passed():
    def norm(y, said, center=0.0, cap=1.0):
        return float(np.linalg.norm(score_rows(block(y, said), first, center, cap)))

    assert norm(1.0, 3.0) == pytest.approx(NORM)
    far = [-math.inf, -1e308, -2.0, -1.0, 0.0, 0.3, 1.0, 1e308, math.inf, math.nan]
    finite = [value for value in far if math.isfinite(value)]
    with np.errstate(all="ignore"):
        assert max(norm(y, m, c, h) for y in finite for m in far for c in (0, 1e308) for h in (1e-9, 1)) <= (
            NORM * (1 + 1e-15)
        )


def test_a_record_moves_the_released_numbers_by_what_the_events_say():
    rng = np.random.default_rng(1)
    *_, moments = score_events(1.0, None)
    (counts,) = score_events(1.0, 3)
    for _ in range(50):
        y, said = rng.normal(size=(2, 8)) * 3
        rows = [Block(np.column_stack([said[:n], said[:n]]), y[:n]) for n in (7, 8)]
        one, other = (
            sum_of_products(
                Dataset(b.X, b.y, SCHEMA.features),
                lambda c: score_rows(c, first, 0.0, 1.0),
                None,
                (SIZE, SIZE),
            )
            for b in rows
        )
        assert np.linalg.norm(flatten(other - one)) <= moments.sensitivity
        one, other = (_counts(Block(b.X, np.abs(b.y) // 2), lambda X: np.abs(X) / 9, 3) for b in rows)
        assert np.linalg.norm(other - one) == math.sqrt(2) == counts.sensitivity
    assert moments.sensitivity == pytest.approx(3.5, rel=1e-5)


def test_a_model_of_somebody_else_is_asked_row_by_row():
    def relative(X):
        return X[:, 0] - X[:, 0].mean()

    X = np.arange(6.0).reshape(3, 2)
    assert _one_by_one(X, relative).tolist() == [0.0, 0.0, 0.0]
    assert _one_by_one(X[:0], relative).tolist() == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("regressor", "options"), [("winsorized_least_squares", {}), ("boosted_trees", {"trees": 5})]
)
def test_a_record_of_the_other_side_changes_no_bit(regressor, options):
    data = line(1000)
    plan = compose(regressor=regressor, options={"regressor": options}).plan(SCHEMA, BUDGET, evaluate=0.5)

    def released(more):
        X, y = np.vstack([data.X, more.X]), np.append(data.y, more.y)
        release = plan.run(Dataset.from_arrays(X, y, SCHEMA), randomness=Randomness.from_seed(5))
        return json.dumps(release.model.to_document())

    _, held_out = sides(0.5, key_of(SCHEMA))
    alone = json.dumps(plan.run(data, randomness=Randomness.from_seed(5)).model.to_document())
    singles = [line(1, seed=100 + extra) for extra in range(6)]
    out = [single.side(held_out).records == 1 for single in singles]
    same = [released(single) == alone for single in singles]
    assert same == out
    assert 0 < sum(out) < 6


def scored_and_fitted(monkeypatch):
    """Return the records that score a model in its own run, and those of which some are fitted to."""
    seen = {}

    def spy(name, real):
        def called(meter, data, *more, **options):
            seen.setdefault(name, {*map(tuple, np.column_stack([data.X, data.y]))})
            return real(meter, data, *more, **options)

        return called

    monkeypatch.setattr("dpkit_core.pipeline.evaluate.score_of_numbers", spy("scored", score_of_numbers))
    plan = compose(regressor=Watched()).plan(SCHEMA, BUDGET, evaluate=0.3)
    plan.run(line(500), randomness=Randomness.from_seed(5))
    return seen["scored"], Watched.seen[-1]


@attrs.frozen
class Watched:
    """Shows what it is fitted to; the model is a constant."""

    seen: ClassVar[list[set[tuple[float, ...]]]] = []

    api = 3
    proof = reference = "a constant"

    def plan(self, request):
        return StagePlan((Gaussian(10.0, sensitivity=1.0, shape=(1,)),), None)

    def fit(self, data, plan, meter):
        meter.gaussian(np.zeros(1), sensitivity=1.0, noise_multiplier=10.0)
        self.seen.append({*map(tuple, np.column_stack([data.X, data.y]))})
        return LinearModel(("a", "b"), (0.0, 0.0))


def test_no_record_is_fitted_to_and_scores_the_model(monkeypatch):
    scored, fitted = scored_and_fitted(monkeypatch)
    assert not scored & fitted
    assert len(scored) + len(fitted) == 500
    monkeypatch.setattr("dpkit_core.pipeline.runner.divided", lambda plan, data: (data, data))
    scored, fitted = scored_and_fitted(monkeypatch)
    assert scored & fitted  # charged as apart, which the first line sees


@pytest.mark.first(3)
@pytest.mark.parametrize(
    "regressor",
    ["winsorized_least_squares", "adassp", "mean", "boosted_adassp", "boosted_trees", "sgbdt", "dpboost"],
)
def test_one_record_leaves_a_side_empty_and_nothing_fails(regressor):
    schema = Schema.numeric(["a", "b"], "y", {"a": (-1, 1), "b": (-1, 1), "y": (-5, 5)})
    plan = compose(regressor=regressor).plan(schema, Budget(1.0, 1e-5), evaluate=0.5)
    for seed in range(4):  # fits to nothing, and scores on nothing
        release = plan.run(line(1, seed=seed, schema=schema), randomness=Randomness.from_seed(seed))
        assert release.evaluation is None or release.evaluation.score() is None


# What it says


def test_a_release_keeps_its_score_and_every_reader_confirms_it(tmp_path):
    plan, release = scored()
    assert release.evaluation.measure == "capped r2"
    found = release.evaluation.score()
    assert 0.6 < found.low < found.value < found.high < 1.1
    release.write(tmp_path / "r.json")
    again = Release.read(tmp_path / "r.json")
    assert again.evaluation == release.evaluation
    assert verify(again).confirmed
    assert str(release).startswith("How good it is\n  Capped R2 0.")
    assert replan(again).problems == ()
    write_plan(plan, tmp_path / "p.toml")
    assert read_plan(tmp_path / "p.toml").events == plan.events
    assert "hash of its content" in " ".join(release.certificate.assumptions)


@pytest.mark.slow
@pytest.mark.parametrize("schema", [YES_NO, THREE])
def test_classes_are_scored_by_accuracy(schema):
    _, release = scored(schema, regressor="boosted_trees")
    found = release.evaluation
    data = line(seed=1, schema=schema)
    said = release.model.predict(data.X)
    named = said >= 0.5 if schema is YES_NO else np.argmax(said, axis=1) + 1
    accuracy = float(np.mean(named == data.y))
    score = found.score(population=True)
    assert score.low - 0.03 < accuracy < score.high + 0.03
    assert score.high - score.low < 0.3
    assert 0.3 < found.most_frequent < score.value
    assert (found.ranking() is None) == (schema is THREE)
    assert len(release.scored.rows) == 6
    assert "predicted probability" in str(release)
    assert found.number == pytest.approx(2000, rel=0.2)


def test_the_cap_reaches_no_farther_than_the_public_bounds_of_the_target():
    bounded = Schema.numeric(["a", "b"], "y", {"a": (-1, 1), "b": (-1, 1), "y": (-2, 2)})
    caps = []
    for schema in (SCHEMA, bounded):
        _, release = scored(schema, data=line(4000, schema=schema))
        caps.append(release.evaluation.cap)
    assert caps[1] <= abs(release.evaluation.center) + 2 < caps[0]
    assert release.evaluation.beyond == 0
    assert release.evaluation.score().low > 0.4
    far, at = (score_rows(block(y, 0.5), first, 0.0, 2.0, (-2.0, 2.0)) for y in (9.0, 2.0))
    assert far.tolist() == at.tolist()


def test_a_unit_is_on_one_side_and_the_total_is_for_all_its_records():
    schema = attrs.evolve(SCHEMA, unit=Unit(("who",), 4))
    plan = compose(regressor="winsorized_least_squares").plan(schema, BUDGET, evaluate=0.2)
    release = plan.run(line(schema=schema, units=np.arange(20_000) // 4))
    assert release.certificate.charged[0].units
    assert verify(release).confirmed


def test_a_release_that_says_otherwise_is_not_confirmed():
    _, release = scored()
    certificate = release.certificate
    found = release.evaluation
    for lie in (
        attrs.evolve(release, evaluation=None),
        attrs.evolve(release, evaluation=attrs.evolve(found, deviation=found.deviation / 2)),
        attrs.evolve(
            release, certificate=attrs.evolve(certificate, plan=attrs.evolve(certificate.plan, evaluate=None))
        ),
        attrs.evolve(release, certificate=attrs.evolve(certificate, events=certificate.events[:-1])),
        attrs.evolve(release, evaluation=Evaluation("accuracy", [1.0] * 48, found.deviation)),
    ):
        assert not verify(lie).confirmed
    for wrong in (
        {"released": [1.0] * 9},
        {"deviation": 0.0},
        {"cap": -1.0},
        {"cap": None},
        {"measure": "r2"},
        {"measure": "accuracy"},
    ):
        document = json.loads(release.to_json())
        document["evaluation"] |= wrong
        with pytest.raises(InvalidRelease):
            Release.from_document(document)


def test_too_few_records_say_nothing():
    _, release = scored(data=line(300))
    assert release.evaluation is None or release.evaluation.score() is None
    nothing = Evaluation("capped r2", [1.0] * 10, 5.0)
    assert nothing.score() is None
    assert "cannot be told from noise" in nothing.sentences(None)[0]


# What the interval holds: simulated from the released numbers on, with normal noise of the planned deviation

CAP, CENTER = 4.0, 0.2


def population(kind, n, rng):
    """Return targets and what a model says of them."""
    x = rng.normal(size=n)
    noise = {
        "even": lambda: rng.normal(size=n),
        "spread": lambda: rng.normal(size=n) * np.abs(x),
        "heavy": lambda: rng.standard_t(2.5, size=n),
        "zeros": lambda: np.where(rng.uniform(size=n) < 0.7, -x, rng.normal(size=n)),
    }[kind]()
    return x + noise, 0.9 * x


def moments_of(y, said):
    rows = score_rows(Block(said[:, np.newaxis], y), first, CENTER, CAP)
    return rows.T @ rows


def plain(M):
    """Return the score of numbers without noise."""
    found = Evaluation("capped r2", flatten(M).tolist(), 1e-12, CENTER, CAP, 0.0).score()
    return found.value


def coverage(kind, n, mu, runs, seed, *, fresh):
    """Return how often intervals hold the score of a population, or of one table; and how often none is."""
    rng = np.random.default_rng(seed)
    own = moments_of(*population(kind, n, rng))
    truth = plain(moments_of(*population(kind, 400_000, rng))) if fresh else plain(own)
    s = 3.5 / (mu * math.sqrt(0.8))
    held = none = 0
    for _ in range(runs):
        M = moments_of(*population(kind, n, rng)) if fresh else own
        released = flatten(M) + rng.normal(size=10) * s
        found = Evaluation("capped r2", released.tolist(), s, CENTER, CAP, 0.0).score(population=fresh)
        none += found is None
        held += found is not None and found.low <= truth <= found.high
    return held / (runs - none), none / runs


@pytest.mark.slow
@pytest.mark.first(12)
@pytest.mark.parametrize("fresh", [False, True])
@pytest.mark.parametrize("kind", ["even", "spread", "heavy", "zeros"])
@pytest.mark.parametrize(("n", "mu"), [(2000, 0.237), (20_000, 0.237), (20_000, 0.124)])
def test_the_interval_of_r2_holds_in_95_of_100(kind, n, mu, fresh):
    runs = 400
    held, none = coverage(kind, n, mu, runs, seed=[n, int(1000 * mu)], fresh=fresh)
    assert none < 0.3
    low, high = stats.binom.interval(0.999, round(runs * (1 - none)), 0.95)
    assert low - 0.02 * runs <= held * runs * (1 - none) <= high + 0.02 * runs


@pytest.mark.slow
def test_intervals_without_their_noise_or_their_sampling_would_not_hold():
    rng = np.random.default_rng(9)
    s, held = 3.5 / 0.2, np.zeros(2)
    truth = plain(moments_of(*population("even", 400_000, rng)))
    for _ in range(300):
        M = moments_of(*population("even", 20_000, rng))
        released = (flatten(M) + rng.normal(size=10) * s).tolist()
        halved = Evaluation("capped r2", released, s / 2, CENTER, CAP, 0.0).score(population=True)
        records_alone = Evaluation("capped r2", released, s, CENTER, CAP, 0.0).score()
        held += [each.low <= truth <= each.high for each in (halved, records_alone)]
    assert held[0] / 300 < 0.9
    assert held[1] / 300 < 0.95


def of_units(n, most, rng):
    """Return targets and predictions of units whose records are all alike."""
    alike = np.repeat(np.arange(n), np.minimum(1 + rng.poisson(3, n), most))
    x, noise = rng.normal(size=(2, n))
    return (x + noise)[alike], 0.9 * x[alike]


@pytest.mark.slow
@pytest.mark.parametrize("most", [1, 4])
def test_the_interval_of_a_population_of_units_holds_though_their_records_are_alike(most):
    """By records alone it would hold in 73 of 100; with most for all, 95 in 100 is the least."""
    rng, s, held, runs = np.random.default_rng(3), 3.5 / 0.2, np.zeros(2), 200
    truth = plain(moments_of(*of_units(200_000, most, rng)))
    for _ in range(runs):
        released = flatten(moments_of(*of_units(10_000, most, rng))) + rng.normal(size=10) * s
        found = Evaluation("capped r2", released.tolist(), s, CENTER, CAP, 0.0)
        both = [found.score(population=True, of_each=each) for each in (most, 1)]
        held += [each.low <= truth <= each.high for each in both]
    assert held[0] >= stats.binom.ppf(0.001, runs, 0.95)
    assert (held[1] < 0.9 * runs) == (most > 1)
    if most > 1:
        assert "If each 'id', with all records, was drawn" in found.sentences(Unit("id", most))[1]


@pytest.mark.slow
@pytest.mark.parametrize("fresh", [False, True])
@pytest.mark.parametrize(("n", "mu", "right"), [(500, 0.237, 0.7), (2000, 0.124, 0.9), (20_000, 0.237, 0.6)])
def test_the_interval_of_accuracy_holds_in_95_of_100(n, mu, right, fresh):
    rng, runs, held, cells = np.random.default_rng(n), 1000, 0, [0.0] * 2 * CELLS
    chances = [0.5 * (1 - right), 0.5 * right] * 2
    own = rng.multinomial(n, chances)
    truth = right if fresh else (own[1] + own[3]) / n
    for _ in range(runs):
        counts = rng.multinomial(n, chances) if fresh else own
        released = counts + rng.normal(size=4) / mu
        found = Evaluation("accuracy", released.tolist() + cells, 1 / mu).score(population=fresh)
        held += found.low <= truth <= found.high
    assert abs(held / runs - 0.95) < 0.025


def said_and_true(n, rng, share=0.4, apart=1.0):
    """Return what is said of records, which is so, and who of them have it."""
    y = rng.random(n) < share
    odds = math.log(share / (1 - share)) + apart * (rng.normal(size=n) + apart * y) - apart**2 / 2
    return 1 / (1 + np.exp(-odds)), y.astype(float)


def counts_of(said, y):
    return _counts(Block(said[:, np.newaxis], y), first, 2).astype(float)


def test_cells_have_ends_that_a_person_reads_and_each_number_one_place():
    assert len(SAID) + 1 == CELLS
    ends = (0.0, *SAID, 1.0)
    assert [ends[place] for place in SHOWN_CELLS.values()] == pytest.approx(list(SHOWN_CELLS))
    said = np.array([-1.0, 0.0, 0.005, 0.5, np.nextafter(0.5, 0), 1.0, 7.0, math.nan])
    found = counts_of(said, np.ones(8))
    assert found[:4].tolist() == [0, 0, 5, 3]
    assert found[5::2].tolist() == [3.0, 1.0, *[0.0] * 8, 1.0, 1.0, *[0.0] * 9, 2.0]
    table = _counts(Block(np.array([[0.2, 0.7, 0.1], [0.5, 0.3, 0.2]]), np.array([2.0, 3.0])), lambda X: X, 4)
    assert table[:8].tolist() == [0, 0, 0, 0, 0, 1, 1, 0]
    assert np.flatnonzero(table[8:]).tolist() == [2 * 11, 2 * 13 + 1]  # wrong at .5, right at .7


def test_ranking_and_calibration_are_those_of_scikit_learn_but_for_the_cells():
    said, y = said_and_true(50_000, np.random.default_rng(4))
    found = Evaluation("accuracy", counts_of(said, y).tolist(), 1e-6)
    assert found.ranking().value == pytest.approx(roc_auc_score(y, said), abs=0.005)
    assert found.score().value == pytest.approx(np.mean((said >= 0.5) == y))
    for low, high, number, estimate in found.calibration():
        inside = (said >= low) & (said < high)
        assert number == inside.sum()
        assert estimate is None or estimate.value == pytest.approx(y[inside].mean())
    assert "AUC 0.7" in " ".join(found.sentences(None))
    assert found.table()[1][0][0] == "0 to 0.1"


@pytest.mark.slow
@pytest.mark.first(4)
@pytest.mark.parametrize("fresh", [False, True])
@pytest.mark.parametrize(("n", "mu", "share", "apart"), [
    (2000, 0.237, 0.4, 1.0), (20_000, 0.237, 0.05, 1.5), (20_000, 0.0275, 0.5, 0.0)
])  # fmt: skip
def test_the_interval_of_auc_holds_in_95_of_100_and_with_half_of_its_noise_it_does_not(
    n, mu, share, apart, fresh
):
    rng, runs, held, s = np.random.default_rng(n), 400, np.zeros(2), math.sqrt(2) / mu
    own = counts_of(*said_and_true(n, rng, share, apart))
    large = counts_of(*said_and_true(400_000, rng, share, apart)) if fresh else own
    truth = Evaluation("accuracy", large.tolist(), 1e-6).ranking().value
    for _ in range(runs):
        counts = counts_of(*said_and_true(n, rng, share, apart)) if fresh else own
        released = (counts + rng.normal(size=counts.size) * s).tolist()
        for i, noise in enumerate((s, s / 2)):
            found = Evaluation("accuracy", released, noise).ranking(population=fresh)
            held[i] += found.low <= truth <= found.high
    low, high = stats.binom.interval(0.999, runs, 0.95)
    assert low - 0.01 * runs <= held[0] <= high + 0.01 * runs
    assert held[1] < held[0]
    assert fresh or held[1] < 0.8 * runs


# In a run of its own


def test_a_later_score_costs_its_budget_and_is_charged_in_full():
    ledger = Ledger.in_memory()
    ledger.add(Account("t", SCHEMA, Budget(3.0, 1e-5), filter_for("basic", Budget(3.0, 1e-5))))
    _, release = scored()
    plan = plan_evaluation(release, Budget(0.5, 1e-6))
    assert 0.4999 < plan.epsilon <= 0.5
    assert plan.events[-1].event.noise_multiplier < 2 * plan.events[0].event.noise_multiplier
    found = plan.run(line(), paid_by=ledger.payer("t"))
    assert ledger.statement("t").total[0] > 0
    assert found.certificate.witness is not None
    assert found.model is None
    assert verify(found).private
    assert replan(found).problems == ()
    assert str(found).startswith("How good it is\n  Capped R2")
    assert found.evaluation.of == digest(unsigned(release.to_document()))


def test_it_reads_the_sides_in_the_release_and_not_in_a_schema(monkeypatch):
    _, release = scored(evaluate=0.25)
    seen: ClassVar[list[set[tuple[float, ...]]]] = []
    monkeypatch.setattr("dpkit_core.pipeline.evaluate.score_of_numbers", spy(seen))
    data = line()
    sizes = {records: counted(seen, release, data, records) for records in ("held-out", "fitted", "other")}
    fitted, held_out = sides(0.25, key_of(SCHEMA))
    assert sizes["held-out"] == data.side(held_out).records
    assert sizes["fitted"] == data.side(fitted).records
    assert sizes["other"] == data.records
    assert counted(seen, release, data, None) == sizes["held-out"]
    moved = HeldOut(0.25, "0" * 16)
    certificate = attrs.evolve(release.certificate, plan=Settings(evaluate=moved))
    elsewhere = attrs.evolve(release, certificate=certificate)
    assert counted(seen, elsewhere, data, "held-out") != sizes["held-out"]
    assert "another key" in replan(elsewhere).problems[0]


def spy(seen):
    def score(meter, data, *more):
        seen.append(data.records)
        return score_of_numbers(meter, data, *more)

    return score


def counted(seen, release, data, records):
    plan_evaluation(release, BUDGET, records).run(data, randomness=Randomness.from_seed(1))
    return seen[-1]


@pytest.mark.slow
@pytest.mark.parametrize("schema", [SCHEMA, YES_NO])
def test_a_score_on_fitted_records_says_that_it_is_optimistic_and_no_file_may_say_otherwise(schema):
    plan = compose(regressor="boosted_trees").plan(schema, BUDGET)
    release = plan.run(line(schema=schema))
    found = plan_evaluation(release, BUDGET).run(line(schema=schema))
    assert found.evaluation.records == "fitted"
    assert "optimistic" in str(found)
    assert "held out" not in str(found)
    assert "drawn from a population" not in str(found)
    assert verify(found).confirmed
    for records in ("held-out", "other"):
        assert not verify(renamed(found, records)).confirmed


def renamed(found, records):
    """Return an evaluation that says that it is of other records than it was."""
    return attrs.evolve(found, evaluation=attrs.evolve(found.evaluation, records=records))


@pytest.mark.parametrize("records", ["held-out", "fitted", "other"])
def test_a_file_that_names_other_records_than_scored_the_model_contradicts_itself(records):
    """Also where the release has held some out."""
    _, release = scored(evaluate=0.25)
    found = plan_evaluation(release, BUDGET, records).run(line())
    assert verify(found).confirmed
    assert replan(found).problems == ()
    for said in {"held-out", "fitted", "other"} - {records}:
        assert not verify(renamed(found, said)).confirmed


@pytest.mark.slow
@pytest.mark.parametrize("schema", [SCHEMA, YES_NO])
def test_a_record_that_is_replaced_moves_the_score_by_what_its_events_say(schema):
    schema = attrs.evolve(schema, neighboring=Neighboring.REPLACE_ONE, records=20_000)
    release = compose(regressor="boosted_trees").plan(schema, BUDGET).run(line(schema=schema))
    found = plan_evaluation(release, Budget(0.5, 1e-6)).run(line(schema=schema))
    assert verify(found).private
    last = found.certificate.events[-1].event
    rng = np.random.default_rng(1)
    reached = 0.0
    for _ in range(300):
        y, said = np.abs(rng.normal(size=(2, 2)) * 3).round(1)
        if schema.target.kind == "categorical":
            one, other = (_counts(block(float(v > 2), s / 9), first, 2) for v, s in zip(y, said, strict=True))
        else:
            rows = [score_rows(block(v, s), first, 0.0, 1.0) for v, s in zip(y, said, strict=True)]
            one, other = (flatten(v.T @ v) for v in rows)
        reached = max(reached, float(np.linalg.norm(other - one)))
    assert last.sensitivity / 2 < reached <= last.sensitivity


def test_what_cannot_be_scored_later_is_refused_before_anything_is_spent():
    _, release = scored()
    plain = compose(regressor="winsorized_least_squares").plan(SCHEMA, BUDGET).run(line())
    with pytest.raises(InvalidOption, match="held no records out"):
        plan_evaluation(plain, BUDGET, "held-out")
    with pytest.raises(InvalidOption, match="held-out, fitted, other"):
        plan_evaluation(plain, BUDGET, "all")
    with pytest.raises(InvalidRelease, match="not confirmed"):
        plan_evaluation(attrs.evolve(release, evaluation=None), BUDGET)
    with pytest.raises(InvalidRelease, match="scores the model of another one"):
        plan_evaluation(plan_evaluation(release, BUDGET).run(line()), BUDGET)
    with pytest.raises(CannotCompose, match="Gaussian"):
        plan_evaluation(release, BUDGET, accountant="basic")


def test_a_score_of_too_few_records_is_foretold_as_waste():
    few = attrs.evolve(SCHEMA, records_about=300)
    release = compose(regressor="winsorized_least_squares").plan(few, BUDGET).run(line(schema=few))
    plan = plan_evaluation(release, Budget(0.1, 1e-6))
    assert "will tell nothing" in " ".join(plan.waste)
    assert plan_evaluation(release, Budget(4.0, 1e-6)).waste == ()


@pytest.mark.parametrize(("records", "named"), [(20, True), (1000, True), (100_000, False)])
def test_a_plan_names_what_says_more_where_a_score_would_say_little(records, named):
    said = str(scored(attrs.evolve(SCHEMA, records_about=records), evaluate=0.2, data=line(100))[0])
    assert ("--in-sample says more" in " ".join(said.split())) is named


@pytest.mark.parametrize("schema", [YES_NO, THREE])
@pytest.mark.parametrize("epsilon", [0.3, 4.0])
def test_the_forecast_of_an_accuracy_stands(schema, epsilon):
    """It was ten times too pessimistic or more, where it took what is forecast of numbers."""
    fit = compose(regressor="boosted_trees", options={"regressor": {"trees": 2}}).plan(schema, BUDGET)
    release = fit.run(line(schema=schema), randomness=Randomness.from_seed(1))
    planned = plan_evaluation(release, Budget(epsilon, 1e-6), "other").evaluation
    rng, classes = np.random.default_rng(8), planned.classes
    deviation = planned.events[0].noise_multiplier * planned.events[0].sensitivity

    def told(n):
        exact = rng.multinomial(n, [0.25 / classes, 0.75 / classes] * classes)
        released = exact + rng.normal(size=2 * classes) * deviation
        return Evaluation("accuracy", [*released, *[0.0] * 2 * CELLS], deviation).score(population=True)

    n = round(planned.wanted(0.1))
    halves = [(each.high - each.low) / 2 for each in (told(n) for _ in range(40)) if each is not None]
    assert 0.08 < np.median(halves) < 0.12
    assert planned.known_to(n) == pytest.approx(0.1, abs=0.001)
    assert 0.75 < np.mean([told(round(planned.least)) is not None for _ in range(80)]) <= 1
    assert np.mean([told(round(planned.least / 3)) is not None for _ in range(80)]) < 0.3
    waste = attrs.evolve(schema, records_about=10)
    few = attrs.evolve(release, certificate=attrs.evolve(release.certificate, schema=waste))
    assert "will tell nothing" in " ".join(plan_evaluation(few, Budget(epsilon, 1e-6), "other").waste)


def test_luck_with_the_noise_makes_no_interval_short():
    rng = np.random.default_rng(2)
    M = moments_of(*population("even", 5000, rng))
    M[0, 3] = M[3, 0] = M[3, 3] = 0.0  # a model without error
    s = 3.5 / 0.1
    lows = []
    for shift in (0.0, -3.0, -9.0):
        released = M.copy()
        released[0, 3] = released[3, 0] = shift * s
        found = Evaluation("capped r2", flatten(released).tolist(), s, CENTER, CAP, 0.0).score()
        assert found.value == found.high == 1.0
        lows.append(found.low)
    assert lows[0] == lows[1] == lows[2] < 0.99
    found = Evaluation("accuracy", [-90.0, 1000.0, -90.0, 1000.0] + [0.0] * 44, 30.0).score()
    assert found.low < 0.97
    assert found.high == 1.0
