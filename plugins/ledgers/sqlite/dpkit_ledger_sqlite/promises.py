"""The promises of every ledger backend, as checks that any backend can run.

In the tests of a backend::

    from dpkit_ledger_sqlite.promises import CHECKS

    @pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
    def test_backend(check, database):
        check(lambda: Ledger.create(database.url()))

Each check takes a function that creates a new ledger, and raises ``PromiseBroken`` if a promise is broken.
Most start other processes, which open the ledger themselves.

The checks are about behavior: charge first, never refund, count exactly, one account for all users, one
charge for repeated requests, and all of that for processes that race or are killed.
"""

from __future__ import annotations

import copy
import functools
import os
import pickle
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import attrs

from dpkit_core.data.schema import Schema
from dpkit_core.errors import AlreadyCharged, DpkitError, InvalidLedger, OverBudget
from dpkit_core.ledger.accounts import Account
from dpkit_core.ledger.entries import NOTHING, OUTCOMES, Charge
from dpkit_core.ledger.ledger import Ledger
from dpkit_core.ledger.store import InDoubt, Store, Transaction
from dpkit_core.privacy.budget import Budget, Neighboring
from dpkit_core.privacy.events import PureDP
from dpkit_core.privacy.filters import Basic, Claim, Ticks, add

Fresh: TypeAlias = Callable[[], Ledger]
"""Creates a new ledger without accounts."""

SCHEMA = Schema.numeric(["a", "b"], target="y", bounds={"a": (0, 1)})

#: The number of processes that race for the rest of a budget, and how many of them it can pay for.
RACERS, PLACES = 16, 5


class PromiseBroken(AssertionError):
    """A promise that a backend does not keep."""


def account(name: str = "diamonds", epsilon: float = 1.0, delta: float = 1e-6) -> Account:
    """Return an account for the checks, which adds up epsilons and deltas."""
    return Account(name, SCHEMA, Budget(epsilon, delta), Basic())


def charge(epsilon: float = 0.1, delta: float = 0.0, *, on: str = "diamonds", **facts: Any) -> Charge:
    """Return a charge for a run with this cost; ``facts`` as for ``Charge``."""
    relation = Neighboring.ADD_OR_REMOVE_ONE
    claim = Claim(epsilon, delta, (PureDP(epsilon, relation),), relation)
    return Charge(on, claim, SCHEMA, "0" * 64, **facts)


def require(kept: bool, promise: str) -> None:
    """Raise ``PromiseBroken`` unless a promise was kept."""
    if not kept:
        raise PromiseBroken(f"the ledger broke a promise: {promise}")


def granted(ledger: Ledger, epsilon: float = 0.1, most: int = 100, **facts: Any) -> int:
    """Return how many equal charges are admitted in a row, up to ``most``."""
    for count in range(most):
        try:
            ledger.reserve(charge(epsilon, **facts))
        except OverBudget:
            return count
    return most


def _opened(fresh: Fresh, *accounts: Account) -> Ledger:
    ledger = fresh()
    for each in accounts or (account(),):
        ledger.add(each)
    return ledger


def check_charged_before_the_run(fresh: Fresh) -> None:
    """A reservation is spent at once, for every handle, even if it is never settled."""
    ledger = _opened(fresh)
    reservation = ledger.reserve(charge(0.7))
    require(ledger.statement("diamonds").total == (700_000_000, 0), "a reservation counts as spent at once")
    require(granted(ledger, 0.7) == 0, "a run that is under way has its budget")
    require(
        ledger.head().hash == reservation.witness.head, "the witness has the hash of the reservation's entry"
    )


def check_nothing_is_given_back(fresh: Fresh) -> None:
    """A charge stays however its run ends."""
    ledger = _opened(fresh, account(epsilon=0.1 * len(OUTCOMES)))
    for outcome in OUTCOMES:
        ledger.settle(ledger.reserve(charge()), outcome)
    require(granted(ledger) == 0, f"runs that ended as {', '.join(OUTCOMES)} are spent")


