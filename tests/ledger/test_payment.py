"""A run is charged before any part is given data, whatever starts it, and whatever becomes of it."""

import json
import os
import pickle
import subprocess
import sys

import pytest
from dpkit_command_ledger.audit import audit

from dpkit_core import Budget, Randomness, Release, compose
from dpkit_core.errors import (
    AlreadyCharged,
    Declined,
    DpkitError,
    InvalidData,
    InvalidLedger,
    InvalidOption,
    LedgerUnavailable,
    OverBudget,
    PartFailed,
    PlanViolation,
    Vetoed,
)
from dpkit_core.ledger.accounts import Account
from dpkit_core.ledger.ledger import Ledger, Reservation
from dpkit_core.ledger.store import InDoubt
from dpkit_core.pipeline.observers import Observers, hookimpl
from dpkit_core.pipeline.payment import EventLog
from dpkit_core.privacy.filters import FILTERS, filter_for

SEEN = []


@pytest.fixture(autouse=True)
def nothing_seen():
    SEEN.clear()


@pytest.fixture
def ledger(schema):
    ledger = Ledger.in_memory()
    ledger.add(Account("toys", schema, Budget(2.5, 1e-5)))
    return ledger


@pytest.fixture
def watching(toys):
    """A regressor that tells when it is given data."""

    class Watching(toys.MeanRegressor):
        def fit(self, data, plan, meter, /):
            SEEN.append("data")
            return super().fit(data, plan, meter)

    return Watching


@pytest.fixture
def watched(toys, schema, watching):
    """A plan of it."""
    return planned(toys, schema, watching())


def planned(toys, schema, regressor, budget=1.0):
    pipeline = compose(regressor=regressor, accountant=toys.PureAccountant())
    return pipeline.plan(schema, Budget(budget, 1e-6))


def kinds(ledger):
    return [entry.kind for entry in ledger.entries(after=2)]


def test_a_run_is_reserved_settled_and_witnessed(data, ledger, watched):
    release = watched.run(data, paid_by=ledger.payer("toys"))
    assert kinds(ledger) == ["reserved", "released"]
    witness = release.certificate.witness
    assert (witness.ledger, witness.account, witness.sequence) == (ledger.id, "toys", 3)
    assert witness.total == ledger.statement("toys").total == (10**9, 10**12)
    assert audit(ledger, [("r", release.to_document())]).confirmed == ("r",)
    words = " ".join(release.certificate.in_words())
    assert f"Charged to account toys, entry 3 of ledger {ledger.id}: epsilon 1 of 2.5" in words


def test_the_file_of_a_release_is_what_was_settled(data, ledger, watched, tmp_path):
    release = watched.run(data, paid_by=ledger.payer("toys"))
    path = tmp_path / "release.json"
    release.write(path)
    assert Release.read(path).certificate == release.certificate
    assert audit(ledger, [("r", json.loads(path.read_text()))]).confirmed == ("r",)
    assert audit(ledger, [("r", Release.read(path).to_document())]).confirmed == ("r",)
    document = json.loads(path.read_text())
    document["model"]["intercept"] += 0.5
    assert not audit(ledger, [("r", document)]).sound


def test_without_a_payer_nothing_changes(data, watched):
    certificate = watched.run(data).certificate
    assert certificate.witness is None
    assert "witness" not in certificate.to_document()


def test_a_run_that_does_not_fit_is_given_no_data(data, ledger, watched):
    plan = watched
    for _ in range(2):
        plan.run(data, paid_by=ledger.payer("toys"))
    SEEN.clear()
    told = []

    class Listener:
        @hookimpl
        def dpkit_finished(self, plan, outcome):
            told.append(outcome)

    with pytest.raises(OverBudget, match=r"epsilon 3 of 2\.5"):
        plan.run(data, paid_by=ledger.payer("toys"), observers=Observers([Listener()]))
    assert not SEEN
    assert told == ["declined"]
    assert kinds(ledger) == ["reserved", "released"] * 2


