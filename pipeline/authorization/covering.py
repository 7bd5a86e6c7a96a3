"""Whether the rules of a user cover other rules, as the API server asks before a role or a binding is written.

Follows kubernetes/component-helpers auth/rbac/validation/policy_comparator.go and kubernetes pkg/registry/rbac/validation/rule.go
(ConfirmNoEscalation) and policy_compact.go. Each rule falls into atoms: one group, resource, verb and name, or one URL and verb.
One rule of the user must cover an atom as a whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from ..request import Known, Unknown, UserInfo
from .rbac import Binding, RbacObjects, Rule, Rules, covers_path, keys_of, missing_role, quoted

# The rights that an aggregationRule needs: kubernetes pkg/registry/rbac/clusterrole/policybased/storage.go, fullAuthority.
FULL_AUTHORITY: Rules = (Rule(("*",), ("*",), ("*",)), Rule(("*",), urls=("*",)))
NO_AGGREGATION = "must have cluster-admin privileges to use the aggregationRule"


class HeldRules(NamedTuple):
    """The rules of a user in one namespace, or in the cluster.

    `sure` rules were in force at the moment; of `possible` ones this is not known. `errors` are the server's words for roles that
    cannot be found. `doubts` say why further rules may exist.
    """

    sure: Rules
    possible: Rules = ()
    errors: tuple[str, ...] = ()
    doubts: frozenset[str] = frozenset()


def held_rules(objects: RbacObjects, user: UserInfo, namespace: str) -> HeldRules:
    """The rules of all bindings of a user: ClusterRoleBindings, then the RoleBindings of the namespace."""
    keys = keys_of(user)
    sure: list[Rule] = []
    possible: list[Rule] = []
    errors: list[str] = []
    doubts: set[str] = set()
    for scope in dict.fromkeys(["", namespace]):
        bindings = objects.bindings(scope)
        doubts |= {bindings.missing} - {""}
        for versions in bindings.of(keys):
            for version in versions:
                if isinstance(version, Unknown):
                    doubts.add(version.reason)
                elif version.value is not None and version.value.subject_of(keys) is not None:
                    _add(objects, version.value, len(versions) == 1, sure, possible, errors, doubts)
    return HeldRules(tuple(sure), tuple(possible), tuple(errors), frozenset(doubts))


def _add(
    objects: RbacObjects,
    binding: Binding,
    is_settled: bool,
    sure: list[Rule],
    possible: list[Rule],
    errors: list[str],
    doubts: set[str],
) -> None:
    roles = objects.role(binding.namespace if binding.role_kind == "Role" else "", binding.role_name)
    for rules in roles:
        if isinstance(rules, Unknown):
            doubts.add(rules.reason)
        elif rules.value is None:
            errors.append(missing_role(binding))
        else:
            (sure if is_settled and len(roles) == 1 else possible).extend(rules.value)


def atoms(rules: Iterable[Rule]) -> Iterator[Rule]:
    """The atoms of rules, in the server's order."""
    for rule in rules:
        for group in rule.groups:
            for resource in rule.resources:
                for verb in rule.verbs:
                    for name in rule.names or (None,):
                        yield Rule((verb,), (group,), (resource,), () if name is None else (name,))
        for url in rule.urls:
            for verb in rule.verbs:
                yield Rule((verb,), urls=(url,))


def uncovered(owner: Sequence[Rule], rules: Iterable[Rule]) -> list[Rule]:
    """The atoms of some rules that no rule of the owner covers."""
    return [atom for atom in atoms(rules) if not any(_covers(rule, atom) for rule in owner)]


def _covers(owner: Rule, atom: Rule) -> bool:
    if "*" not in owner.verbs and not _has_all(owner.verbs, atom.verbs):
        return False
    if "*" not in owner.groups and not _has_all(owner.groups, atom.groups):
        return False
    if "*" not in owner.resources and not all(_covers_resource(owner.resources, name) for name in atom.resources):
        return False
    if not all(any(covers_path(url, path) for url in owner.urls) for path in atom.urls):
        return False
    return not owner.names or (bool(atom.names) and _has_all(owner.names, atom.names))


def _has_all(wider: Sequence[str], narrower: Sequence[str]) -> bool:
    return all(value in wider for value in narrower)


def _covers_resource(owned: Sequence[str], name: str) -> bool:
    _, slash, subresource = name.partition("/")
    return name in owned or bool(slash and f"*/{subresource}" in owned)


def compacted(rules: Iterable[Rule]) -> list[Rule]:
    """Rules of one group, one resource and at most one name, joined where they differ only by verb; others as they are."""
    others: list[Rule] = []
    simple: dict[tuple[tuple[str, ...], ...], list[str]] = {}
    for rule in rules:
        if rule.urls or len(rule.groups) != 1 or len(rule.resources) != 1 or len(rule.names) > 1:
            others.append(rule)
        else:
            simple.setdefault((rule.groups, rule.resources, rule.names), []).extend(rule.verbs)
    return [*others, *(Rule(tuple(verbs), *key) for key, verbs in simple.items())]


def describe_rule(rule: Rule) -> str:
    """A rule in the server's words: kubernetes pkg/apis/rbac/v1/helpers.go, CompactString."""
    parts = (
        ("APIGroups", rule.groups),
        ("Resources", rule.resources),
        ("NonResourceURLs", rule.urls),
        ("ResourceNames", rule.names),
        ("Verbs", rule.verbs),
    )
    return "{" + ", ".join(f"{name}:{_listed(values)}" for name, values in parts if values) + "}"


def _listed(values: Iterable[str]) -> str:
    return "[" + " ".join(map(quoted, values)) + "]"


class Escalation(NamedTuple):
    """Whether a user may grant some rules: `allowed` is None where it is unknown; `message` then says why.

    For a refusal, `message` is the server's; empty where its exact text is not known. `missing` are the rules that the user lacks.
    """

    allowed: bool | None
    message: str = ""
    missing: tuple[Rule, ...] = ()


def may_grant(objects: RbacObjects, user: UserInfo, namespace: str, rules: Sequence[Rule]) -> Escalation:
    """Whether the user's own rules in a namespace cover the rules to be granted."""
    held = held_rules(objects, user, namespace)
    missing = uncovered(held.sure, rules)
    if not missing:
        return Escalation(True)
    if held.doubts:
        return Escalation(None, "; ".join(sorted(held.doubts)))
    if uncovered((*held.sure, *held.possible), rules) != missing:
        return Escalation(
            None, "a role or binding that may cover it was changed just before, and either version may have been in force"
        )
    shown = tuple(compacted(missing))
    lines = "\n".join(sorted({describe_rule(rule) for rule in shown}))
    groups = _listed(user.groups)
    message = f"user {quoted(user.username)} (groups={groups}) is attempting to grant RBAC permissions not currently held:\n{lines}"
    if len(held.errors) > 1:
        message = ""  # the order of several errors is not defined
    elif held.errors:
        message += f"; resolution errors: [{held.errors[0]}]"
    return Escalation(False, message, shown)


def rules_at(objects: RbacObjects, role_kind: str, namespace: str, name: str) -> Known[Rules | None] | Unknown:
    """The rules of the role that a binding refers to; Known(None) if it does not exist, Unknown if it was changing."""
    versions = objects.role(namespace if role_kind == "Role" else "", name)
    if len(versions) != 1:
        return Unknown(f"{role_kind} {name} was changed just before, and either version may have been in force")
    return versions[0]
