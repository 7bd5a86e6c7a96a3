"""Every refusal that servers recorded, as if its object were a credential: redaction never changes who refused."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import msgspec
import pytest

from ingest.decode import decode_events
from ingest.redaction.redact import Redactor
from pipeline.history.event import Event
from pipeline.history.outcome import reach_of_event
from pipeline.stages.authorization.questions import is_unreadable, refusal_of
from tests.recorded_files import rows_of
from tests.recording import START

LOGS = ("control-plane-a", "kubernetes-1.33", "mutating-policies-a", "pod-security-a", "rbac-a", "upgrade-a", "webhooks-a")


def read(line: bytes) -> Event:
    (row,) = decode_events([line], "c", START, "webhook").table.to_pylist()
    return Event.from_row({**row, "annotations": dict(row["annotations"])})


@pytest.mark.parametrize("log", LOGS)
def test_who_refused_is_the_same_with_and_without_redaction(log: str, shared: Path) -> None:
    redactors: dict[str, Redactor] = {}
    seen: Counter[str] = Counter()
    for event in rows_of(shared / "data" / log / "audit.jsonl.zst"):
        status, resource = event.get("responseStatus") or {}, (event.get("objectRef") or {}).get("resource")
        if (status.get("code") or 0) < 400 or not status.get("message") or not resource:
            continue
        line = msgspec.json.encode(event)
        redacted = redactors.setdefault(resource, Redactor([resource])).apply(line)
        whole, found = read(line), read(redacted)
        assert reach_of_event(found) == reach_of_event(whole), whole.message
        assert (refusal_of(found), is_unreadable(found)) == (refusal_of(whole), is_unreadable(whole)), whole.message
        seen["changed" if found.message != whole.message else "same"] += 1
    assert seen.total() > 20
