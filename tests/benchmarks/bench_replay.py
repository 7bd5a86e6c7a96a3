"""Replay of the recorded churn, from Parquet to verdicts, beside the API server's own Go engine on the same log (govap.json)."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from multiprocessing import active_children
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ingest.files import ingest_files
from ingest.lake import Lake
from ingest.schema import SORT_ORDER
from pipeline import load_policy_set, plan_replay, run_replay
from pipeline.replay import open_for_plan, runs_folder, start_processes

CHURN = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "churn"


def run() -> list[dict[str, Any]]:
    """Events of the log per second, with one worker and with one per core; plan and process start-up are in the time."""
    if not CHURN.exists():
        return []
    rows = []
    with tempfile.TemporaryDirectory(prefix="hindcast-bench-") as folder:
        lake, events = _lake(Path(folder))
        for policies in (1, 12):
            for workers in sorted({1, os.cpu_count() or 1}):
                rows += _measure(lake, events, policies, workers)
    return rows


def _lake(folder: Path) -> tuple[Path, int]:
    """The churn in one compacted file."""
    once, lake = Lake.create(folder / "once"), Lake.create(folder / "lake")
    ingest_files(once, [CHURN / "audit.jsonl.zst"], "churn", received_ts=0.0)
    table = pa.concat_tables([pq.read_table(file) for file in once.files()]).sort_by([(name, "ascending") for name in SORT_ORDER])
    with lake.writer() as writer:
        writer.commit(writer.write("events", "churn", table, compacted=True))
    return lake.path, table.num_rows


def _measure(lake: Path, events: int, policies: int, workers: int) -> list[dict[str, Any]]:
    # A process of its own tells its own peak of memory.
    command = [sys.executable, "-m", "tests.benchmarks.bench_replay", str(lake), str(policies), str(workers)]
    found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    seconds, evaluated = found["seconds"], found["evaluated"]
    name = f"replay, {policies} {'policies' if policies > 1 else 'policy'}, {workers} {'workers' if workers > 1 else 'worker'}"
    detail = f"{evaluated:,} of {events:,} events evaluated, {found['verdicts']:,} verdicts, {seconds:.1f} s"
    return [
        {"name": name, "value": events / seconds, "unit": "events/s", "detail": detail},
        {"name": f"{name}, evaluated", "value": evaluated / seconds, "unit": "events/s", "detail": "requests that policies saw"},
        {"name": f"{name}, memory", "value": found["peak_mb"], "unit": "MB", "detail": "peak of the largest process"},
        {
            "name": f"{name}, to the Go engine",
            "value": events / seconds / _go(policies, workers),
            "unit": "times",
            "detail": "its faster decoder",
        },
    ]


def _measure_here(lake: Path, policies: int, workers: int) -> dict[str, float]:
    """From Parquet to verdicts, with the start of further processes."""
    # The number of workers is no part of a run's name: a finished run of the same plan would be returned and not measured.
    shutil.rmtree(runs_folder(lake), ignore_errors=True)
    started = time.perf_counter()
    start_processes(lake, workers)
    reader = open_for_plan(lake)
    plan = plan_replay(reader, load_policy_set([CHURN / f"perf-policies-{policies}.yaml"]))
    reader.close()
    summary = run_replay(plan, lake, workers)
    seconds = time.perf_counter() - started
    peak_kb = max(map(_peak_kb, ["self", *(str(process.pid) for process in active_children())]))
    return {"seconds": seconds, "evaluated": summary.evaluated, "verdicts": summary.verdicts, "peak_mb": peak_kb / 1024}


def _peak_kb(process: str) -> int:
    """The most memory that a process had; what getrusage tells begins with what its parent had."""
    status = Path(f"/proc/{process}/status").read_text(encoding="ascii")
    return int(next(line for line in status.splitlines() if line.startswith("VmHWM:")).split()[1])


def _go(policies: int, cores: int) -> float:
    """Events per second of the Go engine, recorded on the same kind of machine."""
    runs = json.loads((CHURN / "govap.json").read_text())
    return float(max(r["events_per_s"] for r in runs if r["policies"] == policies and r["gomaxprocs"] == min(cores, 2)))


if __name__ == "__main__":
    print(json.dumps(_measure_here(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))))
