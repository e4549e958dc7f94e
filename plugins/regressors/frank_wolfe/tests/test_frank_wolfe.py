import json
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest
from dpkit_check import ReferenceAccountant, StageMeter, checks_for, trial_for
from dpkit_check.pytest import parametrize_with_checks
from dpkit_check.worlds import box
from dpkit_fences.fences import Fences
from dpkit_model_lines import WinsorizedLinearModel
from dpkit_regressor_frank_wolfe.frank_wolfe import (
    STEPS,
    FrankWolfeRegressor,
    FrankWolfeSettings,
    GramDescent,
    ScaledColumns,
)
from dpkit_regressor_frank_wolfe.logistic import WinsorizedLogisticModel
from scipy import sparse

from dpkit_core import (
    Budget,
    Column,
    Dataset,
    Iterate,
    Iterates,
    Neighboring,
    Randomness,
    Request,
    Schema,
    SparseDataset,
    StagePlan,
)
from dpkit_core.errors import Unsuitable
from dpkit_core.privacy.events import ExponentialMechanism, expand

# On the grid of features, so that nothing is truncated.
X = np.array([[512, -256, 896], [-768, 320, 64], [128, 960, -512], [-64, -896, 768], [832, 384, -128]]) / 1024
Y = np.array([768, -512, 256, -128, 640]) / 1024

BOTH = pytest.mark.parametrize("neighboring", Neighboring)
ALL = (
    {},
    {"form": "gram"},
    {"loss": "logistic"},
    {"loss": "logistic", "residual_clip": 1.0},
)


@pytest.mark.slow  # private fences of four columns, in each of many fits
@parametrize_with_checks([partial(FrankWolfeRegressor, rounds=6)])
def test_conforms(check: Callable[[], None]) -> None:
    check()


@pytest.mark.exhaustive  # as long again; CI audits this form in loops, tests/integration/test_iterates.py
@parametrize_with_checks([partial(FrankWolfeRegressor, rounds=6, form="gram")])
def test_the_other_form_conforms(check: Callable[[], None]) -> None:
    check()


# What takes no fit of columns without bounds.
QUICK = ("protocol", "options_are_frozen_data", "documented", "iterates_are_what_is_said_of_them")


@pytest.mark.first(4)
@pytest.mark.parametrize("options", ALL)
@pytest.mark.parametrize("name", QUICK)
def test_what_is_quick_to_check_holds_for_all_forms(name: str, options: dict[str, Any]) -> None:
    (check,) = (check for check in checks_for("regressor") if check.name == f"check_{name}")
    check.run(partial(FrankWolfeRegressor, rounds=6, every=2, **options), trial_for("regressor"))


def planned(
    regressor: FrankWolfeRegressor, schema: Schema, epsilon: float = 1.0, *, screened: bool = False
) -> StagePlan:
    budget = Budget(epsilon, 1e-5)
    accountant = ReferenceAccountant(schema.neighboring)
    iterates = regressor.iterates(schema) if screened else None
    return regressor.plan(Request(schema, len(schema.features), budget, accountant, iterates=iterates))


def without_noise(regressor: FrankWolfeRegressor, schema: Schema, *, screened: bool = False) -> StagePlan:
    """Return a plan whose picks are as good as certain."""
    return planned(regressor, schema, 1e9, screened=screened)


def iterates(
    regressor: FrankWolfeRegressor,
    data: Any,
    schema: Schema,
    screen: Callable[[Iterate], tuple[int, ...]] = lambda state: (),
) -> list[Iterate]:
    shown: list[Iterate] = []

    def looking(state: Iterate) -> tuple[int, ...]:
        shown.append(state)
        return screen(state)

    plan = without_noise(regressor, schema, screened=True)
    meter = StageMeter("test", plan, schema.neighboring, Randomness.from_seed(0))
    meter.arrive(data.records)
    meter.screen_by(looking)
    regressor.fit(data, plan, meter.window)
    meter.finish()
    return shown


def naive(
    x: Any, y: Any, *, radius: float, rounds: int, steps: str, clip: float = np.inf, loss: str = "squared"
) -> list[Any]:
    """Return the iterates without noise, from the definitions: the intercept is a last column of ones."""
    x = np.column_stack([x, np.ones(len(x))])
    w, found = np.zeros(x.shape[1]), []
    for t in range(1, rounds + 1):
        r = x @ w - y if loss == "squared" else 1 / (1 + np.exp(-x @ w)) - (y + 1) / 2
        c = x.T @ np.clip(r, -clip, clip)
        j = int(np.abs(c).argmax())
        step = STEPS[steps](t)
        w = (1 - step) * w
        w[j] -= step * radius * np.sign(c[j])
        found.append(w)
    return found


