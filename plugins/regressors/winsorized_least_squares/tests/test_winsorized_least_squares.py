"""Least squares between private fences: close to least squares, and never worse than saying nothing."""

import math
from functools import partial

import attrs
import dpkit_kernels
import numpy as np
import pytest
from dpkit_check import ReferenceAccountant, StageMeter
from dpkit_check.pytest import parametrize_with_checks
from dpkit_fences import fences as fences_module
from dpkit_fences.fences import Fences
from dpkit_regressor_winsorized_least_squares import WinsorizedLeastSquaresRegressor
from dpkit_regressor_winsorized_least_squares import winsorized_least_squares as module
from dpkit_regressor_winsorized_least_squares.winsorized_least_squares import coefficient_noise, solve

from dpkit_core import (
    Block,
    Budget,
    Column,
    Dataset,
    Neighboring,
    Randomness,
    Refusal,
    Release,
    Request,
    Schema,
    compose,
    verify,
)
from dpkit_core.errors import CannotCompose, Unsuitable
from dpkit_core.mechanisms import moments
from dpkit_core.privacy.events import ExponentialMechanism, Gaussian, Repeated, priced

AR = Neighboring.ADD_OR_REMOVE_ONE
RO = Neighboring.REPLACE_ONE
RELATIONS = pytest.mark.parametrize("relation", [AR, RO])
BUDGET = Budget(math.log(3), 1e-5)


def schema(names="abc", bounds=None, relation=AR):
    return Schema.numeric(names, "y", bounds, relation)


def plan(public, budget=BUDGET, k=None):
    relation = public.neighboring
    request = Request(public, k or len(public.features), budget, ReferenceAccountant(relation))
    return WinsorizedLeastSquaresRegressor().plan(request)


def fitted(X, y, public, budget=BUDGET, seed=0):
    stage = plan(public, budget)
    meter = StageMeter("regression", stage, public.neighboring, Randomness.from_seed(seed))
    outcome = WinsorizedLeastSquaresRegressor().fit(Dataset.from_arrays(X, y, public), stage, meter)
    if not isinstance(outcome, Refusal):  # which may leave refits undrawn
        meter.finish()
    return outcome, meter


def r2(model, X, y):
    return 1 - np.mean((y - model.predict(X)) ** 2) / np.var(y)


def linear(n=8000, seed=0):
    """Columns of very different places and units, noise of a tenth of the variance."""
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(n, 3))
    y = Z @ [2.0, -1.0, 0.5]
    y = 1e6 + 1e4 * (y + math.sqrt(5.25 / 9) * rng.normal(size=n))
    return Z * [1e-6, 0.1, 1e5] + [1e-5, 47.0, -1e7], y


@RELATIONS
@pytest.mark.parametrize("seed", range(3))
def test_it_comes_close_to_least_squares_without_being_told_any_bound(relation, seed):
    X, y = linear()
    model, _ = fitted(X, y, schema(relation=relation), seed=seed)
    assert r2(model, X, y) > 0.87  # least squares: 0.9


@RELATIONS
@pytest.mark.parametrize("refits", [0, 2])
def test_noisy_counts_do_what_selections_do(relation, refits):
    X, y = linear()
    public = schema(relation=relation)
    request = Request(public, 3, BUDGET, ReferenceAccountant(relation))
    outcomes, stages = {}, {}
    for noise in ("gumbel", "gaussian"):
        part = WinsorizedLeastSquaresRegressor(noise=noise, refits=refits)
        stages[noise] = stage = part.plan(request)
        meter = StageMeter("regression", stage, relation, Randomness.from_seed(1))
        outcomes[noise] = part.fit(Dataset.from_arrays(X, y, public), stage, meter)
        meter.finish()
    assert all(isinstance(priced(event), Gaussian | Repeated) for event in stages["gaussian"].events)
    scores = [r2(outcomes[noise], X, y) for noise in outcomes]
    assert min(scores) > 0.8
    assert scores[1] > scores[0] - 0.05


def test_a_target_that_does_not_stand_out_of_noisy_counts_is_a_refusal():
    part, public = WinsorizedLeastSquaresRegressor(noise="gaussian"), schema("a")
    request = Request(public, 1, BUDGET, ReferenceAccountant(AR))
    stage = part.plan(request)
    assert not any("refuses" in forecast.sentence for forecast in part.forecast(stage, request))
    meter = StageMeter("regression", stage, AR, Randomness.from_seed(0))
    data = Dataset.from_arrays(np.ones((5, 1)), np.full(5, 1e6), public)
    assert part.fit(data, stage, meter) == Refusal("too-few-records")


