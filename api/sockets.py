"""Where servers listen, and how they take their end."""

from __future__ import annotations

import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager

from ingest.errors import InputError

BACKLOG_CONNECTIONS = 256


def listen(host: str, port: int, options: str = "--host or --port") -> socket.socket:
    """A socket bound to the address. Raises InputError, naming the options, when it is taken or none of this machine's."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        # Senders that come before the application has started wait in the queue instead of being turned away.
        listener.listen(BACKLOG_CONNECTIONS)
    except (OSError, OverflowError) as error:
        listener.close()
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{host}:{port}: cannot listen there: {reason}", f"choose another {options}") from error
    return listener


@contextmanager
def quiet_signals() -> Iterator[None]:
    """Ignore the signal that uvicorn raises once more when it is done: by then everything is in order."""
    signals = (signal.SIGTERM, signal.SIGINT)
    before = {number: signal.signal(number, lambda *_: None) for number in signals}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
