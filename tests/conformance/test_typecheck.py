"""Type checking of policies against schemas: the warnings that a live Kubernetes 1.36 wrote into the status of policies."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import zstandard

from pipeline.openapi import Schemas, built_in_documents
from pipeline.policies.compile import compile_policy
from pipeline.policies.model import Policy
from pipeline.stages.validating.load import parse_policy_set
from pipeline.stages.validating.typecheck import expression_warnings
from tests.built_in_schemas import FILE, built_in_text
from tests.yaml_text import load_yaml, load_yaml_all

pytestmark = pytest.mark.conformance

# The groups that do not come with Hindcast; where both describe a kind, what comes with Hindcast counts.
NATIVE = Path(__file__).parents[1] / "cases" / "typecheck" / "native_schemas.yaml"
VERSION = (1, 36)


def listed(snapshot: Path, name: str) -> list[dict[str, Any]]:
    data = (snapshot / f"{name}.json.zst").read_bytes()
    return list(json.loads(zstandard.ZstdDecompressor().decompress(data, max_output_size=1 << 30))["items"])


def documents() -> list[dict[str, Any]]:
    return [*load_yaml(NATIVE.read_text()), *built_in_documents()]


def policy_of(document: dict[str, Any]) -> Policy:
    text = json.dumps({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", **document})
    return parse_policy_set([("recorded", text)]).policies[0]


@pytest.mark.parametrize("moment", ["2-audit", "5-end"])
def test_recorded_warnings(shared: Path, moment: str) -> None:
    snapshot = shared / "data" / "control-plane-a" / "snapshots" / moment
    schemas = Schemas(listed(snapshot, "customresourcedefinitions"), documents())
    policies = listed(snapshot, "validatingadmissionpolicys")
    warned = 0
    for document in policies:
        recorded = document["status"].get("typeChecking", {}).get("expressionWarnings", [])
        found = expression_warnings(policy_of(document), schemas, VERSION)
        assert [{"fieldRef": each.field_ref, "warning": each.warning} for each in found] == recorded, document["metadata"]["name"]
        warned += len(recorded)
    assert warned >= 13


def test_schemas_that_come_with_hindcast_are_those_that_a_server_published(shared: Path) -> None:
    assert built_in_text(shared) == FILE.read_text(encoding="utf-8"), "run python -m tests.built_in_schemas SHARED"


def documented(shared: Path, name: str, resources: list[str]) -> Policy:
    """The policy of this name among those of the Kubernetes documentation that is for exactly these resources."""
    documents = load_yaml_all((shared / "corpora" / "k8s-website" / "vap-examples.yaml").read_text())
    named = [each for each in documents if each and each["metadata"]["name"] == name]
    (found,) = [each for each in named if each["spec"]["matchConstraints"]["resourceRules"][0]["resources"] == resources]
    return policy_of({key: found[key] for key in ("metadata", "spec")})


def test_documented_policy_with_a_wrong_field(shared: Path) -> None:
    """It reads object.replicas where deployments have object.spec.replicas."""
    policy = documented(shared, "replica-policy.example.com", ["deployments", "replicasets"])
    (warning,) = expression_warnings(policy, Schemas((), documents()), VERSION)
    assert warning.field_ref == "spec.validations[0].expression"
    issue = "ERROR: <input>:1:7: undefined field 'replicas'\n | object.replicas > 1\n | ......^\n"
    assert warning.warning == f"apps/v1, Kind=Deployment: {issue}\napps/v1, Kind=ReplicaSet: {issue}"
    assert compile_policy(policy, VERSION).errors == ()


def test_documented_policy_with_a_wrong_function(shared: Path) -> None:
    """It calls startWith. That no server accepts, with or without schemas; for resources `*` there is no type checking."""
    policy = documented(shared, "demo-policy.example.com", ["*"])
    (wrong,) = compile_policy(policy, VERSION).errors
    issue = "ERROR: <input>:1:31: undeclared reference to 'startWith' (in container '')"
    assert wrong.error == f"compilation failed: {issue}\n | object.metadata.name.startWith('demo')\n | {'.' * 30}^"
    assert expression_warnings(policy, Schemas((), documents()), VERSION) == ()