def test_public_bounds_save_selections():
    bounds = {"a": (0.0, 1.0), "y": (0.0, 1.0)}
    private = plan(schema()).events
    assert [type(e) for e in private] == [Repeated, Repeated, ExponentialMechanism, Gaussian]
    assert [e.count for e in map(priced, private[:2])] == [9, 3]
    some = plan(schema(bounds=bounds)).events
    assert [type(e) for e in some] == [Repeated, ExponentialMechanism, Gaussian]
    assert priced(some[0]).count == 6
    everything = plan(schema(bounds={**bounds, "b": (0.0, 1.0), "c": (0.0, 1.0)})).events
    assert [type(e) for e in everything] == [ExponentialMechanism, Gaussian]
    assert everything[-1].noise_multiplier < some[-1].noise_multiplier < private[-1].noise_multiplier


def test_fences_are_planned_for_as_many_columns_as_may_need_them():
    public = schema(bounds={"a": (0.0, 1.0)})
    assert [priced(plan(public, k=k).events[0]).count for k in (1, 2, 3)] == [3, 6, 6]


def test_planned_selections_are_made_even_if_the_selected_columns_do_not_need_them():
    X, y = linear()
    public = schema(bounds={"a": (0.0, 2e-5)})
    stage = plan(public, k=1)
    meter = StageMeter("regression", stage, AR, Randomness.from_seed(0))
    data = Dataset.from_arrays(X, y, public).select([0])
    model = WinsorizedLeastSquaresRegressor().fit(data, stage, meter)
    meter.finish()
    assert (model.centers, model.widths) == ((1e-5,), (1e-5,))


@RELATIONS
def test_the_meter_sees_the_declared_sensitivities(relation):
    X, y = linear(500)
    _, meter = fitted(X, y, schema(relation=relation))
    stage = plan(schema(relation=relation))
    epsilon, target = stage.settings.epsilon, stage.settings.target_epsilon
    ranges = [draw.scale * (target if 9 <= i < 12 else epsilon) for i, draw in enumerate(meter.draws[:-1])]
    column = [1.0, 1.25, 1.0] if relation is AR else [2.0, 2.0, 1.0]
    assert ranges == pytest.approx([*column * 4, 1.875 if relation is AR else 2.0])
    factor = 7.0 if relation is AR else 7 * math.sqrt(2)
    assert meter.draws[-1].scale == pytest.approx(factor * stage.settings.noise_multiplier, rel=1e-5)


@RELATIONS
def test_no_row_of_the_matrix_is_longer_than_its_norm(relation, monkeypatch):
    seen = []

    def record(meter, data, rows, size, **keywords):
        norms = np.linalg.norm(rows(Block(data.X, data.y)), axis=1)
        seen.append((norms.max(), keywords["norm"]))
        return moments.gaussian_second_moment(meter, data, rows, size, **keywords)

    monkeypatch.setattr(
        "dpkit_regressor_winsorized_least_squares.winsorized_least_squares.gaussian_second_moment", record
    )
    X, y = linear()
    X[:50], y[:50] = 1e300, -1e300
    fitted(X, y, schema(relation=relation))
    ((longest, norm),) = seen
    # Rows on the sphere with a label at the fence exist, so the norm is reached: half of it would be a lie.
    assert 0.999 * norm < longest <= norm * (1 + 1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("center", [1e6, -(2.0**20), 2010.3])
def test_columns_and_targets_that_hardly_move_for_their_size_are_found(center):
    """Fences as wide as a thousandth of the column let noise of that width speak: R^2 was below -1."""
    X, y = linear()
    spread = abs(center) / 2**20
    X, y = (center + spread * (v - v.mean(axis=0)) / v.std(axis=0) for v in (X, y))
    # A power of two is an edge of octaves, on both sides of which the records are: a third of its fits fail.
    fits = [r2(fitted(X, y, schema(), Budget(1.0, 1e-6), seed)[0], X, y) for seed in range(9)]
    assert np.median(fits) > 0.6


def test_outliers_in_new_records_cannot_carry_predictions_away():
    X, y = linear()
    model, _ = fitted(X, y, schema())
    wild = model.predict(np.array([[1e300, -1e300, 0.0], [-1e300, 1e300, 1e300]]))
    assert (np.abs(wild - 1e6) < 2e5).all()


def test_outliers_in_the_table_hardly_matter():
    X, y = linear()
    clean, _ = fitted(X, y, schema())
    X_bad, y_bad = X.copy(), y.copy()
    X_bad[:20], y_bad[:20] = 1e12, -1e15
    dirty, _ = fitted(X_bad, y_bad, schema())
    assert r2(dirty, X, y) > r2(clean, X, y) - 0.03


COLUMNS = {
    "constant": lambda rng, n: np.full(n, 0.1),
    "mostly zero": lambda rng, n: (rng.random(n) < 0.05) * 1.0,
    "heavy tails": lambda rng, n: rng.standard_cauchy(n) * 1e6,
    "discrete": lambda rng, n: rng.integers(3, 10, n).astype(float),
    "copies": lambda rng, n: np.arange(n) % 7.0,
}


@pytest.mark.first(4)
@pytest.mark.parametrize("target", COLUMNS)
@pytest.mark.parametrize("n", [2, 500, 5000])
def test_odd_columns_give_a_finite_model_or_a_refusal(target, n):
    rng = np.random.default_rng(3)
    X = np.column_stack([make(rng, n) for make in COLUMNS.values()])
    y = COLUMNS[target](rng, n)
    for epsilon in (0.1, 1.0, 10.0):
        outcome, _ = fitted(X, y, schema("abcde"), Budget(epsilon, 1e-6), seed=n)
        if not isinstance(outcome, Refusal):
            assert np.isfinite(outcome.predict(X)).all()


@pytest.mark.first(4)
@pytest.mark.parametrize("seed", range(20))
def test_five_hundred_records_are_never_much_worse_than_their_mean(seed):
    # Ten features, of which nine are noise; at 500 records half of the budget's noise is left unexplained.
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(500, 10))
    y = 50 + X[:, 0] + rng.normal(size=500)
    outcome, _ = fitted(X, y, schema("abcdefghij"), Budget(1.0, 1e-6), seed=seed)
    assert isinstance(outcome, Refusal) or r2(outcome, X, y) > -0.1


