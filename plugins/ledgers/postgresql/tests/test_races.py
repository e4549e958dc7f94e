"""Sixteen processes race for the last of a budget, again and again."""

import pytest
from dpkit_ledger_sqlite import promises as suite

from dpkit_core.ledger.ledger import Ledger


@pytest.mark.parametrize(
    "rounds",
    [pytest.param(5, marks=pytest.mark.slow), pytest.param(1000, marks=pytest.mark.exhaustive)],
)
def test_races_are_never_won_by_one_too_many(rounds, server):
    suite.check_racers_never_spend_too_much(lambda: Ledger.create(server.url()), rounds=rounds)
