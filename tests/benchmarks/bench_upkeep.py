"""Upkeep: what compaction costs in time and memory, and what events take on disk next to their JSON lines and `zstd -19` of them.

Each figure is of a process of its own, so that its memory is only its own. The log is the one of the ingest benchmark.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from datetime import date
from itertools import islice
from pathlib import Path
from typing import Any

import zstandard

EVENTS = 150_000  # one whole unit of compaction
ARCHIVED_EVENTS = 20_000  # level 19 takes its time
_LATER = 4e9  # in the future, so that every day is over
_FOLDER = Path(__file__).parent


def run() -> list[dict[str, Any]]:
    """Rows for compaction, for dropping bodies, and for sizes."""
    from ingest.lake import Lake
    from ingest.sources.files import ingest_files
    from tests.benchmarks.bench_ingest import lines_without_end

    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="hindcast-bench-") as name:
        folder = Path(name)
        log = folder / "audit.log"
        with log.open("wb") as handle:
            handle.writelines(islice(lines_without_end(), EVENTS))
        lake = Lake.create(folder / "lake")
        ingest_files(lake, [log], "bench", 0.0)
        drained_bytes = _size_bytes(lake)
        base = _apart(folder / "lake", "open")
        for label, step in (("compaction", "compact"), ("dropping bodies", "expire_objects")):
            found = _apart(folder / "lake", step)
            million = 1e6 / EVENTS
            detail = f"{found['seconds']:.1f} s wall for {EVENTS:,} events in units of at most 150,000"
            memory_mb = (found["memory_bytes"] - base["memory_bytes"]) / 1e6
            rows += [
                {"name": label, "value": found["cpu_seconds"] * million, "unit": "CPU s per million events", "detail": detail},
                {
                    "name": label,
                    "value": memory_mb,
                    "unit": "MB at most",
                    "detail": "above an idle process; a unit decides, not the lake",
                },
            ]
            if step == "compact":
                rows += _sizes(log, drained_bytes, _size_bytes(lake))
        lake.close()
    return rows


def _sizes(log: Path, drained_bytes: int, compacted_bytes: int) -> list[dict[str, Any]]:
    """Bytes per event, and how many times smaller than the JSON lines."""
    with log.open("rb") as handle:
        archived = b"".join(islice(handle, ARCHIVED_EVENTS))
    smallest = len(zstandard.ZstdCompressor(level=19).compress(archived))
    json_bytes = log.stat().st_size / EVENTS
    sizes = (
        ("JSON lines", json_bytes),
        ("zstd -19 of them", smallest / ARCHIVED_EVENTS),
        ("in the lake, as drained", drained_bytes / EVENTS),
        ("in the lake, compacted", compacted_bytes / EVENTS),
    )
    return [
        {
            "name": f"size, {what}",
            "value": size,
            "unit": "bytes per event",
            "detail": f"1/{json_bytes / size:.1f} of the JSON lines",
        }
        for what, size in sizes
    ]


def _size_bytes(lake: Any) -> int:
    return sum(path.stat().st_size for path in lake.files())


def _apart(lake: Path, step: str) -> dict[str, float]:
    command = [sys.executable, __file__, str(lake), step]
    ended = subprocess.run(command, capture_output=True, check=True, timeout=600, cwd=_FOLDER.parents[1])
    result: dict[str, float] = json.loads(ended.stdout)
    return result


def _step(folder: Path, step: str) -> None:
    from ingest.lake import Lake
    from ingest.maintain import compact
    from ingest.retention import expire_objects

    with Lake.open(folder).writer() as writer:
        if step == "compact":
            compact(writer, _LATER)
        elif step == "expire_objects":
            expire_objects(writer, date.max, _LATER)


def _peak_bytes() -> int:
    """The largest resident size of this program; the one that getrusage tells may be of the process that started it."""
    return int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0]) * 1024


if __name__ == "__main__":
    sys.path.insert(0, str(_FOLDER.parents[1]))
    started = time.perf_counter()
    _step(Path(sys.argv[1]), sys.argv[2])
    used = resource.getrusage(resource.RUSAGE_SELF)
    print(
        json.dumps(
            {
                "seconds": time.perf_counter() - started,
                "cpu_seconds": used.ru_utime + used.ru_stime,
                "memory_bytes": _peak_bytes(),
            }
        )
    )
