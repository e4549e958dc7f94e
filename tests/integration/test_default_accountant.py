"""The accountant that is taken where none is named: ``tight`` where it composes every event, else ``rdp``."""

import pytest
from dpkit_cli.planfile import read_plan, write_plan

from dpkit_core import Budget, Neighboring, Registry, Schema, compose
from dpkit_core.errors import AgainstPolicy, DpkitError
from dpkit_core.pipeline import policy
from dpkit_core.pipeline.recipes import find_recipe
from dpkit_core.plugins.resources import resources
from dpkit_core.privacy.events import (
    ApproxDP,
    ExponentialMechanism,
    Gaussian,
    Laplace,
    NonSphericalGaussian,
    PermuteAndFlip,
    PureDP,
    expand,
)
from dpkit_core.release.verify import tight_total

NAMES = [f"x{i}" for i in range(8)]
BOUNDS = dict.fromkeys([*NAMES, "y"], (0.0, 1.0))


def facts(neighboring=Neighboring.ADD_OR_REMOVE_ONE):
    return Schema.numeric(NAMES, "y", BOUNDS, neighboring=neighboring)


def test_tight_is_taken_where_it_composes_every_event_and_the_plan_says_so():
    plan = compose(scorer="kendall", selector="peel", regressor="winsorized_least_squares").plan(
        facts(), Budget(1.0, 1e-6), k=3
    )
    assert plan.accountant.name == "tight"
    assert "Accountant tight, as none was named: it composes every event." in str(plan)
    assert plan.because in plan._repr_html_()
    named = compose(
        scorer="kendall", selector="peel", regressor="winsorized_least_squares", accountant="tight"
    ).plan(facts(), Budget(1.0, 1e-6), k=3)
    assert named.events == plan.events
    assert named.because == ""
    assert "as none was named" not in str(named)


def test_gaussians_on_a_sample_are_left_to_rdp_and_the_plan_says_why():
    options = {"regressor": {"rate": 0.1, "rounds": 2, "depth": 2}}
    plan = compose(regressor="sgbdt", options=options).plan(facts(), Budget(1.0, 1e-6))
    assert plan.accountant.name == "rdp"
    assert plan.because == "tight does not compose Repeated of PoissonSampled of Gaussian"
    named = compose(regressor="sgbdt", options=options, accountant="rdp").plan(facts(), Budget(1.0, 1e-6))
    assert named.events == plan.events


def test_what_is_not_private_is_left_to_rdp():
    plan = compose(regressor="ols").plan(facts(), Budget(1.0, 1e-6))
    assert (plan.accountant.name, plan.epsilon) == ("rdp", None)
    assert "as none was named" not in str(plan)


def test_options_without_a_name_are_those_of_rdp():
    pipeline = compose(regressor="mean", options={"accountant": {"orders": [4.0, 16.0]}})
    plan = pipeline.plan(facts(), Budget(1.0, 1e-6))
    assert plan.accountant.name == "rdp"
    assert plan.accountant.record.options == {"orders": (4.0, 16.0)}


@pytest.fixture
def rules(tmp_path, monkeypatch):
    path = tmp_path / "policy.toml"
    monkeypatch.setenv(policy.VARIABLE, str(path))
    return path


def test_a_site_that_does_not_allow_tight_gets_rdp_as_before(rules):
    rules.write_text('[run]\naccountants = ["rdp", "basic"]')
    plan = compose(regressor="mean").plan(facts(), Budget(1.0, 1e-6))
    assert plan.accountant.name == "rdp"
    assert plan.because.startswith("tight cannot be had: ")
    assert str(rules) in plan.because
    rules.write_text('[run]\naccountants = ["pld"]')
    with pytest.raises(AgainstPolicy, match="this run names rdp"):
        compose(regressor="mean").plan(facts(), Budget(1.0, 1e-6))


def test_an_installation_without_tight_plans_with_rdp(monkeypatch):
    find = Registry.find

    def without(self, kind, name):
        if name == "tight":
            raise DpkitError("no accountant 'tight' is installed")
        return find(self, kind, name)

    monkeypatch.setattr(Registry, "find", without)
    plan = compose(regressor="mean").plan(facts(), Budget(1.0, 1e-6))
    assert plan.accountant.name == "rdp"
    assert plan.because == "tight cannot be had: no accountant 'tight' is installed"


