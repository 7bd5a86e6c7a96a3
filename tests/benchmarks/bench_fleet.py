"""One policy on forty clusters of a hundred thousand events each, varied from the recorded churn.

HINDCAST_BENCH_FLEET_EVENTS asks for another number of events in a cluster. Events that belong to no workload are always there, so
a cluster has some 20,000 at least.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from ingest.lake import Lake
from tests.benchmarks.replay_lakes import CHURN, lake_of
from tests.fleet_of import make_fleet, members

CLUSTERS = 40
EVENTS = int(os.environ.get("HINDCAST_BENCH_FLEET_EVENTS", "100000"))
POLICY = Path(__file__).parents[2] / "api" / "demo" / "policies" / "image-registry.yaml"
# Memory is that of a process of its own, which did not make the lake. Linux hands ru_maxrss on to it, but not VmHWM.
_JUDGE = """
import json, re, sys, time
from pathlib import Path
from pipeline.fleet import Question, judge_fleet
from pipeline.manifests.files import texts_of
started = time.perf_counter()
question = Question(tuple(texts_of([Path(sys.argv[2])])), compares=False, remedies=False)
found = judge_fleet(Path(sys.argv[1]), question)
seconds = time.perf_counter() - started
peak = int(re.search("VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) // 1024
print(json.dumps([seconds, time.process_time(), peak, found.clusters_ready, len(found.apart)]))
"""


def run() -> list[dict[str, Any]]:
    """The seconds of all clusters, and the peak memory."""
    if not CHURN.exists():
        return []
    with tempfile.TemporaryDirectory(prefix="hindcast-bench-") as folder:
        return list(measured(Path(folder)))


def measured(folder: Path) -> Iterator[dict[str, Any]]:
    """The rows, first of all clusters new, then of the same question again."""
    source, lake = lake_of(folder, "churn", "as ingested"), folder / "fleet"
    with closing(Lake.open(source)) as opened:
        recorded = sum(file.rows for file in opened.manifest.files("events"))
    copies, share = max(1, round(EVENTS / recorded)), min(1.0, EVENTS / recorded)
    fleet = [replace(each, share=share) for each in members(CLUSTERS)]
    events = make_fleet(source, lake, fleet, copies, only_small=False, done=lambda name: None)
    for state in ("fresh", "again"):
        command = [sys.executable, "-c", _JUDGE, str(lake), str(POLICY)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        seconds, used, peak, ready, apart = json.loads(done.stdout)
        detail = f"{CLUSTERS} clusters, {events:,} events, ready in {ready}, {apart} apart, {used:.1f} processor seconds"
        yield {"name": f"fleet, {state}", "value": seconds, "unit": "s", "detail": detail}
        yield {"name": f"fleet, {state}, memory", "value": peak, "unit": "MiB", "detail": detail}
