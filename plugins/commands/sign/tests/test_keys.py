"""Signatures of releases: what they cover, by RFC 8032, OpenSSL, and every single change of a file."""

import copy
import hashlib
import json
import os
import shutil
import subprocess

import pytest
from doubles import MeanRegressor, PureAccountant
from dpkit_command_ledger.audit import audit
from dpkit_command_sign.keys import InvalidKey, SigningKey, VerifyingKey

from dpkit_core import Budget, Dataset, Ledger, Release, Schema, compose
from dpkit_core.errors import InvalidRelease
from dpkit_core.files.documents import as_document, canonical_bytes, from_document
from dpkit_core.ledger.accounts import Account
from dpkit_core.release.signing import PREFIX, Signature, signed_bytes

SCHEMA = Schema.numeric(["a", "b"], target="y", bounds={"y": (-1, 1)})

# RFC 8032, section 7.1, test 1: a private key, its public key, and the signature of nothing.
SECRET = "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60"
PUBLIC = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"
OF_NOTHING = (
    "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46b"
    "d25bf5f0595bbe24655141438e7a100b"
)


def known_key():
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return SigningKey(Ed25519PrivateKey.from_private_bytes(bytes.fromhex(SECRET)))


@pytest.fixture
def ledger():
    ledger = Ledger.in_memory()
    ledger.add(
        Account("toys", Schema.numeric(["a", "b"], target="y", bounds={"y": (-1, 1)}), Budget(3.0, 1e-6))
    )
    return ledger


@pytest.fixture
def release(ledger):
    data = Dataset.from_arrays([[0.1, 0.2]] * 20, [0.5] * 20, SCHEMA)
    plan = compose(regressor=MeanRegressor(), accountant=PureAccountant()).plan(SCHEMA, Budget(1.0))
    return plan.run(data, paid_by=ledger.payer("toys"))


def test_the_keys_are_those_of_the_rfc():
    key = known_key()
    assert key._key.sign(b"").hex() == OF_NOTHING
    assert key.public.id == hashlib.sha256(bytes.fromhex(PUBLIC)).hexdigest()


def test_what_is_signed_is_spelled_out(release):
    document = known_key().sign(release).to_document()
    text = json.dumps(
        {key: value for key, value in document.items() if key != "signature"},
        sort_keys=True,
        separators=(",", ":"),
    )
    assert signed_bytes(document) == b"dpkit-release-signature-1\n" + text.encode("ascii")


def test_a_signed_release_is_read_back_and_holds_whatever_its_layout_is(release, tmp_path):
    key = known_key()
    signed = key.sign(release)
    signed.write(tmp_path / "r.json")
    again = Release.read(tmp_path / "r.json")
    assert again.signature == signed.signature
    document = json.loads((tmp_path / "r.json").read_text())
    assert key.public.objection(document) is None
    assert key.public.objection(json.loads(json.dumps(document, indent=7, sort_keys=True))) is None
    assert key.sign(signed) == signed
    assert key.public.objection(release.to_document()) == "the release is not signed"
    other = SigningKey.new().public
    assert "and the given key is" in other.objection(document)


def places(document, path=()):
    """Yield the path of every number, text, truth and null of a document."""
    if isinstance(document, dict):
        for key, value in document.items():
            yield from places(value, (*path, key))
    elif isinstance(document, list):
        for index, value in enumerate(document):
            yield from places(value, (*path, index))
    else:
        yield path


def changed(value):
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1 if value < 1e15 else value / 2
    return "x" if value is None else f"{value}x"


def test_every_single_change_is_noticed(release):
    key = known_key()
    document = key.sign(release).to_document()
    paths = list(places(document))
    assert len(paths) > 50
    for path in paths:
        other = copy.deepcopy(document)
        inner = other
        for step in path[:-1]:
            inner = inner[step]
        inner[path[-1]] = changed(inner[path[-1]])
        assert key.public.objection(other) is not None, path
    assert key.public.objection(document | {"more": 1}) is not None
    less = {name: value for name, value in document.items() if name != "refusal"}
    assert key.public.objection(less) is not None


