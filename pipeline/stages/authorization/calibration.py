"""Agreement between the roles that the log shows and the decisions that it recorded: it measures how good predictions are here.

Compared are the decision and the reason of each request, its further permissions by its answer, and recorded access reviews. The
server names any one of several allowing bindings, so its reason must be one of the possible ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import msgspec

from queries import LakeReader

from ...authorization import OtherAuthorizers, RecordedRbac
from ...authorization.authorizer import SUPERUSERS, answer_of
from ...authorization.rbac import Opinions
from ...authorization.recorded import RbacAt
from ...cel.library.authorizer import Answer, Attributes
from ...cel.minors import DEFAULT
from ...history.event import Event, decode_json, effective_user
from ...history.fit import is_fit
from ...history.world import LogHistory
from ...request import UserInfo
from ...requests.past import load_history
from ...runs.window import Window
from ..kept_agreement import kept_agreement
from .asked import NAME_BLIND, bodies_asked, event_row, gather_asked, passes_sql, register_moments, register_named, register_settled
from .needs import Ask, Need, NeedKind, meet
from .node_graph import NodeGraph
from .questions import identity_of, needs_of, refusal_of
from .sql import statement

_BATCH_ROWS = 4096
_NAMES = "SELECT cluster, audit_id, ts, name FROM events WHERE list_contains($ids, audit_id) AND name IS NOT NULL"
_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)
# What the Node authorizer answers to a question because of what the log shows of nodes; None where that is unknown.
_OfNode: TypeAlias = Callable[[Ask], Answer | None]
REVIEW = "review"  # a recorded access review, which asks about anybody


class Decided(StrEnum):
    """A recorded or a replayed decision."""

    ALLOW = "allow"
    FORBID = "forbid"
    UNKNOWN = "unknown"


class Compared(NamedTuple):
    """Requests whose decisions compare in the same way.

    `need` is a NeedKind or REVIEW. `resource` is that of the question, empty for paths. `has_other_reason`: both decide alike, and
    the recorded reason is not a possible one. `why` says why the replay does not know, or with which reason it decides.
    """

    need: str
    resource: str
    asked: str
    user: str
    recorded: Decided
    replayed: Decided
    has_other_reason: bool
    recorded_reason: str
    why: str
    requests: int
    first_ts: datetime
    audit_id: str

    @property
    def agrees(self) -> bool:
        """Whether decision and reason agree."""
        return self.recorded is self.replayed and not self.has_other_reason


@dataclass(frozen=True, slots=True)
class Agreement:
    """All comparisons of a window."""

    compared: tuple[Compared, ...]

    def count(self) -> Counter[str]:
        """Requests by `agreed`, `disagreed` and `unknown`."""
        counts: Counter[str] = Counter()
        for each in self.compared:
            is_unknown = Decided.UNKNOWN in (each.recorded, each.replayed)
            counts["unknown" if is_unknown else "agreed" if each.agrees else "disagreed"] += each.requests
        return counts

    def confusion(self) -> Mapping[tuple[str, str], Counter[tuple[Decided, Decided]]]:
        """For each (need, resource), requests by the recorded and the replayed decision."""
        found: dict[tuple[str, str], Counter[tuple[Decided, Decided]]] = {}
        for each in self.compared:
            found.setdefault((each.need, each.resource), Counter())[each.recorded, each.replayed] += each.requests
        return dict(sorted(found.items()))

    def disagreements(self) -> tuple[Compared, ...]:
        """The comparisons that do not agree, and that are not unknown."""
        unknown = Decided.UNKNOWN
        return tuple(each for each in self.compared if not each.agrees and unknown not in (each.recorded, each.replayed))

    def summed(self) -> Agreement:
        """The same figures. Only disagreements keep their examples: the others are one row per permission, resource and reason."""
        unknown = Decided.UNKNOWN
        kept: list[Compared] = []
        sums: dict[Compared, int] = {}
        for each in self.compared:
            is_unknown = unknown in (each.recorded, each.replayed)
            if not is_unknown and not each.agrees:
                kept.append(each)
                continue
            key = each._replace(asked="", user="", recorded_reason="", requests=0, first_ts=_LONG_AGO, audit_id="")
            key = key if is_unknown else key._replace(why="")
            sums[key] = sums.get(key, 0) + each.requests
        return Agreement((*kept, *(key._replace(requests=requests) for key, requests in sums.items())))

    def unknown_reasons(self) -> Counter[str]:
        """Why decisions are unknown, by the number of requests."""
        counts: Counter[str] = Counter()
        for each in self.compared:
            if each.replayed is Decided.UNKNOWN:
                counts[each.why] += each.requests
        return counts


def recorded_agreement(
    reader: LakeReader, window: Window, others: Mapping[str, OtherAuthorizers], kubernetes_version: tuple[int, int]
) -> Agreement:
    """As `compare_authorization`, with examples of disagreements alone. It is found out once for the files of a lake."""

    def compared() -> Agreement:
        history = load_history(reader, (), window)
        return compare_authorization(reader, history, others, window.since, window.until, kubernetes_version).summed()

    asked = (window, kubernetes_version, sorted(others.items(), key=lambda entry: entry[0]))
    return kept_agreement(reader, "authorization", asked, Agreement, compared)


def compare_authorization(
    reader: LakeReader,
    history: LogHistory,
    others: Mapping[str, OtherAuthorizers],
    since: datetime | None = None,
    until: datetime | None = None,
    kubernetes_version: tuple[int, int] = DEFAULT,
) -> Agreement:
    """Compare every recorded decision of a window with the replay of the roles at the time of each request.

    `others` are the authorizers of each cluster other than RBAC. Leaves tables in the reader's connection.
    """
    rbac = RecordedRbac(history, others)
    requests = _requests(reader, rbac, history, others, since, until, kubernetes_version)
    return Agreement((*requests, *_reviews(reader, rbac, others, since, until)))


def _requests(
    reader: LakeReader,
    rbac: RecordedRbac,
    history: LogHistory,
    others: Mapping[str, OtherAuthorizers],
    since: datetime | None,
    until: datetime | None,
    kubernetes_version: tuple[int, int],
) -> Iterator[Compared]:
    gather_asked(reader, since, until)
    clusters = [name for (name,) in reader.connection.execute("SELECT DISTINCT cluster FROM asked").fetchall()]
    moments = {cluster: rbac.moments(cluster) for cluster in clusters}
    register_moments(reader, moments)
    register_settled(reader, ())
    register_named(reader, {cluster: rbac.named(cluster) for cluster in clusters})
    passes = passes_sql(is_only=False, is_name_blind=NAME_BLIND, with_creates=True)
    reader.connection.execute(f"CREATE OR REPLACE TEMP TABLE passes AS {passes}")
    bodies, graph = bodies_asked(reader), NodeGraph(reader)
    opinions: dict[RbacAt, Opinions] = {}
    nameless: list[tuple[str, Compared]] = []
    for row in list(_rows(reader, statement("questions"))):  # the graph asks the lake in between
        question = row["question"]
        full = event_row(question, bodies, row["first_ts"], row["example"])
        event, epoch = Event.from_row(full), question["epoch"]
        moment = moments[event.cluster][epoch - 1] if epoch > 0 else _LONG_AGO
        at = rbac.at(event.cluster, moment)
        if at not in opinions:
            opinions[at] = Opinions(at)
        needs = needs_of(event, identity_of(full), history.versions, kubernetes_version)
        chain = others.get(event.cluster, OtherAuthorizers.ANY)
        of_node = partial(graph.answer, event.cluster, others=chain, times=row["times"] or ())
        for found in _needs(event, needs, at, opinions[at], chain, of_node):
            told = found._replace(requests=row["requests"], first_ts=row["first_ts"], audit_id=row["example"])
            if question["is_nameless"] and not told.agrees:
                nameless.append((event.cluster, told))
            else:
                yield told
    yield from _with_names(reader, nameless)


def _with_names(reader: LakeReader, nameless: Sequence[tuple[str, Compared]]) -> Iterator[Compared]:
    """Disagreements about requests of several names, each by its cluster, with the name in its example."""
    ids = [each.audit_id for _, each in nameless]
    rows = reader.connection.execute(_NAMES, {"ids": ids}).fetchall() if ids else []
    names = {(cluster, audit_id, ts): name for cluster, audit_id, ts, name in rows}
    for cluster, each in nameless:
        name = names.get((cluster, each.audit_id, each.first_ts), "")
        is_named = name and each.asked.endswith(("/-", " -"))
        yield each._replace(asked=f"{each.asked[:-1]}{name}") if is_named else each


def _rows(reader: LakeReader, query: str, parameters: Mapping[str, Any] | None = None) -> Iterator[dict[str, Any]]:
    for batch in reader.sql(query, dict(parameters or {})).to_arrow_reader(_BATCH_ROWS):
        yield from batch.to_pylist()


def _needs(
    event: Event, needs: Iterable[Need], at: RbacAt, opinions: Opinions, others: OtherAuthorizers, of_node: _OfNode
) -> Iterator[Compared]:
    """The permissions of a request whose outcome the log shows."""
    refused = refusal_of(event)
    decision = event.annotations.get("authorization.k8s.io/decision", "")
    for need in needs:
        if need.kind is NeedKind.AUTHENTICATION or (refused is not None and refused.precedes(need.kind)):
            return
        if not decision and refused is None:
            return  # the log has no decision to compare with
        if need.kind is NeedKind.REQUEST and need.why_unknown and need.user is None:
            return  # nor does the answer tell who refused
        recorded = Decided.FORBID if refused is need.kind else Decided.ALLOW
        if need.kind is NeedKind.REQUEST and need.ask is not None:
            found = _request(
                need.ask, recorded, event.annotations.get("authorization.k8s.io/reason", ""), opinions, others, of_node
            )
            yield found if decision else found._replace(has_other_reason=False)
        else:
            yield _further(event, need, recorded, at, others)


def _request(
    ask: Ask,
    recorded: Decided,
    reason: str,
    opinions: Opinions,
    others: OtherAuthorizers,
    of_node: _OfNode,
    need: str = NeedKind.REQUEST,
) -> Compared:
    opinion = opinions.of(ask.user, ask.asked)
    found = Answer(True) if SUPERUSERS in ask.user.groups else answer_of(opinion, others, ask.user, ask.asked)
    told = of_node(ask) if found.allowed is None else None
    # RBAC may still allow what the Node authorizer does not.
    if told is not None and (told.allowed or opinion.allowed is False):
        found = told
    replayed = {True: Decided.ALLOW, False: Decided.FORBID, None: Decided.UNKNOWN}[found.allowed]
    possible: frozenset[str | None] = frozenset([found.reason])
    if found.allowed is not None and found.reason is None:
        possible = opinion.reasons
    is_other = found.allowed is not None and not _is_among(reason, possible) and None not in possible
    if is_other and others.may_allow(ask.user):
        is_other = False  # the other authorizer has reasons of its own
    why = found.reason if found.reason is not None else " or ".join(sorted(filter(None, possible)))
    return _compared(need, ask, recorded, replayed, recorded is replayed and is_other, reason, why)


def _is_among(reason: str, possible: Collection[str | None]) -> bool:
    """Whether one of the possible reasons was recorded.

    Where no authorizer has an opinion, the server joins their reasons, one a line. From 1.37, a line begins with the authorizer's
    name and a colon: kubernetes/apiserver pkg/authorization/union/union.go.
    """
    if reason in possible:
        return True
    lines = reason.split("\n")
    return any(each and any(line == each or line.endswith(f": {each}") for line in lines) for each in possible)


def _further(event: Event, need: Need, recorded: Decided, at: RbacAt, others: OtherAuthorizers) -> Compared:
    met = meet(need, at, others)
    replayed = {True: Decided.ALLOW, False: Decided.FORBID, None: Decided.UNKNOWN}[met.allowed]
    is_other = need.kind is NeedKind.GRANT and met.allowed is False and not event.message.endswith(met.reason)
    ask = met.ask or Ask(need.user or event.user, Attributes(event.verb, "", event.resource.group, event.resource.resource))
    reason = event.message if recorded is Decided.FORBID else ""
    return _compared(need.kind, ask, recorded, replayed, recorded is replayed and is_other, reason, met.reason)


def _compared(need: str, ask: Ask, recorded: Decided, replayed: Decided, has_other_reason: bool, reason: str, why: str) -> Compared:
    asked = ask.asked
    resource = f"{asked.resource}.{asked.group}".rstrip(".") + (f"/{asked.subresource}" if asked.subresource else "")
    return Compared(
        str(need), resource, str(asked), ask.user.username, recorded, replayed, has_other_reason, reason, why, 1, _LONG_AGO, ""
    )


def _reviews(
    reader: LakeReader,
    rbac: RecordedRbac,
    others: Mapping[str, OtherAuthorizers],
    since: datetime | None,
    until: datetime | None,
) -> Iterator[Compared]:
    """Recorded access reviews: their question and the server's answer are in the bodies."""
    graph = NodeGraph(reader)
    for row in list(_rows(reader, statement("reviews"), {"since": since, "until": until})):
        review = decode_json(row["response_object"])
        if not is_fit(review, _Review):
            continue  # a log may hold what no API server answers
        spec, status = review.get("spec") or {}, review.get("status") or {}
        ask = review_question(spec, effective_user(row) if row["resource"] == "selfsubjectaccessreviews" else None)
        if ask is None or "allowed" not in status:
            continue
        recorded = Decided.ALLOW if status["allowed"] else Decided.FORBID
        at, chain = rbac.at(row["cluster"], row["ts"]), others.get(row["cluster"], OtherAuthorizers.ANY)
        of_node = partial(graph.answer, row["cluster"], others=chain, times=[row["ts"]])
        found = _request(ask, recorded, status.get("reason") or "", Opinions(at), chain, of_node, REVIEW)
        yield found._replace(first_ts=row["ts"], audit_id=row["audit_id"])


