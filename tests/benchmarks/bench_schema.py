"""Custom resource schemas: objects under a schema of 200 nodes without rules, and the replay of new definitions over a story."""

from __future__ import annotations

import tempfile
import time
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ingest.lake import Lake
from ingest.sources.files import ingest_files
from ingest.sources.snapshot import ingest_snapshot
from pipeline.manifests.files import manifests_of
from pipeline.runs import RunKind
from pipeline.stages.assign import assign
from pipeline.stages.registry import SCHEMA
from pipeline.stages.schema.definition import Definition, Version
from pipeline.stages.schema.props import props_of
from pipeline.stages.schema.writing import ObjectKind, Operation, decode, object_kind, write
from pipeline.stages.stage import Asked
from queries import open_lake

STORY = Path(__file__).parents[2].parent / "shared" / "data" / "crd-a" / "schema-change"
GROUPS, FIELDS, OBJECTS = 10, 19, 5000
TYPES = ("string", "integer", "boolean")
SAMPLES = ("x", 1, True)


def kind() -> ObjectKind:
    """A kind with ten groups of nineteen fields."""
    group = {"type": "object", "properties": {f"f{number}": {"type": TYPES[number % 3]} for number in range(FIELDS)}}
    spec = {"type": "object", "properties": {f"g{number}": group for number in range(GROUPS)}}
    version = Version("v1", served=True, storage=True, schema=props_of({"type": "object", "properties": {"spec": spec}}))
    names = ("jobs.lab.example.com", "lab.example.com", "jobs", "job", "Job", "JobList", "Namespaced")
    return object_kind(Definition(*names, (version,)), version)


def run() -> list[dict[str, Any]]:
    """The rate of creates per second of processor time, and that of recorded requests under other definitions."""
    return [*objects(), *replays()]


def replays() -> list[dict[str, Any]]:
    """The rate at which recorded writes of six kinds are judged under new definitions, with plan and verdict table."""
    if not STORY.exists():
        return []
    with tempfile.TemporaryDirectory(prefix="hindcast-bench-") as folder:
        lake = Lake.create(Path(folder) / "lake")
        ingest_files(lake, [STORY / "audit.jsonl.zst"], "lab", received_ts=0.0)
        for number, source in enumerate((STORY / "crds" / "old.json", STORY / "snapshots" / "start")):
            ingest_snapshot(lake, [source], "lab", datetime(2026, 11, 22, 1, 47, 43 + number, tzinfo=UTC))
        lake.close()
        name = STORY / "crds" / "new.json"
        ((_, rules),) = assign(manifests_of([(str(name), name.read_text())])).rules
        started = time.process_time()
        with closing(open_lake(lake.path)) as reader:
            plan = SCHEMA.plan(reader, rules, Asked())
        SCHEMA.run(plan, lake.path, 1, None, RunKind.REPLAY)
        used = time.process_time() - started
    detail = f"{plan.requests:,} requests on six kinds, each judged under the old and the new definition"
    return [
        {"name": "replay of definitions", "value": plan.requests / used, "unit": "requests per processor second", "detail": detail}
    ]


def objects() -> list[dict[str, Any]]:
    """The rate of creates per second of processor time, for an object of sixteen fields."""
    made = kind()
    spec = {f"g{each}": {f"f{number}": SAMPLES[number % 3] for number in range(0, FIELDS, 5)} for each in range(0, GROUPS, 3)}
    metadata = {"name": "a", "namespace": "default", "labels": {"a": "b"}}
    value = {"apiVersion": "lab.example.com/v1", "kind": "Job", "metadata": metadata, "spec": spec}
    started = time.process_time()
    for _ in range(OBJECTS):
        if write(made, Operation.CREATE, decode(made, value).value).errors:
            raise AssertionError("the object is valid")
    rate = OBJECTS / (time.process_time() - started)
    return [
        {
            "name": "objects decoded and validated",
            "value": rate,
            "unit": "1/s",
            "detail": "schema of 200 nodes, object of 16 fields",
        }
    ]