@pytest.mark.parametrize(
    "signature",
    [
        None,
        3,
        {},
        {"algorithm": "RSA", "key": "", "value": ""},
        {"algorithm": "Ed25519", "key": "k", "value": "zz"},
    ],
)
def test_what_is_no_signature_is_none(signature, release):
    objection = known_key().public.objection(release.to_document() | {"signature": signature})
    assert objection.startswith("the signature cannot be read")


def test_a_signature_of_something_else_is_none(release):
    key, document = known_key(), release.to_document()
    # Without the prefix, as another program might sign JSON.
    bare = key._key.sign(canonical_bytes(document)).hex()
    signature = as_document(Signature(key.public.id, bare))
    assert "does not match this release" in key.public.objection(document | {"signature": signature})
    with pytest.raises(InvalidRelease, match="by 'RSA'"):
        from_document(
            Signature, {"algorithm": "RSA", "key": "", "value": ""}, "the signature", InvalidRelease
        )


def test_a_ledger_knows_a_release_that_was_signed_afterwards(ledger, release):
    signed = known_key().sign(release).to_document()
    found = audit(ledger, [("signed", signed)])
    assert found.sound
    assert found.confirmed == ("signed",)
    signed["model"]["intercept"] = 7.0
    assert not audit(ledger, [("signed", signed)]).sound


def test_keys_are_read_back(tmp_path):
    key = SigningKey.new()
    private, public = tmp_path / "a.key", tmp_path / "a.pub"
    private.write_bytes(key.to_pem())
    private.chmod(0o600)
    public.write_bytes(key.public.to_pem())
    assert SigningKey.read(private).public.id == key.public.id == VerifyingKey.read(public).id
    assert SigningKey.new().public.id != key.public.id


@pytest.mark.skipif(os.name != "posix", reason="permissions are those of POSIX")
def test_a_private_key_that_others_can_read_is_refused(tmp_path):
    path = tmp_path / "a.key"
    path.write_bytes(SigningKey.new().to_pem())
    for mode in (0o640, 0o604, 0o620):
        path.chmod(mode)
        with pytest.raises(InvalidKey, match="run `chmod 600"):
            SigningKey.read(path)


def test_what_is_no_key_is_refused(tmp_path):
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import x25519

    path = tmp_path / "a.key"
    with pytest.raises(InvalidKey, match="cannot read key"):
        SigningKey.read(path)
    path.write_text("nothing")
    path.chmod(0o600)
    with pytest.raises(InvalidKey, match="is not a private key"):
        SigningKey.read(path)
    with pytest.raises(InvalidKey, match="is not a public key in PEM"):
        VerifyingKey.read(path)
    other = x25519.X25519PrivateKey.generate()
    plain = serialization.NoEncryption()
    path.write_bytes(
        other.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
    )
    with pytest.raises(InvalidKey, match="of another kind"):
        SigningKey.read(path)
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    path.write_bytes(other.public_key().public_bytes(serialization.Encoding.PEM, form))
    with pytest.raises(InvalidKey, match="of another kind"):
        VerifyingKey.read(path)
    path.write_bytes(known_key().to_pem())
    with pytest.raises(InvalidKey, match="is a private key, and verifying needs a public one"):
        VerifyingKey.read(path)
    path.write_bytes(
        known_key()._key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"secret"),
        )
    )
    with pytest.raises(InvalidKey, match="without a password"):
        SigningKey.read(path)


@pytest.mark.skipif(shutil.which("openssl") is None, reason="OpenSSL is not installed")
def test_openssl_agrees(release, tmp_path):
    document = known_key().sign(release).to_document()
    (tmp_path / "message").write_bytes(
        PREFIX + canonical_bytes({k: v for k, v in document.items() if k != "signature"})
    )
    (tmp_path / "value").write_bytes(bytes.fromhex(document["signature"]["value"]))
    (tmp_path / "a.pub").write_bytes(known_key().public.to_pem())
    command = [
        "openssl",
        "pkeyutl",
        "-verify",
        "-rawin",
        "-pubin",
        "-inkey",
        "a.pub",
        "-in",
        "message",
        "-sigfile",
        "value",
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "Signature Verified Successfully" in done.stdout, done
    (tmp_path / "message").write_bytes(b"another")
    assert subprocess.run(command, cwd=tmp_path, capture_output=True, check=False).returncode != 0
