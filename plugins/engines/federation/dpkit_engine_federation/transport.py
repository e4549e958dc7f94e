"""How parties reach each other: a protocol of three calls, and a server for parties in one process.

The server needs no part of dpkit and sees no number that is not masked: who is there, sizes, and totals.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from typing import Protocol

import attrs
import numpy as np

from dpkit_core.errors import EngineFailed


@attrs.frozen
class Void:
    """Answer of a room that not all members came to.

    Attributes
    ----------
    present
        Those who came in time.
    """

    present: tuple[str, ...]


class Transport(Protocol):
    """What a party asks of whoever is in the middle; any call may raise ``EngineFailed``."""

    def meet(self, phase: str, name: str, message: bytes, /) -> Mapping[str, bytes]:
        """Return the messages of all parties to a phase, when all have come."""
        ...

    def add(self, room: str, name: str, members: Sequence[str], message: bytes, /) -> bytes | Void:
        """Return the sum of all messages to a room, as little-endian words modulo 2^64."""
        ...

    def leave(self, name: str, /) -> None:
        """Say that a party will not come again."""
        ...


def words_sum(messages: Sequence[bytes]) -> bytes:
    r"""Return the sum of messages of equal length, word by word, modulo 2^64.

    >>> words_sum([b"\xff" * 8, b"\x02" + bytes(7)]) == b"\x01" + bytes(7)
    True
    """
    words = [np.frombuffer(message, "<u8") for message in messages]
    return np.sum(words, axis=0, dtype=np.uint64).astype("<u8").tobytes()


@attrs.define
class _Room:
    since: float
    messages: dict[str, bytes] = attrs.field(factory=dict)
    answer: bytes | Void | None = None


@attrs.define(eq=False)
class LocalServer:
    """Parties in threads of one process.

    Attributes
    ----------
    names
        All parties.
    patience
        Seconds after which who did not come is missing.
    """

    names: tuple[str, ...] = attrs.field(converter=tuple)
    patience: float
    _rooms: dict[str, _Room] = attrs.field(factory=dict, init=False)
    _gone: set[str] = attrs.field(factory=set, init=False)
    _changed: threading.Condition = attrs.field(factory=threading.Condition, init=False)

    def meet(self, phase: str, name: str, message: bytes, /) -> Mapping[str, bytes]:
        """As ``Transport.meet`` says."""
        room = self._come(f"meet/{phase}", name, self.names, message)
        if isinstance(room.answer, Void):
            raise EngineFailed("not all parties came to the beginning; nothing was computed")
        return dict(room.messages)

    def add(self, room: str, name: str, members: Sequence[str], message: bytes, /) -> bytes | Void:
        """As ``Transport.add`` says."""
        answer = self._come(f"add/{room}", name, members, message).answer
        assert answer is not None
        return answer

    def leave(self, name: str, /) -> None:
        """As ``Transport.leave`` says."""
        with self._changed:
            self._gone.add(name)
            self._changed.notify_all()

    def _come(self, where: str, name: str, members: Sequence[str], message: bytes) -> _Room:
        with self._changed:
            room = self._rooms.setdefault(where, _Room(time.monotonic()))
            if room.answer is not None or name in room.messages or name not in members:
                raise EngineFailed("this party was left out: the others went on without it")
            room.messages[name] = message
            while room.answer is None:
                left = room.since + self.patience - time.monotonic()
                if len({len(sent) for sent in room.messages.values()}) > 1 and where.startswith("add/"):
                    raise EngineFailed("the parties do not send vectors of one length")
                if set(room.messages) == set(members):
                    room.answer = words_sum(list(room.messages.values())) if where.startswith("add/") else b""
                elif left <= 0 or set(members) <= set(room.messages) | self._gone:
                    room.answer = Void(tuple(sorted(room.messages)))
                else:
                    self._changed.wait(left)
            self._changed.notify_all()
            return room