@pytest.mark.slow
def test_with_public_bounds_of_the_target_it_never_refuses():
    X = np.zeros((2, 3))
    for seed in range(20):
        outcome, _ = fitted(X, np.zeros(2), schema(bounds={"y": (-1.0, 1.0)}), Budget(0.01, 1e-6), seed)
        assert not isinstance(outcome, Refusal)
        assert np.abs(outcome.predict(X)).max() <= 1


def test_bounds_of_the_target_may_be_as_far_apart_as_float64_allows():
    X = np.linspace(0.0, 1.0, 90).reshape(30, 3)
    model, _ = fitted(X, np.zeros(30), schema(bounds={"y": (-8e307, 8e307)}))
    assert np.isfinite(model.predict(X)).all()


def test_too_few_records_without_bounds_are_a_refusal():
    outcome, _ = fitted(np.zeros((2, 3)), np.zeros(2), schema(), Budget(0.1, 1e-6))
    assert isinstance(outcome, Refusal)
    assert "public bounds" in plan(schema()).refusals[outcome.code]


def find_target_between(fences, monkeypatch):
    """Let fits find these fences of the target, after the draws that are planned for it."""
    select = fences_module.target_fences

    def selected(*given, **facts):
        select(*given, **facts)
        return fences

    monkeypatch.setattr(fences_module, "target_fences", selected)


def test_fences_that_missed_the_target_are_noticed(monkeypatch):
    # Between 0 and 1e9 every target is at the lower end, where no median's fences can be; noise of the mean
    # times such a width would be the prediction.
    X, y = linear()
    y = y - y.min()
    found = {
        "far": Fences(5e8, 5e8),
        "wide": Fences(np.median(y), 1e9),
        "right": Fences(np.median(y), np.ptp(y)),
    }
    for case, fences in found.items():
        find_target_between(fences, monkeypatch)
        outcome, _ = fitted(X, y, schema())
        assert isinstance(outcome, Refusal) == (case == "far")
        if case != "far":
            assert r2(outcome, X, y) > -0.01


def exact_moments(X, y):
    rows = np.column_stack([np.ones(len(y)), X, y])
    return rows.T @ rows


def test_without_noise_the_solution_is_least_squares():
    rng = np.random.default_rng(4)
    X = rng.uniform(-0.5, 0.5, (300, 3))
    y = X @ [0.3, -0.2, 0.1] + 0.2
    assert solve(exact_moments(X, y), 1e-9) == pytest.approx([0.2, 0.3, -0.2, 0.1], abs=1e-6)


def test_an_indefinite_matrix_gives_a_small_solution():
    noisy = np.diag([500.0, -300.0, 40.0, 200.0])
    noisy[1, 3] = noisy[3, 1] = noisy[2, 3] = noisy[3, 2] = 100.0
    intercept, *slopes = solve(noisy, 30.0)
    assert np.isfinite(slopes).all()
    assert np.abs(slopes).max() <= 100 / (30 * math.sqrt(4) / 4) + 1e-9
    assert intercept == pytest.approx(0.0, abs=1e-9)