def check_sums_are_exact(fresh: Fresh) -> None:
    """Three charges of 0.1 fit into 0.3, and a billionth more does not."""
    ledger = _opened(fresh, account(epsilon=0.3))
    require(granted(ledger, most=3) == 3, "three runs of 0.1 fit into 0.3")
    require(granted(ledger, 1e-9) == 0, "nothing fits into an account that is spent")
    ledger = _opened(fresh, account(epsilon=1e6))
    ledger.reserve(charge(1e6 - 1e-9))
    require(granted(ledger, 1e-9) == 1, "a charge counts, however small it is relative to the total")


def check_delta_is_a_limit_too(fresh: Fresh) -> None:
    """Both sums have a limit."""
    ledger = _opened(fresh, account(epsilon=100.0, delta=3e-6))
    require(granted(ledger, delta=1e-6) == 3, "runs of delta 1e-6 fit into 3e-6 three times")


def check_users_do_not_pool(fresh: Fresh) -> None:
    """The remaining budget does not depend on who asks."""
    ledger = _opened(fresh)
    count = sum(granted(ledger, most=7, about={"by": user}) for user in ("ann", "bo", "cy"))
    require(count == 10, "all users together spend one budget")


def check_accounts_are_separate(fresh: Fresh) -> None:
    """An account does not spend the budget of another."""
    ledger = _opened(fresh, account("a"), account("b", 0.5))
    require(granted(ledger, on="a") == 10, "account a has its own budget")
    require(granted(ledger, on="b") == 5, "account b has its own budget")
    totals = {each.account.name: each.total for each in ledger.accounts()}
    require(totals == {"a": (10**9, 0), "b": (5 * 10**8, 0)}, "each account has its own total")


def check_what_is_refused_leaves_nothing(fresh: Fresh) -> None:
    """A run that does not fit is not recorded, and a smaller one still fits."""
    ledger = _opened(fresh)
    before = ledger.head()
    _refused(OverBudget, lambda: ledger.reserve(charge(1.1)))
    _refused(InvalidLedger, lambda: ledger.reserve(charge(on="emeralds")))
    other = attrs.evolve(charge(), schema=Schema.numeric(["a", "b"], target="y", bounds={"a": (0, 2)}))
    _refused(InvalidLedger, lambda: ledger.reserve(other))
    replaced = attrs.evolve(SCHEMA, neighboring=Neighboring.REPLACE_ONE)
    _refused(InvalidLedger, lambda: ledger.reserve(attrs.evolve(charge(), schema=replaced)))
    require(ledger.head() == before, "a refused charge is not recorded")
    require(granted(ledger, 1.0) == 1, "a charge within the budget still fits")


def check_asked_twice_is_charged_once(fresh: Fresh) -> None:
    """A charge may be requested again; a different charge with its identity may not."""
    ledger = _opened(fresh)
    mine = charge(0.3, id="nightly")
    first = ledger.reserve(mine)
    require(ledger.reserve(mine).witness == first.witness, "the same charge is the same entry")
    require(
        copy.copy(ledger).reserve(mine).witness == first.witness,
        "from any handle",
    )
    _refused(AlreadyCharged, lambda: ledger.reserve(charge(0.1, id="nightly")))
    ledger.settle(first, "released", "1" * 64)
    _refused(AlreadyCharged, lambda: ledger.reserve(mine))
    require(ledger.statement("diamonds").total[0] == 300_000_000, "it was charged once")


def check_settled_for_good(fresh: Fresh) -> None:
    """A settlement can be repeated, not changed; only a reserved charge can be settled."""
    ledger = _opened(fresh)
    reservation = ledger.reserve(charge())
    entry = ledger.settle(reservation, "failed")
    require(ledger.settle(reservation, "failed") == entry, "repeating a settlement changes nothing")
    _refused(AlreadyCharged, lambda: ledger.settle(reservation, "released", "1" * 64))
    elsewhere = _opened(fresh).reserve(charge())
    _refused(InvalidLedger, lambda: ledger.settle(elsewhere, "failed"))


