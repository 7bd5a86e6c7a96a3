"""The verdict table: one row per (audit_id, pass, policy, binding, param, expression_index), the contract with reports.

Most rows of a run are equal but for the request: what a policy says of an admitted request is made once and repeated. So a table is
built from the distinct verdicts and two columns of indices, and no Python object is made per row.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ..admission.policies.verdict import PolicyVerdict

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
    # Configuration errors, errors of audit annotations and a missing namespace deny whatever the binding's actions are.
    pa.field("bypasses_actions", pa.bool_(), nullable=False),
]
VERDICTS = pa.schema(_FIELDS)
_TEXTS = [field.name for field in VERDICTS if pa.types.is_string(field.type)]
# The same columns as they are built and written: what is read again are plain texts.
ENCODED = pa.schema(
    field.with_type(pa.dictionary(pa.int32(), pa.string())) if field.name in _TEXTS else field for field in VERDICTS
)
# What a table of verdicts is told of each request, and what orders it: requests arrive in the order of `ts`.
IDENTITY = ["cluster", "audit_id", "ts", "stage_ts"]
_ARRIVAL: list[tuple[str, Literal["ascending"]]] = [("ts", "ascending"), ("stage_ts", "ascending"), ("audit_id", "ascending")]
_OF_VERDICT = _FIELDS[5:]  # from `policy` on, in the order of `_values`


class Collector(Protocol):
    """What takes the verdicts of requests as they are found."""

    def add(self, row: int, verdicts: Sequence[PolicyVerdict], pass_index: int = 0) -> None:
        """Take what the policies say of one pass of the request in a row."""
        ...


class VerdictFile:
    """Writes verdicts to a Parquet file."""

    def __init__(self, path: Path) -> None:
        # Whoever reads the file gets VERDICTS: that texts come as dictionaries is a matter of this writer.
        stored = {"ARROW:schema": base64.b64encode(VERDICTS.serialize().to_pybytes()).decode()}
        self._writer = pq.ParquetWriter(path, ENCODED, compression="zstd", store_schema=False)
        self._writer.add_key_value_metadata(stored)

    def __enter__(self) -> VerdictFile:
        return self

    def __exit__(self, *error: object) -> None:
        self._writer.close()

    def write(self, table: pa.Table) -> None:
        """Append a table with the columns ENCODED."""
        if table.num_rows:
            self._writer.write_table(table)


def rows_in(file: Path) -> int | None:
    """How many verdicts a file holds; None where it is not there, or not whole."""
    try:
        return pq.read_metadata(file).num_rows
    except (OSError, pa.ArrowException):
        return None


class VerdictBuilder:
    """Collects the verdicts of the requests of one table, in any order."""

    def __init__(self) -> None:
        self._passes: dict[int, list[tuple[int, tuple[int, ...]]]] = {}
        self._distinct: list[PolicyVerdict] = []
        # By identity, which is cheap; what is kept here keeps its identity.
        self._index_of: dict[int, int] = {}
        self._indices_of: dict[int, tuple[int, ...]] = {}
        self._kept: list[object] = []

    def add(self, row: int, verdicts: Sequence[PolicyVerdict], pass_index: int = 0) -> None:
        """Add what the policies say of one pass of the request in a row; nothing if they say nothing."""
        indices = self._indices_of.get(id(verdicts))
        if indices is None:
            self._kept.append(verdicts)
            indices = self._indices_of[id(verdicts)] = tuple(map(self._index, verdicts))
        if indices:
            self._passes.setdefault(row, []).append((pass_index, indices))

    def _index(self, verdict: PolicyVerdict) -> int:
        index = self._index_of.get(id(verdict))
        if index is None:
            index = self._index_of[id(verdict)] = len(self._distinct)
            self._distinct.append(verdict)
        return index

    def table(self, run_id: str, requests: pa.Table) -> pa.Table:
        """The verdicts as a table with the columns VERDICTS, in the order in which the requests arrived.

        `requests` has the columns IDENTITY, row by row as verdicts were added. Texts are dictionary-encoded, so that each is held
        and written once.
        """
        rows: list[int] = []
        passes: list[int] = []
        found: list[int] = []
        arrived: list[Any] = pc.sort_indices(requests, sort_keys=_ARRIVAL).to_pylist()
        for row in arrived:
            for pass_index, indices in self._passes.get(row, ()):
                found += indices
                rows += [row] * len(indices)
                passes += [pass_index] * len(indices)
        of_request, of_verdict = pa.array(rows, pa.int32()), pa.array(found, pa.int32())
        columns: dict[str, pa.Array[Any]] = {
            "run_id": _repeated(pa.array([run_id]), pa.repeat(pa.scalar(0, pa.int32()), len(rows)))
        }
        for name in ("cluster", "audit_id", "ts"):
            columns[name] = _repeated(requests.column(name).combine_chunks(), of_request)
        columns["pass"] = pa.array(passes, pa.int32())
        values = list(zip(*map(_values, self._distinct), strict=True)) or [()] * len(_OF_VERDICT)
        for field, column in zip(_OF_VERDICT, values, strict=True):
            columns[field.name] = _repeated(pa.array(column, field.type), of_verdict)
        return pa.Table.from_arrays(list(columns.values()), schema=ENCODED)


def _repeated(values: pa.Array[Any], indices: pa.Array[Any]) -> pa.Array[Any]:
    """The values at these indices; texts as a dictionary of the distinct ones."""
    if not pa.types.is_string(values.type):
        return values.take(indices)
    encoded = values.dictionary_encode()
    return pa.DictionaryArray.from_arrays(encoded.indices.take(indices), encoded.dictionary)


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
        verdict.bypasses_actions,
    )
