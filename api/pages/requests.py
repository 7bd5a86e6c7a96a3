"""One request, its verdicts and the changes that it made."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from api.stages.conditions.page import ChainAnswer, chain_answers
from pipeline.explaining.explanation import Explanation
from pipeline.history.reconstruct import NotReplayed
from pipeline.request import AdmissionRequest
from pipeline.requests.recall import recall
from pipeline.stages.names import DEFAULT as DEFAULT_STAGE
from pipeline.stages.registry import stage_of

from .. import stored_runs
from ..ask import reads, run_reads
from ..ask.kept import plan_of
from ..ask.questions import TimePaging, VerdictFilters
from ..ask.reads import RequestDetail, Source
from ..errors import NotFoundError
from ..stored_runs import Run
from ..work.explained_stages import EXPLAINED
from ..work.explanations import Question
from .change import Change, change_of, decoded
from .explained import ExplanationView, explanation_view, fields_of
from .manifest import SourceLine
from .policy import manifests
from .tables import Asked, Column, Table, table

_VERDICTS_MAX = 500
_DECISIONS = ("deny", "error", "unknown", "admit")
_ANSWERS: Mapping[str, str] = {
    "vap": "denied by a policy",
    "webhook": "denied by a webhook",
    "webhook_failure": "a webhook failed",
    "authorization": "not authorized",
    "quota": "over quota",
    "open": "no answer is recorded",
}


# How mutating policies name the changes of a field.
_OPERATIONS: Mapping[str, str] = {"add": "added", "remove": "removed", "replace": "changed"}


@dataclass(frozen=True, slots=True)
class ExpressionVerdict:
    """The verdict of one expression of one (policy, binding) on a request, with its text if the replay keeps it."""

    row: Mapping[str, Any]
    expression: str

    @property
    def difference(self) -> list[dict[str, Any]]:
        """The fields that would be stored otherwise, with the recorded and the predicted value as JSON; empty for most stages."""
        patched = [{**each, "kind": _OPERATIONS[each["op"]]} for each in self._detail.get("difference", ())]
        found = self._detail.get("changes") or patched
        return [{**each, **{name: _as_json(each, name) for name in ("before", "after")}} for each in found]

    @property
    def unanswered(self) -> str:
        """Why the log lacks the answer of a webhook that would be called; empty where there is nothing to say."""
        return str(self._detail.get("unanswered", ""))

    @property
    def _detail(self) -> dict[str, Any]:
        found = json.loads(self.row.get("detail") or "{}")
        return found if isinstance(found, dict) else {}


def _as_json(change: Mapping[str, Any], name: str) -> str:
    absent = {"added": "before", "removed": "after"}.get(change["kind"]) == name
    return "" if absent else json.dumps(change.get(name), ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class Outdated:
    """A policy whose stored verdict is not the verdict over the lake as it is now; both are decisions."""

    policy: str
    then: str
    now: str


@dataclass(frozen=True, slots=True)
class RequestView:
    """One request: who, when, what, its verdicts with their reasons, and the changes that it made.

    `explained` is empty while the explanation is computed (`is_awaited`), and if there is no explanation: then `trouble` says why.
    Without a replay, `stage` is the one that the page explains.
    `chains` is what chains of authorizers make of it, in a replay of chains; these explain themselves.
    `outdated` names the policies on which the replay and the explanation differ, because the replay saw less or other evidence.
    """

    detail: RequestDetail
    recalled: Sequence[AdmissionRequest] | NotReplayed | None
    name: str
    answer: str
    verdicts: Sequence[ExpressionVerdict]
    has_more_verdicts: bool
    run: Run | None
    change: Change
    source: tuple[SourceLine, ...]
    marks: Mapping[int, str]
    policy: str
    explained: Sequence[ExplanationView] = ()
    trouble: str = ""
    is_awaited: bool = True
    outdated: Sequence[Outdated] = ()
    chains: Sequence[ChainAnswer] = ()
    stage: str = DEFAULT_STAGE

    @property
    def has_explanation(self) -> bool:
        """Whether the stage explains its verdicts; the verdicts of others hold their own reasons."""
        return self.run is None or is_explained(self.run)

    @property
    def explained_stage(self) -> str:
        """The stage that the page explains: that of the replay, or the chosen one."""
        return self.run.stage if self.run is not None else self.stage

    @property
    def things(self) -> str:
        """What the stage judges by, in the plural."""
        return stage_of(self.explained_stage).readiness.words.things

    @property
    def other_stages(self) -> Mapping[str, str]:
        """The other stages that the page can explain, with the noun of what each judges by; empty for a replay."""
        return {} if self.run else {each: stage_of(each).readiness.words.things for each in EXPLAINED if each != self.stage}

    @property
    def part(self) -> str:
        """What the verdict table calls a binding."""
        return stage_of(self.explained_stage).readiness.words.part

    @property
    def question(self) -> Question:
        """The question for an explanation of this request: with the policies of the replay, or with those in force then."""
        request = self.detail.request
        run_id = self.run.run_id if self.run is not None else None
        return Question(request["cluster"], request["audit_id"], request["ts"].isoformat(), run_id, stage=self.stage)


def with_explanation(view: RequestView, found: Sequence[Explanation]) -> RequestView:
    """The page with the explanation: it shows the fields that expressions read within the request's changes."""
    change = change_of(view.detail, view.recalled, fields_of(found))
    explained = [explanation_view(each) for each in found]
    return replace(view, explained=explained, change=change, is_awaited=False, outdated=_outdated(view, found))


