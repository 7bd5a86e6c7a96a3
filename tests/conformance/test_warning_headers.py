"""The Warning headers that clients of a live control plane saw, and those that follow from what its policies decided."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from pipeline.policies.model import Action
from pipeline.policies.verdict import Decision, PolicyVerdict
from pipeline.stages.validating.told import warning_headers
from tests.recorded_files import rows_of

pytestmark = pytest.mark.conformance


def verdict(row: dict[str, Any]) -> PolicyVerdict:
    actions = tuple(map(Action, row["actions"]))
    denied = Decision.DENY
    return PolicyVerdict(
        row["policy"], row["binding"], None, None, row["expressionIndex"], denied, denied, row["message"], actions=actions
    )


def test_clients_saw_the_warnings_of_policies(shared: Path) -> None:
    folder = shared / "data" / "control-plane-a"
    decided: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in rows_of(folder / "truth.jsonl.zst"):
        if row.get("effect") == "deny" and row.get("expressionIndex") is not None:
            decided[row["auditID"]].append(row)
    warned = 0
    for request in rows_of(folder / "client_log.jsonl.zst"):
        seen = [header for header in request.get("warnings") or () if "ValidatingAdmissionPolicy '" in header]
        rows = sorted(decided.get(request.get("auditID", ""), ()), key=lambda row: row["seq"])
        # Between policies no order is defined.
        assert sorted(warning_headers(map(verdict, rows))) == sorted(seen), request["auditID"]
        warned += bool(seen)
    assert warned > 100
    print(f"\nWarning headers of policies: those of {warned} requests as the client saw them")