def test_a_target_within_the_noise_is_predicted_by_its_mean_or_center():
    rows = exact_moments(np.random.default_rng(5).uniform(-1, 1, (100, 2)), np.full(100, 0.9))
    intercept, *slopes = solve(rows, 5.0)
    assert intercept == pytest.approx(0.9)
    assert not any(slopes)
    rows = exact_moments(np.random.default_rng(5).uniform(-1, 1, (100, 2)), np.full(100, 0.05))
    assert solve(rows, 5.0)[0] == 0.0


def test_what_noise_would_explain_is_not_believed():
    moments = np.diag([1000.0, 100.0, 100.0, 300.0])
    moments[1, 3] = moments[3, 1] = 10.0
    assert not solve(moments, 20.0)[1:].any()


def test_categories_are_used_as_public_and_the_release_can_be_written_and_verified(tmp_path):
    rng = np.random.default_rng(6)
    n = 6000
    columns = (Column("size"), Column("kind", "categorical", categories=("p", "q")))
    public = Schema(columns, Column("y"))
    kind = rng.integers(0, 2, n)
    size = rng.lognormal(3, 0.3, n)
    data = Dataset.from_arrays(
        np.column_stack([size, kind == 0, kind == 1]), size + 5 * kind + rng.normal(size=n), public
    )
    pipeline = compose(regressor="winsorized_least_squares", accountant="rdp")
    release = pipeline.plan(public, BUDGET).run(data)
    assert r2(release.model, data.X, data.y) > 0.8
    assert release.model.centers[1:] == (0.5, 0.5)
    release.write(tmp_path / "release.json")
    again = Release.read(tmp_path / "release.json")
    assert again.model == release.model
    assert verify(again).confirmed
    assert again.certificate.private


def test_budgets_and_accountants_without_gaussian_noise_are_refused():
    with pytest.raises(Unsuitable, match="give a delta"):
        plan(schema(), Budget(1.0))
    with pytest.raises(CannotCompose, match=r"does not support Gaussian.*such as rdp"):
        compose(regressor="winsorized_least_squares", accountant="basic").plan(schema(), BUDGET)


@pytest.mark.slow
@parametrize_with_checks([partial(WinsorizedLeastSquaresRegressor, refits=2, intervals="robust")])
def test_conforms(check):
    check()


@pytest.mark.slow
def test_noise_moves_coefficients_about_as_far_as_foretold():
    k, n = 5, 8000
    schema = attrs.evolve(Schema.numeric([f"x{j}" for j in range(k)], "y"), records_about=n)
    plan = compose(regressor=WinsorizedLeastSquaresRegressor(refits=0)).plan(schema, Budget(1.0, 1e-5))
    foretold, refused = plan.forecasts
    expected = coefficient_noise(plan.stages[0].plan.settings) / n
    assert f"by about {expected:.2g} standard deviations" in foretold.forecast.sentence
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, k))
    y = X.sum(axis=1) / math.sqrt(k)  # deviation 1 and no error of its own
    data = Dataset.from_arrays(X, y, schema)
    errors = [
        np.array(plan.run(data, randomness=Randomness.from_seed(seed)).model.slopes) - 1 / math.sqrt(k)
        for seed in range(20)
    ]
    assert 0.5 * expected < np.std(errors, axis=0).mean() < 2 * expected
    assert foretold.forecast.records == pytest.approx(expected * n * math.sqrt(2 * k))
    assert "refuses" in refused.forecast.sentence
    assert plan.warnings == ()


def projection(model, X, y):
    """Return slopes and level of the line that intervals are about, over a population."""
    z = np.clip((X - list(model.centers)) / list(model.widths), -1, 1)
    z *= np.minimum(1, model.radius / np.sqrt(np.square(z).sum(axis=1, keepdims=True)))
    rows = np.column_stack([np.ones(len(z)), z])
    line = np.linalg.solve(rows.T @ rows, rows.T @ np.clip(y, *model.bounds))
    slopes = line[1:] / list(model.widths)
    return np.append(slopes, line[0] - slopes @ list(model.centers))


@pytest.mark.slow
def test_intervals_of_releases_hold_the_projection_that_they_are_about():
    def table(n, rng):
        X = rng.normal(size=(n, 2)) * [1, 5] + [0, 10]
        return X, X @ [2.0, -0.5] + rng.normal(0, 2, n)

    schema = Schema.numeric(["a", "b"], target="y")
    plan = compose(regressor="winsorized_least_squares").plan(schema, Budget(1.0, 1e-6))
    population, held = table(100_000, np.random.default_rng(0)), []
    for run in range(50):
        data = Dataset.from_arrays(*table(10_000, np.random.default_rng(1 + run)), schema)
        release = plan.run(data, randomness=Randomness.from_seed(run))
        intervals, truth = release.intervals(), projection(release.model, *population)
        held.append((intervals.bounds[:, 0] <= truth) & (truth <= intervals.bounds[:, 1]))
    assert 0.89 <= np.mean(held) <= 0.99  # 50 runs; docs/results/intervals.md has 300 each


