"""Keys that sign releases, and keys that verify signatures.

``dpkit_core.release.signing`` explains what a signature proves, and what it does not.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import attrs
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from dpkit_core import Release
from dpkit_core.errors import DpkitError, InvalidRelease
from dpkit_core.files.documents import from_document
from dpkit_core.release.signing import ALGORITHM, Signature, signed_bytes


class InvalidKey(DpkitError):
    """A file without a key of the right kind, or with a private key that others can read."""


@attrs.frozen
class SigningKey:
    """A private key, kept by the issuer of releases."""

    _key: Ed25519PrivateKey = attrs.field(repr=False)

    @classmethod
    def new(cls) -> Self:
        """Return a new key from the system's random bits."""
        return cls(Ed25519PrivateKey.generate())

    @classmethod
    def read(cls, path: Path | str) -> Self:
        """Return the key in a PEM file.

        Raises
        ------
        InvalidKey
            If it cannot be read, has a password, is of another kind, or is readable by others.
        """
        text = _content(path)
        if os.name == "posix" and stat.S_IMODE(Path(path).stat().st_mode) & 0o077:
            raise InvalidKey(f"others can read or change the private key {path}; run `chmod 600 {path}`")
        try:
            key = serialization.load_pem_private_key(text, password=None)
        except (TypeError, ValueError, UnsupportedAlgorithm) as error:
            raise InvalidKey(
                f"{path} is not a private key that can be used here: give a PEM file without a password, as "
                "`dpkit key new` writes it"
            ) from error
        if not isinstance(key, Ed25519PrivateKey):
            raise InvalidKey(f"{path} is a private key of another kind; releases are signed by {ALGORITHM}")
        return cls(key)

    @property
    def public(self) -> VerifyingKey:
        """The public key that belongs to it."""
        return VerifyingKey(self._key.public_key())

    def to_pem(self) -> bytes:
        """Return the content of a file that ``read`` reads."""
        return self._key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )

    def sign(self, release: Release) -> Release:
        """Return the release with a signature, which replaces any that it had."""
        value = self._key.sign(signed_bytes(release.to_document()))
        return attrs.evolve(release, signature=Signature(self.public.id, value.hex()))


@attrs.frozen
class VerifyingKey:
    """A public key, with which anyone can verify that its holder signed a release."""

    _key: Ed25519PublicKey = attrs.field(repr=False)

    @classmethod
    def read(cls, path: Path | str) -> Self:
        """Return the key in a PEM file.

        Raises
        ------
        InvalidKey
            If it cannot be read, or is of another kind.
        """
        text = _content(path)
        try:
            key = serialization.load_pem_public_key(text)
        except (ValueError, UnsupportedAlgorithm) as error:
            private = b"PRIVATE KEY" in text
            raise InvalidKey(
                f"{path} is "
                + (
                    "a private key, and verifying needs a public one"
                    if private
                    else "not a public key in PEM"
                )
                + "; give the file NAME.pub that `dpkit key new NAME` writes"
            ) from error
        if not isinstance(key, Ed25519PublicKey):
            raise InvalidKey(f"{path} is a public key of another kind; releases are signed by {ALGORITHM}")
        return cls(key)

    @property
    def id(self) -> str:
        """SHA-256 of the key's 32 bytes, in hexadecimal."""
        return hashlib.sha256(self._key.public_bytes_raw()).hexdigest()

    def to_pem(self) -> bytes:
        """Return the content of a file that ``read`` reads."""
        form = serialization.PublicFormat.SubjectPublicKeyInfo
        return self._key.public_bytes(serialization.Encoding.PEM, form)

    def objection(self, document: Mapping[str, Any]) -> str | None:
        """Return why this release is not signed by the holder of this key; None if it is.

        Parameters
        ----------
        document
            The release as in its file, as plain data.
        """
        if "signature" not in document:
            return "the release is not signed"
        try:
            signature = from_document(Signature, document["signature"], "the signature", InvalidRelease)
            value = bytes.fromhex(signature.value)
        except (InvalidRelease, TypeError, AttributeError, ValueError) as error:
            return f"the signature cannot be read: {error}"
        if signature.key != self.id:
            return f"the release names key {signature.key}, and the given key is {self.id}"
        try:
            self._key.verify(value, signed_bytes(document))
        except InvalidSignature:
            return (
                "the signature does not match this release: the file was changed, or signed by someone else"
            )
        return None


def _content(path: Path | str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise InvalidKey(f"cannot read key {path}: {error.strerror or error}") from error
