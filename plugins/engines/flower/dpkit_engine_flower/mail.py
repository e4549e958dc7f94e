"""A transport by way of a mailbox: a folder that a party and its SuperNode share.

Flower starts a process for each message to a node, and ships the code for it. So the party does not run in
Flower: it runs by itself, with its records, and leaves what it would send in a folder, masked. What Flower
runs at the node takes it from there and brings the answer, one message each time (``app``).

Files are written whole or not at all. Message n is answered by answer n; there is one at a time.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
from dpkit_engine_federation import NoAnswer, Relay, Void

#: How long a node waits for the party's next message before it says that there is none yet, and looks again.
AT_NODE, PAUSE = 5.0, 0.02


@attrs.define(eq=False)
class FlowerTransport:
    """How a party reaches the others; a ``Transport``.

    Attributes
    ----------
    mailbox
        The folder, which nobody else has used: made if it is not there.
    patience
        Seconds for each answer. Flower takes some ten for each, beside what the relay waits for others.
    """

    mailbox: Path = attrs.field(converter=Path)
    patience: float = 600.0
    _number: int = attrs.field(default=0, init=False)

    def __attrs_post_init__(self) -> None:
        self.mailbox.mkdir(parents=True, exist_ok=True)
        if any(self.mailbox.iterdir()):
            raise NoAnswer(f"the mailbox {self.mailbox} is not empty; give each run one of its own")

    def meet(
        self, phase: str, name: str, members: Sequence[str], message: bytes, /
    ) -> Mapping[str, bytes] | Void:
        """As ``Transport.meet`` says."""
        kind, body = self._asked(["meet", phase, list(members)], message)
        if kind == b"V":
            return Void(tuple(json.loads(body)))
        if kind != b"M":
            raise NoAnswer("this party was left out: the others went on without it")
        return {other: bytes.fromhex(said) for other, said in json.loads(body).items()}

    def add(self, room: str, name: str, members: Sequence[str], message: bytes, /) -> bytes | Void:
        """As ``Transport.add`` says."""
        kind, body = self._asked(["add", room, list(members)], message)
        if kind == b"V":
            return Void(tuple(json.loads(body)))
        if kind != b"S":
            raise NoAnswer("this party was left out, or the parties do not send vectors of one length")
        return body

    def leave(self, name: str, /) -> None:
        """As ``Transport.leave`` says; nobody is waited for."""
        self._put(["leave"], b"")

    def _asked(self, head: list[Any], message: bytes) -> tuple[bytes, bytes]:
        self._put(head, message)
        answer, until = self.mailbox / f"answer-{self._number}", time.monotonic() + self.patience
        while not answer.exists():
            if time.monotonic() > until:
                raise NoAnswer(f"Flower brought no answer to {self.mailbox} in {self.patience:g} s")
            time.sleep(PAUSE)
        said = answer.read_bytes()
        return said[:1], said[1:]

    def _put(self, head: list[Any], message: bytes) -> None:
        self._number += 1
        _written(self.mailbox / f"message-{self._number}", json.dumps(head).encode() + b"\n" + message)


def _written(file: Path, content: bytes) -> None:
    whole = file.with_name(f"{file.name}.part")
    whole.write_bytes(content)
    os.replace(whole, file)


def delivered(box: Path, number: int, answer: bytes) -> None:
    """Leave the answer to a message in a mailbox; the same again changes nothing."""
    _written(box / f"answer-{number}", answer)


def collected(box: Path, number: int, wait: float = AT_NODE) -> tuple[int, bytes]:
    """Return the message after ``number`` and its number; ``number`` itself and nothing if none comes."""
    after, until = box / f"message-{number + 1}", time.monotonic() + wait
    while not after.exists():
        if time.monotonic() > until:
            return number, b""
        time.sleep(PAUSE)
    return number + 1, after.read_bytes()


def answered(relay: Relay, name: str, said: bytes) -> bytes:
    """Return what a relay answers to a message, as ``FlowerTransport`` reads it; b"" where a party leaves."""
    head, _, message = said.partition(b"\n")
    call, *rest = json.loads(head)
    if call == "leave":
        relay.leave(name)
        return b""
    try:
        where, members = rest
        answer: Any = relay.meet if call == "meet" else relay.add
        answer = answer(where, name, members, message)
    except NoAnswer:
        return b"X"
    if isinstance(answer, Void):
        return b"V" + json.dumps(answer.present).encode()
    if isinstance(answer, bytes):
        return b"S" + answer
    return b"M" + json.dumps({other: each.hex() for other, each in answer.items()}).encode()
