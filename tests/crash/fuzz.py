"""Feeds a sink with bodies that no API server sends, drains them, and says who came to harm."""

from __future__ import annotations

import random
import resource
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from ingest.lake import Lake
from ingest.maintain import compact, verify
from ingest.quarantine import read_quarantine
from ingest.redaction.redact import Redactor
from ingest.sink import Accepted, Sink
from ingest.sink_limits import SinkLimits
from ingest.spooling.drain import drain
from ingest.spooling.spool import Spool

from .bodies import anything, spoiled_body

_DRAIN_EVERY = 2_000
_LATER = 4e9


def run_fuzz(folder: Path, *, bodies: int, seed: int) -> dict[str, Any]:
    """Post `bodies` bodies, every third of them anything at all. `complaints` should be empty."""
    chance = random.Random(seed)
    lake = Lake.create(folder / "lake")
    spool = Spool(folder / "lake" / "spool")
    sink = Sink(spool, folder / "lake" / "quarantine", redactor=Redactor(), limits=SinkLimits(disk_free_bytes_min=0))
    answers: Counter[str] = Counter()
    kept: set[str] = set()
    complaints: list[str] = []
    slowest_seconds = 0.0
    for number in range(bodies):
        body = (anything if number % 3 == 2 else spoiled_body)(chance, number)
        started = time.perf_counter()
        result = sink.accept("c", body.data, float(number))
        slowest_seconds = max(slowest_seconds, time.perf_counter() - started)
        answers["acknowledged" if isinstance(result, Accepted) else result.reason] += 1
        if body.kept is not None:
            kept.update(body.kept)
            if not isinstance(result, Accepted):
                complaints.append(f"body {number} cost its neighbours: {result.message}")
        if number % _DRAIN_EVERY == _DRAIN_EVERY - 1:
            spool.seal()
            _drain(lake)
    spool.close()
    _drain(lake)
    with lake.writer() as writer:
        compact(writer, _LATER)
    stored: Counter[str] = Counter()
    for path in lake.files():
        stored.update(pq.read_table(path, columns=["audit_id"], partitioning=None)["audit_id"].to_pylist())
    complaints += [f"{len(lost)} neighbours are lost, e.g. {sorted(lost)[0]}" for lost in (kept - set(stored),) if lost]
    complaints += [f"{name} is stored {stored[name]} times" for name in sorted(kept) if stored[name] > 1]
    complaints += [f"{fault.path} {fault.reason}" for fault in verify(lake)]
    lake.close()
    return {
        "bodies": bodies,
        "answers": dict(answers),
        "neighbours": len(kept),
        "stored": sum(stored.values()),
        "quarantined": len(read_quarantine(folder / "lake" / "quarantine")),
        "slowest_seconds": round(slowest_seconds, 3),
        "memory_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "complaints": complaints,
    }


def _drain(lake: Lake) -> None:
    with lake.writer() as writer:
        drain(writer, lake.path / "spool")
