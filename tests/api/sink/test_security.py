"""Who may come in, and what whoever comes can do to the server: nothing but be refused."""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import threading
import zlib
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import trustme

from api.settings import Settings
from api.sink.connection import HEAD_BYTES_MAX
from tests.crash.rounds import event_list
from tests.serving import RunningServer

pytestmark = pytest.mark.server

TOKENS = {"lab-1": "0123456789abcdef-one", "lab-2": "fedcba9876543210-two"}
BODY = event_list([{"auditID": "a", "stage": "ResponseComplete", "level": "Metadata", "stageTimestamp": "2026-11-01T00:00:00Z"}])
MIB = 1 << 20


def settings_for(folder: Path, **changes: Any) -> Settings:
    given = {"lake": folder / "lake", "port": 0, "drain": False, "query": False, "disk_free_bytes_min": 0}
    return Settings(**{**given, **changes})


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """ca.pem, other-ca.pem, server.pem, and of clients: good, unlisted in the identities, expired, early, stranger (other-ca)."""
    folder = tmp_path_factory.mktemp("certificates")
    ca, other = trustme.CA(), trustme.CA()
    ca.cert_pem.write_to_path(str(folder / "ca.pem"))
    other.cert_pem.write_to_path(str(folder / "other-ca.pem"))
    now = datetime.now(UTC)
    past, future = now - timedelta(days=9), now + timedelta(days=9)
    made = {
        "server": ca.issue_cert("127.0.0.1"),
        "good": ca.issue_cert("apiserver.example", common_name="apiserver"),
        "unlisted": ca.issue_cert("somebody.example", common_name="somebody"),
        "expired": ca.issue_cert("apiserver.example", common_name="apiserver", not_before=past, not_after=now - timedelta(days=1)),
        "early": ca.issue_cert("apiserver.example", common_name="apiserver", not_before=now + timedelta(days=1), not_after=future),
        "stranger": other.issue_cert("apiserver.example", common_name="apiserver"),
    }
    for name, certificate in made.items():
        certificate.private_key_pem.write_to_path(str(folder / f"{name}.key"))
        certificate.cert_chain_pems[0].write_to_path(str(folder / f"{name}.pem"))
    (folder / "identities").write_text(f"lab-1 token:{TOKENS['lab-1']}\nlab-2 token:{TOKENS['lab-2']}\nprod name:apiserver\n")
    return folder


@pytest.fixture(scope="module")
def guarded(certificates: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server with TLS, client certificates and identities."""
    folder = tmp_path_factory.mktemp("guarded")
    settings = settings_for(
        folder,
        tls_certificate=certificates / "server.pem",
        tls_key=certificates / "server.key",
        client_ca=certificates / "ca.pem",
        identities=certificates / "identities",
    )
    with RunningServer(settings, folder / "server.log") as server:
        yield server
        assert server.stop() == 0
        text = server.log.read_text()
        assert "Traceback" not in text
        assert not [token for token in TOKENS.values() if token in text]


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server on loopback without anything."""
    folder = tmp_path_factory.mktemp("plain")
    with RunningServer(settings_for(folder, body_seconds_max=1.0), folder / "server.log") as server:
        yield server
        assert server.stop() == 0
        assert "Traceback" not in server.log.read_text()


def client(folder: Path, name: str = "", ca: str = "ca") -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(folder / f"{ca}.pem"))
    if name:
        context.load_cert_chain(folder / f"{name}.pem", folder / f"{name}.key")
    return context


