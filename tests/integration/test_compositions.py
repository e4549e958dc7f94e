"""Every compatible combination of installed parts, found by entry points, planned, run and verified.

The product grows with every part, so CI tries each scorer with each selector under one relation and one
accountant, each regressor under a few, and each relation with each accountant somewhere; all is exhaustive.
"""

import itertools

import numpy as np
import pytest

from dpkit_core import Budget, Dataset, Neighboring, Randomness, Registry, Release, Schema, compose, verify
from dpkit_core.errors import CannotCompose

REGISTRY = Registry()
NAMES = {kind: [ref.qualified for ref in REGISTRY.refs(kind)] for kind in ("scorers", "selectors")}
REGRESSORS = [ref.qualified for ref in REGISTRY.refs("regressors")]
# As many steps as show what follows; how many there are is a number in the plan.
FEW = {"boosted_trees": {"trees": 5}, "frank_wolfe": {"rounds": 5}, "sgbdt": {"rounds": 5}}
ACCOUNTANTS = [ref.name for ref in REGISTRY.refs("accountants")]
# Scorers of iterates go with regressors that have them: ``test_iterates.py``.
SCORERS = [
    name
    for name in NAMES["scorers"]
    if getattr(REGISTRY.load(REGISTRY.find("scorers", name)), "forms", None) != ("iterates",)
]
SELECTIONS = list(itertools.product(SCORERS, NAMES["selectors"]))
TERMS = list(itertools.product(ACCOUNTANTS, Neighboring))


def under_all_terms(parts, *, default=(), slow=()):
    """Return each of ``parts`` under each accountant and relation, as parameters.

    The terms of the n-th of them are counted from the n-th term; ``default`` and ``slow`` say at which of
    these it runs by default and in CI.
    """

    def marks(turn):
        if turn in default:
            return []
        return [pytest.mark.slow] if turn in slow else [pytest.mark.exhaustive]

    return [
        pytest.param(
            *each,
            accountant,
            neighboring,
            id="-".join([*(name.split(":")[1] for name in each), accountant, neighboring.value]),
            marks=marks((term - number) % len(TERMS)),
        )
        for number, each in enumerate(parts)
        for term, (accountant, neighboring) in enumerate(TERMS)
    ]


def table(neighboring, n=3000, d=6):
    rng = np.random.default_rng(5)
    X = rng.uniform(-1, 1, size=(n, d))
    y = np.clip(0.5 * X[:, 0] - 0.3 * X[:, 1] + rng.normal(scale=0.05, size=n), -1, 1)
    names = [f"x{j}" for j in range(d)]
    bounds = dict.fromkeys([*names, "y"], (-1.0, 1.0))
    schema = Schema.numeric(names, "y", bounds, neighboring)
    return Dataset.from_arrays(X, y, schema), schema


def check(release, plan, tmp_path):
    certificate = release.certificate
    assert certificate.events == plan.events
    if plan.reasons:
        assert certificate.epsilon is None
        assert not certificate.private
    else:
        assert 0 < certificate.epsilon <= certificate.budget.epsilon
    assert verify(release).confirmed
    release.write(tmp_path / "release.json")
    assert Release.read(tmp_path / "release.json") == release


@pytest.mark.parametrize(
    ("scorer", "selector", "accountant", "neighboring"), under_all_terms(SELECTIONS, slow=[0])
)
def test_every_scorer_goes_with_every_selector(scorer, selector, accountant, neighboring, tmp_path):
    data, schema = table(neighboring)
    pipeline = compose(scorer=scorer, selector=selector, accountant=accountant)
    try:
        plan = pipeline.plan(schema, Budget(4.0, 1e-5), k=2)
    except CannotCompose as error:
        # The only good reasons: a kind of noise or sampling that this accountant cannot add up.
        assert all("account" in problem for problem in error.problems), error  # noqa: PT017
        return
    release = plan.run(data, randomness=Randomness.from_seed(3))
    assert len(set(release.selected)) == 2
    assert set(release.selected) <= set(data.names)
    check(release, plan, tmp_path)


@pytest.mark.first(2)
@pytest.mark.parametrize(
    ("regressor", "accountant", "neighboring"),
    under_all_terms([(name,) for name in REGRESSORS], default=[0], slow=[3, 7]),
)
def test_every_regressor_follows_a_selection(regressor, accountant, neighboring, tmp_path):
    data, schema = table(neighboring)
    options = {"regressor": FEW.get(regressor.partition(":")[2], {})}
    pipeline = compose(
        scorer="kendall", selector="peel", regressor=regressor, accountant=accountant, options=options
    )
    try:
        plan = pipeline.plan(schema, Budget(4.0, 1e-5), k=2)
    except CannotCompose as error:
        # Another good reason: a relation for which nothing is proved.
        reasons = ("account", "use add-remove")
        assert all(any(reason in problem for reason in reasons) for problem in error.problems), error  # noqa: PT017
        return
    release = plan.run(data, randomness=Randomness.from_seed(3))
    assert (release.model is None) == (release.refusal is not None)
    if release.model is not None:
        assert release.model.features == release.selected
        prediction = release.predict(data.select([data.names.index(name) for name in release.selected]).X)
        assert prediction.shape == data.y.shape
        assert np.isfinite(prediction).all()
    check(release, plan, tmp_path)


def test_nothing_is_left_out():
    assert {name.split(":")[1] for name in NAMES["scorers"]} >= {"kendall"}
    assert {name.split(":")[1] for name in NAMES["selectors"]} >= {"peel"}
    assert set(ACCOUNTANTS) >= {"basic", "rdp"}
    assert {name.split(":")[1] for name in REGRESSORS} >= {"tukey"}


def test_a_certificate_lists_options_and_not_the_state_of_an_accountant():
    data, schema = table(Neighboring.ADD_OR_REMOVE_ONE)
    plan = compose(scorer="kendall", selector="peel", options={"scorer": {"penalty": "mean"}}).plan(
        schema, Budget(1.0, 1e-6), k=2
    )
    parts = plan.run(data).certificate.parts
    assert [part.options for part in parts] == [{"penalty": "mean"}, {}, {}]
