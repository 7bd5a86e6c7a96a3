"""The questions of an impersonation that was refused, as far as the text of the refusal shows them.

The event does not tell as whom the request wanted to act. The text names the question that was refused first: a mode and the
request itself, or a mode and a part of the wanted user (kubernetes/apiserver pkg/endpoints/filters/impersonation). Each mode needs
at least the questions that follow from that. So a refusal is certain where no mode is left; an allowance stays unknown.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from typing import NamedTuple

from ...cel.library.authorizer import Attributes
from ...request import UserInfo
from .impersonation import CONSTRAINED_SINCE, NODE_OF_TOKEN, NODE_PREFIX, Wanted, impersonation_ways
from .needs import ANY_NAME, Ask, Need, NeedKind, Way

WHY = "these roles may allow the impersonation, and the log shows a part of the wanted user only"
_GROUP = "authentication.k8s.io"
_NOT_TOLD = "the impersonation was refused, and as whom is then not recorded"
# The resources that stand for the name of the wanted user.
_NAMES = ("users", "serviceaccounts", "nodes")
_NEVER = re.compile(r": impersonating .* is not allowed(?:\Z|: )")
_TEXT = re.compile(
    r'^(?:[^ "]+ (?:"(?P<name>(?:[^"\\]|\\.)*)" )?is )?forbidden: User "(?:[^"\\]|\\.)*" cannot (?P<verb>impersonate[a-z:-]*) '
    r'(?:path |resource "(?P<resource>[^"/]*)(?:/(?P<subresource>[^"]*))?" in API group "[^"]*"'
    r'(?: in the namespace "(?P<namespace>[^"]*)")?)'
)


class _Refused(NamedTuple):
    """The refused question. `mode` is empty for the legacy one. `part` is the resource that stands for a part of the wanted user,
    and empty where the question was about the request itself."""

    mode: str
    part: str
    subresource: str
    namespace: str
    name: str
    is_never: bool  # no role makes the mode allow it


def refused_need(user: UserInfo, asked: Attributes | None, message: str, kubernetes_version: tuple[int, int]) -> Need:
    """The permission to act as another user, which a refusal with this text says was lacking."""
    refused = _refused(message)
    if refused is None or asked is None:
        return Need(NeedKind.IMPERSONATION, why_unknown=_NOT_TOLD, user=user)
    is_constrained = bool(refused.mode) or kubernetes_version >= CONSTRAINED_SINCE
    ways = tuple(_ways(user, asked, refused, is_constrained))
    return Need(NeedKind.IMPERSONATION, (ways,), user=user, why_further=WHY)


def _refused(message: str) -> _Refused | None:
    found = _TEXT.match(message)
    if found is None:
        return None
    name = found["name"] or ""
    if "\\" in name or "REDACTED" in message[: found.start("verb")]:
        name = ""  # its spelling is not that of the name
    kind, _, mode = found["verb"].partition(":")
    mode = mode.partition(":")[0]
    part = "" if kind == "impersonate-on" else found["resource"] or ""
    is_never = _NEVER.search(message, found.end()) is not None
    subresource = html.unescape(found["subresource"] or "")
    return _Refused(mode, part, subresource, found["namespace"] or "", name or ANY_NAME, is_never)


def _ways(user: UserInfo, asked: Attributes, refused: _Refused, is_constrained: bool) -> Iterator[Way]:
    wanted = _wanted(user, refused)
    if wanted:
        yield from impersonation_ways(user, Wanted(wanted), asked, CONSTRAINED_SINCE if is_constrained else (1, 0))
        if refused.mode or not is_constrained:
            return
    elif is_constrained and not refused.is_never:
        for mode in _modes(user, refused):
            on = Ask(user, asked._replace(verb=f"impersonate-on:{mode}:{asked.verb}"))
            is_told = refused.part and not (refused.part in _NAMES and refused.name == ANY_NAME)
            parts = _parts(user, refused, f"impersonate:{mode}") if is_told else [()]
            yield from ((on, *part) for part in parts)
    yield from _legacy(user, refused)


def _wanted(user: UserInfo, refused: _Refused) -> str:
    """The name of the wanted user, where the text shows it and constrained modes would take nothing else."""
    if refused.mode == "associated-node":
        nodes = user.extra.get(NODE_OF_TOKEN) or ()
        return f"{NODE_PREFIX}{nodes[0]}" if len(nodes) == 1 and nodes[0] else ""
    if refused.name == ANY_NAME:
        return ""
    if refused.part == "serviceaccounts":
        return f"system:serviceaccount:{refused.namespace}:{refused.name}"
    if refused.part == "nodes":
        return f"{NODE_PREFIX}{refused.name}"
    return refused.name if refused.part == "users" else ""


def _modes(user: UserInfo, refused: _Refused) -> tuple[str, ...]:
    """The constrained modes that may apply, by the one in the text."""
    if refused.mode.endswith("-node"):
        return ("associated-node", "arbitrary-node")
    if not refused.mode and refused.part in _NAMES:
        return ("associated-node", "arbitrary-node", "serviceaccount", "user-info")
    return (refused.mode or "user-info",)


def _parts(user: UserInfo, refused: _Refused, verb: str) -> Iterator[Way]:
    """The question about the part itself; of many groups or extras, one about all of them may stand for the single ones."""
    part = Attributes(verb, "", _GROUP, refused.part, refused.subresource, refused.namespace, refused.name)
    yield (Ask(user, part),)
    if refused.part in ("groups", "userextras"):
        yield (Ask(user, part._replace(name="*", subresource="*" if refused.part == "userextras" else "")),)


def _legacy(user: UserInfo, refused: _Refused) -> Iterator[Way]:
    """The legacy mode asks for the name of the user first, then for each other part."""

    def ask(resource: str, name: str, namespace: str = "") -> Ask:
        group = _GROUP if resource in ("uids", "userextras") else ""
        subresource = refused.subresource if resource == "userextras" else ""
        return Ask(user, Attributes("impersonate", "", group, resource, subresource, namespace, name))

    if refused.part in ("users", "nodes"):
        name = refused.name if refused.part == "users" or refused.name == ANY_NAME else f"{NODE_PREFIX}{refused.name}"
        yield (ask("users", name),)
    elif refused.part == "serviceaccounts":
        yield (ask("serviceaccounts", refused.name, refused.namespace),)
    elif refused.mode == "serviceaccount":
        yield ()  # any account of any namespace
    elif refused.part == "userextras" and not refused.subresource:
        yield (ask("users", ANY_NAME),)  # no value was asked for
    elif refused.part and refused.mode:
        yield (ask("users", ANY_NAME), ask(refused.part, refused.name))
    elif refused.part:
        yield (ask(refused.part, refused.name),)
    else:
        yield (ask("users", ANY_NAME),)
