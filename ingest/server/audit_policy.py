"""The audit policy of an API server: which level it gives to a request.

The first rule that matches decides; without a match the level is None. Follows kubernetes/apiserver pkg/audit/policy/checker.go and
pkg/apis/audit/validation/validation.go, including their surprises: `pods/*` matches pods too, `*` all subresources.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..errors import InputError
from ..extent import yaml_values

# In ascending order: each level records more than the one before (kubernetes/apiserver pkg/apis/audit/helpers.go).
LEVELS = ("None", "Metadata", "Request", "RequestResponse")
STAGES = ("RequestReceived", "ResponseStarted", "ResponseComplete", "Panic")

_GROUP = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*")
_LISTS = ("users", "userGroups", "verbs", "namespaces", "nonResourceURLs", "omitStages")
_RULE_FIELDS = {*_LISTS, "level", "resources", "omitManagedFields"}
_POLICY_FIELDS = {"apiVersion", "kind", "metadata", "rules", "omitStages", "omitManagedFields"}
_RESOURCE_FIELDS = {"group", "resources", "resourceNames"}


@dataclass(frozen=True, slots=True)
class Attributes:
    """The attributes of a request that rules read.

    `resource` is empty for a request without a resource; then rules match `path`. `user` is as authenticated.
    """

    verb: str
    api_group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""
    user: str = ""
    groups: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class GroupResources:
    """One entry of a rule's `resources`."""

    group: str = ""
    resources: tuple[str, ...] = ()
    names: tuple[str, ...] = ()

    def matches(self, attributes: Attributes, wildcards: bool) -> bool:
        """Whether the entry names the resource of a request; an empty list names all of the group."""
        if self.group != attributes.api_group and not (wildcards and self.group == "*"):
            return False
        if not self.resources:
            return True
        if self.names and attributes.name not in self.names:
            return False
        return any(_names(entry, attributes) for entry in self.resources)


@dataclass(frozen=True, slots=True)
class AuditRule:
    """One rule. Empty lists match everything. `number` is the rule's position in the policy, from 1."""

    number: int
    level: str
    users: tuple[str, ...] = ()
    user_groups: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ()
    resources: tuple[GroupResources, ...] = ()
    namespaces: tuple[str, ...] = ()
    non_resource_urls: tuple[str, ...] = ()
    omit_stages: tuple[str, ...] = ()

    def matches(self, attributes: Attributes, wildcards: bool) -> bool:
        """Whether the rule matches a request."""
        if self.users and attributes.user not in self.users:
            return False
        if self.user_groups and not set(self.user_groups) & set(attributes.groups):
            return False
        if self.verbs and attributes.verb not in self.verbs and not (wildcards and "*" in self.verbs):
            return False
        if self.namespaces or self.resources:
            return self._matches_resource(attributes, wildcards)
        if self.non_resource_urls:
            return not attributes.resource and any(_is_url(spec, attributes.path) for spec in self.non_resource_urls)
        return True

    def _matches_resource(self, attributes: Attributes, wildcards: bool) -> bool:
        if not attributes.resource or (self.namespaces and attributes.namespace not in self.namespaces):
            return False
        return not self.resources or any(entry.matches(attributes, wildcards) for entry in self.resources)


@dataclass(frozen=True, slots=True)
class AuditPolicy:
    """A whole policy. `warnings` name fields that an API server silently ignores."""

    rules: tuple[AuditRule, ...]
    omit_stages: tuple[str, ...] = ()
    wildcards: bool = True
    warnings: tuple[str, ...] = field(default=())

    def rule_for(self, attributes: Attributes) -> AuditRule | None:
        """The first rule that matches, or None."""
        return next((rule for rule in self.rules if rule.matches(attributes, self.wildcards)), None)

    def level_for(self, attributes: Attributes) -> str:
        """The level at which a request is recorded, one of LEVELS."""
        rule = self.rule_for(attributes)
        return rule.level if rule is not None else "None"

    def stages_for(self, attributes: Attributes) -> tuple[str, ...]:
        """The stages for which a request leaves events; empty at level None."""
        rule = self.rule_for(attributes)
        if rule is None or rule.level == "None":
            return ()
        return tuple(stage for stage in STAGES if stage not in (*self.omit_stages, *rule.omit_stages))