def check_accounts_never_change(fresh: Fresh) -> None:
    """A second account of the same name is refused."""
    ledger = _opened(fresh)
    _refused(InvalidLedger, lambda: ledger.add(account(epsilon=100.0)))
    require(granted(ledger) == 10, "the budget is the first one")


def check_entries_are_chained(fresh: Fresh) -> None:
    """Entries are numbered without a gap, and each has the hash of the one before."""
    ledger = _opened(fresh)
    for outcome in OUTCOMES:
        ledger.settle(ledger.reserve(charge()), outcome)
    entries = list(ledger.entries())
    require([entry.sequence for entry in entries] == list(range(1, 11)), "entries are numbered 1, 2, 3 ...")
    require(all(entry.intact for entry in entries), "each entry has its own hash")
    links = [entry.previous for entry in entries[1:]]
    require(links == [entry.hash for entry in entries[:-1]], "each entry has the hash of the one before")
    later = [entry.sequence for entry in ledger.entries(after=8)]
    require(later == [9, 10], "entries can be read from any number on")
    for page in (1, 3, 100):
        require(list(ledger.newest(page=page)) == entries[::-1], "entries can be read from the last one on")
    newest = [entry.sequence for entry in ledger.newest("diamonds", page=4)]
    require(newest == list(range(10, 1, -1)), "entries of an account can be read from its last one on")
    counts = [ledger.count("diamonds"), ledger.count("diamonds", "reserved"), ledger.count("emeralds")]
    require(counts == [9, 4, 0], "entries of an account are counted")
    require(_sound(ledger), "entries follow one another, and totals are the sums of their charges")


def check_handles_are_one_ledger(fresh: Fresh) -> None:
    """Copies of a handle, pickled ones included, and the ledger opened again all spend one budget."""
    ledger = _opened(fresh)
    handles = [ledger, copy.copy(ledger), copy.deepcopy(ledger), pickle.loads(pickle.dumps(ledger))]
    handles.append(type(ledger).open(ledger.url))
    require({handle.id for handle in handles} == {ledger.id}, "all have one identity")
    require(sum(granted(handle, most=3) for handle in handles) == 10, "all spend one budget")


def check_undone_is_undone(fresh: Fresh) -> None:
    """A transaction that raises leaves nothing behind, and later ones work."""
    ledger = _opened(fresh)
    before = list(ledger.entries())
    for interrupt in (ValueError, KeyboardInterrupt):
        flawed = _troubled(ledger, "raise", interrupt)
        _refused(interrupt, functools.partial(flawed.reserve, charge()))
    require(list(ledger.entries()) == before, "an exception in a transaction undoes it")
    require(granted(ledger) == 10, "the ledger still works")


def check_interruptions_charge_once(fresh: Fresh) -> None:
    """A transaction that is repeated, or whose answer was lost, charges once."""
    for trouble in ("before", "after"):
        ledger = _opened(fresh)
        flaky = _troubled(ledger, trouble, InDoubt)
        reservation = flaky.reserve(charge())
        flaky.settle(reservation, "released", "1" * 64)
        count = len(list(ledger.entries()))
        require(count == 4, f"interrupted {trouble} the end, it is charged and settled once")


def check_racers_never_spend_too_much(fresh: Fresh, rounds: int = 2) -> None:
    """Of 16 processes that race for the rest of a budget, exactly as many succeed as it pays for."""
    ledger = _opened(fresh, *(account(f"round{number}", 0.1 * PLACES) for number in range(rounds)))
    with ExitStack() as stack:
        racers = [stack.enter_context(_worker(_RACER, ledger)) for _ in range(RACERS)]
        for racer in racers:
            _line(racer)
        for number in range(rounds):
            for racer in racers:
                _send(racer, pickle.dumps(charge(0.1, on=f"round{number}")).hex())
            places = sum(_line(racer) == "granted" for racer in racers)
            require(places == PLACES, f"{PLACES} of {RACERS} racers should be admitted, {places} were")
    require(_sound(ledger), "after a race, entries follow one another, and totals are sums")


