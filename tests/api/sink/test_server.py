"""The real server, killed at random and attacked: every acknowledged event is in the lake exactly once."""

from __future__ import annotations

import http.client
import json
import os
import random
import re
import signal
import socket
import ssl
import time
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.parquet as pq
import pytest
import trustme
import zstandard

from api.settings import Settings
from ingest.lake import Lake
from tests.crash.rounds import event_list, run_rounds
from tests.serving import RunningServer, send

pytestmark = pytest.mark.server

POSTS = Path(__file__).parents[2] / "cases" / "posts"
ROUNDS = 10


def settings_for(folder: Path, **changes: Any) -> Settings:
    given = {"port": 0, "query": False, "drain_interval_seconds": 0.3, "disk_free_bytes_min": 0}
    return Settings(**{"lake": folder / "lake", **given, **changes})


def recorded_items() -> list[dict[str, Any]]:
    body = zstandard.ZstdDecompressor().decompress((POSTS / "000005.json.zst").read_bytes())
    items: list[dict[str, Any]] = msgspec.json.decode(body)["items"]
    return items


def stored_ids(lake: Path) -> Counter[tuple[str, str]]:
    """How often each (cluster, audit ID) is in the lake."""
    found: Counter[tuple[str, str]] = Counter()
    for path in Lake.open(lake).files():
        table = pq.read_table(path, columns=["cluster", "audit_id"], partitioning=None)
        found.update(zip(table["cluster"].to_pylist(), table["audit_id"].to_pylist(), strict=True))
    return found


@pytest.mark.timeout(200)
def test_killed_at_random_it_keeps_every_acknowledged_event_once(tmp_path: Path) -> None:
    # A short form of `make crash`.
    found = run_rounds(tmp_path, rounds=ROUNDS, seconds=10.0, senders=3, seed=1)
    assert found["complaints"] == []
    assert (found["lost"], found["duplicated"]) == (0, 0)
    assert found["acknowledged"] > 0
    assert set(found["kills"]) == {"drain", "server"}


def _wait_until_drained(settings: Settings) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if not [path for path in settings.spool.iterdir() if path.name != "lock"]:
            return
        time.sleep(0.1)
    raise AssertionError(f"the spool is not empty: {list(settings.spool.iterdir())}")


def test_recorded_posts_show_in_the_lake_within_the_interval(tmp_path: Path) -> None:
    settings = settings_for(tmp_path)
    with RunningServer(settings, tmp_path / "server.log") as server:
        for path in sorted(POSTS.glob("*.zst")):
            body = zstandard.ZstdDecompressor().decompress(path.read_bytes())
            assert server.post("lab-1", body)[1] == {"events": len(json.loads(body)["items"]), "quarantined": 0, "duplicate": False}
        _wait_until_drained(settings)
        assert sum(stored_ids(settings.lake).values()) == 499
        assert server.post("lab-1", event_list([recorded_items()[0], {"auditID": 1}]))[1]["events"] == 2
        _wait_until_drained(settings)
        wanted = {
            'hindcast_process_up{process="drain"} 1.0',
            'hindcast_drain_events_total{result="stored"} 499.0',
            'hindcast_drain_events_total{result="duplicate"} 1.0',
            'hindcast_drain_events_total{result="quarantined"} 1.0',
        }
        deadline = time.monotonic() + 10
        while missing := wanted - set(server.get("/metrics")[1].decode().splitlines()):
            assert time.monotonic() < deadline, missing
            time.sleep(0.05)
        assert server.stop() == 0


def test_small_files_are_merged_while_it_serves(tmp_path: Path) -> None:
    settings = settings_for(tmp_path, drain_interval_seconds=0.05, maintain_interval_seconds=2.0, retention_days=36_500)
    with RunningServer(settings, tmp_path / "server.log") as server:
        for number in range(9):
            assert server.post("lab-1", event_list([{**recorded_items()[0], "auditID": str(number)}]))[0] == 200
            _wait_until_drained(settings)
        deadline = time.monotonic() + 20
        while not any(entry["files_before"] for entry in server.lines("maintained")):
            assert time.monotonic() < deadline
            time.sleep(0.1)
        assert server.stop() == 0
    assert len(Lake.open(settings.lake).files()) < 9
    assert set(stored_ids(settings.lake).values()) == {1}
    assert len(stored_ids(settings.lake)) == 9


