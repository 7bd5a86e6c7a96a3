"""The pages while they start: each client hears so in time and in its own form, and is never refused."""

from __future__ import annotations

import base64
import hashlib
import http.client
import json
import os
import signal
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
import trustme

from api import priorities
from api.ask.starting import StartingAnswers, answer_to
from api.settings import Settings
from api.sink.sockets import listen
from tests.serving import RunningServer

_PATIENCE_SECONDS = 300.0


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
    style = page.split(b"<style>")[1].split(b"</style>")[0]
    policy = answer_to(b"GET / HTTP/1.1\r\nAccept: text/html\r\n\r\n").split(b"\r\n\r\n")[0]
    assert b"style-src 'sha256-" + base64.b64encode(hashlib.sha256(style).digest()) + b"'" in policy
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
        os.kill(pid, signal.SIGKILL)
        server.wait_for("query_ended")
        found: list[int] = []
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while found[-1:] != [200] and time.monotonic() < deadline:
            found.append(_status(port, "/healthz"))
        assert (found[0], set(found)) == (503, {503, 200})


@pytest.mark.server
def test_a_process_that_a_question_ended_is_there_again_without_loading(tmp_path: Path) -> None:
    settings = Settings(lake=tmp_path / "lake", port=0, query_port=0, drain=False, disk_free_bytes_min=0)
    with RunningServer(settings, tmp_path / "server.log") as server:
        port = server.port_of("query_listening")
        normal = os.getpriority(os.PRIO_PROCESS, 0)
        loader = int(server.wait_for("query_started")["pid"])
        pid = int(server.wait_for("query_listening")["pid"])
        # One that ends at once would end again, so it is not forked again.
        while time.monotonic() - _started(pid) < 2.5:
            time.sleep(0.1)
        assert niceness(pid) == niceness(loader) == {normal}
        _eventually(lambda: _status(port, "/") == 200)
        _eventually(lambda: niceness(pid) == {min(normal + priorities.QUERY, 19)})
        os.kill(pid, signal.SIGKILL)
        _eventually(lambda: len(server.lines("query_listening")) == 2)
        _eventually(lambda: _status(port, "/") == 200)
        again = int(server.wait_for("query_listening")["pid"])
        assert again not in (pid, loader)
        assert len(server.lines("query_started")) == 1
        assert [line["exit_code"] for line in server.lines("query_ended")] == [-signal.SIGKILL]
        assert b'hindcast_process_restarts_total{process="query"} 1.0' in server.get("/metrics")[1]
        # What it answers from goes with the process that loaded it, whatever ends that one.
        os.kill(loader, signal.SIGKILL)
        _eventually(lambda: len(server.lines("query_listening")) == 3)
        assert not Path(f"/proc/{again}").exists()
        assert server.stop() == 0
        assert not Path(f"/proc/{server.lines('query_listening')[-1]['pid']}").exists()


def _status(port: int, path: str) -> int:
    with closing(to(port)) as connection:
        connection.request("GET", path)
        return connection.getresponse().status


def _started(pid: int) -> float:
    """When a process was started, on the clock of time.monotonic()."""
    ticks = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    return int(ticks) / os.sysconf("SC_CLK_TCK")


def _eventually(is_true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while not is_true():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def niceness(pid: int) -> set[int]:
    return {os.getpriority(os.PRIO_PROCESS, int(task.name)) for task in Path(f"/proc/{pid}/task").iterdir()}
