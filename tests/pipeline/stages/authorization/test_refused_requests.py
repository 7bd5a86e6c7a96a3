"""Refused requests under proposed roles, from lakes with and without redaction."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from ingest.notes import PREFIX, WORDING
from ingest.redaction.redact import Redactor
from queries import open_lake
from tests.pipeline.stages.authorization.test_stage import ANN_READS, SEE, binding_of, event, judged, written
from tests.recording import Object, take_in

# How a line carries the note.
ANNOTATION = PREFIX + WORDING

# Columns that may differ: the texts, and the name of the run.
_TEXTS = frozenset({"message", "run_id"})
_NOTHING = {"kind": "ClusterRole", "metadata": {"name": "nothing"}, "rules": []}
CERTIFICATES = "certificates.k8s.io"
_SPEC = {"request": "TElLRQ==", "signerName": "example.com/a"}
SECRETS = "/api/v1/namespaces/shop/secrets"


def refused(number: int, user: str, verb: str, message: str, decision: str = "", *, approves: bool = False) -> Object:
    """A 403 on a Secret, or on the approval of a certificate."""
    secret = {"resource": "secrets", "namespace": "shop", "name": "s", "apiVersion": "v1"}
    certificate = {
        "resource": "certificatesigningrequests",
        "name": "c",
        "apiGroup": CERTIFICATES,
        "apiVersion": "v1",
        "subresource": "approval",
    }
    return {
        **event(number, user, verb, f"/apis/{CERTIFICATES}/v1/certificatesigningrequests/c/approval" if approves else SECRETS),
        "objectRef": certificate if approves else secret,
        "responseStatus": {"metadata": {}, "status": "Failure", "reason": "Forbidden", "code": 403, "message": message},
        "annotations": {"authorization.k8s.io/decision": decision, "authorization.k8s.io/reason": ""} if decision else {},
    }


def not_approved(name: str) -> str:
    return f'certificatesigningrequests.{CERTIFICATES} "c" is forbidden: user not permitted to approve requests with {name}'


EVENTS = [
    *ANN_READS,
    refused(20, "ann", "update", not_approved('signerName "example.com/a"'), "allow", approves=True),
    refused(
        21,
        "ann",
        "list",
        'secrets is forbidden: User "ann" cannot impersonate-on:user-info:list resource "secrets" in API group "" '
        'in the namespace "shop"',
    ),
    refused(
        22, "ann", "list",
        'users "bob" is forbidden: User "ann" cannot impersonate resource "users" in API group "" at the cluster scope',
    ),
    {
        **refused(26, "ann", "update", "", "allow", approves=True),
        "level": "RequestResponse",
        "responseStatus": {"metadata": {}, "code": 200},
        "requestObject": {
            "apiVersion": f"{CERTIFICATES}/v1", "kind": "CertificateSigningRequest", "spec": _SPEC, "metadata": {"name": "c"},
        },
    },
    refused(23, "ann", "create", 'secrets "s" is forbidden: exceeded quota: q, requested: count/secrets=1', "allow"),
    refused(24, "ann", "create", 'secrets "s" is forbidden: a plugin says no', "allow"),
    refused(
        25, "bob", "list",
        'secrets is forbidden: User "bob" cannot list resource "secrets" in API group "" in the namespace "shop"', "forbid",
    ),
]  # fmt: skip


def lake_of(path: Path, events: list[Object], is_old: bool = False) -> Path:
    """A lake of redacted events; an old one lacks the notes on wordings."""
    return take_in(path, events, redactor=_Old() if is_old else Redactor())


class _Old(Redactor):
    """Removes what today's removes, without the note on wordings."""

    def apply(self, line: bytes) -> bytes:
        event = json.loads(super().apply(line))
        event["annotations"].pop(ANNOTATION, None)
        return json.dumps(event).encode()


def rows_of(lake: Path, manifests: list[Object], only: bool = False) -> dict[str, dict[str, Any]]:
    return {row["audit_id"]: row for row in judged(lake, manifests, only)}


@pytest.mark.parametrize("only", [False, True])
def test_redaction_changes_no_verdict_of_roles(tmp_path: Path, only: bool) -> None:
    whole, redacted = take_in(tmp_path / "whole", EVENTS), lake_of(tmp_path / "redacted", EVENTS)
    found = [
        {name: {column: row[column] for column in row.keys() - _TEXTS} for name, row in rows_of(lake, [_NOTHING], only).items()}
        for lake in (whole, redacted)
    ]
    assert found[0] == found[1]
    with closing(open_lake(redacted)) as reader:
        ((withheld,),) = reader.sql("SELECT count(*) FROM events WHERE status_message LIKE '%REDACTED%'").fetchall()
    assert withheld > 0


def test_a_refused_approval_or_impersonation_is_not_newly_denied(tmp_path: Path) -> None:
    rows = rows_of(lake_of(tmp_path / "lake", EVENTS), [_NOTHING])
    assert {name: (rows[name]["recorded"], rows[name]["flip"]) for name in ("id-20", "id-21", "id-22", "id-25")} == {
        "id-20": ("deny", "still-denied"),
        "id-21": ("deny", "still-denied"),
        "id-22": ("deny", "still-denied"),
        "id-25": ("deny", "still-denied"),
    }
    assert (rows["id-23"]["recorded"], rows["id-24"]["recorded"]) == ("admit", "admit")


def test_a_refusal_without_readable_words_is_never_admitted(tmp_path: Path) -> None:
    """Earlier versions removed the words of these refusals, and left no note on them."""
    unread = [
        refused(
            20, "ann", "update", f'certificatesigningrequests.{CERTIFICATES} "c" is forbidden: REDACTED', "allow", approves=True
        ),
        refused(21, "ann", "list", "secrets is forbidden: REDACTED"),
        refused(22, "ann", "list", "REDACTED"),
    ]
    rows = rows_of(lake_of(tmp_path / "lake", [*ANN_READS, *unread], is_old=True), [_NOTHING])
    for name in ("id-20", "id-21", "id-22"):
        assert (rows[name]["decision"], rows[name]["recorded"], rows[name]["flip"]) == ("unknown", None, "unknown")
        assert rows[name]["why"] == "the request was refused, and the log does not tell by what"


@pytest.mark.parametrize(
    ("recorded", "wanted"),
    [
        ('RBAC: clusterrole.rbac.authorization.k8s.io "gone" not found', ""),
        ('no rule for bob\nRBAC: clusterrole.rbac.authorization.k8s.io "gone" not found', "no rule for bob"),
    ],
)
def test_with_only_the_files_the_reason_of_a_refusal_is_theirs(tmp_path: Path, recorded: str, wanted: str) -> None:
    forbidden = event(14, "bob", "get", "/api/v1/namespaces/shop/pods/web", None)
    forbidden["annotations"]["authorization.k8s.io/reason"] = recorded
    lake = take_in(tmp_path / "lake", [*ANN_READS, written(3, "ClusterRoleBinding", "lost", binding_of("gone", "bob")), forbidden])
    roles = [{"kind": "ClusterRole", "metadata": {"name": "see"}, **SEE}]
    row = rows_of(lake, roles, only=True)["id-14"]
    assert (row["flip"], json.loads(row["detail"]).get("reason", "")) == ("still-denied", wanted)
    lost = [*roles, {"kind": "ClusterRoleBinding", "metadata": {"name": "b"}, **binding_of("away", "bob")}]
    reason = json.loads(rows_of(lake, lost, only=True)["id-14"]["detail"])["reason"]
    assert reason == "\n".join(filter(None, [wanted, 'RBAC: clusterrole.rbac.authorization.k8s.io "away" not found']))
