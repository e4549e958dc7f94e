"""Several parties, one release: what they send, what a coalition sees, and what each is charged."""

from __future__ import annotations

import hashlib
import json
import math
import threading
import types
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from dpkit_command_verify.replan import replan
from dpkit_engine_federation import Identity, Participant, Relay, Terms, agree, join, plan_of
from dpkit_engine_federation.party import mask_of
from dpkit_engine_federation.shares import clamped, share_of
from dpkit_engine_federation.transport import NoAnswer, Void
from dpkit_model_lines import RowClippedLinearModel
from dpkit_regressor_adassp import AdasspRegressor
from scipy import stats

from dpkit_core import (
    Budget,
    Dataset,
    LinearModel,
    Neighboring,
    Plan,
    Randomness,
    Release,
    Schema,
    StagePlan,
    compose,
    verify,
)
from dpkit_core.errors import (
    AgainstPolicy,
    CannotCompose,
    Declined,
    DpkitError,
    EngineFailed,
    InvalidData,
    InvalidOption,
    InvalidRelease,
    OverBudget,
)
from dpkit_core.ledger.accounts import Account
from dpkit_core.ledger.entries import Charge
from dpkit_core.ledger.ledger import Ledger
from dpkit_core.mechanisms.calibration import total
from dpkit_core.mechanisms.sums import sums_event
from dpkit_core.noise.sampler import Sampler
from dpkit_core.pipeline.meter import StageMeter
from dpkit_core.pipeline.payment import claim_of
from dpkit_core.pipeline.policy import Policy
from dpkit_core.privacy.events import Event, Filtered, PoissonSampled, Repeated, expand
from dpkit_core.privacy.events import Sequence as InSequence

SCHEMA = Schema.numeric(["a", "b"], "y", {"a": (-1, 1), "b": (-1, 1), "y": (-2, 2)})
NAMES = ("north", "south", "west")
OPTIONS: dict[str, dict[str, Any]] = {
    "boosted_trees": {"trees": 6},
    "boosted_adassp": {"rounds": 3},
    "mean": {"noise": "gaussian"},
    "sgbdt": {"rounds": 40, "noise": "gaussian"},
    "winsorized_least_squares": {"noise": "gaussian", "refits": 1},
}


def records(n: int, seed: int = 1) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 2))
    return X, X[:, 0] - 0.5 * X[:, 1] + 0.1 * rng.normal(size=n)


def planned(name: str, epsilon: float = 2.0) -> Plan:
    options = {"regressor": OPTIONS.get(name, {})}
    return compose(regressor=name, options=options).plan(SCHEMA, Budget(epsilon, 1e-6))


def terms_of(plan: Plan, identities: Mapping[str, Identity], **options: Any) -> Terms:
    parties = {name: key.public for name, key in identities.items()}
    return agree(plan, parties, server=Identity().public, **options)


def together(
    plan: Plan,
    pieces: Mapping[str, Any],
    *,
    server: Any = None,
    seeds: Mapping[str, int] | None = None,
    payers: Mapping[str, Any] | None = None,
    **terms_options: Any,
) -> dict[str, Release | BaseException]:
    """Return what each party ends with, each in a thread."""
    identities = {name: Identity() for name in pieces}
    terms = terms_of(plan, identities, **terms_options)
    agreed = plan_of(terms)
    server = server or Relay(tuple(pieces), terms.patience)
    ends: dict[str, Release | BaseException] = {}

    def party(name: str) -> None:
        X, y = pieces[name]
        seed = None if seeds is None else seeds[name]
        try:
            ends[name] = join(
                Dataset.from_arrays(X, y, SCHEMA),
                terms,
                plan=agreed,
                identity=identities[name],
                transport=server,
                seed=seed,
                randomness=None if seed is None else Randomness.from_seed(seed),
                paid_by=None if payers is None else payers.get(name),
            )
        except BaseException as error:
            ends[name] = error

    threads = [threading.Thread(target=party, args=(name,)) for name in pieces]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return ends


def model(release: Any) -> str:
    assert isinstance(release, Release), repr(release)
    return json.dumps(release.to_document()["model"], sort_keys=True)


def thirds(n: int = 3000) -> dict[str, Any]:
    X, y = records(n)
    return {name: (X[i::3], y[i::3]) for i, name in enumerate(NAMES)}


PARTS = ("adassp", "boosted_trees", "boosted_adassp", "mean", "sgbdt", "winsorized_least_squares")


@pytest.mark.first(2)
@pytest.mark.parametrize("name", PARTS)
def test_a_federation_of_one_releases_the_bytes_of_one_machine(name: str) -> None:
    X, y = records(800)
    plan = planned(name)
    alone = plan.run(Dataset.from_arrays(X, y, SCHEMA), randomness=Randomness.from_seed(7))
    ends = together(plan, {"north": (X, y)}, seeds={"north": 7}, colluders=0, least=1)
    assert model(ends["north"]) == model(alone)


@pytest.mark.first(2)
@pytest.mark.parametrize("name", PARTS)
def test_three_parties_end_with_one_private_model(name: str) -> None:
    ends = together(planned(name), thirds())
    assert len({model(end) for end in ends.values()}) == 1
    release = ends["north"]
    assert isinstance(release, Release)
    assert release.certificate.private
    assert any("at most 1 of the 3 parties" in words for words in release.certificate.assumptions)


def selecting(**options: Any) -> Plan:
    every: dict[str, Any] = {"scorer": {"signed": True}, "selector": {"magnitudes": True}, **options}
    pipeline = compose(scorer="correlation", selector="gaussian_threshold", regressor="adassp", options=every)
    return pipeline.plan(SCHEMA, Budget(4.0, 1e-6), k=1)


@pytest.mark.slow
def test_parties_select_what_one_place_would() -> None:
    X, y = records(900)
    plan, pieces = selecting(), {name: (X[i::3], -y[i::3]) for i, name in enumerate(NAMES)}
    alone = plan.run(Dataset.from_arrays(X, -y, SCHEMA), randomness=Randomness.from_seed(7))
    one = together(plan, {"north": (X, -y)}, seeds={"north": 7}, colluders=0, least=1)["north"]
    assert model(one) == model(alone)
    ends = together(plan, pieces, least=2)
    assert len({model(end) for end in ends.values()}) == 1
    for end in (alone, *ends.values()):
        assert isinstance(end, Release)
        assert end.selected == ("a",)  # whose correlation is the largest, and below 0
        assert verify(end).confirmed
    assert plan_of(terms_of(plan, {name: Identity() for name in NAMES}, least=2)).spare is None


@pytest.mark.parametrize("options", [{"scorer": {}}, {"selector": {}}, {"scorer": {"center": "private"}}])
def test_selections_of_what_one_party_has_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(CannotCompose, match=r"adds up over parties \(additive\)"):
        terms_of(selecting(**options), {})


