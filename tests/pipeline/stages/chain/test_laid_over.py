"""A folder beside the policies in force: bindings of recorded policies, edited policies, and webhooks behind a changed object."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.pipeline.stages.chain.test_replay_chain import DEFAULT, START, STEP, config, decided, replayed, requirement
from tests.recording import recorded, take_in

_WEBHOOK = 'admission webhook "looks.example.com" denied the request: no'


def audited(name: str, expression: str) -> list[dict[str, Any]]:
    """A policy that is bound with Audit alone."""
    policy, binding = requirement(name, expression)
    return [policy, {**binding, "spec": {**binding["spec"], "validationActions": ["Audit"]}}]


IN_FORCE = audited("no-temp", "object.metadata.name != 'temp'")
LOOKS = {
    "apiVersion": "admissionregistration.k8s.io/v1",
    "kind": "ValidatingWebhookConfiguration",
    "metadata": {"name": "looks", "uid": "looks"},
    "webhooks": [
        {
            "name": "looks.example.com",
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "failurePolicy": "Fail",
            "clientConfig": {"url": "https://looks.example.com/"},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["secrets"]}],
        }
    ],
}
_PLURALS = {
    "ValidatingAdmissionPolicy": "validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings",
    "ValidatingWebhookConfiguration": "validatingwebhookconfigurations",
}


def secret(name: str) -> dict[str, Any]:
    return {**config(name), "kind": "Secret", "data": {}}


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    shop = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop", "uid": "shop"}}
    rules = [{**each, "plural": _PLURALS[each["kind"]]} for each in (*IN_FORCE, LOOKS)]
    events = [recorded("shop", START, "create", shop)]
    events += [recorded(f"rule-{at}", START + STEP * (1 + at), "create", each) for at, each in enumerate(rules)]
    events += [recorded("temp", START + 20 * STEP, "create", config("temp"))]
    events += [recorded("secret", START + 21 * STEP, "create", secret("s"))]
    status = {"metadata": {}, "status": "Failure", "message": _WEBHOOK, "code": 400}
    refused = recorded("refused", START + 22 * STEP, "create", secret("t"))
    events.append({**refused, "responseObject": {"kind": "Status", "apiVersion": "v1", **status}, "responseStatus": status})
    return take_in(tmp_path_factory.mktemp("laid-over"), events)


def test_a_given_binding_of_a_recorded_policy_takes_the_place_of_the_recorded_one(lake: Path, tmp_path: Path) -> None:
    _, binding = IN_FORCE
    denies = {**binding, "spec": {**binding["spec"], "validationActions": ["Deny"]}}
    assert decided(replayed(lake, tmp_path, [denies])["temp"]) == ("deny", 422, "validating-policy:no-temp")
    assert replayed(lake, tmp_path, [binding])["temp"]["flip"] == "same"


def test_an_edited_policy_keeps_the_binding_in_force(lake: Path, tmp_path: Path) -> None:
    policy, _ = requirement("no-temp", "false")
    assert replayed(lake, tmp_path, [policy])["temp"]["flip"] == "same"  # it is bound with Audit alone
    other, _ = requirement("nothing", "false")
    assert decided(replayed(lake, tmp_path, [other])["temp"]) == ("deny", 422, "validating-policy:nothing")


def test_a_recorded_param_of_a_given_policy_is_found(lake: Path, tmp_path: Path) -> None:
    policy, binding = requirement("by-param", "object.metadata.name != params.metadata.name")
    policy["spec"]["paramKind"] = {"apiVersion": "v1", "kind": "Secret"}
    binding["spec"]["paramRef"] = {"name": "s", "namespace": "shop", "parameterNotFoundAction": "Deny"}
    binding["spec"]["matchResources"] = {
        "resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["secrets"]}]
    }
    policy["spec"]["matchConstraints"] = binding["spec"]["matchResources"]
    found = replayed(lake, tmp_path, [policy, binding])
    assert found["refused"]["decision"] == "deny"
    assert found["refused"]["rule_ref"] == "webhook:looks.example.com"  # the policy lets it pass: the param has another name


def test_what_a_webhook_says_of_a_changed_object_is_not_known(lake: Path, tmp_path: Path) -> None:
    labels = [{**each, "spec": {**each["spec"]}} for each in DEFAULT]
    labels[0]["spec"]["matchConstraints"] = {
        "resourceRules": [
            {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["secrets", "configmaps"]}
        ]
    }
    found = replayed(lake, tmp_path, labels)
    assert found["temp"]["flip"] == "changed"
    assert found["secret"]["decision"] == "unknown"
    assert found["secret"]["rule_ref"] == "webhook:looks.example.com"
    assert found["refused"]["decision"] == "unknown"


def test_a_webhook_that_refused_does_so_again_where_nothing_changes(lake: Path, tmp_path: Path) -> None:
    found = replayed(lake, tmp_path, requirement("no-other", "object.metadata.name != 'other'"))
    assert found["refused"]["flip"] == "still-denied"
    assert found["secret"]["flip"] == "same"