@pytest.mark.parametrize(
    ("cluster", "authorization", "status"),
    [
        ("lab-1", f"Bearer {TOKENS['lab-1']}", 200),
        ("lab-1", f"bearer  {TOKENS['lab-1']} ", 200),
        ("lab-1", f"Bearer {TOKENS['lab-2']}", 403),
        ("prod", f"Bearer {TOKENS['lab-1']}", 403),
        ("lab-1", f"Bearer {TOKENS['lab-1'][:-1]}", 401),
        ("lab-1", f"Bearer {TOKENS['lab-1']}x", 401),
        ("lab-1", "Bearer apiserver", 401),
        ("lab-1", "Bearer", 401),
        ("lab-1", f"Basic {TOKENS['lab-1']}", 401),
        ("lab-1", TOKENS["lab-1"], 401),
        ("lab-1", "Bearer \xff\xfe", 401),
        ("lab-1", "", 401),
    ],
)
def test_a_token_opens_its_own_cluster_only(
    guarded: RunningServer, certificates: Path, cluster: str, authorization: str, status: int
) -> None:
    headers = {"Authorization": authorization} if authorization else {}
    found, answer = guarded.post(cluster, BODY, context=client(certificates), **headers)
    assert found == status
    assert TOKENS["lab-1"] not in json.dumps(answer)


@pytest.mark.parametrize(("name", "cluster", "status"), [("good", "prod", 200), ("good", "lab-1", 403), ("unlisted", "prod", 401)])
def test_a_certificate_opens_its_own_cluster_only(
    guarded: RunningServer, certificates: Path, name: str, cluster: str, status: int
) -> None:
    assert guarded.post(cluster, BODY, context=client(certificates, name))[0] == status


def test_no_certificate_and_no_token_opens_nothing(guarded: RunningServer, certificates: Path) -> None:
    assert guarded.post("prod", BODY, context=client(certificates))[0] == 401


@pytest.mark.parametrize("name", ["stranger", "expired", "early"])
def test_a_certificate_that_is_not_valid_ends_the_handshake(guarded: RunningServer, certificates: Path, name: str) -> None:
    with pytest.raises((ssl.SSLError, OSError, http.client.HTTPException)):
        guarded.post("prod", BODY, context=client(certificates, name))


def test_a_sender_that_trusts_another_authority_does_not_send(guarded: RunningServer, certificates: Path) -> None:
    with pytest.raises(ssl.SSLCertVerificationError):
        guarded.post("lab-1", BODY, context=client(certificates, ca="other-ca"), Authorization=f"Bearer {TOKENS['lab-1']}")


def test_plain_http_on_a_tls_port_is_no_way_in(guarded: RunningServer) -> None:
    with pytest.raises((OSError, http.client.HTTPException)):
        guarded.post("lab-1", BODY, Authorization=f"Bearer {TOKENS['lab-1']}")


def test_old_tls_is_refused(guarded: RunningServer, certificates: Path) -> None:
    context = client(certificates)
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
    with pytest.raises((ssl.SSLError, OSError)):
        guarded.post("lab-1", BODY, context=context, Authorization=f"Bearer {TOKENS['lab-1']}")