@pytest.mark.slow
def test_robust_intervals_hold_where_residuals_spread_with_a_feature():
    def table(n, rng):
        X = rng.uniform(size=(n, 2))
        return X, X @ [2.0, 1.0] + rng.normal(0, 1, n) * (0.2 + 2 * X[:, 0] ** 2)

    schema = Schema.numeric("ab", "y", bounds={"a": (0, 1), "b": (0, 1), "y": (-8, 12)})
    plan = compose(regressor=WinsorizedLeastSquaresRegressor(intervals="robust")).plan(
        schema, Budget(10.0, 1e-6)
    )
    population, held = table(100_000, np.random.default_rng(0)), []
    for run in range(60):
        data = Dataset.from_arrays(*table(10_000, np.random.default_rng(1 + run)), schema)
        release = plan.run(data, randomness=Randomness.from_seed(run))
        bounds, truth = release.intervals().bounds, projection(release.model, *population)
        held.append((bounds[:, 0] <= truth) & (truth <= bounds[:, 1]))
    assert np.mean(held, axis=0).min() >= 0.87  # 60 runs; docs/results/intervals.md has 1 000 of each table
    assert 0.91 <= np.mean(held) <= 0.99


@RELATIONS
def test_the_spread_moves_by_its_sensitivity_and_no_further(relation):
    rng, line = np.random.default_rng(3), np.array([0.1, 0.5, -0.2])
    scale = module.Scale([Fences(0.0, 1.0), Fences(0.0, 1.0)], Fences(0.0, 1.0), 0.5)
    part = WinsorizedLeastSquaresRegressor(intervals="robust")
    public = schema("ab", relation=relation)
    request = Request(public, 2, BUDGET, ReferenceAccountant(relation))
    (event,) = part.plan(request).settings_as(module.WinsorizedSettings).spread_events

    def total(X, y):
        rows = module._spread(Block(X, y), scale, line, 0.05)
        return moments.flatten(rows.T @ rows)

    moved = []
    for _ in range(200):
        X, y = rng.uniform(-1, 1, size=(4, 2)), rng.choice([-1.0, 1.0, 0.0], 4)
        one = total(X[:-1], y[:-1])
        other = total(X, y) if relation is AR else total(X[1:], y[1:])
        moved.append(np.linalg.norm(other - one))
    assert event.sensitivity / 2 < max(moved) <= event.sensitivity  # half of it would be a lie


def test_the_spread_costs_a_twentieth_and_is_kept():
    public = schema("ab", {"a": (0, 1), "b": (0, 1), "y": (-8, 12)})
    plain, robust = (
        compose(regressor=WinsorizedLeastSquaresRegressor(intervals=word)).plan(public, BUDGET)
        for word in ("equal", "robust")
    )
    *_, last = robust.events
    ratio = (robust.events[-2].event.noise_multiplier / plain.events[-1].event.noise_multiplier) ** 2
    assert ratio == pytest.approx(1 / 0.95, rel=0.02)
    assert robust.epsilon <= BUDGET.epsilon
    X = np.random.default_rng(0).uniform(size=(5000, 2))
    release = robust.run(Dataset.from_arrays(X, X.sum(axis=1), public))
    kept = release.model.moments
    assert len(kept.spread) == last.event.shape[0]
    assert Release.from_document(release.to_document()) == release
    assert verify(release).confirmed
    assert "do not take their variance to be equal" in " ".join(str(release.intervals()).split())
    with pytest.raises(ValueError, match="intervals"):
        WinsorizedLeastSquaresRegressor(intervals="bootstrap")


