"""The stage of conditional authorization: a chain of authorizers over recorded requests. See the package for what it simulates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from queries import LakeReader

from ...manifests.documents import Document
from ...row import Row
from ...runs.plan import PlannedRule, plain
from ...runs.verdicts import JudgedPass, Place
from ..grouped import GroupedPlan, GroupedStage, Judging, Share, shares
from ..stage import Asked, Kind
from .chain import Chain
from .compiled import Asked as AskedChain
from .compiled import CompiledChain
from .decode import GROUP, KIND, chains_of
from .judging import Judging as ChainJudging
from .judging import Question, Timed, is_about, known_to, question_of
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
# Fewer distinct questions are not worth a part of a run: each part compiles the chains.
_QUESTIONS_MIN = 500
_OTHER_QUESTION = "no given review is about this request"


class Conditions(GroupedStage[Rules]):
    """See stage.Stage. A chain answers every request; a review only those that ask its question."""

    name = NAME
    readiness = ConditionsReadiness()
    kinds = frozenset({Kind(GROUP, KIND), *(Kind(REVIEW_GROUP, kind) for kind in REVIEW_KINDS)})

    def read(self, documents: Sequence[Document]) -> Rules:
        """See stage.Stage."""
        require_z3()
        return chains_of(documents)

    def uses(self, rules: Rules, document: Document) -> bool:
        """See stage.Stage."""
        return False

    def describe(self, rules: Rules) -> Any:
        """See GroupedStage."""
        return [plain(each) for each in rules]

    def groups(self, reader: LakeReader, rules: Rules, asked: Asked) -> tuple[Sequence[PlannedRule], int, Mapping[str, int]]:
        """See GroupedStage."""
        counts: Counter[str] = Counter()
        judged = left = 0
        for _, question, requests in _questions(reader, asked.window.parameters):
            own = [chain.name for chain in rules if is_about(chain, question)]
            counts.update(dict.fromkeys(own, requests))
            judged, left = (judged + requests, left) if own else (judged, left + requests)
        found = [PlannedRule(chain.name, None, ("Deny",), counts[chain.name]) for chain in rules]
        return found, judged, {_OTHER_QUESTION: left} if left else {}

    def judging(self, reader: LakeReader, plan: GroupedPlan[Rules]) -> Judging:
        """See GroupedStage."""
        return _Rulings(reader, plan)


class _Rulings(Judging):
    """See Judging. Each share of the distinct questions has its share of the run's budget."""

    def __init__(self, reader: LakeReader, plan: GroupedPlan[Rules]) -> None:
        self._reader = reader
        self._plan = plan
        self._rows: dict[str, Row] = {}
        self._questions = {number: question for number, question, _ in _questions(reader, plan.window.parameters)}
        self._rbac = RbacAnswers(reader, plan.window)

    def stretches(self) -> Sequence[Share]:
        """See Judging."""
        return shares(self._plan.parts(len(self._questions), _QUESTIONS_MIN))

    def records(self, stretch: Share) -> Iterator[JudgedPass]:
        """See Judging."""
        reader, plan = self._reader, self._plan
        questions = {number: each for number, each in self._questions.items() if number % stretch.of == stretch.number}
        budget, prover = RunBudget(len(questions), stretch.of), Prover(questions=len(questions), parts=stretch.of)
        compiled = [CompiledChain(chain, plan.kubernetes_version, budget) for chain in plan.rules]
        known = KnownObjects(reader, plan.window, frozenset().union(*(each.paths for each in compiled)))
        passes: dict[Place, list[Row]] = {}
        for each in compiled:
            for place, row in self._judged(ChainJudging(each, known, prover), questions, self._rbac):
                passes.setdefault(place, []).append(row)
        yield from passes.items()

    def _judged(self, judging: ChainJudging, questions: Mapping[int, Question], rbac: RbacAnswers) -> Iterator[tuple[Place, Row]]:
        """The passes of all requests that a chain is about, with the verdict on each."""
        chain, reader = judging.chain, self._reader
        settled: dict[int, Row] = {}
        timed: dict[int, Timed] = {}
        written: dict[int, AskedChain] = {}
        for number, question in questions.items():
            if not is_about(chain, question):
                continue
            found = judging.answer(question, rbac.answer)
            if isinstance(found, Ruling):
                settled[number] = self._row(chain, found, question)
            elif isinstance(found, Timed):
                timed[number] = found
            else:
                written[number] = found.asked
        for number, *place in _requests(reader, settled):
            yield (*place, 0), settled[number]
        spans: dict[tuple[int, int], Row] = {}
        for number, *place in _requests(reader, timed):
            span = timed[number].at(place[2])
            if (number, span) not in spans:
                spans[number, span] = self._row(chain, timed[number].ruling(span), questions[number])
            yield (*place, 0), spans[number, span]
        if written:
            reader.put_table("conditions_written", _numbers(written))
            for each in Writes(reader, self._plan.window, written).passes():
                yield each[1:6], self._row(chain, each.ruling, questions[each.question])

    def _row(self, chain: Chain, ruling: Ruling, question: Question) -> Row:
        """The verdict with this ruling; many requests get equal ones."""
        row = row_of(chain, known_to(question, ruling), question.info, question.user.username, question.recorded)
        return self._rows.setdefault(repr(row), row)


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
