"""Writes whose objects decide: the conditions are evaluated where the design evaluates them, after mutating admission.

The object is the one that validating admission saw, because every mutation comes before: the draft's enforcer is placed after
MutatingAdmissionWebhook and before ValidatingAdmissionPolicy. A deletecollection is decided once per object.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, NamedTuple

from queries import LakeReader

from ...cel.values import Unknown as CelUnknown
from ...cel.values import Value
from ...history.reconstruct import NotReplayed
from ...history.world import LogHistory
from ...policies.redacted import without_placeholders
from ...request import AdmissionRequest, Evidence, Grade, Known, Object, Unknown, worst
from ...requests.classes import Requests
from ...requests.met import Met, met
from ...requests.past import load_history
from ...runs.window import Window
from ...withheld import has_withheld
from .compiled import Asked
from .ruling import Ruling, ruling_of, unknown
from .spending import LIMITS
from .sql import statement

_Rulings = list[tuple[int, Ruling, AdmissionRequest | None]]
_UNREAD: _Rulings = []


class Pass(NamedTuple):
    """One pass of one write with its ruling. `request` is what validating admission saw; None where that is not known."""

    question: int
    cluster: str
    audit_id: str
    ts: datetime
    stage_ts: datetime
    number: int
    ruling: Ruling
    request: AdmissionRequest | None


class Writes:
    """The writes of the table `conditions_written`; `asked` has the answers of the chain by the number of the question."""

    def __init__(self, reader: LakeReader, window: Window, asked: Mapping[int, Asked]) -> None:
        self._reader = reader
        self._window = window
        self._asked = asked
        self._history: LogHistory = load_history(reader, (), window)
        self._counted: Mapping[str, Any] | None = None

    def passes(self) -> Iterator[Pass]:
        """Every pass with its ruling, in the order of arrival."""
        requests = Requests.of(self._reader, statement("chosen"), self._window)
        for found, rulings in met(requests, self._reader, self._history, self._rulings, _UNREAD):
            event = found.event
            for number, ruling, request in rulings:
                yield Pass(found.row["number"], event.cluster, event.audit_id, event.ts, event.stage_ts, number, ruling, request)

    def _rulings(self, recorded: Met) -> _Rulings:
        found, asked = recorded.requests(), self._asked[recorded.row["number"]]
        if recorded.row is not self._counted:  # a request may be judged a second time
            self._counted = recorded.row
            asked.chain.run.grow(1)
        if isinstance(found, NotReplayed):
            return [(0, unknown(found.reason), None)]
        return [(request.pass_index, ruling_on(asked, request), request) for request in found]


def ruling_on(asked: Asked, request: AdmissionRequest) -> Ruling:
    """The ruling on one write, from the object that validating admission saw."""
    values, activation = _evidence(request), activation_of(request)
    found = asked.on(activation)
    if found is None:
        lacking = [f"{name}: {each.reason}" for name, each in values.items() if isinstance(each, Unknown)]
        lacking += [f"{name}: values in it were redacted" for name, each in values.items() if _is_redacted(each)]
        further = [each for each in asked.open_of(activation) if each in LIMITS or each.startswith("request.")]
        return unknown(asked.unknown or "; ".join([*lacking, *further]) or "only its authorizer can evaluate a condition")
    grades = [each.grade for name, each in values.items() if isinstance(each, Known) and name != "options"]
    return ruling_of(found, str(worst(*grades, Grade.EXACT)))


def activation_of(request: AdmissionRequest) -> dict[str, Value]:
    """The variables that are known only with the objects of a write."""
    return {name: _value(name, each) for name, each in _evidence(request).items()}


def _evidence(request: AdmissionRequest) -> dict[str, Evidence[Object | None]]:
    return {"object": request.object, "oldObject": request.old_object, "options": request.options}


def _value(name: str, evidence: Evidence[Object | None]) -> Value:
    if isinstance(evidence, Unknown):
        return CelUnknown(name)
    value: Any = evidence.value
    return without_placeholders(name, value) if evidence.is_redacted else value


def _is_redacted(evidence: Evidence[Object | None]) -> bool:
    return isinstance(evidence, Known) and evidence.is_redacted and has_withheld(evidence.value)
