"""The stage of conditional authorization over small lakes."""

from __future__ import annotations

import json
import shutil
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml

from api.cli import run
from pipeline.manifests.files import manifests_of
from pipeline.runs import RunKind, RunStore
from pipeline.stages.assign import assign
from pipeline.stages.conditions.figures import by_finding, decided, reads
from pipeline.stages.grouped import shares
from pipeline.stages.registry import CONDITIONS
from pipeline.stages.stage import Asked
from queries import open_lake
from tests.recording import START, Object, take_in

RBAC = 'RBAC: allowed by ClusterRoleBinding "all" of ClusterRole "see" to User "lucas"'
SECRETS = "/api/v1/namespaces/shop/secrets"
DOCUMENT = [
    {
        "name": "a1",
        "when": 'request.userInfo.username == "lucas" && request.resource == "secrets" && request.verb != "create"',
        "conditions": [
            {"id": "owner", "effect": "Deny", "condition": 'object.metadata.labels.owner != "lucas"'},
            {"id": "vis", "effect": "NoOpinion", "condition": 'object.metadata.labels.visible != "true"'},
            {"id": "type", "effect": "Allow", "condition": 'object.type == "k8s.io/basic-auth"'},
            {"id": "pub", "effect": "Allow", "condition": 'object.metadata.labels.public == "true"'},
        ],
    },
    {
        "name": "a2",
        "when": 'request.resource == "secrets" && request.verb != "create"',
        "conditions": [{"id": "env", "effect": "Allow", "condition": 'object.metadata.labels.env == "dev"'}],
    },
    {
        "name": "a3",
        "when": 'request.verb == "create"',
        "conditions": [{"id": "dev", "effect": "Allow", "condition": 'object.spec.storageClassName == "dev"'}],
    },
]


def event(number: int, verb: str, uri: str, user: str = "lucas", reason: str | None = RBAC, **more: Any) -> Object:
    at = START + timedelta(seconds=number)
    parts = uri.partition("?")[0].split("/")
    reference = (
        {"resource": parts[5], "namespace": parts[4], "apiVersion": "v1"}
        if len(parts) > 5
        else {"resource": parts[3], "apiVersion": "v1"}
    )
    return {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "level": "RequestResponse",
        "auditID": f"id-{number}",
        "stage": "ResponseComplete",
        "requestURI": uri,
        "verb": verb,
        "user": {"username": user, "groups": ["system:authenticated"]},
        "objectRef": {**reference, **more.pop("reference", {})},
        "responseStatus": {"metadata": {}, "code": 200 if reason is not None else 403},
        "requestReceivedTimestamp": f"{at:%Y-%m-%dT%H:%M:%S.%f}Z",
        "stageTimestamp": f"{at:%Y-%m-%dT%H:%M:%S.%f}Z",
        "annotations": {
            "authorization.k8s.io/decision": "allow" if reason is not None else "forbid",
            "authorization.k8s.io/reason": reason or "",
        },
        **more,
    }


def created(number: int, kind: str, uri: str, name: str, user: str = "lucas", **content: Any) -> Object:
    labels = content.pop("labels", None)
    metadata = {
        "name": name,
        "uid": f"u{number}",
        "resourceVersion": str(number),
        **({"labels": labels} if labels is not None else {}),
    }
    if "/namespaces/" in uri:
        metadata["namespace"] = "shop"
    body = {"apiVersion": "v1", "kind": kind, "metadata": metadata, **content}
    return event(
        number, "create", uri, user, reference={"name": name}, requestObject=body, responseObject=body,
        responseStatus={"metadata": {}, "code": 201},
    )  # fmt: skip


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    volumes = "/api/v1/persistentvolumes"
    return take_in(
        tmp_path_factory.mktemp("conditions") / "lake",
        [
            event(0, "list", f"{SECRETS}?labelSelector=owner%3Dlucas"),
            created(1, "Secret", SECRETS, "prod", "root", labels={"owner": "lucas", "env": "prod"}),
            event(2, "list", f"{SECRETS}?labelSelector=owner%3Dlucas%2Cenv%3Ddev&limit=500"),
            event(3, "list", f"{SECRETS}?labelSelector=owner%3Dlucas&resourceVersion=5"),
            event(4, "watch", f"{SECRETS}?labelSelector=owner%3Dlucas&watch=true"),
            event(5, "get", f"{SECRETS}/prod", reference={"name": "prod"}),
            event(6, "get", f"{SECRETS}/other", reference={"name": "other"}),
            event(7, "list", "/api/v1/namespaces/shop/pods"),
            event(8, "list", SECRETS, user="root", reason=""),
            *(created(10 + n, "PersistentVolume", volumes, f"d{n}", "alice", spec={"storageClassName": "dev"}) for n in range(3)),
            created(14, "PersistentVolume", volumes, "p", "alice", spec={"storageClassName": "prod"}),
            created(15, "PersistentVolume", volumes, "n", "alice", spec={}),
            event(20, "delete", f"{SECRETS}/prod", user="root", reference={"name": "prod"}),
            event(21, "list", f"{SECRETS}?labelSelector=owner%3Dlucas"),
        ],
    )


