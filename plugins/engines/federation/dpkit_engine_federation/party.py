r"""One party of a federation: what it sends, and what that tells.

*Beginning.* Each party draws an X25519 key for this run alone, commits to a seed of public coins, and signs
both with the digest of the terms by its key (Ed25519), which is in the terms. Then all open their seeds, and
sign that they have met by these keys, its own among them: so nobody is charged for a run with the messages
of an earlier one.
Who opens last can stop and begin again, so joint coins can be chosen: they are public by contract
(``Meter.coins``), and nothing that must be secret is drawn from them.

*A sum.* In room (step, attempt), party u sends v_u + e_u + sum_{w > u} m_uw - sum_{w < u} m_uw modulo 2^64,
where e_u is its share of noise, sized for the members of this room, and

    m_uw = AES-256-CTR(HKDF-SHA-256(X25519(u, w), info = hellos | room | members | totals so far)).

``hellos`` is the digest of all that was signed, so a key of another run gives another mask; ``totals`` that
of all answers so far, so parties that had different ones do not cancel. A room is answered once. One entry
more, to which each adds 1, must be the number of members: parties that differ are found but with
probability 2^-64.

*A void room* stays masked by the pair masks of who is missing. Its message may arrive later, so that sum
counts as released: the others draw fresh noise in a fresh room, which is one more event (``Joint.total``).
Where records are sampled they draw a new sample, too, and charge their accounts again: one sample seen twice
is no second sampled round (``dpkit_core.mechanisms.sums``). A message that is sent again is the same bytes.

*The end.* All sign the digest of what they release. It is computed from the totals alone, but in floats,
which another processor may round otherwise: who has another model than the others learns it, and its
certificate says so. The digest is a function of what is released, so it tells nobody anything.

*Privacy.* Let a record be at u, and C of at most t parties and the server, u outside. A record changes v_u
alone, given what was released, by the sensitivity on the grid. All that C sees beside its own is, in each
room, messages that are uniform given their sum over those outside C (to who cannot tell HKDF and AES from
random functions: a pair of them shares a mask), and this sum: v_u, other parties' values, and the shares of
at least members - t parties. That is a Gaussian release of the claimed multiplier (``shares``). Rooms compose
adaptively, void ones included, because noise is fresh in each. Forged totals make an adaptive adversary.

*Samples.* v_u is then a sum over a Poisson sample, by coins that u draws for itself and sends to nobody. C
knows its own coins, not those of u, so the record is in v_u with the rate's probability, given all that C
knows and all other coins: the pair of laws is that of a sampled round (``dpkit_core.privacy.accounts``, 1.).
The joint coins are not used. What a party knows of its own sample is about its own records.
"""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.metadata import version

import numpy as np
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from dpkit_core import Integers
from dpkit_core.errors import Declined, EngineFailed
from dpkit_core.noise.randomness import Randomness, Uncopyable
from dpkit_engine_federation.keys import Identity, has_signed
from dpkit_engine_federation.shares import clamped, share_of
from dpkit_engine_federation.terms import Terms
from dpkit_engine_federation.transport import CLOSING, NoAnswer, Transport, Void

_SEED, _SALT = 16, 32


def mask_of(secret: bytes, context: bytes, size: int) -> Integers:
    """Return the mask of a pair of parties in one room, as words modulo 2^64, shape (size,)."""
    key = HKDF(hashes.SHA256(), 32, salt=None, info=b"dpkit mask" + context).derive(secret)
    # A key makes one mask, so its counter begins at 0.
    stream = Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor()
    return np.frombuffer(stream.update(bytes(8 * size)), "<u8").astype(np.uint64).view(np.int64)


