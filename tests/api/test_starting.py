"""The pages while they start: whoever asks is told so, in time and in its own form, and is never refused."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import trustme

from api import priorities
from api.settings import Settings
from api.sockets import listen
from api.starting import StartingAnswers
from tests.serving import RunningServer

_PATIENCE_SECONDS = 60.0


@pytest.fixture
def port() -> Iterator[int]:
    with listen("127.0.0.1", 0) as listener:
        starting = StartingAnswers(listener, None)
        yield listener.getsockname()[1]
        starting.close()


def asked(
    connection: http.client.HTTPConnection, method: str = "GET", body: bytes | None = None, **headers: str
) -> tuple[int, str, bytes]:
    with closing(connection):
        connection.request(method, "/policies", body, headers)
        answer = connection.getresponse()
        assert answer.headers["Retry-After"] == "1"
        assert answer.headers["Cache-Control"] == "no-store"
        return answer.status, answer.headers["Content-Type"], answer.read()


def to(port: int) -> http.client.HTTPConnection:
    return http.client.HTTPConnection("127.0.0.1", port, timeout=_PATIENCE_SECONDS)


def test_a_browser_gets_a_page_that_asks_again_and_a_program_an_error(port: int) -> None:
    status, kind, page = asked(to(port), Accept="text/html,*/*")
    assert (status, kind) == (503, "text/html; charset=utf-8")
    assert b"Hindcast is starting" in page
    assert b'http-equiv="refresh"' in page
    status, kind, body = asked(to(port), "POST", b"x" * 300_000)
    assert (status, kind, json.loads(body)["error"]["code"]) == (503, "application/json", "starting")
    assert asked(to(port), "HEAD")[2] == b""


def test_who_sends_nothing_or_nonsense_holds_up_nobody(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port)), socket.create_connection(("127.0.0.1", port)) as odd:
        odd.sendall(b"x" * 100_000)
        assert asked(to(port))[0] == 503


def test_it_speaks_tls() -> None:
    authority = trustme.CA()
    serving, asking = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context()
    authority.issue_cert("127.0.0.1").configure_cert(serving)
    authority.configure_trust(asking)
    with listen("127.0.0.1", 0) as listener:
        port = listener.getsockname()[1]
        starting = StartingAnswers(listener, serving)
        assert asked(http.client.HTTPSConnection("127.0.0.1", port, timeout=_PATIENCE_SECONDS, context=asking))[0] == 503
        starting.close()


@pytest.mark.server
def test_nobody_is_refused_while_the_pages_are_started_again(tmp_path: Path) -> None:
    settings = Settings(lake=tmp_path / "lake", port=0, query_port=0, drain=False, disk_free_bytes_min=0)
    with RunningServer(settings, tmp_path / "server.log") as server:
        port = server.port_of("query_listening")
        pid = int(server.wait_for("query_started")["pid"])
        assert niceness(pid) == {os.getpriority(os.PRIO_PROCESS, 0) + priorities.QUERY}
        os.kill(pid, signal.SIGKILL)
        server.wait_for("query_ended")
        found: list[int] = []
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while found[-1:] != [200] and time.monotonic() < deadline:
            with closing(to(port)) as connection:
                connection.request("GET", "/healthz")
                found.append(connection.getresponse().status)
        assert (found[0], set(found)) == (503, {503, 200})


def niceness(pid: int) -> set[int]:
    return {os.getpriority(os.PRIO_PROCESS, int(task.name)) for task in Path(f"/proc/{pid}/task").iterdir()}
