"""Least privilege from a lake: what a user did, the roles for it, and a replay of its requests under these roles."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from queries import LakeReader

from ...authorization import OtherAuthorizers, RecordedRbac
from ...authorization.attributes import attributes_of
from ...authorization.authorizer import SUPERUSERS
from ...cel.library.authorizer import Attributes
from ...history.versions import LogVersions
from ...history.world import LogHistory
from ...request import Object
from .asked import Question, asked_questions
from .judging import judge, recorded_of
from .least import LeastOptions, default_name, least_rules, manifests, needed, proposal_of, was_allowed
from .needs import Grant, Need, NeedKind
from .overlay import NoRbac
from .questions import needs_of
from .unused import GrantedRule, Use, granted_rules

_READS = ("get", "list", "watch")


class Right(NamedTuple):
    """One right that requests asked for. `resource` is a path for requests without one."""

    namespace: str
    verb: str
    resource: str
    name: str
    requests: int
    first_ts: datetime
    last_ts: datetime

    @property
    def target(self) -> str:
        """Such as `pods in shop`."""
        return f"{self.resource} in {self.namespace}" if self.namespace else self.resource


class Check(NamedTuple):
    """The replay of a user's allowed requests under the roles alone."""

    allowed: int = 0
    refused: int = 0
    unknown: int = 0

    @property
    def total(self) -> int:
        """All replayed requests."""
        return self.allowed + self.refused + self.unknown


@dataclass(frozen=True)
class Privileges:
    """The least privilege of one user.

    `requests` counts its allowed requests: `by_default` of these need no role, and another authorizer allowed `by_others`.
    `granted` counts the roles that the user wrote and whose rules it has to hold.
    """

    cluster: str
    subject: str
    requests: int
    by_default: int
    by_others: int
    granted: int
    reads: int
    rights: tuple[Right, ...]
    refused: tuple[Right, ...]
    manifests: tuple[Object, ...]
    check: Check
    first_ts: datetime | None = None
    last_ts: datetime | None = None
    needs: tuple[tuple[Question, tuple[Need, ...]], ...] = field(default=(), repr=False)


def least_privilege(
    reader: LakeReader,
    history: LogHistory,
    cluster: str,
    subject: str,
    since: datetime | None = None,
    until: datetime | None = None,
    kubernetes_version: tuple[int, int] = (1, 36),
    options: LeastOptions | None = None,
    name: str = "",
) -> Privileges:
    """The roles under which a user can do what it did from `since` to `until`, and their check.

    `history` has the stored roles and bindings that the user wrote.
    """
    options, versions = options or LeastOptions(), history.versions
    found = [each for each in asked_questions(reader, since, until, user=subject) if each.event.cluster == cluster]
    own = [(each, tuple(_own_needs(each, subject, versions, kubernetes_version))) for each in found]
    allowed = [(each, needs) for each, needs in own if needs and was_allowed(each)]
    used = [list(needed(each, needs, subject, options)) for each, needs in allowed]
    rules = least_rules((each for several in used for each in several), options)
    objects = manifests(rules, subject, name or default_name(subject))
    return Privileges(
        cluster=cluster,
        subject=subject,
        requests=sum(each.requests for each, _ in allowed),
        by_default=sum(each.requests for (each, needs), own in zip(allowed, used, strict=True) if not own and _are_known(needs)),
        by_others=sum(each.requests for each, _ in allowed if _is_by_others(each)),
        granted=sum(isinstance(each, Grant) for several in used for each in several),
        reads=sum(each.requests for each, _ in own if each.event.verb in _READS),
        rights=tuple(
            _rights(
                (each, item)
                for (each, _), several in zip(allowed, used, strict=True)
                for item in several
                if isinstance(item, Attributes)
            )
        ),
        refused=tuple(_refused(each for each, needs in own if needs and not was_allowed(each))),
        manifests=tuple(objects),
        check=_checked(allowed, objects, options),
        first_ts=min((each.first_ts for each, _ in allowed), default=None),
        last_ts=max((each.last_ts for each, _ in allowed), default=None),
        needs=tuple(allowed),
    )


