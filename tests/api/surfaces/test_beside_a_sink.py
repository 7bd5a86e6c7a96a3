"""Commands and replays over HTTP while an API server goes on sending: each takes what the lake held when it began."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from pathlib import Path
from typing import Any

import msgspec
import pytest
import zstandard

from api.cli import run
from api.settings import Settings
from ingest.errors import LakeError
from ingest.lake import Lake
from tests.serving import RunningServer, send

pytestmark = pytest.mark.server

POLICY = Path(__file__).parents[3] / "api" / "demo" / "policies" / "image-registry.yaml"
_BATCH_EVENTS = 10
_SECONDS_MAX = 120.0


def recorded() -> list[dict[str, object]]:
    """Writes of pods and of policies, of a real control plane."""
    lines = zstandard.ZstdDecompressor().decompress((files("api") / "demo" / "audit.jsonl.zst").read_bytes()).splitlines()
    events = [msgspec.json.decode(line) for line in lines]
    wanted = {"pods", "validatingadmissionpolicies", "validatingadmissionpolicybindings"}
    return [each for each in events if each.get("objectRef", {}).get("resource") in wanted and each["verb"] in ("create", "update")]


class Sender(threading.Thread):
    """Sends the same events over and over, each time as other requests of a later time, until the test stops it."""

    def __init__(self, server: RunningServer) -> None:
        super().__init__(daemon=True)
        self.server, self.enough, self.statuses = server, threading.Event(), list[int]()

    def run(self) -> None:
        events, end = recorded(), time.monotonic() + _SECONDS_MAX
        number = 0
        while not self.enough.wait(0.3) and time.monotonic() < end:
            items = []
            for event in events[number * _BATCH_EVENTS % len(events) :][:_BATCH_EVENTS]:
                now = (datetime.now(UTC) - timedelta(seconds=1)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
                times = {"requestReceivedTimestamp": now, "stageTimestamp": now}
                items.append(event | times | {"auditID": f"{number}-{len(items)}"})
            number += 1
            body = json.dumps({"kind": "EventList", "apiVersion": "audit.k8s.io/v1", "items": items}).encode()
            self.statuses.append(send(self.server.connect(), "POST", "/audit/lab", body)[0])


@contextmanager
def sending(server: RunningServer) -> Iterator[Sender]:
    sender = Sender(server)
    sender.start()
    try:
        yield sender
    finally:
        sender.enough.set()
        sender.join()


def events_in(lake: Path) -> int:
    try:
        opened = Lake.open(lake)
    except LakeError:  # the drain is about to make it
        return 0
    try:
        return sum(file.rows for file in opened.manifest.files("events"))
    finally:
        opened.close()


def wait_for_events(lake: Path, wanted: int) -> None:
    deadline = time.monotonic() + _SECONDS_MAX
    while events_in(lake) < wanted:
        assert time.monotonic() < deadline, f"the lake never held {wanted} events"
        time.sleep(0.05)


def replayed_over_http(port: int) -> str:
    """The state in which a replay ends that is posted to the query port."""

    def asked(method: str, path: str, body: bytes) -> dict[str, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        return send(connection, method, f"/api/v1/replays{path}", body, Content_Type="application/yaml")[1]

    job = asked("POST", "?exemptions=false", POLICY.read_bytes())
    deadline = time.monotonic() + _SECONDS_MAX
    while job["state"] not in ("finished", "failed", "cancelled") and time.monotonic() < deadline:
        time.sleep(0.2)
        job = asked("GET", f"/{job['job_id']}", b"")
    return f"{job['state']} {job.get('error') or ''}".strip()


def test_no_command_fails_because_the_sink_is_writing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lake = tmp_path / "lake"
    settings = Settings(lake=lake, port=0, query_port=0, drain_interval_seconds=0.2, disk_free_bytes_min=0)
    with RunningServer(settings, tmp_path / "server.log") as server, sending(server) as sender:
        wait_for_events(lake, 40)
        for command in (
            ["replay", "-f", str(POLICY)],
            ["gate", "-f", str(POLICY), "--allow-insufficient", "--no-calibrate"],
            ["exemptions", "-f", str(POLICY)],
            ["readiness", "-f", str(POLICY), "--no-exemptions"],
        ):
            before = events_in(lake)
            code = run(["--lake", str(lake), *command, "--workers", "1"])
            said = capsys.readouterr().err
            assert code == 0, (command, said)
            assert "window: whole log" in said
            wait_for_events(lake, before + 1)
        assert replayed_over_http(server.port_of("query_listening")) == "finished"
    assert set(sender.statuses) == {200}
