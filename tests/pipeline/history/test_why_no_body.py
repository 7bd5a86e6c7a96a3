"""Why an event lacks a body, in words: the true cause comes before the level."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from ingest.decode import decode_events
from ingest.notes import PREFIX
from pipeline.history.event import Event
from pipeline.history.writes import keeps_bodies, why_not_kept
from tests.recording import START, deployment, recorded


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"level": "Metadata"}, "the audit level was Metadata"),
        ({"level": "Debug"}, "the audit level is unknown"),
        # Of a token, redaction removes the body.
        ({"annotations": {f"{PREFIX}redacted": "requestObject,responseObject"}}, "redaction removed its bodies"),
        ({"annotations": {"audit.k8s.io/truncated": "true"}}, "the event was truncated"),
        # An entry of GKE has no level of its own: its bodies tell it (khi#193).
        ({"level": "Metadata", "annotations": {"audit.k8s.io/truncated": "true"}}, "the event was truncated"),
        ({"requestObject": {}}, "the log has {} for its body"),
        ({"requestObject": {"kind": "Deployment", "apiVersion": "apps/v1"}}, "its body in the log lacks metadata"),
        ({"requestObject": {"metadata": {}}}, "its body in the log lacks kind or apiVersion"),
        (
            {
                "requestObject": {"kind": "A", "apiVersion": "v1", "metadata": {"labels": {"a_b/c": ""}}},
                "annotations": {"authorization_k8s_io/decision": "allow"},
            },
            "a filter replaced the dots in keys",
        ),
    ],
)
def test_the_true_cause_is_named(change: dict[str, Any], reason: str) -> None:
    told = {name: value for name, value in recorded("id", START, "create", deployment("web", 1)).items() if "Object" not in name}
    (row,) = decode_events([msgspec.json.encode(told | change)], "c", START, "log").table.to_pylist()
    event = Event.from_row(row)
    assert event.request_raw is None
    assert reason in why_not_kept(event)
    assert keeps_bodies(event) is (reason == "redaction removed its bodies")
