"""What readiness needs to know of chains: that they simulate a design which no released server has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..grouped import GroupedPlan
from ..readiness import StageReadiness, StageWords
from .chain import SIMULATED, Chain, Shape

Rules = tuple[Chain, ...]


class ConditionsReadiness(StageReadiness[Rules, GroupedPlan[Any]]):
    """See StageReadiness."""

    words = StageWords(
        "chains of authorizers",
        "Readiness of conditional authorization, simulated: no released server has it",
        "AuthorizerChain, SubjectAccessReview",
    )

    def mistakes(self, rules: Rules, replaces_all: bool) -> Sequence[str]:
        """See StageReadiness."""
        reviews = [f"{each.source}: read as {each.shape}" for each in rules if each.shape is not Shape.CHAIN]
        return (SIMULATED, *reviews)

    def places(self, rules: Rules) -> Sequence[tuple[str, str]]:
        """See StageReadiness."""
        return [(each.name, each.source) for each in rules]
