"""The bundled audit log as a lake, made once for all tests that want a real log."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from ingest.files import ingest_files
from ingest.lake import Lake
from ingest.snapshot import ingest_snapshot

DATA = Path(__file__).parents[1] / "api" / "demo"


@pytest.fixture(scope="session")
def demo_lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake of the bundled log with its own times, and the snapshot from before its first policy. Tests only read it."""
    path = tmp_path_factory.mktemp("demo") / "lake"
    lake = Lake.create(path)
    ingest_files(lake, [DATA / "audit.jsonl.zst"], "demo", 1.0)
    ingest_snapshot(lake, [DATA / "snapshot"], "demo", datetime(2026, 11, 21, 3, 24, 34, 88216, tzinfo=UTC))
    lake.close()
    return path
