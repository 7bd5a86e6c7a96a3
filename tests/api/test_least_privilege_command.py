"""`hindcast least-privilege`: roles for what a user did, and the rights that were not used."""

from __future__ import annotations

import json
import shutil
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from api.cli import run
from pipeline.authorization import GivenRbac, authorize
from pipeline.cel.library.authorizer import Attributes
from pipeline.request import UserInfo
from tests.recording import START, Object, take_in
from tests.yaml_text import load_yaml_all

ROBOT = "system:serviceaccount:ci:robot"
RBAC = "rbac.authorization.k8s.io"


def event(number: int, user: str, verb: str, uri: str, decision: str = "allow", code: int = 200, **more: Any) -> Object:
    """One event at the level Metadata."""
    at = START + timedelta(seconds=number)
    parts = uri.split("?")[0].strip("/").split("/")
    allowed = f'RBAC: allowed by ClusterRoleBinding "admins" of ClusterRole "cluster-admin" to User "{user}"'
    return {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "level": "Metadata",
        "auditID": f"id-{number}",
        "stage": "ResponseComplete",
        "requestURI": uri,
        "verb": verb,
        "user": {"username": user, "groups": ["system:authenticated"]},
        "objectRef": {"resource": parts[4] if len(parts) > 4 else parts[-1], "apiVersion": "v1"},
        "responseStatus": {"metadata": {}, "code": code},
        "requestReceivedTimestamp": f"{at:%Y-%m-%dT%H:%M:%S.%f}Z",
        "stageTimestamp": f"{at:%Y-%m-%dT%H:%M:%S.%f}Z",
        "annotations": {
            "authorization.k8s.io/decision": decision,
            "authorization.k8s.io/reason": allowed if decision == "allow" else "",
        },
        **more,
    }


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    events = [
        event(1, ROBOT, "get", "/api/v1/namespaces/shop/pods/web"),
        event(2, ROBOT, "get", "/api/v1/namespaces/shop/pods/web"),
        event(3, ROBOT, "list", "/api/v1/nodes?limit=500"),
        event(4, ROBOT, "get", "/apis/apps/v1"),
        event(5, ROBOT, "delete", "/api/v1/namespaces/shop/secrets/db", "forbid", 403),
        event(6, "ann", "get", "/api/v1/namespaces/pay/pods/web"),
    ]
    return take_in(tmp_path / "lake", events)


