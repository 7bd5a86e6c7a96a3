"""Runs of stages that judge each distinct question once.

Many requests ask a stage the same question: a controller lists the same pods every second. SQL gives each pass of a request its
question, the stage answers each distinct one, and every request with this question gets the answer.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

import pyarrow as pa

from ingest.errors import LakeError
from queries import LakeReader, open_lake
from queries.catalog import LakeFiles

from ..authorization import OtherAuthorizers
from ..runs import RunKind, RunStore, RunSummary, StoredRun
from ..runs.merge import Merged
from ..runs.summarize import summarize
from ..runs.verdict import VERDICTS, Verdict
from ..runs.verdicts import JUDGED, NOTHING, Judged, JudgedPass, VerdictBuilder, VerdictFile, in_arrival_order
from ..runs.window import Window, lake_digest
from .readiness import DEFAULT, StageReadiness
from .shares import in_shares
from .stage import Asked, Progress

# Raised when the same plan would give other verdicts, so that older runs do not count as this one.
FORMAT = 9
_BATCH_ROWS = 4096
# The columns of a relation of requests, before their question.
PASS_COLUMNS = ("cluster", "audit_id", "ts", "stage_ts", "pass")

RulesT = TypeVar("RulesT")


@dataclass(frozen=True, slots=True)
class PlannedGroup:
    """One judged thing, and how many requests may concern it."""

    policy: str
    binding: str | None
    actions: tuple[str, ...]
    requests: int


@dataclass(frozen=True)
class GroupedPlan(Generic[RulesT]):
    """The plan of one run of a grouped stage. `document` is the rules as JSON values: it and the lake's content name the run."""

    stage: str
    rules: RulesT
    document: Any
    window: Window
    kubernetes_version: tuple[int, int]
    lake_digest: str
    requests: int
    bindings: tuple[PlannedGroup, ...]
    excluded: tuple[tuple[str, int], ...] = ()
    other_authorizers: tuple[tuple[str, OtherAuthorizers], ...] = ()
    replaces_all: bool = False
    unreadable: tuple[tuple[str, str], ...] = ()
    files: LakeFiles | None = field(default=None, compare=False, repr=False)

    @property
    def run_id(self) -> str:
        """The name of the run: a digest of the plan."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()[:16]

    def to_json(self) -> str:
        """The plan as one JSON document."""
        major, minor = self.kubernetes_version
        document = {
            "format": FORMAT,
            "stage": self.stage,
            "columns": VERDICTS.names,
            "kubernetes_version": f"{major}.{minor}",
            "window": {name: moment.isoformat() if moment else None for name, moment in self.window.parameters.items()},
            "lake": self.lake_digest,
            "other_authorizers": {cluster: str(others) for cluster, others in self.other_authorizers},
            "replaces_all": self.replaces_all,
            "manifests": self.document,
            "bindings": [
                {"policy": each.policy, "binding": each.binding, "actions": list(each.actions), "requests": each.requests}
                for each in self.bindings
            ],
            "requests": self.requests,
            "excluded": [{"reason": reason, "requests": count} for reason, count in self.excluded],
        }
        return json.dumps(document, indent=1, sort_keys=True) + "\n"

    def __str__(self) -> str:
        """For a person: counts first, then the requests left out, with reasons."""
        major, minor = self.kubernetes_version
        lines = [f"run {self.run_id} of stage {self.stage}: {self.requests:,} requests, Kubernetes {major}.{minor}"]
        lines += [f"  {each.requests:>9,}  {each.policy} / {each.binding or 'no binding'}" for each in self.bindings]
        lines += [f"authorizers of {cluster} other than RBAC: {others}" for cluster, others in self.other_authorizers]
        lines.append("not evaluated:")
        lines += [f"  {count:>9,}  {reason}" for reason, count in self.excluded]
        return "\n".join(lines)


class Judging:
    """Judges the requests of one plan, in one process: by questions that requests share, by the record of each, or both."""

    def questions(self) -> str:
        """The SQL of a relation with one row per pass of a request that is judged by a question; empty without any.

        Its columns are PASS_COLUMNS and `question`: a STRUCT of everything that the answer depends on. The method may register
        tables in the reader's connection for it.
        """
        return ""

    def answer(self, question: Mapping[str, Any]) -> Sequence[Verdict]:
        """The verdicts on every pass that has a question; empty if the stage says nothing of it."""
        raise NotImplementedError

    def shares(self, most: int) -> Sequence[Window]:
        """The other requests in shares, at most so many; none without such requests."""
        return ()

    def records(self, share: Window) -> Iterable[JudgedPass]:
        """The passes of the other requests of a share, with the verdicts on each."""
        return ()


class GroupedStage(ABC, Generic[RulesT]):
    """The parts of a grouped stage that differ from stage to stage; it implements `plan` and `run` of stage.Stage."""

    name: str
    readiness: StageReadiness[RulesT, GroupedPlan[RulesT]] = DEFAULT

    @abstractmethod
    def describe(self, rules: RulesT) -> Any:
        """The rules as JSON values, without their places in files: equal values give equal verdicts."""

    @abstractmethod
    def groups(self, reader: LakeReader, rules: RulesT, asked: Asked) -> tuple[Sequence[PlannedGroup], int, Mapping[str, int]]:
        """What the plan lists: the judged things, how many requests will be judged, and how many will not, by reason."""

    @abstractmethod
    def judging(self, reader: LakeReader, plan: GroupedPlan[RulesT]) -> Judging:
        """What judges the requests of a plan in one process."""

    def others(self, reader: LakeReader, asked: Asked) -> tuple[tuple[str, OtherAuthorizers], ...]:
        """The authorizers of each cluster other than RBAC, where the stage asks an authorizer."""
        return ()

    def plan(self, reader: LakeReader, rules: RulesT, asked: Asked) -> GroupedPlan[RulesT]:
        """See stage.Stage."""
        found, requests, excluded = self.groups(reader, rules, asked)
        return GroupedPlan(
            stage=self.name,
            rules=rules,
            document=self.describe(rules),
            window=asked.window,
            kubernetes_version=asked.kubernetes_version,
            lake_digest=lake_digest(reader, asked.window),
            requests=requests,
            bindings=tuple(found),
            excluded=tuple(sorted(excluded.items(), key=lambda entry: (-entry[1], entry[0]))),
            other_authorizers=self.others(reader, asked),
            replaces_all=asked.replaces_all,
            files=reader.files,
        )

    def run(
        self,
        plan: GroupedPlan[RulesT],
        lake: Path,
        workers: int = 1,
        progress: Progress | None = None,
        kind: RunKind = RunKind.REPLAY,
    ) -> RunSummary:
        """See stage.Stage. An interrupted run begins again: it takes seconds."""
        run = RunStore(lake).run(plan.run_id)
        with run.owned():
            if (finished := run.finished(plan.to_json())) is not None:
                with suppress(OSError):  # a lake that may only be read
                    run.mark(kind)
                return finished
            with ExitStack() as held, closing(_reader_of(plan, lake)) as reader:
                run.parts.mkdir(parents=True, exist_ok=True)
                held.enter_context(run.in_use())
                run.mark(kind)
                run.begin(plan.to_json())
                parts, evaluated = self._judged(plan, reader, progress, workers)
                summary = _written(plan, run, parts, evaluated)
                run.finish(summary)
            return summary

    def _judged(
        self, plan: GroupedPlan[RulesT], reader: LakeReader, progress: Progress | None, workers: int
    ) -> tuple[list[Judged], int]:
        """The verdicts on all requests, in parts, and how many requests got one."""
        judging = self.judging(reader, plan)
        parts, evaluated = [], 0
        if questions := judging.questions():
            judged, evaluated = _answered(judging, questions, plan, reader, progress)
            parts.append(judged)
        for judged, requests in in_shares(self, plan, judging, reader, workers):
            parts.append(judged)
            evaluated += requests
            if progress is not None:
                progress(evaluated, plan.requests)
        return parts, evaluated


def _answered(
    judging: Judging, questions: str, plan: GroupedPlan[Any], reader: LakeReader, progress: Progress | None
) -> tuple[Judged, int]:
    """The verdicts on the requests that are judged by questions, and how many these are."""
    connection, builder = reader.connection, VerdictBuilder()
    connection.execute(f"CREATE OR REPLACE TEMP TABLE passes AS {questions}")
    numbers: list[pa.RecordBatch] = []
    done = 0
    asked = connection.sql("SELECT question, count(*) AS passes FROM passes GROUP BY question").to_arrow_table()
    for batch in asked.to_batches(max_chunksize=_BATCH_ROWS):
        found = [builder.set_of(judging.answer(question)) for question in batch.column("question").to_pylist()]
        numbers.append(batch.select(["question"]).append_column("set", pa.array(found, pa.int32())))
        done += sum(batch.column("passes").to_pylist())
        if progress is not None:
            progress(done, plan.requests)
    sets = pa.Table.from_batches(numbers) if numbers else None
    if sets is None:
        return Judged(JUDGED.empty_table(), builder.sets(), builder.verdicts()), 0
    connection.register("answered", sets)
    rows = connection.sql(
        f"SELECT {', '.join(PASS_COLUMNS)}, set FROM passes JOIN answered USING (question) WHERE set <> {NOTHING}"
    ).to_arrow_table()
    connection.unregister("answered")
    judged = in_arrival_order(rows.select(JUDGED.names).cast(JUDGED))
    evaluated = connection.sql("SELECT count(DISTINCT (cluster, audit_id, ts)) FROM passes").fetchall()[0][0]
    return Judged(judged, builder.sets(), builder.verdicts()), evaluated


def _written(plan: GroupedPlan[Any], run: StoredRun, parts: Sequence[Judged], evaluated: int) -> RunSummary:
    """Write the verdict table; returns the summary."""
    merged = Merged(parts)
    with VerdictFile(run.unfinished) as whole:
        for table in merged.tables(run.run_id):
            whole.write(table)
    run.unfinished.replace(run.verdicts)
    return summarize(plan, merged, evaluated, {})


def _reader_of(plan: GroupedPlan[Any], lake: Path) -> LakeReader:
    """A reader of the plan's files, or of files with the same content if those were merged or moved."""
    if plan.files is not None and plan.files.are_there():
        return open_lake(lake, files=plan.files)
    reader = open_lake(lake, cluster=plan.files.cluster if plan.files else "")
    if lake_digest(reader, plan.window) == plan.lake_digest:
        return reader
    reader.close()
    raise LakeError(f"{lake} has changed since this replay was planned, and files of then are gone", "plan it again")


_UNJUDGED = ("source", "written")


def as_json(value: Any) -> Any:
    """Rules as JSON values, without their places in files and their manifests, which do not change their meaning."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = (each.name for each in dataclasses.fields(value) if each.init and each.name not in _UNJUDGED)
        return {name: as_json(getattr(value, name)) for name in names}
    if isinstance(value, (list, tuple, frozenset, set)):
        return [as_json(item) for item in (sorted(value) if isinstance(value, (set, frozenset)) else value)]
    return value
