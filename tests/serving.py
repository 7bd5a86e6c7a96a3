"""Starts the real server in a process of its own, talks to it like an API server, and ends it, gently or not."""

from __future__ import annotations

import http.client
import json
import os
import signal
import ssl
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from api.settings import Settings

_START_SECONDS_MAX = 300
_PROGRAM = (
    "import os, sys; from api.settings import Settings; from api.sink.serve import serve; "
    "sys.exit(serve(Settings.read(os.environ)))"
)


class RunningServer:
    """One life of `serve` on a free loopback port. Its log is `log`; leaving the context kills what still runs."""

    def __init__(self, settings: Settings, log: Path) -> None:
        self.settings = settings
        self.log = log
        self._log_start = log.stat().st_size if log.exists() else 0
        with log.open("ab") as stream:
            self.process = subprocess.Popen(
                [sys.executable, "-c", _PROGRAM],
                env={**os.environ, **settings.environment()},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=stream,
            )
        self.port = self.port_of("listening" if settings.sink else "query_listening")

    def __enter__(self) -> RunningServer:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.kill()

    def lines(self, event: str) -> list[dict[str, Any]]:
        """The log lines of this life that report an event."""
        text = self.log.read_bytes()[self._log_start :].decode("utf-8", "replace")
        found = []
        for line in text.splitlines():
            if line.startswith("{") and line.endswith("}") and (entry := json.loads(line)).get("event") == event:
                found.append(entry)
        return found

    def wait_for(self, event: str) -> dict[str, Any]:
        """The last log line that reports an event, once there is one."""
        deadline = time.monotonic() + _START_SECONDS_MAX
        while time.monotonic() < deadline:
            if found := self.lines(event):
                return found[-1]
            if self.process.poll() is not None:
                break
            time.sleep(0.02)
        self.kill()
        raise AssertionError(f"the server did not report {event!r}: {self.log.read_text()[-3000:]}")

    def port_of(self, event: str) -> int:
        """The port of the line that says where a server listens."""
        return int(self.wait_for(event)["url"].rpartition(":")[2])

    @property
    def drain_pid(self) -> int:
        """The process id of the drain that was started last."""
        return int(self.wait_for("drain_started")["pid"])

    def kill(self) -> None:
        """End the server as a crash does."""
        self.process.kill()
        self.process.wait()

    @property
    def drain_runs(self) -> bool:
        """Whether the drain that was started last is alive. It may have ended, and its number may be another's by now."""
        try:
            return Path(f"/proc/{self.drain_pid}/stat").read_text().rpartition(")")[2].split()[1] == str(self.process.pid)
        except OSError:
            return False

    def kill_drain(self) -> bool:
        """End the drain as a crash does; the server starts another. False when none ran."""
        if not self.drain_runs:
            return False
        with suppress(OSError):
            os.kill(self.drain_pid, signal.SIGKILL)
        return True

    def stop(self) -> int:
        """End the server as an operator does; returns its exit code."""
        self.process.terminate()
        return self.process.wait()

    def connect(self, context: ssl.SSLContext | None = None, timeout_seconds: float = 30.0) -> http.client.HTTPConnection:
        """A connection of its own."""
        if context is not None:
            return http.client.HTTPSConnection("127.0.0.1", self.port, timeout=timeout_seconds, context=context)
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout_seconds)

    def post(
        self, cluster: str, body: bytes, *, context: ssl.SSLContext | None = None, **headers: str
    ) -> tuple[int, dict[str, Any]]:
        """Post one body over a connection of its own; returns the status and the decoded answer."""
        return send(self.connect(context), "POST", f"/audit/{cluster}?timeout=30s", body, **headers)

    def get(self, path: str) -> tuple[int, bytes]:
        """Get a page; returns the status and the body."""
        connection = self.connect()
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()


def send(connection: http.client.HTTPConnection, method: str, path: str, body: bytes, **headers: str) -> tuple[int, dict[str, Any]]:
    """One request with a JSON answer; underscores in header names stand for hyphens. The connection is closed afterwards."""
    try:
        names = {"Content-Type": "application/json"} | {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, body, names)
        response = connection.getresponse()
        return response.status, json.loads(response.read())
    finally:
        connection.close()
