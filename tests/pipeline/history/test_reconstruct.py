"""From rows to admission requests: what is taken from where, and how good it is."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pytest

from pipeline.history.creation import schema_sets_defaults
from pipeline.history.event import Event, decode_json
from pipeline.history.outcome import Admission
from pipeline.history.reconstruct import NotReplayed, admission_requests
from pipeline.history.scale import ScalePaths, paths_of
from pipeline.history.versions import LogVersions
from pipeline.history.writes import asks_for_dry_run, record, was_dry_run
from pipeline.request import AdmissionRequest, Grade, GroupVersionKind, Known, Operation, Unknown

DENIED = "pods \"web\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no"


def pod(version: str = "", **parts: Any) -> dict[str, Any]:
    metadata = {"name": "web", "namespace": "shop", "uid": "u", **parts.pop("metadata", {})}
    if version:
        metadata["resourceVersion"] = version
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"nodeName": "n"}, **parts}


def history(*rows: Any) -> LogVersions:
    versions = LogVersions()
    for row in rows:
        record(Event.from_row(row), versions)
    return versions


def only(row: Any, *earlier: Any) -> AdmissionRequest:
    found = admission_requests(row, history(*earlier, row))
    assert isinstance(found, list), found
    assert len(found) == 1
    return found[0]


def known(evidence: Any) -> Any:
    assert isinstance(evidence, Known), evidence
    return evidence.value


def test_an_admitted_create_is_its_response_without_a_version(build: Any) -> None:
    request = only(build(request={"kind": "Pod", "apiVersion": "v1"}, response=pod("5")))
    assert request.operation is Operation.CREATE
    assert known(request.object) == pod()
    assert request.object.grade is Grade.EXACT  # type: ignore[union-attr]
    assert known(request.old_object) is None


def test_a_generated_name_is_resolved(build: Any) -> None:
    assert known(only(build(name=None, response=pod("5"))).name) == "web"
    assert known(only(build(name=None, request=pod(), code=422, status_message=DENIED)).name) == "web"


def test_a_claim_is_created_without_its_phase(build: Any) -> None:
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c"}, "status": {"phase": "Pending"}}
    assert known(only(build(resource="persistentvolumeclaims", response=claim)).object)["status"] == {}


def test_a_refused_create_is_its_body_with_the_recorded_patches_in_order(build: Any) -> None:
    def patch(value: str) -> str:
        return json.dumps({"patch": [{"op": "add", "path": "/metadata/labels", "value": {"by": value}}], "patchType": "JSONPatch"})

    prefix = "patch.webhook.admission.k8s.io/"
    annotations = {prefix + "round_0_index_10": patch("tenth"), prefix + "round_0_index_2": patch("second")}
    request = only(build(request=pod(), code=422, status_message=DENIED, annotations=annotations, response={"kind": "Status"}))
    assert known(request.object)["metadata"]["labels"] == {"by": "tenth"}
    assert request.object.grade is Grade.PARTIAL  # type: ignore[union-attr]


@pytest.mark.parametrize("verb", ["create", "update", "patch"])
@pytest.mark.parametrize(
    ("recorded", "reason"),
    [
        ('{"patch":[{"op":"add","path":"/spec/a/0","value":1}]}', "operation 0 of a JSON patch: add '/spec/a/0' does not apply"),
        ('{"patch":[{"op":"turn","path":"/spec"}]}', "Unexpected kind: turn"),
        ('{"patch":[1]}', "it is not a list of operations"),
        ('{"patch":{"op":"add"}}', "it is not a list of operations"),
        ("[]", "it is not a list of operations"),
        ('{"patch":[{"op":"add"', "it is not JSON"),
        ('{"patch":[{"op":"replace","path":"","value":3}]}', "must be object or array"),
        ('{"patch":[{"op":"replace","path":"","value":[]}]}', "leave an object"),
        ('{"patch":null}', "it is not a list of operations"),
        ('{"patch":""}', "it is not a list of operations"),
    ],
)
def test_recorded_patches_of_webhooks_that_do_not_fit_make_the_object_unknown(
    build: Any, verb: str, recorded: str, reason: str
) -> None:
    annotations = {"patch.webhook.admission.k8s.io/round_0_index_0": recorded}
    columns: dict[str, Any] = {"code": 422, "status_message": DENIED, "annotations": annotations, "response": {"kind": "Status"}}
    for stored in ([build(response=pod("5"))], []) if verb != "create" else ([],):
        if verb == "patch" and not stored:
            continue
        request = only(build(verb=verb, request=pod(), **columns), *stored)
        assert isinstance(request.object, Unknown)
        assert request.object.reason.startswith("a recorded patch of a webhook does not fit: ")
        assert reason in request.object.reason


def test_a_cluster_scoped_object_is_in_no_namespace_whatever_it_says(build: Any) -> None:
    columns: dict[str, Any] = {"resource": "nodes", "namespace": None, "name": "n", "code": 422, "status_message": DENIED}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}
    said = {**node, "metadata": {"name": "n", "namespace": "shop"}}
    request = only(build(request={**said, "metadata": {**said["metadata"], "uid": "mine"}}, **columns))
    assert request.namespace == ""
    assert known(request.object)["metadata"] == {"name": "n", "creationTimestamp": "2026-01-01T12:00:01Z"}
    stored = build(**{**columns, "code": 201, "status_message": ""}, response=node)
    request = only(build(verb="update", request=said, **columns), stored)
    assert known(request.object)["metadata"] == {"name": "n"}


def test_an_update_meets_the_version_that_it_names(build: Any) -> None:
    rows = [
        build(response=pod("5", status={"phase": "Pending"})),
        build(verb="patch", subresource="status", response=pod("6", status={"phase": "Running"})),
    ]
    request = only(build(verb="update", request=pod("6"), response=pod("9")), *rows)
    assert request.operation is Operation.UPDATE
    assert known(request.old_object)["status"] == {"phase": "Running"}
    assert known(request.object)["metadata"]["resourceVersion"] == "6"


def test_an_update_of_a_version_that_nobody_recorded_has_no_old_object(build: Any) -> None:
    request = only(build(verb="update", request=pod("7"), response=pod("9")), build(response=pod("5")))
    assert isinstance(request.old_object, Unknown)
    assert known(request.object)["metadata"]["resourceVersion"] == "7"


def test_requests_to_which_a_client_gave_one_audit_id_are_told_apart(build: Any) -> None:
    earlier = [build(audit_id="mine" if number > 5 else "first", verb="patch", response=pod(str(number))) for number in (5, 6, 7)]
    last = build(audit_id="mine", verb="patch", request={"metadata": {}}, response=pod("8"))
    assert known(only(last, *earlier).old_object) == pod("7")
    update = build(audit_id="mine", verb="update", request=pod("7"), response=pod("9"))
    assert known(only(update, *earlier).old_object) == pod("7")


def test_versions_are_ordered_by_number_where_the_log_is_not(build: Any) -> None:
    slow = build(at=10, took=5, verb="patch", request={"metadata": {}}, response=pod("6", metadata={"labels": {"a": "x"}}))
    fast = build(at=11, took=1, verb="patch", request={"metadata": {}}, response=pod("7"))
    assert known(only(fast, build(at=1, response=pod("5")), slow).old_object)["metadata"]["labels"] == {"a": "x"}


def test_a_write_without_a_body_hides_what_was_before(build: Any) -> None:
    unseen = build(at=50, verb="patch", level="Metadata")
    request = only(build(at=100, verb="patch", request={"metadata": {}}, response=pod("9")), build(response=pod("5")), unseen)
    assert isinstance(request.old_object, Unknown)
    assert "the audit level was Metadata" in request.old_object.reason


def test_metadata_of_the_garbage_collector_is_merged(build: Any) -> None:
    answer = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": pod("6")["metadata"]}
    removes = {"metadata": {"uid": "u", "$deleteFromPrimitiveList/finalizers": ["orphan"]}}
    collected = build(verb="patch", request=removes, response=answer)
    request = only(
        build(at=100, verb="patch", request={"metadata": {}}, response=pod("9")),
        build(response=pod("5", metadata={"finalizers": ["orphan"]})),
        collected,
    )
    assert "finalizers" not in known(request.old_object)["metadata"]
    assert request.old_object.grade is Grade.PARTIAL  # type: ignore[union-attr]


def table(metadata: dict[str, Any]) -> dict[str, Any]:
    row = {"cells": ["web"], "object": {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata}}
    return {"kind": "Table", "apiVersion": "meta.k8s.io/v1", "columnDefinitions": [], "rows": [row]}


def test_a_table_shows_the_metadata_of_what_was_written(build: Any) -> None:
    asked = {"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "web-"}, "spec": {"containers": []}}
    created = build(name=None, request=asked, response=table(pod("5")["metadata"]))
    request = only(created)
    assert known(request.name) == "web"
    assert known(request.object)["metadata"] == pod()["metadata"]
    patched = build(verb="patch", request={"spec": {"nodeName": "n"}}, response=table(pod("6")["metadata"]))
    after = build(verb="patch", request={"metadata": {}}, response=pod("9"))
    old = only(after, created, patched).old_object
    assert known(old)["metadata"]["resourceVersion"] == "6"
    assert known(old)["spec"]["nodeName"] == "n"
    assert old.grade is Grade.PARTIAL  # type: ignore[union-attr]
    hidden = {**table({}), "rows": [{"cells": ["web"], "object": None}]}
    unseen = build(verb="patch", request={"spec": {"nodeName": "n"}}, response=hidden)
    assert isinstance(only(build(verb="patch", request={"metadata": {}}, response=pod("9")), created, unseen).old_object, Unknown)


def test_a_binding_is_a_version_of_its_pod(build: Any) -> None:
    created = pod("5", spec={"containers": []})
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "web", "uid": "u"},
        "target": {"kind": "Node", "name": "n1"},
    }
    bound = build(subresource="binding", request=binding, response={"kind": "Status", "apiVersion": "v1"})
    told = pod("7", spec={"containers": [], "nodeName": "n1"}, status={"phase": "Running"})
    request = only(
        build(at=100, verb="patch", subresource="status", request={"status": {}}, response=told),
        build(at=0, response=created),
        bound,
    )
    old = known(request.old_object)
    assert old["spec"]["nodeName"] == "n1"
    assert "resourceVersion" not in old["metadata"]
    assert request.object.source.endswith("resourceVersion not known")  # type: ignore[union-attr]


def test_a_token_is_asked_for_in_the_name_of_its_account(build: Any) -> None:
    asked = {"kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1", "metadata": {}, "spec": {"audiences": ["a"]}}
    row = build(resource="serviceaccounts", subresource="token", name="robot", request=asked, response=None)
    request = only(row)
    assert known(request.object) == {
        **asked,
        "metadata": {"name": "robot", "namespace": "shop", "creationTimestamp": "2026-01-01T12:00:01Z"},
        "status": {"token": "", "expirationTimestamp": None},
    }
    assert request.object.grade is Grade.PARTIAL  # type: ignore[union-attr]
    assert request.kind == Known(GroupVersionKind("authentication.k8s.io", "v1", "TokenRequest"), "built-in resources")


def test_a_refused_patch_is_the_stored_object_patched(build: Any) -> None:
    refused = build(
        at=100,
        verb="patch",
        request={"metadata": {"labels": {"a": "x"}}},
        code=422,
        status_message=DENIED,
        response={"kind": "Status"},
    )
    request = only(refused, build(response=pod("5", metadata={"labels": {"b": "y"}})))
    assert known(request.object)["metadata"]["labels"] == {"a": "x", "b": "y"}
    assert known(request.old_object)["metadata"]["labels"] == {"b": "y"}, "the stored object must stay as it was"


def test_what_a_refused_patch_adds_has_the_defaults_of_the_api(build: Any) -> None:
    spec = {"ports": [{"port": 80, "targetPort": 8080}]}
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": spec}
    columns: dict[str, Any] = {"resource": "services", "request_uri": "/api/v1/namespaces/shop/services/web"}
    added = {"spec": {"ports": [{"port": 443}]}}
    refused = build(at=100, verb="patch", request=added, code=422, status_message=DENIED, response={"kind": "Status"}, **columns)
    request = only(refused, build(response=service, **columns))
    assert known(request.object)["spec"]["ports"] == [
        {"port": 443, "protocol": "TCP", "targetPort": 443},
        {"port": 80, "targetPort": 8080, "protocol": "TCP"},
    ]
    probed = {"name": "a", "image": "a:1", "ports": [{"containerPort": 80}], "startupProbe": {"httpGet": {}}}
    added = {"spec": {"containers": [probed]}}
    refused = build(at=100, verb="patch", request=added, code=422, status_message=DENIED, response={"kind": "Status"})
    (container,) = known(only(refused, build(response=pod("5"))).object)["spec"]["containers"]
    assert container["ports"] == [{"containerPort": 80, "protocol": "TCP"}]
    numbers = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}
    assert container["startupProbe"] == {"httpGet": {"path": "/", "scheme": "HTTP"}, **numbers}


def test_a_refused_update_keeps_what_the_server_keeps(build: Any) -> None:
    stored = {"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"replicas": 1}, "status": {"replicas": 1}}
    stored["metadata"] = {"name": "web", "namespace": "shop", "uid": "u", "generation": 3, "resourceVersion": "5"}
    sent = {
        **stored,
        "metadata": {"name": "web", "namespace": "shop", "resourceVersion": "5"},
        "spec": {"replicas": 9},
        "status": {},
    }
    place = {"api_group": "apps", "api_version": "v1", "resource": "deployments"}
    refused = build(verb="update", request=sent, code=422, status_message=DENIED, **place)
    value = known(only(refused, build(response=stored, **place)).object)
    assert value["status"] == {"replicas": 1}
    assert value["metadata"]["uid"] == "u"
    assert value["metadata"]["generation"] == 4


@pytest.mark.parametrize("subresource", ["", "status"])
def test_patching_with_201_creates(subresource: str, build: Any) -> None:
    row = build(verb="patch", request_uri="/x?fieldManager=m&force=true", code=201, subresource=subresource, response=pod("5"))
    request = only(row)
    assert request.operation is Operation.CREATE
    assert known(request.options)["kind"] == "CreateOptions"


def test_a_refused_apply_of_something_nobody_saw_may_be_either(build: Any) -> None:
    row = build(verb="patch", request_uri="/x?fieldManager=m&force=true", request=pod(), code=422, status_message=DENIED)
    for refused in (row, {**row, "request_object": None, "level": "Metadata"}):
        found = admission_requests(refused, LogVersions())
        assert isinstance(found, NotReplayed)
        assert found.admission is Admission.UNKNOWN


def test_a_refused_apply_of_what_was_not_there_is_a_create(build: Any) -> None:
    apply: dict[str, Any] = {"verb": "patch", "request_uri": "/x?fieldManager=m&force=true", "name": "web"}
    refused = {**apply, "code": 422, "status_message": DENIED}
    settings = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "web"}, "data": {"a": "b"}}
    maps = {"resource": "configmaps", "request_uri": "/api/v1/namespaces/shop/configmaps/web?fieldManager=m"}
    row = build(at=10, request=settings, **{**refused, **maps})
    later = build(at=20, code=201, **{**apply, **maps}, response={**settings, "metadata": {"name": "web", "resourceVersion": "7"}})
    request = only(row, later)
    assert request.operation is Operation.CREATE
    assert known(request.object)["data"] == {"a": "b"}
    assert request.object.grade is Grade.PARTIAL  # type: ignore[union-attr]
    assert known(request.old_object) is None
    assert known(request.options)["kind"] == "CreateOptions"
    gone = build(at=5, verb="delete", **maps, response={"kind": "Status", "apiVersion": "v1", "status": "Success"})
    assert only(row, gone).operation is Operation.CREATE
    # What an apply leaves to the defaults of the API is not in its body.
    created = build(at=20, code=201, **apply, response=pod("7"))
    request = only(build(at=10, request=pod(), **refused), created)
    assert request.operation is Operation.CREATE
    assert isinstance(request.object, Unknown)


@pytest.mark.parametrize(
    ("size", "is_known"),
    [({"type": "integer"}, True), ({"type": "integer", "default": 5}, False), (None, False)],
    ids=["no defaults", "a default", "no definition"],
)
def test_an_apply_that_creates_without_its_answer_lacks_defaults(size: dict[str, Any] | None, is_known: bool, build: Any) -> None:
    """At level Request the log has what was applied; the object in admission has the defaults, too."""
    place = {"api_group": "jobs.example.com", "api_version": "v1", "resource": "queues", "level": "Request"}
    applied = {"apiVersion": "jobs.example.com/v1", "kind": "Queue", "metadata": {"name": "web"}, "spec": {"default": 1}}
    row = build(verb="patch", request_uri="/x?fieldManager=m&force=true", code=201, request=applied, **place)
    # A property may be called `default`.
    found = None if size is None else Defined({}, {"properties": {"spec": {"properties": {"size": size, "default": {}}}}})
    (request,) = admission_requests(row, history(row), found)  # type: ignore[misc]
    assert isinstance(request.object, Known) is is_known
    pods = only(build(verb="patch", request_uri="/x?fieldManager=m&force=true", code=201, request=pod(), level="Request"))
    assert isinstance(pods.object, Unknown)


def test_scale_is_made_from_its_object(build: Any) -> None:
    place = {"api_group": "apps", "api_version": "v1", "resource": "deployments"}
    parent = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "shop", "uid": "u"}}
    parent["metadata"]["resourceVersion"] = "5"
    parent |= {"spec": {"replicas": 2, "selector": {"matchLabels": {"b": "y", "a": "x"}}}, "status": {"replicas": 2}}
    answer = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {**parent["metadata"], "resourceVersion": "6"}}
    answer |= {"spec": {"replicas": 7}, "status": {"replicas": 2, "selector": "a=x,b=y"}}
    scaled = build(verb="patch", subresource="scale", request={"spec": {"replicas": 7}}, response=answer, **place)
    after = build(verb="update", subresource="status", request={**parent, "metadata": answer["metadata"]}, response=parent, **place)
    request = only(scaled, build(response=parent, **place))
    assert known(request.kind).kind == "Scale"
    assert known(request.old_object)["status"] == {"replicas": 2, "selector": "a=x,b=y"}
    assert known(request.old_object)["spec"] == {"replicas": 2}
    old = known(only(after, build(response=parent, **place), scaled).old_object)
    assert (old["spec"]["replicas"], old["metadata"]["resourceVersion"]) == (7, "6")


def test_the_scale_of_a_replication_controller_has_a_plain_selector(build: Any) -> None:
    place = {"resource": "replicationcontrollers"}
    parent = {"apiVersion": "v1", "kind": "ReplicationController", "metadata": {"name": "web", "resourceVersion": "5"}}
    parent |= {"spec": {"replicas": 2, "selector": {"b": "y", "a": "x"}}, "status": {"replicas": 1}}
    answer = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "web", "resourceVersion": "6"}}
    scaled = build(verb="patch", subresource="scale", request={"spec": {"replicas": 7}}, response=answer, **place)
    assert known(only(scaled, build(response=parent, **place)).old_object)["status"] == {"replicas": 1, "selector": "a=x,b=y"}


class Defined:
    """A discovery with one CustomResourceDefinition."""

    def __init__(self, scale: dict[str, str], schema: dict[str, Any] | None = None) -> None:
        versions = [{"name": "v1", "subresources": {"scale": scale}, "schema": {"openAPIV3Schema": schema}}]
        self._definition = {"spec": {"names": {"kind": "Queue"}, "versions": versions}}

    def custom_kind(self, cluster: str, resource: Any, moment: Any) -> GroupVersionKind:
        return GroupVersionKind(resource.group, resource.version, "Queue")

    def scale_paths(self, cluster: str, resource: Any, moment: Any) -> ScalePaths | None:
        return paths_of(self._definition, resource.version)

    def sets_defaults(self, cluster: str, resource: Any, moment: Any) -> bool:
        return schema_sets_defaults(self._definition, resource.version)

    def has_mutating_policies(self, cluster: str) -> bool:
        return False


def test_the_scale_of_a_custom_resource_lies_where_its_definition_says(build: Any) -> None:
    place = {"api_group": "jobs.example.com", "api_version": "v1", "resource": "queues"}
    parent = {"apiVersion": "jobs.example.com/v1", "kind": "Queue", "metadata": {"name": "web", "resourceVersion": "5"}}
    parent |= {"spec": {"replicas": 9, "workers": {"count": 2}}, "status": {"running": 1, "labels": "a=x"}}
    answer = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "web", "resourceVersion": "6"}, "spec": {}}
    rows = [
        build(response=parent, **place),
        build(verb="patch", subresource="scale", request={"spec": {"replicas": 7}}, response=answer, **place),
        build(at=100, verb="patch", request={"metadata": {}}, response={**parent, "metadata": {"resourceVersion": "7"}}, **place),
    ]
    paths = {"specReplicasPath": ".spec.workers.count", "statusReplicasPath": ".status.running"}
    paths["labelSelectorPath"] = ".status.labels"
    (scaled,) = admission_requests(rows[1], history(*rows), Defined(paths))  # type: ignore[misc]
    assert known(scaled.old_object)["spec"] == {"replicas": 2}
    assert known(scaled.old_object)["status"] == {"replicas": 1, "selector": "a=x"}
    undefined = only(rows[1], rows[0]).old_object
    assert isinstance(undefined, Unknown)
    assert undefined.reason == "no CustomResourceDefinition tells where queues.jobs.example.com keep their scale"
    after = only(rows[2], *rows[:2]).old_object
    assert after.grade is Grade.PARTIAL, "a Scale does not say where its replicas were written"  # type: ignore[union-attr]


def test_a_delete_has_the_stored_object(build: Any) -> None:
    marked = pod("8", metadata={"deletionTimestamp": "t", "deletionGracePeriodSeconds": 30})
    row = build(verb="delete", response=marked)
    request = only(row, build(response=pod("5")))
    assert known(request.object) is None
    assert known(request.old_object) == pod("5")
    alone = only(row)
    assert known(alone.old_object) == pod()
    assert alone.old_object.grade is Grade.PARTIAL  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "columns", [{"level": "Metadata"}, {"flags": ["objects_expired"]}, {"annotations": {"audit.k8s.io/truncated": "true"}}]
)
def test_the_options_of_a_delete_without_its_body_are_unknown(columns: dict[str, Any], build: Any) -> None:
    request = only(build(verb="delete", **columns), build(response=pod("5")))
    assert isinstance(request.options, Unknown)
    assert request.dry_run == request.options, "whether it was a dry run stands in the same body"
    settings = {"verb": "delete", "resource": "configmaps", "request_uri": "/api/v1/namespaces/shop/configmaps/web"}
    assert isinstance(only(build(**settings, **columns)).options, Unknown)
    assert known(only(build(**settings)).options) == {"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1"}


def test_a_deletecollection_is_one_request_for_each_object(build: Any) -> None:
    items = [{key: value for key, value in pod("5").items() if key not in ("kind", "apiVersion")}]
    answer = {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": items}
    request = only(build(verb="deletecollection", name=None, response=answer))
    assert known(request.name) == ""
    assert known(request.old_object)["kind"] == "Pod"
    empty = admission_requests(build(verb="deletecollection", name=None, response={**answer, "items": []}), LogVersions())
    assert isinstance(empty, NotReplayed)
    assert empty.admission is Admission.NOT_REACHED


def test_a_deletecollection_that_failed_halfway_casts_doubt(build: Any) -> None:
    answer = {"kind": "Status", "apiVersion": "v1"}
    failed = build(verb="deletecollection", name=None, code=422, status_message=DENIED, response=answer)
    marked = pod("9", metadata={"deletionTimestamp": "t", "deletionGracePeriodSeconds": 30})
    request = only(build(at=100, verb="patch", request={"metadata": {}}, response=marked), build(at=0, response=pod("5")), failed)
    assert isinstance(request.old_object, Unknown)
    assert "perhaps changed" in request.old_object.reason


def test_an_object_that_lives_on_was_not_deleted_halfway(build: Any) -> None:
    failed = build(verb="deletecollection", name=None, code=422, status_message=DENIED)
    request = only(build(at=100, verb="patch", request={"metadata": {}}, response=pod("9")), build(at=0, response=pod("5")), failed)
    assert known(request.old_object) == pod("5")


def test_another_object_of_the_same_name_is_not_the_old_one(build: Any) -> None:
    earlier = build(response=pod("5", metadata={"uid": "other"}))
    request = only(build(verb="patch", request={"metadata": {}}, response=pod("9")), earlier)
    assert isinstance(request.old_object, Unknown)


def test_a_dry_run_leaves_no_version(build: Any) -> None:
    dry = build(
        verb="patch", request_uri="/x?dryRun=All", request={"metadata": {}}, response=pod("5", metadata={"labels": {"a": "x"}})
    )
    assert only(dry, build(response=pod("5"))).dry_run
    request = only(build(verb="patch", request={"metadata": {}}, response=pod("9")), build(response=pod("5")), dry)
    assert "labels" not in known(request.old_object)["metadata"]


def test_the_options_of_an_eviction_are_not_those_of_the_request(build: Any) -> None:
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "web"}, "deleteOptions": {"dryRun": ["All"]}}
    request = only(build(subresource="eviction", request=eviction, response={"kind": "Status"}))
    assert request.dry_run is False
    assert known(request.kind).kind == "Eviction"


ALL_TWICE = "?dryRun=All&dryRun=All"


@pytest.mark.parametrize(
    ("columns", "query", "expected"),
    [
        ({"subresource": "eviction", "request": {"kind": "Eviction"}}, "?dryRun=All", True),
        ({"subresource": "eviction", "request": {"kind": "Eviction", "deleteOptions": {"dryRun": ["All"]}}}, "?dryRun=All", True),
        ({"subresource": "eviction", "request": {"kind": "Eviction", "deleteOptions": {}}}, "", False),
        ({"subresource": "eviction", "level": "Metadata"}, "?dryRun=All", True),
        ({"subresource": "binding", "request": {"kind": "Binding"}}, "?dryRun=All", True),
        ({"subresource": "binding", "request": {"kind": "Binding"}}, "?dryRun=", False),
        ({"request": {"kind": "Pod", "metadata": {"name": "web"}}}, ALL_TWICE, True),
        ({"verb": "update", "request": {"kind": "Pod", "metadata": {"name": "web"}}}, "?fieldManager=a&dryRun=All", True),
        ({"verb": "patch", "subresource": "status", "request": {}}, "?dryRun=All", True),
        ({"verb": "delete"}, "?dryRun=All", True),
        ({"verb": "delete", "request": {"kind": "DeleteOptions", "dryRun": ["All"]}}, "", True),
        ({"verb": "delete", "request": {"kind": "DeleteOptions"}}, "?dryRun=All", False),
        ({"verb": "deletecollection", "name": None, "request": {"kind": "DeleteOptions", "dryRun": ["All"]}}, "", True),
    ],
)
def test_where_a_dry_run_is_asked_for(columns: dict[str, Any], query: str, expected: bool, build: Any) -> None:
    """Of a delete its body decides where it has one, as a whole; of anything else, evictions included, the query."""
    row = build(request_uri=f"/api/v1/namespaces/shop/pods/web{query}", **{"level": "Request"} | columns)
    event = Event.from_row(row)
    assert asks_for_dry_run(event) is expected
    if columns.get("verb") != "deletecollection":
        assert only(row).dry_run is expected


def test_an_eviction_whose_deletion_is_a_dry_run_deletes_nothing(build: Any) -> None:
    eviction = {"kind": "Eviction", "deleteOptions": {"dryRun": ["All"]}}
    row = build(subresource="eviction", request=eviction, response={"kind": "Status"})
    assert was_dry_run(Event.from_row(row))
    assert not was_dry_run(Event.from_row(build(subresource="eviction", request={"kind": "Eviction"}, response={"kind": "Status"})))


def test_a_stale_update_was_refused_before_policies(build: Any) -> None:
    stale = build(at=10, verb="update", request=pod("5"), code=409, status_reason="Conflict")
    raced = build(at=2.02, verb="update", request=pod("5"), code=409, status_reason="Conflict")
    versions = history(build(at=1, response=pod("5")), build(at=2, verb="patch", request={}, response=pod("6")))
    found = [admission_requests(row, versions) for row in (stale, raced)]
    assert [item.admission for item in found if isinstance(item, NotReplayed)] == [Admission.NOT_REACHED, Admission.UNKNOWN]


def test_the_impersonated_user_counts(build: Any) -> None:
    user = json.dumps({"username": "bob", "groups": ["g"], "extra": {"k": ["v"]}})
    assert only(build(impersonated_user=user, response=pod("5"))).user.username == "bob"


def test_a_namespace_lies_in_the_namespace_of_its_own_name(build: Any) -> None:
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop", "resourceVersion": "1"}}
    row = build(resource="namespaces", namespace=None, name="shop", response=namespace)
    assert only(row).namespace == "shop"
    generated = build(resource="namespaces", namespace=None, name=None, response=namespace)
    assert only(generated).namespace == ""


def test_nothing_of_a_redacted_event_is_better_than_partial(build: Any) -> None:
    assert only(build(flags=["redacted"], response=pod("5"))).object.grade is Grade.PARTIAL  # type: ignore[union-attr]


def test_bodies_are_decoded_when_they_are_read(build: Any) -> None:
    decoded: list[Any] = []

    def decode(raw: str | bytes) -> Any:
        decoded.append(raw)
        return decode_json(raw)

    row = build(response=pod("5"))
    found = admission_requests(row, history(row), None, decode)
    assert isinstance(found, list)
    assert decoded == []
    assert known(found[0].object) is known(found[0].object)
    assert len(decoded) == 1
    assert pickle.loads(pickle.dumps(found[0].object)) == found[0].object


@pytest.mark.parametrize(("query", "replayed"), [("", False), ("?gracePeriodSeconds=30", False), ("?gracePeriodSeconds=0", True)])
def test_a_pending_deletion_that_is_not_hurried_asks_nobody(query: str, replayed: bool, build: Any) -> None:
    marked = pod("8", metadata={"deletionTimestamp": "t", "deletionGracePeriodSeconds": 30})
    rows = [build(response=pod("5")), build(verb="delete", response=marked)]
    again = build(verb="delete", request_uri=f"/api/v1/namespaces/shop/pods/web{query}", response={**marked, "spec": {}})
    found = admission_requests(again, history(*rows, again))
    assert isinstance(found, list) == replayed
