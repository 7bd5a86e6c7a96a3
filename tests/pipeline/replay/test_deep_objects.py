"""Objects that nest deeper than a replay can read, as a sink with more room may have stored them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from pipeline import plan_replay, plan_replay_from_log, run_replay
from pipeline.admission.policies import PolicySet
from pipeline.runs import RunStore
from queries import open_lake

Cluster = Any


@contextmanager
def recursion_limit(limit: int) -> Iterator[None]:
    """More room than a replay has."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(limit)
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


def nested(depth: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for _ in range(depth):
        found = {"a": found}
    return found


@pytest.fixture
def deep_lake(cluster: Cluster, ingest: Callable[[Cluster], Path]) -> Path:
    """A lake in which one Deployment is created and updated with a deep part, and then updated as any other."""
    for verb in ("create", "update", "update"):
        cluster.deployment(verb, "deep", replicas=3, labels={"owner": "dana"})
    for event in cluster.events[-3:-1]:
        event["requestObject"]["spec"]["deep"] = event["responseObject"]["spec"]["deep"] = nested(3_000)
    with recursion_limit(20_000):
        return ingest(cluster)


def test_a_request_that_nests_too_deep_is_told_and_the_others_are_replayed(deep_lake: Path, policies: PolicySet) -> None:
    reader = open_lake(deep_lake, threads=1)
    plan = plan_replay(reader, policies)
    bound = plan_replay_from_log(reader)
    reader.close()
    summary = run_replay(plan, deep_lake)
    assert summary.not_evaluated == (("an object nests deeper than can be read", 2),)
    assert summary.evaluated == summary.planned - 2
    rows = pq.read_table(RunStore(deep_lake).run(plan.run_id).verdicts).to_pylist()
    after = [row for row in rows if row["audit_id"] == "id-0027" and row["policy"] == "no-shrink"]
    assert [row["decision"] for row in after] == ["unknown", "unknown"], "the version before it cannot be read either"
    assert run_replay(bound, deep_lake).planned == 0
