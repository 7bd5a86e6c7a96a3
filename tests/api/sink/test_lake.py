"""The lake's folder is deleted, moved, replaced or damaged under the running server: what is acknowledged is in the lake."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from api.cli import run
from api.settings import Settings
from ingest.errors import LakeError
from ingest.lake import Lake
from ingest.quarantine import read_quarantine
from tests.api.sink.test_server import recorded_items, settings_for, stored_ids
from tests.crash.rounds import event_list
from tests.serving import RunningServer

pytestmark = pytest.mark.server


def post(server: RunningServer, name: str) -> tuple[int, dict[str, Any]]:
    return server.post("lab-1", event_list([{**recorded_items()[0], "auditID": name}]))


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def delete(lake: Path) -> None:
    shutil.rmtree(lake)


def move(lake: Path) -> None:
    lake.rename(lake.with_name("moved"))


def replace(lake: Path) -> None:
    move(lake)
    Lake.create(lake).close()


def remove_spool(lake: Path) -> None:
    shutil.rmtree(lake / "spool")


@pytest.mark.parametrize("displace", [delete, move, replace, remove_spool])
def test_a_lake_that_is_not_there_any_more_takes_nothing(tmp_path: Path, displace: Callable[[Path], None]) -> None:
    settings = settings_for(tmp_path, drain_interval_seconds=5)
    with RunningServer(settings, tmp_path / "server.log") as server:
        assert server.drain_pid
        assert post(server, "before")[0] == 200
        displace(settings.lake)
        server.kill_drain()
        # A drain that is started again must not make the folder again.
        for number in range(3):
            status, answer = post(server, f"after-{number}")
            assert (status, answer["error"]["code"]) == (503, "lake_displaced")
            server.wait_for("drain_ended")
        wait_until(lambda: b"lake_displaced" in server.get("/readyz")[1])
        assert server.get("/readyz")[0] == 503
        # An item that is not an event would go to quarantine alone.
        assert server.post("lab-1", event_list([])[:-2] + b"5]}")[0] == 503
        server.stop()
        assert "Traceback" not in server.log.read_text()
    if displace is delete:
        assert not settings.lake.exists()
    if displace is replace:
        assert not [path for path in settings.spool.iterdir() if path.name != "lock"]
    if displace in (move, replace):
        moved = settings_for(tmp_path, lake=tmp_path / "moved")
        with RunningServer(moved, tmp_path / "second.log") as server:
            wait_until(lambda: not [path for path in moved.spool.iterdir() if path.name != "lock"])
        assert stored_ids(moved.lake) == {("lab-1", "before"): 1}


def test_a_lake_that_is_put_back_is_used_again(tmp_path: Path) -> None:
    settings = settings_for(tmp_path)
    with RunningServer(settings, tmp_path / "server.log") as server:
        assert post(server, "before")[0] == 200
        move(settings.lake)
        assert post(server, "between")[0] == 503
        server.wait_for("drain_ended")
        (tmp_path / "moved").rename(settings.lake)
        wait_until(lambda: post(server, "after")[0] == 200)
        wait_until(lambda: server.get("/readyz")[0] == 200)
        wait_until(lambda: len(stored_ids(settings.lake)) == 2)
    assert stored_ids(settings.lake) == {("lab-1", "before"): 1, ("lab-1", "after"): 1}


def test_a_manifest_that_is_deleted_costs_no_event(tmp_path: Path) -> None:
    settings = settings_for(tmp_path)
    manifest = settings.lake / "manifest.sqlite"
    with RunningServer(settings, tmp_path / "server.log") as server:
        assert post(server, "stored")[0] == 200
        wait_until(lambda: manifest.exists() and len(stored_ids(settings.lake)) == 1)
        kept = [path.read_bytes() for path in sorted(settings.lake.glob("events/dt=*/*"))]
        server.kill_drain()
        Lake.open(settings.lake).close()  # nothing is left in the log of the database
        backup = tmp_path / "backup.sqlite"
        for path in settings.lake.glob("manifest.sqlite*"):
            path.rename(tmp_path / path.name.replace("manifest", "backup"))
        server.wait_for("drain_cannot_start")
        assert post(server, "waits")[0] == 200  # the spool is still the lake's
        wait_until(lambda: "drain" in str(server.get("/readyz")))  # ready, with a warning: batches are kept
        assert [path.read_bytes() for path in sorted(settings.lake.glob("events/dt=*/*"))] == kept
        with pytest.raises(LakeError, match="the manifest is missing or empty, but there are 1 data files"):
            Lake.create(settings.lake)
        for path in tmp_path.glob("backup.sqlite*"):
            shutil.copy(path, settings.lake / path.name.replace("backup", "manifest"))
        wait_until(lambda: len(stored_ids(settings.lake)) == 2)
    assert backup.exists()
    assert stored_ids(settings.lake) == {("lab-1", "stored"): 1, ("lab-1", "waits"): 1}


@pytest.mark.parametrize("drain", [True, False])
def test_damage_of_acknowledged_events_is_told_by_doctor_metrics_and_log(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], drain: bool
) -> None:
    settings = settings_for(tmp_path, drain=False, drain_interval_seconds=600)
    with RunningServer(settings, tmp_path / "server.log") as server:
        for number in range(3):
            names = [{**recorded_items()[0], "auditID": f"{number}-{n}"} for n in range(20)]
            assert server.post("lab-1", event_list(names))[0] == 200
        server.kill()
    (segment,) = settings.spool.glob("*.open")
    data = bytearray(segment.read_bytes())
    data[-60] ^= 0x20
    segment.write_bytes(data)
    with RunningServer(settings_for(tmp_path, drain=drain), tmp_path / "second.log") as server:
        assert server.wait_for("evidence_lost")["segment"] == segment.name
        assert b'hindcast_spool_lost_segments_total{acknowledged="yes"} 1.0' in server.get("/metrics")[1]
        server.stop()
    (record,) = read_quarantine(settings.quarantine)
    assert "acknowledged, and damaged since" in record.reason
    assert run(["-q", "--lake", str(settings.lake), "doctor", "-o", "json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert any("acknowledged, and damaged since" in str(finding) for finding in told["findings"])


def test_damage_in_a_segment_that_waits_is_told_by_doctor(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings: Settings = settings_for(tmp_path, drain=False)
    with RunningServer(settings, tmp_path / "server.log") as server:
        assert post(server, "one")[0] == 200
        assert server.stop() == 0
    assert run(["-q", "--lake", str(settings.lake), "doctor"]) == 0
    (segment,) = settings.spool.glob("*.jsonl.zst")
    with segment.open("r+b") as handle:
        os.pwrite(handle.fileno(), b"\0", 200)
    assert run(["-q", "--lake", str(settings.lake), "doctor"]) == 1
    assert "damaged_segment" in capsys.readouterr().out