@pytest.mark.slow
def test_intervals_hold_the_projection_beside_refits():
    def table(n, rng):
        X = rng.normal(size=(n, 5))
        return X, X @ [3.0, -2.0, 1.0, 0.0, 1.5] + rng.normal(0, 2, n)

    names = "abcde"
    schema = Schema.numeric(names, target="y", bounds={**dict.fromkeys(names, (-4.0, 4.0)), "y": (-16, 16)})
    plan = compose(regressor="winsorized_least_squares").plan(schema, Budget(1.0, 1e-6))
    population, held, near = table(100_000, np.random.default_rng(0)), [], []
    for run in range(40):
        data = Dataset.from_arrays(*table(10_000, np.random.default_rng(1 + run)), schema)
        release = plan.run(data, randomness=Randomness.from_seed(run))
        intervals, truth = release.intervals(), projection(release.model, *population)
        held.append((intervals.bounds[:, 0] <= truth) & (truth <= intervals.bounds[:, 1]))
        released = np.array(list(release.coefficients().values()))
        near.append(np.abs(released - truth) < np.abs(intervals.bounds.mean(axis=1) - truth))
    assert 0.91 <= np.mean(held) <= 0.99  # 40 runs, as above
    assert np.mean(near) > 0.6  # Refits know more than the matrix.


def test_the_noisy_matrix_stays_with_the_model_but_for_many_features():
    few, many = ([f"x{j}" for j in range(k)] for k in (2, 51))
    for names, kept in ((few, True), (many, False)):
        schema = Schema.numeric(names, target="y", bounds=dict.fromkeys([*names, "y"], (-1.0, 1.0)))
        X = np.random.default_rng(0).uniform(-1, 1, size=(200, len(names)))
        plan = compose(regressor="winsorized_least_squares").plan(schema, Budget(1.0, 1e-6))
        release = plan.run(Dataset.from_arrays(X, X[:, 0], schema))
        assert (release.model.moments is not None) is kept
        if kept:  # the noise is that of the event that the certificate lists
            (event,) = (
                item.event for item in release.certificate.events if hasattr(item.event, "noise_multiplier")
            )
            assert release.model.moments.deviation == event.noise_multiplier * event.sensitivity


