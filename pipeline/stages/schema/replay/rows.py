"""The verdict on one request as a row of the verdict table."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Any, Final

from ....row import INSUFFICIENT, Row
from ....runs.verdict import Flip
from ..definition import KIND
from ..field_errors import ROOT, FieldError
from .difference import Change
from .outcome import Decision, Outcome
from .walk import Judged

NAME: Final = "schema"
# A detail lists at most so many changes of one object, and says how many there are.
_CHANGES_MAX: Final = 50


class Result(StrEnum):
    """What becomes of a request, in one word for tables; `Row.decision` has fewer."""

    ADMITTED = "admitted"
    CHANGED = "changed"
    RATCHETED = "ratcheted"
    RATCHETED_WITH_WARNING = "ratcheted with a warning"
    REFUSED = "refused"
    REFUSED_LATER = "refused later"
    NOT_REACHED = "not reached"
    UNKNOWN = "unknown"


def result_of(outcome: Outcome) -> Result:
    """The one word for an outcome. A request that is ratcheted may be changed as well."""
    match outcome.decision:
        case Decision.DENY:
            return Result.REFUSED
        case Decision.UNKNOWN:
            return Result.UNKNOWN
        case Decision.UNREACHED:
            return Result.NOT_REACHED
    if outcome.flip is Flip.STILL_DENIED:
        return Result.REFUSED_LATER
    if outcome.warnings:
        return Result.RATCHETED_WITH_WARNING
    if outcome.ratcheted:
        return Result.RATCHETED
    return Result.CHANGED if outcome.decision is Decision.CHANGE else Result.ADMITTED


def row_of(judged: Judged, with_object: bool = False) -> Row:
    """The row of one request. Field, text and difference are in `detail`, and perhaps the predicted object, if it is another."""
    outcome, definition = judged.outcome, judged.served.definition
    effect = {Decision.ADMIT: "admit", Decision.CHANGE: "admit", Decision.DENY: "deny"}.get(outcome.decision)
    place = f"{KIND}/{judged.served.name}/{judged.event.resource.version}"
    first = next((each.field for each in outcome.errors if each.field != ROOT), "")
    return Row(
        policy=definition.name or judged.served.name,
        binding=None,
        param_namespace=None,
        param_name=None,
        expression_index=None,
        decision=str(outcome.decision),
        effect=effect,
        message=outcome.message or None,
        reason=outcome.reason or None,
        code=outcome.code or None,
        why=outcome.why or None,
        evidence=str(outcome.evidence) if outcome.evidence is not None else INSUFFICIENT,
        actions=[],
        audit_annotations=[],
        bypasses_actions=False,
        stage=NAME,
        rule_ref=f"{place}/{_general(first)}" if first else place,
        recorded=outcome.recorded or None,
        flip=None if outcome.flip is None else str(outcome.flip),
        detail=json.dumps(_detail(judged, with_object), sort_keys=True, ensure_ascii=False),
    )


def _detail(judged: Judged, with_object: bool) -> dict[str, Any]:
    """What only this stage has; empty parts are left out."""
    outcome = judged.outcome
    found: dict[str, Any] = {
        "result": str(result_of(outcome)),
        "errors": list(map(_error, outcome.errors)),
        "warnings": list(map(_error, outcome.warnings)),
        "ratcheted": list(map(_error, outcome.ratcheted)),
        "changes": list(map(_change, outcome.changes[:_CHANGES_MAX])),
        "changes_more": max(0, len(outcome.changes) - _CHANGES_MAX),
        "hidden": list(outcome.hidden),
        "if_nothing_was_dropped": outcome.otherwise,
        "further_errors": not outcome.is_whole_text,
        "cascade_of": judged.follows.cascade_of,
        "diverged_by": judged.follows.diverged_by,
        "met": outcome.write,
        "record": outcome.agreement,
        "object": outcome.object if with_object and _is_another(outcome) else None,
    }
    return {name: value for name, value in found.items() if value}


def _is_another(outcome: Outcome) -> bool:
    """Whether the predicted object is not the recorded one: it differs, or the record refused the request."""
    return outcome.decision is Decision.CHANGE or outcome.flip is Flip.NEWLY_ALLOWED


def _error(error: FieldError) -> dict[str, str]:
    return {"field": error.field, "reason": str(error.reason), "message": error.message}


def _change(change: Change) -> dict[str, Any]:
    return {"kind": change.kind, "path": change.path, "before": change.before, "after": change.after}


def _general(path: str) -> str:
    """A path without the numbers of list items, so that equal mistakes count as one."""
    out, rest = "", path
    while "[" in rest:
        before, _, rest = rest.partition("[")
        inside, _, rest = rest.partition("]")
        out += f"{before}[]" if inside.isdigit() else f"{before}[{inside}]"
    return out + rest
