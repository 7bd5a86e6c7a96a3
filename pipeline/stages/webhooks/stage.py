"""The stage of webhooks: given configurations over recorded requests. See the package for what it decides."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from queries import LakeReader

from ...authorization import OtherAuthorizers
from ...manifests.documents import Document
from ...matching import Conversion
from ...request import Unknown
from ..authorization.stage import other_authorizers
from ..grouped import GroupedPlan, GroupedStage, Judge, PlannedGroup
from ..stage import Asked, Kind
from ..verdict import Flip, Row, Verdict
from .calling import Call, Called
from .decode import configurations_of
from .model import GROUP, Chain, Configuration, Phase
from .recorded import GivenChain
from .sql import statement
from .trace import Trace, trace_of
from .walk import Walk, register

NAME = "webhooks"
Rules = tuple[Configuration, ...]


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

    def read(self, documents: Sequence[Document]) -> Rules:
        """See stage.Stage."""
        return configurations_of(documents)

    def uses(self, rules: Rules, document: Document) -> bool:
        """See stage.Stage."""
        return False

    def describe(self, rules: Rules) -> Any:
        """See GroupedStage."""
        return [_plain(each) for each in rules]

    def groups(self, reader: LakeReader, rules: Rules, asked: Asked) -> tuple[Sequence[PlannedGroup], int, Mapping[str, int]]:
        """See GroupedStage."""
        chain = Chain(rules, asked.kubernetes_version)
        walk = Walk(reader, asked.window, GivenChain(chain), asked.kubernetes_version)
        counts: Counter[tuple[str, str]] = Counter()
        for item in walk.classes:
            hooks = {hook for target in item.targets() for hook in chain.candidates(target)}
            counts.update(dict.fromkeys(((hook.configuration, hook.webhook.name) for hook in hooks), item.requests))
        names = ((hook.configuration, hook.webhook.name) for hook in chain.webhooks)
        found = [PlannedGroup(configuration, name, (), counts[configuration, name]) for configuration, name in names]
        return found, walk.requests, walk.excluded

    def others(self, reader: LakeReader, asked: Asked) -> tuple[tuple[str, OtherAuthorizers], ...]:
        """See GroupedStage."""
        return other_authorizers(reader, asked.window, asked.other_authorizers)

    def passes(self, reader: LakeReader, plan: GroupedPlan[Rules]) -> str:
        """See GroupedStage. The requests are judged here; the question of a pass is the number of its answer."""
        answers = self._answers[id(reader)] = _Answers()
        chain = Chain(plan.rules, plan.kubernetes_version)
        walk = Walk(reader, plan.window, GivenChain(chain), plan.kubernetes_version, dict(plan.other_authorizers))
        plain = [
            (each.number, answers.number(each.calls, each.subject.trace, each.subject.reach.outcome != "allowed"))
            for each in walk.plain()
        ]
        columns: list[pa.Array[Any]] = [pa.array([row[at] for row in plain], pa.int64()) for at in (0, 1)]
        register(reader, "webhooks_answers", pa.Table.from_arrays(columns, names=["number", "answer"]))
        judged = [
            (*each[:5], answers.number(each.calls, trace_of(each.event.annotations, each.event.message), each.event.code >= 400))
            for each in walk.by_record()
        ]
        kinds: list[pa.DataType] = [pa.string(), pa.string(), _TIME, _TIME, pa.int32(), pa.int64()]
        columns = [pa.array([row[at] for row in judged], kind) for at, kind in enumerate(kinds)]
        names = ["cluster", "audit_id", "ts", "stage_ts", "pass", "answer"]
        register(reader, "webhooks_passes", pa.Table.from_arrays(columns, names=names))
        return statement("passes")

    def judge(self, reader: LakeReader, plan: GroupedPlan[Rules]) -> Judge:
        """See GroupedStage."""
        answers = self._answers.pop(id(reader))
        return lambda question: answers.verdicts(question["answer"])


_TIME = pa.timestamp("us", "UTC")


class _Answers:
    """The distinct answers to requests, by number: many requests get equal verdicts."""

    def __init__(self) -> None:
        self._verdicts: dict[str, WebhookVerdict] = {}
        self._numbers: dict[tuple[int, ...], int] = {}
        self._answers: list[tuple[WebhookVerdict, ...]] = []

    def number(self, calls: Sequence[Call], trace: Trace, was_refused: bool) -> int:
        """The number of the verdicts on these calls."""
        found = tuple(self._verdict(call, trace, was_refused) for call in calls)
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
        row = _row(call, trace, was_refused)
        return self._verdicts.setdefault(repr(row), WebhookVerdict(row))


def _row(call: Call, trace: Trace, was_refused: bool) -> Row:
    hook = call.hook
    recorded = trace.of(hook.phase, hook.configuration, hook.webhook.name)
    rejects = call.decision is Called.ERROR and call.code is not None
    effect = None if call.decision is not Called.ERROR else "deny" if rejects else "admit"
    return Row(
        policy=hook.configuration,
        binding=hook.webhook.name,
        param_namespace=None,
        param_name=None,
        expression_index=None,
        decision=str(call.decision),
        effect=effect,
        message=call.message or None,
        reason=None,
        code=call.code,
        why=call.why or None,
        evidence=str(call.evidence),
        actions=[],
        audit_annotations=[],
        bypasses_actions=rejects,
        stage=NAME,
        rule_ref=hook.rule_ref,
        recorded=recorded,
        flip=_flip(call, recorded, was_refused),
        detail=json.dumps(_detail(call), sort_keys=True),
    )


def _flip(call: Call, recorded: str | None, was_refused: bool) -> str | None:
    """How the call differs from the record; None where the record cannot tell, because an admitting webhook may leave no trace."""
    match call.decision:
        case Called.UNKNOWN:
            return str(Flip.UNKNOWN)
        case Called.CALLED if recorded:
            return str(Flip.SAME)
        case Called.ERROR if call.code is not None:
            return str(Flip.STILL_DENIED if was_refused else Flip.NEWLY_DENIED)
    return None


def _detail(call: Call) -> dict[str, Any]:
    """What only this stage has: the phase, the calls, and under which resource a rule found the request."""
    second = call.second
    detail: dict[str, Any] = {"phase": str(call.hook.phase)}
    if call.decision is Called.CALLED:
        detail["calls"] = 2 if second is True else 1
    if isinstance(second, Unknown):
        detail["second_round"] = f"unknown: {second.reason}"
    if call.conversion is not Conversion.NONE and call.resource is not None:
        detail["sent_as"] = f"{call.resource.resource}.{call.resource.version}.{call.resource.group}".rstrip(".")
    return detail


def _plain(value: Any) -> Any:
    """A configuration as JSON values, without its places in files, which do not change its meaning."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {each.name: _plain(getattr(value, each.name)) for each in dataclasses.fields(value) if each.name != "source"}
    if isinstance(value, (list, tuple, frozenset, set)):
        return [_plain(item) for item in (sorted(value) if isinstance(value, (set, frozenset)) else value)]
    return value
