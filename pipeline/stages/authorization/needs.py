"""The permissions that one request needs: its own, and those that the API server asks for while it carries the request out.

Only the first leaves a decision in the audit event. Of the others the log has a refusal's message at most
(kubernetes/apiserver pkg/endpoints/handlers, kubernetes plugin/pkg/admission/certificates, pkg/registry/rbac).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple, TypeAlias

from ...authorization.authorizer import SUPERUSERS, answer
from ...authorization.covering import Escalation, held_rules, may_grant, rules_at
from ...authorization.rbac import REDACTED_USER, Bindings, RbacObjects, Rules, Versions, authorize
from ...cel.library.authorizer import Attributes
from ...other_authorizers import OtherAuthorizers
from ...request import Known, Unknown, UserInfo


class Ask(NamedTuple):
    """One question to the authorizers."""

    user: UserInfo
    asked: Attributes


# The name in a question about objects with whatever name: where it is refused, each of them is.
ANY_NAME = "\0"

# A way to a permission: all of its questions have to be allowed.
Way: TypeAlias = tuple[Ask, ...]


class NeedKind(StrEnum):
    """Why the server asks, in the order in which it does."""

    AUTHENTICATION = "authentication"  # not a permission: without a user there is nothing to ask
    IMPERSONATION = "impersonation"  # to act as another user
    REQUEST = "request"  # the request itself
    CREATE = "create"  # an update or a patch that creates its object
    CONNECT = "connect"  # from 1.35, exec, attach and port-forward over WebSocket
    UNSAFE_DELETE = "unsafe-delete"  # to delete an object that the server cannot read
    GRANT = "grant"  # to write a role or a binding
    PARAM = "param"  # to name params in an admission policy or its binding
    SIGNER = "signer"  # to approve or sign a certificate, or to attest a trust bundle
    OWNER = "owner"  # to name an owner of an object, where OwnerReferencesPermissionEnforcement is on

    def precedes(self, other: NeedKind) -> bool:
        """Whether the server asks for this one first."""
        order = list(NeedKind)
        return order.index(self) < order.index(other)


@dataclass(frozen=True, slots=True)
class RoleRef:
    """The role that a binding refers to; `namespace` is that of the binding."""

    kind: str
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class Grant:
    """Rules that a user is about to grant. Own rules in `namespace` have to cover them.

    `rules` are those of the written role, or those that `role_ref` has. `message` replaces the server's words for a refusal.
    """

    user: UserInfo
    namespace: str
    rules: Rules = ()
    role_ref: RoleRef | None = None
    message: str = ""


@dataclass(frozen=True, slots=True)
class Need:
    """One permission without which a request is refused.

    Each reading holds the ways to the permission, and one of them is enough. More than one reading means that the log does not tell
    which questions the server asked. Where no way is allowed, the grants may be: all of them have to hold. `why_unknown` says why
    the log does not show what the server asked; empty if it does. `why_readings_differ` says it where several readings are left.
    `why_further` says why the server may have asked more than the ways name, so that an allowance is unknown; empty if it did not.
    `refusal` is the server's message if the permission is missing; without it, the authorizer's reason is.
    `user` is the user whom the questions are about; the request's own permission has one only where its question is unknown.
    `nameless` is the question where the log shows all of it but the name that it is about.
    """

    kind: NeedKind
    readings: tuple[tuple[Way, ...], ...] = ((),)
    grants: tuple[Grant, ...] = ()
    why_unknown: str = ""
    user: UserInfo | None = None
    refusal: str = ""
    why_further: str = ""
    why_readings_differ: str = "the log does not tell which groups the request asked for"
    nameless: Ask | None = None

    @property
    def ask(self) -> Ask | None:
        """The only question of a permission with one way; the first of others. None where it is unknown."""
        return next((ask for ways in self.readings for way in ways for ask in way), None)


class Met(NamedTuple):
    """Whether a permission is there; None where it is unknown.

    `reason` is the authorizer's for an allowance, the message of a refusal as far as it is known, or why it is unknown. `ask` is
    the question that decided.
    """

    allowed: bool | None
    reason: str = ""
    ask: Ask | None = None


def meet(need: Need, objects: RbacObjects, others: OtherAuthorizers) -> Met:
    """Whether roles and bindings give a permission."""
    if need.kind is NeedKind.AUTHENTICATION:
        return Met(False, "authentication failed")
    if need.why_unknown:
        return _met_nameless(need, objects, others)
    found = [_met_ways(ways, objects, others) for ways in need.readings]
    first = found[0]
    if need.why_further and first.allowed is not False:
        return Met(None, need.why_further if first.allowed else first.reason, first.ask)
    if any(each.allowed != first.allowed for each in found):
        return Met(None, need.why_readings_differ, first.ask)
    if first.allowed is False and need.refusal:
        return first._replace(reason=need.refusal)
    if first.allowed or not need.grants:
        return first
    for grant in need.grants:
        granted = _granted(grant, objects)
        if granted.allowed is None or (granted.allowed is False and first.allowed is None):
            return Met(None, granted.message or first.reason, first.ask)
        if not granted.allowed:
            return Met(False, grant.message or granted.message, first.ask)
    return Met(True, "the user holds the granted rules", first.ask)


def _met_nameless(need: Need, objects: RbacObjects, others: OtherAuthorizers) -> Met:
    """Rules for every name allow a question whatever its name is, and without any rule for it no name is allowed."""
    unknown = Met(None, need.why_unknown)
    if need.nameless is None:
        return unknown
    user, asked = need.nameless
    found = answer(objects, others, user, asked)
    if found.allowed or (found.allowed is None and others.may_allow(user)):
        return Met(True, found.reason or "", need.nameless) if found.allowed else unknown
    held = held_rules(objects, user, asked.namespace)
    may_hold = any(rule._replace(names=()).allows(asked) for rule in (*held.sure, *held.possible))
    if may_hold or held.doubts or not user.is_identified:
        return unknown
    return Met(False, need.refusal, need.nameless)


def _granted(grant: Grant, objects: RbacObjects) -> Escalation:
    if SUPERUSERS in grant.user.groups:
        return Escalation(True)
    rules: Rules = grant.rules
    if grant.role_ref is not None:
        found = rules_at(objects, grant.role_ref.kind, grant.role_ref.namespace, grant.role_ref.name)
        if isinstance(found, Unknown):
            return Escalation(None, found.reason)
        if found.value is None:
            kind = f"{grant.role_ref.kind.lower()}.rbac.authorization.k8s.io"
            return Escalation(False, f'{kind} "{grant.role_ref.name}" not found')
        rules = found.value
    if not grant.user.is_identified:
        return Escalation(None, "the user's groups were not recorded" if not grant.user.is_whole else REDACTED_USER)
    return may_grant(objects, grant.user, grant.namespace, rules)


def _met_ways(ways: tuple[Way, ...], objects: RbacObjects, others: OtherAuthorizers) -> Met:
    """The first allowed way; else an unknown one; else the refusal of the first way."""
    refused = Met(False)
    unknown: Met | None = None
    for way in ways:
        found = _met_way(way, objects, others)
        if found.allowed:
            return found
        if found.allowed is None:
            unknown = unknown or found
        elif refused.ask is None:
            refused = found
    return unknown or refused


def _met_way(way: Way, objects: RbacObjects, others: OtherAuthorizers) -> Met:
    last = Met(True)
    unknown: Met | None = None
    for ask in way:
        if ask.asked.name == ANY_NAME:
            objects, ask = _AnyName(objects), ask._replace(asked=ask.asked._replace(name=""))
        found = answer(objects, others, ask.user, ask.asked)
        reason = found.reason
        if reason is None:
            reason = min(filter(None, authorize(objects, ask.user, ask.asked).reasons), default="")
        last = Met(found.allowed, reason, ask)
        if found.allowed is False:
            return last
        if found.allowed is None:
            unknown = unknown or last
    return unknown or last


class _AnyName:
    """Roles whose rules hold for every name."""

    def __init__(self, objects: RbacObjects) -> None:
        self._objects = objects

    def bindings(self, namespace: str) -> Bindings:
        """See RbacObjects."""
        return self._objects.bindings(namespace)

    def role(self, namespace: str, name: str) -> Versions[Rules]:
        """See RbacObjects."""
        return tuple(
            replace(each, value=tuple(rule._replace(names=()) for rule in each.value))
            if isinstance(each, Known) and each.value is not None
            else each
            for each in self._objects.role(namespace, name)
        )
