"""A server that falls behind says how far, and goes on acknowledging; storing comes before answering."""

from __future__ import annotations

import http.client
import json
import os
import time
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import zstandard

from api.cli import run
from api.settings import Settings
from api.sink import drainer
from api.sink.behind import lag_of_lake
from ingest.lake import Lake
from ingest.spooling.drain import drain
from ingest.spooling.spool import Spool
from ingest.store import EventStore, Lines
from tests.crash.rounds import event_list
from tests.querying import QueryClient
from tests.serving import RunningServer

ORIGIN = "http://127.0.0.1:7444"
POLICY = Path(__file__).parents[3] / "api" / "demo" / "policies" / "deny-external-ips.yaml"
POST = Path(__file__).parents[2] / "cases" / "posts" / "000005.json.zst"


def recorded_items() -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = json.loads(zstandard.ZstdDecompressor().decompress(POST.read_bytes()))["items"]
    return items


def eventually(condition: Callable[[], object]) -> None:
    """Wait until something holds; how long that takes depends on the machine."""
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def readiness(server: RunningServer) -> dict[str, Any]:
    status, body = server.get("/readyz")
    answer: dict[str, Any] = json.loads(body)
    return {"status": status, **answer}


def metric(server: RunningServer, name: str) -> float:
    (line,) = [line for line in server.get("/metrics")[1].decode().splitlines() if line.startswith(f"{name} ")]
    return float(line.split()[1])


@pytest.mark.server
def test_the_lag_is_told_over_a_restart_until_all_is_stored(tmp_path: Path) -> None:
    settings = Settings(lake=tmp_path / "lake", port=0, query=False, drain=False, drain_interval_seconds=3600.0)
    items = recorded_items()[:30]
    with RunningServer(settings, tmp_path / "log") as server:
        for start in (0, 10):
            assert server.post("lab", event_list(items[start : start + 10]))[0] == 200
        eventually(lambda: readiness(server).get("lag_events") == 20)
        found = readiness(server)
        assert (found["status"], found["ready"]) == (200, True)
        assert found["lag_seconds"] > 0
        assert metric(server, "hindcast_drain_lag_events") == 20
        server.kill()
    Lake.create(settings.lake).close()
    found_lag = lag_of_lake(settings.lake)
    assert found_lag is not None
    assert (found_lag.events, found_lag.oldest_ts is None) == (20, False)
    settings = Settings(lake=tmp_path / "lake", port=0, query=False, drain_interval_seconds=0.2)
    with RunningServer(settings, tmp_path / "log") as server:
        assert server.post("lab", event_list(items[20:]))[0] == 200
        eventually(lambda: metric(server, 'hindcast_drain_events_total{result="stored"}') == 30)
        eventually(lambda: metric(server, "hindcast_drain_lag_events") == 0)
        assert metric(server, "hindcast_drain_lag_seconds") == 0
        assert server.stop() == 0


def _status(port: int, path: str) -> int:
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
        connection.request("GET", path)
        return connection.getresponse().status


@pytest.mark.server
def test_storing_comes_after_acknowledging_and_before_answering(tmp_path: Path) -> None:
    """With the drain behind the readers, four of them left it a tenth of a core (issue 12, number 11)."""
    settings = Settings(lake=tmp_path / "lake", port=0, query_port=0)
    with RunningServer(settings, tmp_path / "log") as server:
        query_pid = int(server.wait_for("query_listening")["pid"])
        # It gives way once it has given an answer.
        eventually(lambda: _status(server.port_of("query_listening"), "/") == 200)
        eventually(lambda: os.getpriority(os.PRIO_PROCESS, query_pid) > os.getpriority(os.PRIO_PROCESS, server.drain_pid))
        sink, drain, query = (os.getpriority(os.PRIO_PROCESS, pid) for pid in (server.process.pid, server.drain_pid, query_pid))
        assert sink < drain < query


def test_maintenance_gives_way_to_what_waits(tmp_path: Path) -> None:
    settings = Settings(lake=tmp_path / "lake")
    lake = Lake.create(settings.lake)
    items = recorded_items()[:27]
    with lake.writer() as writer:
        store = EventStore(writer)
        for number, item in enumerate(items):
            # Three days of nine small files each: three units.
            line = json.dumps({**item, "stageTimestamp": f"2026-11-0{1 + number % 3}T00:00:00Z"}).encode()
            store.store([Lines("lab", "test", 0.0, [line])], {}, "q")
        store.close()
    with Spool(settings.spool) as spool:
        spool.append("lab", "digest", 1.0, [json.dumps(item).encode() for item in items])
        spool.seal()
        assert not drainer.maintain_once(lake, settings, lambda: False)
        assert len(lake.files()) == 19
        drainer.drain_once(lake, settings, lambda: False)
        assert drainer.maintain_once(lake, settings, lambda: False)
    assert len(lake.files()) == 4
    lake.close()


@pytest.fixture
def late_lake(tmp_path: Path) -> Path:
    """A lake that has 27 events, and three more in its spool, received half a day after these."""
    lake = Lake.create(tmp_path / "lake")
    lines = [json.dumps(item).encode() for item in recorded_items()[:30]]
    with lake.writer() as writer:
        store = EventStore(writer)
        store.store([Lines("lab", "webhook", 0.0, lines[:27])], {}, "q")
        store.close()
    with Spool(lake.path / "spool") as spool:
        spool.append("lab", "digest", datetime(2026, 11, 21, 12, tzinfo=UTC).timestamp(), lines[27:])
    lake.close()
    return lake.path


def test_the_pages_say_what_is_not_stored_yet(late_lake: Path) -> None:
    with QueryClient(Settings(lake=late_lake, query_seconds_max=200)) as client:
        for path in ("/", "/evidence"):
            assert "3 acknowledged events are not stored yet, the oldest received" in client.send("GET", f"{ORIGIN}{path}").text
        with Lake.open(late_lake).writer() as writer:
            drain(writer, late_lake / "spool")
        for path in ("/", "/evidence"):
            assert "not stored yet" not in client.send("GET", f"{ORIGIN}{path}").text


def test_doctor_says_what_is_not_stored_yet(late_lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(["--lake", str(late_lake), "doctor", "-o", "json"])
    (state,) = json.loads(capsys.readouterr().out)["lake"]
    assert (state["waiting"], state["waiting_since"][:10]) == (3, "2026-11-21")
    run(["--lake", str(late_lake), "doctor"])
    assert "3 acknowledged events are not in the views yet, the oldest was received" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(("until", "is_told"), [((), True), (("--until", "2026-11-21T06:00:00Z"), False)])
def test_a_report_says_what_is_not_stored_yet(
    late_lake: Path, capsys: pytest.CaptureFixture[str], until: tuple[str, ...], is_told: bool
) -> None:
    given = ("readiness", "-f", str(POLICY), "--no-calibrate", "-o", "json", *until)
    assert run(["-q", "--lake", str(late_lake), *given]) == 0
    caveats = json.loads(capsys.readouterr().out)["caveats"]
    told = (
        "3 acknowledged events are not in the lake yet, the oldest received at 2026-11-21T12:00:00Z: "
        "the newest requests are not counted"
    )
    assert (told in caveats) == is_told