def parse_audit_policy(text: str, source: str, version: tuple[int, int] = (1, 36)) -> AuditPolicy:
    """The policy of a YAML file as an API server of that version reads it; from 1.36 `*` stands for any group or verb.

    Raises InputError, naming the rule, for a policy with which the server would not start.
    """
    documents = yaml_values(text, source)
    document = documents[0] if documents else None
    if not isinstance(document, dict) or document.get("kind") != "Policy" or document.get("apiVersion") != "audit.k8s.io/v1":
        raise InputError(f"{source}: this is not a Policy of audit.k8s.io/v1", "give the file of --audit-policy-file")
    rules = document.get("rules")
    if not isinstance(rules, list) or not rules:
        raise InputError(f"{source}: the policy has no rules", "an API server does not start with it")
    parsed = tuple(_rule(rule, number, f"{source}: rule {number}") for number, rule in enumerate(rules, 1))
    stages = _stages(_strings(document, "omitStages", source), source)
    return AuditPolicy(parsed, stages, version >= (1, 36), tuple(_ignored(document, source)))


def _rule(value: Any, number: int, where: str) -> AuditRule:
    if not isinstance(value, dict):
        raise InputError(f"{where} is not a mapping")
    if value.get("level") not in LEVELS:
        raise InputError(f"{where}: level is {value.get('level')!r}", f"one of {', '.join(LEVELS)}, in quotes or not")
    lists = {name: _strings(value, name, where) for name in _LISTS}
    resources = tuple(_group_resources(entry, where) for entry in _entries(value, where))
    if lists["nonResourceURLs"] and (resources or lists["namespaces"]):
        raise InputError(f"{where} names both resources and URLs", "make two rules of it")
    for url in lists["nonResourceURLs"]:
        if url != "*" and (not url.startswith("/") or "*" in url[:-1]):
            raise InputError(f"{where}: {url!r} is not a URL", "it begins with / and may have one * at its end")
    return AuditRule(
        number,
        value["level"],
        lists["users"],
        lists["userGroups"],
        lists["verbs"],
        resources,
        lists["namespaces"],
        lists["nonResourceURLs"],
        _stages(lists["omitStages"], where),
    )


def _entries(rule: Mapping[str, Any], where: str) -> list[Any]:
    found = rule.get("resources") or []
    if not isinstance(found, list):
        raise InputError(f"{where}: resources is not a list")
    return found


def _group_resources(value: Any, where: str) -> GroupResources:
    if not isinstance(value, dict):
        raise InputError(f"{where}: an entry of resources is not a mapping")
    group = value.get("group") or ""
    if not isinstance(group, str) or (group and group != "*" and not _GROUP.fullmatch(group)):
        raise InputError(f"{where}: {group!r} is not an API group", "write it without a version, as rbac.authorization.k8s.io")
    return GroupResources(group, _strings(value, "resources", where), _strings(value, "resourceNames", where))


def _strings(value: Mapping[str, Any], name: str, where: str) -> tuple[str, ...]:
    found = value.get(name) or []
    if not isinstance(found, list) or not all(isinstance(entry, str) for entry in found):
        raise InputError(f"{where}: {name} is not a list of strings")
    return tuple(found)


def _stages(found: tuple[str, ...], where: str) -> tuple[str, ...]:
    for stage in found:
        if stage not in STAGES:
            raise InputError(f"{where}: {stage!r} is not a stage", f"one of {', '.join(STAGES)}")
    return found


def _ignored(document: Mapping[str, Any], source: str) -> Iterator[str]:
    """Misspelled fields are only warnings: the server decodes strictly first and, when that fails, leniently
    (pkg/audit/policy/reader.go)."""
    yield from (f"{source}: the field {name!r} is not known and ignored" for name in document.keys() - _POLICY_FIELDS)
    for number, rule in enumerate(document["rules"], 1):
        where = f"{source}: rule {number}: the field"
        yield from (f"{where} {name!r} is not known and ignored" for name in rule.keys() - _RULE_FIELDS)
        for entry in rule.get("resources") or ():
            yield from (f"{where} {name!r} of its resources is not known and ignored" for name in entry.keys() - _RESOURCE_FIELDS)


def _names(entry: str, attributes: Attributes) -> bool:
    resource, subresource = attributes.resource, attributes.subresource
    if entry in ("*", f"{resource}/{subresource}" if subresource else resource):
        return True
    wanted, slash, wanted_subresource = entry.partition("/")
    if not slash:
        return False
    # The server matches `pods/*` against the parent resource as well.
    return (wanted == "*" and bool(subresource) and wanted_subresource == subresource) or (
        wanted_subresource == "*" and wanted == resource
    )


def _is_url(spec: str, path: str) -> bool:
    return spec in ("*", path) or (spec.endswith("*") and path.startswith(spec.rstrip("*")))
