"""The transport over gRPC with mutual TLS: a server in front of a relay, and what a party reaches it by.

Three methods take and return bytes. Who calls is told by the certificate of the connection, so no party can
come, or leave, for another. Certificates are made by the keys of the terms (``keys``).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import attrs

# What it logs of a lost connection is told in a sentence where it matters.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")
import grpc

from dpkit_core.errors import InvalidOption
from dpkit_engine_federation.keys import Identity, anchor, certified, fingerprint
from dpkit_engine_federation.terms import Terms
from dpkit_engine_federation.transport import CLOSING, NoAnswer, Relay, Void
from dpkit_engine_federation.wire import answered, asked, read_meeting, read_total

_SERVICE = "dpkit.federation.Relay"
_SERVER = "server"
_PAUSE = 0.2

# A machine that is gone is noticed within a minute, though it closes no connection.
_LIVE = [
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 20_000),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 10_000),
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
]


@contextmanager
def serving(
    terms: Terms,
    identity: Identity,
    *,
    listen: str,
    wait: float,
    report: Callable[[str], None],
    journal: Path | None = None,
) -> Iterator[tuple[Relay, int]]:
    """Serve a federation while the block runs; yield its relay, and the port that it listens at.

    Parameters
    ----------
    terms
        Whose parties are let in.
    identity
        The server's key.
    listen
        Where, HOST:PORT; port 0 for any that is free.
    wait
        Seconds that parties have to meet.
    report
        Called with a sentence where something happens.
    journal
        As of ``Relay``: by which a server that has died goes on.

    Raises
    ------
    InvalidOption
        If the key is not that of the terms, or the address cannot be had.
    """
    if identity.public != terms.server:
        raise InvalidOption(
            f"the terms name the server's key {fingerprint(terms.server)}, and this one is "
            f"{fingerprint(identity.public)}; give the key that belongs to the terms"
        )
    relay = Relay(tuple(terms.parties), terms.patience, wait, report, journal)
    # Each party waits in one call at a time, and may ask again while the server still holds the first.
    server = grpc.server(
        ThreadPoolExecutor(2 * len(terms.parties) + 2),
        options=[*_LIVE, ("grpc.so_reuseport", 0)],
    )
    server.add_generic_rpc_handlers((_methods(relay, dict(terms.parties)),))
    trusted = b"".join(map(anchor, terms.parties.values()))
    credentials = grpc.ssl_server_credentials([identity.certificate(_SERVER)], trusted, True)
    try:
        port = server.add_secure_port(listen, credentials)
    except RuntimeError as error:
        raise InvalidOption(f"cannot listen at {listen}; is another server there?") from error
    server.start()
    try:
        yield relay, port
    finally:
        server.stop(1.0).wait()


def _methods(relay: Relay, parties: dict[str, str]) -> Any:
    def method(call: str) -> Any:
        def handle(request: bytes, context: Any) -> bytes:
            name = certified(context.auth_context()["x509_pem_cert"][0], parties)
            if name is None:
                context.abort(grpc.StatusCode.PERMISSION_DENIED, "the certificate is not of a party")
            try:
                return answered(relay, call, str(name), request)
            except NoAnswer:
                context.abort(grpc.StatusCode.ABORTED, "left out")
            except (ValueError, TypeError):
                context.abort(grpc.StatusCode.INVALID_ARGUMENT, "not a message of a party")
            raise AssertionError("abort raises")

        return grpc.unary_unary_rpc_method_handler(handle)

    calls = {call.capitalize(): method(call) for call in ("meet", "add", "leave")}
    return grpc.method_handlers_generic_handler(_SERVICE, calls)


@attrs.define(eq=False)
class GrpcTransport:
    """How a party reaches the server; a ``Transport``. To be closed.

    A call that the connection fails is sent again, as it is, until the patience is over: so a server that is
    started again in time, with its journal, loses nobody.

    Attributes
    ----------
    terms
        Where the server is, and its key.
    identity
        The party's key.
    wait
        Seconds to meet the others.
    address
        Where the server is, if not where the terms say.
    report
        Called with a sentence when the server is not reached and is tried again.
    """

    terms: Terms
    identity: Identity
    wait: float = 600.0
    address: str = ""
    report: Callable[[str], None] = lambda sentence: None
    _channel: Any = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        name = self.terms.name_of(self.identity.public)
        if name is None:
            raise InvalidOption(
                f"the terms have no party with the key {fingerprint(self.identity.public)}; give the key "
                f"that belongs to one of {', '.join(self.terms.parties)}"
            )
        self.address = self.address or self.terms.address
        credentials = grpc.ssl_channel_credentials(
            anchor(self.terms.server), *self.identity.certificate(name)
        )
        # It is known by its key, wherever it is.
        options = [*_LIVE, ("grpc.ssl_target_name_override", _SERVER), ("grpc.max_reconnect_backoff_ms", 500)]
        self._channel = grpc.secure_channel(self.address, credentials, options)

    def meet(
        self, phase: str, name: str, members: Sequence[str], message: bytes, /
    ) -> Mapping[str, bytes] | Void:
        """As ``Transport.meet`` says."""
        patience = self.terms.patience if phase == CLOSING else self.wait
        return read_meeting(self._call("Meet", asked(phase, members, message), patience))

    def add(self, room: str, name: str, members: Sequence[str], message: bytes, /) -> bytes | Void:
        """As ``Transport.add`` says."""
        return read_total(self._call("Add", asked(room, members, message), self.terms.patience))

    def leave(self, name: str, /) -> None:
        """As ``Transport.leave`` says; nobody is waited for."""
        with suppress(grpc.RpcError):
            self._channel.unary_unary(f"/{_SERVICE}/Leave")(b"", timeout=2.0)
        self._channel.close()

    def _call(self, method: str, request: bytes, patience: float) -> bytes:
        call = self._channel.unary_unary(f"/{_SERVICE}/{method}")
        until, told = time.monotonic() + patience, False
        while True:
            try:
                # The server answers when the patience of those who came first is over; then it is away.
                left = max(until - time.monotonic(), 0.0) + 10.0
                return bytes(call(request, timeout=left))
            except grpc.RpcError as error:
                if error.code() is grpc.StatusCode.ABORTED and request.startswith(b'["hello"'):
                    raise NoAnswer(
                        "the server has begun a run of these terms, with something else of this party or "
                        "without it. Whoever runs it ends it and starts it again; if it then says that it "
                        f"goes on, they end it, and delete {self.terms.journal} beside its terms"
                    ) from None
                if error.code() is not grpc.StatusCode.UNAVAILABLE:
                    raise NoAnswer(self._reason(error)) from None
                if "handshake" in (error.details() or "") or time.monotonic() > until:
                    raise NoAnswer(self._reason(error)) from None
                if not told:
                    self.report(f"{self._reason(error)}; trying for {patience:g} s")
                    told = True
            time.sleep(_PAUSE)

    def _reason(self, error: Any) -> str:
        """Return what went wrong, in words of our own: the server's could say anything."""
        match error.code():
            case grpc.StatusCode.ABORTED:
                return "this party was left out: the others went on without it, or send other vectors"
            case grpc.StatusCode.PERMISSION_DENIED:
                return "the server does not let this party in: its terms name another key"
            case grpc.StatusCode.DEADLINE_EXCEEDED:
                return f"the server at {self.address} does not answer"
        if "handshake" in (error.details() or ""):
            return (
                f"whoever answers at {self.address} does not have the server's key that the terms name, "
                f"{fingerprint(self.terms.server)}"
            )
        return (
            f"the server at {self.address} is away, or its terms do not name this party's key "
            f"{fingerprint(self.identity.public)}"
        )
