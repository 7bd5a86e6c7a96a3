"""What may authorize requests besides RBAC. An option of many commands names it, so this file loads nothing else."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .request import UserInfo

NODES = "system:nodes"
NODE_PREFIX = "system:node:"


class OtherAuthorizers(StrEnum):
    """The authorizers of a server other than the superuser group and RBAC."""

    NONE = "none"
    NODE = "node"  # as kubeadm and most distributions configure it: nodes may have more rights than RBAC gives
    ANY = "any"  # a webhook or a policy file may allow anything to any user

    def may_allow(self, user: UserInfo) -> str:
        """The authorizer other than RBAC that might allow this user something; empty if no such authorizer exists."""
        if self is OtherAuthorizers.ANY:
            return "another authorizer"
        # kubernetes pkg/auth/nodeidentifier/default.go: the group and the form of the name make a user a node.
        is_node = user.username.startswith(NODE_PREFIX) and NODES in user.groups
        return "the Node authorizer" if self is OtherAuthorizers.NODE and is_node else ""