@pytest.mark.first(1)
@pytest.mark.parametrize(
    "error", [LedgerUnavailable("gone"), InDoubt("?"), OSError("disk"), KeyboardInterrupt()]
)
def test_a_ledger_that_fails_stops_the_run_whatever_it_raises(error, data, ledger, watched):
    payer = ledger.payer("toys")

    def fails(*, write):
        raise error

    ledger.store.transaction = fails
    with pytest.raises((DpkitError, OSError, KeyboardInterrupt)):
        watched.run(data, paid_by=payer)
    assert not SEEN


def test_bad_data_and_observers_that_decline_cost_nothing(data, ledger, watched):
    class No:
        @hookimpl
        def dpkit_reserve(self, plan):
            raise ValueError("not today")

    plan = watched
    with pytest.raises(InvalidData):
        plan.run(data.select([0, 1]), paid_by=ledger.payer("toys"))
    with pytest.raises(Declined, match="not today"):
        plan.run(data, paid_by=ledger.payer("toys"), observers=Observers([No()]))
    assert kinds(ledger) == []
    assert not SEEN


def test_every_end_of_a_run_is_settled_as_what_it_was_and_stays_spent(toys, schema, data, ledger):
    class Fails(toys.MeanRegressor):
        def fit(self, data, plan, meter, /):
            raise ZeroDivisionError

    class Breaks(toys.MeanRegressor):
        def fit(self, data, plan, meter, /):
            return self.model(data, 0.0)

    class Interrupted(toys.MeanRegressor):
        def fit(self, data, plan, meter, /):
            raise KeyboardInterrupt

    class Veto:
        @hookimpl
        def dpkit_before_release(self, release):
            raise ValueError("no")

    runs = [
        (toys.MeanRegressor(), None, None, "released"),
        (toys.MeanRegressor(refuse=True), None, None, "refused"),
        (Fails(), None, PartFailed, "failed"),
        (Breaks(), None, PlanViolation, "failed"),
        (Interrupted(), None, KeyboardInterrupt, "failed"),
        (toys.MeanRegressor(), Observers([Veto()]), Vetoed, "vetoed"),
    ]
    for regressor, observers, error, outcome in runs:
        plan = planned(toys, schema, regressor, 0.1)
        if error is None:
            plan.run(data, paid_by=ledger.payer("toys"), observers=observers)
        else:
            with pytest.raises(error):
                plan.run(data, paid_by=ledger.payer("toys"), observers=observers)
        assert kinds(ledger)[-2:] == ["reserved", outcome]
    assert ledger.statement("toys").total[0] == len(runs) * 10**8


def test_a_job_of_one_name_is_charged_once_and_runs_once(data, ledger, watched):
    plan, payer = watched, ledger.payer("toys", charge="nightly")
    plan.run(data, paid_by=payer)
    with pytest.raises(AlreadyCharged, match=r"nightly is entry 3 .* released: it is spent"):
        plan.run(data, paid_by=payer)
    assert SEEN == ["data"]


def test_no_account_pays_for_what_is_not_private(schema, data, ledger, watched):
    plan = watched
    with pytest.raises(
        Declined, match="no account pays for a run that is not private: the noise comes from a seed"
    ):
        plan.run(data, paid_by=ledger.payer("toys"), randomness=Randomness.from_seed(1))
    loose = compose(regressor="ols").plan(schema, Budget(1.0, 1e-6))
    with pytest.raises(Declined, match="not private"):
        loose.run(data, paid_by=ledger.payer("toys"))
    assert kinds(ledger) == []
    assert not SEEN


def test_an_account_of_another_table_pays_for_nothing(schema, data, watched):
    ledger = Ledger.in_memory()
    ledger.add(Account("others", schema.restrict(["a", "b"]), Budget(2.5, 1e-5)))
    with pytest.raises(InvalidLedger, match="its table has no column 'c'"):
        watched.run(data, paid_by=ledger.payer("others"))
    assert not SEEN


