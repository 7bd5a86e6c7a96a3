"""Whether a webhook is called for a request: tests/cases/webhooks/should_call.yaml."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from pipeline.matching import Target
from pipeline.request import (
    AdmissionRequest,
    Evidence,
    GroupVersionKind,
    GroupVersionResource,
    Known,
    Object,
    Operation,
    Unknown,
    UserInfo,
)
from pipeline.stages.webhooks import Called, Chain
from pipeline.stages.webhooks.calling import match_webhook
from pipeline.stages.webhooks.decode import configuration_from_object
from tests.yaml_text import load_yaml

CASES = load_yaml((Path(__file__).parents[3] / "cases" / "webhooks" / "should_call.yaml").read_text())
VERSIONS = [{"name": name, "served": True, "subresources": {"scale": {}}} for name in ("v1", "v1beta1", "v1alpha1")]
WIDGETS = {"spec": {"names": {"kind": "Widget"}, "versions": VERSIONS}}


class Cluster:
    """A cluster that serves widgets, and whose other custom resources are not recorded."""

    def namespace(self, name: str) -> Evidence[Object | None]:
        return Known({"metadata": {"name": name}}, "case")

    def param(self, api_version: str, kind: str, namespace: str, name: str) -> Evidence[Object | None]:
        return Known(dict(WIDGETS), "case") if name == "widgets.shop.example.com" else Unknown(f"{name} is not recorded")

    def params(self, api_version: str, kind: str, namespace: str) -> Evidence[Sequence[Object]]:
        return Known((), "case")

    def kind_is_namespaced(self, api_version: str, kind: str) -> Evidence[bool | None]:
        return Known(True, "case")


def chain_of(case: Mapping[str, Any]) -> Chain:
    rules = []
    for text in case["rules"]:
        place, _, resources = text.partition(" ")
        group, _, version = place.partition("/")
        rules.append({"operations": ["*"], "apiGroups": [group], "apiVersions": [version], "resources": resources.split(",")})
    hook: dict[str, Any] = {"name": "a.example.com", "rules": rules, "sideEffects": "None"}
    hook["matchPolicy"] = case.get("matchPolicy", "Equivalent")
    hook["matchConditions"] = [{"name": f"c{at}", "expression": each} for at, each in enumerate(case.get("conditions", ()))]
    value = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "a"},
        "webhooks": [hook],
    }
    return Chain([configuration_from_object(value, "case")])


def request_of(case: Mapping[str, Any]) -> AdmissionRequest:
    group, version, resource, *more = case["request"].split("/")
    kind = "Scale" if more else {"widgets": "Widget", "deployments": "Deployment"}.get(resource, "Gadget")
    return AdmissionRequest(
        cluster="case",
        audit_id="case",
        pass_index=0,
        ts=datetime(2026, 1, 1, tzinfo=UTC),
        operation=Operation.CREATE,
        kind=Known(GroupVersionKind("autoscaling" if more else group, "v1" if more else version, kind), "case"),
        resource=GroupVersionResource(group, version, resource),
        subresource=more[0] if more else "",
        namespace="ns",
        name=Known("name", "case"),
        user=UserInfo("alice"),
        dry_run=False,
        options=Known(None, "case"),
        object=Known({"metadata": {"name": "name"}}, "case"),
        old_object=Known(None, "case"),
    )


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_a_webhook_is_called_as_the_server_decides(case: dict[str, Any]) -> None:
    chain, request = chain_of(case), request_of(case)
    target = Target.of(request)
    calls = [match_webhook(hook, request, target, Cluster(), None) for hook in chain.candidates(target)]
    (call,) = calls or (None,)
    if call is None:
        assert case["expect"] == ""
        return
    words = str(call.decision)
    if call.decision is Called.ERROR:
        words = f"error {call.code} {call.message}"
    elif call.decision is Called.CALLED and call.resource is not None and call.resource != request.resource:
        words = f"called as {call.resource.resource}.{call.resource.version}.{call.resource.group}"
    assert words == case["expect"]