def judged(lake: Path, authorizers: list[dict[str, Any]], reads_mode: str = "Enforce") -> tuple[Path, dict[str, dict[str, Any]]]:
    """The verdict table of a run, and its rows by auditID."""
    manifest = {
        "apiVersion": "hindcast/v1alpha1",
        "kind": "AuthorizerChain",
        "metadata": {"name": "doc"},
        "spec": {"reads": reads_mode, "authorizers": authorizers},
    }
    ((stage, rules),) = assign(manifests_of([("chain.yaml", yaml.safe_dump(manifest))])).rules
    assert stage is CONDITIONS
    with closing(open_lake(lake)) as reader:
        plan = CONDITIONS.plan(reader, rules, Asked())
    summary = CONDITIONS.run(plan, lake, 1, None, RunKind.REPLAY)
    assert summary.evaluated == plan.requests
    assert CONDITIONS.run(plan, lake, 1, None, RunKind.REPLAY) == summary
    verdicts = RunStore(lake).run(plan.run_id).verdicts
    return verdicts, {row["audit_id"]: {**row, **json.loads(row["detail"])} for row in pq.read_table(verdicts).to_pylist()}


def test_shares_of_the_questions_hold_what_one_process_judges(lake: Path) -> None:
    manifest = {
        "apiVersion": "hindcast/v1alpha1",
        "kind": "AuthorizerChain",
        "metadata": {"name": "doc"},
        "spec": {"reads": "Enforce", "authorizers": [*DOCUMENT, {"name": "roles", "type": "RBAC"}]},
    }
    ((_, rules),) = assign(manifests_of([("chain.yaml", yaml.safe_dump(manifest))])).rules
    with closing(open_lake(lake)) as reader:
        judging = CONDITIONS.judging(reader, CONDITIONS.plan(reader, rules, Asked()))
        (whole,) = ([*judging.records(share)] for share in shares(1))
        several = [[*judging.records(share)] for share in shares(3)]
    assert all(several)
    assert sorted(each for share in several for each in share) == sorted(whole)


def test_lists_are_proved_or_refuted_with_what_was_known_at_the_time(lake: Path) -> None:
    verdicts, found = judged(lake, DOCUMENT)
    assert [found[f"id-{n}"]["decision"] for n in (0, 2, 3, 4, 21)] == ["deny", "admit", "deny", "deny", "deny"]
    assert found["id-0"]["proof"] == found["id-21"]["proof"] == "refuted with a hypothetical object"
    assert found["id-2"]["proof"] == "proved"
    assert found["id-3"]["proof"] == found["id-4"]["proof"] == "refuted with a known object"
    assert (found["id-3"]["known"], found["id-3"]["examples"]) == (1, ["shop/prod"])
    assert found["id-0"]["counterexample"] == {"metadata": {"namespace": "shop", "labels": {"owner": "lucas"}}}
    assert (found["id-3"]["code"], found["id-3"]["flip"], found["id-2"]["flip"]) == (403, "newly-denied", "same")
    wanted = 'User "lucas" cannot list resource "secrets" in API group "" in the namespace "shop": '
    assert found["id-3"]["message"].startswith(wanted)
    with closing(open_lake(lake)) as reader:
        counts = by_finding(reads(reader, verdicts))
        findings = {"proved": 1, "refuted with a known object": 3, "refuted with a hypothetical object": 2, "unconditional": 1}
        assert counts == findings
        assert any(each.code == 500 for each in decided(reader, verdicts))


def test_a_get_is_decided_by_the_known_object(lake: Path) -> None:
    _, found = judged(lake, DOCUMENT)
    assert (found["id-5"]["decision"], found["id-5"]["code"]) == ("deny", 403)
    assert (found["id-6"]["decision"], found["id-6"]["why"]) == ("unknown", "the object at that time is not known")


def test_t004_9_an_error_that_travels_with_a_refusal_is_answered_with_500(lake: Path) -> None:
    _, found = judged(lake, DOCUMENT)
    rows = [found[f"id-{n}"] for n in (10, 11, 12, 14, 15)]
    assert [row["decision"] for row in rows] == ["admit", "admit", "admit", "deny", "deny"]
    assert [row["code"] for row in rows] == [None, None, None, 403, 500]
    assert rows[3]["reason"] == "a3: no conditions matched"
    assert rows[4]["message"] == "internal error"
    assert "no such key: storageClassName" in rows[4]["why"]


