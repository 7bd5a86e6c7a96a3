"""The change that one request made to its object: as a replay reconstructs it, or as the bodies were recorded."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ingest.counted import counted
from pipeline.history.reconstruct import NotReplayed
from pipeline.request import AdmissionRequest, Grade, Known, Operation, Unknown, worst

from ..ask.reads import RequestDetail
from ..printing.explained import grade_words
from .difference import NO_FIELDS, Fields, ObjectDifference, object_difference, object_lines
from .lines import Line

_HEADINGS: Mapping[Operation, str] = {
    Operation.CREATE: "The object",
    Operation.UPDATE: "The object after the request",
    Operation.DELETE: "The object that it deletes",
    Operation.CONNECT: "What it asked for",
}


@dataclass(frozen=True, slots=True)
class Change:
    """The change of an object by a request: the difference of two versions, or one alone; `note` gives their source."""

    heading: str
    lines: ObjectDifference | None
    note: str

    @property
    def has_marks(self) -> bool:
        """Whether a line shows a field that decided."""
        blocks = self.lines.blocks if self.lines else ()
        return any(isinstance(block, Line) and block.decided for block in blocks)


def change_of(
    detail: RequestDetail, recalled: Sequence[AdmissionRequest] | NotReplayed | None, fields: Fields = NO_FIELDS
) -> Change:
    """The change of the object by the request, as a replay reconstructs it; if it cannot, as the bodies were recorded.

    `fields` are those that expressions read; these are never folded.
    """
    if isinstance(recalled, NotReplayed):
        return _recorded_change(detail, recalled.reason)
    if not recalled:
        return _recorded_change(detail, "no finished stage of it is recorded")
    first = recalled[0]
    more = f" The first of {counted(len(recalled), 'object')} that it concerned." if len(recalled) > 1 else ""
    old, new = first.old_object, first.object
    if isinstance(old, Known) and isinstance(new, Known) and old.value is not None and new.value is not None:
        note = f"Before: {old.source}. After: {new.source}. {_evidence(worst(old.grade, new.grade))}{more}"
        return Change("What it changed", object_difference(old.value, new.value, fields), note)
    shown, other = (new, old) if isinstance(new, Known) and new.value is not None else (old, new)
    if not isinstance(shown, Known) or shown.value is None:
        missing = next(side.reason for side in (new, old) if isinstance(side, Unknown)) if _is_unknown(new, old) else "nothing"
        return Change("What it changed", None, f"Not known: {missing}.{more}")
    heading = _HEADINGS[first.operation] if shown is new else "The object before the request"
    if first.operation is Operation.DELETE:
        heading = _HEADINGS[first.operation]
    gap = f" The other side is unknown: {other.reason}." if isinstance(other, Unknown) else ""
    lines = object_lines(shown.value, fields, "object" if shown is new else "oldObject")
    return Change(heading, lines, f"From: {shown.source}. {_evidence(shown.grade)}{gap}{more}")


def _evidence(grade: Grade) -> str:
    return f"Evidence: {grade_words(str(grade))}."


def _is_unknown(*sides: object) -> bool:
    return any(isinstance(side, Unknown) for side in sides)


def _recorded_change(detail: RequestDetail, why: str) -> Change:
    """The bodies alone, of a request that policies never saw, or may never have seen."""
    old, new = decoded(detail.old_object), decoded(detail.new_object)
    note = f"A replay leaves this request out: {why}."
    if new is not None and old is not None:
        return Change("What it changed", object_difference(old, new), f"{note} Compared with the version recorded before it.")
    if new is None and old is None:
        return Change("What it changed", None, f"{note} {_why_no_body(detail)}")
    heading = "The object" if new is not None else "The object before the request"
    return Change(heading, object_lines(new if new is not None else old), note)


def _why_no_body(detail: RequestDetail) -> str:
    request = detail.request
    flags = request.get("flags") or ()
    if "redacted" in flags:
        return "Its bodies were taken out before they reached the disk, because this resource holds credentials."
    if "truncated" in flags:
        return "Its bodies were too large, and the API server cut them off."
    if request.get("level") == "Metadata":
        return "It was recorded at level Metadata, without bodies."
    return "No body of this object is recorded."


def decoded(text: str | None) -> Any:
    """A body as JSON values; None without a body, and for text that is not JSON or nests too deeply."""
    try:
        return None if text is None else json.loads(text)
    except (ValueError, RecursionError):
        return None
