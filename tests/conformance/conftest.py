"""Where the shared corpora and recordings lie: next to the checkout. Elsewhere these suites skip, with the reason."""

from __future__ import annotations

import json
import os
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest
import zstandard

from api.checks.snapshot_time import time_taken
from ingest.lake import Lake
from ingest.sources.files import ingest_files
from ingest.sources.snapshot import ingest_snapshot
from ingest.sources.snapshot_content import snapshot_content
from queries import open_lake
from tests.sharing import shared_lake


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder with `corpora/` and `data/`. Required where HINDCAST_REQUIRE_SHARED is set."""
    folder = Path(__file__).resolve().parents[2].parent / "shared"
    if not (folder / "corpora").is_dir():
        if os.environ.get("HINDCAST_REQUIRE_SHARED"):
            pytest.fail("the shared corpora are required here and not there; put them in ../shared next to the checkout")
        pytest.skip("no ../shared next to the checkout: conformance corpora are not part of the project")
    return folder


@pytest.fixture(scope="session")
def recorded_lake(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake with the whole audit log of control-plane-a, and the snapshot from before its first policy. Cluster `lab`."""

    def make(path: Path) -> None:
        source = shared / "data" / "control-plane-a"
        lake = Lake.create(path)
        ingest_files(lake, [source / "audit.jsonl.zst"], "lab", received_ts=0.0)
        snapshot = source / "snapshots" / "1-before-policies"
        ingest_snapshot(lake, [snapshot], "lab", datetime.fromtimestamp(_taken_at(snapshot / "namespaces.json.zst"), UTC))
        lake.close()

    return shared_lake(tmp_path_factory, "recorded", make)


@pytest.fixture(scope="session")
def log_alone_lake(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake with the whole audit log of control-plane-a, and no snapshot. Cluster `lab`."""

    def make(path: Path) -> None:
        lake = Lake.create(path)
        ingest_files(lake, [shared / "data" / "control-plane-a" / "audit.jsonl.zst"], "lab", received_ts=0.0)
        lake.close()

    return shared_lake(tmp_path_factory, "log_alone", make)


@pytest.fixture(scope="session")
def last_snapshot_lake(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake made in the order of the README: the whole audit log of control-plane-a, then its last snapshot. Cluster `lab`.

    The snapshot is a copy with fresh times, so its own content and the log tell when it was taken.
    """

    def make(path: Path) -> None:
        source = shared / "data" / "control-plane-a"
        lake = Lake.create(path)
        ingest_files(lake, [source / "audit.jsonl.zst"], "lab", received_ts=0.0)
        snapshot = [source / "snapshots" / "5-end"]
        with closing(open_lake(lake.path)) as reader:
            now = datetime.now(UTC)
            taken = time_taken(reader, "lab", snapshot_content(lake, snapshot, "lab", now), None, now)
        assert abs(taken.moment.timestamp() - _taken_at(snapshot[0] / "namespaces.json.zst")) < 2
        ingest_snapshot(lake, snapshot, "lab", taken.moment)
        lake.close()

    return shared_lake(tmp_path_factory, "last_snapshot", make)


@pytest.fixture(scope="session")
def story_lake(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake with the whole audit log of rbac-a and the snapshots from before and after its story. Cluster `lab`."""

    def make(path: Path) -> None:
        source = shared / "data" / "rbac-a"
        lake = Lake.create(path)
        ingest_files(lake, [source / "audit.jsonl.zst"], "lab", received_ts=0.0)
        for snapshot in (source / "snapshots" / "before", source / "snapshots" / "after"):
            ingest_snapshot(lake, [snapshot], "lab", datetime.fromtimestamp(_taken_at(snapshot / "namespaces.json.zst"), UTC))
        lake.close()

    return shared_lake(tmp_path_factory, "story", make)


def _taken_at(listed: Path) -> float:
    """When a list of the recording was taken, in seconds since the epoch."""
    data = zstandard.ZstdDecompressor().decompress(listed.read_bytes(), max_output_size=1 << 30)
    return float(json.loads(data)["metadata"]["takenAt"])
