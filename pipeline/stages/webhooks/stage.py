"""The stage of webhooks: given configurations over recorded requests. See the package for what it decides."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from enum import Enum
from functools import partial
from typing import Any, TypeAlias

import pyarrow as pa

from queries import LakeReader

from ...authorization import OtherAuthorizers
from ...manifests.documents import Document
from ...replay.authorizers import other_authorizers
from ...runs.verdict import Row, Verdict
from ..grouped import GroupedPlan, GroupedStage, Judge, PlannedGroup, as_json
from ..in_force import GivenChain
from ..shares import JudgedShare, Share, in_shares
from ..stage import Asked, Kind
from .calling import Call
from .decode import configurations_of
from .model import GROUP, Chain, Configuration, Phase
from .readiness import WebhookReadiness
from .sql import statement
from .trace import Trace
from .verdicts import NAME, recorded_of, row_of
from .walk import Walk

# Fewer requests are judged before another process has started.
_RECORDS_MIN = 10_000


class AsRecorded(Enum):
    """In place of configurations: each request meets those that the log shows in force at its time."""

    RULES = "as recorded"


Rules: TypeAlias = tuple[Configuration, ...] | AsRecorded


@dataclasses.dataclass(frozen=True, slots=True)
class WebhookVerdict:
    """The verdict of one webhook on one pass of a request."""

    row: Row


class Webhooks(GroupedStage[Rules]):
    """See stage.Stage. It says which webhooks are called; what they would answer is not known."""

    def __init__(self) -> None:
        # The answers that `passes` found, by reader, until `judge` takes them.
        self._answers: dict[int, _Answers] = {}

    name = NAME
    kinds = frozenset(Kind(GROUP, phase.kind) for phase in Phase)
    readiness = WebhookReadiness()

    def read(self, documents: Sequence[Document]) -> Rules:
        """See stage.Stage."""
        return configurations_of(documents)

    def uses(self, rules: Rules, document: Document) -> bool:
        """See stage.Stage."""
        return False

    def describe(self, rules: Rules) -> Any:
        """See GroupedStage."""
        return rules.value if isinstance(rules, AsRecorded) else as_json(rules)

    def groups(self, reader: LakeReader, rules: Rules, asked: Asked) -> tuple[Sequence[PlannedGroup], int, Mapping[str, int]]:
        """See GroupedStage."""
        walk = Walk(reader, asked.window, _chains(rules, asked.kubernetes_version), asked.kubernetes_version, is_plan=True)
        counts: Counter[tuple[str, str]] = Counter()
        for item in walk.classes:
            hooks = {hook for chain in walk.chains.every for target in item.targets() for hook in chain.candidates(target)}
            counts.update(dict.fromkeys(((hook.configuration, hook.webhook.name) for hook in hooks), item.requests))
        names = dict.fromkeys((hook.configuration, hook.webhook.name) for chain in walk.chains.every for hook in chain.webhooks)
        found = [PlannedGroup(configuration, name, (), counts[configuration, name]) for configuration, name in names]
        return found, walk.requests, walk.excluded

    def others(self, reader: LakeReader, asked: Asked) -> tuple[tuple[str, OtherAuthorizers], ...]:
        """See GroupedStage."""
        return other_authorizers(reader, asked.window, asked.other_authorizers)

    def passes(self, reader: LakeReader, plan: GroupedPlan[Rules], workers: int) -> str:
        """See GroupedStage. The requests are judged here; the question of a pass is the number of its answer."""
        answers = self._answers[id(reader)] = _Answers()
        walk = _walk(reader, plan)
        plain = [
            (each.number, answers.number(each.calls, each.subject.trace, each.subject.reach.outcome != "allowed"))
            for each in walk.plain()
        ]
        columns: list[pa.Array[Any]] = [pa.array([row[at] for row in plain], pa.int64()) for at in (0, 1)]
        reader.put_table("webhooks_answers", pa.Table.from_arrays(columns, names=["number", "answer"]))
        found = in_shares(judged_share, partial(_judged, walk), reader, plan, min(workers, walk.records // _RECORDS_MIN))
        numbers = [answers.number_of(rows) for rows in found.answers]
        judged = [(*each[:-1], numbers[each[-1]]) for each in found.passes]
        kinds: list[pa.DataType] = [pa.string(), pa.string(), _TIME, _TIME, pa.int32(), pa.int64()]
        columns = [pa.array([row[at] for row in judged], kind) for at, kind in enumerate(kinds)]
        names = ["cluster", "audit_id", "ts", "stage_ts", "pass", "answer"]
        reader.put_table("webhooks_passes", pa.Table.from_arrays(columns, names=names))
        return statement("passes")

    def judge(self, reader: LakeReader, plan: GroupedPlan[Rules]) -> Judge:
        """See GroupedStage."""
        answers = self._answers.pop(id(reader))
        return lambda question: answers.verdicts(question["answer"])


def judged_share(reader: LakeReader, plan: GroupedPlan[Rules], share: Share) -> JudgedShare:
    """The verdicts on the requests of a share that are judged by their own records."""
    return _judged(_walk(reader, plan), share)


def _walk(reader: LakeReader, plan: GroupedPlan[Rules]) -> Walk:
    chains = _chains(plan.rules, plan.kubernetes_version)
    return Walk(reader, plan.window, chains, plan.kubernetes_version, dict(plan.other_authorizers))


def _judged(walk: Walk, share: Share) -> JudgedShare:
    answers = _Answers()
    passes = [(*each[:5], answers.number(each.calls, each.trace, each.event.code >= 400)) for each in walk.by_record(share)]
    return JudgedShare(passes, answers.rows)


_TIME = pa.timestamp("us", "UTC")


def _chains(rules: Rules, version: tuple[int, int]) -> GivenChain[Chain] | None:
    return None if isinstance(rules, AsRecorded) else GivenChain(Chain(rules, version))


class _Answers:
    """The distinct answers to requests, by number: many requests get equal verdicts."""

    def __init__(self) -> None:
        self._by_call: dict[tuple[Hashable, ...], WebhookVerdict] = {}
        self._verdicts: dict[str, WebhookVerdict] = {}
        self._numbers: dict[tuple[int, ...], int] = {}
        self._answers: list[tuple[WebhookVerdict, ...]] = []

    @property
    def rows(self) -> list[tuple[Row, ...]]:
        """The verdicts of each answer, by number."""
        return [tuple(each.row for each in found) for found in self._answers]

    def number_of(self, rows: Sequence[Row]) -> int:
        """The number of verdicts with these rows."""
        return self._numbered(tuple(self._verdicts.setdefault(repr(row), WebhookVerdict(row)) for row in rows))

    def number(self, calls: Sequence[Call], trace: Trace, was_refused: bool) -> int:
        """The number of the verdicts on these calls."""
        return self._numbered(tuple(self._verdict(call, trace, was_refused) for call in calls))

    def _numbered(self, found: tuple[WebhookVerdict, ...]) -> int:
        key = tuple(map(id, found))
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._answers)
            self._answers.append(found)
        return number

    def verdicts(self, number: int) -> Sequence[Verdict]:
        """The verdicts with a number."""
        return self._answers[number]

    def _verdict(self, call: Call, trace: Trace, was_refused: bool) -> WebhookVerdict:
        hook = call.hook
        recorded = recorded_of(call, trace)
        # The place of a webhook is quicker to hash than the webhook.
        told = trace.would_deny.get(hook.webhook.name, "")
        key = (hook.phase, hook.place, hook.webhook.name, *call[1:], recorded, told, was_refused)
        found = self._by_call.get(key)
        if found is None:
            row = row_of(call, recorded, told, was_refused)
            found = self._by_call[key] = self._verdicts.setdefault(repr(row), WebhookVerdict(row))
        return found
