"""The state of a cluster over time."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from pipeline.history.in_force import CHANGE_DELAY, PolicyTimeline
from pipeline.history.world import CRDS, NAME_LABEL, LogHistory
from pipeline.request import Grade, GroupVersionResource, Known, Unknown

START = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
NAMESPACES = {"resource": "namespaces", "namespace": None, "request_uri": "/api/v1/namespaces"}
ADMISSION = {"api_group": "admissionregistration.k8s.io", "api_version": "v1", "namespace": None}


def second(number: float) -> datetime:
    return START + timedelta(seconds=number)


def namespace(version: str, **labels: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop", "resourceVersion": version, "labels": labels}}


def listed(at: float, value: dict[str, Any], created: float = -1000) -> dict[str, Any]:
    metadata = value["metadata"]
    whole = {**value, "metadata": {**metadata, "creationTimestamp": f"{second(created):%Y-%m-%dT%H:%M:%SZ}"}}
    return {
        "cluster": "c",
        "observed_ts": second(at),
        "list_rv": None,
        "api_version": value["apiVersion"],
        "kind": value["kind"],
        "namespace": metadata.get("namespace"),
        "name": metadata["name"],
        "uid": metadata.get("uid"),
        "resource_version": metadata.get("resourceVersion"),
        "object": json.dumps(whole),
        "source": "test",
    }


def labels_at(history: LogHistory, at: float, name: str = "shop") -> Any:
    found = history.at("c", second(at)).namespace(name)
    if isinstance(found, Unknown):
        return "unknown"
    return None if found.value is None else found.value["metadata"]["labels"]


def test_a_namespace_has_the_labels_of_its_last_write(build: Any) -> None:
    rows = [
        build(at=10, **NAMESPACES, name="shop", response=namespace("1", env="dev")),
        build(at=20, **NAMESPACES, name="shop", verb="patch", response=namespace("2", env="prod")),
        build(at=30, **NAMESPACES, name="shop", verb="update", subresource="finalize", response=_ended()),
    ]
    history = LogHistory.from_rows(rows)
    assert labels_at(history, 5) is None
    assert labels_at(history, 15) == {"env": "dev", NAME_LABEL: "shop"}
    assert labels_at(history, 20.005) == {"env": "dev", NAME_LABEL: "shop"}, "a write counts from its answer on"
    assert labels_at(history, 25) == {"env": "prod", NAME_LABEL: "shop"}
    assert labels_at(history, 35) is None


@pytest.mark.parametrize("marks", [{}, {"deletionTimestamp": "2026-01-01T12:00:09Z"}])
def test_a_namespace_that_only_its_request_shows_has_what_every_stored_one_has(marks: dict[str, str], build: Any) -> None:
    """Its writer asked for metadata alone: the finalizer and the phase were set by the server."""
    sent = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}, "spec": {}, "status": {}}
    metadata = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": {"name": "shop", "uid": "u", **marks}}
    row = build(at=10, **NAMESPACES, name="shop", code=201, request=sent, response=metadata)
    found = LogHistory.from_rows([row]).at("c", second(11)).namespace("shop")
    assert isinstance(found, Known)
    assert found.value is not None
    assert found.value["spec"] == {"finalizers": ["kubernetes"]}
    assert found.value["status"] == {"phase": "Terminating" if marks else "Active"}


def test_a_namespace_without_labels_has_its_name(build: Any) -> None:
    bare = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop", "labels": None}}
    assert labels_at(LogHistory.from_rows([build(at=10, **NAMESPACES, name="shop", response=bare)]), 11) == {NAME_LABEL: "shop"}


def test_a_namespace_is_there_before_its_writer_has_the_answer(build: Any) -> None:
    history = LogHistory.from_rows([build(at=10, took=1, **NAMESPACES, name="shop", response=namespace("1", env="dev"))])
    assert labels_at(history, 9.9) is None
    assert labels_at(history, 10.2) == {"env": "dev", NAME_LABEL: "shop"}, "what is written into it shows that it was there"


def _ended() -> dict[str, Any]:
    value = namespace("3", env="prod")
    value["metadata"]["deletionTimestamp"] = "2026-01-01T12:00:30Z"
    return value


def test_what_nobody_recorded_is_unknown_and_not_absent(build: Any) -> None:
    row = build(at=10, **NAMESPACES, name="shop", verb="patch", response=namespace("2", env="prod"))
    history = LogHistory.from_rows([row])
    assert labels_at(history, 5) == "unknown"
    assert labels_at(history, 15, "other") == "unknown"


def test_a_snapshot_says_what_was_not_there(build: Any) -> None:
    history = LogHistory.from_rows([], [listed(10, namespace("1", env="dev"))])
    assert labels_at(history, 15, "other") is None
    assert labels_at(history, 15) == {"env": "dev", NAME_LABEL: "shop"}


def test_a_snapshot_speaks_for_the_time_before_it_as_far_as_the_object_existed() -> None:
    history = LogHistory.from_rows([], [listed(100, namespace("1", env="dev"), created=50)])
    assert labels_at(history, 60) == {"env": "dev", NAME_LABEL: "shop"}
    assert labels_at(history, 40) is None


def limit(name: str, version: str, value: int) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "shop", "resourceVersion": version}
    return {"apiVersion": "policy.example.com/v1", "kind": "Limit", "metadata": metadata, "spec": {"max": value}}


def definition() -> dict[str, Any]:
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "limits.policy.example.com", "resourceVersion": "1"},
        "spec": {
            "group": "policy.example.com",
            "scope": "Namespaced",
            "names": {"plural": "limits", "kind": "Limit"},
            "versions": [{"name": "v1", "served": True}, {"name": "v1alpha1", "served": True}, {"name": "v0", "served": False}],
        },
    }


@pytest.fixture
def limits(build: Any) -> LogHistory:
    place = {"api_group": "policy.example.com", "api_version": "v1", "resource": "limits", "namespace": "shop"}
    crd = {"api_group": CRDS.group, "api_version": "v1", "resource": CRDS.resource, "namespace": None}
    rows = [
        build(at=1, **crd, name="limits.policy.example.com", response=definition()),
        build(at=10, **place, name="b", response=limit("b", "5", 1)),
        build(at=11, **place, name="a", response=limit("a", "6", 2)),
        build(at=20, **place, name="b", verb="delete", response={"kind": "Status", "apiVersion": "v1", "status": "Success"}),
    ]
    return LogHistory.from_rows(rows)


def test_params_of_a_kind_are_ordered_by_name(limits: LogHistory) -> None:
    found = limits.at("c", second(15)).params("policy.example.com/v1", "Limit", "shop")
    assert isinstance(found, Known)
    assert [item["metadata"]["name"] for item in found.value] == ["a", "b"]
    after = limits.at("c", second(25)).params("policy.example.com/v1", "Limit", "shop")
    assert isinstance(after, Known)
    assert [item["metadata"]["name"] for item in after.value] == ["a"]


def test_a_deleted_param_is_known_to_be_gone(limits: LogHistory) -> None:
    found = limits.at("c", second(25)).param("policy.example.com/v1", "Limit", "shop", "b")
    assert isinstance(found, Known)
    assert found.value is None


def test_a_param_that_a_refused_deletecollection_may_have_deleted_is_unknown(build: Any) -> None:
    crd = {"api_group": CRDS.group, "api_version": "v1", "resource": CRDS.resource, "namespace": None}
    place = {"api_group": "policy.example.com", "api_version": "v1", "resource": "limits", "namespace": "shop"}
    denied = 'admission webhook "guard.example.com" denied the request: no'
    rows = [
        build(at=1, **crd, name="limits.policy.example.com", response=definition()),
        build(at=10, **place, name="a", response=limit("a", "5", 1)),
        build(at=11, **place, name="b", response=limit("b", "6", 1)),
        build(at=20, **place, name=None, verb="deletecollection", code=403, status_message=denied),
        build(at=30, **place, name="b", verb="update", response=limit("b", "7", 2)),
    ]
    after = LogHistory.from_rows(rows).at("c", second(40))
    assert isinstance(after.param("policy.example.com/v1", "Limit", "shop", "a"), Unknown)
    assert isinstance(after.params("policy.example.com/v1", "Limit", "shop"), Unknown)
    assert isinstance(after.param("policy.example.com/v1", "Limit", "shop", "b"), Known)
    listed = after.perhaps_listed("policy.example.com/v1", "Limit", "shop")
    assert isinstance(listed, Known)
    assert [item["metadata"]["name"] for item in listed.value] == ["a", "b"]


def test_a_param_in_another_version_is_told_apart(limits: LogHistory) -> None:
    found = limits.at("c", second(15)).param("policy.example.com/v1alpha1", "Limit", "shop", "a")
    assert isinstance(found, Known)
    assert found.value is not None
    assert found.value["apiVersion"] == "policy.example.com/v1alpha1"
    assert found.grade.value == "partial"


@pytest.mark.parametrize(
    ("api_version", "kind", "expected"),
    [
        ("v1", "ConfigMap", True),
        ("v1", "Namespace", False),
        ("autoscaling/v2", "HorizontalPodAutoscaler", True),
        ("autoscaling/v2beta2", "HorizontalPodAutoscaler", None),
        ("apps/v1beta1", "Deployment", None),
        ("extensions/v1beta1", "Ingress", None),
        ("networking.k8s.io/v1beta1", "IPAddress", False),
        ("policy.example.com/v1", "Limit", True),
        ("policy.example.com/v0", "Limit", None),
        ("policy.example.com/v2", "Limit", None),
    ],
)
def test_the_scope_of_a_kind(limits: LogHistory, api_version: str, kind: str, expected: bool | None) -> None:
    found = limits.at("c", second(15)).kind_is_namespaced(api_version, kind)
    assert isinstance(found, Known)
    assert found.value is expected


def test_a_kind_that_is_served_no_more_has_its_scope_and_no_objects(build: Any) -> None:
    crd: dict[str, Any] = {"api_group": CRDS.group, "api_version": "v1", "resource": CRDS.resource, "namespace": None}
    crd["name"] = "limits.policy.example.com"
    gone = build(at=20, **crd, verb="delete", response={"kind": "Status", "apiVersion": "v1", "status": "Success"})
    history = LogHistory.from_rows([build(at=10, **crd, response=definition()), gone])
    before, after = history.at("c", second(5)), history.at("c", second(25))
    assert before.kind_is_namespaced("policy.example.com/v1", "Limit") == Known(None, "created later", Grade.INFERRED)
    scope = after.kind_is_namespaced("policy.example.com/v1", "Limit")
    assert isinstance(scope, Known)
    assert (scope.value, scope.grade) == (True, Grade.PARTIAL), "a server goes on watching what it began to watch"
    assert isinstance(found := after.param("policy.example.com/v1", "Limit", "shop", "a"), Known)
    assert found.value is None
    assert isinstance(several := after.params("policy.example.com/v1", "Limit", "shop"), Known)
    assert several.value == ()
    assert after.kind_is_namespaced("policy.example.com/v0", "Limit").value is None  # type: ignore[union-attr]


def test_a_custom_kind_that_nobody_defined_is_unknown(limits: LogHistory) -> None:
    assert isinstance(limits.at("c", second(15)).kind_is_namespaced("other.example.com/v1", "Thing"), Unknown)
    assert limits.custom_kind("c", GroupVersionResource("other.example.com", "v1", "things"), second(15)) is None
    kind = limits.custom_kind("c", GroupVersionResource("policy.example.com", "v1", "limits"), second(15))
    assert kind is not None
    assert kind.kind == "Limit"


def policy(version: str, expression: str) -> dict[str, Any]:
    spec = {"validations": [{"expression": expression}]}
    metadata = {"name": "p", "resourceVersion": version}
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": metadata,
        "spec": spec,
    }


@pytest.fixture
def timeline(build: Any) -> PolicyTimeline:
    place = {**ADMISSION, "resource": "validatingadmissionpolicies", "name": "p"}
    rows = [
        build(at=10, **place, response=policy("1", "true")),
        build(at=20, **place, verb="patch", subresource="status", response=policy("2", "true")),
        build(at=30, **place, verb="update", response=policy("3", "false")),
        build(at=40, **place, verb="delete", response={"kind": "Status", "apiVersion": "v1", "status": "Success"}),
    ]
    return PolicyTimeline(LogHistory.from_rows(rows), "c")


def said(timeline: PolicyTimeline, at: float) -> list[list[str | None]]:
    """For each policy what it may have said: the settled version, then the others."""

    def expression(evidence: Any) -> str | None:
        return None if evidence.value is None else evidence.value["spec"]["validations"][0]["expression"]

    return [[expression(evidence) for evidence in (item.object, *item.others)] for item in timeline.policies_at(second(at))]


def test_a_change_is_in_force_after_the_delay_and_uncertain_until_then(timeline: PolicyTimeline) -> None:
    settled = CHANGE_DELAY.total_seconds() + 0.02
    assert said(timeline, 5) == []
    assert said(timeline, 10.1) == [[None, "true"]]
    assert said(timeline, 10 + settled) == [["true"]]
    assert said(timeline, 20.1) == [["true"]], "a change of status changes nothing"
    assert said(timeline, 30.1) == [["true", "false"]]
    assert said(timeline, 30 + settled) == [["false"]]
    assert said(timeline, 40.1) == [["false", None]]
    assert said(timeline, 40 + settled) == []


def test_an_epoch_ends_where_anything_changes(timeline: PolicyTimeline) -> None:
    moments = [5, 10.1, 15, 30.1, 35, 40.1, 45]
    epochs = [timeline.epoch(second(moment)) for moment in moments]
    assert epochs == sorted(set(epochs))
    assert timeline.epoch(second(15)) == timeline.epoch(second(16))


def test_an_empty_list_says_that_there_was_no_object() -> None:
    nothing = {**listed(0, namespace("1")), "name": "", "object": '{"kind":"NamespaceList","items":[]}'}
    history = LogHistory.from_rows([], [nothing])
    assert [labels_at(history, at) for at in (-1, 1)] == ["unknown", None]
