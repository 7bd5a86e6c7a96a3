"""RBAC objects in their written form: roles become rules, bindings become Binding."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeVar

import msgspec

from ingest.errors import InputError

from ..matching.selectors import LabelSelector, SelectorError, selector_from_object
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


class _Labels(msgspec.Struct):
    name: str | None = None
    labels: dict[str, str] | None = None


class _Aggregation(msgspec.Struct, rename="camel"):
    cluster_role_selectors: list[dict[str, Any]] | None = None


class _ClusterRole(msgspec.Struct, rename="camel"):
    metadata: _Labels
    aggregation_rule: _Aggregation | None = None


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
            tuple(rule.verbs or ()),
            tuple(rule.api_groups or ()),
            tuple(rule.resources or ()),
            tuple(rule.resource_names or ()),
            tuple(rule.non_resource_urls or ()),
        )
        for rule in _read(role, _Role, source).rules or ()
    )


class ClusterRole(NamedTuple):
    """A ClusterRole with what aggregation needs: `selectors` is None if the role gathers no others."""

    name: str
    labels: Mapping[str, str]
    selectors: tuple[LabelSelector, ...] | None
    rules: Rules

    def gathers(self, labels: Mapping[str, str]) -> bool:
        """Whether the role gathers the rules of a role with these labels."""
        return any(selector.selects(labels) for selector in self.selectors or ())


def cluster_role_from_object(role: Object, source: str = "") -> ClusterRole:
    """A ClusterRole with its labels and its aggregation rule. Raises InputError."""
    read = _read(role, _ClusterRole, source)
    rule = read.aggregation_rule
    try:
        selectors = None if rule is None else tuple(map(selector_from_object, rule.cluster_role_selectors or ()))
    except SelectorError as error:
        where = f"{source}: " if source else ""
        raise InputError(
            f"{where}ClusterRole {read.metadata.name}: aggregationRule: {error}", "see kubectl explain ClusterRole"
        ) from error
    return ClusterRole(read.metadata.name or "", read.metadata.labels or {}, selectors, rules_from_object(role, source))


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
