"""One part of a replay: rows of the lake become admission requests, and those become verdicts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from queries import LakeReader

from ..admission.policies.decide import Subject
from ..admission.policies.dispatch import CompiledSet, evaluate_request
from ..history.event import Event
from ..history.outcome import Admission
from ..history.reconstruct import Discovery, NotReplayed, admission_requests
from ..history.versions import LogVersions
from ..history.writes import versions_of
from ..matching import Target
from ..request import AdmissionRequest, Operation
from ..world import History
from .plan import Part, ReplayPlan, Window, register_classes
from .sql import statement
from .verdicts import VerdictBuilder

_BATCH_ROWS = 1024


class PoliciesInForce(Protocol):
    """Which compiled policies a request met."""

    def at(self, request: AdmissionRequest) -> CompiledSet:
        """The policies as of the request."""
        ...

    @property
    def reads_old_object(self) -> bool:
        """Whether any of them looks at oldObject."""
        ...


@dataclass(frozen=True, slots=True)
class GivenPolicies:
    """The same policies for every request: the ordinary what-if."""

    compiled: CompiledSet

    def at(self, request: AdmissionRequest) -> CompiledSet:
        """See PoliciesInForce."""
        return self.compiled

    @property
    def reads_old_object(self) -> bool:
        """See PoliciesInForce."""
        return reads_old_object(self.compiled)


def reads_old_object(compiled: CompiledSet) -> bool:
    """Whether expressions or object selectors look at oldObject."""
    selectors = [entry.matcher.criteria.object_selector for entry in compiled.entries if entry.matcher]
    selectors += [bound.matcher.criteria.object_selector for entry in compiled.entries for bound in entry.bound if bound.matcher]
    has_selector = any(selector is not None and selector.requirements for selector in selectors)
    return has_selector or "oldObject" in compiled.reads.roots


@dataclass(frozen=True)
class PartResult:
    """The verdicts of one part, and how many of its requests were evaluated or not, by reason."""

    verdicts: pa.Table
    evaluated: int
    not_evaluated: Mapping[str, int]


class Replayer:
    """What one worker holds while it walks parts: the lake, the policies and the history of the cluster."""

    def __init__(self, plan: ReplayPlan, run_id: str, reader: LakeReader, policies: PoliciesInForce, history: History) -> None:
        self._run_id = run_id
        self._window = plan.window
        self._reader = reader
        self._policies = policies
        self._history = history
        self._discovery: Discovery | None = history if hasattr(history, "custom_kind") else None
        register_classes(reader, plan.classes)

    def replay(self, part: Part) -> PartResult:
        """Evaluate the requests of one part, in the order of their arrival."""
        builder = VerdictBuilder()
        evaluated = 0
        not_evaluated: Counter[str] = Counter()
        planned, versions = self._read(part)
        for row in planned:
            found = admission_requests(row, versions, self._discovery)
            if isinstance(found, NotReplayed):
                not_evaluated[found.reason] += 1
                continue
            evaluated += 1
            for request in found:
                world = self._history.at(request.cluster, request.ts)
                builder.add(request, evaluate_request(self._policies.at(request), request, world))
        return PartResult(builder.table(self._run_id), evaluated, not_evaluated)

    def _read(self, part: Part) -> tuple[list[dict[str, Any]], LogVersions]:
        """The planned rows, and the versions of the objects whose earlier state will be asked for."""
        planned: list[dict[str, Any]] = []
        versions = LogVersions()
        for row in self._rows(part):
            if row.pop("is_planned"):
                planned.append(row)
            for key, version in versions_of(Event.from_row(row)):
                versions.add(key, version)
        return planned, versions

    def _rows(self, part: Part) -> Iterator[dict[str, Any]]:
        parameters = part_parameters(part, self._window) | {"reads_old_object": self._policies.reads_old_object}
        reader = self._reader.connection.execute(statement("rows"), parameters).to_arrow_reader(_BATCH_ROWS)
        for batch in reader:
            names = batch.schema.names
            columns = [column.to_pylist() for column in batch.columns]
            for values in zip(*columns, strict=True):
                yield dict(zip(names, values, strict=True))


def part_parameters(part: Part, window: Window) -> dict[str, Any]:
    """A part as named SQL parameters."""
    return {
        **window.parameters,
        "cluster": part.cluster,
        "first_resource": part.first[0],
        "first_namespace": part.first[1],
        "last_resource": part.last[0],
        "last_namespace": part.last[1],
        "after_name": part.after_name,
        "last_name": part.last_name,
    }
