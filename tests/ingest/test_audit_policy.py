"""Audit policies are read as an API server reads them, and the one that we recommend records what a replay needs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from ingest.errors import InputError
from ingest.redaction.redact import DEFAULT_RESOURCES
from ingest.server.audit_policy import Attributes, AuditPolicy, parse_audit_policy
from ingest.server.recommended import CREDENTIALS, WRITES, Coverage, audit_policy_text
from tests.yaml_text import load_yaml

CASES = Path(__file__).parents[1] / "cases" / "audit_policy"
HEAD = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy"}


def read(name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = load_yaml((CASES / name).read_text())
    return found


@pytest.mark.parametrize("case", read("levels.yaml"), ids=lambda case: case["name"])
def test_levels(case: dict[str, Any]) -> None:
    version = tuple(case.get("version", (1, 36)))
    policy = parse_audit_policy(yaml.safe_dump(HEAD | {"rules": case["rules"]}), "audit.yaml", version)
    assert policy.warnings == ()
    for level, fields in case["levels"]:
        attributes = Attributes(**fields | {"groups": tuple(fields.get("groups", ()))})
        assert policy.level_for(attributes) == level, fields


@pytest.mark.parametrize("case", read("refused.yaml"), ids=lambda case: case["words"])
def test_what_an_api_server_refuses(case: dict[str, str]) -> None:
    with pytest.raises(InputError) as refused:
        parse_audit_policy(case["text"], "audit.yaml")
    assert case["words"] in str(refused.value)
    assert str(refused.value).startswith("audit.yaml")


def test_misspelled_fields_are_named_because_the_server_ignores_them() -> None:
    rules = [{"level": "None"}, {"level": "None", "verb": ["get"], "resources": [{"groups": ["apps"]}]}]
    policy = parse_audit_policy(yaml.safe_dump(HEAD | {"rules": rules, "omitStage": []}), "audit.yaml")
    assert [warning.split("'")[1] for warning in policy.warnings] == ["omitStage", "verb", "groups"]


def test_omitted_stages_of_policy_and_rule_are_united() -> None:
    rules = [{"level": "Metadata", "verbs": ["get"], "omitStages": ["Panic"]}, {"level": "None"}]
    policy = parse_audit_policy(yaml.safe_dump(HEAD | {"rules": rules, "omitStages": ["RequestReceived"]}), "audit.yaml")
    assert policy.stages_for(Attributes("get")) == ("ResponseStarted", "ResponseComplete")
    assert policy.stages_for(Attributes("list")) == ()


POD_POLICY = Coverage((("", ("pods", "pods/*")),), ("p",))
EVERY_GROUP = Coverage((("*", ()),), ("p",))
# (verb, group, resource, subresource) with the level under: no coverage, a policy on pods, a policy on every group.
RECOMMENDED = [
    (("create", "", "pods", ""), ("RequestResponse", "RequestResponse", "RequestResponse")),
    (("patch", "", "pods", "status"), ("RequestResponse", "RequestResponse", "RequestResponse")),
    (("update", "apps", "deployments", ""), ("RequestResponse", "Metadata", "RequestResponse")),
    (("create", "", "secrets", ""), ("Metadata", "Metadata", "Metadata")),
    (("get", "", "secrets", ""), ("None", "None", "None")),
    (("create", "", "pods", "exec"), ("Metadata", "Metadata", "Metadata")),
    (("get", "", "pods", "exec"), ("Metadata", "Metadata", "Metadata")),
    (("patch", "", "namespaces", ""), ("RequestResponse", "RequestResponse", "RequestResponse")),
    (("update", "", "namespaces", "finalize"), ("RequestResponse", "RequestResponse", "RequestResponse")),
    (
        ("create", "admissionregistration.k8s.io", "validatingadmissionpolicybindings", ""),
        ("RequestResponse", "RequestResponse", "RequestResponse"),
    ),
    (("update", "rbac.authorization.k8s.io", "clusterroles", ""), ("RequestResponse", "RequestResponse", "RequestResponse")),
    (("list", "", "pods", ""), ("None", "None", "None")),
    (("create", "", "events", ""), ("None", "None", "RequestResponse")),
]


@pytest.mark.parametrize(("request_", "levels"), RECOMMENDED, ids=lambda value: "-".join(value))
def test_the_recommended_policy(request_: tuple[str, str, str, str], levels: tuple[str, ...]) -> None:
    found = tuple(recommended(coverage).level_for(Attributes(*request_)) for coverage in (None, POD_POLICY, EVERY_GROUP))
    assert found == levels


@pytest.mark.parametrize("coverage", [None, POD_POLICY, EVERY_GROUP], ids=["any", "pods", "every-group"])
def test_the_recommended_policy_is_sound(coverage: Coverage | None) -> None:
    policy = recommended(coverage)
    assert policy.warnings == ()
    assert policy.stages_for(Attributes("create", "", "pods")) == ("ResponseComplete", "Panic")
    # One lease goes on as a pulse, the others are noise or what the policies are about.
    lease = Attributes("update", "coordination.k8s.io", "leases", name="kube-scheduler")
    assert policy.level_for(lease) != "None"
    assert policy.level_for(Attributes("get", path="/healthz")) == "None"


@pytest.mark.parametrize("coverage", [None, POD_POLICY, EVERY_GROUP], ids=["any", "pods", "every-group"])
def test_what_the_redaction_takes_out_is_kept_out_of_the_log_as_well(coverage: Coverage | None) -> None:
    named = {entry: group for group, entries in CREDENTIALS for entry in entries}
    assert set(DEFAULT_RESOURCES) <= named.keys()
    for entry, group in named.items():
        resource, _, subresource = entry.partition("/")
        levels = {recommended(coverage).level_for(Attributes(verb, group, resource, subresource)) for verb in WRITES}
        assert levels == {"Metadata"}, entry


def test_managed_fields_are_kept_for_those_who_read_them() -> None:
    for reads in (True, False):
        text = audit_policy_text(Coverage((("", ("pods",)),), ("p",), reads_managed_fields=reads))
        assert load_yaml(text)["omitManagedFields"] is not reads


def recommended(coverage: Coverage | None) -> AuditPolicy:
    return parse_audit_policy(audit_policy_text(coverage), "audit-policy.yaml")
