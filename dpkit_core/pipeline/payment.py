"""How a run is paid for: the one place that asks a ledger, before any part is given data.

Whatever starts a run, a command, a program, an experiment or an estimator, comes by here. A run that cannot
be charged does not begin, whatever the reason is: the account has too little left, the ledger cannot be
reached, its disk is full. What is charged stays charged; the settlement says what became of it. If that
cannot be written down, the release is not held back, for it is paid for: a warning says so, and the audit
tells.
"""

from __future__ import annotations

import contextlib
import errno
import getpass
import importlib
import json
import os
import platform
import warnings
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import attrs

from dpkit_core.errors import Declined, DpkitError, LedgerUnavailable, OverBudget
from dpkit_core.files.documents import digest
from dpkit_core.ledger.entries import Charge, Settlement, planned
from dpkit_core.ledger.ledger import Payer, Reservation
from dpkit_core.pipeline.plan import Plan
from dpkit_core.privacy.filters import Claim, add
from dpkit_core.privacy.units import grouped
from dpkit_core.release.certificate import EVALUATION, Certificate, Witness
from dpkit_core.release.release import Release
from dpkit_core.release.signing import unsigned


@attrs.frozen
class EventLog:
    """A file with a line of JSON for each event of a ledger, or nothing; a line never has anything private.

    Lines are written whole, whoever else writes. Each has ``at``, the time; ``event``: ``declined``,
    ``reserved``, ``released``, ``refused``, ``failed`` or ``vetoed``; ``ledger``, ``account`` and ``charge``;
    the number of the ledger's entry as ``sequence``; its hash as ``head`` where it was charged, and the
    digest of the release, where there is one, as ``release``.

    Attributes
    ----------
    path
        The file; None for no log.
    """

    path: Path | None = None

    def write(self, event: str, facts: Mapping[str, Any]) -> None:
        """Add a line.

        Raises
        ------
        LedgerUnavailable
            If it cannot be written.
        """
        if self.path is None:
            return
        at = datetime.now(UTC).isoformat(timespec="milliseconds")
        line = (json.dumps({"at": at, "event": event, **facts}) + "\n").encode("ascii")
        try:
            descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
            try:
                if os.write(descriptor, line) < len(line):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            finally:
                os.close(descriptor)
        except OSError as error:
            raise LedgerUnavailable(f"cannot write the log {self.path}: {error.strerror or error}") from error


@attrs.define
class Payment:
    """What one run owes, from before the data until its end. Made by ``reserve``.

    Attributes
    ----------
    reservation
        What was charged; None for a run that nobody has to pay for.
    """

    reservation: Reservation | None = None
    _payer: Payer | None = None
    _log: EventLog = EventLog()
    _process: int = attrs.field(factory=os.getpid)
    _settled: bool = False

    @classmethod
    def reserve(cls, payer: Payer | None, plan: Plan, certificate: Certificate, log: EventLog) -> Payment:
        """Charge a run.

        Parameters
        ----------
        payer
            Who is to pay; None if nobody has to.
        plan
            What will be run.
        certificate
            What is known of its certificate.
        log
            Where it is written down for operators.

        Raises
        ------
        Declined
            If the account cannot pay for it, or the run will not be private.
        InvalidLedger, LedgerUnavailable
            If the ledger cannot be used.
        """
        if payer is None:
            return cls()
        charge = _charge(payer, plan, certificate)
        facts = {"account": payer.account, "charge": charge.id, "ledger": payer.ledger.id}
        try:
            reservation = payer.ledger.reserve(charge)
        except DpkitError as error:
            log.write("declined", facts | {"why": type(error).__name__})
            raise
        witness = reservation.witness
        try:
            log.write("reserved", facts | {"sequence": witness.sequence, "head": witness.head})
        except DpkitError:
            with contextlib.suppress(DpkitError):  # spent it is, whether that is written down or not
                payer.ledger.settle(reservation, "failed")
            raise
        return cls(reservation, payer, log)

    @property
    def witness(self) -> Witness | None:
        """What the certificate says of the charge."""
        return None if self.reservation is None else self.reservation.witness

    def release(self, release: Release) -> None:
        """Settle a run that ended with a release, or with a refusal."""
        if self.reservation is not None:
            outcome: Settlement = "released" if release.refusal is None else "refused"
            self._settle(outcome, digest(unsigned(release.to_document())))

    def fail(self, outcome: Settlement) -> None:
        """Settle a run that ended in another way, unless it is settled already."""
        self._settle(outcome, None)

    def _settle(self, outcome: Settlement, release: str | None) -> None:
        # A forked process has no part in the run, whatever it believes.
        if self.reservation is None or self._payer is None or self._settled or self._process != os.getpid():
            return
        self._settled = True
        charge = self.reservation.charge
        try:
            entry = self._payer.ledger.settle(self.reservation, outcome, release)
            facts = {"account": charge.account, "charge": charge.id, "ledger": self._payer.ledger.id}
            self._log.write(outcome, facts | {"sequence": entry.sequence, "release": release})
        except DpkitError as error:
            warnings.warn(
                f"the run is charged, and that it ended as {outcome} could not be written down: {error}",
                RuntimeWarning,
                stacklevel=2,
            )


