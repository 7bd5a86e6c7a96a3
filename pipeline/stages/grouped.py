"""Runs of stages that judge each distinct question once.

Many requests ask a stage the same question: a controller lists the same pods every second. SQL gives each pass of a request its
question, the stage answers each distinct one, and every request with this question gets the answer.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

import duckdb
import pyarrow as pa

from ingest.counted import counted
from queries import LakeReader

from ..authorization import OtherAuthorizers
from ..runs import RunKind, RunSummary
from ..runs.executors import Executor
from ..runs.local import LocalProcesses
from ..runs.parts import Counts, Settled, counts_of, making, write_settled
from ..runs.plan import PlannedRule, RunPlan
from ..runs.running import Crew, Doubts, Progress, make_run
from ..runs.verdict import Verdict
from ..runs.verdicts import JUDGED, NOTHING, Judged, JudgedPass, VerdictBuilder, in_arrival_order, numbered
from ..runs.window import Window, lake_digest
from .readiness import DEFAULT, StageReadiness
from .stage import Asked

_BATCH_ROWS = 4096
_PARTS_MAX = 8
_ASKING_REQUESTS = 200_000  # requests that share questions cost little
# The columns of a relation of requests, before their question.
PASS_COLUMNS = ("cluster", "audit_id", "ts", "stage_ts", "pass")

RulesT = TypeVar("RulesT")
# The judged things, how many requests will be judged, and how many will not, by reason.
Listed: TypeAlias = tuple[Sequence[PlannedRule], int, Mapping[str, int]]


@dataclass(frozen=True, kw_only=True)
class GroupedPlan(RunPlan, Generic[RulesT]):
    """The plan of one run of a grouped stage. `manifests` is the rules as JSON values: it and the lake's content name the run."""

    FORMAT = 9

    rules: RulesT
    manifests: Any
    replaces_all: bool = False
    # How many requests are worth a part of the run; None takes what the stage says. The run's name does not depend on it.
    part_requests: int | None = field(default=None, compare=False, repr=False)

    def parts(self, requests: int, usual: int) -> int:
        """Into how many parts so many requests are divided, where usually so many are worth one."""
        return max(1, min(_PARTS_MAX, requests // (self.part_requests or usual)))

    def document(self) -> dict[str, Any]:
        """See RunPlan."""
        return super().document() | {"replaces_all": self.replaces_all, "manifests": self.manifests}

    def __str__(self) -> str:
        """For a person: counts first, then the requests left out, with reasons."""
        major, minor = self.kubernetes_version
        lines = [f"run {self.run_id} of stage {self.stage}: {counted(self.requests, 'request')}, Kubernetes {major}.{minor}"]
        lines += [f"  {each.requests:>9,}  {each.policy} / {each.binding or 'no binding'}" for each in self.bindings]
        lines += [f"authorizers of {cluster} other than RBAC: {others}" for cluster, others in self.other_authorizers]
        lines.append("not evaluated:")
        lines += [f"  {count:>9,}  {reason}" for reason, count in self.excluded]
        return "\n".join(lines)


class Share(NamedTuple):
    """One of so many shares into which a stage divides its requests by something else than time."""

    number: int
    of: int


def shares(of: int) -> Sequence[Share]:
    """All shares."""
    return tuple(Share(number, of) for number in range(of))


class Judging:
    """Judges the requests of one plan, in one process: by questions that requests share, by the record of each, or both."""

    asks = False  # whether requests share questions

    def questions(self) -> str:
        """The SQL of a relation with one row per pass of a request that is judged by a question.

        Its columns are PASS_COLUMNS and `question`: a STRUCT of everything that the answer depends on, equal in every process. The
        passes of a request have one question. The method may register tables in the reader's connection for it.
        """
        raise NotImplementedError

    def answer(self, question: Mapping[str, Any]) -> Sequence[Verdict]:
        """The verdicts on every pass that has a question; empty if the stage says nothing of it."""
        raise NotImplementedError

    def stretches(self) -> Sequence[Window | Share]:
        """The stretches of time, or other shares, in which the other requests are judged, each as one part of the run.

        They depend on the plan and the lake alone. An interrupted run loses no more than one part, and processes share them out.
        """
        return ()

    def records(self, stretch: Any) -> Iterable[JudgedPass]:
        """The passes of the other requests of a stretch, with the verdicts on each."""
        return ()


class PlannedStage(ABC, Generic[RulesT]):
    """What differs from stage to stage in the plan of a stage and in its run; it implements `plan` and `run` of stage.Stage."""

    # How many threads a process reads with; None: as many as the reader takes.
    threads: int | None = None

    name: str
    readiness: StageReadiness[RulesT, Any] = DEFAULT

    @abstractmethod
    def describe(self, rules: RulesT) -> Any:
        """The rules as JSON values, without their places in files: equal values give equal verdicts."""

    @abstractmethod
    def groups(self, reader: LakeReader, rules: RulesT, asked: Asked) -> Listed:
        """What the plan lists: the judged things, how many requests will be judged, and how many will not, by reason."""

    def others(self, reader: LakeReader, asked: Asked) -> tuple[tuple[str, OtherAuthorizers], ...]:
        """The authorizers of each cluster other than RBAC, where the stage asks an authorizer."""
        return ()

    def plan(self, reader: LakeReader, rules: RulesT, asked: Asked) -> GroupedPlan[RulesT]:
        """See stage.Stage."""
        return GroupedPlan(**self.planned(reader, rules, asked, self.groups(reader, rules, asked)))

    def planned(self, reader: LakeReader, rules: RulesT, asked: Asked, listed: Listed) -> dict[str, Any]:
        """The fields of GroupedPlan."""
        found, requests, excluded = listed
        return {
            "stage": self.name,
            "rules": rules,
            "manifests": self.describe(rules),
            "window": asked.window,
            "kubernetes_version": asked.kubernetes_version,
            "lake_digest": lake_digest(reader, asked.window),
            "requests": requests,
            "bindings": tuple(found),
            "excluded": tuple(sorted(excluded.items(), key=lambda entry: (-entry[1], entry[0]))),
            "other_authorizers": self.others(reader, asked),
            "replaces_all": asked.replaces_all,
            "files": reader.files,
        }

    def doubts(self, plan: GroupedPlan[RulesT], lake: Path, workers: int, executor: Executor | None) -> Doubts | None:
        """The passes of a plan whose verdicts something else decides; see make_run."""
        return None

    @abstractmethod
    def parts(self, plan: Any, lake: Path, executor: Executor, reader: LakeReader, folder: Path) -> Iterator[int]:
        """Make the missing parts of a run, in a folder; yields how many requests each settled, those before first."""

    def run(
        self,
        plan: Any,
        lake: Path,
        workers: int = 1,
        progress: Progress | None = None,
        kind: RunKind = RunKind.REPLAY,
        executor: Executor | None = None,
    ) -> RunSummary:
        """See stage.Stage."""
        parts = partial(self.parts, plan, lake, executor or LocalProcesses(workers))
        doubts = self.doubts(plan, lake, workers, executor)
        return make_run(plan, lake, kind, parts, progress, self.threads, doubts)


class GroupedStage(PlannedStage[RulesT]):
    """A stage whose requests share questions, or are judged by a walk of its own."""

    @abstractmethod
    def judging(self, reader: LakeReader, plan: GroupedPlan[RulesT]) -> Judging:
        """What judges the requests of a plan in one process."""

    def parts(self, plan: GroupedPlan[RulesT], lake: Path, executor: Executor, reader: LakeReader, folder: Path) -> Iterator[int]:
        """See PlannedStage."""
        with closing(Crew(plan, reader, lake, folder, executor, partial(StageWorker, self))) as crew:
            worker: StageWorker = crew.own()
            asked = plan.parts(plan.requests, _ASKING_REQUESTS) if worker.judging.asks else 0
            stretches = worker.judging.stretches()
            crew.begin((plan.run_id, reader.files.events, asked, stretches))
            yield from crew.do([AnswerQuestions(number, asked) for number in range(asked)])
            yield from crew.do([JudgeStretch(number, each) for number, each in enumerate(stretches)])


class StageWorker:
    """See Worker: one process that judges requests of a plan."""

    def __init__(self, stage: GroupedStage[Any], plan: GroupedPlan[Any], reader: LakeReader) -> None:
        self.reader = reader
        self.judging = stage.judging(reader, plan)
        self._has_passes = False

    def passes(self) -> duckdb.DuckDBPyConnection:
        """A connection with the table `passes`: what `questions` selects."""
        if not self._has_passes:
            self.reader.connection.execute(f"CREATE OR REPLACE TEMP TABLE passes AS {self.judging.questions()}")
            self._has_passes = True
        return self.reader.connection

    def close(self) -> None:
        """See Worker."""
        self.reader.close()

    def close_sessions(self) -> None:
        """See Worker: the sessions of a walk end with it."""


@dataclass(frozen=True, slots=True)
class AnswerQuestions:
    """See Task: answers each of a share of the distinct questions once, and gives every pass that has it the answer."""

    number: int
    of: int

    @property
    def name(self) -> str:
        """See Task."""
        return f"questions-{self.number:06}"

    def done(self, parts: Path) -> Counts | None:
        """See Task."""
        return counts_of(parts / self.name)

    def do(self, worker: StageWorker, parts: Path, crew: Path) -> None:
        """See Task."""
        with making(parts, self.name, crew) as folder:
            write_settled(self._answered(worker.judging, worker.passes()), folder)

    def _answered(self, judging: Judging, connection: duckdb.DuckDBPyConnection) -> Settled:
        builder = VerdictBuilder()
        numbers: list[pa.RecordBatch] = []
        share = f"hash(question) % {self.of} = {self.number}"
        asked = connection.sql(f"SELECT question FROM passes WHERE {share} GROUP BY question").to_arrow_table()
        for batch in asked.to_batches(max_chunksize=_BATCH_ROWS):
            found = [builder.set_of(judging.answer(question)) for question in batch.column("question").to_pylist()]
            numbers.append(batch.append_column("set", pa.array(found, pa.int32())))
        if not numbers:
            return Settled(Judged(JUDGED.empty_table(), builder.sets(), builder.verdicts()), 0, {})
        connection.register("answered", pa.Table.from_batches(numbers))
        rows = connection.sql(
            f"SELECT {', '.join(PASS_COLUMNS)}, set FROM passes JOIN answered USING (question) WHERE set <> {NOTHING}"
        ).to_arrow_table()
        connection.unregister("answered")
        judged = in_arrival_order(rows.select(JUDGED.names).cast(JUDGED))
        requests = connection.sql(f"SELECT count(DISTINCT (cluster, audit_id, ts)) FROM passes WHERE {share}").fetchall()[0][0]
        return Settled(Judged(judged, builder.sets(), builder.verdicts()), requests, {})


@dataclass(frozen=True, slots=True)
class JudgeStretch:
    """See Task: judges the requests of a stretch of time, or of another share, by their own records."""

    number: int
    stretch: Window | Share

    @property
    def name(self) -> str:
        """See Task."""
        return f"stretch-{self.number:06}"

    def done(self, parts: Path) -> Counts | None:
        """See Task."""
        return counts_of(parts / self.name)

    def do(self, worker: StageWorker, parts: Path, crew: Path) -> None:
        """See Task."""
        with making(parts, self.name, crew) as folder:
            write_settled(Settled(*numbered(worker.judging.records(self.stretch)), {}), folder)
