import itertools
import json
import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import numpy.typing as npt
import pytest
from dpkit_check import CheckFailed, NotApplicable, checks_for, trial_for
from dpkit_check.cases.iterates import iterate_scorings, reference_state
from dpkit_check.pytest import parametrize_with_checks
from dpkit_check.worlds import box
from dpkit_scorer_screening.screening import (
    RULES,
    ScreeningScorer,
    exact_rule,
    exact_sensitivity,
    relaxed_rule,
    relaxed_sensitivity,
)

from dpkit_core import (
    Budget,
    Dataset,
    Iterate,
    Iterates,
    Neighboring,
    Randomness,
    Sensitivity,
    StagePlan,
    compose,
)
from dpkit_core.errors import CannotCompose, InvalidData, Unsuitable
from dpkit_core.pipeline.screen import public

GOLDEN = json.loads(Path(__file__).with_name("screening_scores.json").read_text(encoding="utf-8"))
AR, RO = Neighboring.ADD_OR_REMOVE_ONE, Neighboring.REPLACE_ONE

Array = npt.NDArray[np.float64]


@pytest.mark.slow
@parametrize_with_checks([ScreeningScorer])
def test_conforms(check: Callable[[], None]) -> None:
    check()


@pytest.mark.exhaustive  # the checks of iterates, in which rules differ, try all rules above
@parametrize_with_checks([partial(ScreeningScorer, rule=rule) for rule in ("exact", "relaxed", "smallest")])
def test_the_other_rules_conform(check: Callable[[], None]) -> None:
    check()


def test_every_rule_is_attacked_as_often_as_that_of_the_default() -> None:
    assert {case.part.rule for case in iterate_scorings(ScreeningScorer) if case.often} == {*RULES}


OF_ITERATES = (
    "scores_of_iterates_keep_their_sensitivity",
    "scores_of_iterates_are_finite",
    "scores_are_read_off_any_noise",
)


@pytest.mark.slow
@pytest.mark.parametrize("name", OF_ITERATES)
def test_a_rule_that_knows_how_many_records_there_are_conforms(name: str) -> None:
    (check,) = (check for check in checks_for("scorer") if check.name == f"check_{name}")
    try:
        check.run(partial(ScreeningScorer, rule="exact", most_records=8), trial_for("scorer"))
    except NotApplicable:
        assert name == OF_ITERATES[2]


@attrs.frozen
class Halved(ScreeningScorer):
    """Declares half of what its components move by."""

    def sensitivity(self, facts: Any, round_index: int, /) -> Sensitivity:
        whole = super().sensitivity(facts, round_index)
        return attrs.evolve(whole, linf=whole.linf / 2, range=whole.range / 2)


@attrs.frozen(eq=False)
class Reader:
    """The scores of an iterate, and another way to read them off noisy components."""

    scores: Callable[[Any], Array]
    read: Callable[[Array, float], Array]

    def __call__(self, selected: Any, /) -> Array:
        return self.scores(selected)


@attrs.frozen
class Unclamped(ScreeningScorer):
    """Takes the root of what noise has moved below 0."""

    def prepare(self, data: Any, plan: StagePlan, meter: Any, /) -> Any:
        def read(noisy: Array, deviation: float, /) -> Array:
            with np.errstate(invalid="ignore"):
                return np.sqrt(noisy[: data.facts.features])

        return Reader(super().prepare(data, plan, meter), read)


@attrs.frozen
class Keeping(ScreeningScorer):
    """Reads off what it was shown of the iterate, and not off the noisy numbers."""

    shown: list[Array] = attrs.field(factory=list, init=False)

    def prepare(self, data: Any, plan: StagePlan, meter: Any, /) -> Any:
        scores = super().prepare(data, plan, meter)

        def keeping(selected: Any, /) -> Array:
            self.shown[:] = [data.gradient.copy()]
            return scores(selected)

        def read(noisy: Array, deviation: float, /) -> Array:
            return self.read(data)

        return Reader(keeping, read)

    def read(self, data: Any) -> Array:
        return self.shown[0] if self.shown else np.zeros(data.facts.features)


