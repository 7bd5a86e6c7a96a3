"""The words of the stage that an entry of a report is about."""

from __future__ import annotations

from pipeline.readiness.model import PolicyReadiness
from pipeline.stages.readiness import StageWords
from pipeline.stages.registry import stage_of


def words_of(entry: PolicyReadiness) -> StageWords:
    """The words of its stage; for a stage that this version does not have, those of any."""
    try:
        return stage_of(entry.stage).readiness.words
    except KeyError:
        return StageWords()