def test_a_drain_that_was_killed_is_noticed_and_replaced(tmp_path: Path) -> None:
    with RunningServer(settings_for(tmp_path), tmp_path / "server.log") as server:
        first = server.drain_pid
        server.kill_drain()
        server.wait_for("drain_ended")
        status, answer = server.get("/readyz")
        found = json.loads(answer)
        # What is posted now is acknowledged durably, so no Service may stop routing to it.
        assert (status, found["ready"]) == (200, True)
        assert found["warnings"] == ["the drain process is not running; it has ended 1 times in a row"]
        assert server.post("lab-1", event_list(recorded_items()[:1]))[0] == 200
        deadline = time.monotonic() + 15
        while json.loads(server.get("/readyz")[1])["warnings"]:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        assert server.drain_pid != first
        assert b'hindcast_process_restarts_total{process="drain"} 1.0' in server.get("/metrics")[1]


def test_a_stuck_drain_is_a_warning_and_batches_are_acknowledged(tmp_path: Path) -> None:
    settings = settings_for(tmp_path, drain_interval_seconds=0.05, drain_stuck_seconds=0.2)
    with RunningServer(settings, tmp_path / "server.log") as server:
        os.kill(server.drain_pid, signal.SIGSTOP)
        assert server.post("lab-1", event_list(recorded_items()[:1]))[0] == 200
        deadline = time.monotonic() + 20
        while not json.loads(server.get("/readyz")[1])["warnings"]:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        status, answer = server.get("/readyz")
        found = json.loads(answer)
        assert (status, found["ready"]) == (200, True)
        assert "the drain is stuck: segment " in found["warnings"][0]
        assert server.post("lab-1", event_list(recorded_items()[1:2]))[0] == 200
        os.kill(server.drain_pid, signal.SIGCONT)
        _wait_until_drained(settings)
        assert json.loads(server.get("/readyz")[1])["ready"]


def test_the_drain_ends_with_its_server(tmp_path: Path) -> None:
    server = RunningServer(settings_for(tmp_path), tmp_path / "server.log")
    pid = server.drain_pid
    server.kill()
    deadline = time.monotonic() + 15
    while Path(f"/proc/{pid}").exists() and "Z" not in Path(f"/proc/{pid}/stat").read_text().split()[2]:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_an_orderly_end_ends_the_drain_in_order_too(tmp_path: Path) -> None:
    server = RunningServer(settings_for(tmp_path), tmp_path / "server.log")
    assert server.drain_pid
    assert server.stop() == 0
    assert "Fatal Python error" not in (tmp_path / "server.log").read_text()


def test_what_has_begun_to_arrive_is_finished_before_the_end(tmp_path: Path) -> None:
    settings = settings_for(tmp_path, drain=False)
    body = event_list([{"auditID": "late", "stage": "ResponseComplete"}])
    with RunningServer(settings, tmp_path / "server.log") as server:
        with socket.create_connection(("127.0.0.1", server.port), timeout=20) as connection:
            connection.sendall(raw_request(more=f"Content-Length: {len(body)}\r\n", body=body[:10]))
            time.sleep(0.3)
            server.process.terminate()
            server.wait_for("Shutting down")
            connection.sendall(body[10:])
            assert connection.recv(100).startswith(b"HTTP/1.1 200 ")
        assert server.process.wait(timeout=30) == 0
    (segment,) = settings.spool.glob("*.jsonl.zst")
    assert b'"late"' in zstandard.ZstdDecompressor().decompress(segment.read_bytes())


HEAD = "POST /audit/{cluster} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\n{more}\r\n"


def raw_request(cluster: str = "lab-1", kind: str = "application/json", more: str = "", body: bytes = b"") -> bytes:
    length = "" if "Content-Length" in more or "Transfer" in more else f"Content-Length: {len(body)}\r\n"
    return HEAD.format(cluster=cluster, kind=kind, more=length + more).encode("latin-1") + body


