"""The checks of an API server on roles and bindings, written from kubernetes pkg/apis/rbac/validation/validation.go (1.36).

`violations` also reports what a server accepts and what still grants nothing: a role that no file has, a role in a namespace that
does not exist.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

GROUP = "rbac.authorization.k8s.io"
LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


def violations(objects: Iterable[Mapping[str, Any]], namespaces: Collection[str] | None = None) -> list[str]:
    """Why a server would not take these objects. `namespaces` are those that exist; None if that is not known."""
    every = list(objects)
    keys = [(each["kind"], each["metadata"].get("namespace"), each["metadata"]["name"]) for each in every]
    found = [f"{key}: twice" for key in {key for key in keys if keys.count(key) > 1}]
    for key, each in zip(keys, every, strict=True):
        found += [f"{key}: {problem}" for problem in _of_object(each, keys, namespaces)]
    return found


def _of_object(value: Mapping[str, Any], keys: Collection[tuple[Any, ...]], namespaces: Collection[str] | None) -> Iterator[str]:
    kind, metadata = value["kind"], value["metadata"]
    if value.get("apiVersion") != f"{GROUP}/v1" or kind not in ("Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding"):
        yield "not an object of this group"
    name, namespace = metadata["name"], metadata.get("namespace")
    if not name or name in (".", "..") or "/" in name or "%" in name:
        yield "the name is not a path segment"
    if (namespace is None) != kind.startswith("Cluster"):
        yield "a namespace where none may be, or none where one must be"
    if namespace is not None and (len(namespace) > 63 or not LABEL.fullmatch(namespace)):
        yield f"{namespace!r} is not a label"
    elif namespace is not None and namespaces is not None and namespace not in namespaces:
        yield f"the namespace {namespace} does not exist"
    yield from _of_binding(value, keys) if kind.endswith("Binding") else _of_role(value)


def _of_role(value: Mapping[str, Any]) -> Iterator[str]:
    if not value["rules"]:
        yield "no rules"
    for rule in value["rules"]:
        if not rule.get("verbs"):
            yield "verbs are required"
        if "nonResourceURLs" in rule:
            if value["kind"] == "Role":
                yield "nonResourceURLs in a Role"
            if {"apiGroups", "resources", "resourceNames"} & {*rule}:
                yield "nonResourceURLs with resources"
        elif not rule.get("apiGroups") or not rule.get("resources"):
            yield "apiGroups and resources are required"
        if not all(isinstance(text, str) for values in rule.values() for text in values):
            yield "a part is not text"
        if value["kind"] == "Role" and {"namespaces", "nodes", "persistentvolumes"} & {*rule.get("resources", ())}:
            yield f"a resource of the whole cluster in a Role: {rule}"


def _of_binding(value: Mapping[str, Any], keys: Collection[tuple[Any, ...]]) -> Iterator[str]:
    reference, namespace = value["roleRef"], value["metadata"].get("namespace")
    if reference.get("apiGroup") != GROUP or reference.get("kind") not in ("Role", "ClusterRole"):
        yield "roleRef"
    if reference["kind"] == "Role" and namespace is None:
        yield "a ClusterRoleBinding refers to a Role"
    if (reference["kind"], namespace if reference["kind"] == "Role" else None, reference["name"]) not in keys:
        yield "roleRef names a role that is not in the files"
    for subject in value["subjects"]:
        if not subject.get("name"):
            yield "a subject without a name"
        if subject["kind"] == "ServiceAccount":
            is_named = SUBDOMAIN.fullmatch(subject["name"]) and LABEL.fullmatch(subject.get("namespace", ""))
            if subject.get("apiGroup") or not is_named:
                yield f"{subject} is not a service account"
        elif subject["kind"] not in ("User", "Group") or subject.get("apiGroup") != GROUP:
            yield f"{subject} is not a user or group"
