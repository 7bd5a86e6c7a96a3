"""The kinds that pipeline/openapi/written.py describes, against every object of them that a recorded API server wrote."""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import zstandard

from pipeline.request import GroupVersionKind, GroupVersionResource
from pipeline.stages.mutating.decoding import decode_strictly, defaulted
from pipeline.stages.mutating.shapes import built_in_shape

GROUPS = ("batch", "autoscaling", "networking.k8s.io", "rbac.authorization.k8s.io", "policy", "discovery.k8s.io")
RECORDINGS = ("churn", "chain-a", "mutating-policies-a", "control-plane-a", "kubernetes-1.33", "upgrade-a")


def objects_of(log: Path) -> Iterator[tuple[GroupVersionResource, dict[str, Any]]]:
    with log.open("rb") as packed, zstandard.ZstdDecompressor().stream_reader(packed) as unpacked:
        for line in io.BufferedReader(unpacked):
            event = json.loads(line)
            target, body = event.get("objectRef") or {}, event.get("responseObject")
            if not body or target.get("apiGroup") not in GROUPS or event["verb"] not in ("create", "update", "patch"):
                continue
            # An answer may be a Status, or the metadata alone.
            if body["apiVersion"] == f"{target['apiGroup']}/{target['apiVersion']}":
                yield GroupVersionResource(target["apiGroup"], target["apiVersion"], target["resource"]), body


def without_null_times(value: Any) -> Any:
    """Servers before 1.34 write a null time of creation in templates."""
    if isinstance(value, dict):
        return {name: without_null_times(each) for name, each in value.items() if (name, each) != ("creationTimestamp", None)}
    return [without_null_times(each) for each in value] if isinstance(value, list) else value


@pytest.mark.parametrize("name", RECORDINGS)
def test_recorded_objects_decode_and_are_written_as_the_server_wrote_them(shared: Path, name: str) -> None:
    checked: Counter[str] = Counter()
    for resource, body in objects_of(shared / "data" / name / "audit.jsonl.zst"):
        kind = GroupVersionKind(resource.group, resource.version, body["kind"])
        shape = built_in_shape(kind)
        if shape is None:
            assert resource.version != "v1", f"no shape of {kind}"
            continue
        assert decode_strictly(deepcopy(body), kind, shape) == without_null_times(body)
        assert defaulted(deepcopy(body), resource, None) == body
        checked[body["kind"]] += 1
    assert checked
