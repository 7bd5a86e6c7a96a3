"""A second set: scenarios captured on another cluster (k3s 1.36.1), audit events next to the AdmissionReviews of the same requests.

Names, versions and times are placeholders there; they are the same on both sides, so equal inputs are equal. Each folder is one
scenario with its own history.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from ingest.decode import decode_events
from pipeline.history.event import Event
from pipeline.history.reconstruct import NotReplayed, admission_requests
from pipeline.history.versions import LogVersions
from pipeline.history.writes import record
from pipeline.request import AdmissionRequest, Grade, Known, Unknown
from tests.yaml_text import load_yaml

pytestmark = pytest.mark.conformance

START = datetime(2026, 1, 1, tzinfo=UTC)
LISTED = load_yaml(Path(__file__).with_name("mutationlab_disagreements.yaml").read_text(encoding="utf-8"))
# Within a scenario: what is deleted with a finalizer is patched afterwards.
_ORDER = ("create", "update", "delete", "deletecollection", "patch")
_BODIES = {"object": "object", "old_object": "oldObject", "options": "options"}


def _load(file: Path) -> Any:
    return load_yaml(re.sub(r"<rv-(\d+)>", r"'\1'", file.read_text(encoding="utf-8")))


def _rows(folder: Path) -> list[dict[str, Any]]:
    events = sorted((_load(file) for file in folder.glob("audit.*.yaml")), key=lambda event: _ORDER.index(event["verb"]))
    for index, event in enumerate(events):
        for name, offset in (("requestReceivedTimestamp", 0), ("stageTimestamp", 10)):
            event[name] = (START + timedelta(seconds=index, milliseconds=offset)).isoformat().replace("+00:00", "Z")
    lines = [json.dumps({"kind": "Event", "apiVersion": "audit.k8s.io/v1", **event}).encode() for event in events]
    decoded = decode_events(lines, "k3s", START, "corpus")
    assert not decoded.rejected
    rows: list[dict[str, Any]] = decoded.table.to_pylist()
    return rows


def _plain(value: Any, source: str) -> Any:
    """Without managedFields, which the audit policy of that cluster omits, and without a version that is said to be unknown."""
    if not isinstance(value, dict) or "metadata" not in value:
        return value
    left_out = {"managedFields", "resourceVersion"} if source.endswith("resourceVersion not known") else {"managedFields"}
    return {**value, "metadata": {key: entry for key, entry in value["metadata"].items() if key not in left_out}}


def _reviews(folder: Path, operation: str) -> dict[str, dict[str, Any]]:
    found = [_load(file)["request"] for file in sorted(folder.glob("admission.*.yaml"))]
    return {_name(review): review for review in found if review["operation"] == operation}


def _name(review: dict[str, Any]) -> str:
    """A webhook that mutates does not see a generated name, and no review of a deletecollection has one."""
    named = review.get("oldObject") or review.get("object") or {}
    return str(review.get("name") or named.get("metadata", {}).get("name", ""))


def _results(request: AdmissionRequest, review: dict[str, Any]) -> dict[str, str]:
    kind = request.kind.value.kind if isinstance(request.kind, Known) else request.kind
    results = {
        "kind": "equal" if kind == review["kind"]["kind"] else "differ",
        "namespace": "equal" if request.namespace == review.get("namespace", "") else "differ",
        "user": "equal" if request.user.username == review["userInfo"]["username"] else "differ",
        "dry_run": "equal" if request.dry_run == review.get("dryRun", False) else "differ",
    }
    for field, key in _BODIES.items():
        evidence = getattr(request, field)
        if isinstance(evidence, Unknown):
            results[field] = "unknown"
            continue
        equal = _plain(evidence.value, evidence.source) == _plain(review.get(key), evidence.source)
        results[field] = "equal" if equal else "partial" if evidence.grade is Grade.PARTIAL else "differ"
    return results


def test_scenarios_of_another_cluster(shared: Path) -> None:
    corpus = shared / "corpora" / "gitops-reverser-mutationlab" / "test" / "mutationlab" / "corpus"
    counts: Counter[tuple[str, str, str]] = Counter()
    differing: set[str] = set()
    for folder in sorted({file.parent for file in corpus.glob("*/*/audit.*.yaml")}):
        rows, versions = _rows(folder), LogVersions()
        for row in rows:
            record(Event.from_row(row), versions)
        for row in rows:
            found = admission_requests(row, versions)
            for request in [] if isinstance(found, NotReplayed) else found:
                name = request.name.value if isinstance(request.name, Known) else ""
                if not name and isinstance(request.old_object, Known) and request.old_object.value:
                    name = request.old_object.value["metadata"]["name"]
                reviews = _reviews(folder, request.operation.value)
                review = reviews.get(name) or (next(iter(reviews.values())) if len(reviews) == 1 else None)
                for field, result in _results(request, review).items() if review else ():
                    counts[request.operation.value, field, result] += 1
                    if result == "differ":
                        differing.add(f"{folder.parent.name}/{folder.name} {request.operation} {field}")
    for (operation, field, result), count in sorted(counts.items()):
        print(f"{operation:8}{field:12}{result:10}{count:4}")
    assert sum(counts.values()) > 50
    assert differing == set(LISTED), "unlisted differences, or listed ones that are gone"
