"""Requests whose mutated object might be refused by a later stage: the stages in the server's order decide them.

A mutating policy by itself knows few rules of later stages. Where it is in doubt, the chain is asked: see pipeline/stages/chain.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...manifests.documents import Document
from ...runs.executors import Executor
from ...runs.merge import Merged
from ...runs.revision import Revision
from ...runs.running import Doubts
from ...runs.verdicts import Pass
from ..chain.answer import VALIDATION
from ..grouped import GroupedPlan
from .afterwards import IN_DOUBT
from .model import MutatingRules
from .verdicts import STAGE


@dataclass(frozen=True, slots=True)
class Decided:
    """What the chain answers to a request in doubt. `refusal` and `by`, the step, are empty where it lets the request pass."""

    refusal: str
    by: str
    flip: str
    evidence: str

    def rows(self, own: Sequence[dict[str, Any]]) -> Sequence[dict[str, Any]]:
        """See Revision."""
        return [self._row(row) if _is_in_doubt(row) else row for row in own]

    def _row(self, row: dict[str, Any]) -> dict[str, Any]:
        found = row | {"decision": "changed", "effect": "admit", "why": None, "evidence": self.evidence}
        if row["policy"] != STAGE:
            return found
        detail = json.loads(row["detail"] or "{}")
        if self.refusal:
            flag = "invalid-after" if self.by == VALIDATION else "denied-after"
            detail |= {"later": [self.refusal], "refused_by": self.by, "flags": sorted({*detail.get("flags", ()), flag})}
        return found | {"flip": self.flip, "detail": json.dumps(detail, sort_keys=True) if detail else None}


def doubts_of(plan: GroupedPlan[MutatingRules], lake: Path, workers: int, executor: Executor | None) -> Doubts | None:
    """The requests of a plan that the chain decides; None where the given policies replace all: the chain lays them over others."""
    if plan.replaces_all:
        return None
    return lambda merged: _decided(merged, plan, lake, workers, executor)


def _decided(
    merged: Merged, plan: GroupedPlan[MutatingRules], lake: Path, workers: int, executor: Executor | None
) -> Mapping[Pass, Revision]:
    # Imported late: the chain asks this stage.
    from ..chain.behind import judged_behind
    from ..chain.rules import ChainRules
    from ..pod_security.given import given_of

    wanted = set(merged.passes_with(lambda row: row["policy"] == STAGE and _is_in_doubt(row)))
    if not wanted:
        return {}
    levels = given_of([Document(each.object, each.source) for each in plan.rules.objects])
    only = {audit_id for _, audit_id, _, _ in wanted}
    found = judged_behind(ChainRules(plan.rules, levels), plan, lake, workers, executor, only)
    return {place: revision for place in wanted if (revision := _revision(found.get(place, ()))) is not None}


def _revision(rows: Sequence[Mapping[str, Any]]) -> Revision | None:
    if not rows or rows[0]["decision"] == "unknown":
        return None
    row = rows[0]
    by = row["rule_ref"] if row["decision"] == "deny" else ""
    return Decided((row["message"] or f"refused by {by}") if by else "", by, row["flip"], row["evidence"])


def _is_in_doubt(row: Mapping[str, Any]) -> bool:
    return row["decision"] == "unknown" and (row["why"] or "").startswith(IN_DOUBT)
