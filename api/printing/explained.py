"""An explanation as text for a terminal, and as data. Lines fit the width; longer values are cut with a mark."""

from __future__ import annotations

import dataclasses
import json
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from pipeline.explaining.explanation import (
    DecidingPart,
    ExplainedExpression,
    ExplainedPolicy,
    Explanation,
    InOwnWords,
    Operand,
    Piece,
    Responsible,
)
from pipeline.explaining.missing import UnknownReason
from pipeline.report.texts import yaml_text
from pipeline.stages.readiness import StageWords
from pipeline.stages.registry import stage_of

from .layout import printable

WIDTH_MIN = 60
_TEXT_MAX = 200
_VALUE_MAX = 70
_YAML_LINES_MAX = 60
_NOT_MATCHED_MAX = 20
# False conditions are shown with their operands if no more than this number of policies do not match.
_TRACED_MAX = 3
_GRADES: Mapping[str, str] = {
    "exact": "exact: the API server recorded it of this request",
    "inferred": "inferred: it follows from other recorded requests",
    "partial": "reconstructed: parts of it are uncertain",
    "insufficient": "insufficient: something that the policy reads is unknown",
    "recorded": "recorded: the API server's own answer proves it",
}
_TITLES: Mapping[str, str] = {
    "object": "The object that was judged",
    "oldObject": "The object before the request",
    "params": "The params",
    "namespaceObject": "The namespace",
}
_DECISIONS: Mapping[str, str] = {
    "deny": "would deny",
    "error": "fails",
    "unknown": "unknown",
    "admit": "admits",
    "nomatch": "does not match",
    "called": "would be called",
    "unreached": "matches, but the request ended before it",
    "changed": "changes the object",
    "unchanged": "leaves the object as it is",
}


def grade_words(grade: str) -> str:
    """The meaning of a grade of evidence, in a sentence."""
    return _GRADES.get(grade, grade)


def as_data(found: Explanation | InOwnWords) -> dict[str, Any]:
    """The explanation as JSON values."""
    if not isinstance(found, Explanation):
        return found.data()
    data: dict[str, Any] = _plain(dataclasses.asdict(found))
    return data


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    return value.isoformat().replace("+00:00", "Z") if isinstance(value, datetime) else value


def as_text(found: Explanation | InOwnWords, width: int, *, whole: bool = False) -> str:
    """The explanation for a terminal. Objects are cut to the deciding parts, unless `whole`."""
    if not isinstance(found, Explanation):
        return "".join(f"{line}\n" for line in found.lines())
    paper = _Paper(max(width, WIDTH_MIN))
    _request(paper, found)
    matched = [entry for entry in found.policies if entry.decision != "nomatch"]
    against = [entry for entry in matched if entry.decision not in ("admit", "unchanged")]
    shown = matched if whole or len(matched) == 1 or not against else against
    for entry in shown:
        _policy(paper, entry, found.stage)
    _admitting(paper, [entry for entry in matched if entry not in shown])
    _not_matched(paper, [entry for entry in found.policies if entry.decision == "nomatch"], found.stage)
    fields = {field for entry in shown for field in entry.fields}
    # A field that decided in one version of the object is shown in the other, too.
    fields |= {f"oldObject.{field.removeprefix('object.')}" for field in fields if field.startswith("object.")}
    for piece in found.pieces:
        _piece(paper, piece, fields, whole)
    if not whole:
        paper.heading("-o wide shows the whole objects, -o json and -o yaml have them as data")
    return paper.text()


class _Paper:
    """Lines of at most a width."""

    def __init__(self, width: int) -> None:
        self._width = width
        self._lines: list[str] = []

    def text(self) -> str:
        return "\n".join(self._lines) + "\n"

    def heading(self, text: str) -> None:
        if self._lines:
            self._lines.append("")
        self.words(text)

    def words(self, text: str, indent: int = 0, first: str = "") -> None:
        """A sentence wrapped over lines; `first` comes before it, and later lines are indented to its beginning."""
        hang = " " * (indent + len(first))
        lead = " " * indent + first
        shown = printable(text)
        self._lines += textwrap.wrap(
            shown, self._width, initial_indent=lead, subsequent_indent=hang, break_on_hyphens=False, break_long_words=True
        ) or [lead.rstrip()]

    def fact(self, name: str, text: str) -> None:
        self.words(text, 2, f"{name:<11} ")

    def raw(self, lines: Iterable[str], indent: int) -> None:
        """Lines of YAML, cut if too long."""
        room = self._width - indent
        for line in lines:
            shown = printable(line)
            self._lines.append(" " * indent + (shown if len(shown) <= room else f"{shown[: room - 1]}…"))