def _own_needs(question: Question, subject: str, versions: LogVersions, kubernetes_version: tuple[int, int]) -> Iterator[Need]:
    """The permissions of a request that the subject needed: not those of another who acted as the subject, or as whom it acted."""
    for need in needs_of(question.event, question.identity, versions, kubernetes_version):
        if need.kind is NeedKind.IMPERSONATION:
            if need.user is not None and need.user.username == subject:
                yield need
        elif question.identity.user.username == subject:
            yield need


def _are_known(needs: Iterable[Need]) -> bool:
    """Whether the log shows what a request asked for."""
    return not any(need.why_unknown for need in needs)


def _is_by_others(question: Question) -> bool:
    is_master = SUPERUSERS in question.identity.user.groups
    recorded = recorded_of(question.event)
    return is_master or (recorded.allowed is True and not recorded.reason.startswith("RBAC: allowed by "))


def _checked(allowed: Sequence[tuple[Question, tuple[Need, ...]]], objects: Iterable[Object], options: LeastOptions) -> Check:
    """The replay of the requests under these objects alone, without regard to what allowed them then."""
    overlay = proposal_of(objects, options).over(NoRbac())
    counts: Counter[bool | None] = Counter()
    for question, needs in allowed:
        recorded = recorded_of(question.event)
        given = [need for need in needs if recorded.refused is None or need.kind.precedes(recorded.refused)]
        # A reason of RBAC makes the roles decide, also where another authorizer allowed the request.
        as_by_rbac = recorded._replace(allowed=True, refused=None, reason="RBAC: allowed by ")
        counts[judge(given, as_by_rbac, overlay, OtherAuthorizers.NONE).allowed] += question.requests
    return Check(counts[True], counts[False], counts[None])


def _rights(used: Iterable[tuple[Question, Attributes]]) -> Iterator[Right]:
    """The distinct rights, with how often and when they were used."""
    found: dict[tuple[str, str, str, str], tuple[int, datetime, datetime]] = {}
    for question, asked in used:
        resource = f"{asked.resource}.{asked.group}".rstrip(".") + (f"/{asked.subresource}" if asked.subresource else "")
        key = (asked.namespace, asked.verb, asked.path or resource, asked.name)
        requests, first, last = found.get(key, (0, question.first_ts, question.last_ts))
        found[key] = requests + question.requests, min(first, question.first_ts), max(last, question.last_ts)
    for key, figures in sorted(found.items()):
        yield Right(*key, *figures)


def _refused(questions: Iterable[Question]) -> Iterator[Right]:
    asked = ((each, attributes_of(each.event)) for each in questions)
    return _rights((each, attributes) for each, attributes in asked if isinstance(attributes, Attributes))


def unused_grants(
    reader: LakeReader,
    history: LogHistory,
    cluster: str,
    since: datetime | None = None,
    until: datetime | None = None,
    kubernetes_version: tuple[int, int] = (1, 36),
    subject: str | None = None,
) -> tuple[GrantedRule, ...]:
    """Every rule in force at the last request, with its use since `since`; with `subject`, only those for this user.

    Roles and bindings without a record are missing.
    """
    found = [each for each in asked_questions(reader, since, until) if each.event.cluster == cluster]
    uses, last = list(_uses(found, history.versions, kubernetes_version)), max((each.last_ts for each in found), default=None)
    if last is None:
        return ()
    at = RecordedRbac(history).at(cluster, last)
    rules = granted_rules(at, at.namespaces(), uses, subject)
    if subject is None:
        return tuple(rules)
    groups = {group for use in uses if use.user.username == subject for group in use.user.groups}
    whose = {f"User {subject}", *(f"Group {group}" for group in groups)}
    return tuple(each for each in rules if whose & {*each.subjects})


def _uses(questions: Iterable[Question], versions: LogVersions, kubernetes_version: tuple[int, int]) -> Iterator[Use]:
    """Every question that was allowed."""
    for question in questions:
        if not was_allowed(question):
            continue
        for need in needs_of(question.event, question.identity, versions, kubernetes_version):
            if need.why_unknown and need.user is not None:
                yield Use(need.user, None, question.requests)
            for way in need.readings[0][:1]:
                yield from (Use(ask.user, ask.asked, question.requests) for ask in way)
