"""Calls and answers as bytes, alike for every transport that carries bytes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from dpkit_engine_federation.transport import NoAnswer, Transport, Void


def asked(where: str, members: Sequence[str], message: bytes) -> bytes:
    """Return a call with a message to a phase or a room."""
    return json.dumps([where, list(members)]).encode() + b"\n" + message


def answered(relay: Transport, call: str, name: str, request: bytes) -> bytes:
    """Return what a relay answers to a call (``meet``, ``add``, ``leave``) of a party; nothing if it leaves.

    Raises
    ------
    NoAnswer
        If the relay has none for it.
    ValueError, TypeError
        If the request is not what ``asked`` returns.
    """
    if call == "leave":
        relay.leave(name)
        return b""
    head, _, message = request.partition(b"\n")
    try:
        where, members = json.loads(head)
    except RecursionError:
        raise ValueError("a request is nested too deeply") from None
    reached: Any = relay.meet if call == "meet" else relay.add
    answer = reached(str(where), name, [str(member) for member in members], message)
    if isinstance(answer, Void):
        return b"V" + json.dumps(answer.present).encode()
    if isinstance(answer, bytes):
        return b"S" + answer
    return b"M" + json.dumps({other: said.hex() for other, said in answer.items()}).encode()


def read_meeting(answer: bytes) -> Mapping[str, bytes] | Void:
    """Return what is answered where parties meet; ``NoAnswer`` if that cannot be read."""
    if answer[:1] == b"V":
        return _void(answer)
    said = _json(answer)
    if answer[:1] != b"M" or not isinstance(said, dict):
        raise _unreadable()
    try:
        return {str(other): bytes.fromhex(text) for other, text in said.items()}
    except (ValueError, TypeError):
        raise _unreadable() from None


def read_total(answer: bytes) -> bytes | Void:
    """Return what is answered in a room of a sum; ``NoAnswer`` if that cannot be read."""
    if answer[:1] == b"V":
        return _void(answer)
    if answer[:1] != b"S":
        raise _unreadable()
    return answer[1:]


def _void(answer: bytes) -> Void:
    found = _json(answer)
    if not isinstance(found, list) or not all(isinstance(text, str) for text in found):
        raise _unreadable()
    return Void(tuple(found))


def _json(answer: bytes) -> Any:
    try:
        return json.loads(answer[1:])
    except (ValueError, RecursionError):
        raise _unreadable() from None


def _unreadable() -> NoAnswer:
    return NoAnswer("the answer cannot be read")
