"""Which permissions a recorded request needed, by its event."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import re2

from queries.reach_rules import DECISION, DENIAL_PREFIX

from ...authorization.attributes import recorded_attributes
from ...authorization.covering import NO_AGGREGATION
from ...cel.library.authorizer import Attributes
from ...history.event import Event, Row, decode_json, effective_user
from ...history.versions import Versions
from ...request import UserInfo
from .grants import grant_need, is_grant
from .impersonation import impersonation_ways, wanted_users
from .needs import Ask, Need, NeedKind

# From here on, opening a connection by WebSocket needs `create` (AuthorizePodWebsocketUpgradeCreatePermission, on by default).
CONNECTS_SINCE = (1, 35)
_CONNECTS = ("attach", "exec", "portforward")
_CERTIFICATES = "certificates.k8s.io"
_APPROVAL = "approval"

# The server's words for a permission that it asked for and that no rule gave, though the request itself was allowed.
_REFUSALS = (
    (NeedKind.GRANT, r'user "(?:[^"\\]|\\.)*" \(groups=\[.*\]\) is attempting to grant RBAC permissions not currently held:'),
    (NeedKind.GRANT, re.escape(NO_AGGREGATION) + r"\z"),
    (NeedKind.SIGNER, r'user not permitted to (?:approve|sign|attest) .*signerName "'),
    (NeedKind.CREATE, r'User "(?:[^"\\]|\\.)*" cannot create '),
)
_REFUSED = tuple((kind, re2.compile(f"(?s){DENIAL_PREFIX}{words}")) for kind, words in _REFUSALS)
_NOT_IMPERSONATED = re2.compile(f'{DENIAL_PREFIX}User "(?:[^"\\\\]|\\\\.)*" cannot impersonate')
_NOT_CONNECTED = re2.compile(r'^pods "[^"]*" is forbidden: (?:\z|RBAC: )')
_SIGNER = re2.compile(r'signerName "((?:[^"\\]|\\.)*)"')


class Identity(NamedTuple):
    """Who made a request: the user that it acted as, and the one who was authenticated if that is another."""

    user: UserInfo
    impersonator: UserInfo | None = None


def identity_of(row: Row) -> Identity:
    """The users of an event, by a row of `events`."""
    acting = effective_user(row)
    if not row["impersonated_user"]:
        return Identity(acting)
    return Identity(acting, effective_user({**row, "impersonated_user": None}))


def refusal_of(event: Event) -> NeedKind | None:
    """The permission that a recorded request lacked, by its decision and answer; None if it lacked no permission."""
    decision = event.annotations.get(DECISION, "")
    if decision == "forbid":
        return NeedKind.REQUEST
    if event.code == 401 and not decision:
        return NeedKind.AUTHENTICATION
    if event.code != 403:
        return None
    if not decision:
        return NeedKind.IMPERSONATION if _NOT_IMPERSONATED.search(event.message) else None
    if event.verb == "get" and event.subresource in _CONNECTS and _NOT_CONNECTED.search(event.message):
        return NeedKind.CONNECT
    return next((kind for kind, words in _REFUSED if words.search(event.message)), None)


def needs_of(event: Event, identity: Identity, versions: Versions, kubernetes_version: tuple[int, int]) -> tuple[Need, ...]:
    """The permissions that a request needed, as far as it came, in the server's order. Empty if its URL cannot be parsed.

    A request that failed for a reason of its own may not have come as far as its later questions, so these are left out.
    """
    asked = recorded_attributes(event.verb, event.request_uri)
    if asked is None:
        return ()
    refused = refusal_of(event)
    if refused is NeedKind.AUTHENTICATION:
        return (Need(NeedKind.AUTHENTICATION),)
    if refused is NeedKind.IMPERSONATION:
        why = "the impersonation was refused, and as whom is then not recorded"
        return (Need(NeedKind.IMPERSONATION, why_unknown=why, user=identity.user),)
    needs = []
    if identity.impersonator is not None:
        readings = tuple(
            tuple(impersonation_ways(identity.impersonator, wanted, asked, kubernetes_version))
            for wanted in wanted_users(identity.user)
        )
        needs.append(Need(NeedKind.IMPERSONATION, readings, user=identity.impersonator))
    needs.append(Need(NeedKind.REQUEST, (((Ask(identity.user, asked),),),)))
    if event.succeeded or event.code == 101 or refused not in (None, NeedKind.REQUEST) or _connects(event, kubernetes_version):
        needs += _further(event, identity.user, asked, versions, kubernetes_version, refused)
    return tuple(needs)


def _connects(event: Event, kubernetes_version: tuple[int, int]) -> bool:
    return (
        kubernetes_version >= CONNECTS_SINCE
        and event.verb == "get"
        and (event.resource.group, event.resource.resource) == ("", "pods")
        and event.subresource in _CONNECTS
        and refusal_of(event) is not NeedKind.REQUEST
    )


def _further(
    event: Event,
    user: UserInfo,
    asked: Attributes,
    versions: Versions,
    kubernetes_version: tuple[int, int],
    refused: NeedKind | None,
) -> Iterator[Need]:
    if event.verb in ("update", "patch") and (event.code == 201 or refused is NeedKind.CREATE):
        yield Need(NeedKind.CREATE, (((Ask(user, asked._replace(verb="create")),),),), user=user)
    if _connects(event, kubernetes_version):
        yield Need(NeedKind.CONNECT, (((Ask(user, asked._replace(verb="create")),),),), user=user)
    if is_grant(event):
        need = grant_need(event, asked, versions)
        if need is not None:
            yield replace(need, user=user)
    if (asked.group, asked.resource, asked.subresource) == (_CERTIFICATES, "certificatesigningrequests", _APPROVAL):
        yield _signer(event, user, "approve")


def _signer(event: Event, user: UserInfo, verb: str) -> Need:
    """The permission for the signer of a certificate (kubernetes pkg/certauthorization): by name, or for a whole domain."""
    name = _signer_name(event)
    if not name:
        return Need(NeedKind.SIGNER, why_unknown="the signer of the certificate is not recorded", user=user)
    domain = name.partition("/")[0]
    ways = tuple((Ask(user, Attributes(verb, "", _CERTIFICATES, "signers", "", "", each)),) for each in (name, f"{domain}/*"))
    return Need(NeedKind.SIGNER, (ways,), user=user)


def _signer_name(event: Event) -> str:
    if found := _SIGNER.search(event.message):
        return str(found.group(1))
    for raw in (event.response_raw, event.request_raw):
        value: Any = decode_json(raw) if raw is not None else None
        spec = value.get("spec") if isinstance(value, dict) else None
        if isinstance(spec, dict) and spec.get("signerName"):
            return str(spec["signerName"])
    return ""
