"""The ledger decides, in one transaction and before any part gets data, which run may spend from a budget.

A run is *reserved* and then *settled*. What is reserved is spent, however the run ends: there are no refunds,
because no one can know what a failed run has shown to whom. The settlement records how the run ended and the
digest of the release, for people and for the audit.

    in a transaction:     read the account's last total, add the cost, compare with the limits, append

That transaction alone keeps two runs from spending the same budget. Costs are computed before it, and it
reads three entries whatever the length of the ledger. Each of them is checked against its own hash.
"""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Self, TypeVar, cast

import attrs

from dpkit_core._version import __version__
from dpkit_core.errors import AlreadyCharged, InvalidLedger, LedgerUnavailable, OverBudget
from dpkit_core.ledger.accounts import Account
from dpkit_core.ledger.entries import OUTCOMES, Charge, Entry, Settlement
from dpkit_core.ledger.store import InDoubt, MemoryStore, Store, Transaction
from dpkit_core.plugins.registry import load_target
from dpkit_core.plugins.resources import find_resource, require_resource
from dpkit_core.privacy.filters import Ticks, add, filter_to_document
from dpkit_core.release.certificate import Witness

FORMAT = "dpkit-ledger"
FORMAT_VERSION = 1

#: How often a transaction whose outcome is unknown is attempted.
_ATTEMPTS = 8
_PAGE = 1000

#: The backends of dpkit: the purpose of each, and the extra that installs it.
_OWN = {"sqlite": ("a ledger in a file", "starter"), "postgresql": ("a ledger in PostgreSQL", "postgresql")}

T = TypeVar("T")


@attrs.frozen
class Head:
    """The end of a ledger: the number of its last entry and that entry's hash, which covers all of them."""

    sequence: int
    hash: str


@attrs.frozen
class Statement:
    """What an account has spent.

    Attributes
    ----------
    account
        What was fixed when it was opened.
    total
        The sum of all its charges.
    """

    account: Account
    total: Ticks

    def in_words(self) -> str:
        """Return what is spent, and of which limits, in words."""
        return self.account.measure.in_words(self.total, self.account.limits)


@attrs.frozen
class Reservation:
    """A charge that was admitted: the run may begin, and is paid for however it ends."""

    charge: Charge
    witness: Witness


@attrs.frozen
class Payer:
    """An account that pays for runs: ``plan.run(data, paid_by=ledger.payer("diamonds"))``.

    Attributes
    ----------
    ledger
        The ledger that has the account.
    account
        Its name.
    charge
        Identity of the charge of a single run, such as the name of a nightly job: a second run with it is
        refused. A new one for each run by default.
    """

    ledger: Ledger
    account: str
    charge: str | None = None