@pytest.mark.parametrize("steps", ["average", "published", "constant"])
@pytest.mark.parametrize("form", ["residuals", "gram"])
def test_without_noise_the_steps_are_those_of_the_definition(form: str, steps: str) -> None:
    regressor = FrankWolfeRegressor(
        radius=2.0, rounds=9, steps=steps, form=form, every=1, residual_clip=0.375
    )
    schema = box(3, Neighboring.ADD_OR_REMOVE_ONE)
    shown = iterates(regressor, Dataset.from_arrays(X, Y, schema), schema)
    clip = 0.375 if form == "residuals" else np.inf
    expected = naive(X, Y, radius=2.0, rounds=9, steps=steps, clip=clip)
    assert [state.step for state in shown] == list(range(1, 10))
    for state, w in zip(shown, expected, strict=True):
        assert state.weights == pytest.approx(w[:-1], abs=1e-12)
        assert state.length == pytest.approx(np.abs(w).sum(), abs=1e-12)


def test_logistic_steps_are_those_of_the_definition() -> None:
    columns = tuple(Column(f"x{j}", lower=-1, upper=1) for j in range(3))
    schema = Schema(columns, Column("y", "categorical", categories=("no", "yes")))
    labels = (Y > 0).astype(float)
    regressor = FrankWolfeRegressor(radius=3.0, rounds=9, loss="logistic", residual_clip=1.0, every=1)
    shown = iterates(regressor, Dataset.from_arrays(X, labels, schema), schema)
    expected = naive(X, 2 * labels - 1, radius=3.0, rounds=9, steps="average", loss="logistic")
    for state, w in zip(shown, expected, strict=True):
        assert state.weights == pytest.approx(w[:-1], abs=1e-12)


def test_both_forms_are_one_where_nothing_is_clipped() -> None:
    rng = np.random.default_rng(3)
    schema = box(6, Neighboring.ADD_OR_REMOVE_ONE)
    data = Dataset.from_arrays(rng.uniform(-1, 1, (200, 6)), rng.uniform(-1, 1, 200), schema)
    shown = [
        iterates(FrankWolfeRegressor(form=form, rounds=40, residual_clip=10.0, every=1), data, schema)
        for form in ("residuals", "gram")
    ]
    for one, other in zip(*shown, strict=True):
        assert np.array_equal(one.weights, other.weights)
        # Residuals are truncated to multiples of 10 / 2^15.
        assert one.gradient == pytest.approx(other.gradient, abs=200 * 10 / 2**15)


def test_what_the_gram_form_shows_is_what_it_is_called() -> None:
    schema = box(3, Neighboring.ADD_OR_REMOVE_ONE)
    regressor = FrankWolfeRegressor(form="gram", radius=2.0, rounds=8, every=4)
    for state in iterates(regressor, Dataset.from_arrays(X, Y, schema), schema, lambda state: (0,)):
        rest = state.length - np.abs(state.weights).sum()
        fits = []
        for intercept in (rest, -rest):
            u = X @ state.weights + intercept
            r = u - Y
            fits.append((u @ r, u @ u, max(np.abs(X.T @ r).max(), abs(r.sum()))))
        found = (state.inner, state.square, state.steepest)
        assert any(found == pytest.approx(fit, abs=1e-9) for fit in fits)
        assert state.squares == pytest.approx(np.square(X).sum(axis=0), abs=1e-12)


@pytest.mark.parametrize("radius", [2.0**-60, 0.5, 2.0**12])
def test_the_length_of_the_predictions_is_known_beside_labels_of_any_size(radius: float) -> None:
    # A screening rule multiplies it by a root of the gap: with labels in it, it would be mostly rounding.
    rng = np.random.default_rng(5)
    n, d, steps = 400, 3, 40
    X, y = rng.integers(-(2**15), 2**15, (n, d)) / 2**15, rng.choice((-1.0, 1.0), n)
    columns = ScaledColumns.of(
        Dataset.from_arrays(X, y, box(d, Neighboring.REPLACE_ONE)), [Fences(0.0, 1.0)] * d
    )
    descent, w = GramDescent.of(columns, Fences(0.0, 1.0)), np.zeros(d + 1)
    for t in range(1, steps + 1):
        j, sign = int(rng.integers(d + 1)), float(rng.choice((-1.0, 1.0)))
        w *= 1 - 1 / (t + 1)
        w[j] += sign * radius / (t + 1)
        descent.advance(j, sign * radius, 1 / (t + 1))
    facts = Iterates("squared", radius, None, d, (), Neighboring.REPLACE_ONE, n)
    square = descent.iterate(facts, steps, w).square
    assert square is not None
    u = [sum(Fraction(x) * Fraction(v) for x, v in zip((*row, 1.0), w, strict=True)) for row in X]
    exact = math.sqrt(sum(v * v for v in u))
    length = float(np.abs(w).sum())
    assert abs(math.sqrt(square) - exact) <= 2.0**-7.5 * length * math.sqrt(n)
    assert math.sqrt(square) == pytest.approx(exact, rel=1e-9)


