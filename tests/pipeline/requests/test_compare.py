"""A replay of the policies in force at the time is compared with the recorded outcomes."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from ingest.errors import EvidenceError
from pipeline import compare_with_log, plan_replay_from_log, run_replay
from pipeline.runs import RunStore
from pipeline.stages.validating.compare import Agreement, confusion, disagreements, version_hint
from pipeline.stages.validating.recorded import policies_as_of
from queries import LakeReader, open_lake

# The audit events of a small cluster, and what takes them into a lake: see conftest.py.
Cluster = Any
Ingest = Callable[[Cluster], Path]

GROUP = "admissionregistration.k8s.io"
POLICY = {
    "matchConstraints": {
        "namespaceSelector": {},
        "objectSelector": {},
        "matchPolicy": "Equivalent",
        "resourceRules": [
            {"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["deployments"], "scope": "*"}
        ],
    },
    "validations": [{"expression": "object.spec.replicas <= 5", "message": "too many"}],
    "auditAnnotations": [{"key": "replicas", "valueExpression": "string(object.spec.replicas)"}],
    "failurePolicy": "Fail",
}
DECIDED = {"authorization.k8s.io/decision": "allow"}
FAILURE = "validation.policy.admission.k8s.io/validation_failure"


def bind(cluster: Cluster, actions: list[str]) -> None:
    """The policy `limit` and a binding of it, and enough time for both to be in force."""
    for kind, plural, name, spec in (
        ("ValidatingAdmissionPolicy", "validatingadmissionpolicies", "limit", POLICY),
        ("ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings", "limit-all", _binding(actions)),
    ):
        metadata = {"name": name, "uid": name, "resourceVersion": str(1000 + len(cluster.events))}
        obj = {"kind": kind, "apiVersion": f"{GROUP}/v1", "metadata": metadata, "spec": spec}
        cluster.event("create", f"{GROUP}/{plural}", name, 201, obj, obj)
        cluster.events[-1]["objectRef"].pop("namespace")
    for _ in range(3):
        cluster.deployment("update", "busy", replicas=1)


def _binding(actions: list[str]) -> dict[str, Any]:
    return {"policyName": "limit", "validationActions": actions}


def annotate(cluster: Cluster, replicas: int, actions: list[str] | None = None) -> None:
    """What the policy leaves on the last request: its own annotation, and a failure if it has `actions` with Audit."""
    annotations = {**DECIDED, "limit/replicas": str(replicas)}
    if actions:
        failure = {
            "message": "too many",
            "policy": "limit",
            "binding": "limit-all",
            "expressionIndex": 0,
            "validationActions": actions,
        }
        annotations[FAILURE] = json.dumps([failure])
    cluster.events[-1]["annotations"] = annotations


def deny(cluster: Cluster, name: str) -> None:
    """Make the last request one that the policy refused."""
    text = "ValidatingAdmissionPolicy 'limit' with binding 'limit-all' denied request: too many"
    message = f'deployments.apps "{name}" is forbidden: {text}'
    status = {"metadata": {}, "status": "Failure", "message": message, "reason": "Invalid", "code": 422}
    cluster.events[-1] |= {"responseStatus": status, "responseObject": {"kind": "Status", "apiVersion": "v1", **status}}


@pytest.fixture
def compared(cluster: Cluster, ingest: Ingest) -> Callable[[], tuple[tuple[Agreement, ...], LakeReader]]:
    def compare() -> tuple[tuple[Agreement, ...], LakeReader]:
        lake = ingest(cluster)
        reader = open_lake(lake, threads=1)
        summary = run_replay(plan_replay_from_log(reader), lake)
        return compare_with_log(reader, RunStore(lake).run(summary.run_id).verdicts), reader

    return compare


def test_what_the_log_recorded_agrees(cluster: Cluster, compared: Any) -> None:
    bind(cluster, ["Deny", "Audit"])
    cluster.deployment("create", "small", replicas=2)
    annotate(cluster, 2)
    cluster.deployment("create", "large", replicas=9, code=422)
    annotate(cluster, 9, ["Deny", "Audit"])
    deny(cluster, "large")
    agreements, reader = compared()
    assert agreements == (Agreement("limit", "limit-all", 2, 0, 0, 0, annotations_compared=2, annotations_agreed=2),)
    assert agreements[0].compared == 2
    assert disagreements(reader).fetchall() == []


def outcomes(reader: LakeReader) -> dict[tuple[str, str], int]:
    """The one (policy, resource) of a comparison: requests by recorded and replayed outcome."""
    (found,) = confusion(reader)
    assert (found.policy, found.resource) == ("limit", "deployments.apps")
    return {(str(recorded), str(replayed)): count for (recorded, replayed), count in found.requests.items() if count}


def test_outcomes_are_counted_by_what_is_recorded_and_what_is_replayed(cluster: Cluster, compared: Any) -> None:
    bind(cluster, ["Deny", "Audit"])
    cluster.deployment("create", "small", replicas=2)
    annotate(cluster, 2)
    cluster.deployment("create", "large", replicas=9)
    annotate(cluster, 9, ["Deny", "Audit"])
    deny(cluster, "large")
    assert outcomes(compared()[1]) == {("none", "none"): 1, ("deny", "deny"): 1}


def test_requests_from_before_the_policy_are_not_compared(cluster: Cluster, compared: Any) -> None:
    bind(cluster, ["Audit"])
    assert compared()[0] == ()


def test_a_request_that_was_admitted_and_is_replayed_as_denied_disagrees(cluster: Cluster, compared: Any) -> None:
    bind(cluster, ["Deny"])
    cluster.deployment("create", "large", replicas=9)
    annotate(cluster, 8)
    agreements, reader = compared()
    assert agreements == (Agreement("limit", "limit-all", 0, 1, 0, 0, annotations_compared=1, annotations_agreed=0),)
    columns = "about, recorded, replayed, recorded_messages, replayed_messages"
    assert disagreements(reader).project(columns).fetchall() == [
        ("the request was admitted and is replayed as denied", "none", "deny", [], ["too many"])
    ]
    assert outcomes(reader) == {("none", "deny"): 1}


def test_a_failure_that_is_replayed_and_not_recorded_disagrees(cluster: Cluster, compared: Any) -> None:
    bind(cluster, ["Audit"])
    cluster.deployment("create", "large", replicas=9)
    annotate(cluster, 9)
    assert compared()[0][0].disagreed == 1


def _records(cluster: Cluster, *failures: str) -> None:
    """A request that `limit` refuses by both bindings, of which the record has these bindings' failures."""
    cluster.deployment("create", f"large-{len(cluster.events)}", replicas=9)
    annotate(cluster, 9, ["Audit"])
    annotations = cluster.events[-1]["annotations"]
    (failure,) = json.loads(annotations[FAILURE])
    annotations[FAILURE] = json.dumps([{**failure, "binding": name} for name in failures])


