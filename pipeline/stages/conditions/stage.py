"""The stage of conditional authorization: a chain of authorizers over recorded requests. See the package for what it simulates."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from queries import LakeReader

from ...manifests.documents import Document
from ...runs.verdict import Row, Verdict
from ..grouped import GroupedPlan, GroupedStage, Judge, PlannedGroup
from ..stage import Asked, Kind
from .chain import Chain
from .compiled import Asked as AskedChain
from .compiled import CompiledChain
from .decode import GROUP, KIND, chains_of
from .judging import Judging, Question, Timed, is_about, known_to, question_of
from .known import KnownObjects
from .logic.proof import Prover
from .logic.solver import require_z3
from .rbac import RbacAnswers
from .readiness import ConditionsReadiness
from .reviews import REVIEW_GROUP, REVIEW_KINDS
from .ruling import NAME, Ruling, row_of
from .spending import RunBudget
from .sql import statement
from .writes import Writes

Rules = tuple[Chain, ...]
_OTHER_QUESTION = "no given review is about this request"
_TIME = pa.timestamp("us", "UTC")


@dataclasses.dataclass(frozen=True, slots=True)
class ChainVerdict:
    """The verdict of one chain on one pass of a request."""

    row: Row


class Conditions(GroupedStage[Rules]):
    """See stage.Stage. A chain answers every request; a review only those that ask its question."""

    name = NAME
    readiness = ConditionsReadiness()
    kinds = frozenset({Kind(GROUP, KIND), *(Kind(REVIEW_GROUP, kind) for kind in REVIEW_KINDS)})

    def __init__(self) -> None:
        # The answers that `passes` found, by reader, until `judge` takes them.
        self._answers: dict[int, _Answers] = {}

    def read(self, documents: Sequence[Document]) -> Rules:
        """See stage.Stage."""
        require_z3()
        return chains_of(documents)

    def uses(self, rules: Rules, document: Document) -> bool:
        """See stage.Stage."""
        return False

    def describe(self, rules: Rules) -> Any:
        """See GroupedStage."""
        return [_plain(each) for each in rules]

    def groups(self, reader: LakeReader, rules: Rules, asked: Asked) -> tuple[Sequence[PlannedGroup], int, Mapping[str, int]]:
        """See GroupedStage."""
        counts: Counter[str] = Counter()
        judged = left = 0
        for _, question, requests in _questions(reader, asked.window.parameters):
            own = [chain.name for chain in rules if is_about(chain, question)]
            counts.update(dict.fromkeys(own, requests))
            judged, left = (judged + requests, left) if own else (judged, left + requests)
        found = [PlannedGroup(chain.name, None, ("Deny",), counts[chain.name]) for chain in rules]
        return found, judged, {_OTHER_QUESTION: left} if left else {}

    def passes(self, reader: LakeReader, plan: GroupedPlan[Rules], workers: int) -> str:
        """See GroupedStage. The requests are judged here; the question of a pass is the number of its answer."""
        answers = self._answers[id(reader)] = _Answers()
        questions = {number: question for number, question, _ in _questions(reader, plan.window.parameters)}
        budget, prover = RunBudget(len(questions)), Prover(questions=len(questions))
        compiled = [CompiledChain(chain, plan.kubernetes_version, budget) for chain in plan.rules]
        known = KnownObjects(reader, plan.window, frozenset().union(*(each.paths for each in compiled)))
        rbac = RbacAnswers(reader, plan.window)
        rows: list[tuple[Any, ...]] = []
        for each in compiled:
            rows += _judged(reader, plan, Judging(each, known, prover), questions, rbac, answers)
        kinds: list[pa.DataType] = [pa.string(), pa.string(), _TIME, _TIME, pa.int32(), pa.int64()]
        names = ["cluster", "audit_id", "ts", "stage_ts", "pass", "answer"]
        columns: list[pa.Array[Any]] = [pa.array([row[at] for row in rows], kind) for at, kind in enumerate(kinds)]
        reader.put_table("conditions_passes", pa.Table.from_arrays(columns, names=names))
        return statement("passes")

    def judge(self, reader: LakeReader, plan: GroupedPlan[Rules]) -> Judge:
        """See GroupedStage."""
        answers = self._answers.pop(id(reader))
        return lambda question: [answers.verdict(number) for number in question["answers"]]


class _Answers:
    """The distinct verdicts, by number: many requests get equal ones."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._verdicts: list[ChainVerdict] = []

    def number(self, chain: Chain, ruling: Ruling, question: Question) -> int:
        """The number of the verdict with this ruling."""
        row = row_of(chain, known_to(question, ruling), question.info, question.user.username, question.recorded)
        number = self._numbers.setdefault(repr(row), len(self._verdicts))
        if number == len(self._verdicts):
            self._verdicts.append(ChainVerdict(row))
        return number

    def verdict(self, number: int) -> Verdict:
        """The verdict with a number."""
        return self._verdicts[number]


