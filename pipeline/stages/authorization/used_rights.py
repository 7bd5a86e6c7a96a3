"""What a user has to be allowed so that its recorded requests still find their permissions."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple, TypeAlias

from ...cel.library.authorizer import Attributes
from ...history.event import Event
from ...history.kinds import by_resource
from .asked import Question
from .defaults import is_everybodys
from .impersonation import is_constrained
from .judging import recorded_of
from .least import LeastOptions
from .needs import Ask, Grant, Need, NeedKind, Way
from .role_objects import may_be_namespace

NO_MODE = "the log does not tell in which mode the user acted as another"
NO_WAY = "no mode of impersonation that the log shows allows it"
WILDCARD = "a rule can name it by a wildcard only, which allows more"
NO_NAMESPACE = "no Role can be in a namespace of this name"
NO_VERB = "the verb is not recorded"
REDACTED = "its name or path was redacted"
NOT_SERVED = "the resource is of the whole cluster, and no server serves it in a namespace"


class LeftOut(NamedTuple):
    """A right that a request used and that the roles leave out, with the reason. `asked` is None where the log does not show it."""

    reason: str
    kind: NeedKind
    asked: Attributes | None = None
    namespace: str = ""


Item: TypeAlias = Attributes | Grant | LeftOut


def needed(question: Question, needs: Iterable[Need], user: str, options: LeastOptions) -> Iterator[Item]:
    """What a user has to be allowed so that its recorded requests still find their permissions: questions, and rules to hold.

    Permissions that the server refused are left out. Of several modes of impersonation, the recorded one counts. To write a
    binding, the verb bind on its role is enough. To write a role, the user has to hold the rules in it, because the verb escalate
    would let it write any rules.
    """
    recorded = recorded_of(question.event)
    for need in needs:
        if recorded.refused is not None and not need.kind.precedes(recorded.refused):
            return
        if need.why_unknown:
            yield LeftOut(need.why_unknown, need.kind, need.nameless.asked if need.nameless is not None else None)
        elif need.grants and need.grants[0].role_ref is None:
            if need.grants[0].user.username == user:
                yield from need.grants
        else:
            way = _used_way(need, question.constraint)
            own = (ask for ask in way if ask.user.username == user) if isinstance(way, tuple) else (LeftOut(way, need.kind),)
            yield from (_placed(each, need.kind) for each in own if not _is_default(each, options))


def _is_default(ask: Ask | LeftOut, options: LeastOptions) -> bool:
    return options.counts_on_defaults and isinstance(ask, Ask) and is_everybodys(ask.user, ask.asked)


def _used_way(need: Need, constraint: str | None) -> Way | str:
    """The way by which a permission was given, or why it is not known: by the recorded mode of impersonation, else the first one.

    An unknown mode is not taken for the legacy one, which gives more than any other.
    """
    ways = [way for reading in need.readings for way in reading]
    if need.kind is not NeedKind.IMPERSONATION:
        return ways[0] if ways else ()
    if constraint is None:
        return NO_MODE if any(is_constrained(way) for way in ways) else next(iter(ways), NO_WAY)
    by_mode = (way for way in ways if any(ask.asked.verb == (constraint or "impersonate") for ask in way))
    return next(by_mode, NO_WAY)


def _placed(ask: Ask | LeftOut, kind: NeedKind) -> Attributes | LeftOut:
    """The question as a rule can allow it, or why none should.

    The server asks about all params with the namespace and the name '*', and about params of an unknown kind with stars for group
    and resource.
    """
    if isinstance(ask, LeftOut):
        return ask
    asked = of_cluster(ask.asked)
    if kind is NeedKind.PARAM and asked.namespace == "*":
        asked = asked._replace(namespace="")
    reason = "" if kind is NeedKind.PARAM else _unwritable(asked)
    if not reason and asked.namespace and not may_be_namespace(asked.namespace):
        reason = NO_NAMESPACE
    return LeftOut(reason, kind, asked, asked.namespace) if reason else asked


def of_cluster(asked: Attributes) -> Attributes:
    """A Namespace is an object of the whole cluster, though authorizers see it in the namespace of its own name."""
    return asked._replace(namespace="") if (asked.group, asked.resource) == ("", "namespaces") else asked


def _unwritable(asked: Attributes) -> str:
    """Why no rule can allow exactly this; empty if one can. A client chooses its URL, and may put stars there."""
    if not asked.verb:
        return NO_VERB
    if asked.is_redacted:
        return REDACTED
    if "*" in (asked.verb, asked.group, asked.resource) or asked.path.endswith("*"):
        return WILDCARD
    found = by_resource(asked.group, asked.resource)
    if found is not None and not found.namespaced and asked.namespace:
        return NOT_SERVED
    return ""


def was_allowed(question: Question) -> bool:
    """Whether the authorizers let a request pass: by their decision or, in a log without decisions, by its answer."""
    recorded = recorded_of(question.event)
    if recorded.refused is not None:
        return NeedKind.REQUEST.precedes(recorded.refused)
    if recorded.allowed is None:
        return 0 < question.event.code < 400
    return recorded.allowed


def was_granted(event: Event) -> bool:
    """Whether a request lacked no permission at all, neither its own nor one that the server asked for while it went on."""
    recorded = recorded_of(event)
    if recorded.allowed is None:
        return 0 < event.code < 400
    return recorded.allowed


def lacked(question: Question, needs: Iterable[Need]) -> Iterator[Attributes]:
    """The permission that a refused request lacked, and the request's own."""
    refused = recorded_of(question.event).refused or NeedKind.REQUEST
    for need in needs:
        if need.kind in (NeedKind.REQUEST, refused):
            asks = [ask for way in need.readings[0][:1] for ask in way]
            yield from (of_cluster(ask.asked) for ask in asks)


def without_namespaces(items: Iterable[Item], gone: Collection[str]) -> Iterator[Item]:
    """The rights, where those in some namespaces are left out: a Role cannot be written into a namespace that is not there."""
    for each in items:
        if not isinstance(each, LeftOut) and each.namespace in gone:
            asked = each if isinstance(each, Attributes) else None
            kind = NeedKind.GRANT if asked is None else NeedKind.REQUEST
            yield LeftOut(f"the namespace {each.namespace} was deleted", kind, asked, each.namespace)
        else:
            yield each