UNBOUNDED = Schema.numeric(["a", "b"], "y")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mean", "sgbdt", "winsorized_least_squares"])
def test_parties_find_bounds_together(name: str) -> None:
    plan = compose(regressor=name, options={"regressor": OPTIONS[name]}).plan(UNBOUNDED, Budget(6.0, 1e-6))
    X, y = records(6000)
    key = {name: Identity() for name in NAMES}
    terms = terms_of(plan, key, least=3)
    server, ends = Relay(NAMES, 30.0), dict[str, Release]()

    def party(place: int, name: str) -> None:
        data = Dataset.from_arrays(1e3 * X[place::3], 50 + y[place::3], UNBOUNDED)
        ends[name] = join(data, terms, identity=key[name], transport=server)

    threads = [threading.Thread(target=party, args=pair) for pair in enumerate(NAMES)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len({model(end) for end in ends.values()}) == 1
    found = ends["west"].predict(1e3 * X)
    assert np.abs(found - 50).max() < 3 * np.abs(y).max()
    if name != "mean":
        assert np.corrcoef(found, y)[0, 1] > 0.8


def test_three_parties_learn_what_one_place_would() -> None:
    X, y = records(500, seed=2)
    end = together(planned("adassp", epsilon=8.0), thirds(30_000))["west"]
    assert isinstance(end, Release)
    assert end.model is not None
    assert 1 - np.square(y - end.model.predict(X)).mean() / y.var() > 0.9


@pytest.mark.parametrize("name", PARTS)
def test_what_a_part_releases_adds_up_over_parties(name: str) -> None:
    plan, (X, y) = planned(name), records(900)
    given: list[Any] = []

    class Scripted:
        """Answers all pieces alike, and keeps what was asked."""

        spare = 0
        assumptions = ("at most 0 of the 1 parties that hold the records share",)
        inflation = 1.0
        engine = "federation", "", ""
        compared = staticmethod(lambda released: ())

        def __init__(self) -> None:
            self.coins, self.asked = Randomness.from_seed(3), list[Any]()

        def total(self, value: Any, scale: int, noise: Any, attempt: Any) -> Any:
            if len(self.asked) == len(given):
                given.append(value + noise(scale))
            self.asked.append(value)
            return given[len(self.asked) - 1]

    def asked(X: Any, y: Any) -> list[Any]:
        joint = Scripted()
        plan.run(Dataset.from_arrays(X, y, SCHEMA), randomness=Randomness.from_seed(3), joint=joint)
        return joint.asked

    whole = asked(X, y)
    pieces = [asked(X[i::3], y[i::3]) for i in range(3)]
    for value, *parts in zip(whole, *pieces, strict=True):
        assert np.abs(sum(parts) - value).max() <= 3  # each was rounded to the grid


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("mean", {}, "other than Gaussian noise"),
        ("ols", {}, "additive"),
        ("sgbdt", {}, "other than Gaussian noise"),
    ],
)
def test_what_parties_cannot_run_is_refused_before_anything_is_spent(
    name: str, options: dict[str, Any], words: str
) -> None:
    plan = compose(regressor=name, options={"regressor": options}).plan(SCHEMA, Budget(1.0, 1e-6))
    with pytest.raises(CannotCompose, match=words):
        terms_of(plan, {})


class Loud:
    """Others who add nothing but noise, together with this party's ``inflation`` times what is charged."""

    spare, assumptions = 0, ("at most 0 of the 1 parties that hold the records share",)
    engine = "federation", "", ""
    compared = staticmethod(lambda released: ())

    def __init__(self, inflation: float, seed: int) -> None:
        self.inflation, self.coins = inflation, Randomness.from_seed(seed)
        self.given: list[Any] = []

    def total(self, value: Any, scale: int, noise: Any, attempt: Any) -> Any:
        self.given.append(value + noise(math.ceil(scale * self.inflation)))
        return self.given[-1]


@pytest.mark.first(1)
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("boosted_trees", {"trees": 2}),
        ("mean", {"noise": "gaussian"}),
        ("sgbdt", {"rounds": 2, "noise": "gaussian"}),
        ("winsorized_least_squares", {"noise": "gaussian"}),
    ],
)
def test_a_part_finds_the_target_in_the_noise_that_all_parties_add(
    name: str, options: dict[str, Any]
) -> None:
    """Ten parties that trust no other add sqrt(10) times the noise: all octaves look full of records."""
    unbounded = Schema.numeric(["a", "b"], "y")
    plan = compose(regressor=name, options={"regressor": options}).plan(unbounded, Budget(1.0, 1e-6))
    X, y = records(10_000)
    for seed in range(3):
        joint, randomness = Loud(math.sqrt(10), seed), Randomness.from_seed(seed)
        release = plan.run(Dataset.from_arrays(X, y, unbounded), randomness=randomness, joint=joint)
        assert release.model is not None
        assert np.abs(release.model.predict(X)).max() < 8 * np.abs(y).max()


def test_what_a_part_says_of_noise_is_of_the_noise_of_all_parties() -> None:
    options = {"trees": 2, "depth": 2, "travel": 1.0, "loss": "logistic"}
    yes_no = Schema.numeric(["a", "b"], "y", {"a": (-1, 1), "b": (-1, 1), "y": (0, 1)})
    plan = compose(regressor="boosted_trees", options={"regressor": options}).plan(yes_no, Budget(4.0, 1e-6))
    X, y = records(2000)
    leaves = []
    for inflation in (1.0, 2.0):
        joint, randomness = Loud(inflation, 1), Randomness.from_seed(1)
        data = Dataset.from_arrays(X, (y > 0).astype(float), yes_no)
        release = plan.run(data, randomness=randomness, joint=joint)
        leaves += release.to_document()["model"]["noise"]["leaf"]
    assert leaves[1] == pytest.approx(2 * leaves[0], rel=0.1)


def test_a_ridge_lifts_eigenvalues_above_the_noise_of_all_parties() -> None:
    """Without records, a slope is products over the ridge: twice the noise in both leaves it as it was."""
    plan = planned("adassp")
    slopes = []
    for inflation in (1.0, 2.0):
        joint, randomness = Loud(inflation, 1), Randomness.from_seed(1)
        release = plan.run(
            Dataset.from_arrays(np.zeros((1, 2)), np.zeros(1), SCHEMA), randomness=randomness, joint=joint
        )
        assert isinstance(release.model, LinearModel | RowClippedLinearModel)
        slopes.append(np.abs(release.model.predict(np.eye(2))).max())
    assert slopes[1] < 1.5 * slopes[0]


