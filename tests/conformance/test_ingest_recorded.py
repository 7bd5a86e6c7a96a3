"""Recorded and published audit logs come in whole: nothing lost, nothing twice, bodies byte for byte."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import duckdb
import pytest
import zstandard

from ingest.lake import Lake
from ingest.sources.files import IngestSummary, ingest_files
from ingest.store import Counts

pytestmark = pytest.mark.conformance


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake.create(tmp_path / "lake")


def ingest(lake: Lake, *paths: Path) -> IngestSummary:
    return ingest_files(lake, paths, "lab", 0.0)


def query(lake: Lake, sql: str) -> list[tuple[Any, ...]]:
    with duckdb.connect() as connection:
        connection.execute("SET timezone = 'UTC'")
        files = [str(path) for path in lake.files()]
        return connection.sql(sql.format(events=f"read_parquet({files!r}, hive_partitioning = false)")).fetchall()


def test_a_control_planes_log(lake: Lake, shared: Path) -> None:
    log = shared / "data/control-plane-a/audit.jsonl.zst"
    assert ingest(lake, log).counts == Counts(read=16_375, stored=16_375)
    assert query(lake, "SELECT stage, count(*) FROM {events} GROUP BY 1 ORDER BY 1") == [
        ("ResponseComplete", 16_302),
        ("ResponseStarted", 73),
    ]
    assert query(lake, "SELECT count(*), sum(len(vap_failures)) FROM {events} WHERE len(vap_failures) > 0") == [(919, 919)]
    assert query(lake, "SELECT DISTINCT unnest(flags) FROM {events}") == []
    assert ingest(lake, log).counts == Counts()


def test_every_field_of_the_log_is_in_a_column(lake: Lake, shared: Path) -> None:
    log = shared / "data/control-plane-a/audit.jsonl.zst"
    ingest(lake, log)
    columns = "audit_id, stage, request_object, response_object, annotations, user_groups, extra"
    stored = {(row[0], row[1]): row[2:] for row in query(lake, f"SELECT {columns} FROM {{events}}")}
    with log.open("rb") as handle:
        content = zstandard.ZstdDecompressor().stream_reader(handle).read()
    for line in content.splitlines():
        event = json.loads(line)
        request, response, annotations, groups, extra = stored[event["auditID"], event["stage"]]
        for name, body in (("requestObject", request), ("responseObject", response)):
            assert (body is not None) == (event.get(name) is not None)
            assert body is None or f'"{name}":{body}'.encode() in line
        assert annotations == event.get("annotations", {})
        assert groups == event["user"].get("groups", [])
        details = event.get("responseStatus", {}).get("details")
        assert (json.loads(extra) if extra else {}) == ({"responseStatus": {"details": details}} if details is not None else {})


def test_webhook_bodies_repeat_the_log(lake: Lake, shared: Path) -> None:
    ingest(lake, shared / "data/control-plane-a/audit.jsonl.zst")
    posts = sorted((shared / "data/control-plane-a/posts").glob("0*.json.zst"))
    counts = ingest(lake, *posts).counts
    assert counts.read > 2_000
    assert counts == Counts(read=counts.read, duplicate=counts.read)


def test_a_log_of_volume(lake: Lake, shared: Path) -> None:
    assert ingest(lake, shared / "data/churn/audit.jsonl.zst").counts == Counts(read=168_659, stored=168_659)
    assert query(lake, "SELECT count(*) FROM {events} WHERE len(vap_failures) > 0") == [(7_313,)]


def test_events_of_2018(lake: Lake, shared: Path) -> None:
    folder = shared / "corpora/falco-k8s-audit/test/trace_files/k8s_audit"
    summary = ingest(lake, folder)
    # One file of that folder is made to be no event.
    assert [Path(file.path).name for file in summary.files if file.note] == ["fal_01_003.json"]
    # Two events stand there twice, the second time with another body.
    assert summary.counts == Counts(read=51, stored=49, duplicate=2, conflicting=2)
    assert query(lake, "SELECT count(*) FROM {events} WHERE request_object IS NOT NULL") == [(42,)]


def test_events_without_microseconds(lake: Lake, shared: Path) -> None:
    assert ingest(lake, shared / "corpora/audit2rbac/testdata/demo.log").counts.quarantined == 0
    assert query(lake, "SELECT count(*), count(impersonated_user), count(ts) FROM {events}") == [(37, 37, 37)]
