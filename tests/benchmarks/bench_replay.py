"""Replay of the recorded churn and of churn grown to a million events, next to the API server's own Go engine (govap.json).

Processor seconds are of the whole command, with its start, its plan and all its processes. `python -m tests.benchmarks.bench_replay
LAKES [NAME ...]` keeps the lakes in a folder, and measures only the rows whose names hold one of these texts.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from multiprocessing import active_children
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from ingest.files import ingest_files
from ingest.lake import Lake
from ingest.maintain import compact, remove_retired
from pipeline import load_policy_set, plan_replay, run_replay
from pipeline.replay import open_for_plan, start_processes
from tests.benchmarks.grow import grow

CHURN = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "churn"
COPIES = 6
_LATER_TS = datetime(2030, 1, 1, tzinfo=UTC).timestamp()  # after the recorded day: all of it is merged


def run() -> list[dict[str, Any]]:
    """Events of the log per processor second, from each kind of lake, with one worker and with one per core."""
    if not CHURN.exists():
        return []
    with tempfile.TemporaryDirectory(prefix="hindcast-bench-") as folder:
        return measured(Path(folder))


def measured(folder: Path, only: list[str] | None = None) -> list[dict[str, Any]]:
    """The rows of this benchmark, over lakes that are made in a folder where they are not there yet. Prints them as a table."""
    rows = []
    for log in ("churn", "grown"):
        for files in ("as ingested", "compacted"):
            for policies in (1, 12):
                for workers in sorted({1, min(os.cpu_count() or 1, 2)}):
                    name = f"{log}, {files}, {_counted(policies, 'policy', 'policies')}, {_counted(workers, 'worker', 'workers')}"
                    if not only or any(each in name for each in only):
                        rows.append({"name": name, **_measure(lake_of(folder, log, files), policies, workers)})
    _print(rows)
    return list(_as_rows(rows))


def _counted(number: int, one: str, several: str) -> str:
    return f"{number} {one if number == 1 else several}"


def lake_of(folder: Path, log: str, files: str) -> Path:
    """One of the lakes: `churn` or `grown`, in the files that ingest leaves or compacted."""
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
        grow(lake_of(folder, "churn", files), path, COPIES)
    return path


def _measure(lake: Path, policies: int, workers: int) -> dict[str, Any]:
    """One replay in a process of its own, which tells its own peak of memory."""
    # The number of workers is not a part of a run's name: a finished run of the same plan would be returned and not measured.
    shutil.rmtree(lake / "runs", ignore_errors=True)
    command = [sys.executable, "-m", "tests.benchmarks.bench_replay", "--here", str(lake), str(policies), str(workers)]
    started = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        found: dict[str, Any] = json.loads(process.stdout.read())
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    wall_s, processor_s = time.perf_counter() - started, used.ru_utime + used.ru_stime
    go = _go_events_per_s(policies)
    return {
        **found,
        "files": sum(1 for _ in (lake / "events").rglob("*.parquet")),
        "processor_s": processor_s,
        "wall_s": wall_s,
        "events_per_s": found["events"] / processor_s,
        "to_go": found["events"] / processor_s / go,
        "warm_to_go": found["events"] / found["run_s"] / go if workers == 1 else None,
    }


def _measure_here(lake: Path, policies: int, workers: int) -> dict[str, float]:
    """From Parquet to verdicts, with the start of further processes. Seconds are of this process's processor time."""
    opened = Lake.open(lake)
    events = sum(file.rows for file in opened.manifest.files("events"))
    opened.close()
    start_processes(lake, workers)
    started = time.process_time()
    reader = open_for_plan(lake)
    plan = plan_replay(reader, load_policy_set([CHURN / f"perf-policies-{policies}.yaml"]))
    reader.close()
    planned = time.process_time()
    summary = run_replay(plan, lake, workers)
    done = time.process_time()
    peak_kb = max(map(_peak_kb, ["self", *(str(process.pid) for process in active_children())]))
    return {
        "events": events,
        "evaluated": summary.evaluated,
        "verdicts": summary.verdicts,
        "plan_s": planned - started,
        "run_s": done - planned,
        "peak_mb": peak_kb / 1024,
    }


def _peak_kb(process: str) -> int:
    """The most memory that a process had; what getrusage tells begins with what its parent had."""
    status = Path(f"/proc/{process}/status").read_text(encoding="ascii")
    return int(next(line for line in status.splitlines() if line.startswith("VmHWM:")).split()[1])


def _go_events_per_s(policies: int) -> float:
    """Events per second of the Go engine on one core, with its faster decoder, recorded on the same kind of machine."""
    runs = json.loads((CHURN / "govap.json").read_text())
    return float(max(each["events_per_s"] for each in runs if each["policies"] == policies and each["gomaxprocs"] == 1))


def _print(rows: list[dict[str, Any]]) -> None:
    table = Table(box=None, title="replay; processor seconds of all processes; warm: without start and plan, one worker")
    table.add_column("lake, policies, workers")
    for heading in ("files", "processor s", "plan s", "wall s", "events/s", "times Go", "warm: times Go", "peak MB"):
        table.add_column(heading, justify="right")
    for row in rows:
        figures = [f"{row['files']:,}", *(f"{row[name]:.1f}" for name in ("processor_s", "plan_s", "wall_s"))]
        warm = "" if row["warm_to_go"] is None else f"{row['warm_to_go']:.1f}"
        table.add_row(row["name"], *figures, f"{row['events_per_s']:,.0f}", f"{row['to_go']:.1f}", warm, f"{row['peak_mb']:,.0f}")
    Console(width=160, stderr=True).print(table)


def _as_rows(rows: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for row in rows:
        name = f"replay, {row['name']}"
        detail = (
            f"{row['processor_s']:.1f} s of {row['events']:,} events, {row['evaluated']:,} evaluated, {row['verdicts']:,} verdicts"
        )
        yield {"name": name, "value": row["events_per_s"], "unit": "events/s", "detail": detail}
        yield {
            "name": f"{name}, to the Go engine",
            "value": row["to_go"],
            "unit": "times",
            "detail": "processor time, its faster decoder",
        }
        yield {"name": f"{name}, wall", "value": row["wall_s"], "unit": "s", "detail": "with the start of all processes"}
        yield {"name": f"{name}, memory", "value": row["peak_mb"], "unit": "MB", "detail": "peak of the largest process"}


if __name__ == "__main__":
    if sys.argv[1] == "--here":
        print(json.dumps(_measure_here(Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))))
    else:
        measured(Path(sys.argv[1]), sys.argv[2:])