@pytest.mark.slow
@pytest.mark.parametrize(("members", "colluders"), [(3, 1), (3, 2), (10, 9), (2, 0)])
def test_the_noise_of_all_is_what_parts_are_told(members: int, colluders: int) -> None:
    scale = 100_000
    key = {f"p{place}": Identity() for place in range(members)}
    plan = planned("adassp")
    terms = terms_of(plan, key, colluders=colluders, least=max(colluders + 1, 2))
    party = Participant.__new__(Participant)
    party._terms, party._members = terms, tuple(key)
    of_all = math.sqrt(members) * share_of(scale, members, colluders)
    assert of_all == pytest.approx(party.inflation * scale, rel=1e-4)


class Swallowing(AdasspRegressor):
    """Makes a model even where there is no answer."""

    def fit(self, data: Any, plan: Any, meter: Any, /) -> Any:
        try:
            return super().fit(data, plan, meter)
        except EngineFailed:
            return LinearModel(data.names, np.zeros(len(data.names)), 0.0)


class Away:
    """Others that never answer."""

    spare, assumptions, inflation, coins = 0, (), 1.0, Randomness.from_seed(3)
    engine = "federation", "", ""

    def total(self, *given: Any) -> Any:
        raise EngineFailed("west did not answer")


def test_a_part_cannot_hide_that_the_others_have_failed() -> None:
    plan = compose(regressor=Swallowing()).plan(SCHEMA, Budget(1.0, 1e-6))
    with pytest.raises(EngineFailed, match="west did not answer"):
        plan.run(Dataset.from_arrays(*records(30), SCHEMA), joint=Away())


# Void attempts


@attrs.define
class Late(Relay):
    """Loses one message of one party: it is missing from then on."""

    lost: str = "west"
    at: str = "3/0"
    seen: dict[str, dict[str, bytes]] = attrs.field(factory=dict)

    def add(self, room: str, name: str, members: Sequence[str], message: bytes, /) -> bytes | Void:
        self.seen.setdefault(room, {})[name] = message
        if room == self.at and name == self.lost:
            self.leave(name)
            raise NoAnswer("cut off")
        return super().add(room, name, members, message)


@pytest.mark.slow
def test_the_others_go_on_without_a_party_and_were_charged_for_it() -> None:
    plan, server = planned("boosted_trees"), Late(NAMES, 30.0)
    ends = together(plan, thirds(), server=server, least=2)
    assert isinstance(ends["west"], EngineFailed)
    assert model(ends["north"]) == model(ends["south"])
    release = ends["north"]
    assert isinstance(release, Release)
    assert release.certificate.epsilon is not None
    assert release.certificate.epsilon <= 2.0
    assert set(server.seen["3/0"]) == set(NAMES)
    assert set(server.seen["3/1"]) == {"north", "south"}


@pytest.mark.parametrize(("least", "spare"), [(3, 2), (2, 0)])
def test_a_run_ends_with_too_few_parties_or_attempts(least: int, spare: int) -> None:
    plan = planned("boosted_trees")
    ends = together(plan, thirds(), server=Late(NAMES, 30.0), least=least, spare=spare)
    assert all(isinstance(end, EngineFailed) for end in ends.values())
    words = "2 parties are left" if least == 3 else "more attempts were void"
    assert words in str(ends["north"])


@pytest.mark.slow
def test_spare_attempts_are_in_the_total_that_anyone_recomputes() -> None:
    plan, key = planned("adassp"), {name: Identity() for name in NAMES}
    agreed = plan_of(terms_of(plan, key, least=2, spare=3))
    assert len(agreed.events) == len(plan.events) + 1
    assert agreed.epsilon is not None
    assert 1.995 < agreed.epsilon <= 2.0
    release = together(plan, thirds(), least=2)["north"]
    assert isinstance(release, Release)
    assert verify(release).private
    assert replan(release).problems == ()
    events = release.certificate.events
    cheaper = attrs.evolve(release, certificate=attrs.evolve(release.certificate, events=events[:-1]))
    assert not verify(cheaper).confirmed


def test_no_more_attempts_are_paid_for_than_parties_can_be_missing() -> None:
    key = {name: Identity() for name in NAMES}
    assert [terms_of(planned("adassp"), key, least=n, spare=9).spare for n in (2, 3)] == [1, 0]


@pytest.mark.slow
def test_a_plan_that_is_not_that_of_the_terms_is_refused() -> None:
    """Its last events would pay for attempts, whatever they cost."""
    plan, key = planned("boosted_trees"), {name: Identity() for name in NAMES}
    terms, data = terms_of(plan, key, least=2), Dataset.from_arrays(*records(10), SCHEMA)
    assert terms.spare == 1
    for other in (
        plan,
        plan_of(terms_of(plan, key, least=3)),
        plan_of(terms_of(planned("adassp"), key, least=2)),
    ):
        with pytest.raises(InvalidOption, match="not that of the terms"):
            join(data, terms, identity=key["north"], transport=Relay(NAMES, 1.0), plan=other)


# Samples and accounts of records

SAMPLED = [
    pytest.param({"extra": 0.5}, "individual_filter", marks=pytest.mark.slow),
    pytest.param({"rate": 0.3, "count_share": 0.2}, "individual_filter", marks=pytest.mark.slow),
    pytest.param({"rate": 0.3}, "rdp", marks=pytest.mark.exhaustive),
]


def sampling(options: Mapping[str, Any], accountant: str) -> Plan:
    part = {"rounds": 12, "noise": "gaussian", **options}
    pipeline = compose(regressor="sgbdt", options={"regressor": part}, accountant=accountant)
    return pipeline.plan(SCHEMA, Budget(2.0, 1e-6))


@pytest.mark.parametrize(("options", "accountant"), SAMPLED)
def test_samples_and_accounts_are_of_each_party_and_one_model_of_all(
    options: dict[str, Any], accountant: str
) -> None:
    X, y = records(800)
    plan = sampling(options, accountant)
    alone = plan.run(Dataset.from_arrays(X, y, SCHEMA), randomness=Randomness.from_seed(7))
    one = together(plan, {"north": (X, y)}, seeds={"north": 7}, colluders=0, least=1)["north"]
    assert model(one) == model(alone)
    ends = together(plan, thirds(), server=Late(NAMES, 30.0, at="7/0"), least=2)
    assert isinstance(ends["west"], EngineFailed)
    release = ends["north"]
    assert model(release) == model(ends["south"])
    assert isinstance(release, Release)
    assert verify(release).confirmed
    assert replan(release).problems == ()


@pytest.mark.parametrize(("options", "accountant"), SAMPLED)
def test_a_spare_attempt_costs_what_the_dearest_event_does(options: dict[str, Any], accountant: str) -> None:
    """Whether it is of all records or on a sample: each composed with the plan costs less than a spare."""
    plan, key = sampling(options, accountant), {name: Identity() for name in NAMES}
    agreed = plan_of(terms_of(plan, key, least=2))
    *events, spare = [event.event for event in agreed.events]
    assert agreed.epsilon is not None
    assert 1.99 < agreed.epsilon <= 2.0
    for event in {*expand(events)}:
        assert total([*events, event], agreed.accountant.instance, 1e-6) <= agreed.epsilon * (1 + 1e-9)
    kinds = {isinstance(event, PoissonSampled) for event in expand(events)}
    assert {isinstance(event, PoissonSampled) for event in expand([spare])} == kinds


