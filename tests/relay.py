"""A relay before a server on loopback, which can kill a client at any one of its requests."""

from __future__ import annotations

import http.client
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit


class Relay:
    """Passes requests on. `arm` chooses the request at which the client dies: before the server gets it, or before its answer."""

    def __init__(self, server: str) -> None:
        self.server = urlsplit(server).netloc
        self.url = ""
        self.requests = 0
        self._lock = threading.Lock()
        self._last = 0
        self._is_answered = False
        self._victim = 0

    def arm(self, last: int, *, is_answered: bool) -> None:
        """Count from now on, and kill at request number `last`; 0 kills never. `is_answered`: the server has done its part."""
        with self._lock:
            self.requests, self._last, self._is_answered = 0, last, is_answered

    def watch(self, process: int) -> None:
        """The process to kill."""
        self._victim = process

    def begins(self) -> bool:
        """Count a request; whether it is passed on."""
        with self._lock:
            self.requests += 1
            is_last = self.requests == self._last
        if is_last and not self._is_answered:
            self.kill()
        return not self._last or self.requests < self._last or (is_last and self._is_answered)

    def ends(self) -> None:
        """The server has answered."""
        with self._lock:
            is_over = self._last and self.requests >= self._last
        if is_over:
            self.kill()

    def kill(self) -> None:
        """End the client as a crash does."""
        with suppress(ProcessLookupError):
            os.kill(self._victim, signal.SIGKILL)


@contextmanager
def relaying(server: str) -> Iterator[Relay]:
    """A relay on a free port of loopback."""
    relay = Relay(server)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *args: Any) -> None:
            pass

        def pass_on(self) -> None:
            body = self._body()
            self.close_connection = True
            if not relay.begins():
                return
            connection = http.client.HTTPConnection(relay.server, timeout=60)
            connection.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                if name.lower() not in ("expect", "connection"):
                    connection.putheader(name, value)
            connection.endheaders(body)
            answer = connection.getresponse()
            content = answer.read()
            relay.ends()
            with suppress(OSError):
                self.send_response_only(answer.status, answer.reason)
                for name, value in answer.headers.items():
                    if name.lower() not in ("connection", "transfer-encoding", "content-length"):
                        self.send_header(name, value)
                length = answer.headers["Content-Length"] if self.command == "HEAD" else str(len(content))
                self.send_header("Content-Length", length or "0")
                self.send_header("Connection", "close")
                self.end_headers()
                self.wfile.write(content)
            connection.close()

        def _body(self) -> bytes:
            """The body as it was sent; one in chunks keeps their marks (RFC 9112, 7.1)."""
            if self.headers.get("Transfer-Encoding") != "chunked":
                return self.rfile.read(int(self.headers.get("Content-Length", 0)))
            found = b""
            while (line := self.rfile.readline()).strip() != b"0":
                found += line + self.rfile.read(int(line.partition(b";")[0], 16) + 2)
            found += line
            while (line := self.rfile.readline()).strip():
                found += line
            return found + line

    for method in ("GET", "HEAD", "PUT", "POST", "DELETE"):
        setattr(Handler, f"do_{method}", Handler.pass_on)
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http_server:
        relay.url = f"http://127.0.0.1:{http_server.server_port}"
        thread = threading.Thread(target=http_server.serve_forever, daemon=True)
        thread.start()
        try:
            yield relay
        finally:
            http_server.shutdown()
            thread.join()
