"""Builders that the tests of this room share."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ingest.lake import Lake


def _event(number: int, **fields: Any) -> bytes:
    """One raw event; events of one number are the same event. 3,600 numbers are an hour."""
    hours, seconds = divmod(number, 3600)
    head = {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "level": "Request",
        "auditID": f"id-{number}",
        "stage": "ResponseComplete",
        "stageTimestamp": f"2026-11-{1 + hours // 24:02}T{hours % 24:02}:{seconds // 60:02}:{seconds % 60:02}.000000Z",
        "objectRef": {"resource": "pods", "namespace": "n", "name": f"pod-{number % 7}"},
        "requestObject": {"number": number},
    }
    return json.dumps(head | fields, separators=(",", ":")).encode()


def _rows(lake: Lake) -> list[dict[str, Any]]:
    """All events of a lake, by their IDs."""
    table = pa.concat_tables([pq.read_table(path, partitioning=None) for path in lake.files()])
    return sorted(table.to_pylist(), key=lambda row: (row["audit_id"], row["cluster"]))


@pytest.fixture(scope="session")
def event() -> Callable[..., bytes]:
    return _event


@pytest.fixture(scope="session")
def rows() -> Callable[[Lake], list[dict[str, Any]]]:
    return _rows


@pytest.fixture(scope="session")
def ids() -> Callable[[Lake], list[str]]:
    """The audit IDs in a lake, as often as they are stored."""
    return lambda lake: [row["audit_id"] for row in _rows(lake)]


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake.create(tmp_path / "lake")
