"""Explains one recorded request by any stage: by given manifests, by those of a run, or by those that the log shows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ingest.errors import EvidenceError, InputError
from pipeline.explaining.asked import Asked
from pipeline.explaining.explanation import Explanation, InOwnWords, NotExplained
from pipeline.readiness.counting.responsible import with_responsible
from pipeline.readiness.rules import ReadinessRules
from pipeline.stages.names import IN_LOG
from pipeline.stages.registry import DEFAULT, stage_of
from pipeline.stages.stage import Stage
from queries import LakeReader

from ..given import Given
from .explaining import UNFINISHED, Found

_NAMES_SHOWN = 30
# The stages that explain what they make of a request under the rules that the log shows.
EXPLAINED = IN_LOG

Made = Explanation | InOwnWords
_RULES = ReadinessRules()  # the labels that name teams


@dataclass(frozen=True)
class ByStage:
    """One request, and what to show of it.

    Its methods raise EvidenceError for a request that a replay leaves out, and where nothing is in force. They raise InputError
    where no thing has an asked name.
    """

    reader: LakeReader
    request: Found
    options: Asked

    def given(self, given: Given) -> list[Made]:
        """By each stage that reads some of the manifests. Raises InputError where none of these stages explains itself."""
        found = [each for stage, rules in given.stages for each in self.by(stage, rules)]
        if not found:
            given.needed(DEFAULT)
        return found

    def recorded(self, stage: str) -> list[Made]:
        """By what the log shows in force at the time of the request."""
        return self.by(stage_of(stage), None)

    def by(self, stage: Stage[Any, Any], rules: Any) -> list[Made]:
        """By the rules of a stage; without rules by those in force. Empty if the stage does not explain itself."""
        asked = self.options.about(self.request.cluster, self.request.audit_id, self.request.ts)
        found = stage.readiness.explain(self.reader, rules, asked)
        for each in found or ():
            if isinstance(each, NotExplained):
                hint = each.remedy or f"no {stage.readiness.words.thing} can be asked about it"
                raise EvidenceError(f"request {asked.audit_id} was not replayed: {each.reason}", hint)
        made = [each for each in found or () if not isinstance(each, NotExplained)]
        if not made and found is not None:
            if not self.request.is_finished:
                raise EvidenceError(f"request {asked.audit_id} was not replayed: its stage {UNFINISHED[0]}", UNFINISHED[1])
            raise EvidenceError(f"request {asked.audit_id} was not replayed: it ended before this stage, or had nothing for it")
        entries = [entry.policy for each in made if isinstance(each, Explanation) for entry in each.policies]
        if any(isinstance(each, Explanation) for each in made) and (not entries or asked.names.difference(entries)):
            self._check_names(stage, rules, asked, frozenset(entries))
        return [with_responsible(self.reader, each, _RULES) if isinstance(each, Explanation) else each for each in made]

    def _check_names(self, stage: Stage[Any, Any], rules: Any, asked: Asked, named: frozenset[str]) -> None:
        words = stage.readiness.words
        there = stage.readiness.explainable(self.reader, rules, asked)
        missing = sorted(asked.names if there is None and not named else asked.names - named if there is not None else ())
        if missing:
            which = "were given" if rules is not None else "were in force at the time of the request"
            hint = f"these {which}: {', '.join(sorted(there)[:_NAMES_SHOWN]) or 'none'}" if there is not None else ""
            raise InputError(
                f"policy: {', '.join(missing)} is not among the {words.things}", hint or "leave out --policy to see all"
            )
        if not named:
            raise EvidenceError(
                f"neither the log nor a snapshot shows a {words.thing} that was in force at the time of the request",
                f"give {words.things}: give them with -f, or over HTTP in the body of a POST",
            )
