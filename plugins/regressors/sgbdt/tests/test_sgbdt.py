"""S-GBDT: the published leaf and its costs, the model against plain loops, filters, streams, refusals."""

import math
from functools import partial

import attrs
import dpkit_kernels
import numpy as np
import pytest
from dpkit_check import CheckFailed, StageMeter, checks_for, trial_for
from dpkit_check.instrument import rows_of
from dpkit_check.pytest import parametrize_with_checks
from dpkit_cli.app import app
from dpkit_fences.fences import records_needed
from dpkit_regressor_sgbdt import SgbdtRegressor, sgbdt
from dpkit_regressor_sgbdt.sgbdt import CLIPS, UNITS, SgbdtSettings
from typer.testing import CliRunner

from dpkit_core import (
    Budget,
    Column,
    Dataset,
    Neighboring,
    Randomness,
    Registry,
    Release,
    Request,
    Sampler,
    Schema,
    compose,
    verify,
)
from dpkit_core.errors import CannotCompose, InvalidData, Unsuitable
from dpkit_core.mechanisms.sums import deviations, noise_of, quantize, sums_event, tick_costs
from dpkit_core.privacy.accounts import TICKS
from dpkit_core.privacy.events import (
    Disjoint,
    Filtered,
    Gaussian,
    NonSphericalGaussian,
    PoissonSampled,
    Repeated,
    expand,
)

AR, RO = Neighboring
BOUNDS = {"a": (0.0, 1.0), "b": (0.0, 1.0), "y": (-1.0, 3.0)}
SCHEMA = Schema.numeric(["a", "b"], "y", BOUNDS)
BUDGET = Budget(1.0, 1e-5)


def named(name):
    registry = Registry()
    return registry.load(registry.find("accountants", name))


def quick(**options):
    return SgbdtRegressor(**{"rounds": 5, "depth": 2, **options})


@pytest.mark.slow
@parametrize_with_checks([lambda: SgbdtRegressor(rounds=2, depth=2)])
def test_keeps_every_promise_of_its_kind(check):
    check()


class Exact(Sampler):
    """A sampler without noise, whose coins are those of any other."""

    def discrete_gaussian(self, sigma, size=()):
        return np.zeros(size, dtype=np.int64)

    def gumbel(self, size=()):
        return np.zeros(size)


class ExactMeter(StageMeter):
    """A meter without noise that keeps what it was asked for."""

    def __init__(self, plan, neighboring=AR):
        super().__init__("test", plan, neighboring, Randomness.from_seed(0))
        self._sampler = Exact(np.random.default_rng(0))
        self.asked = []

    def kept_sums(self, kept, of, **options):
        self.asked.append(rows_of(kept, of))
        return super().kept_sums(kept, of, **options)


def table(n, seed=0, schema=SCHEMA):
    rng = np.random.default_rng(seed)
    X = rng.random((n, 2))
    return Dataset.from_arrays(X, 2.0 * (X[:, 0] > 0.4) + X[:, 1] - 0.5, schema)


def request(accountant=None, budget=BUDGET, schema=SCHEMA, batches=1):
    accountant = accountant or named("rdp")(schema.neighboring)
    return Request(schema, len(schema.features), budget, accountant, batches)


def exactly(regressor, data, asked=None):
    """Return the model that is fitted without noise, and the meter."""
    asked = asked or request()
    plan = regressor.plan(asked)
    meter = ExactMeter(plan, asked.neighboring)
    if asked.batches > 1:

        def arriving():
            for batch in data:
                meter.arrive(batch.records)
                yield batch

        model = regressor.fit(arriving(), plan, meter)
    else:
        meter.arrive(data.records)
        model = regressor.fit(data, plan, meter)
    meter.finish()
    return model, meter


def by_hand(model, X, j):
    """Return the leaf of each record in tree j, by one comparison after another."""
    leaves = []
    for row in X:
        place, leaf = 0, 0
        for level in range(model.depth):
            split = level if model.shape == "oblivious" else 2**level - 1 + leaf
            feature, threshold = model.splits[j][split]
            leaf = 2 * leaf + int(row[feature] > threshold)
        leaves.append(leaf + place)
    return np.array(leaves)


