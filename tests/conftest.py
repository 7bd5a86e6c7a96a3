"""The bundled audit log as a lake, made once for all tests that want a real log."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from api.cli import run
from ingest.files import ingest_files
from ingest.lake import Lake
from ingest.snapshot import ingest_snapshot
from pipeline import load_policy_set, plan_replay, plan_replay_from_log, run_replay
from queries import open_lake
from tests.sharing import STRETCHED_DELAY, shared_lake

# The width of a terminal, which pytest-xdist gives to its workers, and a file of the user's own change what commands print.
os.environ.pop("COLUMNS", None)
os.environ["HINDCAST_CONFIG"] = ""

# How long an example takes is the machine's affair: a busy one is not a failure.
settings.register_profile("hindcast", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("hindcast")

DATA = Path(__file__).parents[1] / "api" / "demo"


@pytest.fixture(scope="session")
def demo_lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake of the bundled log with its own times, and the snapshot from before its first policy. Tests only read it."""

    def make(path: Path) -> None:
        lake = Lake.create(path)
        ingest_files(lake, [DATA / "audit.jsonl.zst"], "demo", 1.0)
        ingest_snapshot(lake, [DATA / "snapshot"], "demo", datetime(2026, 11, 21, 3, 24, 34, 88216, tzinfo=UTC))
        lake.close()

    return shared_lake(tmp_path_factory, "demo", make)


@pytest.fixture(scope="session")
def stretched_lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demonstration's lake: the bundled log with its times stretched to three weeks. Tests add runs to it and nothing else.

    The demonstration's policies, and those that were bound, are replayed already.
    """

    def make(path: Path) -> None:
        assert run(["--quiet", "demo", "--lake-only", "--out", str(path.parent)]) == 0
        reader = open_lake(path)
        run_replay(plan_replay(reader, load_policy_set([DATA / "policies"])), path)
        run_replay(plan_replay_from_log(reader, change_delay=STRETCHED_DELAY), path)
        reader.close()

    return shared_lake(tmp_path_factory, "stretched", make)
