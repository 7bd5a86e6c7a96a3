"""One part of a replay: rows of the lake become admission requests, and those become verdicts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import TypeAlias

import pyarrow as pa

from queries import LakeReader

from ..admission.policies import Decision, PolicySet, PolicyVerdict, compile_set
from ..authorization import RecordedRbac
from ..cel.stack import on_fresh_stack
from ..history.event import TOO_DEEP, Event
from ..history.fitness import shows_objects, unfit_body
from ..history.in_force import CHANGE_DELAY
from ..history.outcome import Admission
from ..history.reconstruct import NotReplayed, admission_requests
from ..history.versions import LogVersions
from ..history.world import LogHistory
from .earlier import EarlierVersions
from .past import BATCH_ROWS, load_history, param_kinds_of, rows_of
from .plan import Part, ReplayPlan, Window
from .planning import register_classes
from .policies import GivenPolicies, Policies, RecordedPolicies, recorded_policy_set
from .remembered import Remembered
from .sql import statement
from .verdicts import IDENTITY, Collector, VerdictBuilder
from .worlds import Worlds

# The verdicts of each pass of a request.
Judged: TypeAlias = list[tuple[int, Sequence[PolicyVerdict]]] | NotReplayed

# Bodies are read as deep as a stack allows: what a sink had room for may be too deep here.
_UNREAD: Judged = NotReplayed(TOO_DEEP, Admission.UNKNOWN)
# Requests wait for the history of their objects until the end of their part, or until they are this large together.
WAITING_BYTES_MAX = 256 * 1024 * 1024


@dataclass(frozen=True)
class PartResult:
    """The verdicts of one part, and how many of its requests were evaluated or not, by reason."""

    verdicts: pa.Table
    evaluated: int
    not_evaluated: Mapping[str, int]


@dataclass
class Walk:
    """What is known so far of the requests of one part, which are numbered as they are read."""

    builder: Collector
    schema: pa.Schema  # of `read`
    not_evaluated: Counter[str]
    rows: int = 0
    read: list[pa.RecordBatch] = field(default_factory=list)  # of every request what its verdicts are told by
    waiting: list[tuple[Sequence[int], pa.RecordBatch]] = field(default_factory=list)
    waiting_bytes: int = 0

    def add(self, batch: pa.RecordBatch, left: Sequence[int]) -> None:
        """One more batch; the verdicts of the rows `left` are not in the builder."""
        if left:
            waiting = batch.take(pa.array(left, pa.int64()))
            self.waiting.append(([self.rows + index for index in left], waiting))
            self.waiting_bytes += waiting.nbytes
        self.read.append(batch.select(IDENTITY))
        self.rows += batch.num_rows


class Replayer:
    """What one worker holds while it walks parts: the lake, the policies and the history of the cluster."""

    def __init__(
        self, plan: ReplayPlan, reader: LakeReader, around: Callable[[Policies], Policies] = lambda policies: policies
    ) -> None:
        """`around` may put other policies in the place of the plan's, which look at more than the verdicts."""
        self._run_id = plan.run_id
        self._window = plan.window
        self._reader = reader
        self._history, policies = past_of(reader, plan.policies, plan.kubernetes_version, plan.window, plan.change_delay)
        self._policies = around(policies)
        self._worlds = Worlds(self._history, {CHANGE_DELAY, plan.change_delay})
        self._rbac = RecordedRbac(self._history, dict(plan.other_authorizers))
        names = register_classes(reader, plan.classes)
        self._remembered = Remembered(names, self._policies, self._worlds, self._rbac)
        self._sessions = ExitStack()
        self._earlier = EarlierVersions(plan, self._sessions.enter_context(reader.session()), self._history)

    def replay(self, part: Part) -> PartResult:
        """Evaluate the requests of one part."""
        builder = VerdictBuilder()
        walk = self.walk(part, builder)
        verdicts = builder.table(self._run_id, pa.Table.from_batches(walk.read, walk.schema))
        return PartResult(verdicts, walk.rows - walk.not_evaluated.total(), walk.not_evaluated)

    def walk(self, part: Part, builder: Collector) -> Walk:
        """Give the builder what the policies make of the requests of one part.

        Their bodies are read batch by batch, and are held only of requests that need more than their own record.
        """
        planned = self._reader.sql(statement("planned"), {**self._window.parameters, **part.parameters})
        batches = planned.to_arrow_reader(BATCH_ROWS)
        schema = pa.schema([batches.schema.field(name) for name in IDENTITY])
        walk = Walk(builder, schema, Counter())
        for batch in batches:
            walk.add(batch, self._remembered.take(batch, walk.builder, walk.rows))
            if walk.waiting_bytes > WAITING_BYTES_MAX:
                self._judge_waiting(part, walk)
        self._judge_waiting(part, walk)
        return walk

    def close(self) -> None:
        """Give back the lake; no part can be evaluated afterwards."""
        self._sessions.close()
        self._reader.close()

    def _judge_waiting(self, part: Part, walk: Walk) -> None:
        """Judge the requests that wait for the history of their objects."""
        if not walk.waiting:
            return
        versions = self._earlier.of(part, pa.Table.from_batches([batch for _, batch in walk.waiting]))
        for indices, batch in walk.waiting:
            for index, row in zip(indices, rows_of(batch), strict=True):
                judge: Callable[[], Judged] = partial(self._judge, Event.from_row(row), versions)
                found = on_fresh_stack(judge, _UNREAD)
                if isinstance(found, NotReplayed):
                    walk.not_evaluated[found.reason] += 1
                    continue
                for pass_index, verdicts in found:
                    walk.builder.add(index, verdicts, pass_index)
        walk.waiting.clear()
        walk.waiting_bytes = 0

    def _judge(self, event: Event, versions: LogVersions) -> Judged:
        """What the policies make of each pass of a request.

        One with a body that is no object of Kubernetes costs nobody else's verdict, and the errors that it makes are none.
        """
        try:
            found = self._passes(event, versions) if shows_objects(event) else None
            if found is None or (_has_failures(found) and unfit_body(event)):
                return NotReplayed(unfit_body(event), Admission.UNKNOWN)
            return found
        except (AttributeError, TypeError, KeyError, IndexError, ValueError):
            if not (problem := unfit_body(event)):
                raise
            return NotReplayed(problem, Admission.UNKNOWN)

    def _passes(self, event: Event, versions: LogVersions) -> Judged:
        found = admission_requests(event, versions, self._history)
        if isinstance(found, NotReplayed):
            return found
        passes: list[tuple[int, Sequence[PolicyVerdict]]] = []
        for request in found:
            authorize = partial(self._rbac.authorize, request.cluster, request.ts)
            world = self._worlds.at(request.cluster, request.ts)
            passes.append((request.pass_index, self._policies.evaluate(request, world, authorize, event)))
        return passes


def _has_failures(found: Judged) -> bool:
    """Whether an expression failed in a request that was judged, or Hindcast did."""
    passes = [] if isinstance(found, NotReplayed) else found
    return any(verdict.decision is Decision.ERROR or verdict.is_defect for _, verdicts in passes for verdict in verdicts)


def past_of(
    reader: LakeReader, policies: PolicySet | None, version: tuple[int, int], window: Window, change_delay: timedelta
) -> tuple[LogHistory, Policies]:
    """The history that some policies need (None: those that were bound at the time), and the policies ready for requests."""
    if policies is not None:
        history = load_history(reader, param_kinds_of(policies), window)
        return history, GivenPolicies(compile_set(policies, version))
    recorded = recorded_policy_set(load_history(reader, (), window))
    history = load_history(reader, param_kinds_of(recorded), window)
    return history, RecordedPolicies(history, version, change_delay)