@pytest.mark.parametrize(
    ("failures", "version", "hint"),
    [
        (("limit-all", "limit-too"), (1, 36), "1 request has several failures in the record"),
        (("limit-all", "limit-too"), (1, 37), ""),
        (("limit-all",), (1, 37), "though 1 are replayed with more"),
        (("limit-all",), (1, 36), ""),
    ],
)
def test_the_record_tells_which_versions_wrote_it(
    cluster: Cluster, ingest: Ingest, failures: tuple[str, ...], version: tuple[int, int], hint: str
) -> None:
    metadata = {"name": "limit-too", "uid": "too", "resourceVersion": "900"}
    kind = "ValidatingAdmissionPolicyBinding"
    obj = {"kind": kind, "apiVersion": f"{GROUP}/v1", "metadata": metadata, "spec": _binding(["Audit"])}
    cluster.event("create", f"{GROUP}/validatingadmissionpolicybindings", "limit-too", 201, obj, obj)
    cluster.events[-1]["objectRef"].pop("namespace")
    bind(cluster, ["Audit"])
    _records(cluster, *failures)
    lake = ingest(cluster)
    reader = open_lake(lake, threads=1)
    try:
        summary = run_replay(plan_replay_from_log(reader, kubernetes_version=version), lake)
        compare_with_log(reader, RunStore(lake).run(summary.run_id).verdicts, version)
        found = version_hint(reader, version)
    finally:
        reader.close()
    assert hint in found if hint else not found


def test_no_policy_is_in_force_while_the_first_one_is_written(cluster: Cluster, ingest: Ingest) -> None:
    written = cluster.start + timedelta(seconds=len(cluster.events))
    bind(cluster, ["Audit"])
    reader = open_lake(ingest(cluster), threads=1)
    try:
        with pytest.raises(EvidenceError, match="a change was in flight") as found:
            policies_as_of(reader, "lab", written + timedelta(seconds=1.2))
        first = datetime.fromisoformat(found.value.hint.split()[1])
        assert first - written < timedelta(seconds=3)
        assert [policy.name for policy in policies_as_of(reader, "lab", first).policies] == ["limit"]
        with pytest.raises(EvidenceError, match="neither log nor snapshots"):
            policies_as_of(reader, "lab", written - timedelta(seconds=1))
    finally:
        reader.close()


def test_a_log_without_annotations_tells_of_denials_alone(cluster: Cluster, compared: Any) -> None:
    bind(cluster, ["Deny", "Audit"])
    cluster.deployment("create", "small", replicas=2)
    cluster.deployment("create", "large", replicas=9, code=422)
    deny(cluster, "large")
    agreements, reader = compared()
    assert agreements == (Agreement("limit", "limit-all", 2, 0, 0, 0),)
    assert outcomes(reader) == {("none", "none"): 1, ("deny", "deny"): 1}


def test_a_log_without_annotations_tells_nothing_of_a_binding_that_audits(cluster: Cluster, compared: Any) -> None:
    bind(cluster, ["Audit"])
    cluster.deployment("create", "small", replicas=2)
    cluster.deployment("create", "large", replicas=9)
    agreements, reader = compared()
    assert agreements == (Agreement("limit", "limit-all", 0, 0, 0, 2),)
    assert outcomes(reader) == {("unknown", "none"): 1, ("unknown", "failure"): 1}


def test_a_binding_that_only_warns_leaves_no_trace(cluster: Cluster, compared: Any) -> None:
    bind(cluster, ["Warn"])
    cluster.deployment("create", "large", replicas=9)
    annotate(cluster, 9)
    assert compared()[0] == (Agreement("limit", "limit-all", 0, 0, 0, 1, annotations_compared=1, annotations_agreed=1),)


@pytest.mark.parametrize(
    ("recorded", "expected"),
    [
        ("nothing", []),  # it was not in force yet: that is no agreement either
        ("annotation", [("limit-all", 1, 0)]),  # neither version leaves this
        ("failure", [("limit-all", 1, 0)]),  # it was in force, which the record alone tells
    ],
)
def test_while_a_binding_is_changed_the_record_may_tell_which_version_was_met(
    cluster: Cluster, compared: Any, recorded: str, expected: list[Any]
) -> None:
    bind(cluster, ["Audit"])
    del cluster.events[-3:]
    cluster.deployment("create", "large", replicas=9)
    if recorded == "nothing":
        cluster.events[-1]["annotations"] = DECIDED
    else:
        annotate(cluster, 9, ["Audit"] if recorded == "failure" else None)
    agreements = compared()[0]
    assert [(item.binding, item.unknown, item.compared) for item in agreements] == expected
