"""RBAC objects in their written form: roles become rules, bindings become Binding."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from ingest.errors import InputError

from ..request import Object
from .rbac import Binding, Rule, Rules, Subject

T = TypeVar("T")

ROLES = ("Role", "ClusterRole")
BINDINGS = ("RoleBinding", "ClusterRoleBinding")


class _Rule(msgspec.Struct, rename="camel"):
    verbs: list[str] | None = None
    api_groups: list[str] | None = None
    resources: list[str] | None = None
    resource_names: list[str] | None = None
    non_resource_urls: list[str] | None = msgspec.field(default=None, name="nonResourceURLs")


class _Role(msgspec.Struct):
    rules: list[_Rule] | None = None


class _Named(msgspec.Struct):
    # A null counts as absent: templates that were rendered without values are full of nulls.
    name: str | None = None
    kind: str | None = None
    namespace: str | None = None


class _Binding(msgspec.Struct, rename="camel"):
    kind: str
    metadata: _Named
    role_ref: _Named
    subjects: list[_Named] | None = None


def rules_from_object(role: Object, source: str = "") -> Rules:
    """The rules of a Role or ClusterRole. Rules of an aggregated role are as its controller stored them. Raises InputError."""
    return tuple(
        Rule(
            frozenset(rule.verbs or ()),
            frozenset(rule.api_groups or ()),
            frozenset(rule.resources or ()),
            frozenset(rule.resource_names or ()),
            tuple(rule.non_resource_urls or ()),
        )
        for rule in _read(role, _Role, source).rules or ()
    )


def binding_from_object(binding: Object, source: str = "") -> Binding:
    """A RoleBinding or ClusterRoleBinding. Raises InputError."""
    read = _read(binding, _Binding, source)
    is_namespaced = read.kind == "RoleBinding"
    return Binding(
        read.metadata.name or "",
        # A RoleBinding without a namespace is in kubectl's default namespace.
        (read.metadata.namespace or "default") if is_namespaced else "",
        read.role_ref.kind or "",
        read.role_ref.name or "",
        tuple(Subject(subject.kind or "", subject.name or "", subject.namespace or "") for subject in read.subjects or ()),
    )


def _read(value: Object, form: type[T], source: str) -> T:
    try:
        return msgspec.convert(value, form)
    except msgspec.ValidationError as error:
        kind, name = value.get("kind", "object"), (value.get("metadata") or {}).get("name", "without a name")
        where = f"{source}: " if source else ""
        raise InputError(f"{where}{kind} {name} is not as RBAC objects are: {error}", "see kubectl explain " + str(kind)) from error
