"""What commands need to know of the chain."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from queries import LakeReader

from ...explaining.asked import Asked
from ...explaining.explanation import Told
from ...policies.refusing import refused_expressions
from ...tables import Column, Table
from ..grouped import GroupedPlan
from ..mutating.readiness import MutatingReadiness
from ..mutating.taken import UNCHECKED
from ..readiness import StageReadiness, StageWords
from .explain import explain_chain
from .rules import ChainRules
from .sql import statement

_NOTES = (
    "the first refusal is the answer; without one, changed and same are answers of the requests that pass",
    "not replayed: what webhooks answer to a changed object, what the store says of it, and fields that no rule knows",
)
_UNVALIDATED = ("the answers to these requests are unknown: the validation of the server may refuse the fields",)


class ChainReadiness(StageReadiness[ChainRules, GroupedPlan[ChainRules]]):
    """See StageReadiness."""

    words = StageWords("manifests together", "Readiness of manifests together", "any manifests of admission")

    def uncompilable(self, rules: ChainRules, version: tuple[int, int]) -> Sequence[tuple[str, str]]:
        """See StageReadiness."""
        found = [each for policy in rules.mutating.later.policies for each in refused_expressions(policy, version, list)]
        mutations = MutatingReadiness().uncompilable(rules.mutating, version)
        return [*mutations, *((each.source, each.error) for each in found)]

    def explain(self, reader: LakeReader, rules: ChainRules | None, asked: Asked) -> Sequence[Told] | None:
        """See StageReadiness: the chain is explained under given manifests alone."""
        return explain_chain(reader, rules, asked) if rules is not None else None

    def tables(self, reader: LakeReader, title: str, verdicts: Path) -> Sequence[Table]:
        """See StageReadiness: the answers against the record, and what changes in stored objects."""
        answers = [
            Column("answer", "AGAINST THE RECORD"), Column("requests", number=True), Column("by", "DECIDED BY", may_shorten=True),
            Column("code", number=True), Column("message", "FOR INSTANCE", prose=True), Column("example", "AUDIT ID", wide=True),
        ]  # fmt: skip
        changed = [
            Column("op"), Column("path"), Column("requests", number=True), Column("before", wide=True, prose=True),
            Column("after", prose=True), Column("example", "AUDIT ID", wide=True),
        ]  # fmt: skip
        found = reader.connection.execute(statement("answers"), {"verdicts": str(verdicts)}).fetchall()
        rows = [[answer, count, by, code, message or why, example] for answer, by, code, why, count, example, message in found]
        tables = [Table("answers", answers, rows, title, _NOTES)]
        if paths := reader.connection.execute(statement("changed"), {"verdicts": str(verdicts)}).fetchall():
            tables.append(Table("changes", changed, list(map(list, paths)), "What changes in stored objects"))
        return [*tables, *_unvalidated(reader, verdicts)]


def _unvalidated(reader: LakeReader, verdicts: Path) -> Iterator[Table]:
    """The changed fields that no rule of the validation knows."""
    found = reader.connection.execute(statement("unvalidated"), {"verdicts": str(verdicts), "doubt": f": {UNCHECKED}"}).fetchall()
    columns = [Column("resource"), Column("path"), Column("requests", number=True), Column("example", "AUDIT ID", wide=True)]
    if found:
        yield Table("unvalidated", columns, list(map(list, found)), "Changed fields that Hindcast does not validate", _UNVALIDATED)