@attrs.define
class Voiding:
    """A ``Joint`` whose first attempt at each sum is void, and which keeps what it was given."""

    spare: int
    inflation: float = 1.0
    engine = "federation", "", ""
    assumptions = ("at most 0 of the 1 parties that hold the records share",)
    coins: Randomness = attrs.field(factory=lambda: Randomness.from_seed(3))
    given: list[Any] = attrs.field(factory=list)

    def total(self, value: Any, scale: int, noise: Any, attempt: Any, /) -> Any:
        self.given.append((value, attempt()))
        return self.given[-1][1] + noise(scale)


def sums_of_rounds(planned: Event, rounds: int, records: int) -> list[tuple[Any, Any]]:
    """Return what is sent for each round and its repeat, by a meter whose plan pays for both."""
    (event, *_) = expand((planned,))
    noise = event.event if isinstance(event, PoissonSampled) else event
    pays = Repeated(InSequence((noise, event)), rounds)
    joint = Voiding(rounds)
    meter = StageMeter(
        "regression", StagePlan((planned, pays)), event.neighboring, Randomness.from_seed(5), joint=joint
    )
    meter.arrive(records)
    data = Dataset.from_arrays(np.zeros((records, 1)), np.arange(records) % 2**16, Schema.numeric(["a"], "y"))
    kept = [data.keep(lambda block: block.y.astype(np.int64))]
    for _ in range(rounds):
        meter.kept_sums(kept, lambda groups: ([np.array(2**20)], groups), limits=[2**20], event=event)
    meter.finish()
    return [(first // 2**20, second // 2**20) for first, second in joint.given]


def test_a_repeated_attempt_has_a_sample_of_its_own() -> None:
    """A twentieth of one sample is in the other; all of it would be, had the repeat kept its coins."""
    event = sums_event([4.0], Neighboring.ADD_OR_REMOVE_ONE, limits=[2**20], groups=2**16, rate=0.05)
    ((first, second),) = sums_of_rounds(event, 1, 2**16)
    n, both = 2**16, int((first & second).sum())
    for count, chance in ((first.sum(), 0.05), (second.sum(), 0.05), (both, 0.0025)):
        assert count == pytest.approx(n * chance, abs=5 * math.sqrt(n * chance))


def test_a_repeated_attempt_charges_accounts_again() -> None:
    """Two rounds are paid for: with a repeat of each, no record is in the second."""
    once = sums_event([4.0], Neighboring.ADD_OR_REMOVE_ONE, limits=[2**20], groups=2**16)
    sent = sums_of_rounds(Filtered(once, 3, 2), 3, 100)
    assert [(first.sum(), second.sum()) for first, second in sent] == [(100, 100), (0, 0), (0, 0)]


def sampled_profile(rate: float, precision: float, epsilon: float, *, rounds: int) -> float:
    """Return delta of independent sampled rounds, each of so much precision, at an epsilon."""
    half, size = 24.0, 2**10
    x = np.linspace(-half, half, size)
    step, mu = x[1] - x[0], math.sqrt(precision)
    off, on = stats.norm.pdf(x), stats.norm.pdf(x, mu)
    added = (1 - rate) * off + rate * on
    for _ in range(rounds - 1):
        added, off = np.outer(added, added), np.outer(off, off)
    return float(np.maximum(added - math.exp(epsilon) * off, 0).sum() * step**rounds)


def test_one_sample_seen_twice_is_no_second_sampled_round() -> None:
    two, once = sampled_profile(0.05, 1.0, 1.0, rounds=2), sampled_profile(0.05, 2.0, 1.0, rounds=1)
    assert two == pytest.approx(2.7e-5, rel=0.03)
    assert once == pytest.approx(6.4e-4, rel=0.03)


# Charges


def payers(west: float) -> dict[str, Any]:
    """Return an account of each party's own ledger; that of west allows another epsilon."""
    found = {}
    for name in NAMES:
        ledger = Ledger.in_memory()
        ledger.add(Account("table", SCHEMA, Budget(west if name == "west" else 2.5, 1e-5)))
        found[name] = ledger.payer("table")
    return found


def test_each_party_charges_its_own_ledger_for_all_attempts() -> None:
    paying, plan = payers(2.5), planned("adassp")
    ends = together(plan, thirds(), payers=paying)
    for name in NAMES:
        release, statement = ends[name], paying[name].ledger.statement("table")
        assert isinstance(release, Release)
        witness = release.certificate.witness
        assert witness is not None
        assert witness.ledger == paying[name].ledger.id
        assert tuple(witness.total) == tuple(statement.total)
        claim = Charge("table", claim_of(plan), SCHEMA, "")
        with pytest.raises(OverBudget):  # a second one is more than the account has
            paying[name].ledger.reserve(claim)


def test_who_cannot_run_sends_nothing_and_nobody_is_charged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Records that do not fit, or a site that forbids the run, are noticed before the others are met."""

    def forbids(self: Any, certificate: Any) -> None:
        if threading.current_thread().name == "west":
            raise AgainstPolicy("this site allows no such run")

    monkeypatch.setattr(Policy, "require_private", forbids)
    identities = {name: Identity() for name in NAMES}
    terms, paying, ends = terms_of(planned("adassp"), identities), payers(2.5), dict[str, Exception]()
    other = attrs.evolve(SCHEMA, target=attrs.evolve(SCHEMA.target, upper=3.0))
    for schema in (SCHEMA, other):
        server = Relay(NAMES, 30.0)

        def party(name: str, schema: Schema = schema, server: Relay = server) -> None:
            data = Dataset.from_arrays(*thirds()[name], schema if name == "west" else SCHEMA)
            try:
                join(data, terms, identity=identities[name], transport=server, paid_by=paying[name])
            except DpkitError as error:
                ends[name] = error

        threads = [threading.Thread(target=party, args=(name,), name=name) for name in NAMES]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert type(ends["west"]) is (AgainstPolicy if schema is SCHEMA else InvalidData)
        assert "west did not join, or left. Nothing is spent" in str(ends["north"])
        assert set(paying["north"].ledger.statement("table").total) == {0}


def test_who_cannot_pay_sends_nothing() -> None:
    server = Late(NAMES, 30.0, lost="nobody")
    ends = together(planned("adassp"), thirds(), server=server, payers=payers(1.0))
    assert isinstance(ends["west"], OverBudget)
    assert server.seen == {}
    assert isinstance(ends["north"], Declined)  # before it was charged
    assert "west did not join" in str(ends["north"])


# Terms


def come_all(
    terms: Mapping[str, Terms], key: Mapping[str, Identity], server: Relay | None = None
) -> dict[str, str]:
    """Return why each party did not begin."""
    server, ends = server or Relay(NAMES, 30.0), dict[str, str]()

    def come(name: str) -> None:
        try:
            Participant(terms[name], name, key[name], server)
        except Declined as error:
            ends[name] = str(error)
            server.leave(name)

    threads = [threading.Thread(target=come, args=(name,)) for name in NAMES]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return ends


def test_who_signed_other_terms_is_found_and_nothing_is_computed() -> None:
    key = {name: Identity() for name in NAMES}
    terms = terms_of(planned("adassp"), key)
    assert come_all(dict.fromkeys(NAMES, terms), key) == {}
    other = attrs.evolve(terms, patience=61.0)
    ends = come_all({"north": terms, "south": terms, "west": other}, key)
    assert set(ends) == set(NAMES)
    assert "west has not signed these terms" in ends["north"]


def test_an_identity_must_be_that_of_the_terms() -> None:
    terms = terms_of(planned("adassp"), {name: Identity() for name in NAMES})
    server = Relay(NAMES, 1.0)
    with pytest.raises(Declined, match="another key"):
        Participant(terms, "north", Identity(), server)
    data = Dataset.from_arrays(*records(10), SCHEMA)
    with pytest.raises(Declined, match="other keys"):
        join(data, terms, identity=Identity(), transport=server)


@attrs.define
class Recording(Relay):
    """Keeps what the parties say when they meet."""

    said: dict[str, dict[str, bytes]] = attrs.field(factory=dict)

    def meet(self, phase: str, name: str, members: Sequence[str], message: bytes, /) -> Any:
        answer = super().meet(phase, name, members, message)
        assert not isinstance(answer, Void)
        self.said[phase] = dict(answer)
        return answer


@pytest.mark.parametrize(("whole", "objection"), [(False, "plays back"), (True, "of another run")])
def test_what_parties_said_in_another_run_makes_nobody_begin_one_alone(whole: bool, objection: str) -> None:
    """Neither with what this party says now among it, nor with what it said then."""
    key = {name: Identity() for name in NAMES}
    terms, server = terms_of(planned("adassp"), key), Recording(NAMES, 30.0)
    assert come_all(dict.fromkeys(NAMES, terms), key, server) == {}

    class PlayedBack(Relay):
        def meet(self, phase: str, name: str, members: Sequence[str], message: bytes, /) -> Any:
            return server.said[phase] if whole else {**server.said[phase], name: message}

    with pytest.raises(Declined, match=objection):
        Participant(terms, "north", key["north"], PlayedBack(NAMES, 1.0))


class Nonsense(Relay):
    """A server that says what no server says."""

    def meet(self, phase: str, name: str, members: Sequence[str], message: bytes, /) -> Any:
        return Void(self.names)

    def add(self, room: str, name: str, members: Sequence[str], message: bytes, /) -> bytes:
        return message[:-1]


def test_nonsense_of_a_server_is_the_failure_of_the_federation_and_of_no_part() -> None:
    key = {name: Identity() for name in NAMES}
    terms, server = terms_of(planned("adassp"), key), Nonsense(NAMES, 1.0)
    with pytest.raises(Declined, match="Nothing is spent"):
        Participant(terms, "north", key["north"], server)
    party = Participant.__new__(Participant)
    party._totals, party._members = bytes(32), NAMES
    for answer in (b"", bytes(23), bytes(32)):
        with pytest.raises(EngineFailed, match="do not agree"):
            party._opened(answer, NAMES, 2)


@pytest.mark.parametrize("address", ["localhost", "a b:1", "north:8765\ndpkit: north: 0000", "h:1\x1b[2J"])
def test_an_address_is_a_host_and_a_port_and_nothing_that_a_person_reads_for_a_fingerprint(
    address: str,
) -> None:
    terms = terms_of(planned("adassp"), {name: Identity() for name in NAMES})
    for fine in ("", "relay.example:8765", "127.0.0.1:1", "[::1]:8765"):
        assert attrs.evolve(terms, address=fine).address == fine
    with pytest.raises(InvalidOption, match="HOST:PORT"):
        attrs.evolve(terms, address=address)


def test_a_key_that_hides_nothing_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    key = {name: Identity() for name in NAMES}

    class Weak:
        def public_key(self) -> Any:
            return self

        def public_bytes_raw(self) -> bytes:
            return bytes(32)  # a point of small order

        def exchange(self, other: Any) -> bytes:
            return bytes(32)

    real, made = X25519PrivateKey.generate, []

    def generate() -> Any:
        made.append(threading.current_thread())
        return Weak() if len(made) == 1 else real()

    keys = types.SimpleNamespace(generate=generate)
    monkeypatch.setattr("dpkit_engine_federation.party.X25519PrivateKey", keys)
    ends = come_all(dict.fromkeys(NAMES, terms_of(planned("adassp"), key)), key)
    assert sum("hides nothing" in end for end in ends.values()) == 2  # all but who sent it


@pytest.mark.parametrize(
    "wrong", [{"colluders": 3}, {"least": 4}, {"colluders": -1}, {"patience": 0}, {"spare": -1}]
)
def test_terms_that_protect_nobody_are_refused(wrong: dict[str, Any]) -> None:
    terms = terms_of(planned("adassp"), {name: Identity() for name in NAMES})
    with pytest.raises(InvalidOption):
        attrs.evolve(terms, **wrong)


@pytest.mark.slow
def test_terms_are_read_as_they_were_written(tmp_path: Path) -> None:
    terms = terms_of(planned("boosted_trees"), {name: Identity() for name in NAMES}, least=2)
    (tmp_path / "terms.toml").write_text(terms.to_toml())
    again = Terms.read(tmp_path / "terms.toml")
    assert again == terms
    assert again.digest == terms.digest
    assert plan_of(again).events == plan_of(terms).events


def test_terms_that_say_nothing_of_colluders_are_refused(tmp_path: Path) -> None:
    terms = terms_of(planned("adassp"), {name: Identity() for name in NAMES})
    for line in ("colluders = 1\n", "least = 3\n", "format_version = 1\n"):
        assert line in terms.to_toml()
        (tmp_path / "terms.toml").write_text(terms.to_toml().replace(line, ""))
        with pytest.raises(InvalidOption, match="is missing"):
            Terms.read(tmp_path / "terms.toml")


def test_a_plan_that_costs_more_than_the_terms_say_is_refused() -> None:
    terms = terms_of(planned("adassp"), {name: Identity() for name in NAMES}, least=2)
    with pytest.raises(InvalidRelease, match="spare attempts cost"):
        plan_of(attrs.evolve(terms, spare=2))
    with pytest.raises(InvalidRelease, match="spare attempts cost"):
        plan_of(attrs.evolve(terms, budget=Budget(1.9, 1e-6)))


def test_parts_of_another_version_are_refused_before_anything_is_sent() -> None:
    terms = terms_of(planned("adassp"), {name: Identity() for name in NAMES})
    parts = {**terms.plan["parts"], "regressor": {**terms.plan["parts"]["regressor"], "version": "0.0.9"}}
    with pytest.raises(Declined, match=r"0\.0\.9.* same versions"):
        plan_of(attrs.evolve(terms, plan={**terms.plan, "parts": parts}))


# What a coalition sees


def discrete_gaussian(share: int, reach: int) -> Any:
    weights = np.exp(-np.square(np.arange(-reach, reach + 1.0)) / (2.0 * share**2))
    return weights / weights.sum()


def profile(share: int, honest: int, shift: int, epsilon: float, rate: float = 1.0) -> float:
    """Return delta of a sum of discrete Gaussians against itself, shifted at a rate; by enumeration."""
    one = discrete_gaussian(share, 12 * share)
    law = one
    for _ in range(honest - 1):
        law = np.convolve(law, one)
    p, q = np.append(law, np.zeros(shift)), np.append(np.zeros(shift), law)
    q = (1 - rate) * p + rate * q
    return float(
        max(np.maximum(p - math.exp(epsilon) * q, 0).sum(), np.maximum(q - math.exp(epsilon) * p, 0).sum())
    )


def gaussian_profile(multiplier: float, epsilon: float) -> float:
    normal = lambda x: math.erfc(-x / math.sqrt(2)) / 2  # noqa: E731
    mu = 1 / multiplier
    return normal(mu / 2 - epsilon / mu) - math.exp(epsilon) * normal(-mu / 2 - epsilon / mu)


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0, 2.0])
def test_the_view_of_one_party_of_three_is_as_private_as_was_claimed(epsilon: float) -> None:
    multiplier, shift = 1.5, 100
    scale = math.ceil(multiplier * shift)
    claimed = gaussian_profile(multiplier, epsilon)
    # Total minus what the party itself has added: two shares hide the others' records.
    assert profile(share_of(scale, 3, 1), 2, shift, epsilon) <= claimed
    # Noise sized for three, or halved, breaks the claim.
    assert profile(share_of(scale, 3, 0), 2, shift, epsilon) > 1.05 * claimed
    assert profile(share_of(scale, 3, 1) // 2, 2, shift, epsilon) > 1.05 * claimed


@pytest.mark.parametrize("epsilon", [0.05, 0.2, 0.5])
def test_the_view_of_one_party_of_three_on_a_sample_is_that_of_a_sampled_round(epsilon: float) -> None:
    """It knows its own coins and noise, and not the coin of another's record: else nothing is amplified."""
    rate, multiplier, shift = 0.2, 1.5, 100
    share = share_of(math.ceil(multiplier * shift), 3, 1)
    claimed = rate * gaussian_profile(multiplier, math.log1p(math.expm1(epsilon) / rate))
    assert profile(share, 2, shift, epsilon, rate) <= claimed
    assert profile(share // 2, 2, shift, epsilon, rate) > 1.05 * claimed
    assert profile(share, 2, shift, epsilon) > 1.05 * claimed


@pytest.mark.parametrize("honest", [2, 3, 5])
def test_a_sum_of_shares_is_close_to_one_discrete_gaussian(honest: int) -> None:
    """The bound of Kairouz, Liu and Steinke, where it is large enough to be seen."""
    for share in (1, 2):
        law = one = discrete_gaussian(share, 40)
        for _ in range(honest - 1):
            law = np.convolve(law, one)
        x = np.arange(len(law)) - len(law) // 2
        single = np.exp(-np.square(x) / (2.0 * honest * share**2))
        single /= single.sum()
        middle = np.abs(x) <= 6 * share
        eta = 10 * sum(math.exp(-2 * math.pi**2 * share**2 * j / (j + 1)) for j in range(1, honest))
        assert np.abs(np.log(law[middle] / single[middle])).max() <= eta + 1e-12


def test_a_share_is_sized_for_the_members_of_its_own_room() -> None:
    scale = 40_000
    for members in range(2, 12):
        for colluders in range(members):
            share, honest = share_of(scale, members, colluders), members - colluders
            assert honest * share**2 >= scale**2
            assert share <= scale / math.sqrt(honest) + 2
    with pytest.raises(ValueError, match="cannot hide"):
        share_of(scale, 2, 2)
    with pytest.raises(ValueError, match="no longer Gaussian"):
        share_of(40, 4, 1)


def totals_of_three(colluders: int, halved: int = 1) -> Any:
    """Return 4000 totals of three parties that add nothing but noise, in standard deviations of one place."""
    scale, key = 40_000, {name: Identity() for name in NAMES}
    parties = {name: one.public for name, one in key.items()}
    terms = Terms(
        parties, Identity().public, "", colluders=colluders, spare=0, budget=Budget(1.0, 1e-6), plan={}
    )
    server, found = Relay(NAMES, 30.0), dict[str, Any]()

    def come(place: int, name: str) -> None:
        sampler, party = Sampler(np.random.default_rng(place)), Participant(terms, name, key[name], server)
        noise = lambda share: sampler.discrete_gaussian(share // halved, 4000)  # noqa: E731
        nothing = np.zeros(4000, dtype=np.int64)
        found[name] = party.total(nothing, scale, noise, lambda: nothing)

    threads = [threading.Thread(target=come, args=pair) for pair in enumerate(NAMES)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert all(np.array_equal(found["north"], total) for total in found.values())
    return found["north"] / scale


def test_a_total_of_three_parties_has_the_law_of_one_place() -> None:
    assert stats.kstest(totals_of_three(0), "norm").pvalue > 1e-3
    assert stats.kstest(totals_of_three(0, halved=2), "norm").pvalue < 1e-9
    # Against one colluder, of three shares two are as much as one place adds.
    assert stats.kstest(totals_of_three(1) / math.sqrt(3 / 2), "norm").pvalue > 1e-3
    assert stats.kstest(totals_of_three(1), "norm").pvalue < 1e-9


def test_no_sum_wraps() -> None:
    for members in (1, 3, 7, 1000):
        most = int(clamped(np.array([2**61]), members)[0])
        assert members * most <= 2**61


# The zoo: parties as they have been published, and worse; each has an honest twin

#: By how much what a party adds differs between an attempt and the next: less than a sample's would.
FRESH = 1000


def transcript(
    member: type[Participant], *, values: Sequence[int] = (5, 6, 7), scale: int = 40_000
) -> dict[str, Any]:
    """Return what the server and a test, which has all noise, see of three parties with a void room."""
    key = {name: Identity() for name in NAMES}
    parties = {name: one.public for name, one in key.items()}
    terms = Terms(parties, Identity().public, "", least=2, spare=1, budget=Budget(1.0, 1e-6), plan={})
    server = Late(NAMES, 30.0, at="2/0")
    drawn: dict[str, list[Any]] = {name: [] for name in NAMES}
    shares: dict[str, list[int]] = {name: [] for name in NAMES}
    totals: dict[str, list[int]] = {name: [] for name in NAMES}
    again: list[str] = []
    errors: list[BaseException] = []

    def come(place: int, name: str) -> None:
        sampler = Sampler(np.random.default_rng(place))

        def noise(share: int) -> Any:
            shares[name].append(share)
            drawn[name].append(sampler.discrete_gaussian(share, 4))
            return drawn[name][-1]

        def attempt() -> Any:
            again.append(name)
            return np.full(4, values[place] + FRESH)  # as of another sample

        try:
            party = member(terms, name, key[name], server)
            for _ in range(2):
                value = np.full(4, values[place])
                totals[name].append(int(party.total(value, scale, noise, attempt)[0]))
        except EngineFailed as error:
            if name != "west":
                errors.append(error)
            server.leave(name)

    threads = [threading.Thread(target=come, args=pair) for pair in enumerate(NAMES)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return {
        "server": server.seen,
        "drawn": drawn,
        "shares": shares,
        "totals": totals,
        "again": again,
        "errors": errors,
    }


def objections(member: type[Participant]) -> list[str]:
    """Return what is wrong with how a party sends, by what two runs of it show."""
    run, repeat = transcript(member), transcript(member)
    found: list[str] = []
    if run["errors"]:
        return [f"ended: {run['errors'][0]}"]
    lengths = {len(message) for room in run["server"].values() for message in room.values()}
    if lengths != {8 * 5}:
        found.append("sends more than the vector and the check entry")

    def mask(run: Any, room: str, name: str, draw: int) -> Any:
        words = np.frombuffer(run["server"][room][name], "<i8")[:4]
        noise = run["drawn"][name][min(draw, len(run["drawn"][name]) - 1)]
        return words - noise - (5 + NAMES.index(name) + FRESH * room.endswith("/1"))

    first, void, again = (mask(run, room, "north", i) for i, room in enumerate(("1/0", "2/0", "2/1")))
    if np.array_equal(first, void) or np.array_equal(void, again) or np.array_equal(first, again):
        found.append("a mask is used twice")
    if np.array_equal(first, mask(repeat, "1/0", "north", 0)):
        found.append("masks do not depend on keys of this run")
    if min(np.abs(first.astype(float)).min(), np.abs(again.astype(float)).min()) < 2**40:
        found.append("a vector is not masked")
    drawn = run["drawn"]["north"]
    if len(drawn) != 3 or np.array_equal(drawn[1], drawn[2]):
        found.append("the noise of a void room is used again")
    noise = sum(int(run["drawn"][name][-1][0]) for name in NAMES[:2])
    samples = run["totals"]["north"][-1] - noise
    if samples == 5 + 6:
        found.append("the sample of a void room is used again")
    if run["again"] != ["north", "south"] and run["again"] != ["south", "north"]:
        found.append("a repeated attempt is not charged")
    sizes = run["shares"]["north"]
    if any((members - 1) * share**2 < 40_000**2 for share, members in zip(sizes, (3, 3, 2), strict=False)):
        found.append("noise is too small by a colluder")
    far = transcript(member, values=(2**61, 2**61, 2**61))
    if min(far["totals"]["north"], default=0) <= 0:
        found.append("a sum wraps")
    limit = int(clamped(np.array([2**61]), 3)[0])
    if far["totals"]["north"][0] != sum(limit + int(drawn[0][0]) for drawn in far["drawn"].values()):
        found.append("noise is cut off with the value")
    return found


class Stock(Participant):
    """Masks from a seed of 32 bits that comes with the program."""

    def _masked(self, room: str, members: Sequence[str], noisy: Any) -> bytes:
        stock = {name: bytes(28) + (7).to_bytes(4, "big") for name in NAMES}
        real, self._secrets, self._hellos = self._secrets, stock, bytes(32)
        self._totals = bytes(32)
        try:
            return super()._masked(room, members, noisy)
        finally:
            self._secrets = real


class Twice(Participant):
    """One mask for all rooms."""

    def _masked(self, room: str, members: Sequence[str], noisy: Any) -> bytes:
        words = np.append(noisy, 1)
        for other in members:
            if other != self._name:
                mask = mask_of(self._secrets[other], b"", words.size)
                words = words + mask if self._name < other else words - mask
        return words.tobytes()


class Bare(Participant):
    """No mask: noise of one party alone protects its vector."""

    def _masked(self, room: str, members: Sequence[str], noisy: Any) -> bytes:
        return np.append(noisy, 1).tobytes()


class SameNoise(Participant):
    """Sends the noise of a void room again, under a fresh mask."""

    def total(
        self, value: Any, scale: int, noise: Callable[[int], Any], attempt: Callable[[], Any], /
    ) -> Any:
        kept: list[Any] = []

        def once(share: int) -> Any:
            if not kept:
                kept.append(noise(share))
            return kept[0]

        return super().total(value, scale, once, attempt)


class SameSample(Participant):
    """Sends the sample of a void room again, with fresh noise, and is charged."""

    def total(
        self, value: Any, scale: int, noise: Callable[[int], Any], attempt: Callable[[], Any], /
    ) -> Any:
        def kept() -> Any:
            attempt()
            return value

        return super().total(value, scale, noise, kept)


class Uncharged(Participant):
    """Does not say that it attempts again."""

    def total(
        self, value: Any, scale: int, noise: Callable[[int], Any], attempt: Callable[[], Any], /
    ) -> Any:
        return super().total(value, scale, noise, lambda: value + FRESH)


class Counting(Participant):
    """A count of records in the clear, beside the masked vector."""

    def _masked(self, room: str, members: Sequence[str], noisy: Any) -> bytes:
        return super()._masked(room, members, noisy) + (41).to_bytes(8, "little")


class NoColluder(Participant):
    """Forgets that a party knows its own noise."""

    def total(
        self, value: Any, scale: int, noise: Callable[[int], Any], attempt: Callable[[], Any], /
    ) -> Any:
        real, self._terms = self._terms, attrs.evolve(self._terms, colluders=0)
        try:
            return super().total(value, scale, noise, attempt)
        finally:
            self._terms = real


class StartShares(Participant):
    """Sizes its noise for the parties of the start, not for those who are left."""

    def total(
        self, value: Any, scale: int, noise: Callable[[int], Any], attempt: Callable[[], Any], /
    ) -> Any:
        return super().total(value, scale, lambda share: noise(share_of(scale, 3, 1)), attempt)


class Wrapping(Participant):
    """Lets each value take more of the range of the sum than its part."""

    def total(
        self, value: Any, scale: int, noise: Callable[[int], Any], attempt: Callable[[], Any], /
    ) -> Any:
        extra = value.astype(np.int64) - clamped(value, len(self._members))
        return super().total(value, scale, lambda share: noise(share) + 2 * extra, attempt)


class ClampsAfter(Participant):
    """Clamps what has its noise already, so that its own noise does not hide what the others' does."""

    def total(
        self, value: Any, scale: int, noise: Callable[[int], Any], attempt: Callable[[], Any], /
    ) -> Any:
        k = len(self._members)
        cut = lambda share: clamped(clamped(value, k) + noise(share), k) - clamped(value, k)  # noqa: E731
        return super().total(value, scale, cut, attempt)


@pytest.mark.parametrize(
    ("member", "objection"),
    [
        (Stock, "masks do not depend on keys"),
        (Twice, "a mask is used twice"),
        (Bare, "a vector is not masked"),
        (SameNoise, "noise of a void room"),
        (SameSample, "the sample of a void room"),
        (Uncharged, "not charged"),
        (Counting, "ended: the parties do not agree"),
        (NoColluder, "too small by a colluder"),
        (StartShares, "too small by a colluder"),
        (Wrapping, "a sum wraps"),
        (ClampsAfter, "noise is cut off"),
    ],
)
def test_a_faulty_party_is_found(member: type[Participant], objection: str) -> None:
    found = objections(member)
    assert any(objection in one for one in found), found


def test_an_honest_party_is_not_objected_to() -> None:
    assert objections(Participant) == []


# The end


def test_the_certificate_says_that_all_computed_the_same_and_who_added_up() -> None:
    for end in together(planned("adassp"), thirds()).values():
        assert isinstance(end, Release)
        assert "3 parties computed the same release, whose digest all signed" in end.certificate.arithmetic
        assert end.certificate.engine is not None
        assert end.certificate.engine.name == "federation"
        assert verify(end).confirmed


def test_a_party_that_computed_something_else_is_told_and_so_are_the_others() -> None:
    """As a processor that rounds otherwise would: here, a digest of another model."""

    class Rounds(Participant):
        def compared(self, released: str, /) -> tuple[str, ...]:
            other = hashlib.sha256(released.encode()).hexdigest()
            return super().compared(other if self._name == "west" else released)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dpkit_engine_federation.joining.Participant", Rounds)
        ends = together(planned("adassp"), thirds())
    said = {name: end.certificate.arithmetic[-1] for name, end in ends.items() if isinstance(end, Release)}
    alone = "west computed another release from the same totals"
    assert said == {
        "north": alone,
        "south": alone,
        "west": "north, south computed another release from the same totals, as most parties did",
    }


class Mute(Relay):
    """Loses, or forges, what a party says in the end."""

    forged: bool = False

    def meet(self, phase: str, name: str, members: Sequence[str], message: bytes, /) -> Any:
        answer = super().meet(phase, name, members, message)
        if phase != "closing":
            return answer
        if not self.forged:
            return Void(("north",))
        assert not isinstance(answer, Void)
        return {**answer, "west": answer["west"][:32][::-1] + answer["west"][32:]}


@pytest.mark.parametrize("forged", [False, True])
def test_no_certificate_says_that_what_was_not_signed_is_the_same(forged: bool) -> None:
    server = Mute(NAMES, 30.0)
    server.forged = forged
    end = together(planned("adassp"), thirds(), server=server)["north"]
    assert isinstance(end, Release)
    others = "west" if forged else "south, west"
    assert end.certificate.arithmetic[-1] == f"what {others} released was not compared"


@pytest.mark.parametrize("left_out", [("engine",), ("assumptions",), ("engine", "assumptions")])
def test_a_release_of_several_parties_does_not_pass_for_one_of_one_machine(left_out: tuple[str, ...]) -> None:
    end = together(planned("adassp"), thirds(), least=2)["north"]
    assert isinstance(end, Release)
    empty: dict[str, Any] = {"engine": None, "assumptions": ()}
    changed = {name: empty[name] for name in left_out}
    certificate = attrs.evolve(end.certificate, **changed)
    assert not verify(attrs.evolve(end, certificate=certificate)).confirmed


def test_without_spare_attempts_nothing_in_a_file_shows_that_both_were_left_out() -> None:
    """As the page on its format says: only a signature does."""
    end = together(planned("adassp"), thirds(), least=3)["north"]
    assert isinstance(end, Release)
    certificate = attrs.evolve(end.certificate, engine=None, assumptions=())
    hidden = attrs.evolve(end, certificate=certificate)
    assert verify(hidden).confirmed


# A server that has died


def answers(server: Relay, room: str, messages: Mapping[str, bytes]) -> dict[str, Any]:
    """Return what a relay tells those who send these."""
    found: dict[str, Any] = {}

    def come(name: str) -> None:
        try:
            found[name] = server.add(room, name, NAMES, messages[name])
        except NoAnswer as error:
            found[name] = error

    threads = [threading.Thread(target=come, args=(name,)) for name in messages]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    return found


def test_a_relay_made_of_a_journal_gives_the_answers_that_were_given(tmp_path: Path) -> None:
    """North was told a sum; south and west ask the next relay, as they do when the server is back."""
    journal = tmp_path / "journal"
    words = {name: np.array([i, 1], "<u8").tobytes() for i, name in enumerate(NAMES, start=1)}
    total = np.array([6, 3], "<u8").tobytes()
    first = Relay(NAMES, 1.0, journal=journal)
    met = dict.fromkeys(NAMES, first)
    said: dict[str, Any] = {}
    threads = [
        threading.Thread(target=lambda n=name: said.update({n: met[n].meet("hello", n, NAMES, n.encode())}))
        for name in NAMES
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert answers(first, "1/0", words)["north"] == total
    journal.write_bytes(journal.read_bytes() + b'\n["sum 2/0 of')  # it died while it wrote the next one
    second = Relay(NAMES, 1.0, journal=journal)
    assert answers(second, "1/0", {name: words[name] for name in NAMES[1:]}) == dict.fromkeys(
        NAMES[1:], total
    )
    assert second.meet("hello", "west", NAMES, b"west") == said["north"]
    other = answers(second, "1/0", {"west": words["south"]})["west"]
    assert isinstance(other, NoAnswer)  # not what it had sent
    late = answers(second, "2/0", {name: words[name] for name in NAMES[:2]})
    assert late == dict.fromkeys(NAMES[:2], Void(("north", "south")))
    third = Relay(NAMES, 1.0, journal=journal)
    assert isinstance(answers(third, "2/0", {"west": words["west"]})["west"], NoAnswer)
    assert answers(third, "2/0", {"north": words["north"]})["north"] == Void(("north", "south"))
    assert answers(Relay(NAMES, 0.2), "1/0", {"south": words["south"]})["south"] == Void(("south",))
