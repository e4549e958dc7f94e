"""Ledgers with the errors of services that keep one: the public suite must find each of them out."""

from contextlib import contextmanager

import attrs

from dpkit_core.errors import AlreadyCharged, OverBudget
from dpkit_core.ledger.entries import Entry
from dpkit_core.ledger.ledger import Ledger, Reservation
from dpkit_core.privacy.filters import Basic


class ChargesAfterwards(Ledger):
    """Looks whether the run fits, and charges when it has succeeded: two runs at once both fit."""

    def reserve(self, charge):
        left = self.account(charge.account).limits[0] - self.statement(charge.account).total[0]
        if self.price(charge)[0] > left:
            raise OverBudget("no budget left")
        return Reservation(charge, None)

    def settle(self, reservation, outcome, release=None):
        return super().settle(super().reserve(reservation.charge), outcome, release)


class Refunds(Ledger):
    """Gives the budget of failed runs back."""

    def statement(self, name):
        known = super().statement(name)
        entries = list(self.entries(name))
        failed = {entry.charge for entry in entries if entry.kind in ("failed", "vetoed")}
        back = sum(e.facts["cost"][0] for e in entries if e.kind == "reserved" and e.charge in failed)
        return attrs.evolve(known, total=(known.total[0] - back, known.total[1]))

    def reserve(self, charge):
        if (
            charge.claim.epsilon * 10**9
            <= self.account(charge.account).limits[0] - self.statement(charge.account).total[0]
        ):
            try:
                return super().reserve(charge)
            except OverBudget:
                return Reservation(charge, None)
        raise OverBudget("no budget left")


class SumsFloats(Ledger):
    """Adds up floating-point numbers."""

    def reserve(self, charge):
        spent = 0.0
        for entry in self.entries(charge.account):
            if entry.kind == "reserved":
                spent += entry.facts["epsilon"]
        if spent + charge.claim.epsilon > self.account(charge.account).budget.epsilon:
            raise OverBudget("no budget left")
        return super().reserve(charge)


class BudgetsPerUser(Ledger):
    """Gives each user the whole budget."""

    def reserve(self, charge):
        user = str(charge.about.get("by"))
        mine = 0
        for entry in self.entries(charge.account):
            if entry.kind == "reserved" and entry.facts["about"].get("by") == user:
                mine += entry.facts["cost"][0]
        if mine + self.price(charge)[0] > self.account(charge.account).limits[0]:
            raise OverBudget("no budget left")
        return Reservation(charge, _Always(self).reserve(charge).witness)


class _Always(Ledger):
    """Admits everything."""

    def __init__(self, ledger):
        super().__init__(ledger.store, ledger.id)

    def account(self, name):
        known = super().account(name)
        return attrs.evolve(known, measure=_Boundless(), limits=known.limits)


class _Boundless(Basic):
    def admits(self, total, limits, /):
        return True


class ForgetsIdentities(Ledger):
    """Charges again whoever asks again."""

    def reserve(self, charge):
        known = {entry.charge for entry in self.entries() if entry.kind == "reserved"}
        if charge.id in known:
            charge = attrs.evolve(charge, id=f"{charge.id}-again{len(known)}")
        return super().reserve(charge)


class RunsAgain(Ledger):
    """Takes any charge of a known identity for a retry, so that one charge pays for two runs."""

    def reserve(self, charge):
        try:
            return super().reserve(charge)
        except AlreadyCharged:
            (entry,) = [e for e in self.entries() if e.kind == "reserved" and e.charge == charge.id]
            return Reservation(charge, self._witness(self.account(charge.account), entry))


class ReadsBeforeItLocks(Ledger):
    """Reads what is left in one transaction and appends in another."""

    def reserve(self, charge):
        before = self.statement(charge.account).total
        account = self.account(charge.account)
        total = tuple(a + b for a, b in zip(before, self.price(charge), strict=True))
        if not account.measure.admits(total, account.limits):
            raise OverBudget("no budget left")
        with self.store.transaction(write=True) as transaction:
            entry = Entry.after(
                transaction.last(),
                "reserved",
                charge.to_document(self.price(charge)),
                account=charge.account,
                charge=charge.id,
                total=total,
            )
            transaction.append(entry)
        return Reservation(charge, self._witness(account, entry))


class CommitsLate(Ledger):
    """Answers before the charge is on the disk, and writes it down when the next one comes."""

    waiting: list = []  # noqa: RUF012 - that it is shared is its fault

    def reserve(self, charge):
        for late in self.waiting:
            super().reserve(late)
        self.waiting[:] = [charge]
        return Reservation(charge, None)

    def settle(self, reservation, outcome, release=None):
        return None


class LosesUndo(Ledger):
    """Keeps what was appended by a transaction that failed."""

    def __init__(self, store, identity, seen=None):
        super().__init__(_Autocommit(store), identity, seen)


class _Autocommit:
    def __init__(self, store):
        self.inner = store

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.inner, name)

    @contextmanager
    def transaction(self, *, write):
        error = None
        with self.inner.transaction(write=write) as transaction:
            try:
                yield transaction
            except BaseException as raised:
                error = raised
        if error is not None:
            raise error


class CountsDeltaNot(Ledger):
    """Has a limit for epsilon alone."""

    def account(self, name):
        known = super().account(name)
        return attrs.evolve(known, limits=(known.limits[0], None))
