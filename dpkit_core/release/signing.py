r"""Signatures of releases: who vouches for a file, and that it has not been changed since.

A signature is Ed25519 (RFC 8032) over the bytes

    b"dpkit-release-signature-1\n" + canonical_bytes(document without its key "signature")

with ``dpkit_core.files.documents``, so it covers everything in the file: values, certificate, and the
witness of a ledger. The file holds it as

    "signature": {"algorithm": "Ed25519", "key": identity of the public key, "value": 128 hexadecimal digits}

where the identity is the SHA-256 of the 32 bytes of the public key, in hexadecimal. Private keys are PEM
files (PKCS #8) and public keys are PEM files (SubjectPublicKeyInfo), as OpenSSL writes them.

*A signature proves* that the holder of the private key has signed this document, as it is. *It does not
prove* who that is (the public key must come by another way than the release), when it was, that the run
took place as the certificate says, or that no other release of the table exists. ``dpkit verify``
computes what follows from the events; the ledger records what the table has cost.

The keys are in another distribution, ``dpkit-command-sign``, since they need ``cryptography``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import attrs

from dpkit_core.errors import InvalidRelease
from dpkit_core.files.documents import Fields, canonical_bytes

ALGORITHM = "Ed25519"

#: Precedes the document, so that no other message can pass for one.
PREFIX = b"dpkit-release-signature-1\n"


@attrs.frozen
class Signature:
    """What a signed release carries.

    Attributes
    ----------
    key
        Identity of the public key: SHA-256 of its 32 bytes.
    value
        The 64 bytes of the signature, in hexadecimal.
    """

    key: str
    value: str

    def to_document(self) -> dict[str, Any]:
        """Return the signature as plain data."""
        return {"algorithm": ALGORITHM, "key": self.key, "value": self.value}

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Signature:
        """Return the signature that ``to_document`` wrote.

        Raises
        ------
        InvalidRelease
            If something is missing or unknown.
        """
        fields = Fields(document, "the signature", InvalidRelease)
        if (algorithm := fields.text("algorithm")) != ALGORITHM:
            raise InvalidRelease(f"the signature is by {algorithm!r}; this dpkit knows {ALGORITHM}")
        signature = cls(_digits(fields, "key", 64), _digits(fields, "value", 128))
        fields.close()
        return signature


def _digits(fields: Fields, key: str, count: int) -> str:
    if not re.fullmatch(f"[0-9a-f]{{{count}}}", digits := fields.text(key)):
        raise InvalidRelease(f"the signature: {key} must be {count} hexadecimal digits, and is not")
    return digits


def unsigned(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a release, as plain data, without its signature: what is signed, and what a ledger settles."""
    return {key: value for key, value in document.items() if key != "signature"}


def signed_bytes(document: Mapping[str, Any]) -> bytes:
    """Return the bytes that a signature of a release, as plain data, covers."""
    return PREFIX + canonical_bytes(unsigned(document))
