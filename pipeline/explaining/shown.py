"""What explanations show of a request: redacted inputs, expressions with their values, and its frame."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..cel.explain import Place
from ..history.event import Event
from ..policies.trace import Reading, State, TracedExpression, TracedPart, place_text
from ..request import AdmissionRequest, Evidence, Known, Object, Unknown
from .explanation import DecidingPart, ExplainedExpression, ExplainedPolicy, Explanation, Operand, Piece
from .missing import UnknownReason, explained
from .redaction import Redaction

_ANNOTATION = re.compile(r"^auditAnnotation \S+: ")


class Shown:
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


def condition_words(traced: TracedExpression) -> str:
    """The decision of a match condition: true, false, error or unknown."""
    return str(traced.result.value).lower() if traced.result.state is State.VALUE else str(traced.result.state)


def fields_of(expressions: Iterable[ExplainedExpression], variables: Sequence[ExplainedExpression]) -> tuple[str, ...]:
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


def missing_of(reasons: Iterable[str]) -> tuple[UnknownReason, ...]:
    """Each piece of missing evidence once, even if several expressions need it."""
    parts = (_ANNOTATION.sub("", part) for reason in reasons for part in reason.split("; "))
    return tuple(explained(part) for part in dict.fromkeys(parts))


def framed(
    event: Event,
    request: AdmissionRequest,
    passes: int,
    shown: Shown,
    pieces: Iterable[Piece],
    policies: Iterable[ExplainedPolicy],
    stage: str = "validating",
) -> Explanation:
    """The explanation of one pass of a request with these inputs and verdicts."""
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
        resource=resource_text(request),
        namespace=request.namespace,
        name=request.name.value if isinstance(request.name, Known) else "",
        user={"username": user.username, "groups": list(user.groups), "isWhole": user.is_whole},
        user_agent=event.user_agent,
        code=event.code,
        answer=shown.text(event.message),
        pieces=tuple(pieces),
        policies=tuple(policies),
        stage=stage,
    )


def labels_text(obj: Mapping[str, Any]) -> str:
    """The labels of an object, in a line."""
    metadata = obj.get("metadata")
    labels = metadata.get("labels") if isinstance(metadata, dict) else None
    return ", ".join(f"{key}={value}" for key, value in labels.items()) if isinstance(labels, dict) and labels else "no labels"


def resource_text(request: AdmissionRequest) -> str:
    """The resource of a request, with group and subresource."""
    name = request.resource.resource + (f".{request.resource.group}" if request.resource.group else "")
    return f"{name}/{request.subresource}" if request.subresource else name
