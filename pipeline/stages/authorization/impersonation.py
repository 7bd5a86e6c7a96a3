"""The questions that the API server asks before a user may act as another.

Follows kubernetes/apiserver pkg/endpoints/filters/impersonation/{mode,constrained_impersonation}.go (1.36; before, only the legacy
mode existed, in impersonation.go). The server tries the modes one after another, and the first that is allowed counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from ...authorization.rbac import SERVICE_ACCOUNT_PREFIX
from ...cel.library.authorizer import Attributes
from ...request import UserInfo
from ...withheld import holds_placeholder
from .needs import Ask, Way

# From here on the constrained modes are on by default.
CONSTRAINED_SINCE = (1, 36)
_GROUP = "authentication.k8s.io"
NODE_PREFIX = "system:node:"
NODE_OF_TOKEN = "authentication.kubernetes.io/node-name"
_AUTHENTICATED, _UNAUTHENTICATED, _ANONYMOUS = "system:authenticated", "system:unauthenticated", "system:anonymous"
_MASTERS, _NODES, _SERVICE_ACCOUNTS = "system:masters", "system:nodes", "system:serviceaccounts"
# With this many values of one sort, one question about all of them may stand for the single ones.
_MANY = 4
_LABEL = r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?"
_SUBDOMAIN = re.compile(rf"(?=.{{1,253}}\Z){_LABEL}(?:\.{_LABEL})*")
_NAMESPACE = re.compile(_LABEL)
_EXTRA_KEY = re.compile(rf"{_LABEL}(?:\.{_LABEL})*/[A-Za-z0-9/\-._~%!$&'()*+,;=:]+")


class Wanted(NamedTuple):
    """The user as whom a request asks to act, as its headers say."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, list[str]] = {}

    @property
    def is_name_only(self) -> bool:
        """Whether nothing but a name is given. All constrained modes but one need this."""
        return not (self.uid or self.groups or self.extra)


def wanted_users(acting: UserInfo) -> Iterator[Wanted]:
    """What the headers of a request may have said, by the user that it acted as.

    The server adds groups to those of the headers: the fixed ones of nodes and service accounts, and system:authenticated or
    system:unauthenticated. The headers may also have named an added group. Each reading is possible.
    """
    added = {_UNAUTHENTICATED} if acting.username == _ANONYMOUS else {_AUTHENTICATED}
    own = tuple(group for group in acting.groups if group not in added)
    readings = [own]
    account = _service_account(acting.username)
    fixed = {_SERVICE_ACCOUNTS, f"{_SERVICE_ACCOUNTS}:{account[0]}"} if account else {_NODES} if _node(acting.username) else None
    if fixed is not None and set(own) == fixed:
        readings = [(), own]
    if own != acting.groups:
        readings.append(acting.groups)
    for groups in dict.fromkeys(readings):
        yield Wanted(acting.username, acting.uid, groups, acting.extra)


def impersonation_ways(
    requestor: UserInfo, wanted: Wanted, asked: Attributes, kubernetes_version: tuple[int, int]
) -> Iterator[Way]:
    """Each way in which the requestor may be allowed to make a request as another user: one for each mode that applies."""
    if kubernetes_version >= CONSTRAINED_SINCE:
        for mode in _constrained_modes(requestor, wanted):
            on = Ask(requestor, asked._replace(verb=f"impersonate-on:{mode}:{asked.verb}"))
            for identity in _identity(requestor, wanted, f"impersonate:{mode}", is_constrained=True):
                yield (on, *identity)
    yield from _identity(requestor, wanted, "impersonate", is_constrained=False)


def is_constrained(way: Way) -> bool:
    """Whether a way is one of a constrained mode."""
    return any(ask.asked.verb.startswith(("impersonate:", "impersonate-on:")) for ask in way)


def _constrained_modes(requestor: UserInfo, wanted: Wanted) -> Iterator[str]:
    node, account = _node(wanted.name), _service_account(wanted.name)
    if wanted.is_name_only and node:
        if _service_account(requestor.username) and list(requestor.extra.get(NODE_OF_TOKEN, ())) == [node]:
            yield "associated-node"
        yield "arbitrary-node"
    elif wanted.is_name_only and account:
        yield "serviceaccount"
    if not node and not account and not _is_refused(wanted):
        yield "user-info"


def _is_refused(wanted: Wanted) -> bool:
    """Whether no constrained mode gives these values to anybody."""
    values = [value for several in wanted.extra.values() for value in several]
    return (
        "" in wanted.groups
        or _MASTERS in wanted.groups
        or "" in values
        or not all(wanted.extra.values())
        or not all(_EXTRA_KEY.fullmatch(key) and key == key.lower() for key in wanted.extra)
    )


def _identity(requestor: UserInfo, wanted: Wanted, verb: str, is_constrained: bool) -> Iterator[Way]:
    """The questions about the identity alone."""
    group = _GROUP if is_constrained else ""

    def ask(resource: str, name: str, in_group: str = group, subresource: str = "", namespace: str = "") -> Ask:
        asked = Attributes(verb, "", in_group, resource, subresource, namespace, name, is_redacted=holds_placeholder(name))
        return Ask(requestor, asked)

    if is_constrained and (node := _node(wanted.name)):
        first = ask("nodes", "*" if verb == "impersonate:associated-node" else node)
    elif account := _service_account(wanted.name):
        first = ask("serviceaccounts", account[1], namespace=account[0])
    else:
        first = ask("users", wanted.name)
    uid = [ask("uids", wanted.uid, _GROUP)] if wanted.uid else []
    groups = tuple(ask("groups", name) for name in wanted.groups)
    extra = tuple(ask("userextras", value, _GROUP, key) for key, values in wanted.extra.items() for value in values)
    all_groups = [groups]
    all_extra = [extra]
    if is_constrained and len(groups) >= _MANY:
        all_groups.append((ask("groups", "*"),))
    if is_constrained and max(len(extra), len(wanted.extra)) >= _MANY:
        all_extra.append((ask("userextras", "*", _GROUP, "*"),))
    for these in all_groups:
        for those in all_extra:
            yield (first, *uid, *these, *those)


def _node(username: str) -> str:
    """The name of a node by its user name; empty for other users."""
    name = username.removeprefix(NODE_PREFIX)
    return name if name != username and _SUBDOMAIN.fullmatch(name) else ""


def _service_account(username: str) -> tuple[str, str] | None:
    """The namespace and the name of a service account by its user name; None for other users."""
    parts = username.removeprefix(SERVICE_ACCOUNT_PREFIX).split(":") if username.startswith(SERVICE_ACCOUNT_PREFIX) else []
    if len(parts) != 2 or not _NAMESPACE.fullmatch(parts[0]) or not _SUBDOMAIN.fullmatch(parts[1]):
        return None
    return parts[0], parts[1]
