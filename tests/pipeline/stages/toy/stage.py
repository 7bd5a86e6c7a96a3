"""A toy stage, written as docs/stages.md says: a ReadBudget refuses lists that ask for more objects than it allows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from pipeline.manifests.documents import Document
from pipeline.manifests.fields import Fields
from pipeline.runs.verdict import Flip, Row, Verdict
from pipeline.stages.grouped import GroupedPlan, GroupedStage, Judge, PlannedGroup
from pipeline.stages.stage import Asked, Kind
from queries import LakeReader

BUDGET = Kind("toy.example.com", "ReadBudget")


@dataclass(frozen=True)
class Budget:
    """At most `limit` objects per list of a resource."""

    name: str
    resource: str
    limit: int


class Ruling(NamedTuple):
    """The verdict of one budget on one list."""

    budget: Budget
    asked: int | None
    recorded: str

    @property
    def row(self) -> Row:
        """See Verdict."""
        denied = self.asked is None or self.asked > self.budget.limit
        decision = "deny" if denied else "admit"
        flip = Flip.SAME if decision == self.recorded else Flip.NEWLY_DENIED if denied else Flip.NEWLY_ALLOWED
        message = f"a list of {self.budget.resource} may have {self.budget.limit} objects" if denied else None
        code, rule = 403 if denied else None, f"ReadBudget/{self.budget.name}/spec.limit"
        whole = (self.budget.name, None, None, None, None)  # neither a binding, nor a param, nor an expression
        said = (decision, decision, message, None, code, None, "exact")
        return Row(*whole, *said, [], [], False, "toy", rule, self.recorded, flip)


class Toy(GroupedStage[tuple[Budget, ...]]):
    """See stage.Stage."""

    name = "toy"
    kinds = frozenset({BUDGET})

    def read(self, documents: Sequence[Document]) -> tuple[Budget, ...]:
        """See stage.Stage."""
        found = []
        for document in documents:
            if document.value.get("kind") == BUDGET.kind:
                metadata, spec = Fields(document).object("metadata"), Fields(document).object("spec")
                assert metadata is not None
                assert spec is not None
                found.append(Budget(metadata.text("name"), spec.text("resource"), int(spec.text("limit"))))
        return tuple(found)

    def uses(self, rules: tuple[Budget, ...], document: Document) -> bool:
        """See stage.Stage."""
        return False

    def describe(self, rules: tuple[Budget, ...]) -> Any:
        """See GroupedStage."""
        return [[each.name, each.resource, each.limit] for each in rules]

    def groups(
        self, reader: LakeReader, rules: tuple[Budget, ...], asked: Asked
    ) -> tuple[Sequence[PlannedGroup], int, Mapping[str, int]]:
        """See GroupedStage."""
        counts = dict(reader.sql("SELECT resource, count(*) FROM requests WHERE verb = 'list' GROUP BY resource").fetchall())
        found = [PlannedGroup(each.name, None, (), counts.get(each.resource, 0)) for each in rules]
        return found, sum(each.requests for each in found), {}

    def passes(self, reader: LakeReader, plan: GroupedPlan[tuple[Budget, ...]], workers: int) -> str:
        """See GroupedStage."""
        names = ", ".join(f"'{each.resource}'" for each in plan.rules)
        return (
            "SELECT cluster, audit_id, ts, stage_ts, 0 AS pass, {resource: resource, admitted: code < 400, "
            "asked: TRY_CAST(nullif(regexp_extract(request_uri, '[?&]limit=([0-9]+)', 1), '') AS INTEGER)} AS question "
            f"FROM requests WHERE verb = 'list' AND resource IN ({names})"
        )

    def judge(self, reader: LakeReader, plan: GroupedPlan[tuple[Budget, ...]]) -> Judge:
        """See GroupedStage."""

        def answer(question: Mapping[str, Any]) -> Sequence[Verdict]:
            recorded = "admit" if question["admitted"] else "deny"
            return [Ruling(each, question["asked"], recorded) for each in plan.rules if each.resource == question["resource"]]

        return answer
