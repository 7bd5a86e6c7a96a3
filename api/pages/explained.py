"""An explanation as a page shows it: each policy's verdict with the values that led to it, the worst first."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipeline.explaining.explanation import ExplainedExpression, ExplainedPolicy, Explanation, Piece
from pipeline.stages.readiness import StageWords
from pipeline.stages.registry import stage_of

from ..printing.explained import grade_words
from .difference import NO_FIELDS, Fields, ObjectDifference, object_lines

_VALUE_MAX = 600
_NAMES: Mapping[str, str] = {
    "object": "The object that was judged",
    "oldObject": "The object before the request",
    "namespaceObject": "The namespace",
    "params": "The params",
}


_PASSING = frozenset({"admit", "unchanged"})


@dataclass(frozen=True, slots=True)
class PieceView:
    """One input of the verdict: its value as lines with the read fields marked, or why it is unknown."""

    title: str
    piece: Piece
    grade: str
    lines: ObjectDifference | None


@dataclass(frozen=True, slots=True)
class PolicyVerdictView:
    """One policy that matched: the expressions that decided and the variables that they read, then all others."""

    policy: ExplainedPolicy
    word: str
    deciding: Sequence[ExplainedExpression]
    others: Sequence[ExplainedExpression]
    grade: str
    param: PieceView | None


@dataclass(frozen=True, slots=True)
class ExplanationView:
    """One pass of a request: what speaks against it or acts on it, what lets it pass, what does not match it; and the inputs."""

    explanation: Explanation
    against: Sequence[PolicyVerdictView]
    admitting: Sequence[PolicyVerdictView]
    unmatched: Sequence[ExplainedPolicy]
    pieces: Sequence[PieceView]

    @property
    def words(self) -> StageWords:
        """The nouns of the stage that judged the request."""
        return stage_of(self.explanation.stage).readiness.words


def explanation_view(found: Explanation) -> ExplanationView:
    """The explanation of one pass."""
    matched = [entry for entry in found.policies if entry.decision != "nomatch"]
    views = [_policy(entry) for entry in matched]
    fields = fields_of([found])
    return ExplanationView(
        explanation=found,
        against=[view for view in views if view.word not in _PASSING],
        admitting=[view for view in views if view.word in _PASSING],
        unmatched=[entry for entry in found.policies if entry.decision == "nomatch"],
        pieces=[_piece(piece, fields) for piece in found.pieces if piece.missing or piece.value is not None],
    )


def fields_of(found: Iterable[Explanation]) -> Fields:
    """The fields that decided against a request, and all that the same expressions read; if it passes, all fields that were
    read."""
    entries = [entry for each in found for entry in each.policies if entry.decision != "nomatch"]
    against = [entry for entry in entries if entry.decision != "admit"]
    decided = {field for entry in against for field in entry.fields}
    expressions = [each for entry in against or entries for each in (_deciding(entry) if against else _all(entry))]
    read = decided | {field for each in expressions for part in each.parts for field in part.fields}
    # A field that decided in one version of the object is shown in the other, too.
    twins = {f"oldObject{field.removeprefix('object')}" for field in read if field.startswith("object.")}
    return Fields(frozenset(read | twins), frozenset(decided))


def value_text(state: str, value: Any) -> str:
    """The result of an expression, on one line: JSON, or the words of an error."""
    if state == "unknown":
        return "unknown"
    text = str(value) if state == "error" else json.dumps(value, ensure_ascii=False)
    text = f"error: {text}" if state == "error" else text
    return text if len(text) <= _VALUE_MAX else f"{text[:_VALUE_MAX]}… ({len(text):,} characters)"


def _policy(entry: ExplainedPolicy) -> PolicyVerdictView:
    deciding = [] if entry.decision in _PASSING else _deciding(entry)
    return PolicyVerdictView(
        policy=entry,
        word=entry.decision,
        deciding=deciding,
        others=[each for each in _all(entry) if each not in deciding],
        grade=grade_words(entry.evidence),
        param=_piece(entry.param, fields_of_policy(entry)) if entry.param is not None else None,
    )


def _deciding(entry: ExplainedPolicy) -> list[ExplainedExpression]:
    """The expressions that decided against a request, and the variables that they read."""
    found = [each for each in entry.validations if each.decision not in ("", "admit")]
    found = found or [each for each in entry.conditions if each.decision != "true"]
    text = " ".join(each.expression for each in found)
    return [*found, *(each for each in entry.variables if each.field in text)]


def fields_of_policy(entry: ExplainedPolicy) -> Fields:
    """The fields of one policy."""
    read = frozenset(field for each in _all(entry) for part in each.parts for field in part.fields)
    return Fields(read | frozenset(entry.fields), frozenset(entry.fields))


def _all(entry: ExplainedPolicy) -> Iterator[ExplainedExpression]:
    yield from (*entry.conditions, *entry.validations, *entry.variables)


def _piece(piece: Piece, fields: Fields = NO_FIELDS) -> PieceView:
    title = _NAMES.get(piece.name, piece.name)
    lines = object_lines(piece.value, fields, piece.name, folded=piece.name != "params") if piece.value is not None else None
    return PieceView(title, piece, grade_words(piece.grade) if piece.grade else "", lines)
