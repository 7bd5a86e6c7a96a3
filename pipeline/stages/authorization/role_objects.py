"""Generated roles and bindings in the form of the API, as a server accepts them.

Follows kubernetes pkg/apis/rbac/validation/validation.go: names are path segments, a Role has no nonResourceURLs, and a service
account that is a subject has a valid name and a namespace.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from hashlib import sha256

from ingest.errors import InputError

from ...authorization.rbac import SERVICE_ACCOUNT_PREFIX, Rule, Rules
from ...authorization.recorded import GROUP
from ...request import Object

_NAME_CHARACTERS = re.compile(r"[^A-Za-z0-9.-]+")
_NAME_LENGTH_MAX = 253
_LABEL = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_NAMESPACE = re.compile(rf"(?=.{{1,63}}\Z){_LABEL}")
_SUBDOMAIN = re.compile(rf"(?=.{{1,253}}\Z){_LABEL}(?:\.{_LABEL})*")


def default_name(user: str) -> str:
    """The name of a user's roles and bindings, such as `least-ci-deployer` for a service account; a long one ends in a digest."""
    short = user.removeprefix(SERVICE_ACCOUNT_PREFIX)
    name = f"least-{_NAME_CHARACTERS.sub('-', short).strip('-.') or 'user'}"
    if len(name) <= _NAME_LENGTH_MAX:
        return name
    return f"{name[: _NAME_LENGTH_MAX - 9].rstrip('-.')}-{sha256(user.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"


def checked_name(name: str) -> str:
    """The name, if roles may have it. Raises InputError otherwise: kubernetes/apimachinery pkg/api/validate/content/path.go."""
    if not name or name in (".", "..") or "/" in name or "%" in name:
        raise InputError(f"no role can have the name {name!r}", "give a name without '/' and '%' that is not '.' or '..'")
    return name


def may_be_namespace(name: str) -> bool:
    """Whether a namespace can have this name: a label of RFC 1123."""
    return bool(_NAMESPACE.fullmatch(name))


def manifests(rules: Mapping[str, Rules], user: str, name: str) -> list[Object]:
    """Roles and bindings that give the rules to a user, in the form of the API: those of the cluster first.

    Raises InputError for a name that no role can have.
    """
    checked_name(name)
    found: list[Object] = []
    for namespace, own in sorted(rules.items()):
        place = {"namespace": namespace} if namespace else {}
        kind = "Role" if namespace else "ClusterRole"
        found.append(
            {
                "apiVersion": f"{GROUP}/v1",
                "kind": kind,
                "metadata": {"name": name, **place},
                "rules": [_rule_object(rule) for rule in own],
            }
        )
        found.append(
            {
                "apiVersion": f"{GROUP}/v1",
                "kind": f"{kind}Binding",
                "metadata": {"name": name, **place},
                "roleRef": {"apiGroup": GROUP, "kind": kind, "name": name},
                "subjects": [subject_object(user)],
            }
        )
    return found


def subject_object(user: str) -> Object:
    """A user as the subject of a binding."""
    namespace, _, name = user.removeprefix(SERVICE_ACCOUNT_PREFIX).partition(":")
    is_account = user.startswith(SERVICE_ACCOUNT_PREFIX) and may_be_namespace(namespace)
    if is_account and _SUBDOMAIN.fullmatch(name):
        return {"kind": "ServiceAccount", "name": name, "namespace": namespace}
    return {"apiGroup": GROUP, "kind": "User", "name": user}


def _rule_object(rule: Rule) -> Object:
    if rule.urls:
        return {"nonResourceURLs": list(rule.urls), "verbs": list(rule.verbs)}
    names = {"resourceNames": list(rule.names)} if rule.names else {}
    return {"apiGroups": list(rule.groups), "resources": list(rule.resources), **names, "verbs": list(rule.verbs)}
