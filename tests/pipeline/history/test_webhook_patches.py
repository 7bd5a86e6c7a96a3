"""The object that policies saw where webhooks changed it: tests/cases/history/webhook_patches.yaml."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pipeline.cel import Unknown as CelUnknown
from pipeline.history.event import Event
from pipeline.history.reconstruct import attempted_requests
from pipeline.history.versions import LogVersions
from pipeline.history.world import LogHistory
from pipeline.history.writes import record
from pipeline.request import Known
from tests.made_up import completed
from tests.yaml_text import load_yaml

CASES = load_yaml((Path(__file__).parents[2] / "cases" / "history" / "webhook_patches.yaml").read_text(encoding="utf-8"))
KINDS = {"configmaps": "ConfigMap", "pods": "Pod", "deployments": "Deployment", "services": "Service", "namespaces": "Namespace"}
BOUND = {
    "verb": "create",
    "api_group": "admissionregistration.k8s.io",
    "resource": "mutatingadmissionpolicybindings",
    "namespace": None,
    "name": "b",
}


def body(write: dict[str, Any], value: Any) -> Any:
    """A body of the resource of a write, with its kind."""
    if not isinstance(value, dict):
        return value
    version = f"{write['group']}/v1" if write.get("group") else "v1"
    return {"apiVersion": version, "kind": KINDS.get(write["resource"], "Widget"), **value}


def rows_of(case: dict[str, Any], build: Any) -> tuple[Any, list[Any]]:
    """The row of the write, and all rows with it."""
    write = case["write"]
    place = {"api_group": write.get("group"), "resource": write["resource"], "name": write.get("name", "c")}
    place["namespace"] = None if write["resource"] == "namespaces" else "shop"
    earlier = [
        build(at=each["at"], response=body(write, each["object"]), **place, request_uri="/x") for each in case.get("before", ())
    ]
    annotations = {
        f"patch.webhook.admission.k8s.io/{key}": json.dumps({"patch": operations})
        for key, operations in case.get("patches", {}).items()
    }
    for key in (*case.get("patches", ()), *case.get("mutated", ())):
        annotations[f"mutation.webhook.admission.k8s.io/{key}"] = '{"configuration":"a","webhook":"w","mutated":true}'
    times = {"at": write.get("at", 5), "took": write.get("took", 0.01)}
    sent = body(write, write["object"]) if write["verb"] != "patch" else write["object"]
    row = build(
        verb=write["verb"], code=write["code"], request=sent, response=body(write, write.get("response", {"kind": "Status"})),
        annotations=annotations, **times, **place, request_uri="/x",
    )  # fmt: skip
    if "crossed" in case:
        other = body(write, {"metadata": {"name": "c", "uid": "u", "resourceVersion": "6"}, "data": {"a": "1"}})
        earlier.append(build(verb="update", request=other, response=other, **case["crossed"], **place, request_uri="/x"))
    if case.get("policies"):
        value = {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "MutatingAdmissionPolicyBinding",
            "metadata": {"name": "b"},
        }
        earlier.append(build(at=1, response=value, **BOUND))
    return row, [*earlier, row]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_the_object_is_as_policies_saw_it(case: dict[str, Any], build: Any) -> None:
    row, rows = rows_of(case, build)
    versions = LogVersions()
    for each in rows:
        record(Event.from_row(each), versions)
    found = attempted_requests(Event.from_row(row), versions, LogHistory.from_rows(rows))
    assert isinstance(found, list)
    (request,) = found
    assert isinstance(request.object, Known), request.object
    value = completed(request, request.object.value)
    expect = case["expect"]
    assert str(request.object.grade) == expect["grade"]
    for part in ("data", "spec", "status"):
        if part in expect:
            assert value[part] == expect[part]
    if "labels" in expect:
        assert value["metadata"]["labels"] == expect["labels"]
    made_up = {
        f"{part}.{name}"
        for part in ("metadata", "spec")
        for name, entry in (value.get(part) or {}).items()
        if any(each.__class__ is CelUnknown for each in (entry, *(entry.values() if isinstance(entry, dict) else ())))
    }
    assert made_up == set(expect["unknown"])