@pytest.mark.parametrize("options", ALL)
@BOTH
def test_dropped_coefficients_are_0_until_they_come_back(
    options: dict[str, Any], neighboring: Neighboring
) -> None:
    target = Column("y", lower=-1, upper=1)
    if "loss" in options:
        target = Column("y", "categorical", categories=("a", "b"))
    schema = Schema(tuple(Column(f"x{j}", lower=-1, upper=1) for j in range(3)), target, neighboring)
    data = Dataset.from_arrays(X, (Y > 0).astype(float), schema)
    regressor = FrankWolfeRegressor(rounds=2, every=1, **options)
    one = iterates(regressor, data, schema)
    two = iterates(regressor, data, schema, lambda state: tuple(np.flatnonzero(state.weights)))
    assert np.count_nonzero(one[0].weights) + np.count_nonzero(two[0].weights) in {0, 2}
    assert np.count_nonzero(two[1].weights) <= 1


@pytest.mark.parametrize("form", ["residuals", "gram"])
def test_sparse_columns_with_bounds_off_center_are_those_of_the_dense_table(form: str) -> None:
    rng = np.random.default_rng(0)
    table = rng.uniform(-1, 6, (150, 7)) * (rng.random((150, 7)) < 0.2)
    names = [f"x{j}" for j in range(7)]
    schema = Schema.numeric(names, "y", {**dict.fromkeys(names, (0.0, 5.0)), "y": (-1.0, 1.0)})
    y = np.clip(table[:, 2] - 0.4, -1, 1)
    regressor = FrankWolfeRegressor(form=form, rounds=20, every=1)
    dense = iterates(regressor, Dataset.from_arrays(table, y, schema), schema)
    for kind in (sparse.csr_array, sparse.csc_array):
        other = iterates(regressor, SparseDataset.from_arrays(kind(table), y, schema), schema)
        for one, two in zip(dense, other, strict=True):
            assert np.array_equal(one.weights, two.weights)
            assert np.array_equal(one.gradient, two.gradient)


def test_columns_of_the_gram_matrix_are_found_one_by_one_where_there_are_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(1)
    schema = box(6, Neighboring.ADD_OR_REMOVE_ONE)
    dense = Dataset.from_arrays(rng.uniform(-1, 1, (50, 6)), rng.uniform(-1, 1, 50), schema)
    regressor = FrankWolfeRegressor(form="gram", rounds=10, every=1)
    whole = iterates(regressor, dense, schema)
    monkeypatch.setattr("dpkit_regressor_frank_wolfe.frank_wolfe.WHOLE_GRAM", 1)
    for data in (dense, SparseDataset.from_arrays(sparse.csr_array(dense.X), dense.y, schema)):
        for one, two in zip(whole, iterates(regressor, data, schema), strict=True):
            assert np.array_equal(one.gradient, two.gradient)
            assert np.array_equal(one.squares, two.squares)


@BOTH
def test_each_step_is_one_pick_among_all_signed_vertices(neighboring: Neighboring) -> None:
    schema = box(3, neighboring)
    plan = planned(FrankWolfeRegressor(rounds=7), schema)
    events = list(expand(plan.events))
    assert len(events) == 7
    factor = 2 if neighboring is Neighboring.REPLACE_ONE else 1
    for event in events:
        assert isinstance(event, ExponentialMechanism)
        assert event.candidates == 2 * (3 + 1)  # the intercept's among them
        assert event.sensitivity == pytest.approx(2 * factor, rel=2**-11)
        assert event.sensitivity > 2 * factor


def test_columns_without_bounds_get_private_fences_and_those_with_bounds_none() -> None:
    schema = Schema.numeric(["a", "b"], "y", {"a": (0.0, 1.0)})
    plan = planned(FrankWolfeRegressor(rounds=5), schema)
    assert len(list(expand(plan.events))) == 3 + 3 + 5
    settings = plan.settings_as(FrankWolfeSettings)
    assert settings.target_epsilon == pytest.approx(2 * settings.epsilon)
    assert FrankWolfeRegressor(rounds=5, every=5).iterates(schema).after == (11,)