class Ledger:
    """A handle on a ledger, made by ``create``, ``open`` or ``in_memory``.

    It holds no connection. A copy of it, by ``copy``, ``pickle``, ``sklearn.base.clone`` or joblib, is a
    handle on the same ledger; one in memory cannot be pickled.

    A handle remembers the last entry that it saw. If the ledger no longer has it, an old copy has taken its
    place, and the handle refuses to charge.
    """

    def __init__(self, store: Store, identity: str, seen: Head | None = None) -> None:
        self._store = store
        self._identity = identity
        self._seen = seen
        self._accounts: dict[str, Account] = {}

    @classmethod
    def create(cls, url: str) -> Self:
        """Return a new ledger.

        Parameters
        ----------
        url
            Path of a file that does not exist, or the URL of another backend.

        Raises
        ------
        InvalidLedger
            If there is a ledger already, or something else, or the place is not safe for one.
        """
        return cls._made(store_for(url).create(url))

    @classmethod
    def open(cls, url: str) -> Self:
        """Return the ledger that ``create`` made.

        Raises
        ------
        InvalidLedger
            If there is none.
        """
        store = store_for(url).open(url)
        ledger = cls._found(store)
        if ledger is None:
            raise InvalidLedger(f"{store.shown} holds no ledger; create one there")
        return ledger

    @classmethod
    def create_or_open(cls, url: str) -> Self:
        """Return the ledger at a URL, or a new one if there is none.

        Raises
        ------
        InvalidLedger
            If there is something else, or the place is not safe for a ledger.
        """
        return cls.on(store_for(url).create(url))

    @classmethod
    def in_memory(cls) -> Self:
        """Return a ledger that this process keeps while it lives."""
        return cls._made(MemoryStore.create())

    @classmethod
    def on(cls, store: Store) -> Self:
        """Return the ledger that a backend holds; a new one if it holds no entry."""
        return cls._found(store) or cls._made(store)

    @classmethod
    def _made(cls, store: Store) -> Self:
        identity = uuid.uuid4().hex
        about = {"format": FORMAT, "version": FORMAT_VERSION, "dpkit": __version__}
        body = {"id": identity, "at": now(), **about}

        def begin(transaction: Transaction) -> Entry:
            first = transaction.at(1)
            if first is None:
                first = Entry.after(None, "ledger", body)
                transaction.append(first)
            elif first.facts.get("id") != identity:  # else an attempt of ours that was interrupted
                raise InvalidLedger(f"{store.shown} is a ledger already; open it, or create one elsewhere")
            return first

        first = repeated(store, begin, write=True)
        return cls(store, identity, Head(first.sequence, first.hash))

    @classmethod
    def _found(cls, store: Store) -> Self | None:
        first = repeated(store, lambda transaction: transaction.at(1), write=False)
        if first is None:
            return None
        facts = first.facts if first.intact else {}
        if facts.get("format") != FORMAT:
            raise InvalidLedger(f"the first entry of {store.shown} is damaged, or it is not a dpkit ledger")
        if facts.get("version") != FORMAT_VERSION:
            raise InvalidLedger(
                f"{store.shown} has format version {facts.get('version')}; this dpkit reads "
                f"{FORMAT_VERSION}. Upgrade dpkit"
            )
        return cls(store, str(facts["id"]))

    @property
    def id(self) -> str:
        """Identity of the ledger; its copies have the same."""
        return self._identity

    @property
    def store(self) -> Store:
        """Where its entries are kept."""
        return self._store

    @property
    def url(self) -> str:
        """What opens it; it may hold a password."""
        return self._store.url

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._store.shown!r})"

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def __getstate__(self) -> dict[str, Any]:
        if isinstance(self._store, MemoryStore):
            raise InvalidLedger(
                "a ledger in memory cannot be sent to another process, which would spend the budget again; "
                "keep the ledger in a file"
            )
        return vars(self)

    def add(self, account: Account) -> Entry:
        """Open an account, and return its entry.

        Raises
        ------
        InvalidLedger
            If there is one of that name: what it allows cannot be changed.
        """
        nothing = (0,) * len(account.limits)
        body = {"at": now(), **account.to_document()}

        def append(transaction: Transaction) -> Entry:
            known = transaction.opening(account.name)
            if known is not None:
                if known.body == Entry.after(None, "account", body).body:  # an interrupted attempt
                    return known
                raise InvalidLedger(
                    f"account {account.name} already exists, and its budget cannot be changed"
                )
            return self.append(transaction, "account", body, account=account.name, total=nothing)

        return self.write(append)

    def accounts(self) -> tuple[Statement, ...]:
        """Return every account with what it has spent, in the order in which they were opened."""
        opened = self._read(lambda transaction: transaction.openings())
        return tuple(self.statement(entry.account) for entry in opened)

    def account(self, name: str) -> Account:
        """Return what was fixed when an account was opened.

        Raises
        ------
        InvalidLedger
            If there is no such account.
        """
        if name not in self._accounts:
            opening = self._read(lambda transaction: transaction.opening(name))
            if opening is None:
                names = [entry.account for entry in self._read(lambda transaction: transaction.openings())]
                raise InvalidLedger(
                    f"{self._store.shown} has no account {name!r}; it has {', '.join(names) or 'none yet'}"
                )
            self._accounts[name] = Account.from_document(name, intact(opening).facts)
        return self._accounts[name]

    def statement(self, name: str) -> Statement:
        """Return what one account has spent.

        Raises
        ------
        InvalidLedger
            If there is no such account.
        """
        account = self.account(name)
        last = self._read(lambda transaction: transaction.last(name))
        return Statement(account, () if last is None else intact(last).ticks)

    def payer(self, account: str, *, charge: str | None = None) -> Payer:
        """Return the payer for a run.

        Parameters
        ----------
        account
            Name of an account.
        charge
            Identity of the charge; a new one for each run by default.

        Raises
        ------
        InvalidLedger
            If there is no such account.
        """
        return Payer(self, self.account(account).name, charge)

    def price(self, charge: Charge) -> Ticks:
        """Return what a charge would cost its account; nothing is charged.

        Raises
        ------
        InvalidLedger
            If there is no such account, or the run is not one on its table.
        """
        account = self.account(charge.account)
        asserts = set(charge.schema.assertions) - set(account.schema.assertions)
        entries = self.entries(account.name) if asserts else ()
        released = {str(entry.facts["release"]) for entry in entries if entry.kind == "released"}
        mismatch = account.mismatch(charge.schema, released)
        if charge.claim.neighboring is not account.schema.neighboring:
            mismatch = f"it protects {account.schema.neighboring.value} neighbors"
        if mismatch is not None:
            raise InvalidLedger(
                f"account {account.name} cannot pay for this run: {mismatch}. Nothing is charged"
            )
        return account.measure.cost(charge.claim)

    def reserve(self, charge: Charge) -> Reservation:
        """Charge a run before any part is given data.

        Asked twice with one object, it charges once.

        Raises
        ------
        OverBudget
            If the account cannot pay for it.
        AlreadyCharged
            If another run has used the identity of the charge.
        InvalidLedger
            If there is no such account, the run is not one on its table, or the ledger is damaged or was
            replaced by an old copy.
        LedgerUnavailable
            If the ledger cannot be reached. It may be charged, if the connection was lost at the last moment.
        """
        cost = self.price(charge)
        account = self.account(charge.account)

        def append(transaction: Transaction) -> Entry:
            known = transaction.of_charge(charge.id)
            if known:
                return _same(known, charge)
            last = transaction.last(charge.account)
            if last is None:
                raise InvalidLedger(f"account {charge.account} is gone from {self._store.shown}")
            before = intact(last).ticks
            total = add(before, cost)
            if not account.measure.admits(total, account.limits):
                raise OverBudget(_over(account, before, cost))
            return self.append(
                transaction,
                "reserved",
                charge.to_document(cost),
                account=account.name,
                charge=charge.id,
                total=total,
            )

        return Reservation(charge, self._witness(account, self.write(append)))

    def settle(self, reservation: Reservation, outcome: Settlement, release: str | None = None) -> Entry:
        """Record how a run ended; nothing is refunded.

        Parameters
        ----------
        reservation
            What ``reserve`` returned.
        outcome
            ``released`` (with a model or a selection), ``refused``, ``failed`` or ``vetoed``.
        release
            Digest of the release, where there is one.

        Raises
        ------
        AlreadyCharged
            If another outcome was recorded before.
        InvalidLedger
            If it was not reserved here.
        """
        charge = reservation.charge
        if outcome not in OUTCOMES:
            raise InvalidLedger(f"a run cannot end as {outcome!r}; it was {', '.join(OUTCOMES)}")
        body = {"at": now(), "release": release}

        def append(transaction: Transaction) -> Entry:
            known = transaction.of_charge(charge.id)
            if not known or intact(known[0]).hash != reservation.witness.head:
                raise InvalidLedger(f"charge {charge.id} was not reserved in {self._store.shown}")
            if len(known) > 1:
                settled = intact(known[1])
                if (settled.kind, settled.facts.get("release")) == (outcome, release):
                    return settled
                raise AlreadyCharged(f"charge {charge.id} is settled as {settled.kind}; it stays so")
            last = transaction.last(charge.account)
            total = known[0].ticks if last is None else intact(last).ticks
            return self.append(
                transaction, outcome, body, account=charge.account, charge=charge.id, total=total
            )

        return self.write(append)

    def entries(self, account: str | None = None, *, after: int = 0) -> Iterator[Entry]:
        """Yield entries in order, of the ledger or of one account, as they are stored.

        Parameters
        ----------
        account
            Whose; all by default.
        after
            The number of the entry after which to begin.
        """
        while page := self._page(after):
            yield from (entry for entry in page if account in (None, entry.account))
            after = page[-1].sequence

    def newest(self, account: str | None = None, *, page: int = _PAGE) -> Iterator[Entry]:
        """Yield entries, the last one first, of the ledger or of one account.

        Parameters
        ----------
        account
            Whose; all by default.
        page
            How many are read at a time. No page is read before its first entry is asked for.
        """
        before = self.head().sequence + 1
        while entries := self._before(before, page, account):
            yield from entries
            before = entries[-1].sequence

    def count(self, account: str, kind: str | None = None) -> int:
        """Return how many entries an account has, of any kind or of one."""
        return self._read(lambda transaction: transaction.count(account, kind))

    def head(self) -> Head:
        """Return the end of the ledger."""
        last = self._read(lambda transaction: transaction.last())
        return Head(0, "") if last is None else Head(last.sequence, last.hash)

    def _before(self, sequence: int, limit: int, account: str | None) -> Sequence[Entry]:
        return self._read(lambda transaction: transaction.before(sequence, limit, account))

    def _page(self, after: int) -> Sequence[Entry]:
        return self._read(lambda transaction: transaction.after(after, _PAGE))

    def _witness(self, account: Account, entry: Entry) -> Witness:
        return Witness(
            self._identity,
            account.name,
            entry.charge,
            entry.sequence,
            entry.hash,
            filter_to_document(account.measure),
            entry.ticks,
            account.limits,
        )

    def append(self, transaction: Transaction, kind: str, body: Mapping[str, Any], **fields: Any) -> Entry:
        """Add an entry after the last one, within a transaction of ``write``, and return it.

        Raises
        ------
        InvalidLedger
            If the ledger has moved elsewhere, or its last entry is damaged.
        """
        last = transaction.last()
        if last is not None and last.kind == "moved":
            raise InvalidLedger(
                f"the ledger has left {self._store.shown} for {intact(last).facts.get('to')}; nothing is "
                "charged here. Name the new place"
            )
        entry = Entry.after(None if last is None else intact(last), kind, body, **fields)
        transaction.append(entry)
        return entry

    def _read(self, action: Callable[[Transaction], T]) -> T:
        return repeated(self._store, action, write=False)

    def write(self, action: Callable[[Transaction], Entry]) -> Entry:
        """Return the entry that an action in a writing transaction returns.

        It is repeated while its outcome is unknown, so it must find out what an earlier attempt has done.

        Raises
        ------
        InvalidLedger
            If the ledger no longer holds the last entry that this handle saw.
        """

        def checked(transaction: Transaction) -> Entry:
            self._require_seen(transaction)
            return action(transaction)

        entry = repeated(self._store, checked, write=True)
        if self._seen is None or entry.sequence > self._seen.sequence:
            self._seen = Head(entry.sequence, entry.hash)
        return entry

    def _require_seen(self, transaction: Transaction) -> None:
        if self._seen is None:
            return
        now = transaction.at(self._seen.sequence)
        if now is None or now.hash != self._seen.hash:
            raise InvalidLedger(
                f"{self._store.shown} no longer holds entry {self._seen.sequence} as it was: it was replaced "
                "by an old or another copy. Put the right one back; `dpkit ledger audit --against` finds out "
                "which it is"
            )


