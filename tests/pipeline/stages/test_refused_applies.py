"""Applies that create, and refused ones that would have: in a namespace that was made in the log, nothing else can be there."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from typing import Any

import polars as pl
import pytest
import yaml

from pipeline.manifests.files import manifests_of
from pipeline.runs import RunKind, RunStore
from pipeline.stages.registry import MUTATING
from pipeline.stages.stage import Asked
from queries import open_lake
from tests.recording import Log, take_in

GROUP = "admissionregistration.k8s.io/v1"
MISMATCH = "the namespace of the provided object does not match the namespace sent on the request"
NEEDS_PARAM = "Object{metadata: Object.metadata{labels: {'team': params.data.team}}}"
REFUSED = (
    "policy 'team' with binding 'team' denied request: failed to configure binding: "
    "no params found for policy binding with `Deny` parameterNotFoundAction"
)


def named(kind: str, name: str, namespace: str, version: str = "v1", **more: Any) -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, "namespace": namespace, "uid": name}, **more}


def apply(log: Log, value: Mapping[str, Any], code: int, message: str = "", answer: Mapping[str, Any] | None = None) -> None:
    group = "apis/apps/v1" if value["kind"] == "Deployment" else "api/v1"
    place = f"namespaces/{value['metadata']['namespace']}/{value['kind'].lower()}s/{value['metadata']['name']}"
    status = {"code": code} if code < 400 else {"code": code, "status": "Failure", "message": message, "reason": "Forbidden"}
    response = {"kind": "Status", "apiVersion": "v1", "metadata": {}, **status} if code >= 400 else answer
    log.write(
        "patch",
        value,
        requestURI=f"/{group}/{place}?fieldManager=ci&force=true",
        requestObject={**value, "metadata": {name: each for name, each in value["metadata"].items() if name != "uid"}},
        responseStatus=status,
        responseObject=response,
    )


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    log = Log()
    log.write("create", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop", "uid": "shop"}})
    log.write(
        "update", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "old", "uid": "old", "resourceVersion": "3"}}
    )
    for namespace in ("shop", "old"):
        log.write("create", named("ConfigMap", "other", namespace, data={}))
        apply(log, named("ConfigMap", "refused", namespace, data={}), 403, REFUSED)
        spec = {"selector": {"matchLabels": {"a": "b"}}, "template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}}
        made = named("Deployment", "made", namespace, "apps/v1", spec=spec)
        apply(log, made, 201, answer=made)
    for name, body in (("moved", "shop"), ("misplaced", "old")):
        status = {"code": 400, "status": "Failure", "message": MISMATCH, "reason": "BadRequest"}
        sent = {**named("ConfigMap", name, body, data={})}
        response = {"kind": "Status", "apiVersion": "v1", "metadata": {}, **status}
        log.write("create", named("ConfigMap", name, "shop"), requestObject=sent, responseStatus=status, responseObject=response)
    constraints = [
        {
            "apiGroups": ["", "apps"],
            "apiVersions": ["v1"],
            "operations": ["CREATE", "UPDATE"],
            "resources": ["configmaps", "deployments"],
        }
    ]
    spec = {
        "paramKind": {"apiVersion": "v1", "kind": "Secret"},
        "reinvocationPolicy": "Never",
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": constraints},
        "matchConditions": [{"name": "refused", "expression": "object.metadata.name == 'refused' || object.spec.replicas == 1"}],
        "mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": NEEDS_PARAM}}],
    }
    log.write("create", named("Secret", "one", "shop", data={}))
    bound = {"policyName": "team", "paramRef": {"name": "absent", "parameterNotFoundAction": "Deny"}}
    text = yaml.safe_dump_all(
        {"apiVersion": GROUP, "kind": kind, "metadata": {"name": "team"}, "spec": each}
        for kind, each in (("MutatingAdmissionPolicy", spec), ("MutatingAdmissionPolicyBinding", bound))
    )
    lake = take_in(tmp_path_factory.mktemp("applies") / "lake", log.lines)
    with closing(open_lake(lake)) as reader:
        plan = MUTATING.plan(reader, MUTATING.read(manifests_of([("policies.yaml", text)])), Asked())
        MUTATING.run(plan, lake, 1, None, RunKind.REPLAY)
    found = pl.read_parquet(RunStore(lake).run(plan.run_id).verdicts).filter(pl.col("policy") == "mutating").to_dicts()
    names = {
        each["auditID"]: f"{each['objectRef']['namespace']}/{each['objectRef']['name']}"
        for each in log.lines
        if "namespace" in each["objectRef"]
    }
    return {names[row["audit_id"]]: row for row in found}


def test_a_refused_apply_of_an_object_that_cannot_have_been_there_is_a_create(rows: dict[str, dict[str, Any]]) -> None:
    """And no param of that name can have been there either: both follow from the making of the namespace."""
    row = rows["shop/refused"]
    assert (row["decision"], row["effect"], row["flip"], row["message"]) == ("error", "deny", "same", REFUSED)


def test_elsewhere_it_may_have_been_an_update(rows: dict[str, dict[str, Any]]) -> None:
    row = rows["old/refused"]
    assert row["decision"] == "unknown"
    assert row["why"] == "an apply of an object that the log does not show: it is a create or an update"


def test_an_apply_that_creates_gets_the_defaults_of_its_kind(rows: dict[str, dict[str, Any]]) -> None:
    """The condition reads a default, so the policy asks for its param."""
    assert rows["shop/made"]["decision"] == "error"
    assert "params" in rows["old/made"]["why"]


def test_a_refused_value_that_the_client_did_not_send_came_from_mutation(rows: dict[str, dict[str, Any]]) -> None:
    """The server compares namespaces before and after mutating admission; of the second body both may have been."""
    assert rows["shop/moved"]["decision"] == "error"
    assert rows["shop/misplaced"]["why"].startswith("whether it reached mutating policies: ")
