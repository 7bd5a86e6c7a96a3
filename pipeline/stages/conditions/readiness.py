"""What readiness needs to know of chains: that they simulate a design which no released server has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from queries import LakeReader

from ...explaining.asked import Asked
from ...explaining.explanation import Told
from ..grouped import GroupedPlan
from ..readiness import StageReadiness, StageWords
from .chain import SIMULATED, Chain, Shape
from .explain_recorded import explain_recorded

Rules = tuple[Chain, ...]


class ConditionsReadiness(StageReadiness[Rules, GroupedPlan[Any]]):
    """See StageReadiness."""

    words = StageWords(
        "chains of authorizers",
        "Readiness of conditional authorization, simulated: no released server has it",
        "AuthorizerChain, SubjectAccessReview",
        thing="chain of authorizers",
    )

    def mistakes(self, rules: Rules, replaces_all: bool) -> Sequence[str]:
        """See StageReadiness."""
        reviews = [f"{each.source}: read as {each.shape}" for each in rules if each.shape is not Shape.CHAIN]
        return (SIMULATED, *reviews)

    def explain(self, reader: LakeReader, rules: Rules | None, asked: Asked) -> Sequence[Told]:
        """See StageReadiness. The log shows no chains."""
        return [explain_recorded(reader, each, asked.cluster, asked.audit_id, asked.ts, asked.version) for each in rules or ()]

    def places(self, rules: Rules) -> Sequence[tuple[str, str]]:
        """See StageReadiness."""
        return [(each.name, each.source) for each in rules]
