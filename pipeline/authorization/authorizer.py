"""The whole chain of authorizers of a server, as far as anybody can know it.

A server asks one authorizer after the other until one of them allows or denies. The superuser group is always first
(kubernetes/apiserver pkg/authorization/authorizerfactory/builtin.go, privilegedGroupAuthorizer), RBAC can be replayed, and of all
others nothing is recorded but what they allowed. So the rule here is:

- system:masters may do everything, and the reason is empty.
- What RBAC allows is allowed. That an authorizer denies what RBAC allows is not thought of: of all kinds only a webhook can.
- What RBAC has no opinion on is denied if no other authorizer could have allowed it, and unknown otherwise.
- Where RBAC itself is unknown, so is the answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import NamedTuple

from ..cel.library.authorizer import Answer, Attributes
from ..request import UserInfo
from .rbac import SERVICE_ACCOUNT_PREFIX, RbacObjects, authorize

SUPERUSERS = "system:masters"
NODES = "system:nodes"
NODE_PREFIX = "system:node:"
SERVICE_ACCOUNTS = "system:serviceaccounts"


class OtherAuthorizers(StrEnum):
    """Which authorizers a server has other than the superuser group and RBAC."""

    NONE = "none"
    NODE = "node"  # what kubeadm and most distributions configure: nodes may be allowed more than RBAC says
    ANY = "any"  # a webhook or a policy file may allow anything to anybody

    def may_allow(self, user: UserInfo) -> str:
        """Which authorizer other than RBAC might allow this user something; empty if none."""
        if self is OtherAuthorizers.ANY:
            return "another authorizer"
        # kubernetes pkg/auth/nodeidentifier/default.go: the group and the form of the name make a node.
        is_node = user.username.startswith(NODE_PREFIX) and NODES in user.groups
        return "the Node authorizer" if self is OtherAuthorizers.NODE and is_node else ""


class RecordedDecisions(NamedTuple):
    """What a log tells of the authorizers of one cluster: how many decisions, and how many that RBAC cannot have made.

    `by_others` counts requests that were allowed with another reason than RBAC's, to users that are neither superusers nor nodes.
    """

    cluster: str
    decisions: int
    by_others: int


def others_of(recorded: Iterable[RecordedDecisions]) -> Mapping[str, OtherAuthorizers]:
    """Which other authorizers each cluster has, by what its log shows.

    A log in which RBAC, Node and the superuser group allowed everything that was allowed speaks for there being no other. A log
    without any decision says nothing; a cluster that is not mentioned may have any.
    """
    return {
        each.cluster: OtherAuthorizers.NODE if each.decisions and not each.by_others else OtherAuthorizers.ANY for each in recorded
    }


def service_account(namespace: str, name: str) -> UserInfo:
    """The user that `authorizer.serviceAccount` asks about: in the groups of service accounts, and not in system:authenticated."""
    groups = (SERVICE_ACCOUNTS, f"{SERVICE_ACCOUNTS}:{namespace}")
    return UserInfo(f"{SERVICE_ACCOUNT_PREFIX}{namespace}:{name}", groups=groups)


def answer(objects: RbacObjects, others: OtherAuthorizers, user: UserInfo, asked: Attributes) -> Answer:
    """What the server said, or would have said, to a user who asks for something."""
    if asked.service_account is not None:
        user = service_account(*asked.service_account)
    if SUPERUSERS in user.groups:
        return Answer(True)
    opinion = authorize(objects, user, asked)
    other = others.may_allow(user)
    if opinion.allowed:
        # Another authorizer may have come first, in words of its own.
        return Answer(True, None if other else opinion.reason)
    if opinion.allowed is None:
        return Answer(None, opinion.why)
    if not user.is_whole:
        return Answer(None, "a group may allow it, and the user's groups were not recorded")
    if other:
        return Answer(None, f"RBAC does not allow it, and {other} may")
    return Answer(False, opinion.reason)