def check_killed_runs_are_charged(fresh: Fresh, most: int = 60) -> None:
    """At whatever step a process is killed, its releases are charged, and the ledger still works."""
    ledger = _opened(fresh, account(epsilon=1e6))
    with tempfile.TemporaryDirectory() as folder:
        for step in range(most):
            mine = charge(id=f"run{step}")
            with _worker(_VICTIM, (ledger, mine, step, folder)) as victim:
                finished = _line(victim) == "finished"
            released = {path.name for path in Path(folder).iterdir()}
            charged = {entry.charge for entry in ledger.entries() if entry.kind == "reserved"}
            require(released <= charged, f"killed at step {step}, a run had released without a charge")
            require(_sound(ledger), f"killed at step {step}, the ledger is sound")
            if finished:
                return
    raise PromiseBroken(f"the run did not finish within {most} steps; allow more")


def check_killed_at_any_moment(fresh: Fresh, kills: int = 5) -> None:
    """At whatever moment a process is killed, even during a commit, its releases are charged."""
    ledger = _opened(fresh, account(epsilon=1e6))
    with tempfile.TemporaryDirectory() as folder:
        for number in range(kills):
            with _worker(_BUSY, (ledger, folder, [charge(id=f"{number}-{i}") for i in range(500)])) as busy:
                _line(busy)
                time.sleep(random.Random(number).uniform(0.0, 0.2))
                busy.send_signal(signal.SIGKILL)
                busy.wait()
            released = {path.name for path in Path(folder).iterdir()}
            charged = {entry.charge for entry in ledger.entries() if entry.kind == "reserved"}
            require(released <= charged, "a killed process had released without a charge")
            require(_sound(ledger), "after a process was killed, the ledger is sound")
    ledger.reserve(charge())


def check_forked_processes_spend_one_budget(fresh: Fresh) -> None:
    """A handle that a forked process inherits works there, and spends the same budget."""
    ledger = _opened(fresh)
    granted(ledger, most=4)
    with _worker(_FORKER, (ledger, [charge() for _ in range(10)])) as forker:
        places = int(_line(forker))
    require(places == 6, f"parent and child should be admitted 6 times together, they were {places} times")


CHECKS: tuple[Callable[[Fresh], None], ...] = (
    check_charged_before_the_run,
    check_nothing_is_given_back,
    check_sums_are_exact,
    check_delta_is_a_limit_too,
    check_users_do_not_pool,
    check_accounts_are_separate,
    check_what_is_refused_leaves_nothing,
    check_asked_twice_is_charged_once,
    check_settled_for_good,
    check_accounts_never_change,
    check_entries_are_chained,
    check_undone_is_undone,
    check_interruptions_charge_once,
    check_handles_are_one_ledger,
    check_racers_never_spend_too_much,
    check_killed_runs_are_charged,
    check_killed_at_any_moment,
    *((check_forked_processes_spend_one_budget,) if hasattr(os, "fork") else ()),
)

#: The checks that need no second process, which a ledger in memory passes as well.
WITHIN_ONE_PROCESS = CHECKS[: CHECKS.index(check_handles_are_one_ledger)]


def _refused(error: type[BaseException], action: Callable[[], object]) -> None:
    try:
        action()
    except error:
        return
    except DpkitError as other:
        raise PromiseBroken(f"{error.__name__} should be raised, and it was {other!r}") from other
    raise PromiseBroken(f"{error.__name__} should be raised, and nothing was")


def _sound(ledger: Ledger) -> bool:
    """Return whether entries are chained, and each total is the sum of the charges before it."""
    previous, totals = NOTHING, dict[str, Ticks]()
    for number, entry in enumerate(ledger.entries(), start=1):
        if (entry.sequence, entry.previous, entry.intact) != (number, previous, True):
            return False
        if entry.kind == "reserved":
            total = add(totals[entry.account], tuple(entry.facts["cost"]))
            if not ledger.account(entry.account).measure.admits(total, ledger.account(entry.account).limits):
                return False
            totals[entry.account] = total
        if entry.ticks != totals.setdefault(entry.account, entry.ticks):
            return False
        previous = entry.hash
    return True


