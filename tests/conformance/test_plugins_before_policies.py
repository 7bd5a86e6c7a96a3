"""What built-in admission plugins make of recorded creates: the recorded answers show it."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.history.creation import prepare_by_plugins
from pipeline.request import GroupVersionResource
from tests.recorded_files import rows_of

pytestmark = pytest.mark.conformance
RECORDINGS = ("control-plane-a", "kubernetes-1.33", "upgrade-a")
# The parts that plugins change without a look at the cluster, by resource.
PARTS = {
    "persistentvolumeclaims": ("metadata", "finalizers"),
    "persistentvolumes": ("metadata", "finalizers"),
    "nodes": ("spec", "taints"),
}


def test_new_claims_volumes_and_nodes_get_finalizers_and_taints(shared: Path) -> None:
    compared = 0
    for name in RECORDINGS:
        for event in rows_of(shared / "data" / name / "audit.jsonl.zst"):
            reference = event.get("objectRef", {})
            wanted = PARTS.get(reference.get("resource", ""))
            answer = event.get("responseObject", {})
            is_create = (event["verb"], event.get("responseStatus", {}).get("code")) == ("create", 201) and "metadata" in answer
            is_dry = "dryRun" in event["requestURI"]
            if wanted is None or not is_create or is_dry or "subresource" in reference or "requestObject" not in event:
                continue
            body = event["requestObject"]
            prepare_by_plugins(body, GroupVersionResource("", "v1", reference["resource"]))
            part, field = wanted
            # The node controller or kubelet has no part in a create; a taint has a time only where a controller wrote it.
            assert body[part][field] == answer[part][field], (name, event["auditID"])
            compared += 1
    assert compared > 50
