"""Backfill: events from a log file to durable Parquet, per second of one core, by how the file is compressed.

The log is a part of a recording next to the checkout where there is one, else the log that ships with the demonstration, repeated
with other audit IDs. CPU seconds are those of the process, so that other work on the machine counts less.
"""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import Iterator
from itertools import count, islice
from pathlib import Path
from typing import Any

import zstandard
from isal import igzip

from ingest.lake import Lake
from ingest.maintain import compact
from ingest.sources.files import ingest_files

EVENTS = 60_000
_PROJECT = Path(__file__).parents[2]
_LOGS = (_PROJECT.parent / "shared/data/churn/audit.jsonl.zst", *sorted((_PROJECT / "api/demo").rglob("audit*.zst")))
_AUDIT_ID = re.compile(rb'"auditID":"[0-9a-f]{8}')
_LATER_DAY = 4e9  # in the future, so that every day is over


def run() -> list[dict[str, Any]]:
    """Rows for plain, gzip and zstd files, for a second ingest of a file, and for compaction."""
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="hindcast-bench-") as name:
        folder = Path(name)
        content = b"".join(islice(lines_without_end(), EVENTS))
        megabytes = len(content) / 1e6
        for label, data in (
            ("plain", content),
            ("gzip", igzip.compress(content, 1)),
            ("zstd", zstandard.ZstdCompressor().compress(content)),
        ):
            path = folder / f"{label}.log"
            path.write_bytes(data)
            lake = Lake.create(folder / label)
            wall, cpu, stored = _timed(lake, path)
            detail = (
                f"{stored:,} events, {megabytes:.0f} MB, {wall:.1f} s wall, {sum(map(_size, lake.files())) / 1e6:.1f} MB of Parquet"
            )
            rows.append({"name": f"backfill, {label}", "value": stored / cpu, "unit": "events/s per core", "detail": detail})
            rows.append({"name": f"backfill, {label}", "value": megabytes / cpu, "unit": "MB/s per core", "detail": ""})
        _, cpu, _ = _timed(lake, path)
        rows.append({"name": "the same file again, zstd", "value": megabytes / cpu, "unit": "MB/s per core", "detail": ""})
        started = time.process_time()
        with lake.writer() as writer:
            done = compact(writer, _LATER_DAY)
        cpu = time.process_time() - started
        detail = f"{done.bytes_before / 1e6:.1f} to {done.bytes_after / 1e6:.1f} MB"
        rows.append({"name": "compaction", "value": done.rows / cpu, "unit": "events/s per core", "detail": detail})
    return rows


def _timed(lake: Lake, path: Path) -> tuple[float, float, int]:
    """(wall seconds, CPU seconds, events stored) of one ingest."""
    started, cpu = time.perf_counter(), time.process_time()
    summary = ingest_files(lake, [path], "bench", 0.0)
    return time.perf_counter() - started, time.process_time() - cpu, summary.counts.stored


def lines_without_end() -> Iterator[bytes]:
    """Raw events with their newlines, without end."""
    log = next(path for path in _LOGS if path.is_file())
    with log.open("rb") as handle:
        lines = zstandard.ZstdDecompressor().stream_reader(handle, read_across_frames=True).read().splitlines(keepends=True)
    yield from lines
    for number in count(1):
        for line in lines:
            yield _AUDIT_ID.sub(b'"auditID":"%08x' % number, line, count=1)


def _size(path: Path) -> int:
    return path.stat().st_size
