"""Keys of parties and of the server: who signs, and the certificates by which they reach each other.

A key is Ed25519, in the files that ``dpkit key new NAME`` writes: NAME.key and NAME.pub. Whoever opens a
connection makes a certificate of a fresh key for it, signed by its own, so no authority is needed: who knows
the public key knows whom to trust.
"""

from __future__ import annotations

import hashlib
import os
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Self

import attrs
from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.x509.oid import NameOID

from dpkit_core.errors import InvalidOption

_PEM = serialization.Encoding.PEM

# Clocks may differ by a day, and no run lasts a month.
_BEFORE, _AFTER = timedelta(days=1), timedelta(days=30)


@attrs.frozen
class Identity:
    """A private key that stands for a party, or for the server, in all its federations."""

    _key: Ed25519PrivateKey = attrs.field(factory=Ed25519PrivateKey.generate, repr=False)

    @classmethod
    def read(cls, path: Path | str) -> Self:
        """Return the key in a file NAME.key.

        Raises
        ------
        InvalidOption
            If it cannot be read, has a password, is of another kind, or is readable by others.
        """
        text = _content(path)
        if os.name == "posix" and stat.S_IMODE(Path(path).stat().st_mode) & 0o077:
            raise InvalidOption(f"others can read or change the private key {path}; run `chmod 600 {path}`")
        try:
            key = serialization.load_pem_private_key(text, password=None)
        except (TypeError, ValueError, UnsupportedAlgorithm):
            key = None
        if not isinstance(key, Ed25519PrivateKey):
            raise InvalidOption(f"{path} is not a private key; give the NAME.key of `dpkit key new NAME`")
        return cls(key)

    @property
    def public(self) -> str:
        """The public key, 64 hexadecimal digits."""
        return self._key.public_key().public_bytes_raw().hex()

    def sign(self, message: bytes) -> bytes:
        """Return a signature, 64 bytes."""
        return self._key.sign(message)

    def certificate(self, name: str) -> tuple[bytes, bytes]:
        """Return a fresh private key for connections and a certificate that it is of ``name``, both PEM."""
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = (
            _certificate(_named(name), _named(self.public), key.public_key())
            .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
            .sign(self._key, None)
        )
        kept = key.private_bytes(_PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        return kept, certificate.public_bytes(_PEM)


def read_public(path: Path | str) -> str:
    """Return the public key in a file NAME.pub, 64 hexadecimal digits.

    Raises
    ------
    InvalidOption
        If there is none.
    """
    try:
        key = serialization.load_pem_public_key(_content(path))
    except (ValueError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, Ed25519PublicKey):
        raise InvalidOption(f"{path} is not a public key; give the NAME.pub of `dpkit key new NAME`")
    return key.public_bytes_raw().hex()


def fingerprint(public: str) -> str:
    """Return what people compare: SHA-256 of a public key, as `dpkit key new` prints it."""
    return hashlib.sha256(bytes.fromhex(public)).hexdigest()


def has_signed(public: str, message: bytes, signature: bytes) -> bool:
    """Return whether a signature of a message is by a key."""
    try:
        Ed25519PublicKey.from_public_bytes(bytes.fromhex(public)).verify(signature, message)
    except InvalidSignature:
        return False
    return True


def anchor(public: str) -> bytes:
    """Return what certificates by a key are trusted through, PEM.

    A trust anchor is a name and a key (RFC 5280, section 6.1.1): who signed this form of it does not matter.
    """
    key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(public))
    return (
        _certificate(_named(public), _named(public), key)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(Ed25519PrivateKey.generate(), None)
        .public_bytes(_PEM)
    )


def certified(pem: bytes, parties: dict[str, str]) -> str | None:
    """Return which of the parties, name -> public key, a connection's certificate says it is, if it is."""
    certificate = x509.load_pem_x509_certificate(pem)
    name = "".join(str(a.value) for a in certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME))
    # Again, by the key itself: each party is trusted for its own name, and not to certify another's.
    signed = certificate.tbs_certificate_bytes
    return name if name in parties and has_signed(parties[name], signed, certificate.signature) else None


def _certificate(
    subject: x509.Name, issuer: x509.Name, key: Ed25519PublicKey | ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BEFORE)
        .not_valid_after(now + _AFTER)
    )


def _named(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _content(path: Path | str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise InvalidOption(f"cannot read key {path}: {error.strerror or error}") from error
