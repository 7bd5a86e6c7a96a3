"""Objects that nest deeper than a replay can read. Ingest refuses them; a lake of an earlier version may hold them."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
import xxhash

from pipeline import plan_replay, plan_replay_from_log, run_replay
from pipeline.policies.model import PolicySet
from pipeline.runs import RunStore
from queries import open_lake

Cluster = Any


DEEP = '{"a": ' * 20_000 + "{}" + "}" * 20_000


def deepen(lake: Path) -> None:
    """Put a value that no interpreter reads where the lake's files hold the text DEEP."""
    connection = sqlite3.connect(lake / "manifest.sqlite")
    with closing(connection), connection:
        for (name,) in connection.execute("SELECT path FROM files WHERE kind = 'events'").fetchall():
            table = pq.read_table(lake / name, partitioning=None)
            for column in ("request_object", "response_object"):
                bodies = pc.replace_substring(table[column], '"DEEP"', DEEP)
                table = table.set_column(table.schema.get_field_index(column), table.field(column), bodies)
            pq.write_table(table, lake / name)
            content = (lake / name).read_bytes()
            connection.execute(
                "UPDATE files SET bytes = ?, digest = ? WHERE path = ?", (len(content), xxhash.xxh3_128_hexdigest(content), name)
            )


@pytest.fixture
def deep_lake(cluster: Cluster, ingest: Callable[[Cluster], Path]) -> Path:
    """A lake in which one Deployment is created and updated with a deep part, and then updated as any other."""
    for verb in ("create", "update", "update"):
        cluster.deployment(verb, "deep", replicas=3, labels={"owner": "dana"})
    for event in cluster.events[-3:-1]:
        event["requestObject"]["spec"]["deep"] = event["responseObject"]["spec"]["deep"] = "DEEP"
    lake = ingest(cluster)
    deepen(lake)
    return lake


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
