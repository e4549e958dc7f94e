"""The entries of a ledger, each with the hash of everything before it.

No entry is ever changed. Only a charge has two: its reservation and its settlement.
"""

from __future__ import annotations

import functools
import json
import secrets
import uuid
from collections.abc import Mapping
from typing import Any, Literal, TypeVar, get_args

import attrs

from dpkit_core.data.schema import Schema
from dpkit_core.errors import InvalidLedger
from dpkit_core.files.documents import canonical_bytes, digest
from dpkit_core.privacy.events import event_to_json
from dpkit_core.privacy.filters import Claim, Ticks

F = TypeVar("F")

Settlement = Literal["released", "refused", "failed", "vetoed"]
"""How a reservation ended. All four are spent."""

OUTCOMES: tuple[Settlement, ...] = get_args(Settlement)

#: What an entry can be: the first of a ledger, the opening of an account, a charge, its settlement; the last
#: in a place that the ledger has left, and the first in the place to which it went.
KINDS = ("ledger", "account", "reserved", *OUTCOMES, "moved", "arrived")

#: What comes before the first entry.
NOTHING = "0" * 64


@attrs.frozen
class Entry:
    """One line of a ledger, as it is stored: eight texts and numbers.

    Attributes
    ----------
    sequence
        1, 2, 3 and so on over the whole ledger.
    kind
        One of ``KINDS``.
    account
        Its account; empty for the first entry.
    charge
        Identity of the charge that is reserved or settled; empty otherwise.
    body
        The rest, as canonical JSON.
    total
        The account's total after this entry, as JSON: whole ticks of its measure, null for infinity.
    previous
        Hash of the entry before.
    hash
        SHA-256 of the canonical bytes of the list of all of the above.
    """

    sequence: int
    kind: str
    account: str
    charge: str
    body: str
    total: str
    previous: str
    hash: str

    @classmethod
    def after(
        cls,
        last: Entry | None,
        kind: str,
        body: Mapping[str, Any],
        *,
        account: str = "",
        charge: str = "",
        total: Ticks = (),
    ) -> Entry:
        """Return the entry that follows ``last``, which is None for the first."""
        sequence, previous = (1, NOTHING) if last is None else (last.sequence + 1, last.hash)
        fields = (sequence, kind, account, charge, _text(body), _text(list(total)), previous)
        return cls(*fields, digest(fields))

    @property
    def facts(self) -> dict[str, Any]:
        """The body as plain data.

        Raises
        ------
        InvalidLedger
            If it is damaged.
        """
        return self._read(self.body, dict)

    @property
    def ticks(self) -> Ticks:
        """The account's total after this entry.

        Raises
        ------
        InvalidLedger
            If it cannot be read.
        """
        return tuple(self._read(self.total, list))

    @property
    def intact(self) -> bool:
        """Whether the hash is that of the other fields."""
        fields = (self.sequence, self.kind, self.account, self.charge, self.body, self.total, self.previous)
        return self.hash == digest(fields)

    @property
    def ends_move(self) -> bool:
        """Whether it is the last of a place that the ledger has left, and has arrived elsewhere.

        A place that it has left has one entry of kind ``moved`` from when it leaves, and a second one, which
        has the hash of the ``arrived`` entry, from when it is known to have arrived.
        """
        return self.kind == "moved" and "arrived" in self.facts

    def _read(self, text: str, form: type[F]) -> F:
        try:
            value = json.loads(text)
        except (TypeError, ValueError) as error:
            raise InvalidLedger(f"entry {self.sequence} of the ledger is damaged: {error}") from error
        if not isinstance(value, form):
            raise InvalidLedger(f"entry {self.sequence} of the ledger is damaged: {text!r}")
        return value


def _text(document: object) -> str:
    return canonical_bytes(document).decode("ascii")


@attrs.frozen
class Charge:
    """A request to charge an account for one run.

    Asking twice with one object charges once, so a caller who does not know whether the first attempt arrived
    may ask again. Another object of the same identity is another run, and is refused.

    Attributes
    ----------
    account
        The account that pays.
    claim
        What the run will cost.
    schema
        The public facts that it relies on.
    plan
        Digest of everything in its certificate that is known before the run, see ``plan_digest``.
    about
        For readers of the ledger: parts, accountant, user and time.
    id
        Identity; a new one by default. With the name of a job, a job that is started again is not charged
        again, and does not run again.
    nonce
        Distinguishes this object from any other of the same identity.
    """

    account: str
    claim: Claim
    schema: Schema
    plan: str
    about: Mapping[str, Any] = attrs.field(factory=dict)
    id: str = attrs.field(factory=lambda: uuid.uuid4().hex)
    nonce: str = attrs.field(factory=functools.partial(secrets.token_hex, 16), repr=False)

    def __attrs_post_init__(self) -> None:
        given: object = self.id  # whatever a program may hand over
        if not (isinstance(given, str) and 1 <= len(given) <= 200 and given.isprintable()):
            raise InvalidLedger(
                f"a charge cannot have the identity {self.id!r}; give a text of 1 to 200 printable characters"
            )

    def to_document(self, cost: Ticks) -> dict[str, Any]:
        """Return what its entry holds apart from account and identity."""
        return {
            "about": dict(self.about),
            "cost": list(cost),
            "delta": self.claim.delta,
            "epsilon": self.claim.epsilon,
            "events": [event_to_json(event) for event in self.claim.events],
            "nonce": self.nonce,
            "plan": self.plan,
        }


#: The fields of a certificate that are known before the run.
_PLANNED = ("accountant", "budget", "delta", "epsilon", "events", "neighboring", "parts", "schema")


def planned(certificate: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a certificate, as plain data, that were known before the run."""
    return {key: certificate.get(key) for key in _PLANNED}
