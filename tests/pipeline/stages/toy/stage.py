"""A toy stage, written as docs/stages.md says: a ReadBudget refuses lists that ask for more objects than it allows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipeline.explaining.asked import Asked as About
from pipeline.manifests.documents import Document
from pipeline.manifests.fields import Fields
from pipeline.row import Row
from pipeline.runs.plan import PlannedRule
from pipeline.runs.verdict import Flip
from pipeline.stages.grouped import GroupedPlan, GroupedStage, Judging
from pipeline.stages.readiness import StageReadiness, StageWords
from pipeline.stages.stage import Asked, Kind
from queries import LakeReader

BUDGET = Kind("toy.example.com", "ReadBudget")


@dataclass(frozen=True)
class Budget:
    """At most `limit` objects per list of a resource."""

    name: str
    resource: str
    limit: int


def ruling(budget: Budget, asked: int | None, recorded: str) -> Row:
    """The verdict of one budget on one list."""
    denied = asked is None or asked > budget.limit
    decision = "deny" if denied else "admit"
    flip = Flip.SAME if decision == recorded else Flip.NEWLY_DENIED if denied else Flip.NEWLY_ALLOWED
    message = f"a list of {budget.resource} may have {budget.limit} objects" if denied else None
    code, rule = 403 if denied else None, f"ReadBudget/{budget.name}/spec.limit"
    whole = (budget.name, None, None, None, None)  # neither a binding, nor a param, nor an expression
    said = (decision, decision, message, None, code, None, "exact")
    return Row(*whole, *said, [], [], False, "toy", rule, recorded, flip)


@dataclass(frozen=True)
class Reasons:
    """An explanation in own words."""

    budgets: tuple[Budget, ...]

    def data(self) -> dict[str, Any]:
        """See InOwnWords."""
        return {"limits": {each.resource: each.limit for each in self.budgets}}

    def lines(self) -> Iterator[str]:
        """See InOwnWords."""
        yield from (f"a list of {each.resource} may have {each.limit} objects" for each in self.budgets)


class ToyReadiness(StageReadiness[tuple[Budget, ...], Any]):
    """See StageReadiness."""

    words = StageWords("budgets", "Budget readiness", "ReadBudget", thing="budget")

    def explain(self, reader: LakeReader, rules: tuple[Budget, ...] | None, asked: About) -> Sequence[Reasons]:
        """See StageReadiness. The log shows no budgets."""
        return [Reasons(rules or ())]


class Toy(GroupedStage[tuple[Budget, ...]]):
    """See stage.Stage."""

    name = "toy"
    kinds = frozenset({BUDGET})
    readiness = ToyReadiness()

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
    ) -> tuple[Sequence[PlannedRule], int, Mapping[str, int]]:
        """See GroupedStage."""
        counts = dict(reader.sql("SELECT resource, count(*) FROM requests WHERE verb = 'list' GROUP BY resource").fetchall())
        found = [PlannedRule(each.name, None, (), counts.get(each.resource, 0)) for each in rules]
        return found, sum(each.requests for each in found), {}

    def judging(self, reader: LakeReader, plan: GroupedPlan[tuple[Budget, ...]]) -> Lists:
        """See GroupedStage."""
        return Lists(plan.rules)


class Lists(Judging):
    """See Judging. All requests for a list of one length ask the same question."""

    asks = True

    def __init__(self, budgets: tuple[Budget, ...]) -> None:
        self._budgets = budgets

    def questions(self) -> str:
        """See Judging."""
        names = ", ".join(f"'{each.resource}'" for each in self._budgets)
        return (
            "SELECT cluster, audit_id, ts, stage_ts, 0 AS pass, {resource: resource, admitted: code < 400, "
            "asked: TRY_CAST(nullif(regexp_extract(request_uri, '[?&]limit=([0-9]+)', 1), '') AS INTEGER)} AS question "
            f"FROM requests WHERE verb = 'list' AND resource IN ({names})"
        )

    def answer(self, question: Mapping[str, Any]) -> Sequence[Row]:
        """See Judging."""
        recorded = "admit" if question["admitted"] else "deny"
        return [ruling(each, question["asked"], recorded) for each in self._budgets if each.resource == question["resource"]]