def test_the_roles_are_yaml_and_are_checked(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--lake", str(lake), "least-privilege", "--subject", ROBOT]) == 0
    captured = capsys.readouterr()
    objects = list(load_yaml_all(captured.out))
    assert [(each["kind"], each["metadata"]["name"]) for each in objects] == [
        ("ClusterRole", "least-ci-robot"),
        ("ClusterRoleBinding", "least-ci-robot"),
        ("Role", "least-ci-robot"),
        ("RoleBinding", "least-ci-robot"),
    ]
    rbac, robot = GivenRbac(objects), UserInfo(ROBOT)
    assert authorize(rbac, robot, Attributes("get", "", "", "pods", "", "shop", "web")).allowed
    assert not authorize(rbac, robot, Attributes("get", "", "", "pods", "", "shop", "other")).allowed
    assert not authorize(rbac, robot, Attributes("delete", "", "", "secrets", "", "shop", "db")).allowed
    assert "replay under these roles alone: 4 of 4 requests allowed, 0 refused" in captured.err
    assert "1 requests were refused then, and the roles do not allow them: delete secrets in shop" in captured.err
    assert "every authenticated user may make them: 1 (--no-defaults)" in captured.err


def test_a_table_lists_the_rights_with_their_use(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--lake", str(lake), "--quiet", "least-privilege", "--subject", ROBOT, "--no-defaults", "-o", "csv"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "namespace,verb,resource,name,requests,first_ts,last_ts"
    assert [line.rsplit(",", 2)[0] for line in lines[1:]] == [",get,/apis/apps/v1,,1", ",list,nodes,,1", "shop,get,pods,web,2"]


def test_a_list_is_one_json_document(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--lake", str(lake), "--quiet", "least-privilege", "--subject", ROBOT, "--name", "mine", "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["kind"], {each["metadata"]["name"] for each in found["items"]}) == ("List", {"mine"})


def test_an_unknown_subject_is_named_with_similar_ones(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--lake", str(lake), "least-privilege", "--subject", "robot"]) == 3
    assert f"no allowed request of robot is recorded; did you mean {ROBOT}?" in capsys.readouterr().err


def test_a_subject_is_needed(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--lake", str(lake), "least-privilege"]) == 2
    assert "--subject" in capsys.readouterr().err


def test_unused_rules_are_listed_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    roles: list[dict[str, Any]] = [
        {
            "apiVersion": f"{RBAC}/v1",
            "kind": "ClusterRole",
            "metadata": {"name": "robots"},
            "rules": [
                {"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods"]},
                {"verbs": ["delete"], "apiGroups": [""], "resources": ["secrets"]},
            ],
        },
        {
            "apiVersion": f"{RBAC}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": "robots"},
            "roleRef": {"kind": "ClusterRole", "name": "robots"},
            "subjects": [{"kind": "ServiceAccount", "name": "robot", "namespace": "ci"}],
        },
    ]
    events = [event(9, ROBOT, "get", "/api/v1/namespaces/shop/pods/web")]
    for number, role in enumerate(roles):
        plural = f"{role['kind'].lower()}s"
        body = {**role, "metadata": {**role["metadata"], "uid": plural, "resourceVersion": "1"}}
        reference = {"resource": plural, "apiGroup": RBAC, "apiVersion": "v1", "name": "robots"}
        written = {"level": "RequestResponse", "objectRef": reference, "requestObject": role, "responseObject": body}
        events.append(event(number, "ann", "create", f"/apis/{RBAC}/v1/{plural}", code=201, **written))
    lake = take_in(tmp_path / "lake", events)
    assert run(["--lake", str(lake), "--quiet", "least-privilege", "--unused", "--subject", ROBOT, "-o", "json"]) == 0
    table = json.loads(capsys.readouterr().out)["grants"]
    found = [(row["rule"], row["requests"], row["unused_verbs"], row["seen"]) for row in table]
    assert found == [
        ('{APIGroups:[""], Resources:["secrets"], Verbs:["delete"]}', 0, "delete", 0),
        ('{APIGroups:[""], Resources:["pods"], Verbs:["get" "list"]}', 1, "list", 1),
    ]


def test_least_roles_take_the_place_of_cluster_admin(demo_lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The walk of the README: with the roles alone the service account is refused nothing new; without them it is."""
    subject, lake = "system:serviceaccount:gitops:applier", shutil.copytree(demo_lake, tmp_path / "lake")
    assert run(["-q", "--lake", str(lake), "least-privilege", "--subject", subject]) == 0
    roles, removed, both = capsys.readouterr().out, tmp_path / "removed.yaml", tmp_path / "both.yaml"
    reference = {"apiGroup": RBAC, "kind": "ClusterRole", "name": "cluster-admin"}
    binding = {"apiVersion": f"{RBAC}/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "gitops"}, "roleRef": reference}
    removed.write_text(yaml.safe_dump({**binding, "subjects": []}))
    both.write_text(f"{roles}---\n{removed.read_text()}")
    denied = {}
    for path in (both, removed):
        asked = ["readiness", "-f", str(path), "--no-calibrate", "--no-exemptions", "-o", "json"]
        assert run(["-q", "--lake", str(lake), *asked]) == 0
        (entry,) = json.loads(capsys.readouterr().out)["policies"]
        denied[path] = entry["denials"]["requests"]
    assert denied[both] == 0
    assert denied[removed] == 371  # all but the discovery that every authenticated user may do


# A log without URIs has the verb and the object. A create has the name of the body; a request for no resource has nothing.
NO_URI = {"requestURI": None, "user": {"username": ROBOT}}
CREATED = {"resource": "replicasets", "namespace": "shop", "name": "web-1", "apiGroup": "apps", "apiVersion": "v1"}
READ = {"resource": "nodes", "name": "n1", "apiVersion": "v1"}


def referring(number: int, verb: str, reference: Object | None, **more: Any) -> Object:
    return {**event(number, ROBOT, verb, "/"), **NO_URI, "objectRef": reference, **more}


def test_roles_come_from_objects_where_the_log_has_no_uri(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lake = take_in(tmp_path / "lake", [referring(1, "create", CREATED), referring(2, "get", READ), referring(3, "get", None)])
    assert run(["--lake", str(lake), "least-privilege", "--subject", ROBOT]) == 0
    captured = capsys.readouterr()
    rules = [(each["metadata"].get("namespace"), rule) for each in load_yaml_all(captured.out) for rule in each.get("rules", ())]
    assert rules == [
        (None, {"apiGroups": [""], "resources": ["nodes"], "resourceNames": ["n1"], "verbs": ["get"]}),
        ("shop", {"apiGroups": ["apps"], "resources": ["replicasets"], "verbs": ["create"]}),
    ]
    assert "2 of 3 requests allowed, 0 refused, 1 unknown" in captured.err


def test_a_request_that_the_log_does_not_describe_gives_no_role(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lake = take_in(tmp_path / "lake", [referring(1, "get", None)])
    assert run(["--lake", str(lake), "least-privilege", "--subject", ROBOT]) != 0
    captured = capsys.readouterr()
    assert captured.out == ""
    assert f"the log does not show what 1 of 1 allowed requests of {ROBOT} asked for" in captured.err


def test_a_rule_in_use_is_not_unused_where_the_log_has_neither_uri_nor_groups(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The rule of the user's own binding is used, and the one of a group may be."""
    written = []
    for number, (name, subject) in enumerate(
        [("own", {"kind": "User", "name": ROBOT}), ("team", {"kind": "Group", "name": "team"})]
    ):
        role = {"rules": [{"verbs": ["create"], "apiGroups": ["apps"], "resources": ["replicasets"]}]}
        binding = {"roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": name}, "subjects": [subject]}
        for place, (kind, content) in enumerate([("ClusterRole", role), ("ClusterRoleBinding", binding)]):
            body = {
                "apiVersion": f"{RBAC}/v1",
                "kind": kind,
                "metadata": {"name": name, "uid": name + kind, "resourceVersion": "1"},
            }
            whole = {"level": "RequestResponse", "responseObject": {**body, **content}, "requestObject": {**body, **content}}
            plural = f"{kind.lower()}s"
            reference = {"resource": plural, "name": name, "apiGroup": RBAC, "apiVersion": "v1"}
            uri = f"/apis/{RBAC}/v1/{plural}"
            written.append(event(2 * number + place, "root", "create", uri, code=201, objectRef=reference, **whole))
    lake = take_in(tmp_path / "lake", [*written, referring(9, "create", CREATED)])
    assert run(["--lake", str(lake), "least-privilege", "--unused", "-o", "json"]) == 0
    rows = {row["binding"]: row for row in json.loads(capsys.readouterr().out)["grants"]}
    assert [(rows[name]["requests"], rows[name]["possible"]) for name in ("own", "team")] == [(1, 0), (0, 1)]