@pytest.mark.parametrize(
    ("false", "name"),
    [(Halved, OF_ITERATES[0]), (Unclamped, OF_ITERATES[2]), (Keeping, OF_ITERATES[2])],
    ids=["halved", "unclamped", "keeping"],
)
def test_the_kit_finds_what_is_wrong_with_components(false: type[ScreeningScorer], name: str) -> None:
    (check,) = (check for check in checks_for("scorer") if check.name == f"check_{name}")
    with pytest.raises(CheckFailed):
        check.run(partial(false, rule="components"), trial_for("scorer"))


@attrs.frozen
class Blind(Keeping):
    """Reads nothing off anything."""

    def read(self, data: Any) -> Array:
        return np.zeros(data.facts.features)


def test_in_a_run_a_scorer_reads_nothing_off_what_it_keeps() -> None:
    rng = np.random.default_rng(4)
    schema = box(3, AR)
    X = rng.uniform(-1, 1, (200, 3))
    data = Dataset.from_arrays(X, X[:, 0], schema)
    options = {"regressor": {"rounds": 6, "every": 2, "form": "gram"}}
    models = []
    for false in (Keeping, Blind):
        scorer = false(rule="components")
        parts = compose(
            scorer=scorer, selector="gaussian_threshold", regressor="frank_wolfe", options=options
        )
        plan = parts.plan(schema, Budget(5.0, 1e-5), select_share=0.5)
        models.append(plan.run(data, randomness=Randomness.from_seed(1)).model)
        assert len(scorer.shown) == 1
    assert models[0] == models[1]


def facts(radius: float, features: int, *, clip: float | None = None, **other: Any) -> Iterates:
    return Iterates("squared", radius, clip, features, (1,), **{"neighboring": AR, **other})


def scores_of(scorer: ScreeningScorer, iterate: Iterate) -> Array:
    return scorer.prepare(iterate, StagePlan(()), None)(())


def state_of(X: Any, y: Any, w: Any, radius: float, about: Iterates | None = None) -> Iterate:
    """Return the iterate of a table without an intercept, whatever the size of its numbers."""
    X, y, w = np.array(X), np.array(y), np.array(w)
    u = X @ w
    c = X.T @ (u - y)
    return Iterate(
        about or facts(radius, w.size),
        1,
        w,
        float(np.abs(w).sum()),
        c,
        float(np.abs(c).max()),
        float(u @ (u - y)),
        float(u @ u),
        np.square(X).sum(axis=0),
    )


def test_the_rule_has_the_published_numbers_times_the_number_of_records() -> None:
    X, y, radius = GOLDEN["X"], GOLDEN["y"], GOLDEN["radius"]
    for iterate in GOLDEN["iterates"]:
        state = state_of(X, y, iterate["w"], radius)
        assert exact_rule(state, radius) / len(y) == pytest.approx(iterate["corrected"], abs=1e-9)
        assert (state.inner or 0.0) + radius * state.steepest == pytest.approx(
            len(y) * iterate["gap"], abs=1e-9
        )


def test_at_a_minimizer_no_coefficient_is_dropped_and_the_printed_rule_drops_some() -> None:
    dropped = 0
    for case in GOLDEN["minimizers"]["cases"]:
        state = state_of(GOLDEN["minimizers"]["X"], GOLDEN["minimizers"]["y"], case["w"], case["radius"])
        rule = exact_rule(state, case["radius"]) / len(GOLDEN["minimizers"]["y"])
        # At a gap of 1e-16 rounding decides about its root.
        assert rule == pytest.approx(case["corrected"], abs=1e-6)
        support = np.abs(case["w"]) > 1e-6
        assert (rule[support] > -1e-6).all()
        dropped += int((np.array(case["printed"])[support] < -1e-6).sum())
    assert dropped > 0