def _troubled(ledger: Ledger, trouble: str, error: type[BaseException]) -> Ledger:
    store: Any = _Troubled(ledger.store, trouble, error)
    return type(ledger)(store, ledger.id)


class _Troubled:
    """A backend whose first writing transaction fails: before or after its end, or within."""

    def __init__(self, store: Store, trouble: str, error: type[BaseException]) -> None:
        self._store = store
        self._trouble = trouble
        self._error = error

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    @contextmanager
    def transaction(self, *, write: bool) -> Iterator[Transaction]:
        trouble = self._trouble if write else ""
        with self._store.transaction(write=write) as transaction:
            yield transaction
            if trouble == "before":
                self._trouble = ""
                raise self._error("as the check wants it")
            if trouble == "raise":
                raise self._error("as the check wants it")
        if trouble == "after":
            self._trouble = ""
            raise self._error("as the check wants it")


# Workers import only what the ledger needs, so that sixteen of them start quickly.
_GET = """
import os, pickle, signal, sys
from contextlib import contextmanager
sys.path[:] = {path!r}
from dpkit_core.errors import OverBudget
from dpkit_core.ledger.ledger import Ledger

given = pickle.loads(bytes.fromhex(sys.stdin.readline()))

def say(word):
    print(word, flush=True)
"""
_RACER = """
say("ready")
for line in sys.stdin:
    try:
        given.reserve(pickle.loads(bytes.fromhex(line)))
        say("granted")
    except OverBudget:
        say("refused")
"""
_VICTIM = """
ledger, charge, steps, folder = given

def step():
    global steps
    if steps == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    steps -= 1

class Transaction:
    def __init__(self, transaction):
        self.transaction = transaction

    def __getattr__(self, name):
        method = getattr(self.transaction, name)
        def stepped(*arguments):
            step()
            result = method(*arguments)
            step()
            return result
        return stepped

class Store:
    def __init__(self, store):
        self.store = store

    def __getattr__(self, name):
        return getattr(self.store, name)

    @contextmanager
    def transaction(self, *, write):
        if not write:
            with self.store.transaction(write=write) as transaction:
                yield transaction
            return
        step()
        with self.store.transaction(write=write) as transaction:
            yield Transaction(transaction)
        step()

ledger = type(ledger)(Store(ledger.store), ledger.id)
reservation = ledger.reserve(charge)
step()
open(os.path.join(folder, charge.id), "w").close()
step()
ledger.settle(reservation, "released", "0" * 64)
say("finished")
"""
_BUSY = """
ledger, folder, charges = given
for charge in charges:
    reservation = ledger.reserve(charge)
    open(os.path.join(folder, charge.id), "w").close()
    ledger.settle(reservation, "released", "0" * 64)
    say("one more")
"""
_FORKER = """
ledger, charges = given
ledger.statement("diamonds")
child = os.fork()
admitted = 0
for charge in charges[:5] if child else charges[5:]:
    try:
        ledger.reserve(charge)
        admitted += 1
    except OverBudget:
        pass
if child == 0:
    os._exit(admitted)
_, status = os.waitpid(child, 0)
say(admitted + os.waitstatus_to_exitcode(status))
"""


@contextmanager
def _worker(script: str, given: object) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", _GET.format(path=sys.path) + script]
    worker = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        _send(worker, pickle.dumps(given).hex())
        yield worker
    finally:
        if worker.stdin is not None:
            worker.stdin.close()
        try:
            worker.wait(timeout=60)
        except subprocess.TimeoutExpired:
            worker.send_signal(signal.SIGKILL)
            worker.wait()
        if worker.stdout is not None:
            worker.stdout.close()


def _send(worker: subprocess.Popen[str], line: str) -> None:
    assert worker.stdin is not None
    worker.stdin.write(line + "\n")
    worker.stdin.flush()


def _line(worker: subprocess.Popen[str]) -> str:
    assert worker.stdout is not None
    return worker.stdout.readline().strip()
