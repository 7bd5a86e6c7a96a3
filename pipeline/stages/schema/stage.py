"""The stage of schemas: recorded writes of custom resources under given CustomResourceDefinitions."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from queries import LakeReader

from ...manifests.documents import Document
from ...runs.verdict import Row, Verdict
from ..grouped import GroupedPlan, GroupedStage, Judge, PlannedGroup
from ..stage import Asked, Kind
from .definition import GROUP, KIND
from .readiness import SchemaReadiness
from .replay.definitions import Given, given_of, served_of
from .replay.rows import NAME, row_of
from .replay.walk import Walk
from .sql import statement

_TIME: Final = pa.timestamp("us", "UTC")


@dataclasses.dataclass(frozen=True, slots=True)
class SchemaVerdict:
    """The verdict of one definition on one request."""

    row: Row


class Schemas(GroupedStage[Given]):
    """See stage.Stage. Requests differ in their bodies, so that each is judged by itself."""

    name = NAME
    kinds = frozenset({Kind(GROUP, KIND)})
    readiness = SchemaReadiness()

    def __init__(self) -> None:
        # The verdicts that `passes` found, by reader, until `judge` takes them.
        self._answers: dict[int, list[SchemaVerdict]] = {}

    def read(self, documents: Sequence[Document]) -> Given:
        """See stage.Stage."""
        return given_of(documents)

    def uses(self, rules: Given, document: Document) -> bool:
        """See stage.Stage."""
        return False

    def describe(self, rules: Given) -> Any:
        """See GroupedStage."""
        return rules.described()

    def plan(self, reader: LakeReader, rules: Given, asked: Asked) -> GroupedPlan[Given]:
        """See stage.Stage."""
        plan = super().plan(reader, rules, asked)
        if not asked.with_objects:
            return plan
        return dataclasses.replace(plan, document={"definitions": plan.document, "with_objects": True})

    def groups(self, reader: LakeReader, rules: Given, asked: Asked) -> tuple[Sequence[PlannedGroup], int, Mapping[str, int]]:
        """See GroupedStage."""
        walk = _walk(reader, rules, asked.window, asked.kubernetes_version)
        names = served_of(rules.definitions, asked.kubernetes_version)
        return [PlannedGroup(name, None, (), walk.requests_of(name)) for name in names], walk.requests, {}

    def passes(self, reader: LakeReader, plan: GroupedPlan[Given], workers: int) -> str:
        """See GroupedStage. The requests are judged here; the question of a pass is the number of its answer."""
        numbers: dict[str, int] = {}
        answers: list[SchemaVerdict] = []
        rows: list[tuple[Any, ...]] = []
        with_objects = isinstance(plan.document, dict)
        for each in _walk(reader, plan.rules, plan.window, plan.kubernetes_version).judged():
            row = row_of(each, with_objects)
            number = numbers.setdefault(repr(row), len(answers))
            if number == len(answers):
                answers.append(SchemaVerdict(row))
            event = each.event
            rows.append((event.cluster, event.audit_id, event.ts, event.stage_ts, number))
        self._answers[id(reader)] = answers
        kinds: list[pa.DataType] = [pa.string(), pa.string(), _TIME, _TIME, pa.int64()]
        columns = [pa.array([row[at] for row in rows], kind) for at, kind in enumerate(kinds)]
        table = pa.Table.from_arrays(columns, names=["cluster", "audit_id", "ts", "stage_ts", "answer"])
        reader.put_table("schema_passes", table)
        return statement("passes")

    def judge(self, reader: LakeReader, plan: GroupedPlan[Given]) -> Judge:
        """See GroupedStage."""
        answers = self._answers.pop(id(reader))

        def verdicts(question: Mapping[str, Any]) -> Sequence[Verdict]:
            return (answers[question["answer"]],)

        return verdicts


def _walk(reader: LakeReader, rules: Given, window: Any, version: tuple[int, int]) -> Walk:
    return Walk(reader, window, served_of(rules.definitions, version), served_of(rules.before, version), version)
