"""Proofs about lists and watches: distinct checks per second, and a chain of five authorizers over a recorded control plane."""

from __future__ import annotations

import random
import resource
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from ingest.lake import Lake
from ingest.sources.files import ingest_files
from pipeline.manifests.files import manifests_of
from pipeline.matching.selectors import Requirement
from pipeline.request import UserInfo
from pipeline.runs import RunKind
from pipeline.stages.assign import assign
from pipeline.stages.conditions.expressions import request_value
from pipeline.stages.conditions.figures import by_finding, reads
from pipeline.stages.conditions.logic.proof import Prover
from pipeline.stages.conditions.selection import Selection
from pipeline.stages.registry import CONDITIONS
from pipeline.stages.stage import Asked
from queries import open_lake
from tests import brute_force
from tests.benchmarks.replay_lakes import CHURN
from tests.yaml_text import load_yaml

LOG = CHURN.parent / "control-plane-a" / "audit.jsonl.zst"
CHAIN = Path(__file__).parents[1] / "cases" / "conditions" / "five.yaml"
# Random chains, and random selections of each; every pair is asked once.
CHAINS, SELECTIONS = 50, 200


def run() -> list[dict[str, Any]]:
    """Checks per processor second, and the seconds of plan and run."""
    rows = [checks()]
    if LOG.exists():
        with tempfile.TemporaryDirectory(prefix="hindcast-bench-") as folder:
            rows += measured(Path(folder) / "lake")
    return rows


def checks() -> dict[str, Any]:
    """Distinct (chain, selection) pairs, each proved or refuted with an evaluated counterexample."""
    draw, pairs = random.Random(1), []
    for _ in range(CHAINS):
        compiled = brute_force.chain(draw)
        asked = compiled.asked(request_value(brute_force.INFO, UserInfo("u")), True, {})
        terms = ([brute_force.requirement(draw) for _ in range(draw.randint(1, 4))] for _ in range(SELECTIONS))
        selections = {Selection(tuple(each for each in some if isinstance(each, Requirement))) for some in terms}
        pairs.append((asked, asked.authorized(), sorted(selections, key=str)))
    prover, started = Prover(), time.process_time()
    for asked, bounds, selections in pairs:
        for selection in selections:
            prover.prove(asked, bounds, selection)
    used = time.process_time() - started
    detail = f"{prover.checks:,} distinct checks of {CHAINS} chains, with making their solvers, in {used:.1f} processor seconds"
    return {"name": "proofs of selections", "value": prover.checks / used, "unit": "checks per processor second", "detail": detail}


def measured(path: Path) -> Iterator[dict[str, Any]]:
    """The rows of the recorded control plane."""
    lake = Lake.create(path)
    ingest_files(lake, [LOG], "control-plane-a", received_ts=0.0)
    lake.close()
    ((_, rules),) = assign(manifests_of([("five.yaml", CHAIN.read_text())])).rules
    assert len(load_yaml(CHAIN.read_text())["spec"]["authorizers"]) == 5
    started, processor = time.perf_counter(), time.process_time()
    with closing(open_lake(path)) as reader:
        plan = CONDITIONS.plan(reader, rules, Asked())
    CONDITIONS.run(plan, path, 1, None, RunKind.REPLAY)
    seconds, used = time.perf_counter() - started, time.process_time() - processor
    with closing(open_lake(path)) as reader:
        found = by_finding(reads(reader, path / "runs" / plan.run_id / "verdicts.parquet"))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    answers = ", ".join(f"{count} {name}" for name, count in sorted(found.items()))
    detail = f"{plan.requests:,} requests, {used:.1f} processor seconds, {peak} MiB; lists and watches: {answers}"
    yield {"name": "replay of five authorizers", "value": seconds, "unit": "s", "detail": detail}