@pytest.mark.parametrize("measure", FILTERS)
def test_every_measure_charges_a_run_of_the_shipped_parts(measure, schema, data):
    ledger, budget = Ledger.in_memory(), Budget(3.0, 1e-5)
    ledger.add(Account("toys", schema, budget, filter_for(measure, budget)))
    plan = compose(scorer="kendall", selector="peel", regressor="mean").plan(schema, Budget(1.0, 1e-6), k=2)
    releases = [plan.run(data, paid_by=ledger.payer("toys")) for _ in range(2)]
    found = audit(ledger, [(str(i), release.to_document()) for i, release in enumerate(releases)])
    assert found.sound
    assert found.confirmed == ("0", "1")


def test_a_settlement_that_cannot_be_written_holds_no_release_back(toys, schema, data, ledger, monkeypatch):
    payer = ledger.payer("toys")

    def gone(*arguments):
        raise LedgerUnavailable("the connection is gone")

    monkeypatch.setattr(ledger, "settle", gone)
    with pytest.warns(
        RuntimeWarning, match="ended as released could not be written down: the connection is gone"
    ):
        release = planned(toys, schema, toys.MeanRegressor()).run(data, paid_by=payer)
    assert kinds(ledger) == ["reserved"]
    found = audit(ledger, [("r", release.to_document())])
    assert found.sound
    assert [finding.fault for finding in found.findings] == ["unsettled", "unsettled"]
    assert found.confirmed == ()


FORKS = """
import os, pickle, sys
sys.path[:] = {path!r}
import doubles
import numpy as np
from dpkit_core import Budget, Dataset, Schema, compose
from dpkit_core.errors import BudgetSpent
from dpkit_core.ledger.ledger import Ledger

class Forks(doubles.MeanRegressor):
    def fit(self, data, plan, meter, /):
        global child
        child = os.fork()
        return super().fit(data, plan, meter)

schema = Schema.numeric(["a", "b", "c", "d"], target="y", bounds={{"y": (-1, 1)}})
data = Dataset.from_arrays(np.ones((20, 4)), np.ones(20), schema)
ledger = Ledger.open(sys.argv[1])
plan = compose(regressor=Forks(), accountant=doubles.PureAccountant()).plan(schema, Budget(1.0, 1e-6))
try:
    plan.run(data, paid_by=ledger.payer("toys"))
    code = 0
except BudgetSpent:
    code = 4
if child == 0:
    os._exit(code)
_, status = os.waitpid(child, 0)
print(code, os.waitstatus_to_exitcode(status))
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_run_that_forks_releases_and_settles_in_one_process_alone(schema, tmp_path):
    ledger = Ledger.create(str(tmp_path / "ledger.db"))
    ledger.add(Account("toys", schema, Budget(2.5, 1e-5)))
    script = FORKS.format(path=sys.path)
    done = subprocess.run(
        [sys.executable, "-c", script, ledger.url], capture_output=True, text=True, check=False
    )
    assert done.stdout.split() == ["0", "4"], done.stderr
    assert kinds(ledger) == ["reserved", "released"]
    assert audit(ledger).sound


def test_a_payer_survives_what_estimators_do_to_their_options(ledger, schema, tmp_path):
    filed = Ledger.create(str(tmp_path / "ledger.db"))
    filed.add(Account("toys", schema, Budget(2.5, 1e-5)))
    payer = filed.payer("toys")
    again = pickle.loads(pickle.dumps(payer))
    assert (again.account, again.ledger.id, again.ledger.url) == ("toys", filed.id, filed.url)
    sklearn = pytest.importorskip("sklearn.base")

    class Estimator(sklearn.BaseEstimator):
        def __init__(self, paid_by=None):
            self.paid_by = paid_by

    copied = sklearn.clone(Estimator(payer))
    assert copied.paid_by.ledger is payer.ledger


def test_what_is_no_payer_is_refused_before_anything_is_spent(data, ledger, watched):
    class Generous(Ledger):
        def reserve(self, charge):
            return Reservation(charge, None)

    generous = Generous(ledger.store, ledger.id)
    for other in ("toys", ledger, ledger.account("toys"), generous.payer("toys")):
        with pytest.raises(InvalidOption, match=r"give ledger\.payer"):
            watched.run(data, paid_by=other)
    for identity in (5, "", "two\nlines", "x" * 201, "half \ud800"):
        with pytest.raises(InvalidLedger, match="printable"):
            watched.run(data, paid_by=ledger.payer("toys", charge=identity))
    assert kinds(ledger) == []
    assert not SEEN


def test_a_charge_that_cannot_be_logged_is_settled_as_failed(data, ledger, watched, monkeypatch, tmp_path):
    def refuses(self, event, facts):
        if event == "reserved":
            raise LedgerUnavailable("the log is full")

    monkeypatch.setattr("dpkit_core.pipeline.payment.EventLog.write", refuses)
    with pytest.raises(LedgerUnavailable, match="the log is full"):
        watched.run(data, paid_by=ledger.payer("toys"))
    assert kinds(ledger) == ["reserved", "failed"]
    assert not SEEN


def test_a_line_that_was_written_in_part_is_an_error(tmp_path, monkeypatch):
    log = EventLog(tmp_path / "runs.jsonl")
    log.write("reserved", {"charge": "a\nb"})
    write = os.write
    monkeypatch.setattr(os, "write", lambda file, line: write(file, line[:10]))
    with pytest.raises(LedgerUnavailable, match="cannot write the log"):
        log.write("reserved", {"charge": "x"})
    first = (tmp_path / "runs.jsonl").read_text().splitlines()[0]
    assert json.loads(first)["charge"] == "a\nb"


KILLED = """
import os, signal, sys
sys.path[:] = {path!r}
import doubles
import numpy as np
from dpkit_core import Budget, Dataset, Schema, compose
from dpkit_core.ledger.ledger import Ledger

