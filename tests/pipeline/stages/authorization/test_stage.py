"""The authorization stage over a small lake: one run, one verdict for each request."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml

from api.cli import run
from ingest.errors import InputError
from pipeline.authorization import OtherAuthorizers
from pipeline.manifests.files import manifests_of
from pipeline.requests.past import load_history
from pipeline.runs import RunKind, RunStore
from pipeline.runs.window import Window
from pipeline.stages.assign import assign
from pipeline.stages.authorization.calibration import Agreement, Decided, compare_authorization
from pipeline.stages.registry import AUTHORIZATION
from pipeline.stages.stage import Asked
from queries import open_lake
from tests.recording import START, Object, reference_of, take_in

RBAC = "rbac.authorization.k8s.io"
MASTER = {"username": "root", "groups": ["system:masters"]}
NODE = {"username": "system:node:n1", "groups": ["system:nodes"]}
PODS = "/api/v1/namespaces/shop/pods/web"


def event(number: int, user: str, verb: str, uri: str, reason: str | None = "", **more: Any) -> Object:
    """An event at the level Metadata; without a reason the request was forbidden."""
    at = START + timedelta(seconds=number)
    decision, code = ("forbid", 403) if reason is None else ("allow", 200)
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
        "annotations": {"authorization.k8s.io/decision": decision, "authorization.k8s.io/reason": reason or ""},
        **more,
    }


def written(number: int, kind: str, name: str, content: Object) -> Object:
    """An event that creates a role or a binding, with its bodies."""
    plural = f"{kind.lower()}s"
    body = {
        "apiVersion": f"{RBAC}/v1",
        "kind": kind,
        "metadata": {"name": name, "uid": name, "resourceVersion": str(number)},
        **content,
    }
    more = {
        "level": "RequestResponse",
        "objectRef": {"resource": plural, "name": name, "apiGroup": RBAC, "apiVersion": "v1"},
        "requestObject": body,
        "responseObject": body,
        "responseStatus": {"metadata": {}, "code": 201},
    }
    return {**event(number, "root", "create", f"/apis/{RBAC}/v1/{plural}"), **more, "user": MASTER}


def binding_of(role: str, user: str) -> Object:
    return {"roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role}, "subjects": [{"kind": "User", "name": user}]}


BY_ALL = 'RBAC: allowed by ClusterRoleBinding "all" of ClusterRole "see" to User "ann"'
SEE = {"rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]}


# Ann reads pods, by a binding to a role. The log begins with the cluster: its first roles are created in it.
ANN_READS = [
    written(-2, "ClusterRole", "cluster-admin", {"rules": []}),
    written(-1, "ClusterRoleBinding", "cluster-admin", binding_of("cluster-admin", "root")),
    written(1, "ClusterRole", "see", SEE),
    written(2, "ClusterRoleBinding", "all", binding_of("see", "ann")),
    *(event(number, "ann", "get", PODS, BY_ALL) for number in range(10, 14)),
]


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """Ann reads pods, and bob tries. The log begins with the cluster: its first roles are created in it."""
    return take_in(
        tmp_path / "lake",
        [
            *ANN_READS,
            event(14, "bob", "get", PODS, None),
            event(
                15,
                "ann",
                "list",
                "/api/v1/pods?limit=500&resourceVersion=7",
                'RBAC: allowed by RoleBinding "x/data" of Role "x" to User "ann"',
            ),
            {**event(16, NODE["username"], "get", PODS), "user": NODE},
        ],
    )


def judged(lake: Path, manifests: list[Object], only: bool = False) -> list[dict[str, Any]]:
    """The rows of a run, in order."""
    text = yaml.safe_dump_all([{"apiVersion": f"{RBAC}/v1", **each} for each in manifests])
    given = assign(manifests_of([("roles.yaml", text)]))
    assert [stage for stage, _ in given.rules] == [AUTHORIZATION]
    with closing(open_lake(lake)) as reader:
        plan = AUTHORIZATION.plan(reader, given.rules[0][1], Asked(replaces_all=only))
    summary = AUTHORIZATION.run(plan, lake, 1, None, RunKind.REPLAY)
    assert summary.evaluated == plan.requests
    assert AUTHORIZATION.run(plan, lake, 1, None, RunKind.REPLAY) == summary
    return pq.read_table(RunStore(lake).run(plan.run_id).verdicts).to_pylist()


def test_a_role_that_shrinks_denies_its_requests(lake: Path) -> None:
    rows = judged(lake, [{"kind": "ClusterRole", "metadata": {"name": "see"}, "rules": []}])
    assert Counter(row["flip"] for row in rows) == {"newly-denied": 4, "still-denied": 1, "same": 6}
    denied = next(row for row in rows if row["flip"] == "newly-denied")
    assert (denied["decision"], denied["recorded"], denied["stage"], denied["policy"]) == (
        "deny",
        "admit",
        "authorization",
        "authorization",
    )
    assert denied["message"] == 'User "ann" cannot get resource "pods" in API group "" in the namespace "shop"'
    assert denied["rule_ref"] == "ClusterRoleBinding/all/ClusterRole/see"
    assert json.loads(denied["detail"])["asked"] == "get pods shop/web"


def test_a_new_binding_allows_what_was_forbidden(lake: Path) -> None:
    rows = judged(lake, [{"kind": "ClusterRoleBinding", "metadata": {"name": "bob"}, **binding_of("see", "bob")}])
    (allowed,) = (row for row in rows if row["flip"] == "newly-allowed")
    assert (allowed["audit_id"], allowed["rule_ref"]) == ("id-14", "ClusterRoleBinding/bob/ClusterRole/see")
    assert {row["flip"] for row in rows} == {"newly-allowed", "same"}


def test_with_only_the_files_other_bindings_do_not_count(lake: Path) -> None:
    roles = [
        {"kind": "ClusterRole", "metadata": {"name": "see"}, **SEE},
        {"kind": "ClusterRoleBinding", "metadata": {"name": "all"}, **binding_of("see", "ann")},
    ]
    by_id = {row["audit_id"]: row for row in judged(lake, roles, only=True)}
    assert {name: by_id[name]["flip"] for name in ("id-10", "id-14", "id-15", "id-16")} == {
        "id-10": "same",
        "id-14": "still-denied",
        "id-15": "newly-denied",
        "id-16": "same",  # another authorizer allowed it
    }


def test_the_evidence_of_an_untouched_request_is_the_record(lake: Path) -> None:
    rows = judged(lake, [{"kind": "ClusterRole", "metadata": {"name": "other"}, "rules": []}])
    assert {row["flip"] for row in rows} == {"same", "still-denied"}
    assert {row["evidence"] for row in rows} == {"exact"}


def test_what_the_roles_were_at_the_time_is_unknown_where_nothing_shows_it(tmp_path: Path) -> None:
    """Another binding of ann may allow the request: no list of bindings is recorded, nor the beginning of the cluster."""
    lake = take_in(tmp_path / "lake", [written(1, "ClusterRole", "see", SEE), event(9, "ann", "get", PODS, BY_ALL)])
    rows = judged(lake, [{"kind": "ClusterRole", "metadata": {"name": "see"}, "rules": []}])
    (row,) = (row for row in rows if row["audit_id"] == "id-9")
    assert (row["flip"], row["decision"], row["evidence"]) == ("unknown", "unknown", "insufficient")
    assert "no snapshot lists" in row["why"]


def agreement(path: Path, events: list[Object]) -> Agreement:
    """The agreement of a log in which ann may get pods, and that begins with the cluster."""
    begin = [
        written(-2, "ClusterRole", "cluster-admin", {"rules": []}),
        written(-1, "ClusterRoleBinding", "cluster-admin", binding_of("cluster-admin", "root")),
        written(1, "ClusterRole", "see", SEE),
        written(2, "ClusterRoleBinding", "all", binding_of("see", "ann")),
    ]
    with closing(open_lake(take_in(path / "lake", [*begin, *events]))) as reader:
        return compare_authorization(reader, load_history(reader, (), Window()), {"lab": OtherAuthorizers.NODE})


def test_recorded_decisions_agree_with_the_roles_of_the_time(tmp_path: Path) -> None:
    found = agreement(tmp_path, [event(10, "ann", "get", PODS, BY_ALL), event(11, "bob", "get", PODS, None)])
    assert found.count() == {"agreed": 10}  # six requests, and four roles and bindings that root may write
    assert found.confusion()["request", "pods"] == {(Decided.ALLOW, Decided.ALLOW): 1, (Decided.FORBID, Decided.FORBID): 1}


def test_a_decision_or_a_reason_that_the_roles_do_not_give_is_a_disagreement(tmp_path: Path) -> None:
    other = 'RBAC: allowed by ClusterRoleBinding "other" of ClusterRole "see" to User "ann"'
    found = agreement(
        tmp_path,
        [event(10, "ann", "get", PODS, other), event(11, "ann", "get", PODS, None), event(12, "bob", "get", PODS, BY_ALL)],
    )
    assert [(each.recorded, each.replayed, each.has_other_reason) for each in found.disagreements()] == [
        (Decided.ALLOW, Decided.ALLOW, True),
        (Decided.FORBID, Decided.ALLOW, False),
        (Decided.ALLOW, Decided.FORBID, False),
    ]


def test_names_are_told_apart_where_a_role_names_them(tmp_path: Path) -> None:
    """Carl may read the pod web alone; the log says that he read another one as well."""
    named = {"rules": [{**SEE["rules"][0], "resourceNames": ["web"]}]}
    by_name = 'RBAC: allowed by ClusterRoleBinding "named" of ClusterRole "named" to User "carl"'
    other = PODS.replace("web", "other")
    asked = [(10, "carl", PODS, by_name), (11, "carl", other, by_name)]
    read = [event(number, user, "get", uri, reason, objectRef=_pod(uri)) for number, user, uri, reason in asked]
    roles = [written(3, "ClusterRole", "named", named), written(4, "ClusterRoleBinding", "named", binding_of("named", "carl"))]
    found = agreement(tmp_path, [*roles, *read])
    assert [(each.audit_id, each.recorded, each.replayed) for each in found.disagreements()] == [
        ("id-11", Decided.ALLOW, Decided.FORBID)
    ]


def test_names_count_together_where_no_role_names_them(tmp_path: Path) -> None:
    other = PODS.replace("web", "other")
    asked = [(10, "ann", PODS), (11, "ann", other), (12, "bob", other), (13, "bob", PODS)]
    read = [event(number, user, "get", uri, BY_ALL, objectRef=_pod(uri)) for number, user, uri in asked]
    found = {each.user: each for each in agreement(tmp_path, read).compared if each.need == "request"}
    assert (found["ann"].requests, found["ann"].agrees) == (2, True)
    # A disagreement shows an example, with its name.
    assert (found["bob"].requests, found["bob"].agrees, found["bob"].asked) == (2, False, "get pods shop/other")


def _pod(uri: str) -> Object:
    return {"resource": "pods", "namespace": "shop", "apiVersion": "v1", "name": uri.rpartition("/")[2]}


@pytest.mark.parametrize(
    ("reason", "agrees"),
    [
        ('RBAC: clusterrole.rbac.authorization.k8s.io "gone" not found', True),
        ('no rule for bob\nRBAC: clusterrole.rbac.authorization.k8s.io "gone" not found', True),  # joined, up to 1.36
        ('webhook: no rule\nrbac: RBAC: clusterrole.rbac.authorization.k8s.io "gone" not found', True),  # since 1.37
        ('no rule for bob\nRBAC: clusterrole.rbac.authorization.k8s.io "other" not found', False),
    ],
)
def test_one_of_the_joined_reasons_is_that_of_rbac(tmp_path: Path, reason: str, agrees: bool) -> None:
    forbidden = event(10, "bob", "get", PODS, None)
    annotations = {**forbidden["annotations"], "authorization.k8s.io/reason": reason}
    lost = written(3, "ClusterRoleBinding", "lost", binding_of("gone", "bob"))
    found = agreement(tmp_path, [lost, {**forbidden, "annotations": annotations}])
    assert [each.has_other_reason for each in found.disagreements() if each.need == "request"] == [True] * (not agrees)


def test_recorded_access_reviews_are_compared(tmp_path: Path) -> None:
    asked = {"verb": "get", "resource": "pods", "namespace": "shop"}
    reviews = []
    for number, (user, allowed) in enumerate((("ann", True), ("bob", False), ("bob", True)), 20):
        body = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "metadata": {},
            "spec": {"user": user, "resourceAttributes": asked},
            "status": {"allowed": allowed, **({"reason": BY_ALL} if allowed else {})},
        }
        reference = {"resource": "subjectaccessreviews", "apiGroup": "authorization.k8s.io", "apiVersion": "v1"}
        more = {"level": "RequestResponse", "objectRef": reference, "requestObject": body, "responseObject": body}
        made = event(
            number,
            "root",
            "create",
            "/apis/authorization.k8s.io/v1/subjectaccessreviews",
            "",
            responseStatus={"metadata": {}, "code": 201},
        )
        reviews.append({**made, **more, "user": MASTER})
    found = [each for each in agreement(tmp_path, reviews).compared if each.need == "review"]
    assert [(each.user, each.recorded, each.replayed, each.agrees) for each in found] == [
        ("ann", Decided.ALLOW, Decided.ALLOW, True),
        ("bob", Decided.FORBID, Decided.FORBID, True),
        ("bob", Decided.ALLOW, Decided.FORBID, False),
    ]


def test_calibrate_prints_the_agreement_of_roles(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["-q", "--lake", str(lake), "calibrate", "--workers", "1", "-o", "json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    by_resource = {row["resource"]: row for row in printed["authorization"]}
    assert by_resource["pods"]["allow_as_allow"] == 4
    assert [row["asked"] for row in printed["authorization_disagreements"]] == ["list pods"]


def test_each_request_is_judged_once_and_an_open_watch_too(tmp_path: Path) -> None:
    watch = "/api/v1/namespaces/shop/pods?watch=true&resourceVersion=3"
    done, opened = event(1, "ann", "watch", watch, BY_ALL), event(2, "ann", "watch", watch, BY_ALL)
    lake = take_in(tmp_path / "lake", [{**done, "stage": "ResponseStarted"}, done, {**opened, "stage": "ResponseStarted"}])
    rows = judged(lake, [{"kind": "ClusterRole", "metadata": {"name": "other"}, "rules": []}])
    assert [(row["audit_id"], row["flip"]) for row in rows] == [("id-1", "same"), ("id-2", "same")]


def test_a_manifest_that_is_no_role_is_named(tmp_path: Path) -> None:
    text = f"apiVersion: {RBAC}/v1\nkind: ClusterRole\nmetadata: [1]\n"
    with pytest.raises(InputError, match=r"roles\.yaml:1: metadata must be an object, not list"):
        assign(manifests_of([("roles.yaml", text)]))


def test_the_mark_of_an_unsafe_delete_is_read_from_the_log(tmp_path: Path) -> None:
    mark = {"apiserver.k8s.io/unsafe-delete-ignore-read-error": ""}
    reads = event(11, "ann", "delete", PODS, BY_ALL)
    lake = take_in(
        tmp_path / "lake",
        [event(10, "ann", "delete", PODS, BY_ALL), {**reads, "annotations": {**reads["annotations"], **mark}}],
    )
    may_delete = {"rules": [{**SEE["rules"][0], "verbs": ["delete"]}]}
    files = [
        {"kind": "ClusterRole", "metadata": {"name": "see"}, **may_delete},
        {"kind": "ClusterRoleBinding", "metadata": {"name": "all"}, **binding_of("see", "ann")},
    ]
    rows = {row["audit_id"]: row for row in judged(lake, files, only=True)}
    assert {number: row["flip"] for number, row in rows.items()} == {"id-10": "same", "id-11": "newly-denied"}
    assert json.loads(rows["id-11"]["detail"])["need"] == "unsafe-delete"