def _outdated(view: RequestView, found: Sequence[Explanation]) -> list[Outdated]:
    """The stored decisions that differ from the explained ones. A replay reads the lake of its day, an explanation that of now."""
    stored, explained = defaultdict[Any, set[str]](set), defaultdict[Any, set[str]](set)
    for verdict in view.verdicts:
        stored[verdict.row["pass"], verdict.row["policy"], verdict.row["binding"]].add(verdict.row["decision"])
    for each in found:
        for entry in each.policies:
            explained[each.pass_index, entry.policy, entry.binding].add(entry.decision)
    pairs = {key[1]: (min(stored[key], key=_rank), min(explained[key], key=_rank)) for key in explained.keys() & stored.keys()}
    # An error and a denial are both against the request; a row of one expression may name either of them.
    return [
        Outdated(policy, then, now)
        for policy, (then, now) in sorted(pairs.items())
        if then != now and {then, now} != {"deny", "error"}
    ]


def _rank(decision: str) -> int:
    return _DECISIONS.index(decision) if decision in _DECISIONS else len(_DECISIONS)


def is_explained(run: Run) -> bool:
    """Whether the verdicts of a replay can be explained."""
    return run.stage in EXPLAINED


def request_view(
    source: Source, run_id: str | None, cluster: str, audit_id: str, policy: str, stage: str = DEFAULT_STAGE
) -> list[RequestView]:
    """The requests of one auditID, each with its verdicts in a replay, or without one.

    `cluster` may be empty if a replay determines it. Raises NotFoundError without such a request.
    """
    rows: list[dict[str, Any]] = []
    if run_id is not None:
        filters = VerdictFilters(audit_id=[audit_id], cluster=[cluster] if cluster else [], since=None, until=None)
        rows = run_reads.verdicts_page(source, run_id, filters, TimePaging(limit=_VERDICTS_MAX, order="newest")).dicts()
    names = [cluster] if cluster else sorted({row["cluster"] for row in rows})
    details = [detail for name in names for detail in reads.request_details(source, name, audit_id)]
    if not details:
        raise NotFoundError(f"no request {audit_id!r} is in the lake", "it may have been removed, or is of another cluster")
    recalled = {(name, event.ts): found for name in names for event, found in recall(source.reader, name, audit_id)}
    keys = [(detail.request["cluster"], detail.request["ts"]) for detail in details]
    return [
        _view(source, run_id, detail, recalled.get(key), rows, policy, stage) for key, detail in zip(keys, details, strict=True)
    ]


def _view(
    source: Source,
    run_id: str | None,
    detail: RequestDetail,
    recalled: Sequence[AdmissionRequest] | NotReplayed | None,
    rows: Sequence[Mapping[str, Any]],
    policy: str,
    stage: str,
) -> RequestView:
    request = detail.request
    own = [row for row in rows if (row["cluster"], row["ts"]) == (request["cluster"], request["ts"])]
    plan = plan_of(source, run_id) if run_id is not None else None
    first = policy or next((row["policy"] for row in own if row["effect"] == "deny"), own[0]["policy"] if own else "")
    text = manifests(plan, first, None)[0] if plan is not None else ()
    chains = chain_answers(own)
    run = stored_runs.run(source.lake, run_id) if run_id is not None else None
    return RequestView(
        detail=detail,
        recalled=recalled,
        name=_name(detail),
        answer=_ANSWERS.get(request["outcome"], request["outcome"]),
        verdicts=[ExpressionVerdict(row, _expression(plan, row)) for row in sorted(own, key=_urgency) if _says_something(row, own)],
        has_more_verdicts=len(rows) >= _VERDICTS_MAX,
        run=run,
        change=change_of(detail, recalled),
        source=text,
        marks={
            row["expression_index"]: f"{row['decision']}: {row['message'] or row['why'] or ''}"
            for row in own
            if row["policy"] == first and row["expression_index"] is not None and row["decision"] not in ("admit", "nomatch")
        },
        policy=first,
        is_awaited=run is None or is_explained(run),
        chains=chains,
        stage=stage,
    )