# Shares of a leaf's precision, deviations and cost of each gradient as published (code of S-BDT, whose costs
# are half of a precision): gradients 0.3, 0.2, 0.8, 1.5 clipped to 0.5, sigma 3, shares 0.2 and 0.8.
LEAF = {
    "deviations": (4.743416490252569, 2 * 1.1858541225631423),
    "costs": [0.05422222222222222, 0.03644444444444445, 0.1111111111111111, 0.1111111111111111],
}


def test_a_leaf_costs_each_record_what_is_published():
    event = sums_event(LEAF["deviations"], AR, limits=[UNITS, UNITS], groups=1)
    gradients = quantize(np.array([0.3, -0.2, 0.8, -1.5]), 0.5, UNITS)
    costs = tick_costs([np.array(UNITS), gradients], event) / TICKS
    precision = sum(m**-2 for m in LEAF["deviations"])
    assert costs * precision == pytest.approx(2 * np.array(LEAF["costs"]), rel=1e-5)


def test_a_share_for_counts_divides_the_precision_of_a_round_as_published():
    settings = quick(count_share=0.2).plan(request()).settings
    count, total = noise_of(settings.round)[0]
    assert count / total == pytest.approx(LEAF["deviations"][0] / LEAF["deviations"][1])
    alone = noise_of(quick().plan(request()).settings.round)[0][0]
    assert count**-2 + total**-2 == pytest.approx(alone**-2, rel=1e-6)


@pytest.mark.parametrize("shape", ["oblivious", "complete"])
@pytest.mark.parametrize("count_share", [0.0, 0.3])
def test_without_noise_leaves_are_those_of_plain_loops(shape, count_share):
    data = table(60)
    regressor = quick(rounds=12, trees=shape, count_share=count_share)
    model, meter = exactly(regressor, data)
    s = (data.y - 1.0) / 2.0
    scores = np.full(60, np.trunc(s * UNITS).sum() / UNITS / 60)
    count, *_ = noise_of(meter._plan.settings.initial)[0]
    n = max(60.0, 4 * count)
    scores = np.full(60, scores[0] * 60 / n)
    assert model.initial == pytest.approx(1.0 + 2.0 * scores[0])
    *_, multiplier = noise_of(meter._plan.settings.round)[0]
    k = n * math.sqrt(12) / multiplier
    step = min(0.45 * k / (k + 20) * k / 4 / 12, 1.5 / 4)
    clip = float(np.abs(meter.asked[1][0][-1]).max() / UNITS) and _clip_of(meter, s - scores)
    least = 2 * noise_of(meter._plan.settings.round)[0][0]
    for j in range(12):
        leaf = by_hand(model, data.X, j)
        for place in range(4):
            here = leaf == place
            total = np.trunc(np.clip((s - scores)[here] / clip, -1, 1) * UNITS).sum() / UNITS
            share = np.clip(total / max(here.sum(), least), -1, 1) if count_share else total * 4 / n
            assert model.leaves[j][place] == pytest.approx(2 * step * clip * share, abs=1e-7)
        scores = scores + np.array(model.leaves[j])[leaf] / 2
    assert model.predict(data.X) == pytest.approx(np.clip(1 + 2 * scores, -1, 3), abs=1e-6)


@pytest.mark.parametrize("relation", Neighboring)
def test_trees_are_the_deeper_the_more_records_outweigh_the_noise_of_all_rounds(relation):
    schema = Schema.numeric(["a", "b"], "y", BOUNDS, relation)
    asked = request(named("rdp")(relation), schema=schema)
    event = SgbdtRegressor(rounds=3).plan(asked).events[-1].event
    assert event.shape == (1, 32)
    (deviation,) = deviations(*noise_of(event)[:2])
    one = deviation / UNITS / math.sqrt(3)  # so many records have k = 1
    for k, depth in ((240, 3), (260, 4), (2900, 4), (3100, 5)):
        model, meter = exactly(SgbdtRegressor(rounds=3), table(round(k * one), schema=schema), asked)
        assert (model.depth, len(model.leaves[0])) == (depth, 2**depth)
        assert max(groups.max() for _, groups in meter.asked[1:]) < 2**depth


def _clip_of(meter, gradients):
    """Return the candidate of which the first round's contributions are made."""
    contributed = meter.asked[1][0][-1]
    fits = [c for c in CLIPS if np.abs(quantize(gradients, c, UNITS) - contributed).max() <= 1]
    assert len(fits) == 1
    return fits[0]


