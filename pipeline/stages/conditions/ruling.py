"""The verdict of a chain on one request."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from ...authorization.attributes import RequestInfo
from ...request import Grade
from ...row import INSUFFICIENT, Row
from ...runs.verdict import Flip
from ..authorization.stage import forbidden
from .chain import DESIGN, Chain
from .logic.evaluate import REFUSED_SOMEHOW
from .model import Effect, Plain

NAME = "conditions"
INTERNAL_ERROR = "internal error"


class Finding(StrEnum):
    """The finding about a read."""

    PROVED = "proved"
    KNOWN = "refuted with a known object"
    HYPOTHETICAL = "refuted with a hypothetical object"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Ruling:
    """What a chain makes of a request. `why` says why it is unknown whether the request is allowed.

    `is_changed`: the server adds a selector to a read. An `error` makes the answer of a refused request 500. `detail` is JSON.
    """

    allowed: bool | None
    reason: str = ""
    error: str = ""
    why: str = ""
    is_changed: bool = False
    evidence: str = str(Grade.EXACT)
    detail: str = "{}"

    def with_detail(self, **more: Any) -> Ruling:
        """This ruling with more in its detail."""
        merged = {**json.loads(self.detail), **more}
        kept = {name: value for name, value in merged.items() if value not in (None, "", [])}
        return Ruling(
            self.allowed, self.reason, self.error, self.why, self.is_changed, self.evidence, json.dumps(kept, sort_keys=True)
        )


def unknown(why: str) -> Ruling:
    """The ruling where something is not known."""
    return Ruling(None, why=why, evidence=INSUFFICIENT)


def ruling_of(decision: Plain, evidence: str = str(Grade.EXACT)) -> Ruling:
    """The ruling of a final decision. Without an opinion at the end of the chain a request is refused."""
    return Ruling(decision.effect is Effect.ALLOW, decision.reason, decision.error, evidence=evidence)


def row_of(chain: Chain, ruling: Ruling, info: RequestInfo | None, username: str, recorded: str) -> Row:
    """The row of the verdict table. `recorded` is what the log has of the authorization: RBAC, other, forbid or nothing."""
    before = {"RBAC": "admit", "other": "admit", "forbid": "deny"}.get(recorded)
    denied = ruling.allowed is False
    decision = "unknown" if ruling.allowed is None else "deny" if denied else "change" if ruling.is_changed else "admit"
    is_code_known = denied and ruling.reason != REFUSED_SOMEHOW.reason
    code = (500 if ruling.error else 403) if is_code_known else None
    detail: Mapping[str, Any] = {"design": DESIGN, "shape": str(chain.shape), **json.loads(ruling.detail)}
    if ruling.reason:
        detail = {**detail, "reason": ruling.reason}
    return Row(
        policy=chain.name,
        binding=None,
        param_namespace=None,
        param_name=None,
        expression_index=None,
        decision=decision,
        effect=None if ruling.allowed is None else "deny" if denied else "admit",
        message=_message(ruling, info, username) if denied else None,
        reason=("InternalError" if ruling.error else "Forbidden") if denied else None,
        code=code,
        why=(ruling.why or ruling.error) or None,
        evidence=ruling.evidence,
        actions=["Deny"],
        audit_annotations=[],
        bypasses_actions=False,
        stage=NAME,
        rule_ref=f"{chain.kind}/{chain.name}",
        recorded=before,
        flip=_flip(ruling, before),
        detail=json.dumps(detail, sort_keys=True),
    )


def _flip(ruling: Ruling, before: str | None) -> str | None:
    """How the ruling differs from the record; None where the record has no decision."""
    if ruling.allowed is None:
        return str(Flip.UNKNOWN)
    return str(_change(ruling, before)) if before is not None else None


def _change(ruling: Ruling, before: str) -> Flip:
    if before == "deny":
        return Flip.NEWLY_ALLOWED if ruling.allowed else Flip.STILL_DENIED
    if not ruling.allowed:
        return Flip.NEWLY_DENIED
    return Flip.CHANGED if ruling.is_changed else Flip.SAME


def _message(ruling: Ruling, info: RequestInfo | None, username: str) -> str:
    """The server's words. An error that travels with a refusal hides the refusal (pkg/endpoints/filters/authorization.go)."""
    if ruling.error:
        return INTERNAL_ERROR
    return forbidden(username, info.attributes, ruling.reason) if info is not None else ruling.reason
