"""What parts promise that take turns: scorers of iterates, regressors that show them, thresholds."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import attrs
import numpy as np

from dpkit_check.audit import audit
from dpkit_check.check import check
from dpkit_check.checks.selectors import accountants
from dpkit_check.drive import BlindMeter, claimed_mu, draws, keeping_plan, quick_meters
from dpkit_check.fuzz import SensitivityAttack, attack_sensitivity
from dpkit_check.trace import trace_difference
from dpkit_check.trial import CheckFailed, Evidence, Factory, NotApplicable, Trial, require
from dpkit_check.worlds import Population, box
from dpkit_core.arrays import Vector
from dpkit_core.data.dataset import Dataset
from dpkit_core.data.schema import Column, Schema
from dpkit_core.errors import CalibrationFailed, Unsuitable, UnsupportedEvent
from dpkit_core.noise.randomness import Randomness
from dpkit_core.pipeline.meter import Draw
from dpkit_core.privacy.budget import Budget, Neighboring, Sensitivity
from dpkit_core.privacy.events import Gaussian
from dpkit_core.protocols import (
    ComponentScorer,
    IterateFacts,
    IterateScorer,
    IterateState,
    IterativeRegressor,
    RegressionRequest,
    Regressor,
    Scorer,
    Scores,
    SelectionRequest,
    StagePlan,
    ThresholdSelector,
    TopKSelector,
)
from dpkit_core.text import number_of

FEATURES = 3
EVALUATIONS = 200
RADII = (0.5, 4.0)
CLIPS = (0.25, None)
RECORDS = (2, 8)
SIZES = (2, 3, 8, 16)
STATES = 40
READINGS = 3
# Deviations of noise: nothing is further off, except with a probability of 10^-20.
FAR = 10.0
PAIRS = 12
THRESHOLD_ROUNDS = 400
# Of all rounds: one of them then has noise of about the size of what it protects.
THRESHOLD_BUDGET = Budget(260.0, 1e-3)
# A gradient of features on a grid of 2^-10 or finer is within this of the one of the numbers themselves.
COARSE = 2.0**-9


def reference_state(data: Dataset, weights: Vector, intercept: float, facts: IterateFacts) -> IterateState:
    """Return the iterate of a table in [-1, 1], by the definitions of ``IterateFacts`` and nothing else."""
    X, y = np.clip(data.X, -1, 1), np.clip(data.y, -1, 1)
    u = X @ weights + intercept
    r = 1 / (1 + np.exp(-u)) - (y + 1) / 2 if facts.loss == "logistic" else u - y
    if facts.clip is not None:
        r = np.clip(r, -facts.clip, facts.clip)
    gradient = X.T @ r
    exact = facts.clip is None
    return IterateState(
        1,
        weights,
        float(np.abs(weights).sum() + abs(intercept)),
        gradient,
        max(float(np.abs(gradient).max()), abs(float(r.sum()))),
        float(u @ r) if exact else None,
        float(u @ u) if exact else None,
        np.square(X).sum(axis=0) if exact else None,
    )


@check("privacy", kinds=("scorer",))
def check_scores_of_iterates_keep_their_sensitivity(make: Factory[Scorer], trial: Trial) -> Evidence:
    """No table and no iterate are found for which one record moves scores of it further than declared.

    Tried are both relations, both losses, gradients and clipped residuals, iterates at and inside the ball,
    with and without coefficients; *none* is among the scores, at 0.

    If this fails: the message holds two datasets to compute by hand. Usual causes: the printed sensitivity of
    the screening rule, which forgets the root of the number of records; a radius left out; a product bounded
    by the product of two changes.
    """
    scorer = _scorer_of_iterates(make)
    worst: SensitivityAttack | None = None
    evaluations = 0
    rng = np.random.default_rng(trial.seed)
    for facts, schema in _accepted(scorer):
        declared = scorer.iterate_sensitivity(facts)
        require(
            type(declared) is Sensitivity and declared.neighboring is facts.neighboring,
            f"sensitivity is {declared!r}; it must be one for {facts.neighboring.value}",
        )
        sizes = _sizes(scorer) if facts.records is None else (facts.records,)
        for weights, intercept in _weights(facts, rng):

            def scores(data: Dataset, at: tuple[Vector, float] = (weights, intercept)) -> Vector:
                state = reference_state(data, *at, facts)  # noqa: B023 - called before the next one
                return np.append(scorer.iterate_scores(state, facts), 0.0)  # noqa: B023 - likewise

            attack = attack_sensitivity(
                scores,
                declared,
                schema,
                evaluations=EVALUATIONS * trial.effort,
                sizes=sizes,
                beyond=False,
                seed=trial.seed,
            )
            evaluations += attack.evaluations
            if attack.violated:
                raise CheckFailed(
                    f"at {weights} and intercept {intercept:g}, {facts}: {attack.describe()}",
                    samples=evaluations,
                )
            if worst is None or attack.ratio > worst.ratio:
                worst = attack
    assert worst is not None
    return Evidence(f"{worst.describe()} (reached {worst.ratio:.3f} of it)", evaluations)


@check("numerical", kinds=("scorer",))
def check_scores_of_iterates_are_finite(make: Factory[Scorer], trial: Trial) -> Evidence:
    """Every iterate gets d finite scores, the same when asked again, and is not changed.

    If this fails: guard divisions and roots that are 0 for an iterate without coefficients, or below 0 by
    rounding at the minimizer.
    """
    scorer = _scorer_of_iterates(make)
    rng = np.random.default_rng(trial.seed)
    samples = 0
    for facts, schema in _accepted(scorer):
        population = Population(schema, beyond=False)
        for weights, intercept in _weights(facts, rng):
            for _ in range(STATES * trial.effort // 4):
                table = population.table(rng, facts.records or int(rng.integers(1, 12)))
                state = reference_state(population.dataset(table), weights, intercept, facts)
                kept = state.gradient.copy(), state.weights.copy()
                scores = scorer.iterate_scores(state, facts)
                samples += 1
                expected = _components(scorer, facts) or facts.features
                require(
                    np.shape(scores) == (expected,) and np.isfinite(scores).all(),
                    f"scores are {scores} of an iterate of {number_of(facts.features, 'feature')}",
                )
                require(np.array_equal(scores, scorer.iterate_scores(state, facts)), "two answers differ")
                require(
                    np.array_equal(kept[0], state.gradient) and np.array_equal(kept[1], state.weights),
                    "the scorer changed the iterate",
                )
    return Evidence(number_of(samples, "iterate"), samples)


@check("privacy", kinds=("regressor",))
def check_iterates_are_what_is_said_of_them(make: Factory[Regressor], trial: Trial) -> Evidence:
    """Iterates are handed over as planned, are public functions of what was released, and keep their facts.

    Neighbors get the same releases, so that all public fields have to agree; the gradient is compared with
    one computed from the table, and moves by no more than the largest residual.

    If this fails: a line search, a stop by the gap or a best iterate reads the data; a gradient is divided by
    the number of records; residuals are clipped and not said to be, or the other way round; a step from X'X
    belongs to residuals that are not clipped.
    """
    regressor: Regressor = make()
    if not isinstance(regressor, IterativeRegressor):
        raise NotApplicable("it shows no iterates")
    rng = np.random.default_rng(trial.seed)
    samples, worst = 0, 0.0
    for case in _iterative_cases(regressor):
        population = Population(case.schema, beyond=False)
        for number in range(PAIRS * trial.effort):
            pair = population.datasets(population.pair(rng, int(rng.integers(2, 12))))
            shown = [case.iterates(data, trial.seed + number) for data in pair]
            require(
                [after for after, _ in shown[0]] == list(case.facts.after),
                f"iterates came after {[after for after, _ in shown[0]]} draws, not {case.facts.after}",
            )
            for (_, one), (_, other) in zip(*shown, strict=True):
                samples += 1
                worst = max(worst, case.compare(pair, one, other))
    if not samples:
        raise NotApplicable("the regressor calls every request of the kit unsuitable")
    return Evidence(
        f"{number_of(samples, 'iterate')}; gradients moved by {worst:.3f} of what they may", samples
    )


@check("privacy", kinds=("selector",), statistical=True)
def check_thresholds_keep_their_budget(make: Factory[TopKSelector], trial: Trial) -> Evidence:
    """What is above a threshold betrays no more than was planned, and is among the candidates.

    Tried on scores that all move together by all that they may, which a ranking would not notice.

    If this fails: noisy scores themselves need noise for sqrt(d) times the largest change of one score; half
    of their range is enough for their ranking only. Draw the same noise whatever is above.
    """
    selector: TopKSelector = make()
    if not isinstance(selector, ThresholdSelector):
        raise NotApplicable("it has no threshold")
    cases = list(_threshold_cases(selector))
    if not cases:
        raise NotApplicable("the selector calls every request of the kit unsuitable")
    samples, strongest = 0, 0.0
    for number, (plan, request) in enumerate(cases):
        sensitivity, accountant = request.sensitivities[0], request.accountant
        for event in plan.events:
            accountant = accountant.compose(event)
        spent = accountant.epsilon(request.budget.delta)
        require(spent <= request.budget.epsilon * (1 + 1e-9), f"the plan costs epsilon {spent:.6g}")
        require(len(plan.events) == len(request.picks), "there is not one event for each round")
        single = request.accountant.compose(plan.events[0]).epsilon(request.budget.delta)
        moved = np.full(request.features, sensitivity.linf / 2)
        runs = [
            _above(selector, plan, sign * moved, request, (trial.seed, number, side, run))
            for run in range(trial.effort)
            for side, sign in enumerate((-1.0, 1.0))
        ]
        difference = trace_difference(runs[0][1], runs[1][1])
        require(difference is None, f"between neighbors, {difference}")
        first, second = (np.concatenate([run[0] for run in runs[side::2]]) for side in (0, 1))
        finding = audit(
            first[:, np.newaxis],
            second[:, np.newaxis],
            Budget(single, request.budget.delta),
            mu=claimed_mu(plan.events[:1]),
            confidence=1 - trial.level(len(cases)),
        )
        samples += 2 * len(first)
        strongest = max(strongest, finding.epsilon / single)
        if finding.violated:
            raise CheckFailed(
                f"{finding.describe()} ({request.features} scores that move together by "
                f"{sensitivity.linf:g})",
                samples=samples,
                confidence=finding.confidence,
            )
    return Evidence(f"{strongest:.3f} of a claimed epsilon proved", samples, 1 - trial.error)


@check("numerical", kinds=("scorer",))
def check_scores_are_read_off_any_noise(make: Factory[Scorer], trial: Trial) -> Evidence:
    """Whatever noise makes of its components, a scorer reads d finite scores off them, the same each time.

    Between two questions the scorer is shown another iterate, whose private numbers change no answer.

    If this fails: clamp what noise moves below 0 before a root is taken, and keep nothing of an iterate.
    """
    scorer = _scorer_of_iterates(make)
    if not isinstance(scorer, ComponentScorer):
        raise NotApplicable("it reads no scores off components")
    rng = np.random.default_rng(trial.seed)
    samples = 0
    for facts, _ in _accepted(scorer):
        if not (count := _components(scorer, facts)):
            continue
        for weights, intercept in _weights(facts, rng):
            length = float(np.abs(weights).sum() + abs(intercept))
            state = IterateState(1, weights, length, np.zeros(facts.features), 0.0)
            for size in (0.0, 1.0, 1e6, 1e12):
                noisy = size * rng.standard_normal(count)
                kept = noisy.copy()
                scores = scorer.read_components(noisy, size, state, facts)
                samples += 1
                require(
                    np.shape(scores) == (facts.features,) and np.isfinite(scores).all(),
                    f"scores of {number_of(facts.features, 'feature')} are {scores}, read off {kept}",
                )
                scorer.iterate_scores(_private(state, rng), facts)  # which nothing may be read off
                again = scorer.read_components(noisy, size, state, facts)
                require(np.array_equal(scores, again), "two answers differ")
                require(np.array_equal(noisy, kept), "the scorer changed the components")
    if not samples:
        raise NotApplicable("it reads no scores off components")
    return Evidence(f"{number_of(samples, 'release')} of components", samples)


@check("privacy", kinds=("selector",))
def check_scores_are_read_off_releases(make: Factory[TopKSelector], trial: Trial) -> Evidence:
    """A selector that reads shows a scorer the noisy components that it was charged for, once, and no others.

    If this fails: release the components by the meter first, and pass on what it returned and the deviation
    of the planned event.
    """
    selector = make()
    if not (isinstance(selector, ThresholdSelector) and getattr(selector, "reads", False)):
        raise NotApplicable("it reads no scores off noisy components")
    samples = 0
    for number, (plan, request) in enumerate(_threshold_cases(selector)):
        meter = quick_meters()((trial.seed, number))(plan, request.neighboring)
        values = np.arange(float(request.features))
        with keeping_plan():
            for r, sensitivity in enumerate(request.sensitivities[:READINGS]):
                answer = np.array([1.0, 1.0, -1.0, 0.0])
                asked: list[tuple[Vector, float, int]] = []

                def read(noisy: Vector, deviation: float, /) -> Vector:
                    asked.append((np.array(noisy), float(deviation), len(meter.draws)))  # noqa: B023 - used at once
                    return answer  # noqa: B023 - likewise

                meter.offer(sensitivity)
                open_ = np.array([True, False, True, True])
                scores = Scores(values.copy(), sensitivity, open_, r, read)
                chosen = [int(i) for i in selector.select_above(scores, plan, meter.window)]
                samples += 1
                require(chosen == [0], f"chose {chosen} of scores {answer} where candidate 1 is closed")
                require(len(asked) == 1, f"asked {len(asked)} times for the scores of one release")
                ((noisy, deviation, draws_before),) = asked
                require(draws_before == r + 1, "asked for scores before the components were released")
                event = plan.events[r]
                if isinstance(event, Gaussian) and isinstance(event.sensitivity, float):
                    promised = event.noise_multiplier * event.sensitivity
                    require(deviation == promised, f"the deviation is {promised}, not {deviation}")
                far = float(np.abs(noisy - values).max())
                require(
                    noisy.shape == values.shape and far < FAR * deviation and (far > 0 or len(values) == 1),
                    f"{values} were shown as {noisy}, with noise of deviation {deviation:g}",
                )
    return Evidence(f"{number_of(samples, 'release')} of components", samples)


def _private(state: IterateState, rng: np.random.Generator) -> IterateState:
    """Return an iterate of the same public facts with some private ones."""
    gradient = rng.standard_normal(len(state.weights))
    steepest = float(np.abs(gradient).max()) + 1.0
    return attrs.evolve(
        state, gradient=gradient, steepest=steepest, inner=1.0, square=1.0, squares=np.square(gradient)
    )


def _components(scorer: IterateScorer, facts: IterateFacts) -> int:
    return scorer.components(facts) if isinstance(scorer, ComponentScorer) else 0


def _sizes(scorer: IterateScorer) -> list[int]:
    """Return numbers of records for which the scorer says that its proof holds, one more included."""
    most = getattr(scorer, "most_records", None)
    return [size for size in SIZES if most is None or size < most] or [1]


def _scorer_of_iterates(make: Factory[Scorer]) -> IterateScorer:
    scorer: object = make()
    if not isinstance(scorer, IterateScorer):
        raise NotApplicable("it scores no iterates")
    return scorer


def _accepted(scorer: IterateScorer) -> Iterator[tuple[IterateFacts, Schema]]:
    """Yield facts that the scorer does not call unsuitable, with the schema of tables that they are about."""
    reasons: list[str] = []
    accepted = 0
    for relation, loss, clip, radius in itertools.product(Neighboring, ("squared", "logistic"), CLIPS, RADII):
        known = RECORDS if relation is Neighboring.REPLACE_ONE else (None,)
        for records in known:
            facts = IterateFacts(loss, radius, clip, FEATURES, (1,), relation, records)
            try:
                scorer.iterate_sensitivity(facts)
            except Unsuitable as error:
                reasons.append(str(error))
                continue
            accepted += 1
            schema = box(FEATURES, relation)
            yield facts, schema if records is None else attrs.evolve(schema, records=records)
    if not accepted:
        raise NotApplicable(f"the scorer calls all iterates of the kit unsuitable: {reasons[0]}")


def _weights(facts: IterateFacts, rng: np.random.Generator) -> Iterator[tuple[Vector, float]]:
    """Yield coefficients and intercepts in the ball: none, a vertex, some inside."""
    yield np.zeros(facts.features), 0.0
    yield facts.radius * np.eye(facts.features)[0], 0.0
    inside = rng.dirichlet(np.ones(facts.features + 1)) * rng.choice((-1.0, 1.0), facts.features + 1)
    yield facts.radius * inside[:-1], float(facts.radius * inside[-1])


@attrs.frozen(eq=False)
class _IterativeCase:
    """One plan of a regressor that shows its iterates."""

    regressor: IterativeRegressor
    schema: Schema
    plan: StagePlan
    facts: IterateFacts

    def iterates(self, data: Dataset, seed: int) -> list[tuple[int, IterateState]]:
        """Return after how many draws each iterate came, and it; releases hold no data."""
        rng = np.random.default_rng(seed)
        meter = BlindMeter(rng, Randomness.from_seed(0), self.plan, self.schema.neighboring)
        meter.arrive(data.records)
        coins = np.random.default_rng([seed, 1])
        shown: list[tuple[int, IterateState]] = []

        def screen(state: IterateState) -> tuple[int, ...]:
            shown.append((len(meter.draws), state))
            support = np.flatnonzero(state.weights)
            return tuple(int(j) for j in support[coins.random(support.size) < 0.3])

        with keeping_plan():
            self.regressor.fit_iterates(data, self.plan, meter.window, screen)
            meter.finish()
        return shown

    def compare(self, pair: tuple[Dataset, Dataset], one: IterateState, other: IterateState) -> float:
        """Return by how much of what it may the gradient moves between neighbors; raise where it is wrong."""
        facts = self.facts
        public = [(s.step, s.length, s.weights.tolist()) for s in (one, other)]
        require(public[0] == public[1], f"neighbors with the same releases have iterates {public}")
        length = float(np.abs(one.weights).sum())
        slack = 1e-6 * facts.radius
        require(
            length <= one.length + slack and one.length <= facts.radius + slack,
            f"the length is said to be {one.length:g}, of coefficients of {length:g} in a ball of "
            f"{facts.radius:g}",
        )
        # What belongs to the intercept is not among the coefficients, but for its sign.
        rest = one.length - length
        for table, state in zip(pair, (one, other), strict=True):
            categories = self.schema.target.kind != "numeric"
            data = attrs.evolve(table, y=2 * table.y - 1) if categories else table
            error = min(
                float(np.abs(reference_state(data, state.weights, b, facts).gradient - state.gradient).max())
                for b in (rest, -rest)
            )
            allowed = COARSE * data.records * (1 + facts.radius)
            require(error <= allowed, f"a gradient is {state.gradient}, off by {error:.3g}")
        reach = facts.reach(one.length) * (2 if facts.neighboring is Neighboring.REPLACE_ONE else 1)
        moved = float(np.abs(one.gradient - other.gradient).max()) / reach
        steepest = abs(one.steepest - other.steepest) / reach
        require(max(moved, steepest) <= 1 + 2.0**-10, f"a gradient moved by {moved:.6g} of what it may")
        return max(moved, steepest)


def _iterative_cases(regressor: Regressor) -> Iterator[_IterativeCase]:
    assert isinstance(regressor, IterativeRegressor)
    for neighboring in Neighboring:
        numeric = box(FEATURES, neighboring)
        category = Column("y", "categorical", categories=("no", "yes"))
        for schema in (numeric, attrs.evolve(numeric, target=category)):
            accountant = accountants()[0](neighboring)
            try:
                facts = regressor.iterate_facts(schema)
                request = RegressionRequest(schema, FEATURES, Budget(2.0, 1e-5), accountant)
                plan = regressor.plan(request)
            except (Unsuitable, CalibrationFailed, UnsupportedEvent):
                continue
            require(facts.after and facts.after[-1] <= draws(plan), f"{facts.after} is beyond the plan")
            yield _IterativeCase(regressor, schema, plan, facts)


def _threshold_cases(selector: TopKSelector) -> Iterator[tuple[StagePlan, SelectionRequest]]:
    assert isinstance(selector, ThresholdSelector)
    for neighboring, features, apart in itertools.product(Neighboring, (1, 30), (0.1, 2.0)):
        moves = Sensitivity(1.5, 1.5 * apart, neighboring)
        rounds, accountant = THRESHOLD_ROUNDS, accountants()[0](neighboring)
        request = SelectionRequest(
            features, (1,) * rounds, (moves,) * rounds, THRESHOLD_BUDGET, accountant, returning=True
        )
        try:
            yield selector.plan_above(request), request
        except (Unsuitable, CalibrationFailed, UnsupportedEvent):
            continue


def _above(
    selector: TopKSelector, plan: StagePlan, values: Vector, request: SelectionRequest, seed: Sequence[int]
) -> tuple[Vector, tuple[Draw, ...]]:
    """Return how many are above the threshold in each round of a plan, and the draws made."""
    assert isinstance(selector, ThresholdSelector)
    meter = quick_meters()(seed)(plan, request.neighboring)
    candidates = np.ones(values.size, dtype=bool)
    candidates[1:2] = False
    counts = []
    with keeping_plan():
        for r, sensitivity in enumerate(request.sensitivities):
            meter.offer(sensitivity)
            scores = Scores(values.copy(), sensitivity, candidates.copy(), r)
            chosen = [int(i) for i in selector.select_above(scores, plan, meter.window)]
            counts.append(float(len(chosen)))
            require(
                len(set(chosen)) == len(chosen) and set(chosen) <= set(np.flatnonzero(candidates).tolist()),
                f"returned {chosen} of the candidates {np.flatnonzero(candidates).tolist()}",
            )
        meter.finish()
    return np.array(counts), meter.draws
