"""The schemas of built-in kinds that come with Hindcast."""

from __future__ import annotations

from typing import Any

from pipeline.openapi import built_in_schemas
from pipeline.request import GroupVersionKind, GroupVersionResource


def at(schema: Any, *names: str) -> Any:
    for name in names:
        schema = schema["items"] if name == "[]" else schema["properties"][name]
    return schema


def test_a_resource_has_a_kind() -> None:
    schemas = built_in_schemas()
    assert schemas.kinds_of(GroupVersionResource("apps", "v1", "deployments")) == [GroupVersionKind("apps", "v1", "Deployment")]
    assert schemas.kinds_of(GroupVersionResource("", "v1", "namespaces")) == [GroupVersionKind("", "v1", "Namespace")]


def test_lists_have_their_types_and_keys() -> None:
    deployment = built_in_schemas().schema_of(GroupVersionKind("apps", "v1", "Deployment"))
    pod = at(deployment, "spec", "template", "spec")
    containers, tolerations = at(pod, "containers"), at(pod, "tolerations")
    assert (containers["x-kubernetes-list-type"], containers["x-kubernetes-list-map-keys"]) == ("map", ["name"])
    assert tolerations["x-kubernetes-list-type"] == "atomic"
    assert at(containers, "[]", "ports")["x-kubernetes-list-map-keys"] == ["containerPort", "protocol"]
    assert at(deployment, "spec", "selector")["x-kubernetes-map-type"] == "atomic"


def test_kinds_of_other_groups_have_the_fields_of_their_types() -> None:
    schemas = built_in_schemas()
    assert schemas.kinds_of(GroupVersionResource("batch", "v1", "jobs")) == [GroupVersionKind("batch", "v1", "Job")]
    job = schemas.schema_of(GroupVersionKind("batch", "v1", "Job"))
    assert at(job, "spec", "template", "spec", "containers")["x-kubernetes-list-map-keys"] == ["name"]
    role = schemas.schema_of(GroupVersionKind("rbac.authorization.k8s.io", "v1", "Role"))
    assert at(role, "rules", "[]", "verbs") == {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "atomic"}
    autoscaler = schemas.schema_of(GroupVersionKind("autoscaling", "v2", "HorizontalPodAutoscaler"))
    assert at(autoscaler, "status", "conditions")["x-kubernetes-list-map-keys"] == ["type"]


def test_groups_without_a_document_are_not_known() -> None:
    assert built_in_schemas().schema_of(GroupVersionKind("coordination.k8s.io", "v1", "Lease")) is None