def raw(server: RunningServer, request: bytes, timeout_seconds: float = 20.0) -> bytes:
    """What comes back on a connection of its own until the server has answered or closed."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=timeout_seconds) as connection:
        try:
            connection.sendall(request)
            return connection.recv(4000)
        except OSError:
            return b""


def head(path: str, more: str = "", length: int = len(BODY)) -> bytes:
    form = f"Host: localhost\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n"
    return f"POST {path} HTTP/1.1\r\n{form}{more}\r\n".encode("latin-1")


@pytest.mark.parametrize(
    "path",
    [
        "/audit/..", "/audit/../audit/x/../..", "/audit/%2e%2e", "/audit/..%2f..%2fetc", "/audit/%2e%2e%2fspool", "/audit/..%5c..",
        "/audit/%00", "/audit/a%00b", "/audit//etc/passwd", "/audit/%2fetc%2fpasswd", "/audit/a%0ab", "/audit/%F0%9F%92%A9",
        "/audit/..;/x", "/audit/'--", "/audit/$(id)", "/audit/~root", "/audit/con.", "/audit/.hidden", "/audit/" + "a" * 64,
        "/audit/%252e", "/audit/",
    ],
)  # fmt: skip
def test_a_cluster_name_is_no_path(plain: RunningServer, path: str) -> None:
    before = sorted(plain.settings.lake.parent.rglob("*"))
    assert raw(plain, head(path) + BODY)[:12] in (b"HTTP/1.1 400", b"HTTP/1.1 404", b"HTTP/1.1 405")
    assert sorted(plain.settings.lake.parent.rglob("*")) == before


@pytest.mark.parametrize(
    "more",
    [
        "X-Long: " + "a" * (HEAD_BYTES_MAX + 1) + "\r\n",
        "".join(f"X-{n}: {'b' * 60}\r\n" for n in range(2_000)),
        "X-Long: " + "a" * (8 * MIB) + "\r\n",
    ],
)
def test_oversized_headers_are_refused(plain: RunningServer, more: str) -> None:
    # When it closes before all was sent, the answer may be lost on its way.
    assert raw(plain, head("/audit/lab-1", more) + BODY)[:12] in (b"HTTP/1.1 431", b"")
    assert plain.post("lab-1", BODY)[0] == 200


def test_headers_without_end_do_not_collect_in_memory(plain: RunningServer) -> None:
    before = peak_mib(plain)
    assert raw(plain, b"POST /audit/lab-1 HTTP/1.1\r\nX-Endless: " + b"a" * (128 * MIB))[:12] in (b"HTTP/1.1 431", b"")
    assert peak_mib(plain) - before < 32


def test_a_url_without_end_is_refused(plain: RunningServer) -> None:
    assert raw(plain, head("/audit/" + "a" * 200_000) + BODY)[:12] in (b"HTTP/1.1 431", b"")


def test_an_oversized_body_is_told_why(plain: RunningServer) -> None:
    before = peak_mib(plain)
    status, answer = plain.post("lab-1", b"[" * (100 * MIB))
    assert (status, answer["error"]["code"]) == (413, "body_too_large")
    assert peak_mib(plain) - before < 32


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "GZIP", "zstd", "br", "gzip, identity"])
def test_a_compressed_body_is_not_opened(plain: RunningServer, encoding: str) -> None:
    before = peak_mib(plain)
    assert plain.post("lab-1", zlib.compress(bytes(64 * MIB), 1), Content_Encoding=encoding)[0] == 415
    assert peak_mib(plain) - before < 32


def test_a_slow_sender_holds_up_nobody_and_is_sent_away(plain: RunningServer) -> None:
    slow = [socket.create_connection(("127.0.0.1", plain.port), timeout=20) for _ in range(20)]
    try:
        for connection in slow[:10]:
            connection.sendall(head("/audit/lab-1", length=100) + b"{")
        for connection in slow[10:]:
            connection.sendall(b"POST /audit/lab-1 HTTP/1.1\r\nHost: localhost\r\n")
        assert plain.post("lab-1", BODY)[0] == 200
        assert {connection.recv(200)[:12] for connection in slow[:10]} == {b"HTTP/1.1 408"}
        assert {connection.recv(200) for connection in slow[10:]} == {b""}
    finally:
        for connection in slow:
            connection.close()


@pytest.mark.parametrize("broken", [False, True])
def test_many_large_bodies_at_once_take_bounded_memory(tmp_path: Path, broken: bool) -> None:
    """A tenth of the default limits, so that it takes a tenth of the time: what is in flight decides, not how many come."""
    in_flight = 24 * MIB
    filler = {"auditID": "x", "requestObject": {"data": "y" * 3_000}}
    items = [json.dumps(filler).encode()] * (8 * MIB // 3_050) + [b'{"a":' * 20_000 + b"1" + b"}" * 20_000] * broken
    body = event_list([])[:-2] + b",".join(items) + b"]}"
    with RunningServer(
        settings_for(tmp_path, body_bytes_max=9 * MIB, in_flight_bytes_max=in_flight), tmp_path / "server.log"
    ) as server:
        assert server.post("lab-1", BODY)[0] == 200
        before = peak_mib(server)
        statuses: Counter[int] = Counter()

        def send(number: int) -> None:
            statuses[server.post(f"lab-{number}", body)[0]] += 1

        threads = [threading.Thread(target=send, args=(number,)) for number in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert set(statuses) <= {200, 503}
        assert statuses[200] >= 2
        assert (peak_mib(server) - before) * MIB < 5 * in_flight
        assert server.get("/readyz")[0] == 200


def peak_mib(server: RunningServer) -> int:
    """The largest resident size that the server's process has had."""
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) // 1024
