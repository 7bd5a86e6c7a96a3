"""The lakes of the replay's benchmark: recorded churn, and churn grown to a million events, in each state of derived tables."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from ingest.lake import Lake
from ingest.maintain import compact, remove_retired
from ingest.sources.files import ingest_files
from tests.benchmarks.grow import grow

CHURN = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "churn"
COPIES = 6
HERE = [sys.executable, "-m", "tests.benchmarks.bench_replay"]
_LATER_TS = datetime(2030, 1, 1, tzinfo=UTC).timestamp()  # after the recorded day: all of it is merged


def lake_of(folder: Path, log: str, files: str) -> Path:
    """One of the lakes, in the files that ingest leaves or compacted: `churn`, `grown` in equal copies, or `varied` ones."""
    path = folder / f"{log}-{files.replace(' ', '-')}"
    if path.exists():
        return path
    if files == "compacted":
        shutil.copytree(lake_of(folder, log, "as ingested"), path)
        lake = Lake.open(path)
        with lake.writer() as writer:
            compact(writer, _LATER_TS)
            remove_retired(writer, 2 * _LATER_TS)
        lake.close()
    elif log == "churn":
        lake = Lake.create(path)
        ingest_files(lake, [CHURN / "audit.jsonl.zst"], "churn", received_ts=0.0)
        lake.close()
    else:
        grow(lake_of(folder, "churn", files), path, COPIES, varied=log == "varied")
    return path


def store(lake: Path) -> None:
    """Take churn into a new lake, and compact it."""
    opened = Lake.create(lake)
    ingest_files(opened, [CHURN / "audit.jsonl.zst"], "churn", received_ts=0.0)
    with opened.writer() as writer:
        compact(writer, _LATER_TS)
        remove_retired(writer, 2 * _LATER_TS)
    opened.close()


def bring_to(lake: Path, state: str, policies: int, replay: Callable[[], object]) -> None:
    """Remove the runs of a lake, and bring its derived tables into a state. `replay` replays these policies."""
    shutil.rmtree(lake / "runs", ignore_errors=True)
    if state == "kept":
        mark = lake / "derived" / f"of-{policies}"
        if mark.exists():
            return
        replay()
        shutil.rmtree(lake / "runs", ignore_errors=True)
        mark.touch()
        return
    shutil.rmtree(lake / "derived", ignore_errors=True)
    if state == "prepared":
        prepared = lake.with_name(f"{lake.name}-prepared")
        if not prepared.exists():
            processor_s([*HERE, "--prepare", str(lake)])
            shutil.copytree(lake / "derived", prepared)
        else:
            shutil.copytree(prepared, lake / "derived")


def processor_s(command: list[str]) -> float:
    """The processor time of a command and all its processes, in seconds."""
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return used.ru_utime + used.ru_stime


def timed(command: list[str]) -> tuple[float, float]:
    """The processor time and the wall time of a command in seconds."""
    started = time.perf_counter()
    return processor_s(command), time.perf_counter() - started