def store_for(url: str) -> type[Store]:
    """Return the backend for the scheme of a URL; a path is a file of SQLite.

    Raises
    ------
    MissingDependency, UnknownName, AmbiguousName, BrokenPlugin
        If no distribution, more than one, or a broken one offers the scheme.
    """
    scheme, separator, _ = str(url).partition("://")
    name = scheme.partition("+")[0] if separator else "sqlite"
    name = "postgresql" if name == "postgres" else name  # libpq accepts both
    if name not in _OWN:
        return cast(type[Store], load_target(find_resource("ledgers", name)))
    purpose, extra = _OWN[name]
    of = f"dpkit-ledger-{name}"
    return cast(type[Store], require_resource("ledgers", name, of=of, purpose=purpose, extra=extra))


def repeated(store: Store, action: Callable[[Transaction], T], *, write: bool) -> T:
    """Return what a transaction returns, repeated while its outcome is unknown.

    The action must find out what an earlier attempt has done.
    """
    reason: Exception | None = None
    for attempt in range(_ATTEMPTS):
        try:
            with store.transaction(write=write) as transaction:
                return action(transaction)
        except InDoubt as error:
            reason = error
            time.sleep(random.uniform(0, 0.01 * 2**attempt))
        except LedgerUnavailable:
            if reason is None or not write:
                raise
            break  # it only knows that the last attempt wrote nothing
    raise LedgerUnavailable(
        f"ledger {store.shown} cannot be used now: {reason}. The request may have been recorded, since "
        "the answer was lost; if it was a charge, it may be spent, and no run has begun"
    ) from reason


