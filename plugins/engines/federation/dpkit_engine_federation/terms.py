"""What parties agree on before anything is computed: a document that each of them sees and signs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs

from dpkit_core.errors import InvalidOption
from dpkit_core.files.documents import (
    REQUIRED,
    Fields,
    as_document,
    digest,
    from_document,
    read_toml,
    require_version,
    to_toml,
)
from dpkit_core.privacy.budget import Budget, rounded_up
from dpkit_core.text import number_of
from dpkit_engine_federation.keys import fingerprint

FORMAT = "dpkit-federation"
FORMAT_VERSION = 1
MOST_PARTIES = 2**10


def _by_name(parties: Mapping[str, str]) -> Mapping[str, str]:
    return dict(sorted(parties.items()))


def _keys(instance: object, attribute: attrs.Attribute[Any], parties: Mapping[str, str]) -> None:
    for name, key in parties.items():
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9.-]{0,39}", name):
            raise InvalidOption(f"a party is called {name!r}; take up to 40 letters, digits, - and .")
        _key(instance, attribute, key)


def _key(instance: object, attribute: attrs.Attribute[Any], key: str) -> None:
    if not re.fullmatch(r"[0-9a-f]{64}", key):
        raise InvalidOption(f"{attribute.name}: {key!r} is not a public key of 64 hexadecimal digits")


def _address(instance: object, attribute: attrs.Attribute[Any], address: str) -> None:
    # It is printed among the fingerprints, so it must not look like one.
    if not re.fullmatch(r"([A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\]):[0-9]{1,5}", address or "localhost:0"):
        raise InvalidOption(
            f"the server's address is {address!r}; give HOST:PORT, such as relay.example:8765"
        )


@attrs.frozen
class Terms:
    """Who takes part, against whom each is protected, and what is computed.

    Attributes
    ----------
    parties
        Name -> public key, whose fingerprint is to be compared by other means than the server.
    server
        The server's public key.
    address
        Where it is, HOST:PORT.
    colluders
        How many parties may pool what they know, with the server, and learn no more than is charged. A party
        knows its own noise, so 0 protects against the server alone.
    least
        With fewer parties the run ends.
    patience
        Seconds after which a party is missing.
    spare
        How many void attempts the budget pays for.
    budget
        What the plan and its spare attempts may cost together.
    plan
        The plan without them, as a plan file has it: parts, versions, options, schema and every event.
    """

    parties: Mapping[str, str] = attrs.field(converter=_by_name, validator=_keys)
    server: str = attrs.field(validator=_key)
    address: str = attrs.field(validator=_address)
    # Against whom each is protected is never left to a default of whoever reads it.
    colluders: int = attrs.field(default=1, metadata=REQUIRED)
    least: int = attrs.field(default=3, metadata=REQUIRED)
    patience: float = attrs.field(default=60.0, metadata=REQUIRED)
    spare: int = attrs.field(default=2, metadata=REQUIRED)
    budget: Budget = attrs.field(kw_only=True)
    plan: Mapping[str, Any] = attrs.field(kw_only=True)

    def __attrs_post_init__(self) -> None:
        if not 0 <= self.colluders < self.least <= len(self.parties) <= MOST_PARTIES:
            raise InvalidOption(
                f"{len(self.parties)} parties, at least {self.least}, of which {self.colluders} may collude: "
                "there must be more parties than may collude, and no fewer than the least"
            )
        if len({self.server, *self.parties.values()}) <= len(self.parties):
            raise InvalidOption("two parties, or a party and the server, have one key; each makes its own")
        if not (0 < self.patience < 1e6 and 0 <= self.spare < 2**16):
            raise InvalidOption("patience must be above 0 and below 1e6 s, and spare attempts at least 0")

    @classmethod
    def read(cls, path: Path | str) -> Terms:
        """Return the terms in a file.

        Raises
        ------
        InvalidOption
            If there are none, or of another format.
        """
        document = read_toml(path, "terms", InvalidOption)
        if document.get("format") != FORMAT:
            raise InvalidOption(f"{path} does not hold terms; give a file that `dpkit federate plan` wrote")
        fields = Fields(document, f"terms {path}", InvalidOption)
        fields.value("format")
        require_version(fields.what, fields.read("format_version", int), FORMAT_VERSION, InvalidOption)
        return from_document(cls, fields.rest(), fields.what, InvalidOption)

    def to_document(self) -> dict[str, Any]:
        """Return the terms as plain data, the shape of their file."""
        return {"format": FORMAT, "format_version": FORMAT_VERSION, **as_document(self)}

    def to_toml(self) -> str:
        """Return the content of a file that ``read`` reads."""
        return to_toml(self.to_document())

    @property
    def digest(self) -> str:
        """What is signed: SHA-256 of the document, in hexadecimal."""
        return digest(self.to_document())

    @property
    def journal(self) -> str:
        """Name of the file beside the terms in which the server keeps what it has told."""
        return f"terms.{self.digest[:16]}.journal"

    def name_of(self, public: str) -> str | None:
        """Return which party a public key is."""
        return next((name for name, key in self.parties.items() if key == public), None)

    def in_words(self) -> tuple[str, ...]:
        """Return what a party should read before it signs, one sentence each."""
        others = "the server"
        if self.colluders:
            others += f" and any {number_of(self.colluders, 'other party', 'other parties')} together"
        late = f"If a party does not answer for {self.patience:g} s, the"
        return (
            f"{len(self.parties)} parties fit one model. Each record is protected from {others}, by "
            f"epsilon {rounded_up(self.budget.epsilon, 6)} at delta {rounded_up(self.budget.delta, 3)}.",
            f"{late} others go on without it. The budget pays for {number_of(self.spare, 'such attempt')}, "
            f"and with fewer than {self.least} parties the run ends."
            if self.spare
            else f"{late} run ends.",
            "Compare the fingerprints by telephone, or by another channel than the one these files came by.",
            *(f"{name}: {fingerprint(key)}" for name, key in self.parties.items()),
            f"the server at {self.address}: {fingerprint(self.server)}",
            f"These terms: {self.digest}",
        )
