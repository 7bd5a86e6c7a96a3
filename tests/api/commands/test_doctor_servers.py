"""`doctor` with what API servers say of themselves: their counters, from a file or a URL, and their log."""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from api.cli import run
from ingest.lake import Lake
from ingest.store import EventStore, Lines
from tests.yaml_text import load_yaml

_CASES = load_yaml((Path(__file__).parents[2] / "cases" / "doctor" / "servers.yaml").read_text())
_START = 1_767_225_600
_TOKEN = "0123456789-of-a-person"


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    lake = Lake.create(tmp_path / "lake")
    with lake.writer() as writer:
        store = EventStore(writer)
        store.store([Lines("lab", "webhook", _START + 5.0, [event(number) for number in (1, 2, 3)])], {}, "q")
        store.close()
    lake.close()
    return tmp_path / "lake"


def event(number: int) -> bytes:
    stamp = f"2026-01-01T00:00:{number:02}.000000Z"
    head = {"auditID": f"id-{number}", "stage": "ResponseComplete", "level": "Metadata", "verb": "get", "stageTimestamp": stamp}
    place = {"resource": "pods", "apiVersion": "v1", "namespace": "n", "name": "x"}
    head |= {"requestURI": "/api/v1/namespaces/n/pods/x", "user": {"username": "dana", "groups": ["system:authenticated"]}}
    return json.dumps(head | {"requestReceivedTimestamp": stamp, "objectRef": place, "responseStatus": {"code": 200}}).encode()


def scrape(events: int, scraped: int = 3, rejected: int = 0, errors: dict[str, int] | None = None) -> str:
    lines = [f"apiserver_audit_event_total {events} {(_START + scraped) * 1000}", f"process_start_time_seconds {_START}"]
    lines += [f'apiserver_audit_error_total{{plugin="{plugin}"}} {count}' for plugin, count in (errors or {}).items()]
    return "\n".join([*lines, f"apiserver_audit_requests_rejected_total {rejected}", ""])


@pytest.mark.parametrize("case", _CASES, ids=lambda case: case["name"])
def test_what_the_servers_say_decides(lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], case: dict[str, Any]) -> None:
    given = []
    if "metrics" in case:
        (tmp_path / "metrics").write_text(scrape(**case["metrics"]))
        given += ["--metrics", str(tmp_path / "metrics")]
    if "log" in case:
        text = case["log"].encode()
        (tmp_path / "log").write_bytes(gzip.compress(text) if case.get("compressed") else text)
        given += ["--server-log", str(tmp_path / "log")]
    code = run(["--lake", str(lake), "doctor", "-o", "json", *given])
    findings = json.loads(capsys.readouterr().out)["findings"]
    assert [[finding["kind"], finding["severity"]] for finding in findings] == case["findings"]
    assert code == case["exit"]
    if "count" in case:
        assert findings[0]["count"] == case["count"]


@contextmanager
def served(status: int, body: str) -> Iterator[tuple[str, list[str | None]]]:
    """A server that answers once with this, and the Authorization headers that it got."""
    got: list[str | None] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            got.append(self.headers["Authorization"])
            self.send_response(status)
            self.send_header("Location", "http://127.0.0.1:9/elsewhere")
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *arguments: Any) -> None:
            """Keep quiet."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/metrics", got
        server.shutdown()
        thread.join()


def test_counters_come_from_a_url_with_a_token(lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "token").write_text(f"{_TOKEN}\n")
    with served(200, scrape(5)) as (url, got):
        assert run(["--lake", str(lake), "doctor", "--metrics", url, "--metrics-token-file", str(tmp_path / "token")]) == 1
    assert got == [f"Bearer {_TOKEN}"]
    assert "counted 5 events" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(("status", "body"), [(403, ""), (302, ""), (200, "no metrics at all {"), (200, "up 1\n")])
def test_a_url_without_counters_is_named(lake: Path, capsys: pytest.CaptureFixture[str], status: int, body: str) -> None:
    with served(status, body) as (url, _):
        assert run(["--lake", str(lake), "doctor", "--metrics", url]) == 2
    assert url in capsys.readouterr().err


def test_a_token_does_not_travel_without_tls(lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "token").write_text(_TOKEN)
    given = ["--metrics", "http://192.0.2.1/metrics", "--metrics-token-file", str(tmp_path / "token")]
    assert run(["--lake", str(lake), "doctor", *given]) == 2
    assert "without TLS" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--metrics-token-file", "--metrics-ca"])
@pytest.mark.parametrize("places", [[], ["saved.txt"]])
def test_a_token_that_nothing_would_use_is_named(
    lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], option: str, places: list[str]
) -> None:
    (tmp_path / "saved.txt").write_text(scrape(5))
    given = [part for name in places for part in ("--metrics", str(tmp_path / name))]
    assert run(["--lake", str(lake), "doctor", *given, option, str(tmp_path / "token")]) == 2
    assert f"{option}: found" in capsys.readouterr().err


def test_a_log_that_is_not_there_is_named(lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--lake", str(lake), "doctor", "--server-log", str(tmp_path / "absent")]) == 2
    assert "absent: the log cannot be read" in capsys.readouterr().err
