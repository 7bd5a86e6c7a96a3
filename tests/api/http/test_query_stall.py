"""No client keeps others from the pages: silent connections give way, slow bodies end,
and an odd form costs what its size does."""

from __future__ import annotations

import http.client
import socket
from collections.abc import Iterator
from contextlib import ExitStack, closing

import pytest

from api.settings import Settings
from tests.serving import RunningServer

pytestmark = pytest.mark.server

TOKEN = "0123456789abcdef-of-a-person"
SILENT = 700
FORM = "multipart/form-data; boundary=B"


@pytest.fixture(scope="module", params=["open", "token"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server with a limit of two seconds for bodies, open to all readers of this machine or with a token."""
    tmp_path = tmp_path_factory.mktemp("server")
    (tmp_path / "readers").write_text(f"alice token:{TOKEN}\n")
    settings = Settings(
        lake=tmp_path / "lake",
        port=0,
        query_port=0,
        disk_free_bytes_min=0,
        body_seconds_max=2.0,
        query_tokens=tmp_path / "readers" if request.param == "token" else None,
    )
    with RunningServer(settings, tmp_path / "server.log") as running:
        running.port_of("query_listening")
        yield running


def ask(port: int, method: str, path: str, body: bytes | None = None, kind: str = FORM) -> int:
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
        connection.request(method, path, body, {"Authorization": f"Bearer {TOKEN}", "Content-Type": kind})
        return connection.getresponse().status


HALF_HEAD = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: "
HALF_BODY = b"POST /try HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: " + FORM.encode() + b"\r\nContent-Length: 9000\r\n\r\npol"


@pytest.mark.parametrize("sent", [b"", HALF_HEAD, HALF_BODY], ids=["nothing", "half a head", "half a body"])
def test_silent_connections_give_way_to_readers(server: RunningServer, sent: bytes) -> None:
    port = server.port_of("query_listening")
    with ExitStack() as stack:
        for _ in range(SILENT):
            silent = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=30))
            silent.sendall(sent)
        for _ in range(5):
            assert ask(port, "GET", "/healthz") == 200
            assert ask(port, "GET", "/api/v1/clusters") == 200


def test_a_body_that_does_not_arrive_ends_with_408(server: RunningServer) -> None:
    port = server.port_of("query_listening")
    authorization = b"\r\nAuthorization: Bearer " + TOKEN.encode()
    with socket.create_connection(("127.0.0.1", port), timeout=60) as slow:
        slow.sendall(HALF_BODY.replace(b"\r\nContent-Type", authorization + b"\r\nContent-Type"))
        assert slow.recv(65536).startswith(b"HTTP/1.1 408")


@pytest.mark.parametrize(
    "head",
    [
        b"Content-Disposition: form-data; name=a " + b"(a)" * 900_000,
        b"Content-Disposition: form-data" + b"; a=b" * 550_000,
        b"Content-Disposition: form-data; " + b'name="' * 450_000,
        b"X: y\r\n" * 450_000,
        b"--B\r\n" * 450_000,
    ],
    ids=["comments", "parameters", "names", "headers", "boundaries"],
)
def test_an_odd_form_is_answered_like_any_other(server: RunningServer, head: bytes) -> None:
    port = server.port_of("query_listening")
    assert ask(port, "POST", "/try", b"--B\r\n" + head + b"\r\n\r\nx\r\n--B--\r\n") == 400
    assert ask(port, "GET", "/healthz") == 200


def test_a_question_that_nests_too_deep_is_a_mistake_of_the_client(server: RunningServer) -> None:
    port = server.port_of("query_listening")
    deep = b'{"policies": ' + b"[" * 300_000 + b"]" * 300_000 + b"}"
    assert ask(port, "POST", "/api/v1/gates", deep, "application/json") == 400
