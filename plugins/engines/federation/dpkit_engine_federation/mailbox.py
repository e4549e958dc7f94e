"""A transport by mailbox: a folder that a party shares with whoever carries its messages.

Message n is answered by answer n; there is one at a time. Both appear whole or not at all, and whoever
carries answers must see to that, too. Nobody else is to write in the folder, but no record's privacy rests
on that: messages are masked, and what parties meet by is signed. A forged, stale or lost answer ends a run,
or leaves this party out, as a bad server can. What is no ordinary file there is neither read nor written to.
"""

from __future__ import annotations

import os
import secrets
import stat
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import attrs

from dpkit_core.errors import InvalidOption
from dpkit_engine_federation.transport import NoAnswer, Transport, Void
from dpkit_engine_federation.wire import answered, asked, read_meeting, read_total

#: Seconds that a carrier waits for the next message before it says that there is none yet, and between looks.
AT_NODE, PAUSE = 5.0, 0.02

_REFUSED = b"X"
# A link would lead elsewhere, and a pipe has no end.
_AS_IT_IS = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


@attrs.define(eq=False)
class MailboxTransport:
    """How a party reaches the others by a mailbox; a ``Transport``.

    Attributes
    ----------
    mailbox
        The folder, empty: each run has one of its own.
    patience
        Seconds for each answer, in which messages are carried and the others are waited for.

    Raises
    ------
    InvalidOption
        If there is no such folder, or it is read-only or not empty.
    """

    mailbox: Path = attrs.field(converter=Path)
    patience: float = 600.0
    _number: int = attrs.field(default=0, init=False)

    def __attrs_post_init__(self) -> None:
        try:
            found = next(iter(sorted(os.listdir(self.mailbox))), None)
        except OSError as error:
            raise InvalidOption(
                f"cannot use the mailbox {self.mailbox}: {error.strerror}; make a folder that this party and "
                "who carries its messages can read and write"
            ) from error
        if not os.access(self.mailbox, os.W_OK | os.X_OK):
            raise InvalidOption(f"the mailbox {self.mailbox} is read-only; this party has to write there")
        if found is not None:
            raise InvalidOption(
                f"the mailbox {self.mailbox} is not empty: {found} is in it. Give each party and each run a "
                "folder of its own"
            )

    def meet(
        self, phase: str, name: str, members: Sequence[str], message: bytes, /
    ) -> Mapping[str, bytes] | Void:
        """As ``Transport.meet`` says."""
        return read_meeting(self._asked("meet", asked(phase, members, message)))

    def add(self, room: str, name: str, members: Sequence[str], message: bytes, /) -> bytes | Void:
        """As ``Transport.add`` says."""
        return read_total(self._asked("add", asked(room, members, message)))

    def leave(self, name: str, /) -> None:
        """As ``Transport.leave`` says; nobody is waited for."""
        with suppress(NoAnswer):
            self._put("leave", b"")

    def _asked(self, call: str, request: bytes) -> bytes:
        self._put(call, request)
        until = time.monotonic() + self.patience
        while (answer := _read(self.mailbox / f"answer-{self._number}")) is None:
            if time.monotonic() > until:
                raise NoAnswer(f"nobody brought an answer to {self.mailbox} in {self.patience:g} s")
            time.sleep(PAUSE)
        if answer == _REFUSED:
            raise NoAnswer("this party was left out: the others went on without it, or send other vectors")
        return answer

    def _put(self, call: str, request: bytes) -> None:
        try:
            if not self._number:  # of two parties with one mailbox, the second fails before it says anything
                (self.mailbox / "taken").touch(exist_ok=False)
            self._number += 1
            _written(self.mailbox / f"message-{self._number}", call.encode() + b"\n" + request)
        except FileExistsError:
            raise NoAnswer(
                f"another party uses the mailbox {self.mailbox}; give each one of its own"
            ) from None
        except OSError as error:
            raise NoAnswer(f"cannot write to the mailbox {self.mailbox}: {error.strerror}") from error


def delivered(mailbox: Path, number: int, answer: bytes) -> None:
    """Leave the answer to a message in a mailbox; the same again changes nothing."""
    _written(mailbox / f"answer-{number}", answer)


def collected(mailbox: Path, number: int, wait: float = AT_NODE) -> tuple[int, bytes]:
    """Return the message after ``number`` and its number; ``number`` itself and nothing if none comes."""
    until = time.monotonic() + wait
    while (said := _read(mailbox / f"message-{number + 1}")) is None:
        if time.monotonic() > until:
            return number, b""
        time.sleep(PAUSE)
    return number + 1, said


def replied(relay: Transport, name: str, said: bytes) -> bytes:
    """Return what a relay answers to a message of a mailbox; nothing to a party that leaves."""
    call, _, request = said.partition(b"\n")
    try:
        return answered(relay, call.decode(), name, request)
    except (NoAnswer, ValueError, TypeError):
        return _REFUSED


def _read(file: Path) -> bytes | None:
    """Return what a file holds, None if it is not there yet."""
    try:
        with open(file, "rb", opener=lambda path, flags: os.open(path, flags | _AS_IT_IS)) as found:
            if stat.S_ISREG(os.fstat(found.fileno()).st_mode):
                return found.read()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise NoAnswer(f"cannot read {file}: {error.strerror}") from error
    raise NoAnswer(f"{file} is not an ordinary file")


def _written(file: Path, content: bytes) -> None:
    # Under a name that nobody can have put a link at; a rename replaces a link, and does not follow it.
    part = file.with_name(f"{secrets.token_hex(16)}.part")
    with part.open("xb") as made:
        made.write(content)
    os.replace(part, file)
