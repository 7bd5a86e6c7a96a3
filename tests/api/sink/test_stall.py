"""One sender, or whoever has no token at all, does what it can to stall the sink; every other sender is served meanwhile."""

from __future__ import annotations

import http.client
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.api.sink.test_server import raw_request, settings_for
from tests.crash.rounds import event_list
from tests.serving import RunningServer, send

pytestmark = pytest.mark.server

TOKENS = {"lab-1": "0123456789abcdef", "lab-2": "fedcba9876543210"}
BODY = event_list([{"auditID": "small", "stage": "ResponseComplete"}])
MIB = 1 << 20


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server whose senders show tokens."""
    folder = tmp_path_factory.mktemp("guarded")
    identities = folder / "identities"
    identities.write_text("".join(f"{cluster} token:{token}\n" for cluster, token in TOKENS.items()))
    with RunningServer(settings_for(folder, drain=False, identities=identities), folder / "server.log") as server:
        yield server


def bearer(cluster: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {TOKENS[cluster]}"}


def post(server: RunningServer, cluster: str, body: bytes = BODY) -> int:
    return server.post(cluster, body, **bearer(cluster))[0]


def connect(server: RunningServer) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), timeout=30)


def apart_of(server: RunningServer) -> int:
    """The process that takes lists apart, once there is one."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        for children in Path(f"/proc/{server.process.pid}/task").glob("*/children"):
            for pid in children.read_text().split():
                if b"ingest.apart" in Path(f"/proc/{pid}/cmdline").read_bytes():
                    return int(pid)
        time.sleep(0.02)
    raise AssertionError("no process takes a list apart")


@pytest.mark.parametrize("hostile", [b'"' + b"\\" * (6 * MIB), b"," * (6 * MIB)], ids=["backslashes", "commas"])
def test_a_hostile_list_is_taken_apart_where_it_holds_up_no_one(tmp_path: Path, hostile: bytes) -> None:
    body = event_list([])[:-2] + hostile + b"]}"
    with RunningServer(settings_for(tmp_path, drain=False), tmp_path / "server.log") as server:
        # One that is at work on a list for ever: it is stopped in the middle.
        assert server.post("lab-1", body)[0] in (400, 413)
        pid = apart_of(server)
        os.kill(pid, signal.SIGSTOP)
        answers: list[int] = []
        attack = threading.Thread(target=lambda: answers.append(server.post("lab-1", body)[0]))
        attack.start()
        try:
            for cluster in ("lab-1", "lab-2"):
                assert server.post(cluster, BODY)[0] == 200
            # A large one of another sender, too; the attacker's next one waits for its first.
            large = event_list([{"auditID": "large", "requestObject": "x" * (5 * MIB)}])
            assert server.post("lab-2", large)[0] == 200
            assert answers == []
        finally:
            os.kill(pid, signal.SIGCONT)
            attack.join(timeout=60)
        assert answers[0] in (400, 413)
        assert server.stop() == 0
        assert not Path(f"/proc/{pid}").exists()


def test_bodies_that_are_announced_and_never_come_take_no_room(guarded: RunningServer) -> None:
    token = f"Authorization: Bearer {TOKENS['lab-1']}\r\n"
    with ExitStack() as stack:
        silent = [stack.enter_context(connect(guarded)) for _ in range(20)]
        for connection in silent:
            connection.sendall(raw_request(more=f"Content-Length: {64 * MIB}\r\n{token}", body=b"{"))
        for cluster in TOKENS:
            assert post(guarded, cluster) == 200
        assert post(guarded, "lab-2", event_list([{"auditID": "large", "requestObject": "x" * (40 * MIB)}])) == 200
        # They bring nothing, so they are sent away long before the time that a body may take.
        for connection in silent:
            assert connection.recv(200).startswith(b"HTTP/1.1 408 ")


def test_a_sender_with_too_many_open_requests_is_told_and_others_are_served(guarded: RunningServer) -> None:
    token = f"Authorization: Bearer {TOKENS['lab-1']}\r\n"
    with ExitStack() as stack:
        for _ in range(129):
            connection = stack.enter_context(connect(guarded))
            connection.sendall(raw_request(more=f"Content-Length: 100\r\n{token}", body=b"{"))
        assert connection.recv(200).startswith(b"HTTP/1.1 503 ")
        assert post(guarded, "lab-2") == 200


@pytest.mark.parametrize("sent", [b"", b"POST /audit/lab-1 HTTP/1.1\r\n"])
def test_silent_connections_without_a_token_give_way(guarded: RunningServer, sent: bytes) -> None:
    held = guarded.connect()
    with ExitStack() as stack:
        assert _ask(held, "lab-1") == 200
        for _ in range(600):
            connection = stack.enter_context(connect(guarded))
            connection.sendall(sent)
        for cluster in TOKENS:
            assert post(guarded, cluster) == 200
        # A sender that proved who it is keeps its connection.
        assert _ask(held, "lab-1") == 200
        assert guarded.get("/healthz")[0] == 200
    held.close()


def _ask(connection: http.client.HTTPConnection, cluster: str) -> int:
    connection.request("POST", f"/audit/{cluster}", BODY, {"Content-Type": "application/json", **bearer(cluster)})
    response = connection.getresponse()
    response.read()
    return response.status


def test_connections_that_were_refused_give_way_too(guarded: RunningServer) -> None:
    with ExitStack() as stack:
        for _ in range(200):
            connection = stack.enter_context(connect(guarded))
            connection.sendall(raw_request(more="Content-Length: 1000\r\nAuthorization: Bearer wrong\r\n", body=b"{"))
        assert post(guarded, "lab-1") == 200


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server on loopback whose senders show nothing."""
    folder = tmp_path_factory.mktemp("plain")
    with RunningServer(settings_for(folder, drain=False), folder / "server.log") as server:
        yield server


def asked(server: RunningServer, **headers: str) -> tuple[int, dict[str, Any]]:
    return send(server.connect(), "POST", "/audit/lab-1", BODY, **headers)


@pytest.mark.parametrize("host", ["evil.com", "evil.com:29443", "localhost.evil.com", "127.0.0.1.evil.com", "[::2]", "", "a b"])
def test_an_open_sink_answers_to_names_of_this_machine_only(plain: RunningServer, host: str) -> None:
    status, answer = asked(plain, Host=host)
    assert (status, answer["error"]["code"]) == (403, "wrong_host")
    assert "--identities" in answer["error"]["hint"]


@pytest.mark.parametrize("host", ["localhost", "localhost:7443", "127.0.0.1", "127.0.0.2:80", "[::1]:7443"])
def test_an_open_sink_is_asked_by_a_name_of_this_machine(plain: RunningServer, host: str) -> None:
    assert asked(plain, Host=host)[0] == 200


def test_no_web_page_posts_to_an_open_sink(plain: RunningServer) -> None:
    for origin in ("http://evil.com:29443", "null", "http://localhost:8080"):
        status, answer = asked(plain, Origin=origin)
        assert (status, answer["error"]["code"]) == (403, "wrong_origin")
    assert plain.get("/healthz")[0] == 200


def test_a_guarded_sink_is_asked_by_any_name(guarded: RunningServer) -> None:
    assert send(guarded.connect(), "POST", "/audit/lab-1", BODY, Host="sink.example", **bearer("lab-1"))[0] == 200