@pytest.mark.slow
def test_with_a_large_budget_a_step_and_a_line_are_learned():
    data, unseen = table(4000), table(1000, seed=1)
    plan = compose(regressor=SgbdtRegressor(rounds=400, depth=2), accountant="rdp").plan(
        SCHEMA, Budget(5.0, 1e-5)
    )
    model = plan.run(data, randomness=Randomness.from_seed(0)).model
    assert np.square(model.predict(unseen.X) - unseen.y).mean() < 0.1 * unseen.y.var()


@pytest.mark.parametrize("shape", ["oblivious", "complete"])
def test_categories_become_probabilities(shape):
    columns = (Column("a", lower=0, upper=1), Column("b", "categorical", categories=("x", "z")))
    schema = Schema(columns, Column("sold", "categorical", categories=("no", "yes")))
    rng = np.random.default_rng(0)
    a, b = rng.random(6000), rng.integers(0, 2, 6000)
    X, y = np.column_stack([a, b == 0, b == 1]), (rng.random(6000) < 0.1 + 0.8 * ((a > 0.5) ^ (b == 1)))
    plan = compose(
        regressor=SgbdtRegressor(rounds=200, depth=3, loss="logistic", trees=shape), accountant="rdp"
    ).plan(schema, Budget(3.0, 1e-5))
    data = Dataset.from_arrays(X, y.astype(float), schema)
    model = plan.run(data, randomness=Randomness.from_seed(0)).model
    predicted = model.predict(np.array([[0.1, 1, 0], [0.9, 1, 0], [0.1, 0, 1], [0.9, 0, 1]]))
    assert predicted == pytest.approx([0.1, 0.9, 0.9, 0.1], abs=0.15)


def test_rounds_are_one_event_each_whatever_the_leaves():
    *before, rounds = quick(rounds=7, depth=4).plan(request()).events
    assert rounds == Repeated(rounds.event, 7)
    assert rounds.event.shape == (1, 16)
    assert len(before) == 2


@pytest.mark.parametrize("name", ["rdp", "tight", "individual_filter"])
@pytest.mark.parametrize("options", [{}, {"rate": 0.2, "count_share": 0.3}])
def test_the_budget_is_spent_and_not_passed(name, options):
    accountant = named(name)(AR)
    try:
        plan = quick(**options).plan(request(accountant))
    except Unsuitable:
        assert (name, bool(options)) == ("tight", True)
        return
    for event in plan.events:
        accountant = accountant.compose(event)
    assert 0.999 < accountant.epsilon(1e-5) <= 1.0


def test_a_filter_pays_for_fewer_rounds_than_it_draws():
    few = quick(rounds=100, extra=0.25).plan(request(named("individual_filter")()))
    event = few.events[-1]
    assert (event.rounds, event.charged) == (100, 80)
    plain = quick(rounds=100).plan(request()).settings.round
    assert few.settings.round.noise_multiplier == pytest.approx(
        plain.noise_multiplier * math.sqrt(0.8), rel=1e-3
    )


def test_with_a_filter_a_record_stops_when_it_has_spent_what_is_paid_for():
    # The middle of a symmetric target: who is far out contributes the whole clip in every round.
    data = Dataset.from_arrays(np.full((50, 2), 0.5), np.repeat([-1.0, 3.0], 25), SCHEMA)
    _, meter = exactly(
        quick(rounds=10, extra=1.0, learning_rate=1e-9), data, request(named("individual_filter")())
    )
    contributed = [columns[-1] for columns, _ in meter.asked[1:]]
    spent = meter._spent[len(meter._plan.events) - 1]
    assert all(np.abs(column).min() == UNITS for column in contributed)
    assert (spent <= 5 * TICKS).all()
    assert (spent > 4 * TICKS).all()


def stream(*sizes):
    return [Dataset.from_arrays(*_part(n, 10 + i), SCHEMA, batch=True) for i, n in enumerate(sizes)]


def _part(n, seed):
    data = table(max(n, 1), seed)
    return data.X[:n], data.y[:n]


