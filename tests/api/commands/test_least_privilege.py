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
from ingest.notes import PREFIX, REDACTED
from ingest.redaction.redact import Redactor
from pipeline.authorization import GivenRbac, authorize
from pipeline.cel.library.authorizer import Attributes
from pipeline.request import UserInfo
from tests.rbac_validation import violations
from tests.recording import START, Object, reference_of, take_in
from tests.yaml_text import load_yaml_all

ROBOT = "system:serviceaccount:ci:robot"
RBAC = "rbac.authorization.k8s.io"


def event(number: int, user: str, verb: str, uri: str, decision: str = "allow", code: int = 200, **more: Any) -> Object:
    """One event at the level Metadata."""
    at = START + timedelta(seconds=number)
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
        **reference_of(uri),
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
    assert "replay --only of this file: 3 of 4 requests allowed, 1 refused" in captured.err
    assert "  1 refused, such as get /apis/apps/v1: the file leaves them to system:discovery" in captured.err
    assert "every recorded use was refused, and which the roles do not give: delete secrets in shop" in captured.err


def test_with_the_default_rights_the_replay_allows_everything(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--lake", str(lake), "least-privilege", "--subject", ROBOT, "--no-defaults"]) == 0
    assert "replay --only of this file: 4 of 4 requests allowed, 0 refused" in capsys.readouterr().err


def roles_for(lake: Path, capsys: pytest.CaptureFixture[str], *more: str) -> tuple[list[Object], str]:
    """The objects of the printed YAML, which a server takes, and what the command says."""
    capsys.readouterr()
    assert run(["--lake", str(lake), "least-privilege", "--subject", ROBOT, *more]) == 0
    captured = capsys.readouterr()
    objects = [each for each in load_yaml_all(captured.out) if each]
    assert violations(objects) == []
    return objects, captured.err


def parts(objects: list[Object], part: str) -> set[str]:
    return {value for each in objects for rule in each.get("rules", ()) for value in rule.get(part, ())}


@pytest.mark.parametrize(
    "uri",
    [
        "/api/v1/namespaces/shop/*",
        "/apis/*/v1/namespaces/shop/pods",
        "/metrics*",
        "/*",
        "/api/v1/namespaces/*/pods/web",
        "/api/v1/namespaces/Shop_1/pods",
        "/api/v1/namespaces/shop/nodes/one",
    ],
)
def test_a_url_that_only_a_wildcard_allows_widens_no_role(tmp_path: Path, capsys: pytest.CaptureFixture[str], uri: str) -> None:
    """A client chooses its URL: cluster-admin may ask for `/*`, and a rule for `/*` is one for everything."""
    events = [event(1, ROBOT, "get", "/api/v1/namespaces/shop/pods/web"), event(2, ROBOT, "get", uri, code=404)]
    objects, said = roles_for(take_in(tmp_path / "lake", events), capsys)
    assert [each["metadata"].get("namespace") for each in objects] == ["shop", "shop"]
    assert (parts(objects, "resources"), parts(objects, "apiGroups"), parts(objects, "nonResourceURLs")) == ({"pods"}, {""}, set())
    assert "replay --only of this file: 1 of 2 requests allowed, 1 refused" in said


def test_a_namespace_is_an_object_of_the_cluster(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    events = [event(1, ROBOT, "patch", "/api/v1/namespaces/shop"), event(2, ROBOT, "update", "/api/v1/namespaces/shop/finalize")]
    objects, said = roles_for(take_in(tmp_path / "lake", events), capsys)
    assert [each["kind"] for each in objects] == ["ClusterRole", "ClusterRoleBinding"]
    assert parts(objects, "resourceNames") == {"shop"}
    assert "2 of 2 requests allowed, 0 refused" in said


def test_a_deleted_namespace_is_named_and_gets_no_role(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made: Object = {"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": "gone", "uid": "u", "resourceVersion": "1"}}
    reference = {"resource": "namespaces", "name": "gone", "namespace": "gone", "apiVersion": "v1"}
    bodies = {"level": "RequestResponse", "objectRef": reference, "responseObject": made}
    leaving = {**made, "metadata": {**made["metadata"], "deletionTimestamp": "2026-01-01T00:00:04Z", "resourceVersion": "2"}}
    events = [
        event(1, "ann", "create", "/api/v1/namespaces", code=201, **bodies),
        event(2, ROBOT, "get", "/api/v1/namespaces/gone/pods/web"),
        event(3, ROBOT, "get", "/api/v1/namespaces/shop/pods/web"),
        event(4, "ann", "delete", "/api/v1/namespaces/gone", **{**bodies, "responseObject": leaving}),
    ]
    objects, said = roles_for(take_in(tmp_path / "lake", events), capsys)
    assert {each["metadata"]["namespace"] for each in objects} == {"shop"}
    assert "1 refused, such as get pods gone/web: the namespace gone was deleted" in said


def approval(number: int, code: int, message: str = "") -> Object:
    uri = "/apis/certificates.k8s.io/v1/certificatesigningrequests/csr-1/approval"
    reference = {"resource": "certificatesigningrequests", "apiGroup": "certificates.k8s.io", "apiVersion": "v1", "name": "csr-1"}
    status = {"metadata": {}, "code": code, **({"status": "Failure", "reason": "Forbidden", "message": message} if message else {})}
    return event(number, ROBOT, "update", uri, objectRef={**reference, "subresource": "approval"}, responseStatus=status)


REFUSED = (
    'certificatesigningrequests.certificates.k8s.io "csr-1" is forbidden: user not permitted to approve requests with signerName'
)


def test_rights_whose_every_use_was_refused_are_not_given(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The request itself was allowed, and then refused for want of a right on the signer."""
    events = [event(1, ROBOT, "get", "/api/v1/nodes/one"), approval(2, 403, f'{REFUSED} "example.com/one"')]
    lake = take_in(tmp_path / "lake", events)
    objects, said = roles_for(lake, capsys)
    assert parts(objects, "resources") == {"nodes"}
    assert "1 of 1 request allowed, 0 refused" in said
    assert "which the roles do not give" in said
    assert "update certificatesigningrequests.certificates.k8s.io/approval" in said


def test_a_right_on_a_signer_that_the_log_does_not_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The event has no body: the roles cannot name the signer. Without any rule on signers, the approval is refused for sure."""
    objects, said = roles_for(take_in(tmp_path / "lake", [approval(1, 200)]), capsys)
    assert parts(objects, "resources") == {"certificatesigningrequests/approval"}
    assert "0 of 1 request allowed, 1 refused" in said
    assert "the signer of the certificate is not recorded" in said


def impersonated(number: int, uri: str, **more: Any) -> Object:
    """The robot patches an object as another service account; `more` says by which mode."""
    account = "system:serviceaccount:shop:worker"
    groups = ["system:serviceaccounts", "system:serviceaccounts:shop", "system:authenticated"]
    reference = {"resource": "secrets", "namespace": "shop", "name": "db", "apiVersion": "v1"}
    acting = {"username": account, "groups": groups}
    return event(number, ROBOT, "patch", uri, objectRef=reference, impersonatedUser=acting, **more)


def redacted(folder: Path, *events: Object) -> Path:
    """A lake of these events as the command makes it: with redaction."""
    log, lake = folder / "audit.jsonl", folder / "lake"
    log.write_text("".join(json.dumps(each, separators=(",", ":")) + "\n" for each in events))
    assert run(["-q", "--lake", str(lake), "ingest", str(log), "--cluster", "lab"]) == 0
    return lake


def test_redaction_keeps_the_mode_of_an_impersonation(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Whoever may act as one service account for patches only is not given the right to act as it for everything."""
    mode = {"authenticationMetadata": {"impersonationConstraint": "impersonate:serviceaccount"}}
    objects, _ = roles_for(redacted(tmp_path, impersonated(1, "/api/v1/namespaces/shop/secrets/db", **mode)), capsys)
    assert parts(objects, "verbs") == {"impersonate:serviceaccount", "impersonate-on:serviceaccount:patch"}


class _Old(Redactor):
    """Takes unknown fields away, as earlier versions did, and leaves a note."""

    def apply(self, line: bytes) -> bytes:
        event = json.loads(super().apply(line))
        if event.pop("authenticationMetadata", None) is not None or "impersonatedUser" in event:
            event["annotations"][PREFIX + REDACTED] = "requestObject,fields"
        return json.dumps(event).encode()


def test_an_unknown_mode_of_impersonation_gives_no_right(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An earlier redaction took unknown fields away, and the mode with them. It left a note."""
    events = [event(1, ROBOT, "get", "/api/v1/nodes/one"), impersonated(2, "/api/v1/namespaces/shop/secrets/db")]
    objects, said = roles_for(take_in(tmp_path / "lake", events, redactor=_Old()), capsys)
    assert parts(objects, "verbs") == {"get"}
    assert "the log does not tell in which mode the user acted as another" in said


def test_the_legacy_mode_is_told_by_the_missing_field(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    objects, _ = roles_for(take_in(tmp_path / "lake", [impersonated(1, "/api/v1/namespaces/shop/pods/web")]), capsys)
    assert parts(objects, "verbs") == {"impersonate"}


def made(number: int, plural: str, name: str, *, group: str = "", answered: str = "", **metadata: Any) -> Object:
    """Somebody creates an object in shop; `answered` is the name in the answer, where the client gave none."""
    prefix = f"/apis/{group}/v1" if group else "/api/v1"
    named = {"name": name} if name else {}
    reference = {"resource": plural, "namespace": "shop", "apiGroup": group, "apiVersion": "v1", **named}
    body = {"kind": "X", "apiVersion": "v1", "metadata": {"namespace": "shop", **named, **metadata}}
    answer = {**body, "metadata": {**body["metadata"], "name": answered or name, "uid": f"u{number}", "resourceVersion": "1"}}
    bodies = {"level": "RequestResponse", "requestObject": body, "responseObject": answer} if metadata else {}
    return event(number, "ann", "create", f"{prefix}/namespaces/shop/{plural}", code=201, objectRef=reference, **bodies)


def owner(kind: str, name: str) -> dict[str, Any]:
    return {"ownerReferences": [{"kind": kind, "name": name, "controller": True, "uid": "o"}]}


def used(number: int, plural: str, name: str, group: str = "", verb: str = "patch") -> Object:
    prefix = f"/apis/{group}/v1" if group else "/api/v1"
    reference = {"resource": plural, "namespace": "shop", "apiGroup": group, "apiVersion": "v1", "name": name}
    return event(number, ROBOT, verb, f"{prefix}/namespaces/shop/{plural}/{name}", objectRef=reference)


UUID = "3f1c9a52-0b6e-4c7d-9d55-1f2e3a4b5c6d"
FAMILY = [made(number, "jobs", f"build-{number}", group="batch") for number in (1, 2, 3)]
# What the log shows, what the robot uses, whether the role is for every name, and why.
NAMES: list[tuple[str, list[Object], Object, str]] = [
    ("a body with generateName", [made(1, "configmaps", "", answered="run-zz", generateName="run-")],
     used(9, "configmaps", "run-zz"), "generateName"),
    ("a create without a name", [made(1, "pods", "")], used(9, "pods", "run-x7k2p"), "the log has no body"),
    ("a hash after the owner", [made(1, "replicasets", "web-6f7b", group="apps", **owner("Deployment", "web"))],
     used(9, "replicasets", "web-6f7b", "apps"), "a controller made it"),
    ("a time after the owner", [made(1, "jobs", "nightly-29384", group="batch", **owner("CronJob", "nightly"))],
     used(9, "jobs", "nightly-29384", "batch"), "a controller made it"),
    ("a uid", [], used(9, "configmaps", f"lock-{UUID}"), "a uid"),
    ("a pod of a ReplicaSet", [], used(9, "pods", "search-389-76c69bdd97-mrjtz"), "the log has no body"),
    ("one of a numbered family", FAMILY, used(9, "jobs", "build-2", "batch"), "other numbers"),
    ("a pod of a StatefulSet", [made(1, "pods", "db-0", **owner("StatefulSet", "db"))], used(9, "pods", "db-0"), ""),
    ("a part of a custom resource", [made(1, "services", "db-primary", **owner("Database", "db"))],
     used(9, "services", "db-primary"), ""),
    ("a name that a client gave", [made(1, "pods", "run-x7k2p", labels={})], used(9, "pods", "run-x7k2p"), ""),
    ("two are no family", FAMILY[:2], used(9, "jobs", "build-2", "batch"), ""),
    ("numbered Secrets", [made(n, "secrets", f"db-{n}") for n in (1, 2, 3)], used(9, "secrets", "db-2"), ""),
    ("an ordinary name", [], used(9, "deployments", "web", "apps"), ""),
]  # fmt: skip


@pytest.mark.parametrize(("log", "use", "why"), [case[1:] for case in NAMES], ids=[case[0] for case in NAMES])
def test_names_that_were_made_are_every_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], log: list[Object], use: Object, why: str
) -> None:
    lake, name = take_in(tmp_path / "lake", [*log, use]), use["objectRef"]["name"]
    objects, said = roles_for(lake, capsys)
    assert parts(objects, "resourceNames") == (set() if why else {name})
    assert (f"{name}: " in said and why in said) == bool(why)
    assert ("allowed beyond the record, every name: patch" in said) == bool(why)
    assert parts(roles_for(lake, capsys, "--exact-names")[0], "resourceNames") == {name}


def test_a_namespace_with_a_made_name_is_not_every_namespace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    reference = {"resource": "namespaces", "apiVersion": "v1"}
    events = [
        event(1, ROBOT, "create", "/api/v1/namespaces", code=201, objectRef=reference),
        event(2, ROBOT, "delete", "/api/v1/namespaces/e2e-x7k2p", objectRef={**reference, "name": "e2e-x7k2p"}),
    ]
    objects, _ = roles_for(take_in(tmp_path / "lake", events), capsys)
    assert parts(objects, "resourceNames") == {"e2e-x7k2p"}


def test_a_name_of_long_use_stays_in_a_numbered_family(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    events = [*FAMILY, *(used(number, "jobs", "build-2", "batch") for number in (10, 20, 30))]
    objects, _ = roles_for(take_in(tmp_path / "lake", events), capsys)
    assert parts(objects, "resourceNames") == {"build-2"}


def test_roles_of_the_earlier_half_are_tried_on_the_later_half(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One of two rights is lacking. A bound of 97 % leaves one lacking of two a chance of 5 %: 1 - 0.9747 ** 2 = 0.05."""
    uri = "/api/v1/namespaces/shop/pods/web"
    events = [event(1, ROBOT, "get", uri), event(2, ROBOT, "get", uri), event(9, ROBOT, "get", uri)]
    events += [event(10, ROBOT, "list", "/api/v1/namespaces/shop/services"), event(11, ROBOT, "get", "/api")]
    _, said = roles_for(take_in(tmp_path / "lake", events), capsys)
    assert "tried on the half from 2026-01-01T00:00:06Z: 1 of 2 requests allowed, 1 refused" in said
    assert "1 of 2 rights of that half were lacking, such as list services shop; 1 were new" in said
    assert "at most 97% of the rights" in said


def test_one_request_has_no_later_half(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, said = roles_for(take_in(tmp_path / "lake", [event(1, ROBOT, "get", "/api/v1/nodes/one")]), capsys)
    assert "whether they last is not known" in said


def test_what_roles_allow_beyond_the_record_is_a_table(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["--quiet", "least-privilege", "--subject", ROBOT, "--expand-verbs", "-o", "table", "--limit", "0"]
    assert run(["--lake", str(lake), *asked]) == 0
    shown = capsys.readouterr().out
    assert "Allowed beyond the record" in shown
    assert "a verb that was not used" in shown
    assert "all objects, also later ones" in shown


@pytest.mark.parametrize("name", ["a/b", "..", "50%", ""])
def test_a_name_that_no_role_can_have(lake: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    assert run(["--lake", str(lake), "least-privilege", "--subject", ROBOT, "--name", name]) == 2
    assert f"no role can have the name {name!r}" in capsys.readouterr().err


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
    assert run(["--lake", str(lake), "least-privilege", "--unused", "--subject", ROBOT, "-o", "json"]) == 0
    captured = capsys.readouterr()
    assert "Of 2 rules without use before 2026-01-01T00:00:04Z, 1 were used afterwards" in captured.err
    table = json.loads(captured.out)["grants"]
    found = [(row["rule"], row["requests"], row["unused_verbs"], row["seen"]) for row in table]
    assert found == [
        ('{APIGroups:[""], Resources:["secrets"], Verbs:["delete"]}', 0, "delete", 0),
        ('{APIGroups:[""], Resources:["pods"], Verbs:["get" "list"]}', 1, "list", 1),
    ]


def test_least_roles_take_the_place_of_cluster_admin(demo_lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The walk of the README: with the roles, only requests in a deleted namespace are newly refused; without, nearly all."""
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
    assert violations(list(load_yaml_all(roles))) == []
    assert denied[both] == 11  # in pay-staging, which is being deleted at the end of the log: a Role cannot be there
    assert denied[removed] == 362  # all but the discovery that every authenticated user may do


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