def _responsible(paper: _Paper, who: Responsible) -> None:
    """The object that somebody wrote, its team, and who wrote it."""
    *between, outermost = who.chain
    if between:
        through = f", through {', '.join(reversed(between[1:]))}" if between[1:] else ""
        paper.fact("made by", f"{outermost}{through}")
    if who.team:
        paper.fact("team", f"{who.team} ({who.team_source})")
    if who.writer and who.written_ts is not None:
        paper.fact("last writer", f"{who.writer}, of {outermost} at {who.written_ts:%Y-%m-%dT%H:%M:%SZ}")


def _request(paper: _Paper, found: Explanation) -> None:
    place = "/".join(part for part in (found.namespace, found.name) if part)
    paper.words(f"{found.operation} {found.resource} {place}".rstrip())
    paper.fact("user", f"{found.user['username'] or 'not recorded'} ({', '.join(found.user['groups']) or 'no groups'})")
    paper.fact("received", f"{found.ts:%Y-%m-%dT%H:%M:%SZ}, cluster {found.cluster}, audit ID {found.audit_id}")
    paper.fact("answer", f"{found.code or 'none recorded'} {found.answer}".strip())
    if found.responsible is not None:
        _responsible(paper, found.responsible)
    if found.passes > 1:
        paper.fact("pass", f"{found.pass_index + 1} of {found.passes}: the request concerned several objects")


def _policy(paper: _Paper, entry: ExplainedPolicy, stage: str) -> None:
    binding = f", {_words(stage).part} {entry.binding}" if entry.binding else ""
    actions = f" ({', '.join(entry.actions)})" if entry.actions else ""
    word = _DECISIONS.get(entry.effect if entry.decision == "error" else entry.decision, entry.decision)
    if entry.decision == "error":
        word = _word_of_error(entry, word, stage)
    name = f"all {_words(stage).things} together" if entry.policy == stage else entry.policy
    paper.heading(f"{name}{binding}: {word}{actions}")
    if entry.message:
        paper.words(entry.message, 2, "says        ")
    if entry.why and entry.decision not in ("unknown", "unreached"):
        paper.fact("why", entry.why)
    for fact in entry.facts:
        paper.fact(fact.name, fact.text)
    decided = [each for each in entry.validations if each.decision not in ("admit", "")]
    shown = decided or [*entry.conditions, *entry.validations]
    for each in (*shown, *_variables_of(entry, shown)):
        _expression(paper, each)
    if entry.fields:
        paper.fact("decided by", ", ".join(entry.fields))
    for missing in entry.missing:
        _missing(paper, missing)
    if entry.nearest:
        paper.fact("passes with", entry.nearest)
    if entry.there and entry.there != entry.nearest:
        paper.fact("that is", f"{entry.there}, where it is written")
    if entry.evidence:
        paper.fact("evidence", grade_words(entry.evidence))
    if entry.param is not None:
        _piece(paper, entry.param, set(), whole=True, indent=2)


def _word_of_error(entry: ExplainedPolicy, word: str, stage: str) -> str:
    if entry.policy == stage:
        return "refuse the request"
    if entry.why == "not covered by failurePolicy":
        return "ends the request, whatever failurePolicy says"
    return f"{word}, because it fails and failurePolicy decides"


def _words(stage: str) -> StageWords:
    return stage_of(stage).readiness.words


def _variables_of(entry: ExplainedPolicy, shown: Sequence[ExplainedExpression]) -> list[ExplainedExpression]:
    """The variables that some expressions read, in their order."""
    text = " ".join(each.expression for each in shown)
    return [each for each in entry.variables if each.field in text]


def _expression(paper: _Paper, each: ExplainedExpression) -> None:
    paper.words(each.field, 2)
    # The lines of a long expression are joined, and their indentation goes.
    paper.words(re.sub(r"\s*\n\s*", " ", each.expression), 4)
    is_made = each.field.startswith(("variables.", "mutations["))  # its value says more than its parts
    if is_made or not any(part.expression == each.expression for part in each.parts):
        paper.words(f"is {_value(each.state, each.value, is_made)}", 6)
    if is_made and each.state == "value":
        return
    for part in each.parts:
        _part(paper, part)