def test_without_a_radius_in_the_rule_it_is_another_one() -> None:
    # What the sensitivity and the rule owe to the radius would not be seen at radius 1.
    X, y, radius = GOLDEN["X"], GOLDEN["y"], GOLDEN["radius"]
    state = state_of(X, y, GOLDEN["iterates"][0]["w"], radius)
    assert exact_rule(state, radius) / len(y) != pytest.approx(GOLDEN["iterates"][0]["printed"], abs=1e-3)


def minimizer(X: Array, y: Array, radius: float) -> Array:
    """Return the minimizer on the ball, by projected gradients with momentum until nothing moves."""
    w = z = np.zeros(X.shape[1])
    step, momentum = 1 / np.linalg.norm(X, 2) ** 2, 1.0
    for _ in range(20_000):
        moved = projected(z - step * (X.T @ (X @ z - y)), radius)
        ahead = (1 + math.sqrt(1 + 4 * momentum**2)) / 2
        z = moved + (momentum - 1) / ahead * (moved - w)
        if np.abs(moved - w).max() < 1e-13:
            return moved
        w, momentum = moved, ahead
    return w


def projected(w: Array, radius: float) -> Array:
    """Return the nearest point of the L1 ball (Duchi, Shalev-Shwartz, Singer and Chandra 2008)."""
    if np.abs(w).sum() <= radius:
        return w
    falling = np.sort(np.abs(w))[::-1]
    sums = np.cumsum(falling) - radius
    last = np.flatnonzero(falling > sums / np.arange(1, w.size + 1))[-1]
    return np.sign(w) * np.maximum(np.abs(w) - sums[last] / (last + 1), 0.0)


@pytest.mark.slow
def test_a_thousand_screens_in_random_worlds_are_safe() -> None:
    rng = np.random.default_rng(11)
    dropped = 0
    while dropped < 1000:
        n, d, radius = int(rng.integers(20, 60)), int(rng.integers(4, 12)), float(rng.choice([0.5, 1.0, 3.0]))
        X = np.clip(rng.normal(size=(n, d)) * rng.choice([0.05, 0.5, 1.0], size=d), -1, 1)
        y = np.clip(X[:, 0] * radius * 1.5 + 0.1 * rng.normal(size=n), -1, 1)
        best = minimizer(X, y, radius)
        for weight in (0.0, 1e-2, 1e-4, 1e-7):
            noise = rng.dirichlet(np.ones(d)) * rng.choice((-1.0, 1.0), d) * radius
            state = state_of(X, y, (1 - weight) * best + weight * noise, radius)
            for rule in (exact_rule(state, radius), relaxed_rule(state, radius, 0.5)):
                found = rule < -1e-6 * n
                dropped += int(found.sum())
                assert (np.abs(best[found]) < 1e-6).all()


@pytest.mark.parametrize("kappa", [0.1, 0.5, 2.0])
def test_the_relaxed_rule_is_never_below_the_exact_one(kappa: float) -> None:
    for iterate in GOLDEN["iterates"]:
        state = state_of(GOLDEN["X"], GOLDEN["y"], iterate["w"], GOLDEN["radius"])
        assert (relaxed_rule(state, 2.0, kappa) >= exact_rule(state, 2.0) - 1e-9).all()


def moved(first: Any, second: Any, w: Any, rule: Callable[[Iterate, float], Array], radius: float) -> float:
    """Return how far the rule moves between two tables, features first and the target last in each row."""
    states = [state_of(np.array(t)[:, :-1], np.array(t)[:, -1], w, radius) for t in (first, second)]
    one, other = (rule(state, radius) for state in states)
    return float(np.abs(one - other).max())