def claim_of(plan: Plan) -> Claim:
    """Return what a plan will cost, for an account to price.

    Raises
    ------
    Declined
        If its release will not be private, so that no account can pay for it.
    """
    if plan.epsilon is None or plan.reasons:
        raise _not_private(plan.reasons)
    most = plan.schema.records_of_a_unit
    events = tuple(grouped(event, most) for event in plan.charged)
    return Claim(plan.epsilon, plan.budget.delta, events, plan.schema.neighboring)


def price_in_words(plan: Plan, payer: Payer) -> str:
    """Return what the account of ``payer`` would have spent after a run of ``plan``; nothing is charged.

    Raises
    ------
    Declined
        If its release will not be private.
    InvalidLedger, LedgerUnavailable
        If the ledger cannot be used, or the plan is not one on the account's table.
    """
    sentence, fits = _price(plan, payer)
    return sentence if fits else f"{sentence}, which does not fit"


def require_affordable(plan: Plan, payer: Payer) -> None:
    """Raise ``OverBudget`` if the account could not pay for a run now; nothing is charged."""
    sentence, fits = _price(plan, payer)
    if not fits:
        raise OverBudget(f"{sentence}, which does not fit. Nothing is spent")


def _price(plan: Plan, payer: Payer) -> tuple[str, bool]:
    before = payer.ledger.statement(payer.account)
    measure, limits = before.account.measure, before.account.limits
    cost = payer.ledger.price(Charge(payer.account, claim_of(plan), plan.schema, ""))
    total = add(before.total, cost)
    return (
        f"Account {payer.account} has spent {measure.in_words(before.total, limits)}; after this run: "
        f"{measure.in_words(total, limits)}"
    ), measure.admits(total, limits)


def _charge(payer: Payer, plan: Plan, certificate: Certificate) -> Charge:
    claim = claim_of(plan)
    if not certificate.private:
        raise _not_private(certificate.reasons)
    identity: Mapping[str, Any] = {} if payer.charge is None else {"id": payer.charge}
    document = certificate.to_document()
    return Charge(payer.account, claim, plan.schema, digest(planned(document)), _about(plan), **identity)


def _not_private(reasons: Iterable[str]) -> Declined:
    return Declined(f"no account pays for a run that is not private: {'; '.join(reasons)}. Nothing is spent")


def _about(plan: Plan) -> dict[str, Any]:
    return {
        "accountant": plan.accountant.name,
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "by": f"{_user()}@{platform.node()}",
        "parts": [
            f"{part.role} {part.record.qualified} {part.version}".strip() for part in plan.assembly.chosen
        ]
        or [EVALUATION],
    }


def _user() -> str:
    try:  # what the system says, not the environment
        return str(importlib.import_module("pwd").getpwuid(os.getuid()).pw_name)
    except ImportError:
        return getpass.getuser()
    except KeyError:
        return str(os.getuid())
