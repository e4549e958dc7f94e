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

from collections.abc import Mapping
from typing import Any

import attrs

from dpkit_core.files.documents import REQUIRED, canonical_bytes
from dpkit_core.validators import hexadecimal

ALGORITHM = "Ed25519"

#: Precedes the document, so that no other message can pass for one.
PREFIX = b"dpkit-release-signature-1\n"


def _is_known(instance: object, attribute: attrs.Attribute[Any], value: str) -> None:
    if value != ALGORITHM:
        raise ValueError(f"it is by {value!r}; this dpkit knows {ALGORITHM}")


@attrs.frozen
class Signature:
    """What a signed release carries.

    Attributes
    ----------
    algorithm
        By which it was made: ``ALGORITHM``.
    key
        Identity of the public key: SHA-256 of its 32 bytes.
    value
        The 64 bytes of the signature, in hexadecimal.
    """

    algorithm: str = attrs.field(default=ALGORITHM, validator=_is_known, metadata=REQUIRED, kw_only=True)
    key: str = attrs.field(validator=hexadecimal(64))
    value: str = attrs.field(validator=hexadecimal(128))


def unsigned(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a release, as plain data, without its signature: what is signed, and what a ledger settles."""
    return {key: value for key, value in document.items() if key != "signature"}


def signed_bytes(document: Mapping[str, Any]) -> bytes:
    """Return the bytes that a signature of a release, as plain data, covers."""
    return PREFIX + canonical_bytes(unsigned(document))
