"""The permission to name params in an admission policy or its binding: the writer has to be able to read these.

Follows kubernetes pkg/registry/admissionregistration/{validatingadmissionpolicy,mutatingadmissionpolicy}{,binding}/authz.go. The
server asks in its storage, after mutating admission, and answers 422 if the right is missing.
"""

from __future__ import annotations

from typing import Any

from ...authorization.rbac import quoted
from ...cel.library.authorizer import Attributes
from ...history.event import Event
from ...history.kinds import by_kind
from ...history.objects import object_of
from ...history.reconstruct import NotReplayed, intended_write
from ...history.version import object_key
from ...history.versions import Versions
from ...request import Known, Object, Operation, Unknown
from .needs import Ask, Need, NeedKind

GROUP = "admissionregistration.k8s.io"
_POLICIES = {
    "validatingadmissionpolicybindings": "validatingadmissionpolicies",
    "mutatingadmissionpolicybindings": "mutatingadmissionpolicies",
}
_WRITES = ("create", "update", "patch")
_UNCHANGED = "the log does not tell whether the request changed the params"


def is_refused(event: Event) -> bool:
    """Whether the answer says that the writer may not read the params."""
    return event.code in (403, 422) and "params" in event.wordings


def param_need(event: Event, asked: Attributes, versions: Versions) -> Need | None:
    """The permission to read the params that a request names; None if it names none, or those that it named before."""
    is_written = asked.group == GROUP and not asked.subresource and event.verb in _WRITES
    if not is_written or asked.resource not in (*_POLICIES, *_POLICIES.values()):
        return None
    write = intended_write(event, versions)
    if isinstance(write, NotReplayed):
        return Need(NeedKind.PARAM, why_unknown=write.reason, user=event.user)
    if isinstance(write.object, Unknown):
        return Need(NeedKind.PARAM, why_unknown=write.object.reason, user=event.user)
    is_binding = asked.resource in _POLICIES
    named = _named(write.object.value, is_binding)
    if named is None:
        return None
    is_certain = write.operation is Operation.CREATE or is_refused(event)
    if not is_certain and isinstance(write.old_object, Known):
        if _named(write.old_object.value, is_binding) == named:
            return None
        is_certain = True
    right = _of_binding(event, named, versions, _POLICIES[asked.resource]) if is_binding else _of_kind(named, "*", "*")
    if isinstance(right, str):
        return Need(NeedKind.PARAM, why_unknown=right, user=event.user)
    ways = ((Ask(event.user, right),),)
    readings = (ways,) if is_certain else (ways, ((),))
    what = (
        'does not have "get" permission on the object referenced by paramRef'
        if is_binding
        else f'must have "get" permission on all objects of the referenced paramKind (kind={named.get("kind")}, '
        f"apiVersion={named.get('apiVersion')})"
    )
    refusal = f"user {quoted(event.user.username)} {what}"
    return Need(NeedKind.PARAM, readings, user=event.user, refusal=refusal, why_readings_differ=_UNCHANGED)


def _named(value: Object | None, is_binding: bool) -> dict[str, Any] | None:
    """What decides about the check: the kind of a policy's params, or the reference of a binding with its policy."""
    spec: dict[str, Any] = (value or {}).get("spec") or {}
    if not is_binding:
        return spec.get("paramKind") or None
    return {**spec["paramRef"], "policyName": spec.get("policyName")} if spec.get("paramRef") else None


def _of_kind(kind: dict[str, Any], namespace: str, name: str) -> Attributes | str:
    """The question about params of a kind, or why it is unknown."""
    group = str(kind.get("apiVersion") or "").rpartition("/")[0]
    found = by_kind(group, str(kind.get("kind")))
    if found is None:
        return f"the resource of the kind {kind.get('kind')} of {kind.get('apiVersion')} is not known"
    return Attributes("get", "", group, found.resource, "", namespace, name)


def _of_binding(event: Event, named: dict[str, Any], versions: Versions, resource: str) -> Attributes | str:
    """The question about the params of a binding. Without its policy, or where that has no params, it is about everything."""
    namespace, name = str(named.get("namespace") or ""), str(named.get("name") or "")
    key = object_key(event.cluster, GROUP, resource, "", str(named.get("policyName") or ""))
    version = versions.current(key, event.ts)
    if version is None:
        return f"the policy {key.name} at that time is not recorded"
    policy = object_of(version)
    if isinstance(policy, Unknown):
        return f"the policy {key.name} at that time: {policy.reason}"
    kind = ((policy.value or {}).get("spec") or {}).get("paramKind")
    return _of_kind(kind, namespace, name) if kind else Attributes("get", "", "*", "*", "", namespace, name)
