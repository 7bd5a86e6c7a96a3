"""Replay of the recorded churn and of churn grown to a million events, next to the API server's own Go engine (govap.json).

Processor seconds are of the whole command, with its start, its plan and all its processes. A lake is `fresh` if nothing is derived
from it yet, `prepared` as `hindcast compact` leaves it, and `kept` after an earlier replay of the same policies.
`python -m tests.benchmarks.bench_replay LAKES [NAME ...]` keeps the lakes in a folder, and measures only the rows whose names hold
one of these texts.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from multiprocessing import active_children
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

from ingest.lake import Lake
from pipeline import load_policy_set, plan_replay, run_replay
from pipeline.requests.prefill import prefill
from pipeline.runs.processes import start_processes
from queries import open_lake
from tests.benchmarks.aims import print_aims, with_aims
from tests.benchmarks.replay_around import AROUND, edit_here
from tests.benchmarks.replay_lakes import CHURN, COPIES, HERE, bring_to, lake_of


def run() -> list[dict[str, Any]]:
    """Events of the log per processor second, from each kind of lake, with one worker and with one per core."""
    if not CHURN.exists():
        return []
    with tempfile.TemporaryDirectory(prefix="hindcast-bench-") as folder:
        return measured(Path(folder))


class _Case(NamedTuple):
    """One replay: of a log in files of one kind, with the derived tables in some state."""

    log: str
    files: str
    state: str
    policies: int
    workers: int = 1

    @property
    def name(self) -> str:
        workers = _counted(self.workers, "worker", "workers")
        return f"{self.log}, {self.files}, {self.state}, {_policies(self.policies)}, {workers}"


_CASES = [
    *(_Case("churn", files, "fresh", policies) for files in ("as ingested", "compacted") for policies in (1, 12)),
    *(_Case("grown", files, "fresh", policies) for files in ("as ingested", "compacted") for policies in (1, 12)),
    _Case("grown", "compacted", "fresh", 12, 2),
    *(_Case("grown", "compacted", "prepared", policies) for policies in (1, 12)),
    *(_Case("grown", files, "kept", policies) for files in ("as ingested", "compacted") for policies in (1, 12)),
    _Case("grown", "compacted", "kept", 12, 2),
]


def measured(folder: Path, only: list[str] | None = None) -> list[dict[str, Any]]:
    """The rows of this benchmark, over lakes that are made in a folder where they are not there yet. Prints them as a table."""
    cases = [case for case in _CASES if not only or any(each in case.name for each in only)]
    rows = [{"name": case.name, **_measure(case, lake_of(folder, case.log, case.files))} for case in cases]
    _print(rows)
    others = [*_as_rows(rows), *_growth(rows), *_as_ingested(rows), *_two_workers(rows)]
    for name, measure in AROUND.items():
        if not only or any(each in name for each in only):
            others += measure(folder)
    return with_aims(others)


def _growth(rows: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """How many times the cost a replay takes over the grown lake."""
    costs = {row["name"]: row["processor_s"] for row in rows}
    for name, cost in costs.items():
        small = costs.get(name.replace("grown", "churn"))
        if name.startswith("grown") and small:
            yield {
                "name": f"replay, growth, {name[7:]}",
                "value": cost / small,
                "unit": "times",
                "detail": f"{COPIES} times the events",
            }


def _as_ingested(rows: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The rate over the files that ingest leaves, as a share of the rate over compacted files."""
    rates = {row["name"]: row["events_per_s"] for row in rows}
    for policies in map(_policies, (1, 12)):
        ingested, compacted = (rates.get(f"grown, {files}, fresh, {policies}, 1 worker") for files in ("as ingested", "compacted"))
        if ingested and compacted:
            detail = f"{ingested:,.0f} of {compacted:,.0f} events/s, nothing derived yet"
            yield {
                "name": f"replay, as ingested to compacted, {policies}",
                "value": ingested / compacted,
                "unit": "",
                "detail": detail,
            }


def _two_workers(rows: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """How much sooner two workers are done, by the processor time of the busier process: other work on the machine does not count.

    It also prints the wall times. With kept inputs little is left to share: one process does start, plan and merge.
    """
    by_name = {row["name"]: row for row in rows}
    for name, both in by_name.items():
        alone = by_name.get(name.replace("2 workers", "1 worker"))
        if name.endswith("2 workers") and alone:
            detail = (
                f"{alone['busiest_s']:.1f} s of one process to {both['busiest_s']:.1f} s of the busier of two; "
                f"wall {alone['wall_s']:.1f} s to {both['wall_s']:.1f} s"
            )
            value = alone["busiest_s"] / both["busiest_s"]
            yield {"name": f"replay, {name[:-11]}, two workers sooner", "value": value, "unit": "times", "detail": detail}


def _measure(case: _Case, lake: Path) -> dict[str, Any]:
    """One replay with the derived tables in its state."""
    # The number of workers is not a part of a run's name: a finished run of the same plan would be returned and not measured.
    bring_to(lake, case.state, case.policies, partial(_measure_once, lake, case.policies, 1))
    return _measure_once(lake, case.policies, case.workers)


def _measure_once(lake: Path, policies: int, workers: int) -> dict[str, Any]:
    """One replay in a process of its own, which tells its own peak of memory."""
    command = [*HERE, "--here", str(lake), str(policies), str(workers)]
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
        "busiest_s": max(found["own_s"], processor_s - found["own_s"]),
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
    reader = open_lake(lake)
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
        "own_s": done,
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


def _policies(number: int) -> str:
    return _counted(number, "policy", "policies")


def _counted(number: int, one: str, several: str) -> str:
    return f"{number} {one if number == 1 else several}"


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
        if row["warm_to_go"] is not None:
            detail = f"{row['run_s']:.1f} s of processor for the run, without the start of the process and the plan"
            yield {"name": f"{name}, warm to Go", "value": row["warm_to_go"], "unit": "times", "detail": detail}
        yield {"name": f"{name}, wall", "value": row["wall_s"], "unit": "s", "detail": "with the start of all processes"}
        yield {"name": f"{name}, memory", "value": row["peak_mb"], "unit": "MB", "detail": "peak of the largest process"}


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["--here", lake, policies, workers]:
            print(json.dumps(_measure_here(Path(lake), int(policies), int(workers))))
        case ["--prepare", lake]:
            prefill(Path(lake))
        case ["--edited", lake]:
            print(json.dumps(edit_here(Path(lake))))
        case [folder, *names]:
            print_aims(measured(Path(folder), names))