def many(n, d=10, noise=0.5, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, X @ rng.normal(size=d) / math.sqrt(d) + noise * rng.normal(size=n)


def refitted(X, y, public, refits, *, budget=BUDGET, seed=0):
    request = Request(public, X.shape[1], budget, ReferenceAccountant(public.neighboring))
    part = WinsorizedLeastSquaresRegressor(refits=refits)
    stage = part.plan(request)
    meter = StageMeter("regression", stage, public.neighboring, Randomness.from_seed(seed))
    return part.fit(Dataset.from_arrays(X, y, public), stage, meter), meter, stage


@pytest.mark.parametrize(("features", "refits"), [(4, 0), (5, 3)])
def test_how_many_refits_there_are_follows_from_the_number_of_features(features, refits):
    stage = plan(schema([f"x{j}" for j in range(features)]))
    assert stage.settings.refits == refits
    assert len(stage.events) == 4 + 2 * bool(refits)


def test_few_features_are_fitted_as_without_the_option():
    X, y = linear(500)
    (default, _), (none, *_) = fitted(X, y, schema()), refitted(X, y, schema(), 0)
    assert default == none


@RELATIONS
def test_refits_are_paid_for_and_draw_what_is_declared(relation):
    X, y = many(800)
    public = schema("abcdefghij", {"y": (-4.0, 4.0)}, relation)
    _, meter, stage = refitted(X, y, public, 3)
    clip, gradients = map(priced, stage.events[-2:])
    assert isinstance(clip, ExponentialMechanism)
    assert gradients == Repeated(Gaussian(stage.settings.refit_multiplier, relation), 3)
    *_, selected, first, second, third = meter.draws
    assert selected.scale * 2 * stage.settings.epsilon == pytest.approx(1.0)
    radius = meter.draws[-6]  # then the matrix, and what is above
    assert radius.scale * 2 * stage.settings.epsilon == pytest.approx(1.0)
    factor = math.sqrt(5) * (1 if relation is AR else 2)
    for draw in (first, second, third):
        assert draw.scale == pytest.approx(factor * stage.settings.refit_multiplier, rel=1e-5)
    without = refitted(X, y, public, 0)[2].settings
    assert stage.settings.noise_multiplier == pytest.approx(math.sqrt(2) * without.noise_multiplier, rel=0.12)


class Spy:
    """A meter that keeps what it is given and adds nothing to it."""

    inflation = 1.0

    def __init__(self, clip):
        self.clip, self.given = clip, []

    def select(self, scores, k, *, event, constant_work=False):
        return (self.clip,)

    def gaussian(self, value, *, sensitivity, noise_multiplier):
        self.given.append((np.array(value), sensitivity))
        return np.array(value)


def gradient(rows, settings, line):
    """Return the gradient over rows (1, u, t) and its declared sensitivity."""
    public = Schema.numeric([f"v{j}" for j in range(rows.shape[1])], "y")
    spy = Spy(clip=24)
    data = Dataset.from_arrays(rows, np.zeros(len(rows)), public)
    records = data.keep(lambda block: module.Rows(block.X))
    module._refitted(records, 100.0 * np.eye(rows.shape[1]), line, settings, spy)
    return spy.given[0]


@RELATIONS
def test_the_gradient_moves_by_its_sensitivity_and_no_further(relation):
    rng, line = np.random.default_rng(8), np.array([0.1, 0.5, -0.2])
    settings = attrs.evolve(plan(schema("abcdefgh", relation=relation)).settings, refits=1)
    moved = []
    for _ in range(30):
        u = rng.normal(size=(12, 2))
        u *= np.minimum(2, rng.uniform(1, 4, (12, 1))) / np.linalg.norm(u, axis=1, keepdims=True)
        u[-1] = u[-2]
        rows = np.column_stack([np.ones(12), u, rng.uniform(-math.sqrt(2), math.sqrt(2), 12)])
        rows[-2:, -1] = rng.permutation([-1.4, 1.4])
        one, declared = gradient(rows[:-1], settings, line)
        other, _ = gradient(rows if relation is AR else np.delete(rows, -2, axis=0), settings, line)
        moved.append(np.linalg.norm(other - one))
    assert 0.99 * declared < max(moved) <= declared  # half of it would be a lie


def line(slopes, level=0.0, weights=None):
    k = len(slopes)
    weights = np.full(k, 1 / 400) if weights is None else np.asarray(weights)
    return module.Line(level, np.asarray(slopes, float), 1000.0, np.full(k, 0.1), weights, np.eye(k))


def test_a_step_of_newton_reaches_least_squares_at_once_without_noise():
    rng = np.random.default_rng(11)
    u = rng.normal([0.3, 0.0, -0.2], size=(500, 3))
    target = 0.7 + u @ [0.5, -1.0, 0.2] + rng.normal(size=500)
    rows = np.column_stack([np.ones(500), u])
    start = np.array([0.1, 0.0, 0.3, 0.0])
    estimate = module.Line.of(start, rows.T @ rows, 1e-9)
    assert estimate.line == pytest.approx(start)
    reached = estimate.moved(rows.T @ (target - rows @ start)).line
    assert reached == pytest.approx(np.linalg.lstsq(rows, target)[0], abs=1e-6)


def test_later_and_narrower_steps_count_more_and_all_together_once():
    assert module.precisions(3) == pytest.approx([1.0, 2.0, 4.0])
    assert module.precisions(1) == [1.0]
    # The estimates that the steps are made of are averaged with these precisions: noise of deviation 1 in
    # the first and less in the others leaves 1 / sqrt(1 + 2 + 4).
    estimate, noises = line([0.0]), [1.0, -0.5, 0.25]
    believed = module.precisions(3)
    for t, (p, noise) in enumerate(zip(believed, noises, strict=True)):
        target = -400.0 * estimate.slopes[0]  # what the gradient of a zero target is, without noise
        estimate = estimate.moved(np.array([0.0, (target + noise) * p / sum(believed[: t + 1])]))
    assert estimate.slopes[0] == pytest.approx(np.dot(believed, noises) / sum(believed) / 400)


def test_slopes_are_shrunk_by_what_their_noise_explains():
    noise = 2.0
    expected = noise**2 * 3 / 400
    for length in (10.0, 1.0):
        slopes = np.array([1.0, 0, 0]) * math.sqrt(length * expected / 400)
        kept = line(slopes).without_noise(noise)[1:]
        assert kept == pytest.approx(slopes * (1 - 1 / length))
    assert not line([0.0, 0.0]).without_noise(noise).any()


def test_noise_alone_hardly_ever_makes_slopes_or_level_certain():
    rng, weights = np.random.default_rng(12), np.array([1 / 400, 1 / 900, 1 / 50, 1 / 100])
    spoke = 0
    for _ in range(3000):
        # Noise of the gradient moves slopes by weights times noise, and the level by noise / records.
        noisy = line(weights * rng.normal(size=4), rng.normal() / 1000, weights)
        spoke += noisy.has_certain_slopes(1.0) or noisy.has_certain_level(1.0)
    assert spoke <= 3  # 3000 (2 Phi(-4) + exp(-12)) is .2; with three deviations it would be 8
    assert line(np.array([0.5, 0, 0, 0]), 0.0, weights).has_certain_slopes(1.0)
    assert line(np.zeros(4), 0.01, weights).has_certain_level(1.0)


@pytest.mark.slow
def test_what_later_steps_make_of_noise_is_no_evidence(monkeypatch):
    # Columns that resemble each other, covariances drowned in noise: steps overshoot along what they share.
    find_target_between(Fences(0.0, 1e12), monkeypatch)
    rng = np.random.default_rng(14)
    X = rng.normal(size=(3600, 1)) + 0.3 * rng.normal(size=(3600, 12))
    y = X[:, 0] + rng.normal(size=3600)
    for seed in range(10):
        model = refitted(X, y, schema("abcdefghijkl"), 3, budget=Budget(0.2, 1e-5), seed=seed)[0]
        assert isinstance(model, Refusal) or r2(model, X, y) > -0.1


def test_shrunk_covariances_are_between_what_is_noisy_and_a_multiple_of_the_identity():
    rng, k = np.random.default_rng(13), 30
    noise = rng.normal(size=(k, k)) / math.sqrt(2)
    noise = np.triu(noise, 1) + np.triu(noise, 1).T + np.diag(rng.normal(size=k))
    drowned, left = module.shrunk_covariances(3 * np.eye(k) + noise, 1.0)
    assert left < 0.25
    assert np.linalg.norm(drowned - 3 * np.eye(k)) < 0.4 * np.linalg.norm(noise)
    factor = rng.normal(size=(k, 2))
    truth = 100 * (factor @ factor.T + np.eye(k))
    clear, left = module.shrunk_covariances(truth + noise, 1.0)
    assert left > 0.99
    assert np.linalg.norm(clear - truth) < 1.1 * np.linalg.norm(noise)
    zero, left = module.shrunk_covariances(np.zeros((3, 3)), 1.0)
    assert not zero.any()
    assert left == 0.0


@RELATIONS
def test_refits_bring_many_features_closer_to_least_squares(relation):
    names = "abcdefghij"
    public = schema(names, dict.fromkeys([*names, "y"], (-4.0, 4.0)), relation)
    gains = []
    for seed in range(3):
        X, y = many(2000, seed=seed)
        models = [refitted(X, y, public, refits, seed=seed)[0] for refits in (0, 3)]
        without, after = (r2(model, X, y) for model in models)
        gains.append(after - without)
    assert np.median(gains) > 0.01


@pytest.mark.parametrize("width", [1e9, 1e12])
def test_refits_between_fences_that_are_far_too_wide_do_not_speak(monkeypatch, width):
    # One in five runs on a table of 3600 records at epsilon .1 ended at an R^2 of -1e18.
    find_target_between(Fences(0.0, width), monkeypatch)
    X, y = many(4000)
    model = refitted(X, y, schema("abcdefghij"), 3)[0]
    assert -0.01 < r2(model, X, y) < 0.01


@pytest.mark.slow
def test_refits_see_what_is_hidden_from_the_matrix_between_fences_that_are_too_wide(monkeypatch):
    find_target_between(Fences(0.0, 1e3), monkeypatch)
    X, y = many(4000)

    def fitted(refits):
        models = (refitted(X, y, schema("abcdefghij"), refits, seed=seed)[0] for seed in range(5))
        return [r2(model, X, y) for model in models]

    assert np.abs(fitted(0)).max() < 0.01
    assert np.median(fitted(3)) > 0.5  # in 25 runs of 40 the slopes are certain


@pytest.mark.slow
def test_noise_after_refits_is_about_as_foretold():
    k, n = 10, 4000
    names = [f"x{j}" for j in range(k)]
    plan = compose(regressor="winsorized_least_squares").plan(Schema.numeric(names, "y"), Budget(1.0, 1e-5))
    expected = coefficient_noise(plan.stages[0].plan.settings) / n
    assert "by less the better the model fits" in plan.forecasts[0].forecast.sentence
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, k))
    data = Dataset.from_arrays(X, 0.5 * X[:, 0] + math.sqrt(0.75) * rng.normal(size=n), plan.schema)
    slopes = [plan.run(data, randomness=Randomness.from_seed(seed)).model.slopes for seed in range(4)]
    assert 0.3 * expected < np.std(slopes, axis=0).mean() < 2 * expected


@pytest.mark.slow
@pytest.mark.skipif(not dpkit_kernels.COMPILED, reason="no kernels were compiled")
@pytest.mark.parametrize(("n", "d"), [(1, 2), (1030, 3), (5, 256), (5, 257)])
def test_kernels_add_up_along_rows_as_numpy_does(n, d, monkeypatch):
    rng = np.random.default_rng(d)
    rows, line = rng.normal(size=(n, d)) * 10.0 ** rng.integers(-9, 9, d), rng.normal(size=d)
    found = []
    for compiled in (True, False):
        monkeypatch.setattr(dpkit_kernels, "COMPILED", compiled)
        found += [module._along(form, line).tobytes() for form in (rows, np.asfortranarray(rows))]
    assert len({*found}) == 1
