"""What parties agree on before anything is computed: a document that each of them sees and signs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

import attrs

from dpkit_core import Plan
from dpkit_core.errors import InvalidOption
from dpkit_engine_federation.shares import MOST_PARTIES


def _by_name(parties: Mapping[str, str]) -> Mapping[str, str]:
    return dict(sorted(parties.items()))


@attrs.frozen
class Terms:
    """Who takes part, against whom each is protected, and what is computed.

    Attributes
    ----------
    parties
        Name -> fingerprint of its identity, to be compared by other means than the server.
    colluders
        How many parties may pool what they know, with the server, and learn no more than is charged. A party
        knows its own noise, so 0 protects against the server alone.
    least
        With fewer parties the run ends.
    patience
        Seconds after which a party is missing.
    spare
        How many void attempts the plan has paid for.
    plan
        Digest of the plan: parts, versions, options, schema, budget and every event.
    """

    parties: Mapping[str, str] = attrs.field(converter=_by_name)
    colluders: int = 1
    least: int = 3
    patience: float = 60.0
    spare: int = 0
    plan: str = ""

    def __attrs_post_init__(self) -> None:
        if not 0 <= self.colluders < self.least <= len(self.parties) <= MOST_PARTIES:
            raise InvalidOption(
                f"{len(self.parties)} parties, at least {self.least}, of which {self.colluders} may collude: "
                "there must be more parties than may collude, and no fewer than the least"
            )
        if len(set(self.parties.values())) < len(self.parties):
            raise InvalidOption("two parties have one key; each makes its own")
        if self.patience <= 0 or self.spare < 0:
            raise InvalidOption("patience must be above 0, and spare attempts at least 0")

    def to_document(self) -> dict[str, object]:
        """Return the terms as plain data."""
        return attrs.asdict(self)

    @property
    def digest(self) -> bytes:
        """What is signed: SHA-256 of the document."""
        return hashlib.sha256(json.dumps(self.to_document(), sort_keys=True).encode()).digest()

    def in_words(self) -> str:
        """Return what a party should read before it signs."""
        names = ", ".join(f"{name} ({key[:16]})" for name, key in self.parties.items())
        return (
            f"Parties: {names}. Each record is protected from the server and any {self.colluders} of them. "
            f"The run ends with fewer than {self.least}; a party is missing after {self.patience:g} s; "
            f"{self.spare} void attempts are paid for. Plan {self.plan[:16]}"
        )


def plan_digest(plan: Plan) -> str:
    """Return the digest of all that parties must have alike to compute the same, in hexadecimal."""
    facts = (plan.records, plan.events, plan.schema, plan.budget, plan.epsilon, plan.assumptions)
    return hashlib.sha256(repr(facts).encode()).hexdigest()
