"""The authorization stage: roles and bindings over recorded requests."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from queries import LakeReader

from ...authorization import OtherAuthorizers, RecordedRbac
from ...authorization.attributes import attributes_of
from ...authorization.documents import BINDINGS, ROLES
from ...authorization.rbac import quoted
from ...authorization.recorded import GROUP
from ...cel.library.authorizer import Attributes
from ...history.event import Event, Row
from ...history.versions import Versions
from ...history.world import LogHistory
from ...manifests.documents import Document
from ...request import Grade, Unknown
from ...requests.authorizers import other_authorizers
from ...requests.past import load_history
from ...row import INSUFFICIENT
from ...row import Row as VerdictRow
from ...runs.plan import PlannedRule
from ...runs.verdict import Flip
from ..grouped import GroupedPlan, GroupedStage, Judging
from ..stage import Asked, Kind
from .asked import bodies_asked, event_row, gather_asked, passes_sql, register_moments, register_settled
from .judging import Judged, judge, recorded_of, settles
from .needs import NeedKind
from .overlay import NoRbac, Overlay, Proposal
from .questions import identity_of, needs_of
from .readiness import RoleReadiness

NAME = "authorization"
_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)


def row_of(judged: Judged, words: str) -> VerdictRow:
    """The verdict on a request as a whole. `words` are its own question."""
    denied = judged.allowed is False
    is_unknown = judged.flip is Flip.UNKNOWN
    is_invalid = judged.need is NeedKind.PARAM
    detail = {"asked": words, "need": str(judged.need), "reason": judged.reason, "recorded_reason": judged.recorded.reason}
    return VerdictRow(
        policy=NAME,
        binding=None,
        param_namespace=None,
        param_name=None,
        expression_index=None,
        decision="unknown" if judged.allowed is None else "deny" if denied else "admit",
        effect="deny" if denied else None,
        message=refusal(judged) if denied else None,
        reason=("Invalid" if is_invalid else "Forbidden") if denied else None,
        code=(422 if is_invalid else 403) if denied else None,
        why=judged.reason if is_unknown else None,
        evidence=INSUFFICIENT if is_unknown else str(Grade.EXACT if judged.is_recorded else Grade.INFERRED),
        actions=["Deny"],
        audit_annotations=[],
        bypasses_actions=False,
        stage=NAME,
        rule_ref=judged.rule or None,
        recorded={True: "admit", False: "deny", None: None}[judged.recorded.allowed],
        flip=str(judged.flip),
        detail=json.dumps({name: value for name, value in detail.items() if value}, sort_keys=True),
    )


def refusal(judged: Judged) -> str:
    """The server's words for a refusal (kubernetes/apiserver pkg/endpoints/handlers/responsewriters/errors.go)."""
    if judged.need in (NeedKind.GRANT, NeedKind.PARAM, NeedKind.SIGNER) or judged.ask is None:
        return judged.reason
    user, asked = judged.ask
    return forbidden(user.username, asked, judged.reason)


def forbidden(username: str, asked: Attributes, reason: str) -> str:
    """The server's words for a request that no authorizer allows."""
    if not asked.is_resource_request:
        words = f"User {quoted(username)} cannot {asked.verb} path {quoted(asked.path)}"
    else:
        resource = f"{asked.resource}/{asked.subresource}" if asked.subresource else asked.resource
        place = f"in the namespace {quoted(asked.namespace)}" if asked.namespace else "at the cluster scope"
        what = f"resource {quoted(resource)} in API group {quoted(asked.group)}"
        words = f"User {quoted(username)} cannot {asked.verb} {what} {place}"
    return f"{words}: {reason}" if reason else words


