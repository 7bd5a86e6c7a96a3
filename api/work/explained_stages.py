"""Explains one recorded request by any stage that can: by given manifests, by those of a run, or by those that the log shows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

from ingest.errors import EvidenceError
from pipeline.admission.policies import PolicySet
from pipeline.authorization import OtherAuthorizers
from pipeline.readiness.explaining.explain import Asked
from pipeline.readiness.explaining.explanation import Explanation, NotExplained
from pipeline.readiness.explaining.of_mutating import explain_mutating
from pipeline.readiness.explaining.of_webhooks import explain_webhooks
from pipeline.stages.mutating.model import MutatingRules
from pipeline.stages.registry import MUTATING, WEBHOOKS, stage_of
from pipeline.stages.stage import Stage
from pipeline.stages.webhooks.stage import AsRecorded, Rules
from queries import LakeReader

from ..beside_runs import kept_rules
from ..given import Given
from .explaining import Wanted, explain_one, explain_stage


class ExplainedStage(StrEnum):
    """The stages that explain their verdicts."""

    VALIDATING = "validating"
    MUTATING = "mutating"
    WEBHOOKS = "webhooks"


@dataclass(frozen=True)
class ByStage:
    """One request, and how to explain it. Its methods raise as `explain_one` does."""

    reader: LakeReader
    wanted: Wanted
    asked: Asked
    others: OtherAuthorizers | None

    def given(self, given: Given, policies: Callable[[], PolicySet]) -> list[Explanation]:
        """By each stage that reads some of the manifests; `policies` reads those of the stage of policies."""
        found = [each for stage, rules in given.stages if stage in (WEBHOOKS, MUTATING) for each in self._by(stage, rules)]
        if given.has_policies or not found:
            found += explain_one(self.reader, self.wanted, replace(self.asked, policies=policies()), self.others)
        return found

    def recorded(self, stage: ExplainedStage) -> list[Explanation]:
        """By what the log shows in force at the time of the request."""
        match stage:
            case ExplainedStage.WEBHOOKS:
                return self._by(WEBHOOKS, AsRecorded.RULES)
            case ExplainedStage.MUTATING:
                return self._by(MUTATING, None)
        return explain_one(self.reader, self.wanted, self.asked, self.others)

    def of_run(self, lake: Path, run_id: str, stage: ExplainedStage) -> list[Explanation]:
        """By the manifests of a run of webhooks or mutating policies."""
        found = stage_of(stage)
        rules = kept_rules(lake, run_id, found)
        if rules is None:
            raise EvidenceError(f"the {found.readiness.words.things} of run {run_id} are not kept", "send them with POST")
        return self._by(found, rules)

    def _by(self, stage: Stage[Any, Any], rules: Any) -> list[Explanation]:
        explain = self._mutating(rules) if stage is MUTATING else self._webhooks(rules)
        return explain_stage(self.reader, self.wanted, self.asked.names, explain)

    def _webhooks(self, rules: Rules) -> Callable[[str, str, datetime], list[Explanation | NotExplained]]:
        return lambda cluster, audit_id, ts: explain_webhooks(self.reader, cluster, audit_id, ts, rules, self._asked_in(cluster))

    def _mutating(self, rules: MutatingRules | None) -> Callable[[str, str, datetime], list[Explanation | NotExplained]]:
        return lambda cluster, audit_id, ts: explain_mutating(self.reader, cluster, audit_id, ts, rules, self._asked_in(cluster))

    def _asked_in(self, cluster: str) -> Asked:
        return self.asked if self.others is None else replace(self.asked, other_authorizers={cluster: self.others})