def test_a_replaced_record_moves_the_exact_rule_further_than_an_added_one_can() -> None:
    # n = 2, radius 1, target in [-2, 2]: 16 where the formula for added records says 12.93.
    first, second = [(-1, -1, 0), (-1, -1, 2)], [(-1, -1, 0), (-1, -1, -2)]
    change = moved(first, second, (1.0, 0.0), exact_rule, 1.0)
    assert change == pytest.approx(16.0, abs=0.05)
    added = 2 * 3 + 2 * math.sqrt(2 * 3 * 2)
    assert added == pytest.approx(12.93, abs=0.01)
    # Our formula, with a target in [-2, 2].
    assert change <= (1 * 3 + 1 + 2 * 3) + 2 * math.sqrt((1 * 3 + 1 + 2 * 3) * 2) <= 21.17


@pytest.mark.parametrize("radius", [0.5, 1.0])
@pytest.mark.parametrize("records", [2, 10, 1000])
def test_the_exact_rule_moves_by_most_of_its_sensitivity(records: int, radius: float) -> None:
    # All other records are fitted exactly, which makes the gap 0, and one is replaced by the worst.
    w, fitted = (radius, 0.0), min(radius, 1.0)
    rows = [(fitted / radius, fitted / radius, fitted)] * (records - 1)
    change = max(
        moved([*rows, one], [*rows, other], w, exact_rule, radius)
        for one in ((1, 1, 1), (1, 1, -1), (fitted / radius, 0, fitted), (0, 0, 0))
        for other in ((1, 1, -1), (-1, -1, 1), (1, 0, -1))
    )
    declared = exact_sensitivity(radius, radius, records, RO)
    assert declared / 3 < change <= declared


@pytest.mark.parametrize("radius", [0.25, 0.5, 1.0])
@pytest.mark.parametrize("records", [2, 10, 1000])
def test_an_added_record_moves_the_exact_rule_by_all_of_its_sensitivity(records: int, radius: float) -> None:
    # All other records are fitted, which makes the gap 0, and one comes that is as far out as can be.
    rows = [(1.0, 1.0, radius)] * (records - 1)
    change = moved(rows, [*rows, (1.0, 1.0, -1.0)], (radius, 0.0), exact_rule, radius)
    assert change == pytest.approx(exact_sensitivity(radius, radius, records, AR), rel=1e-9)


def test_no_added_record_is_found_that_moves_the_exact_rule_further() -> None:
    rng = np.random.default_rng(3)
    for _ in range(500):  # 10^5 by hand
        n, radius = int(rng.integers(1, 9)), float(rng.choice([0.05, 0.5, 1.0, 4.0]))
        w = rng.dirichlet([0.5, 0.5]) * rng.choice((-1.0, 1.0), 2) * radius * rng.choice([0.2, 1.0])
        X = rng.choice((-1.0, 0.0, 1.0), (n + 1, 2)) * rng.choice([1.0, rng.random()])
        fitted = np.clip(X @ w, -1, 1)
        y = np.where(rng.random(n + 1) < 0.5, fitted, rng.uniform(-1, 1, n + 1))
        y[n] = rng.choice((-1.0, 1.0, y[n]))
        table = np.column_stack((X, y))
        change = moved(table[:n], table, w, exact_rule, radius)
        assert change <= exact_sensitivity(radius, float(np.abs(w).sum()), n + 1, AR) * (1 + 1e-9)


@pytest.mark.parametrize("neighboring", Neighboring)
def test_half_of_what_is_declared_of_the_relaxed_rule_would_be_false(neighboring: Neighboring) -> None:
    rows = [(0.5, 0.5, 0.5)] * 5
    far = [*rows, (1, 1, -1)]
    near = rows if neighboring is AR else [*rows, (0, 0, 0)]
    change = moved(far, near, (2.0, 0.0), lambda s, r: relaxed_rule(s, r, 0.5), 2.0)
    declared = relaxed_sensitivity(2.0, 2.0, 0.5, neighboring)
    assert declared / 2 < change <= declared * (1 + 1e-12)