def test_problems_are_told_once_and_as_by_rdp():
    with pytest.raises(DpkitError) as default:
        compose(regressor="adassp").plan(facts(), Budget(1.0, 0.0), k=3)
    with pytest.raises(DpkitError) as named:
        compose(regressor="adassp", accountant="rdp").plan(facts(), Budget(1.0, 0.0), k=3)
    assert str(default.value) == str(named.value)


def test_a_plan_file_names_the_accountant_and_is_read_with_it(tmp_path):
    for accountant in ("rdp", None):
        plan = compose(regressor="winsorized_least_squares", accountant=accountant).plan(
            facts(), Budget(1.0, 1e-6)
        )
        write_plan(plan, tmp_path / "plan.toml")
        again = read_plan(tmp_path / "plan.toml")
        assert again.events == plan.events
        assert again.accountant.name == (accountant or "tight")


# Never more noise, over what is shipped


def strengths(event):
    """Return what each draw of an event reveals: its epsilon, or the inverse of its multiplier."""
    match event:
        case Gaussian() | Laplace():
            return [1 / event.noise_multiplier]
        case NonSphericalGaussian():
            return [1 / multiplier for multiplier in event.noise_multipliers]
        case ExponentialMechanism() | PermuteAndFlip() | PureDP() | ApproxDP():
            return [event.epsilon]
    raise AssertionError(event)


SKIPPED = {"exact", "gaussian_threshold"}  # not private; for scores on another grid

SHIPPED = [
    *((None, None, ref.name) for ref in Registry().refs("regressors") if ref.name != "ols"),
    *(("kendall", ref.name, None) for ref in Registry().refs("selectors") if ref.name not in SKIPPED),
    ("correlation", "gaussian_threshold", None),
    ("correlation", "peel", None),
    ("lasso_votes", "peel", None),
    *(("kendall", "peel", ref.name) for ref in Registry().refs("regressors") if ref.name != "ols"),
    ("correlation", "canonical_lipschitz", "frank_wolfe"),
    ("correlation", "oneshot_laplace", "adassp"),
    ("correlation", "joint", "winsorized_least_squares"),
]


@pytest.mark.first(4)
@pytest.mark.parametrize("neighboring", list(Neighboring), ids=lambda relation: relation.value)
@pytest.mark.parametrize(
    "parts",
    [
        pytest.param(
            parts,
            id="-".join(part for part in parts if part is not None),
            marks=[pytest.mark.slow] if "frank_wolfe" in parts else [],
        )
        for parts in SHIPPED
    ],
)
def test_nothing_shipped_has_a_larger_total_nor_more_noise_than_by_rdp(parts, neighboring):
    given = dict(zip(("scorer", "selector", "regressor"), parts, strict=True))
    schema, budget = facts(neighboring), Budget(1.0, 1e-6)
    try:
        before = compose(**given, accountant="rdp").plan(schema, budget)
    except DpkitError as error:
        with pytest.raises(type(error)):
            compose(**given).plan(schema, budget)
        return
    now = compose(**given).plan(schema, budget)
    assert now.accountant.name == "tight"
    assert now.epsilon <= budget.epsilon
    events = [item.event for item in before.events]
    # Equal where basic composition is the best of both, up to the order of a sum.
    assert tight_total(events, neighboring, 1e-6) <= before.epsilon * (1 + 1e-14)
    # Of a single stage no noise grows. Several divide what is saved by what each saves alone.
    floor = 1 - 2e-4 if len(now.stages) == 1 else 0.995
    ratios = []
    for old, new in zip(before.stages, now.stages, strict=True):
        first = [s for event in expand(old.plan.events) for s in strengths(event)]
        second = [s for event in expand(new.plan.events) for s in strengths(event)]
        assert len(first) == len(second)
        ratios += [b / a for a, b in zip(first, second, strict=True)]
    assert min(ratios) >= floor
    assert max(ratios) >= 1 - 2e-4


@pytest.mark.slow
def test_every_recipe_of_private_parts_plans_by_default():
    taken = {}
    for ref in resources("recipes"):
        recipe = find_recipe(ref.name)
        if "accountant" not in recipe.parts:
            plan = compose(**recipe.parts, options=recipe.options).plan(facts(), Budget(1.0, 1e-6))
            taken[ref.name] = plan.accountant.name, plan.epsilon is None
    assert {name for name, (accountant, _) in taken.items() if accountant == "rdp"} == {
        name for name, (_, public) in taken.items() if public
    }
