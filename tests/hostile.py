"""Events of a small cluster of every sort that a command reads, and the same events with one odd value each."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from tests.recording import Log, Object, deployment

CASES = Path(__file__).parent / "cases" / "hostile"
MANIFESTS = CASES / "manifests"
SYSTEM = "system:apiserver"
REFUSAL = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
HOOK = {"configuration": "hooks", "webhook": "w.example.com"}
PATCH = [{"op": "add", "path": "/metadata/labels/owner", "value": "bot"}]
ROUND = "webhook.admission.k8s.io/round_0_index_0"
FAILURE = [
    {
        "message": "too many",
        "policy": "few",
        "binding": "few-everywhere",
        "expressionIndex": 0,
        "validationActions": ["Deny", "Audit"],
    }
]
# What a field may hold though no API server writes it. A text of JSON is an annotation's value, too.
VALUES: tuple[Any, ...] = (
    None,
    "",
    "x",
    "a/b",
    "..",
    "'\"",
    "*",
    "\x00\x1b[31m\u202e\ufeff\n",
    "NaN",
    "-1",
    "[1]",
    '"x"',
    "{}",
    "null",
    '[{"op":"add"}]',
    '{"patch":[{"op":"replace","path":"/a/b/0","value":[[]]}],"patchType":"JSONPatch"}',
    '[{"policy":[],"message":1}]',
    "[[[[[[[[[[]]]]]]]]]]",
    "0001-01-01T00:00:00Z",
    "9999-12-31T23:59:59.999999Z",
    0,
    -1,
    2**31,
    2**63,
    2**64,
    10**30,
    0.5,
    1e308,
    True,
    [],
    [1],
    [None],
    ["x"],
    [[]],
    [{}],
    {},
    {"": ""},
    {"x": None},
    {"a/b": {"c": [1]}},
    {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": "x"},
    {"kind": "Table", "apiVersion": "meta.k8s.io/v1", "columnDefinitions": [1], "rows": [1, {"object": 1}]},
    {"kind": "List", "apiVersion": "v1", "items": [1, None, {"metadata": []}]},
    {"kind": "Deployment", "apiVersion": "apps/v1", "metadata": {"name": 1, "labels": [], "managedFields": [1]}, "spec": []},
    "MISSING",
)


def right_events() -> list[Object]:
    """Requests of each sort, all of which an API server could have recorded."""
    log = Log()
    for name in ("shop", "lab"):
        log.write("create", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {"env": "live"}}})
    for name in ("policies", "roles", "mutating", "webhooks", "schema", "widget"):
        for obj in yaml.safe_load_all((MANIFESTS / f"{name}.yaml").read_text()):
            kind = obj["kind"].lower()
            metadata = {**obj["metadata"], "uid": f"uid-{kind}", "resourceVersion": "5"}
            plural = f"{kind[:-1]}ies" if kind.endswith("policy") else f"{kind}s"
            log.write("create", {**obj, "metadata": metadata, "plural": plural}, user="admin", groups=["ops"])
    limits = {"name": "limits", "namespace": "shop", "labels": {"limits": "yes"}, "uid": "c", "resourceVersion": "6"}
    log.write("create", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": limits, "data": {"most": "5"}})
    _workloads(log)
    _reads(log)
    _subresources(log)
    return log.lines


def _workloads(log: Log) -> None:
    labelled = {"labels": {"app": "web"}}
    log.write("create", deployment("web-1", 3, **labelled))
    notes = {f"patch.{ROUND}": json.dumps({**HOOK, "patch": PATCH, "patchType": "JSONPatch"})}
    notes |= {f"mutation.{ROUND}": json.dumps({**HOOK, "mutated": True})}
    notes |= {"authorization.k8s.io/decision": "allow", "authorization.k8s.io/reason": 'RBAC: allowed by ClusterRoleBinding "x"'}
    log.write("update", deployment("web-1", 7, **labelled), annotations=notes)
    noted = {"validation.policy.admission.k8s.io/validation_failure": json.dumps(FAILURE), "few/replicas": "9"}
    log.write("create", deployment("web-2", 9, **labelled), annotations=noted)
    log.lines[-1] |= {"responseStatus": {"code": 200, "message": "x"}}
    log.write("patch", deployment("web-2", 2, **labelled), answer=deployment("web-2", 2))
    log.lines[-1]["requestObject"] = [{"op": "replace", "path": "/spec/replicas", "value": 2}]
    log.write("patch", deployment("web-2", 3, **labelled))
    log.lines[-1]["requestObject"] = {"spec": {"replicas": 3}}
    log.lines[-1]["requestURI"] += "?fieldManager=kubectl&force=true"
    message = "is forbidden: ValidatingAdmissionPolicy 'few' with binding 'few-everywhere' denied request: too many"
    refused = {**REFUSAL, "reason": "Invalid", "message": f'deployments.apps "web-3" {message}', "code": 422}
    log.write("create", deployment("web-3", 9), responseStatus=refused, responseObject=refused)
    message = 'admission webhook "w.example.com" denied the request: no'
    refused = {**REFUSAL, "message": message, "code": 403, "reason": "Forbidden"}
    log.write("create", deployment("web-4", 1), responseStatus=refused, responseObject=refused)
    message = 'deployments.apps "web-1" is forbidden: User "eve" cannot delete resource "deployments" in API group "apps"'
    refused = {**REFUSAL, "message": message, "code": 403, "reason": "Forbidden"}
    forbidden = {"authorization.k8s.io/decision": "forbid", "authorization.k8s.io/reason": ""}
    log.write("delete", deployment("web-1", 1), responseStatus=refused, annotations=forbidden, level="Metadata", user="eve")
    log.write("delete", deployment("web-2", 3), requestObject={"kind": "DeleteOptions", "apiVersion": "v1"})
    widget = {"apiVersion": "shop.example.com/v1", "kind": "Widget", "spec": {"size": 4, "mode": "a", "lost": 1}}
    widget["metadata"] = {"name": "one", "namespace": "shop", "uid": "w", "resourceVersion": "8"}
    log.write("update", widget, user="system:serviceaccount:shop:bot", userAgent="bot/v1.2 (linux) kubernetes/abc")
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-1-abc", "uid": "r", "controller": True}
    metadata = {"name": "web-1-abc-x", "namespace": "shop", "uid": "p", "resourceVersion": "9", "ownerReferences": [owner]}
    fields = {"f:metadata": {"f:labels": {".": {}, "f:app": {}}}}
    metadata |= {"labels": {"app": "web"}, "managedFields": [{"manager": "m", "operation": "Apply", "fieldsV1": fields}]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [{"name": "c", "image": "i:1"}]}}
    log.write("create", pod, user="system:serviceaccount:kube-system:replicaset-controller", groups=["system:serviceaccounts"])
    log.write("delete", pod, requestObject={"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0})


def _reads(log: Log) -> None:
    several = {"apiVersion": "apps/v1", "kind": "DeploymentList", "metadata": {"resourceVersion": "9"}}
    for verb, rest in (("list", "?labelSelector=app%3Dweb&limit=5"), ("watch", "?watch=1&fieldSelector=metadata.name%3Dx")):
        log.write(verb, deployment("", 1), level="Metadata", requestURI=f"/apis/apps/v1/namespaces/shop/deployments{rest}")
    uri = "/apis/apps/v1/namespaces/shop/deployments?labelSelector=app%3Dx"
    listed = {**several, "items": [deployment("web-1", 1)]}
    log.write("deletecollection", deployment("", 1), requestURI=uri, responseObject=listed)
    log.write("get", deployment("web-1", 1), impersonatedUser={"username": "bob", "groups": ["dev"], "extra": {"a": ["b"]}})
    log.lines.append({**log.lines[-1], "auditID": "health", "requestURI": "/healthz?verbose"})
    del log.lines[-1]["objectRef"]


def _subresources(log: Log) -> None:
    metadata = {"name": "web-1", "namespace": "shop"}
    scale = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": metadata, "spec": {"replicas": 8}}
    log.write("update", {**scale, "plural": "deployments"}, subresource="scale")
    log.lines[-1]["objectRef"] |= {"apiGroup": "apps", "apiVersion": "v1"}
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "web-1-abc-x", "namespace": "shop"}}
    log.write("create", {**eviction, "plural": "pods"}, subresource="eviction")
    log.lines[-1]["objectRef"] |= {"apiGroup": "", "apiVersion": "v1"}
    review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "metadata": {"name": ""}}
    review["spec"] = {"user": "alice", "groups": ["dev"], "resourceAttributes": {"verb": "get", "resource": "pods"}}
    log.write("create", review, answer={**review, "status": {"allowed": True, "reason": "RBAC: allowed"}})
    request = {"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": "csr"}}
    request["spec"] = {"signerName": "example.com/s", "request": "", "usages": ["client auth"]}
    request["status"] = {"conditions": [{"type": "Approved", "status": "True"}]}
    log.write("update", request, subresource="approval")


def places(event: Object) -> list[tuple[str | int, ...]]:
    """The paths of all fields of an event, those of its bodies too."""
    return list(_places(event, ()))


def _places(value: Any, path: tuple[str | int, ...]) -> Iterator[tuple[str | int, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in items:
        yield (*path, key)
        yield from _places(part, (*path, key))


def changed(whole: Any, path: tuple[str | int, ...], value: Any) -> Any:
    """A copy with a value at a path, or without the field there, if the value is "MISSING"."""
    copied = copy.deepcopy(whole)
    place = copied
    for key in path[:-1]:
        place = place[key]
    if value == "MISSING":
        del place[path[-1]]
    else:
        place[path[-1]] = copy.deepcopy(value)
    return copied
