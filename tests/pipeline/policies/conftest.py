"""Requests and worlds out of case files.

`{$unknown: reason}` stands for evidence that nobody recorded, `{$graded: value, grade: partial}` for less than exact evidence,
and `{$repeat: text, times: n}` for a long text, which may end otherwise (`then: text`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from pipeline.request import (
    AdmissionRequest,
    Evidence,
    Grade,
    GroupVersionKind,
    GroupVersionResource,
    Known,
    Object,
    Operation,
    Unknown,
    UserInfo,
)

MOMENT = datetime(2026, 11, 21, tzinfo=UTC)
KINDS = {"pods": "Pod", "deployments": "Deployment", "configmaps": "ConfigMap", "namespaces": "Namespace", "widgets": "Widget"}


class CaseWorld:
    """A world that is all in the case: namespaces (name to labels, or null for one that is gone) and other objects."""

    def __init__(self, case: Mapping[str, Any]) -> None:
        self._namespaces = case.get("namespaces") or {}
        self._objects = case.get("objects") or []
        self._scopes = {"v1/ConfigMap": True, "v1/Node": False, "v1/Namespace": False} | (case.get("kinds") or {})
        self._missing = case.get("missing")

    def namespace(self, name: str) -> Evidence[Object | None]:
        if name not in self._namespaces:
            return Unknown(f"namespace {name} was never recorded")
        labels = self._namespaces[name]
        if labels is None or "$unknown" in labels or "$graded" in labels or "metadata" in labels:
            return evidence(labels)
        return Known({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}, "case")

    def param(self, api_version: str, kind: str, namespace: str, name: str) -> Evidence[Object | None]:
        if self._missing:
            return Unknown(self._missing)
        found = [item for item in self._of(api_version, kind, namespace) if item["metadata"]["name"] == name]
        return Known(found[0] if found else None, "case")

    def params(self, api_version: str, kind: str, namespace: str) -> Evidence[Sequence[Object]]:
        return Unknown(self._missing) if self._missing else Known(self._of(api_version, kind, namespace), "case")

    def kind_is_namespaced(self, api_version: str, kind: str) -> Evidence[bool | None]:
        return evidence(self._scopes.get(f"{api_version}/{kind}"))

    def _of(self, api_version: str, kind: str, namespace: str) -> list[Object]:
        return [
            item
            for item in self._objects
            if (item["apiVersion"], item["kind"], item["metadata"].get("namespace", "")) == (api_version, kind, namespace)
        ]


def evidence(value: Any) -> Evidence[Any]:
    if isinstance(value, Mapping) and "$unknown" in value:
        return Unknown(value["$unknown"])
    if isinstance(value, Mapping) and "$graded" in value:
        return Known(value["$graded"], "case", Grade(value["grade"]))
    return Known(value, "case")


def _known_or_not(value: Any) -> Any:
    return Unknown(value["$unknown"]) if isinstance(value, Mapping) else value


def expanded(value: Any) -> Any:
    """A value with its long texts written out."""
    if isinstance(value, dict):
        if "$repeat" in value:
            return value["$repeat"] * value["times"] + str(expanded(value.get("then", "")))
        return {key: expanded(item) for key, item in value.items()}
    return [expanded(item) for item in value] if isinstance(value, list) else value


def request(case: Mapping[str, Any]) -> AdmissionRequest:
    group, version, resource, subresource = _path(case.get("resource", "v1/pods"))
    operation = Operation(case.get("operation", "CREATE"))
    kind = case.get("kind") or KINDS.get(resource, "Thing")
    user = case.get("user") or {}
    return AdmissionRequest(
        cluster="case",
        audit_id="case",
        pass_index=0,
        ts=MOMENT,
        operation=operation,
        kind=evidence(kind) if isinstance(kind, Mapping) else Known(_kind(kind, group, version), "case"),
        resource=GroupVersionResource(group, version, resource),
        subresource=subresource,
        namespace=case.get("namespace", ""),
        name=evidence(case.get("name", "")),
        user=UserInfo(user.get("username", ""), user.get("uid", ""), tuple(user.get("groups", ())), user.get("extra", {})),
        dry_run=_known_or_not(case.get("dryRun", False)),
        options=evidence(case.get("options")),
        object=evidence(case.get("object")),
        old_object=evidence(case.get("oldObject")),
    )


def _path(text: str) -> tuple[str, str, str, str]:
    """`apps/v1/deployments/scale` or `v1/pods/exec`: a version starts with v and a digit."""
    parts = text.split("/")
    group = "" if parts[0][0] == "v" and parts[0][1:2].isdigit() else parts.pop(0)
    version, resource, *rest = parts
    return group, version, resource, rest[0] if rest else ""


def _kind(kind: str, group: str, version: str) -> GroupVersionKind:
    parts = kind.split("/")
    if len(parts) == 1:
        return GroupVersionKind(group, version, kind)
    return GroupVersionKind(parts[0] if len(parts) == 3 else "", parts[-2], parts[-1])


class Cases:
    """What tests build their inputs with."""

    request = staticmethod(request)
    expanded = staticmethod(expanded)
    world = CaseWorld


@pytest.fixture(scope="session")
def cases() -> type[Cases]:
    return Cases
