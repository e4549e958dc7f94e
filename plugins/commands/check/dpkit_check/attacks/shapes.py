"""Attacks on the shape of results: finite, for the right columns, and the same for all data."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import attrs
import numpy as np

from dpkit_check.attacks.answers import released_alike
from dpkit_check.cases.iterates import iterate_scorings, reference_state
from dpkit_check.cases.plans import draws
from dpkit_check.cases.regressors import RegressorCase, fitted, regressions, released_numbers, restricted
from dpkit_check.cases.scorers import ScorerCase, scorings
from dpkit_check.cases.selectors import BUDGETS, edges, selections
from dpkit_check.instrument import Answers
from dpkit_check.trial import CheckFailed, Evidence, Factory, NotApplicable, Trial, attack, require
from dpkit_check.worlds import Population
from dpkit_core.arrays import Matrix
from dpkit_core.data.dataset import Dataset
from dpkit_core.data.features import Feature
from dpkit_core.data.schema import Schema
from dpkit_core.noise.randomness import Randomness
from dpkit_core.protocols import Iterate, Refusal, Regressor, Scorer, TopKSelector
from dpkit_core.text import number_of

# Tables for each iterate of a scorer of iterates.
STATES = 10


@attack("numerical", kinds=("scorer",))
def check_scores_are_finite_vectors(make: Factory[Scorer], trial: Trial) -> Evidence:
    """Scores are d finite float64 numbers for every table: ties, constants, two records, huge numbers.

    If this fails: guard the division or logarithm that fails on the table in the message (0 is the usual
    score of a constant column), and clip before multiplying: products of large numbers overflow. A score that
    is not finite aborts the release, so a single record would decide whether there is one.
    """
    samples = 0
    for case in scorings(make):
        features = len(case.schema.features)
        for data in (*case.tables(trial), case.table(1, trial.seed), *_largest(case.schema)):
            scored = case.scoring(data)
            for selected in case.selections():
                scores = scored(selected)
                samples += 1
                found = (type(scores), getattr(scores, "dtype", None), np.shape(scores))
                wanted = (np.ndarray, np.dtype(np.float64), (features,))
                require(found == wanted, f"scores have type, dtype and shape {found}; they must be {wanted}")
                if not np.isfinite(scores).all():
                    raise CheckFailed(
                        f"scores are {scores} on X = {data.X}, y = {data.y}; all must be finite"
                    )
    return Evidence(number_of(samples, "score vector"), samples)


def _largest(schema: Schema) -> Iterator[Dataset]:
    """Yield tables of the largest and smallest numbers; bounds are not kept by data."""
    signs = np.random.default_rng(0).choice((-1.0, 1.0), size=(12, len(schema.features) + 1))
    for table in (signs * 1e300, signs * 1e-300, signs * np.logspace(-300, 300, 12)[:, np.newaxis]):
        yield Population(schema).dataset(table)


@attack("numerical", kinds=("scorer",))
def check_scores_follow_the_features(make: Factory[Scorer], trial: Trial) -> Evidence:
    """No feature is given the scores of another one, in whichever order the columns come.

    What a place in the schema adds, a weight or a sign by public coins, is public.

    If this fails: look for an index that is off by one, options that are not matched to columns by name, or
    scores that were kept from another table.
    """
    rng = np.random.default_rng(trial.seed)
    samples = 0
    for case in scorings(make):
        schema = case.schema
        order = rng.permutation(len(schema.columns))
        turned = attrs.evolve(schema, columns=tuple(schema.columns[i] for i in order))
        names = [feature.name for feature in schema.features]
        columns = [names.index(feature.name) for feature in turned.features]
        scores, again = [], []
        for data in case.tables(trial):
            other = Dataset.from_arrays(data.X[:, columns], data.y, turned)
            scores.append(case.scoring(data)(())[columns])
            again.append(ScorerCase(case.part, turned).scoring(other)(()))
            samples += 1
        _require_own_scores(np.array(scores), np.array(again), [names[i] for i in columns], names)
    return Evidence(number_of(samples, "table"), samples)


def _require_own_scores(scores: Matrix, again: Matrix, turned: Sequence[str], names: Sequence[str]) -> None:
    """Fail where the scores of a feature are those that another one has in the other order of columns.

    Rows are tables, columns are features, in both arrays in the second order. Scores that are the same for
    every table say nothing of the records there.
    """
    slack = 1e-9 * (1 + np.abs(scores).max(axis=1))

    def alike(one: int, other: int) -> bool:
        return bool(np.isclose(again[:, one], scores[:, other], rtol=1e-9, atol=slack).all())

    for feature, other in itertools.permutations(range(len(names)), 2):
        varies = (again[:, feature] != again[0, feature]).any()
        if varies and alike(feature, other) and not alike(feature, feature):
            raise CheckFailed(
                f"on {len(scores)} tables, {turned[feature]} has the scores {again[:, feature]} with the "
                f"columns in the order {', '.join(turned)}; those are the scores of {turned[other]} with the "
                f"columns in the order {', '.join(names)}"
            )


@attack("numerical", kinds=("scorer",))
def check_scores_of_iterates_are_finite(make: Factory[Scorer], trial: Trial) -> Evidence:
    """Every iterate gets d finite scores, the same on a second call, and is not changed.

    If this fails: guard divisions by 0, for an iterate without coefficients, and roots of numbers that
    rounding makes negative at the minimizer.
    """
    rng = np.random.default_rng(trial.seed)
    samples = 0
    for case in iterate_scorings(make):
        facts, population = case.facts, Population(case.schema, beyond=False)
        for weights, intercept in case.weights(rng):
            for _ in range(STATES * trial.effort):
                table = population.table(rng, facts.records or int(rng.integers(1, 12)))
                state = reference_state(population.dataset(table), weights, intercept, facts)
                kept = state.gradient.copy(), state.weights.copy()
                scores = case.scores(state)
                samples += 1
                require(
                    np.shape(scores) == (case.components or facts.features,) and np.isfinite(scores).all(),
                    f"the scores of an iterate are {scores}; it must have "
                    f"{case.components or facts.features} finite numbers",
                )
                require(
                    np.array_equal(scores, case.scores(state)),
                    "two calls on one iterate return different scores",
                )
                require(
                    np.array_equal(kept[0], state.gradient) and np.array_equal(kept[1], state.weights),
                    "the scorer changed the iterate",
                )
    return Evidence(number_of(samples, "iterate"), samples)


@attack("numerical", kinds=("scorer",))
def check_scores_are_read_off_any_noise(make: Factory[Scorer], trial: Trial) -> Evidence:
    """From components with any noise, a scorer reads d finite scores, the same on every call.

    Between two calls the scorer gets another iterate, whose private numbers must change no score.

    If this fails: clamp noisy values at 0 before taking a root, and keep no state from an iterate.
    """
    rng = np.random.default_rng(trial.seed)
    samples = 0
    for case in iterate_scorings(make):
        facts = case.facts
        if not case.components:
            continue
        for weights, intercept in case.weights(rng):
            length = float(np.abs(weights).sum() + abs(intercept))
            state = Iterate(facts, 1, weights, length, np.zeros(facts.features), 0.0)
            for size in (0.0, 1.0, 1e6, 1e12):
                noisy = size * rng.standard_normal(case.components)
                kept = noisy.copy()
                scores = case.read(noisy, size, state)
                samples += 1
                require(
                    np.shape(scores) == (facts.features,) and np.isfinite(scores).all(),
                    f"read the scores {scores} from {kept}; it must be {facts.features} finite numbers",
                )
                case.scores(_private(state, rng))  # which nothing may be read off
                require(
                    np.array_equal(scores, case.read(noisy, size, state)),
                    "two calls on one release return different scores",
                )
                require(np.array_equal(noisy, kept), "the scorer changed the components")
    if not samples:
        raise NotApplicable("it reads no scores from noisy components")
    return Evidence(f"{number_of(samples, 'release')} of components", samples)


def _private(state: Iterate, rng: np.random.Generator) -> Iterate:
    """Return an iterate of the same public facts with some private ones."""
    gradient = rng.standard_normal(len(state.weights))
    steepest = float(np.abs(gradient).max()) + 1.0
    return attrs.evolve(
        state, gradient=gradient, steepest=steepest, inner=1.0, square=1.0, squares=np.square(gradient)
    )


@attack("numerical", kinds=("selector",))
def check_only_candidates_are_picked(make: Factory[TopKSelector], trial: Trial) -> Evidence:
    """Every pick is a candidate, and none is picked twice, even if excluded features score highest.

    If this fails: exclude features that are not ``scores.candidates``, rather than give them a low score.
    """
    runs = 0
    for case in itertools.chain(selections(make), edges(make, BUDGETS[-1:])):
        for scale in (0.0, 1.0, 1e12):
            values = scale * np.arange(case.features, dtype=np.float64)
            for seed in range(3 * trial.effort):
                case.run([values] * len(case.picks), Randomness.from_seed(seed))
                runs += 1
    return Evidence(number_of(runs, "selection"), runs)


@attack("numerical", kinds=("regressor",))
def check_models_have_one_shape(make: Factory[Regressor], trial: Trial) -> Evidence:
    """Models are for the given columns, predict finite numbers, and can be written as JSON.

    Tables include extreme ones: values far outside the bounds, constants, two records. How many numbers a
    model has may follow from what was released, and from nothing else: the same answers give as many.

    If this fails: return a default model, or a ``Refusal`` by a private test, if there is nothing to fit;
    clip inputs and outputs.
    """
    models = 0
    shapes: dict[int, set[int]] = {}
    for case, pair, runs in fitted(make, trial):
        for data, (outcome, _) in zip(pair, runs, strict=True):
            if isinstance(outcome, Refusal):
                continue
            models += 1
            require(
                outcome.features == data.names,
                f"the model is for {outcome.features}; the data have {data.names}",
            )
            prediction = outcome.predict(np.clip(data.X, -10, 10))
            classes = case.schema.target.classes
            named = getattr(outcome, "classes", ())
            require(classes == named, f"the model has the classes {named}; the schema has {classes}")
            shape = (*data.y.shape, *([len(classes)] if classes else []))
            if np.shape(prediction) != shape or not np.isfinite(prediction).all():
                raise CheckFailed(f"the predictions for {number_of(len(data.y), 'record')} are {prediction}")
            numbers = released_numbers(outcome)
            found = shapes.setdefault(id(case), set())
            found.add(0 if numbers is None else len(numbers))
            if len(found) > 1:
                released_alike(case, pair, seed=trial.seed)
    return Evidence(number_of(models, "model"), models)


@attack("numerical", kinds=("regressor",))
def check_extreme_tables_are_fitted(make: Factory[Regressor], trial: Trial) -> Evidence:
    """Tables at the edge of a schema give a finite model or a refusal, with the planned draws.

    The fewest possible records, constant columns, equal columns, every value at a bound or far beyond it, and
    the largest numbers; also fitted with a single column.

    If this fails: solve by a method that needs no inverse (``lstsq``, ``eigh``, a ridge), clip to the
    schema's bounds before squaring, and guard every division by a private number.
    """
    models = tried = 0
    # The larger budget of each schema, under which fewer fits are refused.
    cases = {(c.schema, c.request.neighboring): c for c in regressions(make, every_schema=True)}
    for case in cases.values():
        narrow = restricted(case)
        for name, table in _extremes(case.schema):
            data = case.population.dataset(table)
            for one, shown in ((case, data), *((n, data.select([0])) for n in narrow)):
                models += _fitted_to_extreme(one, shown, Answers(tried), name)
                tried += 1
    return Evidence(f"{number_of(models, 'model')} and {number_of(tried - models, 'refusal')}", tried)


def _fitted_to_extreme(case: RegressorCase, data: Dataset, answers: Answers, name: str) -> bool:
    """Return whether a fit to an extreme table gave a model; fail where one that is of no use."""
    outcome, made = case.run(data, answers)
    if isinstance(outcome, Refusal):
        return False
    require(
        len(made) == draws(case.plan),
        f"a fit to a table with {name} made {number_of(len(made), 'draw')}; {draws(case.plan)} were planned "
        f"({case.name})",
    )
    with np.errstate(all="ignore"):
        prediction = outcome.predict(np.clip(data.X, -10, 10))
    if outcome.features != data.names or not np.isfinite(prediction).all():
        raise CheckFailed(
            f"the model for {outcome.features}, fitted to a table with {name}, predicts {prediction}"
        )
    return True


def _extremes(schema: Schema) -> Iterator[tuple[str, Matrix]]:
    """Yield tables of encoded rows, the target last, with what is extreme about each."""
    columns = (*schema.features, Feature("y", "y", bounds=schema.target.bounds))
    bounds = np.array([column.bounds or (-1.0, 1.0) for column in columns])
    low, high = bounds.T
    rising = np.linspace(low, high, 12)
    yield "one record", rising[[-1]]
    yield "two records", rising[[0, -1]]
    yield "equal records", np.tile(high, (12, 1))
    constant = rising.copy()
    constant[:, :-1] = high[:-1]
    yield "constant columns", constant
    yield "a constant target", np.column_stack((rising[:, :-1], np.full(12, low[-1])))
    yield "equal columns", np.tile(np.linspace(-1, 1, 12)[:, np.newaxis], len(columns))
    even = np.arange(12)[:, np.newaxis] % 2 == 0
    yield "every value at a bound", np.where(even, low, high)
    far = np.where(even, low - 1e9, high + 1e9)
    yield "every value far beyond a bound", far
    yield "numbers near the largest", np.sign(far) * 1e300
    yield "numbers near the smallest", np.sign(far) * 1e-300