def hostile_requests(chance: random.Random) -> list[tuple[bytes, set[int]]]:
    """Requests that no API server sends, and the answers that are allowed; 0 stands for none."""
    good = event_list([{"auditID": "x"}])
    bomb = zstandard.ZstdCompressor().compress(b"[" * 1_000_000)
    cases: list[tuple[bytes, set[int]]] = [
        (raw_request(body=b""), {400}),
        (raw_request(body=b"\x1f\x8b" + chance.randbytes(50)), {400}),
        (raw_request(body=bomb, more="Content-Encoding: gzip\r\n"), {415}),
        (raw_request(body=good, more="Content-Encoding: zstd\r\n"), {415}),
        (raw_request(body=good, kind="text/plain"), {415}),
        (raw_request(more="Transfer-Encoding: chunked\r\n", body=b"5\r\nhello\r\n0\r\n\r\n"), {411}),
        (raw_request(more="Content-Length: 999999999999\r\n"), {413}),
        (raw_request(more="Content-Length: -1\r\n"), {400, 0}),
        (raw_request(more="Content-Length: 5\r\nContent-Length: 6\r\n", body=b"hello"), {400, 0}),
        (raw_request(cluster="..%2f..%2fetc", body=good), {400, 404}),
        (raw_request(cluster="%00", body=good), {400}),
        (raw_request(cluster="A" * 5000, body=good), {400}),
        (raw_request(more="X-Request-Id: a\r\n b\r\n", body=good), {200, 400, 0}),
        (b"GET /audit/lab-1 HTTP/1.1\r\nHost: localhost\r\n\r\n", {405}),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", {400, 404, 0}),
        (b"\x16\x03\x01\x02\x00" + chance.randbytes(200), {400, 0}),
        (raw_request(body=b"[" * 200_000), {400}),
        (raw_request(body=b'{"kind":"EventList","apiVersion":"audit.k8s.io/v1","items":' + b"[" * 100_000), {400}),
        (raw_request(body=good[:-1] + b',"items":[{"auditID":"again"}]}'), {200}),
    ]
    for _ in range(30):
        cases.append((raw_request(body=chance.randbytes(chance.randrange(1, 3000))), {400}))
        cases.append((chance.randbytes(chance.randrange(1, 300)) + b"\r\n\r\n", {400, 404, 405, 0}))
    for _ in range(60):
        # One flipped, dropped or doubled byte of a recorded batch may still be a batch, and must then be answered as one.
        spoiled = bytearray(event_list(chance.sample(recorded_items(), 2)))
        place = chance.randrange(len(spoiled))
        spoiled[place : place + 1] = chance.choice([b"", b"\xff", b'"', b"{", b"\\", bytes([spoiled[place]]) * 2])
        cases.append((raw_request(body=bytes(spoiled)), {200, 400}))
    return cases


def answer_to(port: int, request: bytes, timeout_seconds: float) -> int:
    """The status of the answer; 0 when the connection was closed or nothing came in time."""
    with socket.create_connection(("127.0.0.1", port), timeout=timeout_seconds) as connection:
        try:
            connection.sendall(request)
            found = re.match(rb"HTTP/1\.1 (\d{3}) ", connection.recv(2000))
        except OSError:
            return 0
    return int(found[1]) if found else 0


def test_hostile_requests_harm_nobody(tmp_path: Path) -> None:
    settings = settings_for(tmp_path, drain=False, body_seconds_max=1.0)
    with RunningServer(settings, tmp_path / "server.log") as server:
        good = 0
        for number, (request, allowed) in enumerate(hostile_requests(random.Random(7))):
            # Bytes that are not a request may leave the server waiting for the rest of one.
            status = answer_to(server.port, request, 0.3 if 0 in allowed else 10)
            assert status in allowed, request[:300]
            if number % 10 == 0:
                neighbour = event_list([{"auditID": f"neighbour-{number}"}])
                assert server.post("neighbour", neighbour)[0] == 200
                good += 1
        # A body that stops arriving holds its connection for a second; other connections go on.
        with socket.create_connection(("127.0.0.1", server.port), timeout=10) as slow:
            slow.sendall(raw_request(more="Content-Length: 100\r\n", body=b"{"))
            assert server.post("neighbour", event_list([{"auditID": "during"}]))[0] == 200
            assert slow.recv(100).startswith(b"HTTP/1.1 408 ")
        # So do headers that stop arriving.
        with socket.create_connection(("127.0.0.1", server.port), timeout=10) as slow:
            slow.sendall(b"POST /audit/lab-1 HTTP/1.1\r\nHost: localhost\r\n")
            assert slow.recv(100) == b""
        assert server.get("/healthz") == (200, b"ok\n")
        assert server.get("/readyz")[0] == 200
        assert server.stop() == 0
        assert server.lines("unforeseen") == []
        assert "Traceback" not in server.log.read_text()
    printed = b"".join(
        zstandard.ZstdDecompressor().stream_reader(path.read_bytes(), read_across_frames=True).read()
        for path in sorted(settings.spool.glob("*.jsonl.zst"))
    )
    assert len(set(re.findall(rb'"neighbour-\d+"', printed))) == good
    assert b'"during"' in printed


def test_one_shape_for_every_error(tmp_path: Path) -> None:
    with RunningServer(settings_for(tmp_path, drain=False, body_bytes_max=100), tmp_path / "server.log") as server:
        answers = [
            server.post("lab-1", b"{}"),
            server.post("LAB", b"{}"),
            server.post("lab-1", b"x" * 101),
            send(server.connect(), "POST", "/nowhere", b""),
            send(server.connect(), "DELETE", "/audit/lab-1", b""),
        ]
    assert [status for status, _ in answers] == [400, 400, 413, 404, 405]
    for _, answer in answers:
        assert set(answer) == {"error"}
        assert set(answer["error"]) == {"code", "message", "hint"}