def test_batches_without_accounts_cost_what_one_costs_and_share_no_record():
    asked = request(batches=3)
    regressor = quick(rounds=12)
    (event,) = regressor.plan(asked).events
    assert isinstance(event, Disjoint)
    assert event.parts == 3
    _, meter = exactly(regressor, stream(30, 0, 20), asked)
    sizes = [30, 0, 20]
    for turn, (columns, groups) in enumerate(meter.asked):
        own = (sizes[turn // 5],)  # an initial score and four rounds each
        assert groups.shape == own
        assert all(column.shape == own for column in columns)
    assert meter.asked[0][0][-1].any()
    assert meter.asked[-1][0][-1].any()


def test_batches_with_accounts_all_learn_and_pay_for_one_batch():
    asked = request(named("individual_filter")(), batches=4)
    regressor = quick(rounds=40, extra=0.2)
    *_, event = regressor.plan(asked).events
    assert isinstance(event, Filtered)
    assert (event.rounds, event.charged) == (40, 12)
    _, meter = exactly(regressor, stream(30, 0, 1, 20), asked)
    assert [groups.size for _, groups in meter.asked[1::10]] == [30, 30, 31, 51]


@pytest.mark.parametrize("accountant", ["individual_filter", "rdp"])
def test_no_batch_comes_twice_but_an_empty_one(accountant):
    plan = compose(regressor=quick(), accountant=accountant).plan(SCHEMA, Budget(1.0, 1e-5), batches=3)
    first, nobody = stream(30, 0)
    assert plan.run([first, nobody, nobody]).model is not None
    with pytest.raises(InvalidData, match="give each batch once"):
        plan.run([first, nobody, first])


@pytest.mark.slow
def test_a_stream_learns_from_every_batch():
    plan = compose(regressor=SgbdtRegressor(rounds=300, depth=3), accountant="individual_filter").plan(
        SCHEMA, Budget(5.0, 1e-5), batches=3
    )
    release = plan.run(stream(1500, 1500, 1500), randomness=Randomness.from_seed(1))
    unseen = table(1000, seed=1)
    assert np.square(release.model.predict(unseen.X) - unseen.y).mean() < 0.3 * unseen.y.var()
    assert verify(release).confirmed


def test_a_release_of_no_bounds_is_near_the_target_and_verifies():
    schema = Schema.numeric(["a", "b"], "y")
    data = table(5000, schema=schema)
    plan = compose(regressor=SgbdtRegressor(rounds=200, depth=3), accountant="individual_filter").plan(
        schema, Budget(3.0, 1e-5)
    )
    release = plan.run(data, randomness=Randomness.from_seed(0))
    assert verify(release).confirmed
    assert np.square(release.model.predict(data.X) - data.y).mean() < 0.3 * data.y.var()


def test_too_few_records_to_find_the_target_are_a_charged_refusal():
    schema = Schema.numeric(["a", "b"], "y")
    regressor = quick()
    plan = compose(regressor=regressor, accountant="rdp").plan(schema, Budget(0.1, 1e-5))
    settings = regressor.plan(request(budget=Budget(0.1, 1e-5), schema=schema)).settings
    assert records_needed(settings.target_epsilon, AR) > 50
    release = plan.run(table(50, schema=schema), randomness=Randomness.from_seed(0))
    assert release.model is None
    assert release.refusal.startswith("too few records")


def test_replacing_a_record_needs_no_count_and_more_noise():
    schema = Schema.numeric(["a", "b"], "y", BOUNDS, RO)
    settings = quick().plan(request(schema=schema)).settings
    added = quick().plan(request()).settings
    assert isinstance(settings.initial, Gaussian)
    assert settings.round.sensitivity == 2 * added.round.sensitivity
    assert deviations(*noise_of(settings.round)[:2])[0] > 1.9 * deviations(*noise_of(added.round)[:2])[0]


@pytest.mark.parametrize(
    ("options", "asked", "message"),
    [
        (
            {"rate": 0.5},
            {"schema": Schema.numeric(["a"], "y", {"y": (0, 1)}, RO)},
            "add-remove neighbors, not",
        ),
        ({}, {"schema": Schema.numeric(["a"], "y", {"y": (0, 1)}, RO), "batches": 2}, "add-remove"),
        ({"loss": "logistic"}, {}, r"bounds \(-1.0, 3.0\); logistic loss is for 0 and 1"),
        ({}, {"schema": Schema.numeric(["a"], "y", {"y": (0, 1e300)})}, "give it another unit"),
        ({}, {"budget": Budget(1.0, 0.0)}, "delta"),
        ({"rate": 0.5}, {"accountant": named("tight")()}, "does not support"),
    ],
)
def test_what_cannot_be_served_is_said_while_planning(options, asked, message):
    with pytest.raises(Unsuitable, match=message):
        quick(**options).plan(request(**asked))


@pytest.mark.parametrize(
    "options",
    [
        {"loss": "absolute"},
        {"rounds": 0},
        {"rounds": 2.5},
        {"depth": 9},
        {"trees": "greedy"},
        {"learning_rate": 0},
        {"rate": 0},
        {"rate": 1.5},
        {"extra": -1},
        {"count_share": 1},
        {"initial_share": 0.5, "clip_share": 0.3, "fence_share": 0.2},
    ],
)
def test_options_out_of_range_are_refused(options):
    with pytest.raises((ValueError, TypeError)):
        SgbdtRegressor(**options)


def test_settings_of_another_part_are_refused():
    plan = quick().plan(request())
    assert plan.settings_as(SgbdtSettings).rounds == 5
    with pytest.raises(CannotCompose):
        compose(regressor=quick(), accountant="basic").plan(SCHEMA, Budget(1.0))


def test_sampled_rounds_say_so():
    *_, rounds = quick(rate=0.1).plan(request()).events
    assert isinstance(rounds.event, PoissonSampled)
    assert rounds.event.rate == 0.1


def foretold(schema=SCHEMA, batches=1, **options):
    """Return the forecasts of a plan, and its settings."""
    plan = compose(regressor=quick(**options)).plan(schema, Budget(0.5, 1e-5), batches=batches)
    return [found.forecast for found in plan.forecasts], plan.stages[0].plan.settings


def test_the_records_that_are_foretold_grow_as_the_noise_does():
    (plain,), settings = foretold()
    (multiplier,), *_ = noise_of(settings.round)
    assert plain.records == pytest.approx(60 * multiplier / math.sqrt(5), rel=1e-5)  # n sqrt(T) / m = 60
    (batches,), settings = foretold(batches=5)  # of a round each; each batch wants as many
    (multiplier,), *_ = noise_of(settings.round)
    assert batches.records == pytest.approx(5 * 60 * multiplier / math.sqrt(5), rel=1e-5)
    (replaced,), _ = foretold(Schema.numeric(["a", "b"], "y", BOUNDS, RO))
    assert replaced.records > 1.5 * plain.records
    (counted,), settings = foretold(count_share=0.01, depth=8)
    assert counted.records == pytest.approx(2 * noise_of(settings.round)[0][0] * 2**8, rel=1e-5)


def test_a_target_without_bounds_is_foretold_to_be_refused():
    (_, refused), settings = foretold(Schema.numeric(["a", "b"], "y"))
    assert refused.records == records_needed(settings.target_epsilon, AR)
    assert "refuses" in refused.sentence


@pytest.mark.slow
@pytest.mark.parametrize(("part", "wasted"), [(1.2, False), (1 / 8, True)])
def test_trees_of_too_few_records_are_warned_of_and_are_worse_than_a_constant(part, wasted):
    regressor, budget = SgbdtRegressor(rounds=60), Budget(0.1, 1e-5)
    schema = Schema.numeric(["a", "b"], "y", BOUNDS | {"y": (-1.0, 9.0)})  # which is not centered
    (found,) = compose(regressor=regressor).plan(schema, budget).forecasts
    records = round(part * found.forecast.records)
    digit = 10 ** (len(str(records)) - 1)
    plan = compose(regressor=regressor).plan(
        attrs.evolve(schema, records_about=math.ceil(records / digit) * digit), budget
    )
    unseen = table(1000, seed=99)
    errors = []
    for seed in range(7):
        release = plan.run(table(records, seed, schema), randomness=Randomness.from_seed(seed))
        errors.append(np.square(release.model.predict(unseen.X) - unseen.y).mean())
    assert (np.median(errors) > unseen.y.var()) == wasted
    assert ("the budget of sgbdt will likely be wasted" in "".join(plan.warnings)) == wasted


def dpkit(*arguments):
    return CliRunner().invoke(app, [*map(str, arguments)])


def run_command(*arguments):
    return dpkit("compose", *arguments)


@pytest.fixture
def files(tmp_path):
    paths = []
    for i, batch in enumerate(stream(900, 0, 800)):
        paths.append(tmp_path / f"batch{i}.csv")
        rows = [",".join(map(repr, map(float, (*x, y)))) for x, y in zip(batch.X, batch.y, strict=True)]
        paths[-1].write_text("\n".join(["a,b,y", *rows]) + "\n", encoding="utf-8")
    return paths


@pytest.mark.parametrize("accountant", ["rdp", "individual_filter"])
def test_a_command_learns_from_batches_in_files(files, tmp_path, accountant):
    output = tmp_path / "release.json"
    parts = ["--regressor", "sgbdt", "--set", "regressor.rounds=30", "--accountant", accountant]
    result = run_command("--batches", *files, "--target", "y", *parts, "--epsilon", 5, "--output", output)
    assert result.exit_code == 0, result.output
    assert verify(Release.read(output)).confirmed


@pytest.mark.slow
def test_a_saved_plan_of_a_stream_runs_on_its_batches_and_on_nothing_less(files, tmp_path):
    plan, output, again = (tmp_path / name for name in ("plan.toml", "release.json", "again.json"))
    parts = ["--regressor", "sgbdt", "--set", "regressor.rounds=6", "--set", "regressor.depth=2", "--seed", 3]
    result = run_command("--batches", *files, "--target", "y", *parts, "--save", plan, "--output", output)
    assert result.exit_code == 0, result.output
    short = dpkit("run", plan, files[0], "--output", again)
    assert short.exit_code == 2
    assert "1 table is given, but the plan is for a stream of 3 batches" in short.stderr
    assert not again.exists()
    result = dpkit("run", plan, *files, "--seed", 3, "--output", again)
    assert result.exit_code == 0, result.output
    assert again.read_text() == output.read_text()


def test_several_tables_that_are_not_said_to_be_batches_are_refused(files):
    result = run_command(*files, "--target", "y", "--regressor", "sgbdt")
    assert result.exit_code == 2
    assert "--batches" in str(result.output) + str(result.exception)


def test_a_file_is_one_batch_however_often_it_is_named_unless_it_is_empty(files, tmp_path):
    parts = ["--target", "y", "--regressor", "sgbdt", "--set", "regressor.rounds=6", "--epsilon", 5]
    first, again = files[0], files[0].parent / "." / files[0].name
    twice = run_command("--batches", first, files[1], again, *parts, "--output", tmp_path / "twice.json")
    assert twice.exit_code == 2
    assert "give each batch once" in str(twice.output) + str(twice.exception)
    assert not (tmp_path / "twice.json").exists()
    (empty := tmp_path / "none.csv").write_text("a,b,y\n", encoding="utf-8")
    done = run_command("--batches", first, empty, empty, *parts, "--output", tmp_path / "done.json")
    assert done.exit_code == 0, done.output


def test_batches_are_refused_by_what_learns_from_one_table(files):
    result = run_command(
        "--batches", *files, "--target", "y", "--regressor", "mean", "--output", f"{files[0]}.release.json"
    )
    assert result.exit_code != 0
    assert "batches" in str(result.output) + str(result.exception)


def test_a_target_of_text_is_predicted_from_a_schema_alone(tmp_path):
    rng = np.random.default_rng(0)
    rows = [f"{a:.3f},{'x' if a > 0.5 else 'z'},{'yes' if a > 0.4 else 'no'}" for a in rng.random(2000)]
    data, output = tmp_path / "table.csv", tmp_path / "release.json"
    data.write_text("\n".join(["a,b,sold", *rows]) + "\n", encoding="utf-8")
    (tmp_path / "table.schema.toml").write_text(
        'target = "sold"\n[columns.a]\nkind = "numeric"\n[columns.b]\nkind = "categorical"\n'
        'categories = ["x", "z"]\n[columns.sold]\nkind = "categorical"\ncategories = ["no", "yes"]\n',
        encoding="utf-8",
    )
    loss = ["--set", "regressor.loss=logistic", "--set", "regressor.rounds=100", "--epsilon", 5]
    result = run_command(data, "--regressor", "sgbdt", *loss, "--output", output)
    assert result.exit_code == 0, result.output
    model = Release.read(output).model
    low, high = model.predict(np.array([[0.1, 0, 1], [0.9, 1, 0]]))
    assert 0 <= low < 0.4
    assert 0.6 < high <= 1


def test_noisy_counts_are_those_of_the_plan_under_either_relation():
    rng = np.random.default_rng(0)
    for neighboring in Neighboring:
        schema = Schema.numeric(["a", "b"], "y", BOUNDS, neighboring)
        data = Dataset.from_arrays(rng.uniform(size=(200, 2)), rng.uniform(size=200), schema)
        plan = compose(regressor=SgbdtRegressor(rounds=3, depth=2, count_share=0.3)).plan(schema, BUDGET)
        assert plan.run(data, randomness=Randomness.from_seed(0)).model is not None


@pytest.mark.slow
@pytest.mark.parametrize(
    "schema", [SCHEMA, Schema.numeric(["a", "b"], "y"), attrs.evolve(SCHEMA, neighboring=RO)]
)
def test_noisy_counts_do_what_selections_do(schema):
    data, scores = table(4000, schema=schema), {}
    for noise in ("gumbel", "gaussian"):
        plan = compose(regressor=SgbdtRegressor(rounds=100, noise=noise)).plan(schema, Budget(4.0, 1e-6))
        if noise == "gaussian":
            kinds = {type(single) for item in plan.events for single in expand((item.event,))}
            assert kinds <= {Gaussian, NonSphericalGaussian}
        model = plan.run(data, randomness=Randomness.from_seed(2)).model
        scores[noise] = 1 - np.mean((model.predict(data.X) - data.y) ** 2) / data.y.var()
    assert scores["gumbel"] > 0.8
    assert scores["gaussian"] > scores["gumbel"] - 0.05


def test_the_clip_of_noisy_counts_is_the_quantile_of_the_gradients():
    data = table(2000)
    clips = []
    for noise in ("gumbel", "gaussian"):
        _, meter = exactly(quick(noise=noise), data)
        # Contributions are whole multiples of the clip, and the initial pair comes first.
        (gradients,), _ = meter.asked[1]
        clips.append(np.mean(np.abs(gradients) == UNITS))
    assert abs(clips[0] - clips[1]) < 0.25
    assert clips[1] < 0.25  # a fifth of the gradients are beyond it, but for the next candidate


def test_few_records_whose_target_does_not_stand_out_are_refused():
    schema = Schema.numeric(["a", "b"], "y")
    plan = compose(regressor=quick(noise="gaussian")).plan(schema, BUDGET)
    assert plan.run(table(3, schema=schema)).refusal is not None


@pytest.mark.skipif(not dpkit_kernels.COMPILED, reason="no kernels were compiled")
@pytest.mark.parametrize("n", [0, 1, 7, 1000])
def test_kernels_move_scores_and_quantize_as_numpy_does(n):
    rng = np.random.default_rng(n)
    scores, labels, values = rng.normal(size=(n, 2))[:, 0], rng.normal(size=n), rng.normal(size=256)
    leaf, clip = rng.integers(0, 256, n).astype(np.uint8), 0.3
    assert (sgbdt._moved(scores, values, leaf) == sgbdt._moved_in_numpy(scores, values, leaf)).all()
    labels[: n // 2] = scores[: n // 2] + rng.choice([-clip, clip, 0.0, 1e300], n // 2)
    compiled = sgbdt._quantized_compiled(labels, scores, clip)
    assert compiled.tolist() == sgbdt._quantized_in_numpy(labels, scores, clip).tolist()


@pytest.mark.slow
def test_leaves_that_depend_on_one_party_alone_are_found(monkeypatch):
    (check,) = (c for c in checks_for("regressor") if c.name == "check_values_add_up_over_parties")
    trial = trial_for("regressor")
    make = partial(SgbdtRegressor, rounds=2, depth=2)
    assert check.run(make, trial).samples > 0

    def by_records(of, less, clip):
        return quantize((of - less) / len(of), clip, UNITS)

    monkeypatch.setattr(sgbdt, "_quantized", by_records)
    with pytest.raises(CheckFailed, match="adds up to something else"):
        check.run(make, trial)


@pytest.mark.slow
def test_records_of_one_batch_that_stand_for_another_are_found(monkeypatch):
    """Copies, which the meter does not know, pay by the accounts of the batch that they replace."""

    class Twice(sgbdt._Learner):
        def arrive(self, batch):
            super().arrive(batch)
            if self.batches == 1:
                self.first = batch
            elif self.batches == 2 and self.settings.charged and 0 < batch.records <= self.first.records:
                own, n = self.present, batch.records
                copy = attrs.evolve(self.first, X=self.first.X[-n:].copy(), y=self.first.y[-n:].copy())
                super().arrive(copy)
                self.batches, self.present = 2, [own[0], self.present[-1]]

    (check,) = (c for c in checks_for("regressor") if c.name == "check_batches_are_disjoint")
    monkeypatch.setattr(sgbdt, "_Learner", Twice)
    with pytest.raises(CheckFailed, match="changes several rows"):
        check.run(partial(SgbdtRegressor, rounds=2, depth=2), trial_for("regressor"))
