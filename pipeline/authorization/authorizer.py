"""The whole chain of authorizers of a server, as far as it can be known.

A server asks one authorizer after the other until one of them allows or denies. The superuser group is always first
(kubernetes/apiserver pkg/authorization/authorizerfactory/builtin.go, privilegedGroupAuthorizer). RBAC can be replayed. Of all
others, a log records only the requests that they allowed. So the rules here are:

- system:masters may do everything, and the reason is empty.
- What RBAC allows is allowed. Denials by other authorizers are ignored: of all kinds, only a webhook could deny such a request.
- If RBAC has no opinion, the request is denied if no other authorizer could have allowed it, and unknown otherwise. What the Node
  authorizer decides without its graph is known: see node.py.
- Where RBAC is unknown, the answer is unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, TypeAlias

from ..cel.library.authorizer import Answer, Attributes
from ..other_authorizers import NODE_PREFIX, OtherAuthorizers
from ..request import UserInfo
from .node import node_opinion
from .rbac import GROUPS_UNKNOWN, SERVICE_ACCOUNT_PREFIX, Opinion, RbacObjects, authorize

SUPERUSERS = "system:masters"
SERVICE_ACCOUNTS = "system:serviceaccounts"


class RecordedDecisions(NamedTuple):
    """The authorization decisions of one cluster in a log: their number, and the number that RBAC cannot have made.

    `by_others` counts allowed requests whose reason is not RBAC's and whose users are neither superusers nor nodes.
    """

    cluster: str
    decisions: int
    by_others: int


def others_of(recorded: Iterable[RecordedDecisions]) -> Mapping[str, OtherAuthorizers]:
    """The other authorizers of each cluster, as its log shows them.

    If RBAC, Node and the superuser group allowed every allowed request of a log, the cluster is taken to have no others. A log
    without any decision says nothing; a cluster without an entry may have any.
    """
    return {
        each.cluster: OtherAuthorizers.NODE if each.decisions and not each.by_others else OtherAuthorizers.ANY for each in recorded
    }


# Answers authorization checks: may this user do this?
AuthorizeUser: TypeAlias = Callable[[UserInfo, Attributes], Answer]


def service_account(namespace: str, name: str) -> UserInfo:
    """The user that `authorizer.serviceAccount` asks about: in the groups of service accounts, but not in system:authenticated."""
    groups = (SERVICE_ACCOUNTS, f"{SERVICE_ACCOUNTS}:{namespace}")
    return UserInfo(f"{SERVICE_ACCOUNT_PREFIX}{namespace}:{name}", groups=groups)


def answer(objects: RbacObjects, others: OtherAuthorizers, user: UserInfo, asked: Attributes) -> Answer:
    """The answer that the server gave, or would have given, to a user who asks for something."""
    if asked.service_account is not None:
        user = service_account(*asked.service_account)
    if SUPERUSERS in user.groups:
        return Answer(True)
    return answer_of(authorize(objects, user, asked), others, user, asked)


def answer_of(opinion: Opinion, others: OtherAuthorizers, user: UserInfo, asked: Attributes) -> Answer:
    """The answer of all authorizers to a user outside of the superuser group, by RBAC's opinion."""
    other = others.may_allow(user)
    if opinion.allowed:
        # Another authorizer may have come first, with its own reason.
        return Answer(True, None if other else opinion.reason)
    if opinion.allowed is None:
        return Answer(None, opinion.why)
    if not user.is_whole:  # the group of superusers may be one of the missing ones
        return Answer(None, GROUPS_UNKNOWN)
    if other and others is OtherAuthorizers.NODE and not asked.is_redacted:
        found = node_opinion(user.username.removeprefix(NODE_PREFIX), asked)
        if found is not None:
            return Answer(True) if found.allowed else Answer(False, _joined(found.reason, opinion.reason))
    if other:
        return Answer(None, f"RBAC does not allow it, and {other} may")
    return Answer(False, opinion.reason)


def _joined(*reasons: str | None) -> str | None:
    """The reasons of authorizers without an opinion, one a line (kubernetes/apiserver pkg/authorization/union/union.go)."""
    return None if None in reasons else "\n".join(filter(None, reasons))
