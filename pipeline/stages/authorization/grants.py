"""The permission to write a role or a binding: the server keeps users from granting rights that they do not have.

Follows kubernetes pkg/registry/rbac/{role,clusterrole,rolebinding,clusterrolebinding}/policybased/storage.go and
pkg/registry/rbac/{escalation_check,helpers}.go. The check comes after mutating admission and before validating admission.
"""

from __future__ import annotations

from typing import Any

from ingest.errors import InputError

from ...authorization.covering import FULL_AUTHORITY, NO_AGGREGATION
from ...authorization.documents import binding_from_object, rules_from_object
from ...authorization.recorded import GROUP
from ...cel.library.authorizer import Attributes
from ...history.event import Event
from ...history.reconstruct import NotReplayed, intended_write
from ...history.versions import Versions
from ...request import Object, Operation, Unknown
from .needs import Ask, Grant, Need, NeedKind, RoleRef

ROLES = ("roles", "clusterroles")
BINDINGS = ("rolebindings", "clusterrolebindings")
# Metadata that the garbage collector changes, or the server itself. A write that changes nothing else grants nothing.
_UNGRANTING = frozenset({"ownerReferences", "finalizers", "selfLink", "managedFields", "resourceVersion"})


def is_grant(event: Event) -> bool:
    """Whether a request writes a role or a binding."""
    resource = event.resource
    is_rbac = resource.group == GROUP and resource.resource in (*ROLES, *BINDINGS) and not event.subresource
    return is_rbac and event.verb in ("create", "update", "patch")


def grant_need(event: Event, asked: Attributes, versions: Versions) -> Need | None:
    """The permission to grant what the request grants; None if it grants nothing.

    `asked` is the request's own question. `versions` gives the stored object of an update or patch.
    """
    write = intended_write(event, versions)
    if isinstance(write, NotReplayed):
        return Need(NeedKind.GRANT, why_unknown=write.reason)
    if isinstance(write.object, Unknown):
        return Need(NeedKind.GRANT, why_unknown=write.object.reason)
    new: Object = write.object.value or {}
    old: Object = {}
    if write.operation is Operation.UPDATE:
        if isinstance(write.old_object, Unknown):
            return Need(NeedKind.GRANT, why_unknown=f"whether it changed anything but ownership: {write.old_object.reason}")
        old = write.old_object.value or {}
        if changes_only_ownership(new, old):
            return None
    try:
        return (_role if event.resource.resource in ROLES else _binding)(event, asked, new, old)
    except InputError as error:
        return Need(NeedKind.GRANT, why_unknown=str(error))


def changes_only_ownership(new: Object, old: Object) -> bool:
    """Whether an update changes nothing but what the garbage collector changes. Follows IsOnlyMutatingGCFields of helpers.go."""
    return _content(new) == _content(old)


def _content(value: Object) -> dict[str, Any]:
    """What a write of the object grants, with metadata but for what the garbage collector changes."""
    metadata = {name: part for name, part in (value.get("metadata") or {}).items() if name not in _UNGRANTING and part}
    return {**{name: part for name, part in value.items() if part}, "metadata": metadata}


def _role(event: Event, asked: Attributes, new: Object, old: Object) -> Need:
    namespace = asked.namespace
    grants = [Grant(event.user, namespace, rules_from_object(new, event.label))]
    if new.get("aggregationRule") or old.get("aggregationRule"):
        grants.append(Grant(event.user, namespace, FULL_AUTHORITY, message=NO_AGGREGATION))
    return Need(NeedKind.GRANT, (((Ask(event.user, asked._replace(verb="escalate")),),),), tuple(grants))


def _binding(event: Event, asked: Attributes, new: Object, old: Object) -> Need:
    binding = binding_from_object({"kind": _KINDS[event.resource.resource], **new}, event.label)
    resource = {"Role": "roles", "ClusterRole": "clusterroles"}.get(binding.role_kind, "")
    if not resource:
        return Need(NeedKind.GRANT, why_unknown=f"the binding refers to a {binding.role_kind or 'role without a kind'}")
    bind = Ask(event.user, Attributes("bind", "", GROUP, resource, "", asked.namespace, binding.role_name))
    grant = Grant(event.user, asked.namespace, role_ref=RoleRef(binding.role_kind, asked.namespace, binding.role_name))
    return Need(NeedKind.GRANT, (((bind,),),), (grant,))


_KINDS = {"rolebindings": "RoleBinding", "clusterrolebindings": "ClusterRoleBinding"}
