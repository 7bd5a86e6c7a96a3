"""Who may do something: the reverse of an authorizer's question, over the bindings that are known."""

from __future__ import annotations

from typing import NamedTuple

from ..cel.library.authorizer import Attributes
from ..request import Known, Unknown
from .rbac import SERVICE_ACCOUNT_PREFIX, Binding, RbacObjects


class Holders(NamedTuple):
    """The subjects to whom RBAC allows a request, as (kind, name) with kind User or Group; `missing` says why more may exist."""

    subjects: frozenset[tuple[str, str]]
    missing: str = ""


def holders(objects: RbacObjects, asked: Attributes) -> Holders:
    """The subjects to whom the ClusterRoleBindings, or the RoleBindings of the namespace, allow the request.

    A subject counts when any version of its binding and role allows it. Service accounts are users with their full names.
    """
    found: set[tuple[str, str]] = set()
    missing: set[str] = set()
    for namespace in dict.fromkeys(["", asked.namespace]):
        bindings = objects.bindings(namespace)
        missing |= {bindings.missing} - {""}
        for version in (version for versions in bindings.every() for version in versions):
            if isinstance(version, Unknown):
                missing.add(version.reason)
            elif version.value is not None:
                missing |= _add(found, objects, version.value, asked)
    return Holders(frozenset(found), "; ".join(sorted(missing)))


def _add(found: set[tuple[str, str]], objects: RbacObjects, binding: Binding, asked: Attributes) -> set[str]:
    """Add the subjects of one binding whose role allows the request; returns the reasons why the role is not fully known."""
    missing = set()
    for rules in objects.role(binding.namespace if binding.role_kind == "Role" else "", binding.role_name):
        if isinstance(rules, Unknown):
            missing.add(rules.reason)
        elif isinstance(rules, Known) and any(rule.allows(asked) for rule in rules.value or ()):
            found |= {key for key in binding.subject_keys() if key[0]}
    return missing


def is_service_account(user: str) -> bool:
    """Whether a user is a service account, by the form of the name."""
    return user.startswith(SERVICE_ACCOUNT_PREFIX)