class Participant(Uncopyable):
    """A party that has met the others; a ``dpkit_core.noise.joint.Joint``.

    Parameters
    ----------
    terms
        What was agreed on.
    name
        Which party this is.
    identity
        Its key.
    transport
        How it reaches the others.
    seed
        What it adds to the public coins; from the system by default.

    Raises
    ------
    Declined
        If a party is missing, or has signed other terms, or is not who the terms say. Nothing is spent.
    """

    def __init__(
        self, terms: Terms, name: str, identity: Identity, transport: Transport, *, seed: int | None = None
    ) -> None:
        if terms.parties.get(name) != identity.public:
            raise Declined(f"the terms name another key for {name}; nothing is spent")
        self._terms, self._name, self._transport, self._identity = terms, name, transport, identity
        self._members: tuple[str, ...] = tuple(terms.parties)
        secret = X25519PrivateKey.generate()
        opening = os.urandom(_SALT) + (os.urandom(_SEED) if seed is None else seed.to_bytes(_SEED, "big"))
        said = secret.public_key().public_bytes_raw() + hashlib.sha256(opening).digest()
        hello = said + identity.sign(self._hello(name, said))
        hellos = self._met("hello", hello)
        # Whoever signs next that they have met by these has met this party in this run: its key is one.
        if hellos[name] != hello:
            raise Declined(
                "what came back in this party's name is not what it said, but of another run. "
                "Nothing is spent"
            )
        keys = {other: self._checked(other, hellos[other]) for other in self._members}
        self._hellos = _digest(hellos[other] for other in self._members)
        self._secrets = {
            other: self._shared(other, secret, keys[other][:32]) for other in self._members if other != name
        }
        openings = self._met("seeds", opening + identity.sign(self._meeting(name)))
        joint = 0
        for other in self._members:
            opened, signature = openings[other][: _SALT + _SEED], openings[other][_SALT + _SEED :]
            if not has_signed(terms.parties[other], self._meeting(other), signature):
                raise Declined(
                    f"{other} has not met these parties: the server plays back what it said in another run. "
                    "Nothing is spent"
                )
            if hashlib.sha256(opened).digest() != keys[other][32:]:
                raise Declined(
                    f"{other} revealed a seed other than the one it had committed to; nothing is spent"
                )
            joint ^= int.from_bytes(opened[_SALT:], "big")
        # Public: who is in the federation knows them, and they protect nothing.
        self.coins = Randomness.from_seed(joint)
        self._totals = bytes(32)
        self._step = 0
        self._answered: set[str] = set()

    def _met(self, phase: str, message: bytes) -> Mapping[str, bytes]:
        """Return what all parties say at the beginning."""
        try:
            answer = self._transport.meet(phase, self._name, self._members, message)
        except NoAnswer as error:
            raise Declined(f"{error}. Nothing is spent") from None
        came = answer.present if isinstance(answer, Void) else answer
        missing = [other for other in self._members if other not in came]
        if isinstance(answer, Void) or missing:
            raise Declined(f"{', '.join(missing) or 'somebody'} did not join, or left. Nothing is spent")
        return answer

    def _hello(self, name: str, said: bytes) -> bytes:
        return b"dpkit federation hello" + bytes.fromhex(self._terms.digest) + name.encode() + said

    def _meeting(self, name: str) -> bytes:
        return b"dpkit federation meeting" + self._hellos + name.encode()

    def _checked(self, other: str, hello: bytes) -> bytes:
        """Return what a party said, if who the terms name has signed it with these terms."""
        said, signature = hello[:64], hello[64:]
        if not has_signed(self._terms.parties[other], self._hello(other, said), signature):
            raise Declined(
                f"{other} has not signed these terms with the key that they name: it has other terms, or is "
                "someone else. Compare the digests of the terms. Nothing is spent"
            )
        return said

    @staticmethod
    def _shared(other: str, secret: X25519PrivateKey, public: bytes) -> bytes:
        try:
            return secret.exchange(X25519PublicKey.from_public_bytes(public))
        except ValueError:  # a point of small order, by which all secrets would be 0
            raise Declined(f"{other} sent a key that hides nothing; nothing is spent") from None

    @property
    def members(self) -> tuple[str, ...]:
        """Those who are left."""
        return self._members

    @property
    def inflation(self) -> float:
        """As ``Joint.inflation`` says: each adds what ``honest`` of them are to add."""
        members = len(self._members)
        return math.sqrt(members / (members - self._terms.colluders))

    @property
    def spare(self) -> int:
        """As ``Joint.spare`` says."""
        return self._terms.spare

    @property
    def engine(self) -> tuple[str, str, str]:
        """As ``Joint.engine`` says."""
        return "federation", "dpkit-engine-federation", version("dpkit-engine-federation")

    @property
    def assumptions(self) -> tuple[str, ...]:
        """As ``Joint.assumptions`` says."""
        terms = self._terms
        return (
            f"at most {terms.colluders} of the {len(terms.parties)} parties that hold the records share what "
            "they know with each other and with the server, and all others add their shares of noise",
            "X25519, HKDF-SHA-256 and AES-256 are not broken, and fingerprints of the parties' keys were "
            "compared by other means than the server",
            "that a party has records, and when it answers, is public; a person with records at several "
            "parties is several records",
        )

    def total(
        self,
        value: Integers,
        scale: int,
        noise: Callable[[int], Integers],
        attempt: Callable[[], Integers],
        /,
    ) -> Integers:
        """As ``Joint.total`` says."""
        self._step += 1
        number = 0
        while True:
            members = self._members
            share = share_of(scale, len(members), self._terms.colluders)
            noisy = clamped(value, len(members)) + noise(share)  # in this order: see ``shares``
            room = f"{self._step}/{number}"
            message = self._masked(room, members, noisy)
            try:
                answer = self._transport.add(room, self._name, members, message)
            except NoAnswer as error:
                raise EngineFailed(f"{error}. Nothing is released, and the budget counts as spent") from None
            if not isinstance(answer, Void):
                return self._opened(answer, members, value.size)
            if self._name not in answer.present or not set(answer.present) < set(members):
                raise EngineFailed(
                    "this party was left out: the others went on without it. The budget counts as spent"
                )
            self._members = tuple(other for other in members if other in answer.present)
            if len(self._members) < self._terms.least:
                missing = ", ".join(other for other in members if other not in answer.present)
                raise EngineFailed(
                    f"{missing} did not answer in time; {len(self._members)} parties are left, and the terms "
                    f"need {self._terms.least}. Nothing is released, and the budget counts as spent"
                )
            value = attempt()  # of a new sample, where there is one: what was sent may be known
            number += 1

    def compared(self, released: str, /) -> tuple[str, ...]:
        """As ``Joint.compared`` says."""
        said = bytes.fromhex(released)
        message = said + self._identity.sign(self._closing(self._name, said))
        try:
            answer = self._transport.meet(CLOSING, self._name, self._members, message)
        except NoAnswer:
            answer = Void(())
        others = [other for other in self._members if other != self._name]
        known = {} if isinstance(answer, Void) else {other: answer.get(other, b"") for other in others}
        silent = [other for other in others if not self._has_closed(other, known.get(other, b""))]
        different = [other for other in others if other not in silent and known[other][:32] != said]
        sentences = []
        if different:
            more = ", as most parties did" if 2 * len(different) > len(self._members) else ""
            sentences.append(f"{', '.join(different)} computed another release from the same totals{more}")
        if silent:
            sentences.append(f"what {', '.join(silent)} released was not compared")
        if not sentences and others:
            sentences = [f"{len(self._members)} parties computed the same release, whose digest all signed"]
        return tuple(sentences)

    def _closing(self, name: str, said: bytes) -> bytes:
        return b"dpkit federation closing" + self._hellos + name.encode() + said

    def _has_closed(self, other: str, message: bytes) -> bool:
        said, signature = message[:32], message[32:]
        return has_signed(self._terms.parties[other], self._closing(other, said), signature)

    def _masked(self, room: str, members: Sequence[str], noisy: Integers) -> bytes:
        """Return the message to a room: another vector under the same masks would show their difference."""
        if room in self._answered:
            raise EngineFailed("a room is answered once")
        self._answered.add(room)
        context = _digest([self._hellos, room.encode(), *map(str.encode, members), self._totals])
        words = np.append(noisy, 1)
        for other in members:
            if other != self._name:
                mask = mask_of(self._secrets[other], context, words.size)
                words = words + mask if self._name < other else words - mask
        return words.astype("<i8").tobytes()

    def _opened(self, answer: bytes, members: Sequence[str], size: int) -> Integers:
        whole = len(answer) == 8 * (size + 1)
        words = np.frombuffer(answer if whole else b"", "<i8").astype(np.int64)
        if not whole or words[-1] != len(members):
            raise EngineFailed("the parties do not agree on what came before, so nothing can be added up")
        self._totals = _digest([self._totals, answer])
        return words[:-1]


def _digest(pieces: Iterable[bytes]) -> bytes:
    """Return a digest from which pieces cannot be shifted into each other."""
    whole = hashlib.sha256()
    for piece in pieces:
        whole.update(len(piece).to_bytes(8, "big") + piece)
    return whole.digest()
