"""Which permissions a recorded request needed, by its event."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from ingest.server.wordings import WITHHELD
from queries.reach_rules import DECISION, WRITE_VERBS

from ...authorization.attributes import attributes_of
from ...cel.library.authorizer import Attributes
from ...history.event import Event, Row, effective_user
from ...history.fitness import unfit_body
from ...history.versions import Versions
from ...request import Unknown, UserInfo
from .grants import grant_need, is_grant
from .impersonation import impersonation_ways, wanted_users
from .needs import Ask, Need, NeedKind
from .param_rights import is_refused as is_param_refused
from .param_rights import param_need
from .refused_impersonation import refused_need
from .signers import signer_need

# From here on, opening a connection by WebSocket needs `create` (AuthorizePodWebsocketUpgradeCreatePermission, on by default).
CONNECTS_SINCE = (1, 35)
_CONNECTS = ("attach", "exec", "portforward")
# A delete with ignoreStoreReadErrorWithClusterBreakingPotential needs this verb, too. The server marks such a request in its event,
# unless the feature is off, and then it does not ask: kubernetes/apiserver pkg/endpoints/handlers/delete.go.
_UNSAFE_VERB = "unsafe-delete-ignore-read-errors"
_UNSAFE_MARK = "apiserver.k8s.io/unsafe-delete-ignore-read-error"

# The server's words for a permission that it asked for and that no rule gave, though the request itself was allowed.
_REFUSALS = (
    ("grant", NeedKind.GRANT),
    ("aggregation", NeedKind.GRANT),
    ("unsafe delete", NeedKind.UNSAFE_DELETE),
    ("signer", NeedKind.SIGNER),
    ("creation", NeedKind.CREATE),
    ("owner", NeedKind.OWNER),
)
UNREADABLE = "the request was refused, and the log does not tell by what"
UNANSWERED = "the log has no answer to the request, which may have been refused"
# Whoever writes these comes after authorization, and says so.
_LATER = frozenset(("policy", "mutating policy", "webhook", "failed webhook", "pod security", "quota", "not ready", "condition"))
_NO_GROUPS = "the groups of the user as whom it acted were not recorded"


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
    if is_param_refused(event):
        return NeedKind.PARAM
    if event.code != 403:
        return None
    if not decision and "impersonation" in event.wordings:
        return NeedKind.IMPERSONATION
    if decision and event.verb == "get" and event.subresource in _CONNECTS and "connection" in event.wordings:
        return NeedKind.CONNECT
    found = next((kind for words, kind in _REFUSALS if words in event.wordings), None)
    # Some exports drop the annotation of the decision.
    is_of_request = not decision and "user" in event.wordings and (found is None or event.verb not in ("update", "patch"))
    return NeedKind.REQUEST if is_of_request else found


def is_unreadable(event: Event) -> bool:
    """Whether a 403, or an answer without a code, does not show if the authorizers refused: without a decision, or without the
    words of who refused.

    A refused impersonation leaves no decision, and the refusal of a further permission leaves the decision `allow`.
    """
    if event.code not in (0, 403) or refusal_of(event) is not None:
        return False
    if not event.annotations.get(DECISION):
        return event.wordings.isdisjoint(_LATER)
    # The server behind a proxy, which may refuse without a text, is no concern of the authorizers.
    is_untold = not event.message and event.subresource != "proxy" and (event.verb in WRITE_VERBS or event.subresource in _CONNECTS)
    return event.code == 403 and (is_untold or WITHHELD in event.wordings)


def needs_of(event: Event, identity: Identity, versions: Versions, kubernetes_version: tuple[int, int]) -> tuple[Need, ...]:
    """The permissions that a request needed, as far as it came, in the server's order.

    A request that failed for a reason of its own may not have come as far as its later questions, so these are left out. Which
    ones a request needed is unknown if its body is not an object.
    """
    try:
        return _needs(event, identity, versions, kubernetes_version)
    except (AttributeError, TypeError, KeyError, IndexError, ValueError):
        if not (problem := unfit_body(event)):
            raise
        return (Need(NeedKind.REQUEST, why_unknown=problem),)


def _needs(event: Event, identity: Identity, versions: Versions, kubernetes_version: tuple[int, int]) -> tuple[Need, ...]:
    asked, refused = attributes_of(event), refusal_of(event)
    if refused is NeedKind.AUTHENTICATION:
        return (Need(NeedKind.AUTHENTICATION),)
    if refused is NeedKind.IMPERSONATION:
        return (refused_need(identity.user, None if isinstance(asked, Unknown) else asked, event.message, kubernetes_version),)
    if is_unreadable(event) and not event.annotations.get(DECISION):
        return (Need(NeedKind.REQUEST, why_unknown=UNREADABLE if event.code else UNANSWERED),)
    if isinstance(asked, Unknown):
        return (Need(NeedKind.REQUEST, why_unknown=asked.reason, user=identity.user),)
    needs = []
    if identity.impersonator is not None and not identity.user.is_whole:
        needs.append(Need(NeedKind.IMPERSONATION, why_unknown=_NO_GROUPS, user=identity.impersonator))
    elif identity.impersonator is not None:
        readings = tuple(
            tuple(impersonation_ways(identity.impersonator, wanted, asked, kubernetes_version))
            for wanted in wanted_users(identity.user)
        )
        needs.append(Need(NeedKind.IMPERSONATION, readings, user=identity.impersonator))
    needs.append(Need(NeedKind.REQUEST, (((Ask(identity.user, asked),),),)))
    if is_unreadable(event):
        needs.append(Need(NeedKind.REQUEST, why_unknown=UNREADABLE))
    if refused is NeedKind.OWNER:
        needs.append(Need(NeedKind.OWNER, why_unknown="rights on the owners of objects are not replayed", user=identity.user))
    if event.succeeded or event.code in (0, 101) or refused not in (None, NeedKind.REQUEST) or _connects(event, kubernetes_version):
        further = list(_further(event, identity.user, asked, versions, kubernetes_version, refused))
        needs += further if event.code else [Need(NeedKind.REQUEST, why_unknown=UNANSWERED)] * bool(further)
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
    if _UNSAFE_MARK in event.annotations and event.verb == "delete" and not event.subresource:
        ways = ((Ask(user, asked._replace(verb=_UNSAFE_VERB)),),)
        yield Need(NeedKind.UNSAFE_DELETE, (ways,), user=user)
    if is_grant(event):
        need = grant_need(event, asked, versions)
        if need is not None:
            yield replace(need, user=user)
    further = param_need(event, asked, versions), signer_need(event, asked, is_refused=refused is NeedKind.SIGNER)
    yield from (replace(need, user=user) for need in further if need is not None)