class _Attributes(msgspec.Struct):
    path: str | None = None
    verb: str | None = None
    group: str | None = None
    resource: str | None = None
    subresource: str | None = None
    namespace: str | None = None
    name: str | None = None


class _Asked(msgspec.Struct, rename="camel"):
    user: str | None = None
    uid: str | None = None
    groups: list[str] | None = None
    extra: dict[str, list[str] | None] | None = None
    resource_attributes: _Attributes | None = None
    non_resource_attributes: _Attributes | None = None


class _Answered(msgspec.Struct):
    allowed: bool = False
    reason: str | None = None


class _Review(msgspec.Struct):
    spec: _Asked | None = None
    status: _Answered | None = None


def review_question(spec: Mapping[str, Any], requestor: UserInfo | None = None) -> Ask | None:
    """The question of an access review; `requestor` is the user of a SelfSubjectAccessReview. None if it asks nothing."""
    user = requestor or UserInfo(
        spec.get("user") or "", spec.get("uid") or "", tuple(spec.get("groups") or ()), spec.get("extra") or {}
    )
    path, resource = spec.get("nonResourceAttributes"), spec.get("resourceAttributes")
    if isinstance(path, dict):
        return Ask(user, Attributes(path.get("verb") or "", path.get("path") or ""))
    if not isinstance(resource, dict):
        return None
    verb, group, kind, subresource, namespace, name = (
        str(resource.get(part) or "") for part in ("verb", "group", "resource", "subresource", "namespace", "name")
    )
    return Ask(user, Attributes(verb, "", group, kind, subresource, namespace, name))