def request_tables(views: Sequence[RequestView], asked: Asked) -> dict[str, Table[Any] | None]:
    """The verdicts on each request and its recorded failures, by names that end with the number of the request on its page."""
    found: dict[str, Table[Any] | None] = {}
    for number, view in enumerate(views, 1):
        of_verdicts, of_failures = f"verdicts-{number}", f"failures-{number}"
        found[of_verdicts] = table(asked, of_verdicts, _VERDICTS_CAPTION, _VERDICT_COLUMNS, view.verdicts, _VERDICTS_SHOWN)
        found[of_failures] = table(asked, of_failures, "Failures in the audit annotation", _FAILURE_COLUMNS, view.detail.violations)
    return found


# Denials come first; the page shows the others when it is asked for all.
_VERDICTS_SHOWN = 6
_VERDICTS_CAPTION = "One row per expression or binding"
_VERDICT_COLUMNS: tuple[Column[ExpressionVerdict], ...] = (
    Column("policy", "Policy", lambda verdict: verdict.row["policy"], "name"),
    Column("expression", "Expression", lambda verdict: verdict.expression, "text"),
    Column("decision", "Decision", lambda verdict: verdict.row["decision"]),
    Column("message", "Said", lambda verdict: verdict.row["message"] or verdict.row["why"], "text"),
    Column("evidence", "Evidence", lambda verdict: verdict.row["evidence"], "text"),
    Column("binding", "", lambda verdict: verdict.row["binding"]),
    Column("param_namespace", "", lambda verdict: verdict.row["param_namespace"]),
    Column("param_name", "", lambda verdict: verdict.row["param_name"]),
    Column("expression_index", "", lambda verdict: verdict.row["expression_index"]),
    Column("effect", "", lambda verdict: verdict.row["effect"]),
    Column("why", "", lambda verdict: verdict.row["why"]),
)
_FAILURE_COLUMNS: tuple[Column[Mapping[str, Any]], ...] = (
    Column("policy", "Policy", lambda row: row["policy"], "name"),
    Column("binding", "Binding", lambda row: row["binding"], "name"),
    Column("actions", "Actions", lambda row: row["actions"]),
    Column("message", "Message", lambda row: row["message"], "text"),
)


def _urgency(row: Mapping[str, Any]) -> int:
    """Denials come first."""
    return _rank(row["decision"])


def _says_something(row: Mapping[str, Any], rows: Iterable[Mapping[str, Any]]) -> bool:
    """Whether a verdict adds to the verdicts of its binding's expressions, which it sums up."""
    if row["expression_index"] is not None or row["message"] or row["why"] or row["audit_annotations"]:
        return True
    same = ("policy", "binding", "param_namespace", "param_name", "pass")
    return not any(other["expression_index"] is not None and all(other[name] == row[name] for name in same) for other in rows)


def _name(detail: RequestDetail) -> str:
    """The name of the object; for a generated name, as much of it as is known."""
    if detail.request["name"]:
        return str(detail.request["name"])
    new = decoded(detail.new_object)
    metadata = new.get("metadata") if isinstance(new, dict) else None
    if not isinstance(metadata, dict):
        return ""
    return str(metadata.get("name") or (f"{metadata['generateName']}…" if metadata.get("generateName") else ""))


def _expression(plan: Mapping[str, Any] | None, row: Mapping[str, Any]) -> str:
    if plan is None or isinstance(plan.get("policies", ""), str) or row["expression_index"] is None:
        return ""
    found = (item["validations"] for item in plan["policies"]["policies"] if item["name"] == row["policy"])
    validations: list[dict[str, Any]] = next(found, [])
    index = row["expression_index"]
    return str(validations[index]["expression"]) if index < len(validations) else ""