def test_rules_are_refused_where_nothing_is_proved() -> None:
    for rule in ("exact", "relaxed", "components"):
        scorer = ScreeningScorer(rule=rule)
        with pytest.raises(Unsuitable, match="clipped residuals"):
            scorer.sensitivity(facts(1.0, 2, clip=0.25), 0)
        with pytest.raises(Unsuitable, match="squared loss"):
            scorer.sensitivity(Iterates("logistic", 1.0, None, 2, (1,), RO, 10), 0)
    with pytest.raises(Unsuitable, match=r"root of the number of records.*a public cap as most_records"):
        ScreeningScorer(rule="exact").sensitivity(facts(1.0, 2), 0)
    with pytest.raises(Unsuitable, match="root of the number of records"):  # a cap says less than the number
        ScreeningScorer(rule="exact", most_records=9).sensitivity(facts(1.0, 2, neighboring=RO), 0)
    with pytest.raises(ValueError, match="needs no cap"):
        ScreeningScorer(most_records=9)
    with pytest.raises(Unsuitable, match="moments of the iterate"):
        exact_rule(Iterate(facts(1.0, 2), 1, np.zeros(2), 0.0, np.zeros(2), 0.0), 1.0)


@pytest.mark.parametrize(("neighboring", "twice"), [(AR, 1), (RO, 2)])
def test_bounded_rules_have_the_ranges_of_the_gradient(neighboring: Neighboring, twice: int) -> None:
    for rule, linf in (("aligned", 1.5), ("smallest", 1.0)):
        declared = ScreeningScorer(rule=rule).sensitivity(
            facts(4.0, 2, clip=0.25, neighboring=neighboring), 0
        )
        assert (declared.linf, declared.range) == pytest.approx((linf * twice, 2 * twice), rel=2**-9)


def test_a_coefficient_that_the_gradient_pushes_back_is_above_none() -> None:
    X, y = np.array([[1.0, 1.0], [-1.0, -1.0]]), np.array([-1.0, 1.0])
    data = Dataset.from_arrays(X, y, box(2, AR))
    about = facts(4.0, 2, clip=0.25)
    state = reference_state(data, np.array([1.0, -1.0]), 0.0, about)
    back, on = scores_of(ScreeningScorer(), state)
    assert back == pytest.approx(3.0)  # (theta + 1) max |c| in units of the clip
    assert on == pytest.approx(-1.0)
    assert (scores_of(ScreeningScorer(rule="smallest"), state) == -2.0).all()
    assert not ScreeningScorer(rule="smallest").none


# Form (C): components


def components(table: Any, w: Any, about: Iterates) -> Array:
    rows = np.array(table, dtype=float).reshape(-1, about.features + 1)
    state = state_of(rows[:, :-1], rows[:, -1], w, about.radius, about)
    return scores_of(ScreeningScorer(rule="components"), state)


@pytest.mark.parametrize("neighboring", Neighboring)
def test_each_component_moves_by_all_that_is_declared_of_it_and_no_further(neighboring: Neighboring) -> None:
    rows = [(0.0, 1.0, -1.0)] * 7
    about = facts(2.0, 2, neighboring=neighboring, records=None if neighboring is AR else 8)
    declared = ScreeningScorer(rule="components").sensitivity(about, 0)
    assert declared.linf == pytest.approx(1, rel=2**-9)
    records = [*itertools.product((-1.0, 0.0, 1.0), repeat=3), (0.25, 0.0, 1.0), (0.5, -0.25, 0.75)]
    reached = np.zeros(7)
    for w in ([2.0, 0.0], [0.0, -2.0], [-0.5, 0.1], [0.1, 0.0], [0.0, 0.0]):
        found = np.array([components([*rows, record], w, about) for record in records])
        others = components(rows, w, about)[np.newaxis] if neighboring is AR else found
        moves = np.abs(found[:, np.newaxis] - others[np.newaxis]).max(axis=(0, 1))
        assert (moves <= declared.linf).all()
        reached = np.maximum(reached, moves)
    assert reached == pytest.approx(np.ones(7), rel=1e-9)