def intact(entry: Entry) -> Entry:
    """Return an entry if its hash is that of its fields.

    Raises
    ------
    InvalidLedger
        If it is not.
    """
    if not entry.intact:
        raise InvalidLedger(
            f"entry {entry.sequence} of the ledger is not what was written: its hash differs. Nothing is "
            "charged; `dpkit ledger audit` examines the ledger"
        )
    return entry


def _same(known: Sequence[Entry], charge: Charge) -> Entry:
    reserved = intact(known[0])
    if reserved.facts.get("nonce") == charge.nonce and reserved.account == charge.account and len(known) == 1:
        return reserved
    outcome = known[1].kind if len(known) > 1 else "not settled"
    raise AlreadyCharged(
        f"charge {charge.id} is entry {reserved.sequence} of account {reserved.account}, {outcome}: it is "
        "spent and cannot pay for another run. Use the release it paid for, or another identity"
    )


def _over(account: Account, total: Ticks, cost: Ticks) -> str:
    measure, limits = account.measure, account.limits
    return (
        f"account {account.name} cannot pay for this run: spent so far {measure.in_words(total, limits)}; "
        f"after it, {measure.in_words(add(total, cost), limits)}. Nothing is charged, and no part was given "
        "data. Plan it with a smaller budget"
    )


def now() -> str:
    """Return the current time, in the format of entries."""
    return datetime.now(UTC).isoformat(timespec="seconds")
