"""What the replay's benchmark measures around the replay: the derived tables, and whole commands."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from ingest.lake import Lake
from ingest.sources.files import ingest_files
from pipeline import plan_replay, run_replay
from pipeline.stages.validating.load import parse_policy_set
from queries import open_lake
from tests.benchmarks.replay_lakes import CHURN, HERE, bring_to, lake_of, processor_s, timed

_DEMO = Path(__file__).resolve().parents[2] / "api" / "demo" / "audit.jsonl.zst"
_STARTS = 5


def preparation(folder: Path) -> Iterator[dict[str, Any]]:
    """The cost of the derived tables that compaction makes, next to ingest and compaction themselves; and their size."""
    lake = folder / "prepared"
    shutil.rmtree(lake, ignore_errors=True)
    preparing = [sys.executable, "-m", "tests.benchmarks.preparing", str(lake)]
    stored_s, tables_s, stages_s = json.loads(subprocess.run(preparing, check=True, capture_output=True, text=True).stdout)
    for name, taken_s in (("cost", tables_s), ("stages", stages_s)):
        detail = f"{taken_s:.1f} s after {stored_s:.1f} s of ingest and compaction"
        yield {"name": f"replay, prepare, {name}", "value": 100 * taken_s / stored_s, "unit": "%", "detail": detail}
    derived, events = (_bytes(lake / each) for each in ("derived", "events"))
    detail = f"{derived / 1e6:.1f} MB of {events / 1e6:.1f} MB of compacted events"
    yield {"name": "replay, prepare, disk", "value": 100 * derived / events, "unit": "%", "detail": detail}
    shutil.rmtree(lake)


def _bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def command(folder: Path) -> Iterator[dict[str, Any]]:
    """`hindcast replay` of one policy over the prepared million events, all included."""
    lake = lake_of(folder, "grown", "compacted")
    bring_to(lake, "prepared", 1, _no_replay)
    policies = str(CHURN / "perf-policies-1.yaml")
    cost = processor_s([str(Path(sys.executable).with_name("hindcast")), "--lake", str(lake), "replay", "-f", policies])
    yield {"name": "replay, command, prepared, 1 policy", "value": cost, "unit": "s", "detail": "processor time, all included"}


def edited(folder: Path) -> Iterator[dict[str, Any]]:
    """One edited policy again, in a process that has replayed it before."""
    lake = lake_of(folder, "grown", "compacted")
    bring_to(lake, "prepared", 1, _no_replay)
    again = [*HERE, "--edited", str(lake)]
    found = json.loads(subprocess.run(again, check=True, capture_output=True, text=True).stdout)
    yield {"name": "replay, edited, 1 policy", "value": found, "unit": "s", "detail": "plan and run, in a process that is up"}


def starts(folder: Path) -> Iterator[dict[str, Any]]:
    """The start of commands, over a lake of one small log: the median of a few runs."""
    lake = folder / "small"
    if not lake.exists():
        opened = Lake.create(lake)
        ingest_files(opened, [_DEMO], "demo", received_ts=0.0)
        opened.close()
    hindcast = str(Path(sys.executable).with_name("hindcast"))
    for name, command in (("hindcast --help", [hindcast, "--help"]), ("violations", [hindcast, "--lake", str(lake), "violations"])):
        processor_s(command)  # the first start compiles Python files
        spent, waited = zip(*(timed(command) for _ in range(_STARTS)), strict=True)
        spent_s, wall_s = (sorted(each)[_STARTS // 2] for each in (spent, waited))
        detail = f"median of {_STARTS}"
        yield {"name": f"replay, start, {name}", "value": spent_s, "unit": "s", "detail": f"processor time, {detail}"}
        yield {"name": f"replay, start, {name}, wall", "value": wall_s, "unit": "s", "detail": detail}


def edit_here(lake: Path) -> float:
    """Replay a policy, edit a constant in it, and replay it again; the processor seconds of the second replay."""
    text = (CHURN / "perf-policies-1.yaml").read_text()
    for registry in ("registry", "mirror", "images"):
        policies = parse_policy_set([("policies.yaml", text.replace("'registry.corp", f"'{registry}.corp"))])
        started = time.process_time()
        with closing(open_lake(lake)) as reader:
            plan = plan_replay(reader, policies)
        run_replay(plan, lake)
        spent = time.process_time() - started
    return spent


def _no_replay() -> None:
    """A prepared lake needs none."""


Measure = Callable[[Path], Iterator[dict[str, Any]]]
AROUND: dict[str, Measure] = {"prepare": preparation, "command": command, "edited": edited, "start": starts}
