"""Why a policy decided as it did about one recorded request: the verdict of a replay, with the values that led to it.

The rows are those of a replay of the same policies. A trace adds the values that expressions saw; nothing is judged twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby
from typing import TypeAlias

from queries import LakeReader

from ...authorization import RecordedRbac
from ...explaining.asked import Asked
from ...explaining.explanation import ExplainedExpression, ExplainedPolicy, Explanation, NotExplained, Piece
from ...explaining.missing import explained
from ...explaining.shown import Shown, condition_words, fields_of, framed, labels_text, missing_of, resource_text
from ...history.event import Event
from ...history.in_force import CHANGE_DELAY
from ...history.reconstruct import NotReplayed
from ...matching import Target, is_excluded
from ...policies.dispatch import CompiledSet, compile_set
from ...policies.model import Binding, Policy, PolicySet
from ...policies.params import NULL_PARAM
from ...policies.trace import State, Trace, TracedExpression, trace_request
from ...policies.verdict import Decision, PolicyVerdict
from ...request import AdmissionRequest, Known
from ...requests.recall import recall
from ...requests.worlds import Worlds
from ...row import INSUFFICIENT
from ...world import World
from .. import first
from .judges import Judge
from .nearest import Differences
from .plan import mutating_among
from .policies import judged_by

# How many passes of a request that deletes a collection are explained; would-be denials come first.
PASSES_MAX = 5
_DECISION_RANK = {"deny": 0, "error": 0, "unknown": 1, "admit": 2, "nomatch": 3}
_NO_TRACE = Trace("", None, NULL_PARAM)
RowKey: TypeAlias = tuple[str, str | None, str | None, str | None]


def explain_request(reader: LakeReader, given: PolicySet | None, asked: Asked) -> list[Explanation | NotExplained]:
    """The explanation of a finished request by given policies, or (None) by those that were bound at the time."""
    history, policies = judged_by(reader, given, asked.version, asked.window, asked.change_delay)
    worlds = Worlds(history, {CHANGE_DELAY, asked.change_delay})
    rbac = RecordedRbac(history, dict(asked.other_authorizers or {}))
    changed_first = first.changed_first(mutating_among(given), reader, asked, given)
    found: list[Explanation | NotExplained] = []
    for event, passes in recall(reader, asked.cluster, asked.audit_id, history):
        if event.ts != asked.ts:
            continue
        if isinstance(passes, NotReplayed):
            remedy = explained(passes.reason).remedy
            found.append(NotExplained(asked.cluster, asked.audit_id, event.ts, passes.reason, remedy))
            continue
        made = []
        for number, sent in enumerate(passes):
            changed = changed_first.get(number, sent)
            request = sent if isinstance(changed, str) else changed
            world = worlds.at(request.cluster, request.ts)
            authorize = partial(rbac.authorize, request.cluster, request.ts)
            explainer = _Explainer(given, asked, event, request, world, worlds, rbac)
            rows = policies.answer(request, world, authorize, event)
            if isinstance(changed, str):
                rows = [_withdrawn(row, changed) for row in rows]
            made.append(explainer.explanation(policies.met_by(request), rows, len(passes)))
        found += sorted(made, key=_urgency)[:PASSES_MAX]
    return found


def _withdrawn(row: PolicyVerdict, why: str) -> PolicyVerdict:
    """A verdict that is not known after all; see runs.revision."""
    if row.decision is Decision.NOMATCH:
        return row
    return row._replace(decision=Decision.UNKNOWN, effect=None, message="", reason="", code=None, why=why, evidence=INSUFFICIENT)


def policies_met(reader: LakeReader, given: PolicySet | None, asked: Asked) -> frozenset[str]:
    """The names of the policies that a request could have met: for an error about a name that is not among them."""
    if given is not None:
        return frozenset(policy.name for policy in given.policies)
    history, policies = judged_by(reader, None, asked.version, asked.window, asked.change_delay)
    passes = [found for _, found in recall(reader, asked.cluster, asked.audit_id, history) if not isinstance(found, NotReplayed)]
    sets = [each for requests in passes for request in requests for each in policies.met_by(request)]
    return frozenset(policy.policy.name for each in sets for policy in each.policies)


def _urgency(explanation: Explanation) -> tuple[int, int]:
    ranks = [_DECISION_RANK[entry.decision] for entry in explanation.policies]
    return min(ranks, default=9), explanation.pass_index


class _Explainer:
    """Explains one pass of one request."""

    def __init__(
        self,
        given: PolicySet | None,
        asked: Asked,
        event: Event,
        request: AdmissionRequest,
        world: World,
        worlds: Worlds,
        rbac: RecordedRbac,
    ) -> None:
        self._given = given
        self._asked = asked
        self._event = event
        self._request = request
        self._world = world
        self._worlds = worlds
        self._rbac = rbac
        self._shown = Shown(asked.redaction, request)

    def explanation(self, met: Sequence[CompiledSet], rows: Iterable[PolicyVerdict], passes: int) -> Explanation:
        """The whole explanation of the pass; `rows` are the verdicts of a replay."""
        request, event = self._request, self._event
        policies = sorted(self._policies(met, rows), key=lambda entry: (not entry.rejects, _DECISION_RANK[entry.decision]))
        pieces = [self._shown.piece("object", request.object), self._shown.piece("oldObject", request.old_object)]
        if request.namespace and request.resource.resource != "namespaces":
            world = met[0].given.over(self._world) if met else self._world
            pieces.append(self._shown.piece("namespaceObject", world.namespace(request.namespace)))
        return framed(event, request, passes, self._shown, pieces, policies)

    def _policies(self, met: Sequence[CompiledSet], rows: Iterable[PolicyVerdict]) -> Iterator[ExplainedPolicy]:
        wanted = [row for row in rows if self._asked.wants(row.policy)]
        authorize = partial(self._rbac.authorize, self._request.cluster, self._request.ts)
        traces: dict[RowKey, Trace] = {}
        for compiled in met:
            if any(self._asked.wants(policy.policy.name) for policy in compiled.policies):
                for trace in trace_request(compiled, self._request, self._world, authorize):
                    traces.setdefault((trace.policy, trace.binding, trace.param.namespace, trace.param.name), trace)
        for key, group in groupby(sorted(wanted, key=_sort_key), key=_row_key):
            yield self._policy(met, traces.get(key), [*group])
        said = {row.policy for row in wanted}
        for compiled in met:
            for entry in compiled.entries:
                policy = entry.policy.policy
                if policy.name not in said and self._asked.wants(policy.name):
                    said.add(policy.name)
                    yield _not_matched(policy, self._why_no_rule(compiled, policy))

    def _why_no_rule(self, compiled: CompiledSet, policy: Policy) -> str:
        request = self._request
        if is_excluded(request.resource) and not policy.is_static:
            return f"policies are never asked about {resource_text(request)}"
        entry = next(entry for entry in compiled.entries if entry.policy.policy is policy)
        if not entry.bound:
            return "no binding of the policy is in force"
        world = compiled.given.over(self._world)
        match = entry.matcher.match(request, Target.of(request), world) if entry.matcher else None
        return match.why if match is not None else ""

    def _policy(self, met: Sequence[CompiledSet], trace: Trace | None, rows: Sequence[PolicyVerdict]) -> ExplainedPolicy:
        whole = next((row for row in rows if row.expression_index is None), rows[0])
        singles = {row.expression_index: row for row in rows if row.expression_index is not None}
        traced = trace or _NO_TRACE
        validations = tuple(self._validation(each, singles.get(index)) for index, each in enumerate(traced.validations))
        conditions = tuple(self._shown.expression(each, condition_words(each)) for each in traced.conditions)
        decisive = [each for each in validations if each.decision not in ("", "admit")] or [*validations, *conditions]
        variables = tuple(self._shown.expression(each, "") for each in traced.variables)
        said = next((row.message for row in rows if row.effect is Decision.DENY and row.message), whole.message) or ""
        why = whole.why or next((row.why for row in rows if row.why), "")
        unknown = dict.fromkeys(row.why for row in rows if row.decision is Decision.UNKNOWN and row.why)
        return ExplainedPolicy(
            policy=whole.policy,
            binding=whole.binding,
            actions=tuple(map(str, whole.actions)),
            decision=str(whole.decision),
            effect=str(whole.effect or ""),
            rejects=any(row.rejects for row in rows),
            message=self._shown.text(said),
            why=self._seen(whole, why),
            evidence=str(whole.evidence),
            param=self._param(trace),
            conditions=conditions,
            validations=validations,
            variables=variables,
            fields=fields_of(decisive, variables),
            missing=missing_of(unknown),
            nearest=self._nearest(met, whole, traced) if whole.effect is Decision.DENY else "",
        )

    def _validation(self, traced: TracedExpression, row: PolicyVerdict | None) -> ExplainedExpression:
        if row is None:
            return self._shown.expression(traced, "")
        found = self._shown.expression(traced, str(row.decision))
        return replace(found, message=self._shown.text(row.message or ""), why=self._shown.text(row.why))

    def _param(self, trace: Trace | None) -> Piece | None:
        if trace is None or (isinstance(trace.param.object, Known) and trace.param.object.value is None and not trace.param.name):
            return None
        return self._shown.piece("params", trace.param.object)

    def _seen(self, whole: PolicyVerdict, why: str) -> str:
        """Why a policy does not match, with the labels that the objects really have."""
        if whole.decision is not Decision.NOMATCH or "objectSelector" not in why:
            return self._shown.text(why)
        pieces = (("object", self._request.object), ("oldObject", self._request.old_object))
        seen = [
            f"{name} has {labels_text(item.value)}" for name, item in pieces if isinstance(item, Known) and item.value is not None
        ]
        return self._shown.text(f"{why} ({'; '.join(seen)})" if seen else why)

    def _nearest(self, met: Sequence[CompiledSet], whole: PolicyVerdict, traced: Trace) -> str:
        readings = [reading for each in traced.validations for part in each.parts for reading in part.operands]
        values = [reading.value for reading in readings if reading.state is State.VALUE]
        for compiled in met:
            for entry in compiled.entries:
                bindings = [bound.subject.binding for bound in entry.bound]
                names = [binding.name if binding else None for binding in bindings]
                if entry.policy.policy.name == whole.policy and whole.binding in names:
                    binding = bindings[names.index(whole.binding)]
                    judge = self._judge(entry.policy.policy, binding)
                    return self._shown.text(Differences(judge, values).smallest(self._request))
        return ""

    def _judge(self, policy: Policy, binding: Binding | None) -> Judge:
        objects = self._given.objects if self._given is not None else ()
        alone = PolicySet((policy,), (binding,) if binding is not None else (), objects)
        return Judge(compile_set(alone, self._asked.version), self._worlds, self._rbac)


def _not_matched(policy: Policy, why: str) -> ExplainedPolicy:
    return ExplainedPolicy(policy.name, None, (), str(Decision.NOMATCH), "", False, "", why, "")


def _row_key(row: PolicyVerdict) -> RowKey:
    return row.policy, row.binding, row.param_namespace, row.param_name


def _sort_key(row: PolicyVerdict) -> tuple[str, ...]:
    return tuple(part or "" for part in _row_key(row))
