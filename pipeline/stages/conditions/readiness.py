"""What readiness needs to know of chains: that they simulate a design which no released server has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from queries import LakeReader

from ...explaining.asked import Asked
from ...explaining.explanation import Told
from ...policies.verdict import STAGE as POLICIES
from ...tables import Table
from ..grouped import GroupedPlan
from ..readiness import Place, StageReadiness, StageWords
from .chain import SIMULATED, Chain, Shape
from .difference import changes
from .explain_recorded import explain_recorded
from .figures import decided, reads
from .matrix import matrix
from .ruling import NAME
from .tables import chain_tables, change_table, matrix_table

Rules = tuple[Chain, ...]


class ConditionsReadiness(StageReadiness[Rules, GroupedPlan[Any]]):
    """See StageReadiness."""

    words = StageWords(
        "chains of authorizers",
        "Readiness of conditional authorization, simulated: no released server has it",
        "AuthorizerChain, SubjectAccessReview",
        thing="chain of authorizers",
        remedy="Change the conditions, or have the clients below ask with the selectors that they need",
    )

    def mistakes(self, rules: Rules, replaces_all: bool) -> Sequence[str]:
        """See StageReadiness."""
        reviews = [f"{each.source}: read as {each.shape}" for each in rules if each.shape is not Shape.CHAIN]
        return (SIMULATED, *reviews)

    def explain(self, reader: LakeReader, rules: Rules | None, asked: Asked) -> Sequence[Told]:
        """See StageReadiness. The log shows no chains."""
        return [explain_recorded(reader, each, asked.cluster, asked.audit_id, asked.ts, asked.version) for each in rules or ()]

    def tables(self, reader: LakeReader, title: str, verdicts: Path) -> Sequence[Table]:
        """See StageReadiness: the proofs come first."""
        return [*chain_tables(reads(reader, verdicts), decided(reader, verdicts)), *super().tables(reader, title, verdicts)]

    def change_tables(self, reader: LakeReader, rules: Rules, before: Rules, asked: Any) -> Sequence[Table]:
        """See StageReadiness. Chains are paired only if there is one of each version."""
        return [change_table(changes(reader, before[0], rules[0], asked))] if len(rules) == len(before) == 1 else []

    def compared(self, reader: LakeReader, verdicts: Mapping[str, Path]) -> Sequence[Table]:
        """See StageReadiness: conditions against policies."""
        own, policies = verdicts.get(NAME), verdicts.get(POLICIES)
        return [matrix_table(matrix(reader, own, policies))] if own is not None and policies is not None else []

    def places(self, rules: Rules) -> Sequence[Place]:
        """See StageReadiness."""
        return [Place(each.name, each.source) for each in rules]
