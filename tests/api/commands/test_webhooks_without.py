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


def labelled(kind: str, name: str) -> dict[str, Any]:
    found = thing(kind, name)
    found["metadata"] |= {"labels": {"a": "1"}, "resourceVersion": "7"}
    return found


def notes(*, has_patch: bool = True) -> dict[str, str]:
    """The webhook added the label; the patch is recorded from level Request on."""
    place, told = "webhook.admission.k8s.io/round_0_index_0", {"configuration": "mutating", "webhook": LABEL}
    patch = {**told, "patch": [{"op": "add", "path": "/metadata/labels", "value": {"a": "1"}}], "patchType": "JSONPatch"}
    found = {f"mutation.{place}": json.dumps({**told, "mutated": True})}
    return {**found, f"patch.{place}": json.dumps(patch)} if has_patch else found


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
    log.write("create", labelled("Secret", "changed"), requestObject=thing("Secret", "changed"), annotations=notes())
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


def make_useless(path: Path) -> None:
    """A webhook that admits each object, and one that nothing calls."""
    log = Log(timedelta(minutes=1))
    log.write("create", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop", "uid": "shop"}})
    log.write("create", configuration("Validating", 1, guard="configmaps", other="services"))
    log.write("create", thing("ConfigMap", "free"))
    take_in(path, log.lines)


@pytest.mark.parametrize(
    ("made", "name", "says"),
    [
        (make, GUARD, "it may not go: 2 requests that it ended would be newly allowed, and of 1 request the outcome is unknown"),
        (make, LABEL, "not known: nothing is known to be newly allowed or denied, and of 1 request the outcome is unknown"),
        (make_useless, GUARD, "it may go: nothing newly allowed, nothing newly denied"),
        (make_useless, OTHER, "it may go: no recorded request called it"),
    ],
)
def test_the_answer_comes_first(tmp_path: Path, made: Any, name: str, says: str, capsys: pytest.CaptureFixture[str]) -> None:
    lake = tmp_path / "lake"
    made(lake)
    ((key, (answer,)), *_) = [(key, rows) for key, rows in asked(lake, capsys, name).items() if isinstance(rows, list) and rows]
    assert (key, answer["answer"]) == ("answer", says)


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
    assert effect["consequence"] == (
        "unknown: other webhooks were asked about the object with these changes; "
        "if they answer the same, no policy denies the object without these changes"
    )
    assert [(each["op"], each["path"], each["requests"]) for each in found["patches"]] == [("add", "/metadata/labels", 1)]
    assert run(["-q", "--lake", str(lake), "webhooks", "without", LABEL]) == 0
    assert "fact: 1 call" in capsys.readouterr().out


def make_changes(path: Path) -> None:
    """One webhook that adds a label, and a second one that is for Secrets alone."""
    log = Log(timedelta(minutes=1))
    log.write("create", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop", "uid": "shop"}})
    log.write("create", configuration("Mutating", 2, label="configmaps", late="secrets"))
    log.write("create", labelled("ConfigMap", "shown"), requestObject=thing("ConfigMap", "shown"), annotations=notes())
    log.write("create", labelled("ConfigMap", "hidden"), level="Metadata", annotations=notes(has_patch=False))
    take_in(path, log.lines)


def test_policies_judge_the_object_without_the_changes(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    lake = shared_lake(tmp_path_factory, "without-changes", make_changes)
    file = tmp_path / "policy.yaml"
    needs_label = "'a' in object.metadata.?labels.orValue({})"
    file.write_text(POLICY.replace("!object.metadata.name.startsWith('reserved-')", needs_label))
    hidden = "unknown: the object: the requested object was not recorded"
    for arguments, start in (
        ([LABEL], "the same outcome, stored without these changes"),
        ([LABEL, "-f", str(file)], "newly denied: policy reserved denies the object: failed expression"),
    ):
        found = {each["consequence"]: each["requests"] for each in asked(lake, capsys, *arguments)["without"]}
        assert [count for words, count in found.items() if words.startswith(start)] == [1], found
        assert [count for words, count in found.items() if words.startswith(hidden)] == [1], found


def test_a_webhook_that_the_log_does_not_show_is_refused(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["-q", "--lake", str(lake), "webhooks", "without", "none.example.com"]) == 2
    assert "the log shows no webhook 'none.example.com'" in capsys.readouterr().err
