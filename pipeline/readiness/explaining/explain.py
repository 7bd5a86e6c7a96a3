"""Why a policy decided as it did about one recorded request: the verdict of a replay, with the values that led to it.

The rows are those of a replay of the same policies. A trace adds the values that expressions saw; nothing is judged twice.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from itertools import groupby
from typing import Any, TypeAlias

from queries import LakeReader

from ...admission.policies import Binding, CompiledSet, Decision, Policy, PolicySet, PolicyVerdict, compile_set
from ...admission.policies.params import NULL_PARAM
from ...admission.policies.trace import Reading, State, Trace, TracedExpression, TracedPart, place_text, trace_request
from ...authorization import OtherAuthorizers, RecordedRbac
from ...cel.explain import Place
from ...history.event import Event
from ...history.in_force import CHANGE_DELAY
from ...history.reconstruct import NotReplayed
from ...matching import Target, is_excluded
from ...replay.recall import recall
from ...replay.worker import past_of
from ...replay.worlds import Worlds
from ...request import AdmissionRequest, Evidence, Known, Object, Unknown
from ...runs.window import Window
from ...world import World
from ..missing import UnknownReason, explained
from ..redaction import Redaction
from .difference import Differences
from .explanation import DecidingPart, ExplainedExpression, ExplainedPolicy, Explanation, NotExplained, Operand, Piece
from .judges import Judge

# How many passes of a request that deletes a collection are explained; would-be denials come first.
PASSES_MAX = 5
_ALL_TIME = Window()
_PLAIN = Redaction()
_ANNOTATION = re.compile(r"^auditAnnotation \S+: ")
_DECISION_RANK = {"deny": 0, "error": 0, "unknown": 1, "admit": 2, "nomatch": 3}
_NO_TRACE = Trace("", None, NULL_PARAM)
RowKey: TypeAlias = tuple[str, str | None, str | None, str | None]


@dataclass(frozen=True)
class Asked:
    """The policies to explain: the given ones, or (None) those that were bound at the time. `names` narrows them."""

    policies: PolicySet | None = None
    names: frozenset[str] = frozenset()
    version: tuple[int, int] = (1, 36)
    window: Window = _ALL_TIME
    change_delay: timedelta = CHANGE_DELAY
    other_authorizers: Mapping[str, OtherAuthorizers] | None = None
    redaction: Redaction = _PLAIN


def explain_request(reader: LakeReader, cluster: str, audit_id: str, asked: Asked) -> list[Explanation | NotExplained]:
    """The explanation of each finished request of an auditID, the newest first; empty if the lake does not have such a request."""
    history, policies = past_of(reader, asked.policies, asked.version, asked.window, asked.change_delay)
    worlds = Worlds(history, {CHANGE_DELAY, asked.change_delay})
    rbac = RecordedRbac(history, dict(asked.other_authorizers or {}))
    found: list[Explanation | NotExplained] = []
    for event, passes in recall(reader, cluster, audit_id, history):
        if isinstance(passes, NotReplayed):
            remedy = explained(passes.reason).remedy
            found.append(NotExplained(cluster, audit_id, event.ts, passes.reason, remedy))
            continue
        made = []
        for request in passes:
            world = worlds.at(request.cluster, request.ts)
            authorize = partial(rbac.authorize, request.cluster, request.ts)
            explainer = _Explainer(asked, event, request, world, worlds, rbac)
            rows = policies.evaluate(request, world, authorize, event)
            made.append(explainer.explanation(policies.met_by(request), rows, len(passes)))
        found += sorted(made, key=_urgency)[:PASSES_MAX]
    return found


def policies_met(reader: LakeReader, cluster: str, audit_id: str, asked: Asked) -> frozenset[str]:
    """The names of the policies that a request could have met: for an error about a name that is not among them."""
    if asked.policies is not None:
        return frozenset(policy.name for policy in asked.policies.policies)
    history, policies = past_of(reader, None, asked.version, asked.window, asked.change_delay)
    passes = [found for _, found in recall(reader, cluster, audit_id, history) if not isinstance(found, NotReplayed)]
    sets = [each for requests in passes for request in requests for each in policies.met_by(request)]
    return frozenset(policy.policy.name for each in sets for policy in each.policies)


def _urgency(explanation: Explanation) -> tuple[int, int]:
    ranks = [_DECISION_RANK[entry.decision] for entry in explanation.policies]
    return min(ranks, default=9), explanation.pass_index


class _Explainer:
    """Explains one pass of one request."""

    def __init__(
        self, asked: Asked, event: Event, request: AdmissionRequest, world: World, worlds: Worlds, rbac: RecordedRbac
    ) -> None:
        self._asked = asked
        self._event = event
        self._request = request
        self._world = world
        self._worlds = worlds
        self._rbac = rbac
        self._shown = _Shown(asked.redaction, request)

    def explanation(self, met: Sequence[CompiledSet], rows: Iterable[PolicyVerdict], passes: int) -> Explanation:
        """The whole explanation of the pass; `rows` are the verdicts of a replay."""
        request, event = self._request, self._event
        policies = sorted(self._policies(met, rows), key=lambda entry: (not entry.rejects, _DECISION_RANK[entry.decision]))
        pieces = [self._shown.piece("object", request.object), self._shown.piece("oldObject", request.old_object)]
        if request.namespace and request.resource.resource != "namespaces":
            pieces.append(self._shown.piece("namespaceObject", self._world.namespace(request.namespace)))
        user = request.user
        return Explanation(
            cluster=request.cluster,
            audit_id=request.audit_id,
            ts=request.ts,
            pass_index=request.pass_index,
            passes=passes,
            verb=event.verb,
            operation=str(request.operation),
            kind=request.kind.value.kind if isinstance(request.kind, Known) else "",
            resource=_resource(request),
            namespace=request.namespace,
            name=request.name.value if isinstance(request.name, Known) else "",
            user={"username": user.username, "groups": list(user.groups), "isWhole": user.is_whole},
            user_agent=event.user_agent,
            code=event.code,
            answer=self._shown.text(event.message),
            pieces=tuple(pieces),
            policies=tuple(policies),
        )

    def _policies(self, met: Sequence[CompiledSet], rows: Iterable[PolicyVerdict]) -> Iterator[ExplainedPolicy]:
        wanted = [row for row in rows if self._is_wanted(row.policy)]
        authorize = partial(self._rbac.authorize, self._request.cluster, self._request.ts)
        traces: dict[RowKey, Trace] = {}
        for compiled in met:
            if any(self._is_wanted(policy.policy.name) for policy in compiled.policies):
                for trace in trace_request(compiled, self._request, self._world, authorize):
                    traces.setdefault((trace.policy, trace.binding, trace.param.namespace, trace.param.name), trace)
        for key, group in groupby(sorted(wanted, key=_sort_key), key=_row_key):
            yield self._policy(met, traces.get(key), [*group])
        said = {row.policy for row in wanted}
        for compiled in met:
            for entry in compiled.entries:
                policy = entry.policy.policy
                if policy.name not in said and self._is_wanted(policy.name):
                    said.add(policy.name)
                    yield _not_matched(policy, self._why_no_rule(compiled, policy))

    def _is_wanted(self, name: str) -> bool:
        return not self._asked.names or name in self._asked.names

    def _why_no_rule(self, compiled: CompiledSet, policy: Policy) -> str:
        request = self._request
        if is_excluded(request.resource) and not policy.is_static:
            return f"policies are never asked about {_resource(request)}"
        entry = next(entry for entry in compiled.entries if entry.policy.policy is policy)
        if not entry.bound:
            return "no binding of the policy is in force"
        match = entry.matcher.match(request, Target.of(request), self._world) if entry.matcher else None
        return match.why if match is not None else ""

    def _policy(self, met: Sequence[CompiledSet], trace: Trace | None, rows: Sequence[PolicyVerdict]) -> ExplainedPolicy:
        whole = next((row for row in rows if row.expression_index is None), rows[0])
        singles = {row.expression_index: row for row in rows if row.expression_index is not None}
        traced = trace or _NO_TRACE
        validations = tuple(self._validation(each, singles.get(index)) for index, each in enumerate(traced.validations))
        conditions = tuple(self._shown.expression(each, _condition(each)) for each in traced.conditions)
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
            fields=_fields(decisive, variables),
            missing=_missing(unknown),
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
        seen = [f"{name} has {_labels(item.value)}" for name, item in pieces if isinstance(item, Known) and item.value is not None]
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
        objects = self._asked.policies.objects if self._asked.policies is not None else ()
        alone = PolicySet((policy,), (binding,) if binding is not None else (), objects)
        return Judge(compile_set(alone, self._asked.version), self._worlds, self._rbac)


class _Shown:
    """Redacts every value that an explanation shows."""

    def __init__(self, redaction: Redaction, request: AdmissionRequest) -> None:
        self._redaction = redaction
        bodies = (request.object, request.old_object)
        known = {name: body.value for name, body in zip(("object", "oldObject"), bodies, strict=True) if isinstance(body, Known)}
        self._whole: dict[str, Any] = {name: value for name, value in known.items() if isinstance(value, dict)}
        self._redacted = {name: redaction.object(value) for name, value in self._whole.items()}

    def piece(self, name: str, evidence: Evidence[Object | None]) -> Piece:
        """One input, or why it is unknown."""
        if isinstance(evidence, Unknown):
            return Piece(name, None, missing=evidence.reason, remedy=explained(evidence.reason).remedy)
        return Piece(name, self._redaction.object(evidence.value), evidence.source, str(evidence.grade))

    def text(self, text: str) -> str:
        """Text without the values that were redacted in the objects."""
        for whole in self._whole.values():
            text = self._redaction.text(text, whole)
        return self._redaction.text(text)

    def value(self, reading: Reading, places: Iterable[Place] = ()) -> Any:
        """The result of an expression; redacted if it is the value of a redacted field."""
        if reading.state is not State.VALUE:
            return self.text(str(reading.value))
        for place in {each[:length] for each in places for length in range(1, len(each) + 1)}:
            if place[0] in self._whole and _at(self._whole, place) == reading.value:
                shown = _at(self._redacted, place)
                if shown != reading.value:
                    return shown
        return self._texts(self._redaction.object(reading.value))

    def _texts(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            return [self._texts(each) for each in value]
        return {key: self._texts(each) for key, each in value.items()} if isinstance(value, dict) else value

    def expression(self, traced: TracedExpression, decision: str) -> ExplainedExpression:
        """One expression with the parts that decided."""
        result = traced.result
        parts = tuple(self._part(part) for part in traced.parts)
        places = [place for part in traced.parts for place in part.places]
        value = self.value(result, places)
        return ExplainedExpression(traced.field, traced.text, traced.source, decision, str(result.state), value, parts=parts)

    def _part(self, part: TracedPart) -> DecidingPart:
        return DecidingPart(
            part.result.expression,
            str(part.result.state),
            self.value(part.result, part.places),
            tuple(self._operand(reading, part.places) for reading in part.operands),
            tuple(self._operand(reading, part.places) for reading in part.bindings),
            tuple(map(place_text, part.places)),
        )

    def _operand(self, reading: Reading, places: Iterable[Place]) -> Operand:
        return Operand(reading.expression, str(reading.state), self.value(reading, places))


def _at(value: Any, place: Place) -> Any:
    for step in place:
        try:
            value = value[step]
        except (KeyError, IndexError, TypeError):
            return None
    return value


def _condition(traced: TracedExpression) -> str:
    return str(traced.result.value).lower() if traced.result.state is State.VALUE else str(traced.result.state)


def _fields(expressions: Iterable[ExplainedExpression], variables: Sequence[ExplainedExpression]) -> tuple[str, ...]:
    """The fields that some expressions read, through variables down to the objects."""
    of_variable = {each.field: each for each in variables}
    found: dict[str, None] = {}
    pending = [field for each in expressions for part in each.parts for field in part.fields]
    seen: set[str] = set()
    while pending:
        field = pending.pop(0)
        if field in seen:
            continue
        seen.add(field)
        name = next((name for name in of_variable if field == name or field.startswith((f"{name}.", f"{name}["))), None)
        if name is None:
            found[field] = None
        else:
            pending += [each for part in of_variable[name].parts for each in part.fields]
    return tuple(found)


def _missing(reasons: Iterable[str]) -> tuple[UnknownReason, ...]:
    """Each piece of missing evidence once, even if several expressions need it."""
    parts = (_ANNOTATION.sub("", part) for reason in reasons for part in reason.split("; "))
    return tuple(explained(part) for part in dict.fromkeys(parts))


def _not_matched(policy: Policy, why: str) -> ExplainedPolicy:
    return ExplainedPolicy(policy.name, None, (), str(Decision.NOMATCH), "", False, "", why, "")


def _labels(obj: Mapping[str, Any]) -> str:
    metadata = obj.get("metadata")
    labels = metadata.get("labels") if isinstance(metadata, dict) else None
    return ", ".join(f"{key}={value}" for key, value in labels.items()) if isinstance(labels, dict) and labels else "no labels"


def _resource(request: AdmissionRequest) -> str:
    name = request.resource.resource + (f".{request.resource.group}" if request.resource.group else "")
    return f"{name}/{request.subresource}" if request.subresource else name


def _row_key(row: PolicyVerdict) -> RowKey:
    return row.policy, row.binding, row.param_namespace, row.param_name


def _sort_key(row: PolicyVerdict) -> tuple[str, ...]:
    return tuple(part or "" for part in _row_key(row))
