"""The stage of webhooks: given configurations over recorded requests. See the package for what it decides."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from enum import Enum
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa

from queries import LakeReader

from ...admission.policies.model import FailurePolicy
from ...authorization import OtherAuthorizers
from ...manifests.documents import Document
from ...matching import Conversion
from ...request import Unknown
from ..authorization.stage import other_authorizers
from ..grouped import GroupedPlan, GroupedStage, Judge, PlannedGroup, as_json
from ..in_force import GivenChain
from ..stage import Asked, Kind
from ..verdict import Flip, Row, Verdict
from .calling import Call, Called
from .decode import configurations_of
from .model import GROUP, Chain, Configuration, Phase
from .readiness import WebhookReadiness
from .sql import statement
from .trace import Trace
from .walk import Walk

NAME = "webhooks"


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
        walk = Walk(reader, asked.window, _chains(rules, asked.kubernetes_version), asked.kubernetes_version)
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

    def passes(self, reader: LakeReader, plan: GroupedPlan[Rules]) -> str:
        """See GroupedStage. The requests are judged here; the question of a pass is the number of its answer."""
        answers = self._answers[id(reader)] = _Answers()
        chains = _chains(plan.rules, plan.kubernetes_version)
        walk = Walk(reader, plan.window, chains, plan.kubernetes_version, dict(plan.other_authorizers))
        plain = [
            (each.number, answers.number(each.calls, each.subject.trace, each.subject.reach.outcome != "allowed"))
            for each in walk.plain()
        ]
        columns: list[pa.Array[Any]] = [pa.array([row[at] for row in plain], pa.int64()) for at in (0, 1)]
        reader.put_table("webhooks_answers", pa.Table.from_arrays(columns, names=["number", "answer"]))
        judged = [(*each[:5], answers.number(each.calls, each.trace, each.event.code >= 400)) for each in walk.by_record()]
        kinds: list[pa.DataType] = [pa.string(), pa.string(), _TIME, _TIME, pa.int32(), pa.int64()]
        columns = [pa.array([row[at] for row in judged], kind) for at, kind in enumerate(kinds)]
        names = ["cluster", "audit_id", "ts", "stage_ts", "pass", "answer"]
        reader.put_table("webhooks_passes", pa.Table.from_arrays(columns, names=names))
        return statement("passes")

    def judge(self, reader: LakeReader, plan: GroupedPlan[Rules]) -> Judge:
        """See GroupedStage."""
        answers = self._answers.pop(id(reader))
        return lambda question: answers.verdicts(question["answer"])


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
        hook = call.hook
        recorded = trace.of(hook.phase, hook.configuration, hook.webhook.name) or ("admitted" if call.has_admitted else None)
        if call.is_namesake and hook.phase is Phase.VALIDATING:
            recorded = None  # a refusal names the webhook alone, and was that of another configuration
        # The place of a webhook is quicker to hash than the webhook.
        told = trace.would_deny.get(hook.webhook.name, "")
        key = (hook.phase, hook.place, hook.webhook.name, *call[1:], recorded, told, was_refused)
        found = self._by_call.get(key)
        if found is None:
            row = _row(call, recorded, told, was_refused)
            found = self._by_call[key] = self._verdicts.setdefault(repr(row), WebhookVerdict(row))
        return found


def _row(call: Call, recorded: str | None, told: str, was_refused: bool) -> Row:
    hook = call.hook
    denial = _denial(call, recorded, told, was_refused)
    effect = "deny" if denial else "admit" if call.decision is Called.ERROR else None
    return Row(
        policy=hook.configuration,
        binding=hook.webhook.name,
        param_namespace=None,
        param_name=None,
        expression_index=None,
        decision=str(call.decision),
        effect=effect,
        message=denial.message or None if denial else None,
        reason=None,
        code=denial.code if denial else None,
        why=call.why or None,
        evidence=str(call.evidence),
        actions=[],
        audit_annotations=[],
        bypasses_actions=bool(denial),
        stage=NAME,
        rule_ref=hook.rule_ref,
        recorded=recorded,
        flip=_flip(call, recorded, bool(denial), was_refused),
        detail=json.dumps(_detail(call, recorded, was_refused), sort_keys=True),
    )


class _Denial(NamedTuple):
    """How a request ends because of a webhook, in the words of the server. `code` is None where only the webhook knows it."""

    message: str
    code: int | None


def _denial(call: Call, recorded: str | None, told: str, was_refused: bool) -> _Denial | None:
    """The end of a request that it did not have in the record, or that comes without a call; None without one.

    A call that failed open is refused under failurePolicy Fail. A webhook that noted that it would deny is taken at its word.
    """
    hook = call.hook
    if call.decision is Called.ERROR and call.code is not None:
        return _Denial(call.message, call.code)
    if call.decision is not Called.CALLED or was_refused:
        return None
    if recorded == "failed open" and hook.webhook.failure_policy is FailurePolicy.FAIL:
        return _Denial(f'Internal error occurred: failed calling webhook "{hook.webhook.name}"', 500)
    if recorded == "would deny":
        return _Denial(f'admission webhook "{hook.webhook.name}" denied the request: {told}', None)
    return None


def _flip(call: Call, recorded: str | None, is_denied: bool, was_refused: bool) -> str | None:
    """How the call differs from the record; None where the record cannot tell, because an admitting webhook may leave no trace."""
    if is_denied:
        return str(Flip.STILL_DENIED if was_refused else Flip.NEWLY_DENIED)
    match call.decision:
        case Called.UNKNOWN:
            return str(Flip.UNKNOWN)
        case Called.CALLED if recorded == "failed closed" and call.hook.webhook.failure_policy is FailurePolicy.IGNORE:
            return str(Flip.NEWLY_ALLOWED)
        case Called.CALLED if recorded:
            return str(Flip.SAME)
        case Called.NOMATCH if recorded in ("denied", "failed closed"):
            return str(Flip.NEWLY_ALLOWED)
    return None


def _detail(call: Call, recorded: str | None, was_refused: bool) -> dict[str, Any]:
    """What only this stage has: the phase, the calls, and under which resource a rule found the request."""
    second = call.second
    detail: dict[str, Any] = {"phase": str(call.hook.phase)}
    if was_refused:
        detail["refused"] = True
    if call.decision is Called.CALLED:
        detail["calls"] = 2 if second is True else 1
        if recorded is None and call.unanswered:
            detail["unanswered"] = call.unanswered
    if isinstance(second, Unknown):
        detail["second_round"] = f"unknown: {second.reason}"
    if call.conversion is not Conversion.NONE and call.resource is not None:
        detail["sent_as"] = f"{call.resource.resource}.{call.resource.version}.{call.resource.group}".rstrip(".")
    return detail
