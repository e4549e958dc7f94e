"""The ledger beside a plain model, under any order of what people and machines do to it."""

import copy
import pickle

import pytest
from dpkit_command_ledger.audit import audit
from dpkit_ledger_sqlite import promises as suite
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from dpkit_core.errors import AlreadyCharged, OverBudget
from dpkit_core.ledger.entries import OUTCOMES
from dpkit_core.ledger.ledger import Ledger

NAMES = ("a", "b")
LIMITS = {"a": 10, "b": 3}


class Model(RuleBasedStateMachine):
    """A list of what was granted, in tenths of epsilon, and the ledger, which must say the same."""

    reserved = Bundle("reserved")
    settled = Bundle("settled")

    def __init__(self):
        super().__init__()
        self.ledger = self.made()
        self.spent = dict.fromkeys(NAMES, 0)
        self.entries = 1 + len(NAMES)
        self.releases = []
        for name in NAMES:
            self.ledger.add(suite.account(name, LIMITS[name] / 10))

    def made(self):
        return Ledger.in_memory()

    def reopened(self):
        return copy.deepcopy(self.ledger)

    @rule(target=reserved, name=st.sampled_from(NAMES), tenths=st.integers(1, 4))
    def reserve(self, name, tenths):
        charge = suite.charge(tenths / 10, on=name)
        fits = self.spent[name] + tenths <= LIMITS[name]
        try:
            reservation = self.ledger.reserve(charge)
        except OverBudget:
            assert not fits
            return None
        assert fits
        self.spent[name] += tenths
        self.entries += 1
        assert reservation.witness.total == (self.spent[name] * 10**8, 0)
        assert reservation.witness.sequence == self.entries
        return reservation

    @rule(reservation=reserved)
    def ask_again(self, reservation):
        if reservation is not None:
            assert self.ledger.reserve(reservation.charge) == reservation

    @rule(reservation=reserved)
    def use_its_identity(self, reservation):
        if reservation is not None:
            with pytest.raises(AlreadyCharged):
                self.ledger.reserve(suite.charge(0.1, on="a", id=reservation.charge.id))

    @rule(target=settled, reservation=consumes(reserved), outcome=st.sampled_from(OUTCOMES))
    def settle(self, reservation, outcome):
        if reservation is None:
            return None
        self.ledger.settle(reservation, outcome)
        self.entries += 1
        return reservation, outcome

    @rule(known=settled, outcome=st.sampled_from(OUTCOMES))
    def settle_again(self, known, outcome):
        if known is None:
            return
        reservation, before = known
        if outcome == before:
            self.ledger.settle(reservation, outcome)
        else:
            with pytest.raises(AlreadyCharged):
                self.ledger.settle(reservation, outcome)

    @rule()
    def reopen(self):
        self.ledger = self.reopened()

    @invariant()
    def the_ledger_says_the_same(self):
        for name in NAMES:
            assert self.ledger.statement(name).total == (self.spent[name] * 10**8, 0)
        assert self.ledger.head().sequence == self.entries

    def teardown(self):
        found = audit(self.ledger)
        assert found.sound, found.findings
        assert found.totals == {name: (self.spent[name] * 10**8, 0) for name in NAMES}


class InMemory(Model):
    """Quick enough for many runs."""


TestInMemory = InMemory.TestCase
TestInMemory.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)


@pytest.mark.slow
def test_a_file_behaves_like_the_model(tmp_path_factory):
    class InFile(Model):
        def made(self):
            return Ledger.create(str(tmp_path_factory.mktemp("model") / "ledger.db"))

        def reopened(self):
            other = pickle.loads(pickle.dumps(self.ledger))
            return Ledger.open(other.url)

    from hypothesis.stateful import run_state_machine_as_test

    run_state_machine_as_test(
        InFile,
        settings=settings(
            max_examples=20,
            stateful_step_count=20,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow],
        ),
    )