def die(*arguments, **more):
    os.kill(os.getpid(), signal.SIGKILL)

class Dies(doubles.MeanRegressor):
    def fit(self, data, plan, meter, /):
        if sys.argv[2] == "fit":
            die()
        return super().fit(data, plan, meter)

schema = Schema.numeric(["a", "b", "c", "d"], target="y", bounds={{"y": (-1, 1)}})
data = Dataset.from_arrays(np.ones((20, 4)), np.ones(20), schema)
ledger = Ledger.open(sys.argv[1])
if sys.argv[2] == "settle":
    Ledger.settle = die
if sys.argv[2] == "reserve":
    Ledger.reserve = die
plan = compose(regressor=Dies(), accountant=doubles.PureAccountant()).plan(schema, Budget(1.0, 1e-6))
print(plan.run(data, paid_by=ledger.payer("toys", charge="nightly")))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("moment", "left"),
    [("reserve", []), ("fit", ["reserved"]), ("settle", ["reserved"]), ("never", ["reserved", "released"])],
)
def test_a_run_that_is_killed_is_charged_if_a_part_was_given_data(moment, left, schema, tmp_path):
    ledger = Ledger.create(str(tmp_path / "ledger.db"))
    ledger.add(Account("toys", schema, Budget(2.5, 1e-5)))
    command = [sys.executable, "-c", KILLED.format(path=sys.path), ledger.url, moment]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode == 0) is (moment == "never"), done.stderr
    assert bool(done.stdout) is (moment == "never")  # nothing was released
    assert kinds(ledger) == left
    assert audit(ledger).sound
    if left:  # a job that is started again does not run again
        again = subprocess.run([*command[:-1], "never"], capture_output=True, text=True, check=False)
        assert "AlreadyCharged" in again.stderr