def test_requests_carry_an_id_from_the_sender_to_the_log(tmp_path: Path) -> None:
    with RunningServer(settings_for(tmp_path, drain=False), tmp_path / "server.log") as server:
        server.post("lab-1", b"{}", X_Request_Id="my-id-1")
        assert server.wait_for("batch_refused")["request_id"] == "my-id-1"
        server.post("lab-1", event_list([{"auditID": "a"}])[:-2] + b",5]}", X_Request_Id="my-id-2")
        assert server.wait_for("events_quarantined")["request_id"] == "my-id-2"


def make_certificates(folder: Path) -> None:
    """ca.pem; server.pem for 127.0.0.1; prod.pem and stranger.pem for clients, the last of another authority."""
    ca, other = trustme.CA(), trustme.CA()
    ca.cert_pem.write_to_path(str(folder / "ca.pem"))
    made = {
        "server": ca.issue_cert("127.0.0.1"),
        "prod": ca.issue_cert("prod.example", common_name="prod"),
        "stranger": other.issue_cert("prod.example", common_name="prod"),
    }
    for name, certificate in made.items():
        certificate.private_key_pem.write_to_path(str(folder / f"{name}.key"))
        certificate.cert_chain_pems[0].write_to_path(str(folder / f"{name}.pem"))


def test_a_cluster_cannot_write_as_another(tmp_path: Path) -> None:
    make_certificates(tmp_path)
    identities = tmp_path / "identities"
    identities.write_text("# who\nlab-1 token:0123456789abcdef\nlab-2  token:fedcba9876543210\nprod name:prod\n")
    settings = settings_for(
        tmp_path,
        drain=False,
        identities=identities,
        tls_certificate=tmp_path / "server.pem",
        tls_key=tmp_path / "server.key",
        client_ca=tmp_path / "ca.pem",
    )

    def context(client: str = "") -> Any:
        made = ssl.create_default_context(cafile=tmp_path / "ca.pem")
        if client:
            made.load_cert_chain(tmp_path / f"{client}.pem", tmp_path / f"{client}.key")
        return made

    body = event_list([{"auditID": "a"}])
    with RunningServer(settings, tmp_path / "server.log") as server:

        def status(cluster: str, token: str = "", client: str = "") -> int:
            headers = {"Authorization": f"Bearer {token}"} if token else {}
            return server.post(cluster, body, context=context(client), **headers)[0]

        assert status("lab-1", "0123456789abcdef") == 200
        assert status("lab-2", "0123456789abcdef") == 403
        assert status("lab-1", "0123456789abcdeX") == 401
        assert status("lab-1") == 401
        assert status("prod", client="prod") == 200
        assert status("lab-1", client="prod") == 403
        assert status("prod") == 401
        with pytest.raises((ssl.SSLError, OSError, http.client.HTTPException)):
            status("prod", client="stranger")
        # A changed file takes effect without a restart; one that is broken changes nothing.
        identities.write_text("lab-1 token:new-token-new-token\n")
        server.wait_for("identities_reloaded")
        assert status("lab-1", "0123456789abcdef") == 401
        assert status("lab-1", "new-token-new-token") == 200
        identities.write_text("nonsense\n")
        server.wait_for("identities_not_reloaded")
        assert status("lab-1", "new-token-new-token") == 200
        assert "new-token" not in server.log.read_text()


def test_a_renewed_certificate_is_served_without_a_restart(tmp_path: Path) -> None:
    make_certificates(tmp_path)
    settings = settings_for(tmp_path, drain=False, tls_certificate=tmp_path / "server.pem", tls_key=tmp_path / "server.key")
    with RunningServer(settings, tmp_path / "server.log") as server:
        before = ssl.get_server_certificate(("127.0.0.1", server.port))
        assert before == (tmp_path / "server.pem").read_text()
        for suffix in ("key", "pem"):
            (tmp_path / f"prod.{suffix}").replace(tmp_path / f"server.{suffix}")
            if suffix == "key":
                # The pair does not fit together for a while; the old one is served on.
                server.wait_for("certificate_not_reloaded")
                assert ssl.get_server_certificate(("127.0.0.1", server.port)) == before
        server.wait_for("certificate_reloaded")
        assert ssl.get_server_certificate(("127.0.0.1", server.port)) == (tmp_path / "server.pem").read_text() != before
