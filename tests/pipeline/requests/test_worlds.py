"""The worlds that recorded requests met."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

from pipeline.history.world import LogHistory
from pipeline.request import Known, Unknown
from pipeline.requests.worlds import Worlds

MOMENT = datetime(2026, 1, 1, tzinfo=UTC)


def listed(name: str) -> dict[str, Any]:
    """The row of a Namespace in a snapshot."""
    obj = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "uid": name, "resourceVersion": "1"}}
    return {
        "cluster": "c",
        "observed_ts": MOMENT,
        "api_version": "v1",
        "kind": "Namespace",
        "namespace": None,
        "name": name,
        "uid": name,
        "resource_version": "1",
        "object": json.dumps(obj),
    }


def test_a_request_in_a_namespace_that_nobody_recorded_proves_that_it_was_there() -> None:
    history = LogHistory.from_rows([], [listed("shop")])
    later = MOMENT + timedelta(seconds=1)
    world = history.at("c", later)
    assert world.namespace("gone") == Known(None, "not in the snapshot", world.namespace("gone").grade)  # type: ignore[union-attr]
    met = Worlds(history).at("c", later)
    assert isinstance(met.namespace("shop"), Known)
    assert met.namespace("gone") == Unknown("namespace gone is not in the record as of then (not in the snapshot)")
