"""The rules in force at the end of a window with their use, and the evidence for calling a rule unused."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import NamedTuple

from queries import LakeReader

from ...authorization import RecordedRbac
from ...authorization.recorded import RbacAt
from ...cel.minors import DEFAULT
from ...history.versions import LogVersions
from ...history.world import LogHistory
from .asked import Question, gather_asked, nameless_asked, register_named
from .questions import needs_of
from .unused import GrantedRule, Use, granted_rules
from .used_rights import was_allowed


class UseEvidence(NamedTuple):
    """The record that says which rules were used: allowed requests, and when.

    `unused_before` rules had no use in the half before `middle`, and `used_after` of these had one in the half from then on.
    """

    requests: int
    first_ts: datetime
    middle: datetime
    last_ts: datetime
    unused_before: int
    used_after: int


class InForce(NamedTuple):
    """The rules in force with their use; `evidence` is None without any recorded request."""

    rules: tuple[GrantedRule, ...]
    evidence: UseEvidence | None


def rights_in_force(
    reader: LakeReader,
    history: LogHistory,
    cluster: str,
    since: datetime | None = None,
    until: datetime | None = None,
    kubernetes_version: tuple[int, int] = DEFAULT,
    subject: str | None = None,
) -> InForce:
    """Every rule in force at the last request, with its use since `since`; with `subject`, only those for this user.

    Roles and bindings without a record are missing.
    """
    rbac = RecordedRbac(history)
    gather_asked(reader, since, until)
    register_named(reader, {cluster: rbac.named(cluster)})
    found = [each for each in nameless_asked(reader) if each.event.cluster == cluster]
    if not found:
        return InForce((), None)
    first, last = min(each.first_ts for each in found), max(each.last_ts for each in found)
    middle, at = first + (last - first) / 2, rbac.at(cluster, last)
    uses = list(_uses(found, history.versions, kubernetes_version))
    before, after, whole = (
        list(_rules(at, [use for question, use in uses if is_in(question)], [use for _, use in uses], subject))
        for is_in in (lambda each: each.first_ts < middle, lambda each: each.last_ts >= middle, lambda each: True)
    )
    later = [new.requests for old, new in zip(before, after, strict=True) if not old.requests]
    requests = sum(each.requests for each in found if was_allowed(each))
    return InForce(tuple(whole), UseEvidence(requests, first, middle, last, len(later), sum(count > 0 for count in later)))


def _rules(at: RbacAt, uses: Iterable[Use], every: Iterable[Use], subject: str | None) -> Iterator[GrantedRule]:
    """The rules with some uses: all, or those of one user and of the groups in which any use shows it."""
    rules = granted_rules(at, at.namespaces(), uses, subject)
    if subject is None:
        return rules
    groups = {group for use in every if use.user.username == subject for group in use.user.groups}
    whose = {f"User {subject}", *(f"Group {group}" for group in groups)}
    return (each for each in rules if whose & {*each.subjects})


def _uses(
    questions: Iterable[Question], versions: LogVersions, kubernetes_version: tuple[int, int]
) -> Iterator[tuple[Question, Use]]:
    """Every question that was allowed."""
    for question in questions:
        if not was_allowed(question):
            continue
        for need in needs_of(question.event, question.identity, versions, kubernetes_version):
            if need.why_unknown and need.user is not None:
                yield question, Use(need.user, None, question.requests)
            for way in need.readings[0][:1]:
                yield from ((question, Use(ask.user, ask.asked, question.requests)) for ask in way)
