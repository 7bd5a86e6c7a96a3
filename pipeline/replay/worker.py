"""One part of a replay: rows of the lake become admission requests, and those become verdicts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, TypeAlias

import pyarrow as pa

from queries import LakeReader

from ..admission.policies import PolicyVerdict, compile_set
from ..authorization import RecordedRbac
from ..cel.stack import on_fresh_stack
from ..history.event import TOO_DEEP, Event
from ..history.in_force import CHANGE_DELAY
from ..history.kinds import by_resource
from ..history.outcome import Admission
from ..history.reconstruct import NotReplayed, admission_requests
from ..history.snapshots import ResourceName, snapshot_versions
from ..history.versions import LogVersions
from ..history.world import LogHistory
from ..history.writes import record
from ..request import GroupVersionResource
from .past import load_history, param_kinds_of, rows_of, rows_of_query, snapshot_rows
from .plan import Part, ReplayPlan, RequestClass, register_classes
from .policies import GivenPolicies, Policies, RecordedPolicies, recorded_policy_set
from .remembered import Remembered
from .sql import statement
from .verdicts import VerdictBuilder
from .worlds import Worlds

# The verdicts of each pass of a request.
Judged: TypeAlias = list[tuple[int, Sequence[PolicyVerdict]]] | NotReplayed

# Bodies are read as deep as a stack allows: what a sink had room for may be too deep here.
_UNREAD: Judged = NotReplayed(TOO_DEEP, Admission.UNKNOWN)


@dataclass(frozen=True)
class PartResult:
    """The verdicts of one part, and how many of its requests were evaluated or not, by reason."""

    verdicts: pa.Table
    evaluated: int
    not_evaluated: Mapping[str, int]


class Replayer:
    """What one worker holds while it walks parts: the lake, the policies and the history of the cluster."""

    def __init__(self, plan: ReplayPlan, reader: LakeReader) -> None:
        self._run_id = plan.run_id
        self._window = plan.window
        self._reader = reader
        self._classes = plan.classes
        self._history, self._policies = _past(plan, reader)
        self._worlds = Worlds(self._history, {CHANGE_DELAY, plan.change_delay})
        self._rbac = RecordedRbac(self._history, dict(plan.other_authorizers))
        names = register_classes(reader, plan.classes)
        self._remembered = Remembered(names, self._policies, self._worlds, self._rbac)

    def replay(self, part: Part) -> PartResult:
        """Evaluate the requests of one part, in the order of their arrival."""
        table = self._reader.sql(statement("planned"), self._parameters(part)).to_arrow_table()
        builder = VerdictBuilder()
        general = self._remembered.take(table, builder)
        evaluated = table.num_rows - len(general)
        not_evaluated: Counter[str] = Counter()
        versions = self._versions(part, table, general)
        for index, row in zip(general, rows_of(table.take(pa.array(general, pa.int64()))), strict=True):
            judge: Callable[[], Judged] = partial(self._judge, Event.from_row(row), versions)
            found = on_fresh_stack(judge, _UNREAD)
            if isinstance(found, NotReplayed):
                not_evaluated[found.reason] += 1
                continue
            evaluated += 1
            for pass_index, verdicts in found:
                builder.add(index, verdicts, pass_index)
        return PartResult(builder.table(self._run_id, table), evaluated, not_evaluated)

    def close(self) -> None:
        """Give back the lake; no part can be evaluated afterwards."""
        self._reader.close()

    def _judge(self, event: Event, versions: LogVersions) -> Judged:
        """What the policies make of each pass of a request."""
        found = admission_requests(event, versions, self._history)
        if isinstance(found, NotReplayed):
            return found
        passes: list[tuple[int, Sequence[PolicyVerdict]]] = []
        for request in found:
            authorize = partial(self._rbac.authorize, request.cluster, request.ts)
            world = self._worlds.at(request.cluster, request.ts)
            passes.append((request.pass_index, self._policies.evaluate(request, world, authorize, event)))
        return passes

    def _versions(self, part: Part, table: pa.Table, rows: Sequence[int]) -> LogVersions:
        """The versions of the objects of some rows whose earlier state will be asked for."""
        versions = LogVersions()
        asked = table.select(["asks", "resource", "namespace", "name"]).take(pa.array(rows, pa.int64()))
        self._reader.connection.register("general", asked)
        self._reader.connection.execute(statement("asked"))
        self._reader.connection.unregister("general")
        if not self._reader.connection.execute("FROM asked LIMIT 1").fetchall():
            return versions
        parameters = self._parameters(part)
        needed = ("cluster", "first_resource", "last_resource", "until")
        for row in rows_of_query(self._reader, "past_writes", {name: parameters[name] for name in needed}):
            record(Event.from_row(row), versions)
        self._add_snapshots(part, versions)
        return versions

    def _add_snapshots(self, part: Part, versions: LogVersions) -> None:
        resources = {
            kind: ResourceName(item.api_group, item.resource)
            for item in self._classes
            if part.first[0] <= item.resource <= part.last[0] and (kind := self._kind(item)) is not None
        }
        # A part within one resource is within a range of namespaces; across several it is not.
        bounds = (part.first[1], part.last[1]) if part.first[0] == part.last[0] else (None, None)
        # A Namespace lies in no namespace, though its requests name one.
        first, last = (None, None) if part.first[0] == "namespaces" else bounds
        rows = snapshot_rows(
            self._reader, resources, cluster=part.cluster, first_namespace=first, last_namespace=last, until=self._window.until
        )
        for key, version in snapshot_versions(rows, lambda group, kind: resources.get((group, kind))):
            versions.add(key, version)

    def _parameters(self, part: Part) -> dict[str, Any]:
        """A part as named SQL parameters."""
        return {
            **self._window.parameters,
            "cluster": part.cluster,
            "first_resource": part.first[0],
            "first_namespace": part.first[1],
            "last_resource": part.last[0],
            "last_namespace": part.last[1],
            "after_name": part.after_name,
            "last_name": part.last_name,
        }

    def _kind(self, item: RequestClass) -> tuple[str, str] | None:
        """The (group, kind) under which snapshots list a resource."""
        built_in = by_resource(item.api_group, item.resource)
        if built_in is not None:
            return built_in.group, built_in.kind
        resource = GroupVersionResource(item.api_group, item.api_version, item.resource)
        custom = self._history.custom_kind(item.cluster, resource, datetime.max.replace(tzinfo=UTC))
        return (custom.group, custom.kind) if custom else None


def _past(plan: ReplayPlan, reader: LakeReader) -> tuple[LogHistory, Policies]:
    """The history that the plan's policies need, and the policies ready for requests."""
    if plan.policies is not None:
        history = load_history(reader, param_kinds_of(plan.policies), plan.window)
        return history, GivenPolicies(compile_set(plan.policies, plan.kubernetes_version))
    recorded = recorded_policy_set(load_history(reader, (), plan.window))
    history = load_history(reader, param_kinds_of(recorded), plan.window)
    return history, RecordedPolicies(history, plan.kubernetes_version, plan.change_delay)
