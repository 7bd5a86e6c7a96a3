"""The verdicts of the plugin on one request: one per mode."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from ...request import Grade
from ...row import INSUFFICIENT, Row
from ...runs.verdict import Flip
from .checks.table import Failed
from .policy import PREFIX, LevelVersion, Mode, Resolved
from .subject import Told

NAME = "pod-security"
FROM_LOG = "from the log"
UNKNOWN_POLICY = "unknown"
_ACTIONS = {Mode.ENFORCE: "Deny", Mode.AUDIT: "Audit", Mode.WARN: "Warn"}


class Ruling(NamedTuple):
    """What one mode makes of a request. `decision` is `admit`, `deny` (it violates the policy), `nomatch` or `unknown`.

    `message` holds the violations as the plugin prints them, `why` the reason of a `nomatch` or `unknown`. `place` is the rule that
    decided, `annotations` are those that the plugin leaves, and `failed` are the checks behind the message.
    """

    mode: Mode
    policy: LevelVersion | None
    decision: str
    message: str = ""
    why: str = ""
    place: str = ""
    evidence: str = Grade.EXACT
    annotations: tuple[tuple[str, str], ...] = ()
    code: int = 403
    failed: tuple[Failed, ...] = ()


# The rulings on a request whose body nests too deep.
UNREAD = [Ruling(mode, None, "unknown", why="the request could not be read") for mode in Mode]


def place_of(mode: Mode, resolved: Resolved, namespace: str) -> str:
    """Where the policy of a mode is written: a label of the namespace, or a default of the configuration."""
    if mode in resolved.labelled:
        return f"Namespace/{namespace}/metadata.labels[{PREFIX}{mode}]"
    return f"PodSecurityConfiguration/PodSecurity/defaults.{mode}"


def row_of(ruling: Ruling, told: Told, *, is_asked: bool = True) -> Row:
    """The row of a ruling on a recorded request. `is_asked`: the given labels, if there are any, are those of its namespace."""
    recorded = _recorded(ruling.mode, told)
    is_denied = ruling.decision == "deny" and ruling.mode is Mode.ENFORCE
    judged = ruling.decision in ("admit", "deny")
    detail: dict[str, Any] = {"checks": [each.check for each in ruling.failed]} if ruling.failed else {}
    detail |= {} if is_asked else {"labels": FROM_LOG}
    return Row(
        policy=str(ruling.policy) if ruling.policy else UNKNOWN_POLICY,
        binding=str(ruling.mode),
        param_namespace=None,
        param_name=None,
        expression_index=None,
        decision=ruling.decision,
        effect=("deny" if is_denied else "admit") if judged else None,
        message=ruling.message or None,
        reason=({403: "Forbidden", 422: "Invalid"}[ruling.code]) if is_denied else None,
        code=ruling.code if is_denied else None,
        why=ruling.why or None,
        evidence=INSUFFICIENT if ruling.decision == "unknown" else str(ruling.evidence),
        actions=[_ACTIONS[ruling.mode]],
        audit_annotations=[(PREFIX + key, value) for key, value in ruling.annotations],
        bypasses_actions=False,
        stage=NAME,
        rule_ref=ruling.place or None,
        recorded=recorded,
        flip=_flip(ruling, recorded, told.code) if ruling.mode is Mode.ENFORCE else None,
        detail=json.dumps(detail) if detail else None,
    )


def _recorded(mode: Mode, told: Told) -> str | None:
    """What the log says that the plugin did in a mode; None where it does not say."""
    match mode:
        case Mode.ENFORCE if told.is_refused:
            return "deny"
        case Mode.ENFORCE if 200 <= told.code < 300 or "enforce-policy" in told.notes:
            return "admit"
        case Mode.AUDIT if "audit-violations" in told.notes:
            return "deny"
        case Mode.AUDIT if "enforce-policy" in told.notes:
            return "admit"
    return None


def _flip(ruling: Ruling, recorded: str | None, code: int) -> str:
    if ruling.decision == "unknown":
        return Flip.UNKNOWN
    if ruling.decision == "deny":
        return Flip.STILL_DENIED if recorded == "deny" or code >= 400 else Flip.NEWLY_DENIED
    return Flip.NEWLY_ALLOWED if recorded == "deny" else Flip.SAME
