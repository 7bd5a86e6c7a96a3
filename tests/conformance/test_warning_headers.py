"""The Warning headers that clients of a live control plane saw, and those that follow from what its policies decided."""

from __future__ import annotations

import io
import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import zstandard

from pipeline.admission.policies import Action, Decision, PolicyVerdict
from pipeline.admission.policies.messages import warning_headers

pytestmark = pytest.mark.conformance


def lines(path: Path) -> Iterator[dict[str, Any]]:
    with zstandard.open(path, "rb") as compressed:
        yield from map(json.loads, io.TextIOWrapper(compressed, encoding="utf-8"))


def verdict(row: dict[str, Any]) -> PolicyVerdict:
    actions = tuple(map(Action, row["actions"]))
    denied = Decision.DENY
    return PolicyVerdict(
        row["policy"], row["binding"], None, None, row["expressionIndex"], denied, denied, row["message"], actions=actions
    )


def test_clients_saw_the_warnings_of_policies(shared: Path) -> None:
    folder = shared / "data" / "control-plane-a"
    decided: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in lines(folder / "truth.jsonl.zst"):
        if row.get("effect") == "deny" and row.get("expressionIndex") is not None:
            decided[row["auditID"]].append(row)
    warned = 0
    for request in lines(folder / "client_log.jsonl.zst"):
        seen = [header for header in request.get("warnings") or () if "ValidatingAdmissionPolicy '" in header]
        rows = sorted(decided.get(request.get("auditID", ""), ()), key=lambda row: row["seq"])
        # Between policies no order is defined.
        assert sorted(warning_headers(map(verdict, rows))) == sorted(seen), request["auditID"]
        warned += bool(seen)
    assert warned > 100
    print(f"\nWarning headers of policies: those of {warned} requests as the client saw them")
