"""How parties reach each other: a protocol of three calls, and what whoever is in the middle does.

The relay needs no other part of dpkit and sees no number that is not masked: who is there, sizes, and totals.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import attrs
import numpy as np

from dpkit_core.errors import DpkitError
from dpkit_core.validators import frozen_texts


class NoAnswer(DpkitError):
    """What was sent got no answer that can be used."""


@attrs.frozen
class Void:
    """Answer of a room that not all came to.

    Attributes
    ----------
    present
        Those who came in time.
    """

    present: tuple[str, ...]


class Transport(Protocol):
    """What a party asks of whoever is in the middle; any call may raise ``NoAnswer``.

    A message to a room may be sent again as it is: it is counted once, and has one answer.
    """

    def meet(
        self, phase: str, name: str, members: Sequence[str], message: bytes, /
    ) -> Mapping[str, bytes] | Void:
        """Return the messages of all members to a phase, when all have come."""
        ...

    def add(self, room: str, name: str, members: Sequence[str], message: bytes, /) -> bytes | Void:
        """Return the sum of all messages to a room, as little-endian words modulo 2^64."""
        ...

    def leave(self, name: str, /) -> None:
        """Say that a party will not come again."""
        ...


#: The phase after the last sum, for which nobody is waited as long as at the beginning.
CLOSING = "closing"


def words_sum(messages: Sequence[bytes]) -> bytes:
    r"""Return the sum of messages of equal length, word by word, modulo 2^64.

    >>> words_sum([b"\xff" * 8, b"\x02" + bytes(7)]) == b"\x01" + bytes(7)
    True
    """
    words = [np.frombuffer(message, "<u8") for message in messages]
    return np.sum(words, axis=0, dtype=np.uint64).astype("<u8").tobytes()


def _sum(messages: Mapping[str, bytes]) -> bytes:
    if len(set(map(len, messages.values()))) > 1:
        raise NoAnswer("the parties sent vectors of different lengths")
    return words_sum(list(messages.values()))


@attrs.define
class _Room:
    since: float
    messages: dict[str, bytes] = attrs.field(factory=dict)
    sent: dict[str, bytes] = attrs.field(factory=dict)  # digests, for who asks again
    answer: bytes | Mapping[str, bytes] | Void | None = None


@attrs.define(eq=False)
class Relay:
    """What is in the middle: of parties in threads of one process, or behind a network.

    Attributes
    ----------
    names
        All parties.
    patience
        Seconds after which who did not come to a sum is missing.
    wait
        Seconds that parties have to meet; ``patience`` by default.
    report
        Called with a sentence where something happens that a person may want to know.
    journal
        A file to which each answer is written before anybody is told: a relay that is made anew of it gives
        the same ones. It holds what the relay itself has seen. None to be kept nowhere.
    """

    names: tuple[str, ...] = attrs.field(converter=frozen_texts)
    patience: float
    wait: float = attrs.field(default=attrs.Factory(lambda self: self.patience, takes_self=True))
    report: Callable[[str], None] = lambda sentence: None
    journal: Path | None = None
    _rooms: dict[str, _Room] = attrs.field(factory=dict, init=False)
    _gone: set[str] = attrs.field(factory=set, init=False)
    _changed: threading.Condition = attrs.field(factory=threading.Condition, init=False)

    def __attrs_post_init__(self) -> None:
        if self.journal is not None and self.journal.exists():
            for line in self.journal.read_bytes().splitlines():
                self._recall(line)

    def meet(
        self, phase: str, name: str, members: Sequence[str], message: bytes, /
    ) -> Mapping[str, bytes] | Void:
        """As ``Transport.meet`` says."""
        where, patience = f"meet {phase} of {' '.join(members)}", self.wait
        if phase == CLOSING:
            patience = self.patience
        answer = self._come(where, name, members, message, patience=patience, answered=dict)
        assert not isinstance(answer, bytes)
        return answer

    def add(self, room: str, name: str, members: Sequence[str], message: bytes, /) -> bytes | Void:
        """As ``Transport.add`` says."""
        # Parties that were told of different members never come to one room.
        where = f"sum {room} of {' '.join(members)}"
        answer = self._come(where, name, members, message, patience=self.patience, answered=_sum)
        assert isinstance(answer, bytes | Void)
        return answer

    def leave(self, name: str, /) -> None:
        """As ``Transport.leave`` says."""
        if name not in self._gone:
            self.report(f"{name} has left")
        with self._changed:
            self._gone.add(name)
            self._changed.notify_all()

    def over(self, seconds: float) -> bool:
        """Return whether all have left, after waiting so long for it."""
        with self._changed:
            return self._changed.wait_for(lambda: self._gone >= set(self.names), seconds)

    def _come(
        self,
        where: str,
        name: str,
        members: Sequence[str],
        message: bytes,
        *,
        patience: float,
        answered: Callable[[Mapping[str, bytes]], bytes | Mapping[str, bytes]],
    ) -> bytes | Mapping[str, bytes] | Void:
        digest = hashlib.sha256(message).digest()
        with self._changed:
            room = self._rooms.setdefault(where, _Room(time.monotonic()))
            again = room.sent.get(name)
            if name not in members or again not in (None, digest) or (room.answer is not None and not again):
                raise NoAnswer("this party was left out: the others went on without it")
            if not again:
                room.sent[name], room.messages[name] = digest, message
                if where.startswith("meet"):
                    self.report(f"{name} is here ({where.split()[1]})")
            while room.answer is None:
                left = room.since + patience - time.monotonic()
                answer: bytes | Mapping[str, bytes] | Void
                if set(room.messages) == set(members):
                    answer = answered(room.messages)
                elif left <= 0 or set(members) <= set(room.messages) | self._gone:
                    answer = Void(tuple(sorted(room.messages)))
                    missing = set(members) - set(room.messages)
                    self._gone |= missing
                    self.report(f"{', '.join(sorted(missing))} missing from {where}; the others go on")
                else:
                    self._changed.wait(left)
                    continue
                self._keep(where, room, answer)
                room.messages, room.answer = {}, answer
                self._changed.notify_all()
            return room.answer

    def _keep(self, where: str, room: _Room, answer: bytes | Mapping[str, bytes] | Void) -> None:
        """Write an answer to the journal, to the disk itself, before anybody is told."""
        if self.journal is None:
            return
        said: Any
        if isinstance(answer, bytes):
            said = answer.hex()
        elif isinstance(answer, Void):
            said = list(answer.present)
        else:
            said = {name: message.hex() for name, message in answer.items()}
        sent = {name: digest.hex() for name, digest in room.sent.items()}
        # It begins a line, for the one before may be half of one.
        line = b"\n" + json.dumps([where, said, sent, sorted(self._gone)]).encode()
        opened = os.open(self.journal, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        with os.fdopen(opened, "wb") as file:
            file.write(line)
            file.flush()
            os.fsync(opened)

    def _recall(self, line: bytes) -> None:
        """Have an answer of an earlier relay again."""
        try:
            where, said, sent, gone = json.loads(line)
        except ValueError:  # half a line, of which nobody was told
            return
        answer: bytes | Mapping[str, bytes] | Void
        if isinstance(said, str):
            answer = bytes.fromhex(said)
        elif isinstance(said, list):
            answer = Void(tuple(said))
        else:
            answer = {name: bytes.fromhex(message) for name, message in said.items()}
        digests = {name: bytes.fromhex(digest) for name, digest in sent.items()}
        self._rooms[where] = _Room(time.monotonic(), {}, digests, answer)
        self._gone.update(gone)
