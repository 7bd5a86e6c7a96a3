"""The rows of one request: one for the request as a whole, and one per policy, binding and param."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

from ...history.event import Event, decode_json
from ...policies.model import FailurePolicy
from ...request import Evidence, Grade, Known, Object, Unknown, worst
from ...row import INSUFFICIENT, Row
from ...runs.verdict import Flip
from .afterwards import Later
from .applying import Refusal
from .changes import Change, changes, has_changes
from .invocation import Invocation, Key, Outcome, Ran
from .nil_lists import as_json
from .orders import Outcomes
from .walk import is_refusal

STAGE = "mutating"
ORDER = "the order of the policies decides it, and the API server does not define an order"
# Of one row; a longer difference says so.
_CHANGES_MAX = 200
_CHANGES_BYTES_MAX = 256 * 1024


class Recorded(NamedTuple):
    """What the log says of a request: its answer, and the object in it, where it shows the whole one."""

    code: int
    message: str
    refused_by_policy: bool
    response: Object | None
    # Whether the given policies take the place of the one that refused. Any other one stays in force, and refuses again.
    is_replaced: bool = True


def verdicts_of(
    outcomes: Outcomes,
    entered: Evidence[Object | None],
    recorded: Recorded,
    later: Later,
    with_objects: bool,
    stored: Callable[[Object], Object] = lambda value: value,
) -> Sequence[Row]:
    """The rows of a request; none if no policy matched it. `entered` is its object without the policies.

    `stored` leaves out of an object what its store drops: a change of that alone is no change of the request.
    """
    first = outcomes.first
    # A policy whose constraints do not match has no row, like one of another resource.
    matched = (each for found in outcomes.distinct for each in found.invocations if each.is_due or each.ran is not Ran.NOMATCH)
    keys = list(dict.fromkeys(each.key for each in matched))
    rows = [_row_of(key, outcomes, entered) for key in keys]
    if all(row.decision == "nomatch" for row in rows):
        return rows
    whole = _whole(outcomes, first, entered, recorded, later, rows, with_objects, stored)
    if later.why and whole.decision == "unknown":
        rows = [_doubted(row, later) if row.decision == "changed" else row for row in rows]
    return [whole, *rows]


def _doubted(row: Row, later: Later) -> Row:
    """The row of a policy: in doubt, if it changes one of the fields in doubt."""
    changed = [each["path"] for each in json.loads(row.detail or "{}").get("difference", ())]
    if not any(touch(path, doubt.path) for path in changed for doubt in later.doubts):
        return row
    return row._replace(decision="unknown", effect=None, why=later.why, evidence=INSUFFICIENT)


def touch(left: str, right: str) -> bool:
    """Whether one place lies in the other, by their paths."""
    longer, shorter = (left, right) if len(left) >= len(right) else (right, left)
    return not shorter or longer == shorter or (longer.startswith(shorter) and longer[len(shorter)] in ".[")


def unknown_request(why: str, concerns: Sequence[tuple[str, str | None]] = ()) -> Row:
    """The row of a request whose object is not known either. `concerns` are the policies and bindings that are for it."""
    detail = {"concerns": [{"policy": policy, "binding": binding} for policy, binding in concerns]} if concerns else None
    return _row((STAGE, None, None, None), "unknown", None, why=why, evidence=INSUFFICIENT, flip=Flip.UNKNOWN, detail=detail)


def _row(
    key: Key,
    decision: str,
    effect: str | None,
    *,
    message: str | None = None,
    reason: str | None = None,
    code: int | None = None,
    why: str = "",
    evidence: str = Grade.EXACT,
    bypasses: bool = False,
    recorded: str | None = None,
    flip: Flip | None = None,
    detail: dict[str, Any] | None = None,
) -> Row:
    policy, binding, namespace, name = key
    return Row(
        policy=policy,
        binding=binding,
        param_namespace=namespace,
        param_name=name,
        expression_index=None,
        decision=decision,
        effect=effect,
        message=message or None,
        reason=reason or None,
        code=code,
        why=why or None,
        evidence=str(evidence),
        actions=["Deny"] if policy != STAGE else [],
        audit_annotations=[],
        bypasses_actions=bypasses,
        stage=STAGE,
        rule_ref=None if policy == STAGE else f"MutatingAdmissionPolicy/{policy}",
        recorded=recorded,
        flip=None if flip is None else str(flip),
        detail=json.dumps(detail, sort_keys=True) if detail else None,
    )


def _whole(
    outcomes: Outcomes,
    first: Outcome,
    entered: Evidence[Object | None],
    recorded: Recorded,
    later: Later,
    rows: Sequence[Row],
    with_objects: bool,
    stored: Callable[[Object], Object],
) -> Row:
    """The request as a whole: the answer, or the object that the policies leave."""
    evidence = _grade(entered, first.invocations)
    flags = sorted({flag for row in rows for flag in json.loads(row.detail or "{}").get("flags", ())} | set(later.flags))
    detail: dict[str, Any] = {"flags": flags} if flags else {}
    if later.invalid or later.denials:
        detail["later"] = [later.invalid] if later.invalid else list(later.denials)
    key: Key = (STAGE, None, None, None)
    # Orders whose outcome is not known do not show that the order decides.
    unsure = next((each.object for each in outcomes.distinct if each.refusal is None and isinstance(each.object, Unknown)), None)
    answers = {each.refusal for each in outcomes.distinct if each.refusal is not None or isinstance(each.object, Known)}
    objects = _objects(outcomes)
    if len(answers) > 1 or (None in answers and len(objects) > 1):
        detail["differences"] = [_difference(entered, each) for each in objects]
        return _unknown(key, ORDER, recorded, detail)
    if unsure is not None:
        return _unknown(key, unsure.reason, recorded, detail)
    if first.refusal is not None:
        return _refused(key, first.refusal, recorded, evidence, detail)
    assert isinstance(first.object, Known)
    before, after = (entered.value if isinstance(entered, Known) else None), first.object.value
    found = list(changes(before, after))
    ends = before, after
    if found and before is not None and after is not None:
        ends = stored(before), stored(after)
        found = found if next(changes(*ends), None) is not None else []
    detail |= _shown(found)
    if with_objects and found:
        detail["object"] = as_json(after)
    flip = _flip(*(ends if found else (before, before)), recorded, later)
    if found and later.why:
        return _unknown(key, later.why, recorded, detail)
    decision = "changed" if found else "unchanged"
    return _row(key, decision, "admit", evidence=evidence, flip=flip, recorded=_said(recorded), detail=detail)


def _unknown(key: Key, why: str, recorded: Recorded, detail: dict[str, Any]) -> Row:
    said = _said(recorded)
    return _row(key, "unknown", None, why=why, evidence=INSUFFICIENT, flip=Flip.UNKNOWN, recorded=said, detail=detail)


def _refused(key: Key, refusal: Refusal, recorded: Recorded, evidence: str, detail: dict[str, Any]) -> Row:
    same = recorded.code == refusal.code and (refusal.message is None or recorded.message == refusal.message)
    flip = Flip.SAME if same and recorded.refused_by_policy else Flip.STILL_DENIED if recorded.code >= 400 else Flip.NEWLY_DENIED
    why = "" if refusal.code is not None else "the API server panics on this patch: the client gets no answer"
    return _row(
        key,
        "error",
        "deny",
        message=refusal.message,
        reason=refusal.reason,
        code=refusal.code,
        why=why,
        evidence=evidence,
        bypasses=True,
        recorded=_said(recorded),
        flip=flip,
        detail=detail,
    )


def _said(recorded: Recorded) -> str | None:
    return "deny" if recorded.refused_by_policy else "admit" if recorded.code < 400 else None


def _flip(before: Object | None, after: Object | None, recorded: Recorded, later: Later) -> Flip | None:
    if recorded.refused_by_policy:
        if recorded.is_replaced:
            return Flip.NEWLY_ALLOWED
        return Flip.UNKNOWN if before != after else Flip.STILL_DENIED
    if recorded.code >= 400:
        return Flip.STILL_DENIED if later.invalid or later.denials else None
    if later.invalid or later.denials:
        return Flip.NEWLY_DENIED
    if recorded.response is None:
        return None if before != after else Flip.SAME
    return Flip.SAME if has_changes(before, after, recorded.response) else Flip.CHANGED


def _row_of(key: Key, outcomes: Outcomes, entered: Evidence[Object | None]) -> Row:
    """What one policy, binding and param did, if it did the same in every order."""
    several = [[each for each in found.invocations if each.key == key] for found in outcomes.distinct]
    told = [_told(each, entered) for each in several]
    first = told[0]
    known = {(row.decision, row.effect, row.message) for row in told if row.decision != "unknown"}
    if len(known) <= 1 and (unknown := next((row for row in told if row.decision == "unknown"), None)) is not None:
        return unknown
    if len(known) > 1:
        detail = {"flags": ["order-dependent"]}
        return _row(key, "unknown", None, why=ORDER, evidence=INSUFFICIENT, detail=detail)
    added = "order-dependent" if len({row.detail for row in told}) > 1 else "orders-not-tried" if key in outcomes.untried else ""
    if not added:
        return first
    own = json.loads(first.detail or "{}")
    own["flags"] = sorted({*own.get("flags", ()), added})
    return first._replace(detail=json.dumps(own, sort_keys=True))


def _told(found: Sequence[Invocation], entered: Evidence[Object | None]) -> Row:
    key = found[0].key if found else (STAGE, None, None, None)
    evidence = _grade(entered, found)
    unknown = next((each for each in found if each.ran is Ran.UNKNOWN), None)
    if unknown is not None:
        return _row(key, "unknown", None, why=unknown.why, evidence=INSUFFICIENT)
    failed = next((each for each in found if each.ran is Ran.ERROR), None)
    flags = _flags(found)
    difference = [change for each in found if each.after is not None for change in changes(each.before, each.after)]
    detail = _shown(difference) | ({"flags": flags} if flags else {})
    if failed is not None:
        fatal = failed.why == "not covered by failurePolicy"
        denies = fatal or failed.failure_policy is FailurePolicy.FAIL
        code, reason = (None, None) if fatal else (403, "Forbidden" if failed.why == "configuration" else "Invalid")
        return _row(
            key,
            "error",
            "deny" if denies else "admit",
            message=failed.errors[0] if failed.errors else None,
            reason=reason,
            code=code if denies else None,
            why=failed.why,
            evidence=evidence,
            bypasses=fatal,
            detail=detail,
        )
    if not any(each.ran is Ran.APPLIED for each in found):
        return _row(key, "nomatch", None, why=found[0].why if found else "", evidence=evidence)
    return _row(key, "changed" if difference else "unchanged", "admit", evidence=evidence, detail=detail)


def _flags(found: Sequence[Invocation]) -> list[str]:
    """`not-idempotent`: the policy changes its own result again. `lost-on-reapply`: a later write without the field removes it."""
    flags = set()
    for each in found:
        if not each.is_settled:
            flags.add("not-idempotent")
        if each.after is not None and any(change.op == "add" for change in changes(each.before, each.after)):
            flags.add("lost-on-reapply")
    return sorted(flags)


def _shown(found: Sequence[Change]) -> dict[str, Any]:
    if not found:
        return {}
    values = _first(found)
    return {"difference": values} | ({"more_changes": len(found) - len(values)} if len(found) > len(values) else {})


def _first(found: Sequence[Change]) -> list[dict[str, Any]]:
    """The first changes as JSON, as many as a row holds."""
    values = [each.value for each in found[:_CHANGES_MAX]]
    sizes = accumulate(len(json.dumps(each)) for each in values)
    return [value for value, size in zip(values, sizes, strict=True) if size <= _CHANGES_BYTES_MAX]


def _objects(outcomes: Outcomes) -> list[Known[Object | None]]:
    found: list[Known[Object | None]] = []
    for each in outcomes.distinct:
        if each.refusal is None and isinstance(each.object, Known) and each.object not in found:
            found.append(each.object)
    return found


def _difference(entered: Evidence[Object | None], after: Known[Object | None]) -> list[dict[str, Any]]:
    if isinstance(entered, Unknown):
        return []
    return _first(list(changes(entered.value, after.value)))


def _grade(entered: Evidence[Object | None], found: Sequence[Invocation]) -> str:
    grade = entered.grade if isinstance(entered, Known) else Grade.PARTIAL
    return str(worst(grade, *(each.evidence for each in found)))


_REFUSING = re.compile(r"^policy '([^']*)' with binding '")


def recorded_of(event: Event, given: Collection[str] | None = None) -> Recorded:
    """What the log says of a request at this stage. `given` are the names of given policies; None: they replace all others."""
    response: Object | None = None
    if (raw := event.written_raw) is not None:
        response = decode_json(raw)
    refused = is_refusal(event)
    named = _REFUSING.match(event.message)
    is_replaced = given is None or named is None or named[1] in given
    return Recorded(event.code, event.message, refused, response, is_replaced)
