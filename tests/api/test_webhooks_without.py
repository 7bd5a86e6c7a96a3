"""`hindcast webhooks without`: what recorded requests would have met had a webhook not been there."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from api.cli import run
from tests.recording import Log, take_in
from tests.sharing import shared_lake

GROUP = "admissionregistration.k8s.io/v1"
GUARD, OTHER, LABEL = "guard.example.com", "other.example.com", "label.example.com"
POLICY = """
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: reserved}
spec:
  matchConstraints: {resourceRules: [{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [configmaps]}]}
  validations: [{expression: "!object.metadata.name.startsWith('reserved-')"}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: reserved}
spec: {policyName: reserved, validationActions: [Deny]}
"""


def configuration(phase: str, number: int, **resources: str) -> dict[str, Any]:
    hooks = [
        {
            "name": f"{name}.example.com",
            "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["*"], "resources": [resource]}],
            "clientConfig": {"url": "https://hooks.example.com/"},
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
        }
        for name, resource in resources.items()
    ]
    metadata = {"name": phase.lower(), "uid": phase, "resourceVersion": str(number)}
    return {"apiVersion": GROUP, "kind": f"{phase}WebhookConfiguration", "metadata": metadata, "webhooks": hooks}


def thing(kind: str, name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "namespace": "shop", "uid": name}}


def denied(name: str) -> dict[str, Any]:
    told = f'admission webhook "{name}" denied the request: no'
    return {"responseStatus": {"metadata": {}, "code": 403, "message": told, "status": "Failure", "reason": "Forbidden"}}


def make(path: Path) -> None:
    log = Log(timedelta(minutes=1))
    log.write("create", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop", "uid": "shop"}})
    log.write("create", configuration("Validating", 1, guard="*", other="services"))
    log.write("create", configuration("Mutating", 2, label="secrets"))
    log.write("create", thing("ConfigMap", "free"))
    log.write("create", thing("ConfigMap", "reserved-a"), **denied(GUARD))
    log.write("create", thing("ConfigMap", "odd"), **denied(GUARD))
    log.write("create", thing("Service", "both"), **denied(GUARD))
    log.write("create", thing("Service", "its"), **denied(OTHER))
    place, told = "webhook.admission.k8s.io/round_0_index_0", {"configuration": "mutating", "webhook": LABEL}
    patch = {**told, "patch": [{"op": "add", "path": "/metadata/labels/a", "value": "1"}], "patchType": "JSONPatch"}
    notes = {f"mutation.{place}": json.dumps({**told, "mutated": True}), f"patch.{place}": json.dumps(patch)}
    log.write("create", thing("Secret", "changed"), annotations=notes)
    take_in(path, log.lines)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return shared_lake(tmp_path_factory, "without", make)


def asked(lake: Path, capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert run(["-q", "--lake", str(lake), "webhooks", "without", *arguments, "-o", "json"]) == 0
    answer: dict[str, Any] = json.loads(capsys.readouterr().out)
    return answer


def effects(found: dict[str, Any]) -> dict[tuple[str, str], int]:
    return {(each["fact"], each["consequence"]): each["requests"] for each in found["without"]}


def test_a_denial_is_newly_allowed_only_where_no_other_webhook_was_for_it(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    denial = "the webhook denied the request"
    assert effects(asked(lake, capsys, GUARD)) == {
        (denial, "newly allowed by admission: no other webhook was for it"): 2,
        (denial, "unknown: it goes on, to webhooks or other stages whose answers are not recorded"): 1,
        ("the webhook was called, and another part of the server refused the request", "the same, with one call less"): 1,
        ("the webhook admitted the request", "the same, with one call less"): 2,
    }


def test_given_policies_may_still_deny(lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text(POLICY)
    found = effects(asked(lake, capsys, GUARD, "-f", str(file)))
    denial = "the webhook denied the request"
    assert found[denial, "still denied: a given policy decides deny"] == 1
    assert found[denial, "newly allowed by admission: no other webhook was for it, and no given policy denies it"] == 1
    assert (
        found[
            denial, "unknown: it goes on, and no given policy denies it, to webhooks or other stages whose answers are not recorded"
        ]
        == 1
    )


def test_what_a_webhook_changed_is_missing_for_later_stages(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = asked(lake, capsys, f"mutating/{LABEL}")
    (effect,) = found["without"]
    assert effect["consequence"] == "unknown: later stages would have judged the object without these changes"
    assert [(each["op"], each["path"], each["requests"]) for each in found["patches"]] == [("add", "/metadata/labels/a", 1)]
    assert run(["-q", "--lake", str(lake), "webhooks", "without", LABEL]) == 0
    assert "fact: 1 call" in capsys.readouterr().out


def test_a_webhook_that_the_log_does_not_show_is_refused(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["-q", "--lake", str(lake), "webhooks", "without", "none.example.com"]) == 2
    assert "the log shows no webhook 'none.example.com'" in capsys.readouterr().err
