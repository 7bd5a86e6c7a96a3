"""Replays on a Ray of this machine: rows judged per second with 1, 2 and 4 workers, and what goes through the driver.

The log is churn in small units, without kept history. Ray has started before the clock does; its workers have not.
"""

from __future__ import annotations

import os
import resource
import shutil
import tempfile
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.benchmarks.replay_lakes import CHURN, lake_of

_POLICIES = CHURN / "perf-policies-12.yaml"
_WORKERS = (1, 2, 4)
_PART_EVENTS = 10_000


def run() -> list[dict[str, Any]]:
    """Rows for each number of workers, and for the transfer of one run."""
    if not CHURN.exists():
        return []
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="hindcast-bench-") as folder:
        lake = lake_of(Path(folder), "churn", "as ingested")
        for workers in _WORKERS:
            rows += _measured(lake, workers, is_last=workers == _WORKERS[-1])
    return rows


def _measured(lake: Path, workers: int, is_last: bool) -> list[dict[str, Any]]:
    from api.on_ray import connected
    from pipeline import load_policy_set, plan_replay, run_replay
    from pipeline.runs import RunStore
    from queries import open_lake

    with closing(open_lake(lake)) as reader:
        plan = replace(plan_replay(reader, load_policy_set([_POLICIES])), part_events=_PART_EVENTS)
    for left in ("admissions", "inputs"):
        shutil.rmtree(lake / "derived" / left, ignore_errors=True)
    shutil.rmtree(RunStore(lake).run(plan.run_id).folder, ignore_errors=True)
    with connected("ray", workers) as executor:
        started, used = time.perf_counter(), _processor_s()
        summary = run_replay(plan, lake, executor=executor)
        wall, driver = time.perf_counter() - started, _processor_s() - used
        traffic: Any = executor.traffic  # type: ignore[attr-defined]  # Ray's executor counts it, and the protocol has no counts
    detail = f"{summary.verdicts:,} rows, 12 policies, {wall:.1f} s wall, {os.cpu_count()} cores"
    per_unit = f"{traffic.units} units for {plan.requests:,} requests, at most {_PART_EVENTS:,} events each"
    rows = [{"name": f"workers: {workers}", "value": summary.verdicts / wall, "unit": "rows/s", "detail": detail}]
    if is_last:
        rows += [
            {"name": "driver", "value": driver / traffic.units, "unit": "CPU s per unit", "detail": per_unit},
            {"name": "to workers", "value": traffic.sent_bytes / traffic.units / 1e6, "unit": "MB per unit", "detail": per_unit},
            {
                "name": "from workers",
                "value": traffic.received_bytes / traffic.units / 1e6,
                "unit": "MB per unit",
                "detail": per_unit,
            },
        ]
    return rows


def _processor_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