def _part(paper: _Paper, part: DecidingPart) -> None:
    paper.words(f"{part.expression} is {_value(part.state, part.value)}", 6)
    # A loop variable may be an operand, too.
    for operand in {each.expression: each for each in (*part.operands, *part.variables)}.values():
        _operand(paper, operand)


def _operand(paper: _Paper, operand: Operand) -> None:
    paper.words(f"{operand.expression} = {_value(operand.state, operand.value)}", 8)


def _value(state: str, value: Any, is_long: bool = False) -> str:
    if state == "unknown":
        return state  # the reason is printed once, below
    if state == "error":
        return f"an error: {value}"
    text = json.dumps(value, ensure_ascii=False)
    room = _TEXT_MAX if is_long or isinstance(value, str) else _VALUE_MAX
    return text if len(text) <= room else f"{text[: room - 1]}…"


def _missing(paper: _Paper, missing: UnknownReason) -> None:
    paper.fact("unknown", missing.reason)
    if missing.remedy:
        paper.fact("known with", missing.remedy)


def _admitting(paper: _Paper, entries: Sequence[ExplainedPolicy]) -> None:
    if entries:
        names = [
            entry.policy if entry.binding in (None, entry.policy) else f"{entry.policy} ({entry.binding})" for entry in entries
        ]
        paper.heading(f"Policies that admit it: {', '.join(dict.fromkeys(names))} (--policy NAME or -o wide explains them)")


def _not_matched(paper: _Paper, entries: Sequence[ExplainedPolicy], stage: str) -> None:
    if not entries:
        return
    paper.heading(f"{_words(stage).things.capitalize()} that do not match")
    for entry in entries[:_NOT_MATCHED_MAX]:
        binding = f", {_words(stage).part} {entry.binding}" if entry.binding and entry.binding != entry.policy else ""
        paper.words(f"{entry.policy}{binding}: {entry.why or 'no rule is for this request'}", 2)
        for each in entry.conditions:
            if each.decision != "true" and len(entries) <= _TRACED_MAX:
                _expression(paper, each)
    if len(entries) > _NOT_MATCHED_MAX:
        paper.words(f"{len(entries) - _NOT_MATCHED_MAX} more: -o json has all", 2)


def _piece(paper: _Paper, piece: Piece, fields: set[str], whole: bool, indent: int = 0) -> None:
    title = _TITLES.get(piece.name, piece.name)
    if piece.missing:
        paper.words(f"{title}: unknown, {piece.missing}", indent)
        if piece.remedy:
            paper.words(piece.remedy, indent + 2, "known with  ")
        return
    if piece.value is None:
        return
    if not indent:
        paper.heading(f"{title} ({piece.grade}; {piece.source})")
    else:
        paper.words(f"{title} ({piece.grade}; {piece.source})", indent)
    value = piece.value if whole or not isinstance(piece.value, dict) else {**_head(piece.value), **_read(piece, fields)}
    lines = yaml_text([value]).splitlines()
    paper.raw(lines if whole else lines[:_YAML_LINES_MAX], indent + 2)


def _head(obj: Mapping[str, Any]) -> dict[str, Any]:
    """The name of an object in the explanation."""
    metadata = obj.get("metadata")
    names = (
        {key: metadata[key] for key in ("name", "generateName", "namespace") if key in metadata}
        if isinstance(metadata, dict)
        else {}
    )
    head = {key: obj[key] for key in ("apiVersion", "kind") if key in obj}
    return {**head, "metadata": names} if names else head


def _read(piece: Piece, fields: set[str]) -> dict[str, Any]:
    """The deciding parts of the object: its fields of first and second level that hold the fields read."""
    found: dict[str, Any] = {}
    for field in fields:
        steps = field.replace("[", ".[").split(".")
        if steps[0] != piece.name or len(steps) < 2 or steps[1] not in piece.value:
            continue
        inner = piece.value[steps[1]]
        if len(steps) > 2 and isinstance(inner, dict):
            taken = found.setdefault(steps[1], dict(_head(piece.value).get(steps[1], {})))
            if steps[2] in inner and isinstance(taken, dict):
                taken[steps[2]] = inner[steps[2]]
        else:
            found[steps[1]] = inner
    return found


def lines_of(missing: Iterable[UnknownReason]) -> Iterator[str]:
    """Each reason in a sentence with its remedy."""
    for each in missing:
        yield f"{each.requests:,} unknown: {each.reason}" + (f"; {each.remedy}" if each.remedy else "")
