"""The random streams of one run: AES in counter mode, one key per name, never shared by two processes.

Noise protects only while no one else can repeat it. So a stream is keyed by the operating system,
refuses to be copied, and takes a new key in a forked child. The cipher is AES-128: block ``i`` of a
stream is the encryption of the number ``i``, which is as good as independent bits to anyone who
cannot break AES.
"""

from __future__ import annotations

import hashlib
import os
from typing import Any, NoReturn, SupportsIndex

import attrs
import numpy as np
import numpy.typing as npt
from randomgen import AESCounter

_KEY_BYTES = 16


def _key_from_os() -> bytes:
    return os.urandom(_KEY_BYTES)


def _key_from_seed(seed: int, name: str) -> bytes:
    # A decimal number holds no colon, so no two pairs (seed, name) hash the same text.
    return hashlib.sha256(f"{seed}:{name}".encode()).digest()[:_KEY_BYTES]


class Uncopyable:
    """Refuses copy, deep copy and pickle, which all go through ``__reduce_ex__``."""

    __slots__ = ()

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise TypeError(
            f"a {type(self).__name__} cannot be copied or pickled: the copy would repeat the noise of the "
            "original, and two releases with the same noise reveal the difference of their values; create "
            "a new Randomness in the other process instead"
        )


class Bits(Uncopyable, AESCounter):  # type: ignore[misc] # randomgen has no types
    """Bits in counter mode that cannot be copied, and do not tell their key: other libraries get them, too.

    A ``RandomState`` or ``Generator`` over them refuses to be copied as well.
    """

    @property
    def state(self) -> NoReturn:
        """Refused: it has the key."""
        self.__reduce_ex__(2)

    @state.setter
    def state(self, state: Any) -> NoReturn:
        self.__reduce_ex__(2)


class Stream(Uncopyable):
    """One named stream of random bits, in the process that reads it.

    Read ``generator`` anew for each batch of draws and do not keep it: the process is compared at
    every access, and a forked child gets a generator of its own. A child is always keyed by the
    operating system, also where the parent was seeded. Deriving its key from the seed and the
    child's process number would gain nothing, since process numbers differ between runs, and would
    risk much, since they are used again after a child ends: two workers could share their noise.
    Seeded noise can therefore be repeated in the process that made the seed's ``Randomness``, and
    nowhere else.

    Attributes
    ----------
    reproducible
        Whether its key was given, in which case nothing drawn from it is private. Each stream records
        this itself, wherever it is used later.
    """

    __slots__ = ("_generator", "_name", "_process", "reproducible")

    def __init__(self, name: str, key: bytes | None = None) -> None:
        self._name = name
        self.reproducible = key is not None
        self._start(_key_from_os() if key is None else key)

    def __repr__(self) -> str:
        return f"Stream({self._name!r})"

    @property
    def generator(self) -> np.random.Generator:
        """The generator of this stream in this process."""
        if self._process != os.getpid():
            self._start(_key_from_os())
        return self._generator

    def _start(self, key: bytes) -> None:
        # ``key=`` is used as it is; ``seed=`` would pass it through a hash that is not made for secrets.
        self._generator = np.random.Generator(Bits(key=int.from_bytes(key, "little")))
        self._process = os.getpid()


@attrs.frozen(eq=False)
class Coins:
    """Secret bits for each place of a table: 32 of them, the same whoever asks and how often.

    Word ``i`` is a part of block ``i // 4`` of the cipher under a key that is drawn for this one use. So
    whoever has some of the records can compute their coins without the others, and again after a failure;
    to anyone without the key, words of different places or keys are independent. Whoever has the records may
    have the key, so coins can be pickled, unlike a stream. Two rounds with one key would share a sample.

    >>> coins = Coins.drawn(np.random.default_rng(0))
    >>> bool((coins.words(5, 7) == coins.words(0, 12)[5:]).all())
    True
    """

    _key: int = attrs.field(repr=False)

    @classmethod
    def drawn(cls, generator: np.random.Generator) -> Coins:
        """Return coins by a new key."""
        return cls(int.from_bytes(generator.bytes(_KEY_BYTES), "little"))

    def words(self, start: int, count: int) -> npt.NDArray[np.uint32]:
        """Return the words of ``count`` places from ``start`` on."""
        block, skipped = divmod(start, 4)
        stream = np.random.Generator(Bits(key=self._key, counter=block))
        return np.frombuffer(stream.bytes(4 * (skipped + count)), dtype=np.uint32)[skipped:]


@attrs.define(eq=False)
class Randomness(Uncopyable):
    """All random streams of one run, by name.

    Asking twice for a name gives the same stream, further along: two streams with one key would
    repeat each other.

    >>> Randomness.from_seed(7).describe()
    'seeded (reproducible, not private)'
    >>> a, b = Randomness.from_seed(7), Randomness.from_seed(7)
    >>> bool(a.stream("noise").generator.random() == b.stream("noise").generator.random())
    True
    """

    _seed: int | None = attrs.field(repr=False)
    _streams: dict[str, Stream] = attrs.field(factory=dict, init=False, repr=False)

    @classmethod
    def from_os(cls) -> Randomness:
        """Return randomness fit for a private release: each stream has 128 key bits of the system."""
        return cls(None)

    @classmethod
    def from_seed(cls, seed: int) -> Randomness:
        """Return randomness that repeats itself, for tests: who knows the seed can subtract the noise."""
        return cls(seed)

    @property
    def reproducible(self) -> bool:
        """Whether the streams follow from a seed, in which case nothing drawn from them is private."""
        return self._seed is not None

    def stream(self, name: str) -> Stream:
        """Return the stream called ``name``, the same object at each call."""
        if name not in self._streams:
            key = None if self._seed is None else _key_from_seed(self._seed, name)
            # setdefault: of two threads that come here at once, both get the stream of the first.
            self._streams.setdefault(name, Stream(name, key))
        return self._streams[name]

    def describe(self) -> str:
        """Return the words of the certificate about where the noise comes from."""
        if self.reproducible:
            return "seeded (reproducible, not private)"
        return "AES-128 counter mode keyed by the operating system"
