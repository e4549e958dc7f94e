"""The errors of services that keep a budget, each as a small ledger: the public suite finds all of them."""

import naive_ledgers as naive
import pytest
from dpkit_ledger_sqlite import promises as suite

FOUND_BY = {
    naive.ChargesAfterwards: suite.check_charged_before_the_run,
    naive.Refunds: suite.check_nothing_is_given_back,
    naive.SumsFloats: suite.check_sums_are_exact,
    naive.BudgetsPerUser: suite.check_users_do_not_pool,
    naive.CountsDeltaNot: suite.check_delta_is_a_limit_too,
    naive.ForgetsIdentities: suite.check_asked_twice_is_charged_once,
    naive.RunsAgain: suite.check_asked_twice_is_charged_once,
    naive.LosesUndo: suite.check_undone_is_undone,
    naive.ReadsBeforeItLocks: suite.check_racers_never_spend_too_much,
    naive.CommitsLate: suite.check_killed_runs_are_charged,
}


@pytest.mark.slow
@pytest.mark.parametrize("ledger", FOUND_BY, ids=lambda ledger: ledger.__name__)
def test_the_suite_finds_it_out(ledger, tmp_path):
    numbers = iter(range(1000))
    check = FOUND_BY[ledger]

    def five_times():  # a race may be won by chance
        for _ in range(5):
            check(lambda: ledger.create(str(tmp_path / f"{next(numbers)}.db")))

    with pytest.raises(suite.PromiseBroken):
        five_times()