class Authorization(GroupedStage[Proposal]):
    """See stage.Stage. It judges every request, because every request is authorized."""

    name = NAME
    kinds = frozenset(Kind(GROUP, kind) for kind in (*ROLES, *BINDINGS))
    readiness = RoleReadiness(NAME)

    def read(self, documents: Sequence[Document]) -> Proposal:
        """See stage.Stage."""
        own = [each for each in documents if str(each.value.get("apiVersion", "")).partition("/")[0] == GROUP]
        return Proposal.from_objects((each.value, each.where()) for each in own)

    def uses(self, rules: Proposal, document: Document) -> bool:
        """See stage.Stage."""
        return False

    def describe(self, rules: Proposal) -> Any:
        """See GroupedStage."""
        return rules.document

    def groups(self, reader: LakeReader, rules: Proposal, asked: Asked) -> tuple[Sequence[PlannedRule], int, Mapping[str, int]]:
        """See GroupedStage."""
        within = "($since IS NULL OR ts >= $since) AND ($until IS NULL OR ts < $until)"
        count = f"SELECT count(*) FROM requests WHERE ts IS NOT NULL AND {within}"
        ((requests,),) = reader.connection.execute(count, asked.window.parameters).fetchall()
        return (PlannedRule(NAME, None, ("Deny",), requests),), requests, {}

    def others(self, reader: LakeReader, asked: Asked) -> tuple[tuple[str, OtherAuthorizers], ...]:
        """See GroupedStage."""
        return other_authorizers(reader, asked.window, asked.other_authorizers)

    def judging(self, reader: LakeReader, plan: GroupedPlan[Proposal]) -> Questions:
        """See GroupedStage."""
        return Questions(reader, plan)


def _clusters(reader: LakeReader) -> list[str]:
    return [cluster for (cluster,) in reader.connection.execute("SELECT DISTINCT cluster FROM asked ORDER BY 1").fetchall()]


class Questions(Judging):
    """See Judging. What a request asks of the authorizers is known from its columns; only some bodies matter."""

    asks = True

    def __init__(self, reader: LakeReader, plan: GroupedPlan[Proposal]) -> None:
        history: LogHistory = load_history(reader, (), plan.window)
        self._reader = reader
        self._window = plan.window
        self._proposal = replace(plan.rules, is_only=plan.replaces_all)
        self._versions: Versions = history.versions
        self._others = dict(plan.other_authorizers)
        self._rbac = RecordedRbac(history, self._others)
        self._version = plan.kubernetes_version
        self._bodies: Mapping[str, Row] = {}
        self._overlays: dict[tuple[str, int], Overlay] = {}
        self._moments: dict[str, Sequence[datetime]] = {}

    def questions(self) -> str:
        """See Judging."""
        gather_asked(self._reader, self._window.since, self._window.until)
        return self.of_asked()

    def of_asked(self) -> str:
        """The passes of the requests in the table `asked`: those of a whole window, or some of them."""
        proposal, reader, rbac = self._proposal, self._reader, self._rbac
        self._bodies = bodies_asked(reader)
        register_moments(reader, {cluster: rbac.moments(cluster) for cluster in _clusters(reader)})
        reasons = reader.connection.execute("SELECT DISTINCT cluster, reason FROM asked WHERE decision = 'allow'").fetchall()
        gathering = {cluster: rbac.gathering(cluster) for cluster in _clusters(reader)}
        register_settled(reader, (each for each in reasons if settles(each[1], proposal, gathering[each[0]])))
        return passes_sql(proposal.is_only, proposal.is_only and not proposal.reads_names)

    def answer(self, question: Mapping[str, Any]) -> Sequence[VerdictRow]:
        """The verdict on the requests that have a question."""
        event, judged = self.judged(question)
        asked = attributes_of(event)
        if isinstance(asked, Unknown):
            return (row_of(judged, f"{event.verb} {event.request_uri}".strip()),)
        return (row_of(judged, str(asked._replace(name="") if question["is_nameless"] else asked)),)

    def judged(self, question: Mapping[str, Any]) -> tuple[Event, Judged]:
        """An event that has a question, with the columns that decide, and the outcome of the requests that have it."""
        row = event_row(question, self._bodies)
        event = Event.from_row(row)
        needs = needs_of(event, identity_of(row), self._versions, self._version)
        others = self._others.get(event.cluster, OtherAuthorizers.ANY)
        return event, judge(needs, recorded_of(event), self._overlay(event.cluster, question["epoch"]), others)

    def _overlay(self, cluster: str, epoch: int) -> Overlay:
        """The proposal over the roles and bindings after a number of changes. A negative number: these do not matter."""
        found = self._overlays.get((cluster, epoch))
        if found is None:
            ground = NoRbac() if epoch < 0 else self._rbac.at(cluster, self._moment(cluster, epoch))
            found = self._overlays[cluster, epoch] = self._proposal.over(ground)
        return found

    def _moment(self, cluster: str, epoch: int) -> datetime:
        if cluster not in self._moments:
            self._moments[cluster] = self._rbac.moments(cluster)
        return self._moments[cluster][epoch - 1] if epoch else _LONG_AGO
