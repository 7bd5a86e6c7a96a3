"""The verdict table: one row per (audit_id, pass, policy, binding, param, expression_index), the contract with reports.

Most rows of a run are equal but for the request: what a policy says of an admitted request is made once and repeated. So a table is
built from the distinct verdicts and two columns of indices, and no Python object is made per row.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

import pyarrow as pa

from ..admission.policies.verdict import PolicyVerdict
from ..request import AdmissionRequest

_FIELDS: list[pa.Field[Any]] = [
    pa.field("run_id", pa.string(), nullable=False),
    pa.field("cluster", pa.string(), nullable=False),
    pa.field("audit_id", pa.string(), nullable=False),
    pa.field("ts", pa.timestamp("us", tz="UTC"), nullable=False),
    pa.field("pass", pa.int32(), nullable=False),
    pa.field("policy", pa.string(), nullable=False),
    pa.field("binding", pa.string()),
    pa.field("param_namespace", pa.string()),
    pa.field("param_name", pa.string()),
    pa.field("expression_index", pa.int32()),
    pa.field("decision", pa.string(), nullable=False),
    pa.field("effect", pa.string()),
    pa.field("message", pa.string()),
    pa.field("reason", pa.string()),
    pa.field("code", pa.int32()),
    pa.field("why", pa.string()),
    pa.field("evidence", pa.string(), nullable=False),
    pa.field("actions", pa.list_(pa.string()), nullable=False),
    pa.field("audit_annotations", pa.map_(pa.string(), pa.string()), nullable=False),
]
VERDICTS = pa.schema(_FIELDS)
_REQUEST_COLUMNS = ("cluster", "audit_id", "ts", "pass")


class VerdictBuilder:
    """Collects the verdicts of some requests, in the order in which they come."""

    def __init__(self) -> None:
        self._requests: list[tuple[str, str, datetime, int]] = []
        self._distinct: list[PolicyVerdict] = []
        self._index_of: dict[int, int] = {}  # by identity: the list above keeps every verdict alive
        self._request_indices: list[int] = []
        self._verdict_indices: list[int] = []

    def __len__(self) -> int:
        return len(self._verdict_indices)

    def add(self, request: AdmissionRequest, verdicts: Iterable[PolicyVerdict]) -> None:
        """Add what the policies say of one request; nothing if they say nothing."""
        position = len(self._requests)
        before = len(self._verdict_indices)
        index_of, add_verdict = self._index_of, self._verdict_indices.append
        for verdict in verdicts:
            index = index_of.get(id(verdict))
            if index is None:
                index = index_of[id(verdict)] = len(self._distinct)
                self._distinct.append(verdict)
            add_verdict(index)
        count = len(self._verdict_indices) - before
        if count:
            self._requests.append((request.cluster, request.audit_id, request.ts, request.pass_index))
            self._request_indices += [position] * count

    def table(self, run_id: str) -> pa.Table:
        """The rows as a table with the schema VERDICTS."""
        requests = _columns(self._requests, _REQUEST_COLUMNS).take(pa.array(self._request_indices, pa.int64()))
        verdicts = _columns([_values(verdict) for verdict in self._distinct], VERDICTS.names[1 + len(_REQUEST_COLUMNS) :])
        verdicts = verdicts.take(pa.array(self._verdict_indices, pa.int64()))
        run = pa.repeat(pa.scalar(run_id, pa.string()), len(self))
        return pa.Table.from_arrays([run, *requests.columns, *verdicts.columns], schema=VERDICTS)


def _values(verdict: PolicyVerdict) -> tuple[object, ...]:
    """The columns from `policy` on. What kube-apiserver leaves empty is null: a column of empty strings says nothing."""
    return (
        verdict.policy,
        verdict.binding,
        verdict.param_namespace,
        verdict.param_name,
        verdict.expression_index,
        str(verdict.decision),
        str(verdict.effect) if verdict.effect else None,
        verdict.message or None,
        verdict.reason or None,
        verdict.code,
        verdict.why or None,
        str(verdict.evidence),
        [str(action) for action in verdict.actions],
        list(verdict.audit_annotations.items()),
    )


def _columns(rows: Sequence[tuple[object, ...]], names: Sequence[str]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(names)
    fields = [VERDICTS.field(name) for name in names]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, fields, strict=True)]
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))