def test_a_request_that_no_authorizer_speaks_of_is_refused(lake: Path) -> None:
    _, found = judged(lake, DOCUMENT)
    assert (found["id-7"]["decision"], found["id-7"]["code"]) == ("deny", 403)
    _, found = judged(lake, [*DOCUMENT, {"name": "roles", "type": "RBAC"}])
    assert (found["id-7"]["decision"], found["id-7"]["flip"]) == ("admit", "same")


def test_what_rbac_says_is_unknown_where_another_authorizer_allowed_the_request(lake: Path) -> None:
    _, found = judged(lake, [{"name": "roles", "type": "RBAC"}])
    assert found["id-8"]["decision"] == "unknown"
    _, found = judged(lake, [{"name": "all", "type": "Recorded"}])
    assert found["id-8"]["decision"] == "admit"


def test_rbac_is_asked_with_the_roles_of_snapshots(lake: Path, tmp_path: Path) -> None:
    copied = Path(shutil.copytree(lake, tmp_path / "lake"))
    role = {"kind": "ClusterRole", "metadata": {"name": "all"}, "rules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]}
    subjects = [{"kind": "User", "name": "root"}]
    binding = {
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "all"},
        "roleRef": {"kind": "ClusterRole", "name": "all"},
        "subjects": subjects,
    }
    empty: list[Object] = []
    lists = {"ClusterRole": [role], "ClusterRoleBinding": [binding], "Role": empty, "RoleBinding": empty}
    for kind, items in lists.items():
        group = "rbac.authorization.k8s.io/v1"
        file = tmp_path / f"{kind}.json"
        file.write_text(
            json.dumps({"kind": f"{kind}List", "apiVersion": group, "metadata": {"resourceVersion": "1"}, "items": items})
        )
        taken = (START - timedelta(seconds=1)).isoformat()
        assert run(["-q", "--lake", str(copied), "ingest", "--snapshot", str(file), "--at", taken, "--cluster", "lab"]) == 0
    _, found = judged(copied, [{"name": "roles", "type": "RBAC"}])
    assert (found["id-8"]["decision"], found["id-8"]["reason"]) == ("admit", "roles: {RBAC allows it}")


def test_a_server_without_conditional_reads_fails_closed(lake: Path) -> None:
    _, found = judged(lake, DOCUMENT, "FailClosed")
    row = found["id-2"]
    assert (row["decision"], row["code"]) == ("deny", 403)
    assert row["reason"].startswith("failed closed from conditional decision (with possible outcomes [Allow Deny NoOpinion])")


def test_a_downgrade_adds_the_one_selector_that_is_enough(lake: Path) -> None:
    one = [{"name": "a", "conditions": [{"id": "env", "effect": "Allow", "condition": 'object.metadata.labels.env == "dev"'}]}]
    _, found = judged(lake, one, "Downgrade")
    row = found["id-3"]
    assert (row["decision"], row["effect"], row["flip"]) == ("change", "admit", "changed")
    assert row["downgrade"] == "-n shop -l env=dev,owner=lucas"
    assert found["id-7"]["downgrade"] == "-n shop -l env=dev"
    _, found = judged(lake, DOCUMENT, "Downgrade")
    assert (found["id-3"]["decision"], found["id-3"]["downgrade"]) == ("deny", "not expressible as one selector")
    assert found["id-3"]["suggestions"][0] == "-n shop -l env=dev,owner=lucas"


def test_a_review_is_about_its_own_question_alone(lake: Path) -> None:
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": "lucas", "resourceAttributes": {"verb": "list", "resource": "secrets", "namespace": "shop"}},
        "status": {
            "conditionalDecision": {
                "type": "ConditionsMap",
                "conditionsMap": {"allowConditions": [{"id": "env", "condition": 'object.metadata.labels.env == "dev"'}]},
            }
        },
    }
    ((_, rules),) = assign(manifests_of([("review.yaml", yaml.safe_dump(review))])).rules
    with closing(open_lake(lake)) as reader:
        plan = CONDITIONS.plan(reader, rules, Asked())
    assert (plan.requests, dict(plan.excluded)) == (4, {"no given review is about this request": 12})
    CONDITIONS.run(plan, lake, 1, None, RunKind.REPLAY)
    rows = pq.read_table(RunStore(lake).run(plan.run_id).verdicts).to_pylist()
    assert sorted((row["audit_id"], row["decision"]) for row in rows) == [
        ("id-0", "deny"),
        ("id-2", "admit"),
        ("id-21", "deny"),
        ("id-3", "deny"),
    ]