class _Found(NamedTuple):
    """The answers to the questions of one chain, by how they come about."""

    settled: Mapping[int, int]
    timed: Mapping[int, Timed]
    written: Mapping[int, AskedChain]


def _judged(
    reader: LakeReader,
    plan: GroupedPlan[Rules],
    judging: Judging,
    questions: Mapping[int, Question],
    rbac: RbacAnswers,
    answers: _Answers,
) -> list[tuple[Any, ...]]:
    """The passes of all requests that a chain is about, with the numbers of their answers."""
    chain = judging.chain
    settled: dict[int, int] = {}
    timed: dict[int, Timed] = {}
    written: dict[int, AskedChain] = {}
    for number, question in questions.items():
        if not is_about(chain, question):
            continue
        found = judging.answer(question, rbac.answer)
        if isinstance(found, Ruling):
            settled[number] = answers.number(chain, found, question)
        elif isinstance(found, Timed):
            timed[number] = found
        else:
            written[number] = found.asked
    rows = [(*place, 0, settled[number]) for number, *place in _requests(reader, settled)]
    spans: dict[tuple[int, int], int] = {}
    for number, *place in _requests(reader, timed):
        span = timed[number].at(place[2])
        if (number, span) not in spans:
            spans[number, span] = answers.number(chain, timed[number].ruling(span), questions[number])
        rows.append((*place, 0, spans[number, span]))
    if written:
        reader.put_table("conditions_written", _numbers(written))
        for each in Writes(reader, plan.window, written).passes():
            answer = answers.number(chain, each.ruling, questions[each.question])
            rows.append((each.cluster, each.audit_id, each.ts, each.stage_ts, each.number, answer))
    return rows


def _requests(reader: LakeReader, questions: Iterable[int]) -> Iterable[tuple[Any, ...]]:
    """The requests of some questions: (number, cluster, audit_id, ts, stage_ts)."""
    reader.put_table("conditions_timed", _numbers(questions))
    for batch in reader.sql(statement("requests")).to_arrow_reader(4096):
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


def _questions(reader: LakeReader, window: Mapping[str, Any]) -> list[tuple[int, Question, int]]:
    """The distinct questions of a window, with their numbers and how many requests ask each."""
    reader.connection.execute(statement("asked"), dict(window))
    reader.connection.execute(statement("questions"))
    rows = reader.arrow("FROM conditions_questions ORDER BY number").to_pylist()
    return [(row["number"], question_of(row), row["requests"]) for row in rows]


def _numbers(questions: Iterable[int]) -> pa.Table:
    return pa.Table.from_arrays([pa.array(sorted(questions), pa.int64())], names=["number"])


def _plain(value: Any) -> Any:
    """A chain as JSON values, without its places in files, which do not change its meaning."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {each.name: _plain(getattr(value, each.name)) for each in dataclasses.fields(value) if each.name != "source"}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, (set, frozenset)):
        return sorted((_plain(item) for item in value), key=repr)
    return value
