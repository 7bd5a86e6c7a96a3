"""Rows of the lake's `events` table, built from what a test cares about."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from ingest.schema import EVENTS
from pipeline.history.event import Row

START = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
Build = Callable[..., Row]


@pytest.fixture(scope="session")
def cases_folder() -> Path:
    return Path(__file__).parents[2] / "cases" / "history"


@pytest.fixture
def build() -> Build:
    """A builder of rows: a create of pod shop/web that succeeded, one second after the row before, unless told otherwise.

    `at` is the second of its receipt, `took` how many seconds the answer needed; bodies are given as values.
    """
    numbers = count(1)

    def row(*, at: float | None = None, took: float = 0.01, request: Any = None, response: Any = None, **columns: Any) -> Row:
        number = next(numbers)
        received = START + timedelta(seconds=number if at is None else at)
        fixed = {
            "cluster": "c",
            "audit_id": f"id-{number}",
            "stage": "ResponseComplete",
            "level": "RequestResponse",
            "ts": received,
            "stage_ts": received + timedelta(seconds=took),
            "verb": "create",
            "request_uri": "/api/v1/namespaces/shop/pods",
            "user_name": "alice",
            "user_groups": ["staff"],
            "api_version": "v1",
            "resource": "pods",
            "namespace": "shop",
            "name": "web",
            "code": 201 if columns.get("verb", "create") == "create" else 200,
            "annotations": {},
            "notes": {},
            "flags": [],
            "request_object": None if request is None else json.dumps(request),
            "response_object": None if response is None else json.dumps(response),
        }
        return {**dict.fromkeys(EVENTS.names), **fixed, **columns}

    return row
