"""Which requests have a lane, and what is looked at in it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pipeline.policies.dispatch import compile_set
from pipeline.request import Operation
from pipeline.requests.lanes import Lane, LaneName
from pipeline.stages.validating.load import parse_policy_set
from pipeline.stages.validating.policies import lane_of

POLICY = """
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {{name: tried}}
spec:
  matchConstraints:
    resourceRules:
    - {{apiGroups: [apps], apiVersions: [v1], operations: ["*"], resources: [deployments, deployments/scale]{names}}}
{selector}
  validations:
  - expression: "{expression}"
"""


def lane(expression: str, verb: str = "update", subresource: str = "", names: str = "", selector: str = "") -> Lane | None:
    """The lane of writes of Deployments under one policy."""
    text = POLICY.format(expression=expression, names=names, selector=selector)
    policies = compile_set(parse_policy_set([("case", text)]))
    return lane_of(LaneName("c", "apps", "v1", "deployments", subresource, verb), policies)


def body(**spec: Any) -> str:
    """A Deployment as the API server answers with it, with members that no policy here reads."""
    return json.dumps({"kind": "Deployment", "apiVersion": "apps/v1", "metadata": {"name": "web", "uid": "u"}, "spec": spec})


@pytest.mark.parametrize(
    "expression",
    ["oldObject == null", "object.metadata.resourceVersion != ''", "object.metadata.size() > 0", "object.size() > 0"],
)
def test_what_needs_another_version_has_no_lane(expression: str) -> None:
    assert lane(expression) is None
    assert (lane(expression, "create") is None) == ("oldObject" in expression)


def test_deletions_connections_and_beside_an_object_have_no_lane() -> None:
    assert lane("true", "delete") is None
    assert lane("true", "create", "scale") is None
    assert lane("true", "update", "scale") is not None
    assert lane_of(LaneName("c", "", "v1", "namespaces", "", "create"), compile_set(parse_policy_set([]))) is None


@pytest.mark.parametrize(
    ("expression", "columns"),
    [
        ("object.spec.replicas < 5", ()),
        ("request.operation == 'UPDATE' && request.namespace != ''", ()),
        ("request.userInfo.username == 'x'", ("user_name", "impersonated_user")),
        ("request.name == 'x'", ("name",)),
        ("request.dryRun", ("request_uri",)),
    ],
)
def test_columns_are_those_that_are_read(expression: str, columns: tuple[str, ...]) -> None:
    found = lane(expression)
    assert found is not None
    assert found.columns == columns


def test_groups_are_read_with_the_whole_user() -> None:
    for expression in ("'x' in request.userInfo.groups", "has(request.userInfo.uid)", "dyn(request).size() > 0"):
        found = lane(expression)
        assert found is not None
        assert {"user_name", "user_groups", "user_extra", "impersonated_user"} <= set(found.columns)


def test_names_in_rules_are_part_of_a_request() -> None:
    found = lane("true", names=", resourceNames: [web]")
    assert found is not None
    assert found.columns == ("name",)


def test_only_what_is_read_tells_requests_apart() -> None:
    found = lane("object.spec.replicas < 5")
    assert found is not None

    def key(text: str) -> object:
        value = found.value(text)
        assert value is not None
        return found.key(found.parted(value), False, "shop", 0, ())

    assert key(body(replicas=1, paused=0)) == key(body(replicas=1))
    # A number is not a flag, nor a double: policies see the difference.
    specs: list[dict[str, Any]] = [{"replicas": 1}, {"replicas": 2}, {"replicas": 1.0}, {"replicas": True}, {"replicas": None}, {}]
    assert len({key(body(**spec)) for spec in specs}) == len(specs)


@pytest.mark.parametrize(
    "text",
    [
        "[1]",
        '"Status"',
        '{"kind":"Status","apiVersion":"v1","metadata":{}}',
        '{"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":{}}',
        '{"kind":"DeploymentList","apiVersion":"apps/v1","metadata":{}}',
        '{"kind":"Deployment","apiVersion":"apps/v1"}',
        "{",
    ],
)
def test_what_is_no_object_is_left_to_the_general_way(text: str) -> None:
    found = lane("object.spec.replicas < 5")
    assert found is not None
    assert found.value(text) is None


def test_a_selector_of_objects_may_ask_for_the_old_one() -> None:
    selector = "    objectSelector: {matchLabels: {app: web}}"
    row = dict.fromkeys(["request_uri", "namespace", "user_name", "user_uid", "user_extra", "impersonated_user"])
    row |= {"audit_id": "a", "ts": None, "stage_ts": None, "code": 200, "name": "web", "user_groups": []}
    for text, expected in (("", False), (selector, True)):
        found = lane("object.spec.replicas < 5", selector=text)
        assert found is not None
        value = found.value(body())
        assert value is not None
        request = found.request(value, row)
        assert request.operation is Operation.UPDATE
        assert found.may_know_more(request) is expected
