"""Dormant fields of a recorded story: bytes that storage held before pruning, and what a server with a new schema made of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from api.cli import run
from ingest.lake import Lake
from ingest.sources.files import ingest_files
from pipeline.manifests.files import manifests_of, texts_of
from pipeline.runs.window import Window
from pipeline.stages.schema.checking import definition_documents
from pipeline.stages.schema.evidence.definitions import KnownDefinition, given_definitions
from pipeline.stages.schema.evidence.dormant import dormant_fields
from pipeline.stages.schema.evidence.paths import text_of
from queries import open_lake
from tests.conformance.test_schema_objects import rows

pytestmark = pytest.mark.conformance
DORMANT = {
    ("shop", "nightlyjob-13", "spec.privileged", True),
    ("shop", "nightlyjob-32", "spec.privileged", True),
    ("payments", "database-36", "spec.tier", "large"),
    ("shop", "database-47", "spec.tier", "large"),
}


def definitions(story: Path, name: str) -> list[KnownDefinition]:
    return given_definitions(definition_documents(manifests_of(texts_of([story / "crds" / f"{name}.json"]))))


def stored(story: Path) -> dict[str, Any]:
    """What storage held at the start, as a list of objects."""
    items = []
    for row in rows(story / "etcd_start.jsonl.zst"):
        row["value"]["metadata"]["resourceVersion"] = row["modRevision"]
        items.append(row["value"])
    return {"apiVersion": "v1", "kind": "List", "items": items}


def test_fields_from_before_pruning_come_alive_under_the_new_schema(shared: Path, tmp_path: Path) -> None:
    story = shared / "data" / "crd-a" / "schema-change"
    (tmp_path / "etcd.json").write_text(json.dumps(stored(story)))
    assert run(["-q", "--lake", str(tmp_path / "lake"), "ingest", "--snapshot", str(tmp_path / "etcd.json")]) == 0
    lake = Lake.open(tmp_path / "lake")
    ingest_files(lake, [story / "audit.jsonl.zst"], "default", received_ts=0.0)
    lake.close()
    reader = open_lake(tmp_path / "lake")
    ((first,),) = reader.connection.execute("SELECT min(ts) FROM events").fetchall()
    pairs = list(zip(definitions(story, "old"), definitions(story, "new"), strict=True))
    found = [each for old, new in pairs for each in dormant_fields(reader, old, new, Window(None, first)).fields]
    assert {(each.stored.key.namespace, each.stored.key.name, text_of(each.path), each.value) for each in found} == DORMANT
    # Under the old schema every one of these objects was written or deleted later, and each write pruned it.
    assert not any(dormant_fields(reader, old, new, Window()).fields for old, new in pairs)
    reader.close()
    # The server with the new schema shows them once a patch leaves them as they were; an update carries what its client read.
    first_writes: dict[tuple[str, str], dict[str, Any]] = {}
    for row in rows(story / "truth.jsonl.zst"):
        first_writes.setdefault((row["namespace"], row["name"]), row)
    patched = {
        key: row["new"]["object"] for key, row in first_writes.items() if row["method"] == "PATCH" and "object" in row["new"]
    }
    values = {(namespace, name): (path.removeprefix("spec."), value) for namespace, name, path, value in DORMANT}
    compared = {key: patched[key]["spec"][values[key][0]] for key in values if key in patched}
    assert compared == {key: values[key][1] for key in compared}
    assert ("shop", "nightlyjob-13") in compared
