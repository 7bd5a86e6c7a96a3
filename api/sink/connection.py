"""One HTTP connection: who is at the other end, and how long it may stay silent."""

from __future__ import annotations

import asyncio
from functools import partial

from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from ..error_answers import error_response
from .connections import Connections

# An API server closes an idle connection after 90 s. If the sink closed first, that would race with the next batch.
KEEP_ALIVE_SECONDS = 120
# An API server's headers are a hundredth of this; the parser itself would collect headers without end.
HEAD_BYTES_MAX = 64 * 1024
# A sender's first headers come in its next packet.
FIRST_REQUEST_SECONDS_MAX = 10.0


class GuardedConnection(HttpToolsProtocol):
    """An HTTP/1.1 connection that gives the routes the common name of a verified client certificate, and that closes when no
    request comes.

    `first_request_seconds` is the time for the first request's headers. Without that limit, a client could open connections, send
    nothing, and use up the server before it must prove who it is.
    """

    first_request_seconds: float
    held: Connections
    _look_later: asyncio.TimerHandle | None = None
    _head_bytes: int | None = None  # belongs to the request whose headers are arriving

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Called once the TLS handshake, including the verification, is done."""
        super().connection_made(transport)
        certificate = transport.get_extra_info("peercert")
        name = _common_name(certificate) if certificate else None
        self.app_state = {**self.app_state, "certificate_name": name, "admit": partial(self.held.admit, self)}
        self.held.opened(self)
        self._look_later = self.loop.call_later(self.first_request_seconds, self._end_if_silent, None)

    def connection_lost(self, exc: Exception | None) -> None:
        """Called when either side has closed."""
        super().connection_lost(exc)
        self.held.closed(self)
        if self._look_later is not None:
            self._look_later.cancel()

    def is_idle(self) -> bool:
        """Whether no request is being answered."""
        return self._head_bytes is None and (self.cycle is None or self.cycle.response_complete)

    def give_way(self) -> None:
        """Close the connection, because too many are open."""
        self.transport.abort()

    def data_received(self, data: bytes) -> None:
        """Parse received bytes; headers that grow beyond the limit end the connection."""
        super().data_received(data)
        if self._head_bytes is not None:
            self._head_bytes += len(data)
            if self._head_bytes > HEAD_BYTES_MAX:
                self.transport.write(_HEAD_TOO_LARGE)
                self.transport.close()

    def on_message_begin(self) -> None:
        """Called at the first byte of a request."""
        super().on_message_begin()
        self._head_bytes = 0

    def on_headers_complete(self) -> None:
        """Called at the end of the headers; starts the application, or refuses headers that came at once and are too large."""
        self._head_bytes = None
        app = self.app
        if len(self.url) + sum(len(name) + len(value) for name, value in self.headers) > HEAD_BYTES_MAX:
            self.app = _refuse_head
        try:
            super().on_headers_complete()
        finally:
            self.app = app

    def _end_if_silent(self, request_before: object) -> None:
        """Close the connection when no request has begun since the last check; bytes of unfinished headers do not count."""
        waiting = self.cycle is None or self.cycle.response_complete
        if waiting and self.cycle is request_before:
            self.transport.close()
        else:
            self._look_later = self.loop.call_later(KEEP_ALIVE_SECONDS, self._end_if_silent, self.cycle)


def connection_type(first_request_seconds: float, connections_max: int) -> type[GuardedConnection]:
    """The connections of one server; uvicorn makes them itself, from a class alone."""
    seconds = min(first_request_seconds, FIRST_REQUEST_SECONDS_MAX)

    class Connection(GuardedConnection):
        first_request_seconds = seconds
        held = Connections(connections_max)

    return Connection


_HEAD_TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"


async def _refuse_head(scope: Scope, receive: Receive, send: Send) -> None:
    message = f"the headers have more than {HEAD_BYTES_MAX} bytes"
    await error_response(431, "headers_too_large", message, "send fewer")(scope, receive, send)


def _common_name(certificate: dict[str, tuple[tuple[tuple[str, str], ...], ...]]) -> str | None:
    return next((value for part in certificate.get("subject", ()) for name, value in part if name == "commonName"), None)