def test_without_noise_the_components_make_the_exact_rule() -> None:
    radius = GOLDEN["radius"]
    for iterate in GOLDEN["iterates"]:
        state = state_of(GOLDEN["X"], GOLDEN["y"], iterate["w"], radius)
        scorer = ScreeningScorer(rule="components")
        reading = scorer.prepare(public(state), StagePlan(()), None)
        assert reading.read(scores_of(scorer, state), 0.0) == pytest.approx(
            -exact_rule(state, radius), rel=1e-9
        )


def test_what_is_read_off_noisy_components_is_safe_as_often_as_is_said() -> None:
    rng = np.random.default_rng(4)
    X = rng.uniform(-1, 1, (200, 5))
    y = np.clip(X[:, 0] + 0.1 * rng.normal(size=200), -1, 1)
    w, radius, runs = np.array([0.5, 0.0, 0.2, 0.0, 0.0]), 1.0, 4000
    state = state_of(X, y, w, radius)
    values = scores_of(ScreeningScorer(rule="components"), state)
    for risk in (0.5, 0.05):
        scorer = ScreeningScorer(rule="components", risk=risk)
        noisy = values + 3.0 * rng.normal(size=(runs, values.size))
        reading = scorer.prepare(public(state), StagePlan(()), None)
        read = np.array([reading.read(row, 3.0) for row in noisy])
        above = (read > -exact_rule(state, radius)).mean(axis=0)
        assert (above < risk + 5 * math.sqrt(risk / runs)).all()
        assert (read < -exact_rule(state, radius)).any()


def test_a_fit_drops_by_components_and_only_a_selector_that_reads_serves_them() -> None:
    rng = np.random.default_rng(0)
    schema = box(3, AR)
    X = rng.uniform(-1, 1, (400, 3))
    data = Dataset.from_arrays(X, np.clip(X[:, 0], -1, 1), schema)
    options = {
        "regressor": {"form": "gram", "rounds": 8, "every": 4, "radius": 1.0, "intercept": False},
        "scorer": {"rule": "components"},
    }

    def parts(selector: str) -> Any:
        return compose(scorer="screening", selector=selector, regressor="frank_wolfe", options=options)

    plan = parts("gaussian_threshold").plan(schema, Budget(5.0, 1e-5), select_share=0.5)
    (stage,) = (stage for stage in plan.stages if stage.name == "selection")
    assert [event.shape for event in stage.plan.events] == [(9,)] * 2
    assert {event.sensitivity for event in stage.plan.events} == {3.0 * (1 + 2.0**-10)}
    release = plan.run(data)
    assert release.certificate.private
    with pytest.raises(CannotCompose, match="peel reads none; use a selector that does"):
        parts("peel").plan(schema, Budget(5.0, 1e-5))


# Caps


def test_a_cap_is_kept_and_certified() -> None:
    rng = np.random.default_rng(0)
    options = {
        "regressor": {"form": "gram", "rounds": 20},
        "scorer": {"rule": "exact", "most_records": 30},
    }
    parts = compose(scorer="screening", selector="peel", regressor="frank_wolfe", options=options)
    schema = box(2, AR)
    plan = parts.plan(schema, Budget(5.0, 1e-5))

    def table(records: int) -> Dataset:
        return Dataset.from_arrays(rng.uniform(-1, 1, (records, 2)), rng.uniform(-1, 1, records), schema)

    with pytest.raises(InvalidData, match=r"31 records; the proof of .*screening.* is for 30 at most"):
        plan.run(table(31))
    release = plan.run(table(30))
    assert release.certificate.private
    assert "the table is not empty, and has at most 30 records" in release.certificate.assumptions


def test_options_leave_every_score_finite() -> None:
    for kappa in (5e306, 1e-300):
        with pytest.raises(ValueError, match="kappa"):
            ScreeningScorer(rule="relaxed", kappa=kappa)
