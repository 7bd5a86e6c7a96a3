"""The sockets on which servers listen, and how the servers end."""

from __future__ import annotations

import resource
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvloop

from ingest.errors import InputError

BACKLOG_CONNECTIONS = 256
QUERY_OPTIONS = "--query-host or --query-port"
_HANDSHAKE_SECONDS_MAX = 10.0
# If a connection's TLS handshake does not end, only its file is known; such connections end after 10 s.
_FILES_PER_CONNECTION = 8
_FILES_BESIDE = 512


class _SinkLoop(uvloop.Loop):
    """An event loop in which a TLS handshake times out after 10 s; uvicorn has no option for it, and 60 s is the default."""

    async def create_server(self, *given: Any, **options: Any) -> Any:
        if options.get("ssl") is not None:
            options.setdefault("ssl_handshake_timeout", _HANDSHAKE_SECONDS_MAX)
        return await super().create_server(*given, **options)


def sink_loop() -> uvloop.Loop:
    """The event loop of a sink."""
    return _SinkLoop()


def allow_files(connections_max: int) -> None:
    """Raise the number of files that may be open to the number that this many connections can need, if the system allows it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections_max * _FILES_PER_CONNECTION + _FILES_BESIDE
    if hard != resource.RLIM_INFINITY:
        wanted = min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def listen(host: str, port: int, options: str = "--host or --port") -> socket.socket:
    """A socket bound to the address. Raises InputError, naming the options, when it is taken or does not belong to this machine."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        # Senders that come before the application has started wait in the queue instead of being refused.
        listener.listen(BACKLOG_CONNECTIONS)
    except (OSError, OverflowError) as error:
        listener.close()
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{host}:{port}: cannot listen there: {reason}", f"choose another {options}") from error
    return listener


@contextmanager
def quiet_signals() -> Iterator[None]:
    """Ignore the signal that uvicorn raises again at its end: by then everything is in order."""
    signals = (signal.SIGTERM, signal.SIGINT)
    before = {number: signal.signal(number, lambda *_: None) for number in signals}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