def test_the_last_iterate_is_shown_where_there_is_no_other() -> None:
    schema = box(2, Neighboring.ADD_OR_REMOVE_ONE)
    assert FrankWolfeRegressor(rounds=5, every=50).iterates(schema).after == (5,)
    assert FrankWolfeRegressor(rounds=10, every=4).iterates(schema).after == (4, 8)


@pytest.mark.parametrize(("options", "allowed"), [({}, 2**28), ({"rounds": 1000, "radius": 50.0}, 2_600_000)])
def test_tables_whose_rounding_is_not_covered_are_refused(options: dict[str, Any], allowed: int) -> None:
    regressor = FrankWolfeRegressor(**options)
    assert 0.9 * allowed < regressor.most_records <= 1.1 * allowed
    n, T, L = regressor.most_records, regressor.rounds, regressor.radius
    assert 3 * n * T * (L + 1) * 2.0**-52 <= 2.0**-13


def test_logistic_loss_is_for_categories() -> None:
    with pytest.raises(Unsuitable, match="declare it categorical"):
        planned(FrankWolfeRegressor(loss="logistic"), box(2, Neighboring.ADD_OR_REMOVE_ONE))
    with pytest.raises(ValueError, match="squared loss"):
        FrankWolfeRegressor(loss="logistic", form="gram")


def test_a_logistic_model_is_read_again() -> None:
    margin = WinsorizedLinearModel(("a",), (1.0,), (2.0,), 2.0, (3.0,), 0.5, (-4.0, 4.0))
    model = WinsorizedLogisticModel(margin)
    again = WinsorizedLogisticModel.from_document(model.to_document())
    assert again == model
    expected = 1 / (1 + np.exp([-3.5, -0.5]))
    assert model.predict(np.array([[3.0], [1.0]])) == pytest.approx(expected)


def test_more_vertices_than_selections_are_proved_for_are_refused() -> None:
    schema = box(2, Neighboring.ADD_OR_REMOVE_ONE)
    request = Request(schema, 2**23, Budget(1.0), ReferenceAccountant(schema.neighboring))
    with pytest.raises(Unsuitable, match="2\\^24"):
        FrankWolfeRegressor().plan(attrs.evolve(request))


@pytest.mark.parametrize("form", ["residuals", "gram"])
def test_opposite_vertices_leave_no_coefficient(form: str) -> None:
    # One column; the gradient points back and forth around a minimizer next to 0.
    schema = box(1, Neighboring.ADD_OR_REMOVE_ONE)
    data = Dataset.from_arrays([[1.0], [-1.0]], [0.001, -0.001], schema)
    regressor = FrankWolfeRegressor(form=form, rounds=40, every=1, radius=3.0, intercept=False)
    shown = iterates(regressor, data, schema)
    zeros = [state for state in shown if not state.weights.any()]
    assert len(zeros) > 10
    assert all(abs(w) > 1e-3 for state in shown for w in state.weights if w)


def test_extreme_numbers_count_as_bounds() -> None:
    schema = box(3, Neighboring.ADD_OR_REMOVE_ONE)
    far = np.where(X > 0, 1e300, -1e300)
    edge = np.sign(X)
    regressor = FrankWolfeRegressor(rounds=6, every=1)
    shown: Sequence[list[Iterate]] = [
        iterates(regressor, Dataset.from_arrays(x, Y, schema), schema) for x in (far, edge)
    ]
    for one, two in zip(*shown, strict=True):
        assert np.array_equal(one.gradient, two.gradient)


def test_without_noise_the_steps_are_the_published_ones() -> None:
    golden = json.loads(Path(__file__).with_name("frank_wolfe_steps.json").read_text(encoding="utf-8"))
    X, y = np.array(golden["X"]), np.array(golden["y"])
    schema = box(X.shape[1], Neighboring.ADD_OR_REMOVE_ONE)
    for form in ("residuals", "gram"):
        regressor = FrankWolfeRegressor(
            radius=golden["radius"],
            rounds=len(golden["steps"]),
            steps="published",
            form=form,
            residual_clip=4.0,
            intercept=False,
            every=1,
        )
        shown = iterates(regressor, Dataset.from_arrays(X, y, schema), schema)
        for state, step in zip(shown, golden["steps"], strict=True):
            assert state.weights == pytest.approx(step["w"], abs=1e-9)


@pytest.mark.parametrize("option", ["radius", "residual_clip"])
def test_lengths_are_no_subnormal_numbers(option: str) -> None:
    """Rounded to whole multiples of the smallest float, gradients moved by twice their sensitivity."""
    with pytest.raises(ValueError, match=option):
        FrankWolfeRegressor(**{option: 5e-324})
