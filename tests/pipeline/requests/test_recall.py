"""A single request's old object: from the last day where it was written then, else from whenever it was, as in a replay."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ingest.schema import EVENTS, OBJECTS
from pipeline.request import Known
from pipeline.requests.recall import recall
from queries.catalog import LakeFiles
from queries.lake import LakeReader
from tests.queries.test_cases import START, event

DAY = 86_400
NAME = "web-7d9c5-x2x4z"


def pod(version: int) -> str:
    metadata = {"name": NAME, "namespace": "n", "uid": "u", "resourceVersion": str(version)}
    return json.dumps({"kind": "Pod", "apiVersion": "v1", "metadata": metadata, "spec": {"version": version}})


def write(day: float, version: int, verb: str = "patch", **given: Any) -> dict[str, Any]:
    defaults = {"audit_id": f"day-{day}", "name": NAME, "code": 200, "request_object": "{}"}
    return event({**defaults, "verb": verb, "ts": int(day * DAY), "response_object": pod(version), **given})


def lake(folder: Path, rows: list[dict[str, Any]], snapshot_day: int | None) -> LakeReader:
    """One file of events for each row, as of a lake of many days."""
    paths, spans = [], []
    for number, row in enumerate(rows):
        paths.append(str(folder / f"{number}.parquet"))
        pq.write_table(pa.Table.from_pylist([row], EVENTS), paths[-1])
        spans.append((int(row["stage_ts"].timestamp() * 1e6),) * 2)
    objects = []
    if snapshot_day is not None:
        observed = {"cluster": "lab", "observed_ts": START + timedelta(days=snapshot_day), "source": "snapshot"}
        told = {"api_version": "v1", "kind": "Pod", "namespace": "n", "name": NAME, "uid": "u", "resource_version": "1"}
        pq.write_table(pa.Table.from_pylist([{**observed, **told, "object": pod(1)}], OBJECTS), folder / "objects.parquet")
        objects.append(str(folder / "objects.parquet"))
    return LakeReader(lambda: LakeFiles(events=tuple(paths), objects=tuple(objects), event_spans=tuple(spans)))


CREATED = {"verb": "create", "code": 201, "name": None, "request_object": '{"kind":"Pod"}'}


@pytest.mark.parametrize(
    ("rows", "snapshot_day", "met"),
    [
        pytest.param([write(0, 1), write(5, 2), write(5.5, 3)], None, 2, id="written within the day"),
        pytest.param([write(0, 1), write(5, 2), write(10, 3)], None, 2, id="written days before"),
        pytest.param([write(5, 2), write(10, 3)], 0, 2, id="a snapshot older than the last write stands for nothing"),
        pytest.param([write(0, 1, **CREATED), write(10, 3)], None, 1, id="created under a generated name"),
    ],
)
def test_the_old_object_is_the_last_version(rows: list[dict[str, Any]], snapshot_day: int | None, met: int, tmp_path: Path) -> None:
    reader = lake(tmp_path, rows, snapshot_day)
    ((_, found),) = recall(reader, "lab", rows[-1]["audit_id"])
    assert isinstance(found, list), found
    old = found[0].old_object
    assert isinstance(old, Known), old
    assert old.value is not None
    assert old.value["spec"] == {"version": met}
    reader.close()
