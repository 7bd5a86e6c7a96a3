"""The answers while the pages load: 503 and "starting", for a user and for a program.

The application takes seconds to load, and longer on a busy machine. Clients meanwhile learn that it is starting, and when to ask
again.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import socket
import ssl
import threading
from collections.abc import Callable
from contextlib import suppress

RETRY_AFTER_SECONDS = 1
_MESSAGE = "the pages are starting"
_HINT = f"ask again in {RETRY_AFTER_SECONDS} s"
_HEAD_BYTES_MAX = 16 * 1024
_BODY_BYTES_DROPPED = 1024 * 1024
_REQUEST_SECONDS_MAX = 2.0
_LINGER_SECONDS_MAX = 1.0
_LEAVE_SECONDS_MAX = 5.0
_STYLE = """
body { margin: 12vh auto; padding: 0 1rem; max-width: 34rem; font: 1rem/1.5 system-ui, sans-serif; color: #17202c;
  background: #f6f7f9; }
h1 { font-size: 1.6rem; line-height: 1.2; }
@media (prefers-color-scheme: dark) { body { color: #e6ebf2; background: #0f141a; } }
"""
# No other style, and nothing else, may run or load.
_STYLE_DIGEST = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
_PAGE = f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width"><meta name="color-scheme" content="light dark">
<meta http-equiv="refresh" content="{RETRY_AFTER_SECONDS}"><title>Hindcast is starting</title>
<style>{_STYLE}</style></head>
<body><main><h1>Hindcast is starting</h1>
<p>The pages need some seconds. This page loads again by itself until they are there.</p></main></body></html>
"""


class StartingAnswers:
    """Answers on a listening socket from a thread until `close`. The socket itself stays open for the application."""

    def __init__(self, listener: socket.socket, context: ssl.SSLContext | None) -> None:
        self._listener = listener.dup()
        self._context = context
        self._serves = threading.Event()
        self._left = threading.Event()
        self._end: Callable[[], object] = lambda: None
        self._thread = threading.Thread(target=asyncio.run, args=(self._serve(),), name="starting", daemon=True)
        self._thread.start()
        self._serves.wait()

    def close(self) -> None:
        """Take no more connections; accepted ones get their answer within some seconds.

        Who hears afterwards that the application listens is not told that it starts.
        """
        self._end()
        self._left.wait(_LEAVE_SECONDS_MAX)

    def wait(self) -> None:
        """After `close`: return once the accepted connections have their answer, which takes some seconds at most."""
        self._thread.join()

    async def _serve(self) -> None:
        ended = asyncio.Event()
        loop = asyncio.get_running_loop()
        self._end = lambda: loop.call_soon_threadsafe(ended.set)
        answering: set[asyncio.Task[None]] = set()

        def take() -> None:
            with suppress(OSError):  # the application may have accepted it already
                answering.add(loop.create_task(_answer(self._listener.accept()[0], self._context)))
                answering.difference_update([task for task in answering if task.done()])

        self._listener.setblocking(False)
        # This does not use asyncio's own server: when closed, that server forgets just accepted connections, and their clients wait
        # on.
        loop.add_reader(self._listener, take)
        self._serves.set()
        await ended.wait()
        loop.remove_reader(self._listener)
        self._listener.close()
        self._left.set()
        if answering:
            await asyncio.wait(answering)


async def _answer(connection: socket.socket, context: ssl.SSLContext | None) -> None:
    """Read one request and answer it. Give up on a sender that is slow or does not speak HTTP."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=_HEAD_BYTES_MAX)
    protocol = asyncio.StreamReaderProtocol(reader)
    seconds = None if context is None else _REQUEST_SECONDS_MAX
    try:
        transport, _ = await loop.connect_accepted_socket(lambda: protocol, connection, ssl=context, ssl_handshake_timeout=seconds)
    except OSError:
        connection.close()
        return
    writer = asyncio.StreamWriter(transport, protocol, reader, loop)
    with suppress(OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        await _converse(reader, writer)
    writer.close()
    with suppress(OSError, TimeoutError):
        async with asyncio.timeout(_LINGER_SECONDS_MAX):
            await writer.wait_closed()


async def _converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    async with asyncio.timeout(_REQUEST_SECONDS_MAX):
        writer.write(answer_to(await reader.readuntil(b"\r\n\r\n")))
        await writer.drain()
    if writer.can_write_eof():
        writer.write_eof()
    # With an unread body the kernel resets the connection, and the answer may be lost.
    async with asyncio.timeout(_LINGER_SECONDS_MAX):
        dropped = 0
        while dropped < _BODY_BYTES_DROPPED and (read := await reader.read(_HEAD_BYTES_MAX)):
            dropped += len(read)


def answer_to(head: bytes) -> bytes:
    """The whole answer to a request with this head: a page for a browser, else an error in the shape of `api/errors.py`."""
    first, *rest = head.decode("latin-1").split("\r\n")
    headers = {name.strip().lower(): value for name, _, value in (line.partition(":") for line in rest)}
    if "text/html" in headers.get("accept", "").lower():
        kind, body = "text/html; charset=utf-8", _PAGE
    else:
        kind, body = "application/json", json.dumps({"error": {"code": "starting", "message": _MESSAGE, "hint": _HINT}})
    lines = [
        "HTTP/1.1 503 Service Unavailable",
        f"Content-Type: {kind}",
        f"Content-Length: {len(body.encode())}",
        f"Retry-After: {RETRY_AFTER_SECONDS}",
        "Cache-Control: no-store",
        f"Content-Security-Policy: default-src 'none'; style-src 'sha256-{_STYLE_DIGEST}'; frame-ancestors 'none'",
        "X-Content-Type-Options: nosniff",
        "Connection: close",
    ]
    is_head = first.startswith("HEAD ")
    return ("\r\n".join(lines) + "\r\n\r\n" + ("" if is_head else body)).encode()
