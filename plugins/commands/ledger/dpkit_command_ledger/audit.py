"""Audits of a ledger, by itself and against the releases that it paid for.

By itself, a ledger shows that nothing was changed in the middle: each entry has the hash of the previous one,
and totals are recomputed. An old backup, a second copy, or a ledger without its last entries passes all that.
Releases reveal it: each carries the number and the hash of the entry that paid for it, and that hash covers
all earlier entries. So the ledger must have every witnessed entry, with that hash. If it does not, the first
difference is after the last witness that agrees and not after the first that does not.

An audit cannot find entries missing at the end that no given release witnesses. Keep the releases, or record
the head from time to time.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

import attrs

from dpkit_core.errors import DpkitError, InvalidRelease
from dpkit_core.files.documents import canonical_bytes, digest, from_document
from dpkit_core.ledger.accounts import Account
from dpkit_core.ledger.entries import KINDS, NOTHING, Entry, planned
from dpkit_core.ledger.ledger import Head, Ledger
from dpkit_core.privacy.events import event_from_json
from dpkit_core.privacy.filters import Claim, Ticks, add
from dpkit_core.release.certificate import Witness
from dpkit_core.release.signing import unsigned

Fault = Literal[
    "damaged",  # an entry was changed, or does not follow the previous one
    "miscounted",  # a total is not the sum of its charges, a charge is too low, or a limit was passed
    "cut short",  # the ledger ends before an entry that a release witnesses
    "forked",  # it has another entry with that number
    "altered",  # a release is not the one that was settled, or not of the run that was charged
    "copied",  # two releases name one charge
    "elsewhere",  # a release was charged to another ledger, or to none
    "unsettled",  # a run was charged, and its outcome was never recorded
]
"""The kinds of findings. All but the last are faults."""


@attrs.frozen
class Finding:
    """One finding of an audit.

    Attributes
    ----------
    fault
        Its kind.
    sentence
        A description.
    sequence
        The first entry concerned, if known.
    release
        Name of the release concerned.
    """

    fault: Fault
    sentence: str
    sequence: int | None = None
    release: str | None = None


@attrs.frozen
class LedgerReport:
    """The result of an audit.

    Attributes
    ----------
    head
        The end of the ledger.
    totals
        What each account has spent, recomputed.
    confirmed
        Names of the releases that the ledger paid for and settled, unchanged.
    findings
        Everything irregular, in the order of the entries.
    """

    head: Head
    totals: Mapping[str, Ticks]
    confirmed: tuple[str, ...]
    findings: tuple[Finding, ...]

    @property
    def sound(self) -> bool:
        """Whether there is no fault; an unsettled run is not a fault."""
        return all(finding.fault == "unsettled" for finding in self.findings)


def audit(ledger: Ledger, releases: Iterable[tuple[str, Mapping[str, Any]]] = ()) -> LedgerReport:
    """Return whether a ledger is consistent and has the entries that releases witness.

    Parameters
    ----------
    ledger
        The ledger.
    releases
        Name and content, as plain data, of each release that it should have paid for.
    """
    book = _Book(ledger.id)
    for name, document in releases:
        book.hear(name, document)
    for entry in ledger.entries():
        book.read(entry)
    book.end()
    return book.compared()


@attrs.frozen
class _Testimony:
    """The data of a release for the audit: its witness, and the digests of its plan and its content."""

    name: str
    witness: Witness
    plan: str
    release: str


class _Book:
    """Collects the witnesses of releases, reads a ledger from first to last entry, and compares.

    It keeps only the entries that a release names, open charges, and the identities of other charges, so that
    a ledger of any length needs little memory.
    """

    def __init__(self, identity: str) -> None:
        self._identity = identity
        self._testimonies: list[_Testimony] = []
        self._numbers: set[int] = set()  # of the entries that releases name
        self._charges: set[str] = set()  # that releases name
        self._last: Entry | None = None
        self._length = 0
        self._accounts: dict[str, Account] = {}
        self._totals: dict[str, Ticks] = {}
        self._pending: dict[str, tuple[int, str]] = {}  # number and account of the reservation
        self._ended: set[str] = set()
        self._hashes: dict[int, str] = {}
        self._reserved: dict[str, Entry] = {}
        self._settled: dict[str, Entry] = {}
        self._findings: list[Finding] = []

    def hear(self, name: str, document: Mapping[str, Any]) -> None:
        testimony = self._testimony(name, document)
        if testimony is not None:
            self._testimonies.append(testimony)
            self._numbers.add(testimony.witness.sequence)
            self._charges.add(testimony.witness.charge)

    def read(self, entry: Entry) -> None:
        self._length += 1
        if self._length in self._numbers:
            self._hashes[self._length] = entry.hash
        try:
            fault = self._damage(entry)
            if fault is not None:
                self._found("damaged", f"entry {entry.sequence} {fault}", entry.sequence)
            else:
                self._count(entry)
        except DpkitError as error:
            self._found("damaged", f"entry {entry.sequence} cannot be read: {error}", entry.sequence)
        self._last = entry

    def _damage(self, entry: Entry) -> str | None:
        number, previous = (0, NOTHING) if self._last is None else (self._last.sequence, self._last.hash)
        if entry.sequence != number + 1:
            return f"follows entry {number}: the entries between them are missing"
        if not entry.intact:
            return "was changed: its hash differs"
        if entry.previous != previous:
            return f"does not follow entry {number}: it was written after another one"
        if entry.kind not in KINDS or (entry.kind == "ledger") != (entry.sequence == 1):
            return f"is of kind {entry.kind!r}, which is not allowed here"
        left = self._last is not None and self._last.kind == "moved" and not self._last.ends_move
        gone = self._last is not None and self._last.kind == "moved" and not left
        if gone or left != (entry.kind == "arrived" or entry.ends_move):
            return "was written after the ledger moved away, or does not match a move"
        return None

    def _count(self, entry: Entry) -> None:
        if entry.kind in ("ledger", "moved", "arrived"):
            return
        if entry.kind == "account":
            self._open(entry)
            return
        account = self._accounts.get(entry.account)
        if account is None:
            self._found(
                "miscounted", f"entry {entry.sequence} is of an account that was never opened", entry.sequence
            )
            return
        total = self._totals[entry.account]
        if entry.kind == "reserved":
            total = add(total, self._charged(entry, account))
        else:
            self._settle(entry)
        if entry.ticks != total:
            self._found(
                "miscounted",
                f"entry {entry.sequence} has the total {entry.total}; charges to account {entry.account} add "
                f"up to {list(total)}",
                entry.sequence,
            )
        self._totals[entry.account] = total
        if entry.kind == "reserved" and not account.measure.admits(total, account.limits):
            self._found(
                "miscounted",
                f"entry {entry.sequence} takes account {entry.account} above its limit: "
                f"{account.measure.in_words(total, account.limits)}",
                entry.sequence,
            )

    def _open(self, entry: Entry) -> None:
        account = Account.from_document(entry.account, entry.facts)
        if entry.account in self._accounts:
            self._found(
                "miscounted", f"entry {entry.sequence} opens account {account.name} again", entry.sequence
            )
            return
        allowed = account.measure.limits(account.budget)
        # Another machine's logarithms may differ in the last digit.
        if any(
            limit is None or limit > most + most // 10**9
            for limit, most in zip(account.limits, allowed, strict=True)
            if most is not None
        ):
            self._found(
                "miscounted",
                f"entry {entry.sequence} gives account {account.name} limits above its budget",
                entry.sequence,
            )
        self._accounts[account.name] = account
        self._totals[account.name] = (0,) * len(account.limits)

    def _charged(self, entry: Entry, account: Account) -> Ticks:
        facts = entry.facts
        if entry.charge in self._pending or entry.charge in self._ended:
            self._found(
                "miscounted", f"entry {entry.sequence} reserves charge {entry.charge} again", entry.sequence
            )
        if entry.charge not in self._ended:
            self._pending[entry.charge] = (entry.sequence, entry.account)
        if entry.charge in self._charges:
            self._reserved[entry.charge] = entry
        cost: Ticks = tuple(facts["cost"])
        claim = (facts["epsilon"], facts["delta"], canonical_bytes(facts["events"]))
        least = self._least(account.name, *claim)
        for charged, due in zip(cost, least, strict=True):
            if charged is not None and (due is None or due > charged + charged // 10**9 + 1):
                self._found(
                    "miscounted",
                    f"entry {entry.sequence} charges {list(cost)}; its events cost {list(least)}",
                    entry.sequence,
                )
                break
        return cost

    @functools.lru_cache(maxsize=1000)  # noqa: B019 - lives as long as the audit
    def _least(self, account: str, epsilon: float, delta: float, events: bytes) -> Ticks:
        known = self._accounts[account]
        listed = tuple(event_from_json(event) for event in json.loads(events))
        return known.measure.cost(Claim(epsilon, delta, listed, known.schema.neighboring))

    def _settle(self, entry: Entry) -> None:
        _, account = self._pending.get(entry.charge, (0, None))
        if account != entry.account:
            self._found(
                "miscounted", f"entry {entry.sequence} settles a charge that is not open", entry.sequence
            )
            return
        del self._pending[entry.charge]
        self._ended.add(entry.charge)
        if entry.charge in self._charges:
            self._settled[entry.charge] = entry

    def end(self) -> None:
        for sequence, account in self._pending.values():
            self._found(
                "unsettled",
                f"entry {sequence} charged account {account}, and the outcome of the run was never recorded; "
                "it counts as spent",
                sequence,
            )

    def compared(self) -> LedgerReport:
        agreed: list[int] = []
        confirmed: list[str] = []
        payers: dict[str, str] = {}
        for testimony in sorted(self._testimonies, key=lambda each: (each.witness.sequence, each.name)):
            name, witness = testimony.name, testimony.witness
            sequence = witness.sequence
            before = max((number for number in agreed if number < sequence), default=0)
            fault = self._disagreement(name, witness, before)
            if fault is None:
                agreed.append(sequence)
                fault = self._alteration(testimony, payers)
            if fault is None:
                confirmed.append(name)
            else:
                self._findings.append(fault)
            payers.setdefault(f"{sequence} {witness.head}", name)
        findings = sorted(self._findings, key=lambda f: (f.sequence is None, f.sequence or 0))
        head = Head(0, "") if self._last is None else Head(self._last.sequence, self._last.hash)
        return LedgerReport(head, dict(self._totals), tuple(confirmed), tuple(findings))

    def _testimony(self, name: str, document: Mapping[str, Any]) -> _Testimony | None:
        try:
            certificate = document["certificate"]
            if certificate.get("witness") is None:
                self._found("elsewhere", f"{name} was charged to no ledger", release=name)
                return None
            witness = from_document(Witness, certificate["witness"], "the witness", InvalidRelease)
            testimony = _Testimony(name, witness, digest(planned(certificate)), digest(unsigned(document)))
        except (KeyError, TypeError, ValueError, AttributeError, InvalidRelease) as error:
            self._found("altered", f"{name} cannot be read: {error}", release=name)
            return None
        if witness.ledger != self._identity:
            self._found(
                "elsewhere",
                f"{name} was charged to ledger {witness.ledger}, this is {self._identity}",
                release=name,
            )
            return None
        return testimony

    def _disagreement(self, name: str, witness: Witness, agreed: int) -> Finding | None:
        sequence = witness.sequence
        if sequence > self._length:
            return Finding(
                "cut short",
                f"the ledger ends with entry {self._length}; {name} was paid for by entry {sequence}. An old "
                "copy was restored, or the end was cut off",
                self._length + 1,
                name,
            )
        if self._hashes[sequence] != witness.head:
            return Finding(
                "forked",
                f"entry {sequence} is not the one that paid for {name}. This ledger and the one that paid "
                f"differ from an entry between {agreed + 1} and {sequence} on: an old copy was restored "
                "and used, or two copies are in use",
                agreed + 1,
                name,
            )
        return None

    def _alteration(self, testimony: _Testimony, payers: Mapping[str, str]) -> Finding | None:
        name, witness = testimony.name, testimony.witness
        sequence, entry = witness.sequence, self._reserved.get(witness.charge)
        if entry is None or entry.sequence != sequence or entry.account != witness.account:
            return Finding("altered", f"{name} names a charge that entry {sequence} is not", sequence, name)
        account = self._accounts[entry.account]
        if (entry.ticks, account.limits) != (witness.total, witness.limits):
            return Finding("altered", f"{name} has another total than entry {sequence}", sequence, name)
        if testimony.plan != entry.facts.get("plan"):
            return Finding(
                "altered",
                f"{name} certifies another plan than the one that entry {sequence} paid for",
                sequence,
                name,
            )
        first = payers.get(f"{sequence} {witness.head}")
        return self._unlike(testimony, entry, first)

    def _unlike(self, testimony: _Testimony, entry: Entry, first: str | None) -> Finding | None:
        """Return how a release differs from the one that was settled; ``first`` is another of its charge."""
        name, sequence, settled = testimony.name, entry.sequence, self._settled.get(entry.charge)
        if settled is not None and settled.facts.get("release") != testimony.release:
            other = "" if settled.facts.get("release") is None else " with another digest"
            why = f"entry {settled.sequence} settles the run as {settled.kind}{other}"
            return Finding("altered", f"{name} is not what was released: {why}", sequence, name)
        if first is not None:
            why = f"were both paid for by entry {sequence}, which paid once"
            return Finding("copied", f"{name} and {first} {why}", sequence, name)
        if settled is None:
            why = "which was never settled: whether this is what was released is unknown"
            return Finding("unsettled", f"{name} was paid for by entry {sequence}, {why}", sequence, name)
        return None

    def _found(
        self, fault: Fault, sentence: str, sequence: int | None = None, *, release: str | None = None
    ) -> None:
        self._findings.append(Finding(fault, sentence, sequence, release))


def divergence(one: Ledger, other: Ledger) -> int | None:
    """Return the number of the first entry that two ledgers do not share; None if they are the same.

    The end of the shorter one counts as a difference.
    """
    entries: Iterator[Entry] = other.entries()
    for entry in one.entries():
        beside = next(entries, None)
        if beside is None or beside.hash != entry.hash:
            return entry.sequence
    more = next(entries, None)
    return None if more is None else more.sequence
