"""Builds and writes verdict tables; see pipeline/runs/verdict.py for their columns.

Most rows of a run differ only in the request: a policy's verdict on an admitted request is made once and repeated. So a table is
built from the distinct verdicts and two columns of indices, without a Python object per row.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ..row import Row
from .verdict import PASS_FIELDS, VERDICT_VALUES, VERDICTS, Verdict

_TEXTS = [field.name for field in VERDICTS if pa.types.is_string(field.type)]
# The same columns as they are built and written; a reader gets plain texts.
ENCODED = pa.schema(
    field.with_type(pa.dictionary(pa.int32(), pa.string())) if field.name in _TEXTS else field for field in VERDICTS
)
# A moment is that of few rows, so a dictionary of moments would only take room. Rows are in their order, so statistics of moments
# let a reader skip most of a file; those of other columns take as long as a third of the writing, and few questions gain by them.
_IN_ORDER = ["ts"]
_REPEATED = [field.name for field in VERDICTS if field.name not in _IN_ORDER]
# The columns of a request that a table of verdicts holds.
IDENTITY = ["cluster", "audit_id", "ts", "stage_ts"]
# The tables of a part of a run other than the distinct verdicts: one row per distinct set of them, and per pass of a request.
SETS = pa.schema([pa.field("members", pa.list_(pa.field("item", pa.int32(), nullable=False)), nullable=False)])
JUDGED = pa.schema(
    [
        *PASS_FIELDS[:3],
        pa.field("stage_ts", pa.timestamp("us", tz="UTC"), nullable=False),
        PASS_FIELDS[3],
        pa.field("set", pa.int32(), nullable=False),
    ]
)
# A builder holds what it was given as rows: a request by its row, the pass and the number of the set.
_ADDED = pa.schema([pa.field(name, pa.int32()) for name in ("row", "pass", "set")])
# Requests arrive in the order of `ts`.
_ARRIVAL: list[tuple[str, Literal["ascending"]]] = [
    (name, "ascending") for name in ("ts", "stage_ts", "audit_id", "cluster", "pass")
]


NOTHING = -1  # stands for the set of no verdicts


class Judged(NamedTuple):
    """The verdicts of some requests: see JUDGED, SETS and VERDICT_VALUES."""

    judged: pa.Table
    sets: pa.Table
    verdicts: pa.Table


# A pass of a request: cluster, auditID, time, time of its stage, and the number of the pass.
Place: TypeAlias = tuple[str, str, datetime, datetime, int]
# The same as a table of verdicts has it.
Pass: TypeAlias = tuple[str, str, datetime, int]
JudgedPass: TypeAlias = tuple[Place, Sequence[Row]]


class VerdictFile:
    """Writes verdicts to a Parquet file."""

    def __init__(self, path: Path) -> None:
        # Readers of the file get VERDICTS: only this writer encodes texts as dictionaries.
        stored = {"ARROW:schema": base64.b64encode(VERDICTS.serialize().to_pybytes()).decode()}
        self._writer = pq.ParquetWriter(
            path,
            ENCODED,
            compression="zstd",
            store_schema=False,
            use_dictionary=_REPEATED,  # type: ignore[arg-type]  # pyarrow's types lack the list of columns
            write_statistics=_IN_ORDER,
        )
        self._writer.add_key_value_metadata(stored)

    def __enter__(self) -> VerdictFile:
        return self

    def __exit__(self, *error: object) -> None:
        self._writer.close()

    def write(self, table: pa.Table) -> None:
        """Append a table with the columns ENCODED."""
        if table.num_rows:
            self._writer.write_table(table)


class VerdictBuilder:
    """Collects the verdicts of the requests of one part, in any order."""

    def __init__(self) -> None:
        self._rows: list[int] = []
        self._passes: list[int] = []
        self._found: list[int] = []
        self._alike: list[pa.Table] = []
        self._distinct: list[Verdict] = []
        self._sets: dict[tuple[int, ...], int] = {}
        # By identity, which is cheap; it is stable because the objects are kept here.
        self._index_of: dict[int, int] = {}
        self._set_of: dict[int, int] = {}
        self._kept: list[object] = []
        self._by_content: dict[str, int] = {}

    def add(self, row: int, verdicts: Sequence[Verdict], pass_index: int = 0) -> None:
        """Add the verdicts on one pass of the request in a row; without verdicts it adds nothing."""
        found = self.set_of(verdicts)
        if found != NOTHING:
            self._rows.append(row)
            self._passes.append(pass_index)
            self._found.append(found)

    def add_alike(self, groups: pa.Array[Any], verdicts: Sequence[Sequence[Verdict]]) -> None:
        """Add the verdicts on the first pass of all requests, row by row from 0: those with the number in `groups`."""
        found = pa.array(map(self.set_of, verdicts), pa.int32()).take(groups)
        rows = pa.array(range(len(groups)), pa.int32())
        table = pa.table([rows, pa.repeat(pa.scalar(0, pa.int32()), len(groups)), found], schema=_ADDED)
        self._alike.append(table.filter(pc.not_equal(found, pa.scalar(NOTHING, pa.int32()))))

    def set_of(self, verdicts: Sequence[Verdict]) -> int:
        """The number of a set of verdicts, which is new if no equal set was seen; NOTHING without verdicts."""
        found = self._set_of.get(id(verdicts))
        if found is None:
            self._kept.append(verdicts)
            members = tuple(map(self._index, verdicts))
            found = self._set_of[id(verdicts)] = self._sets.setdefault(members, len(self._sets)) if members else NOTHING
        return found

    def set_of_rows(self, rows: Sequence[Row]) -> int:
        """As `set_of`, for rows that are made for each request: equal ones are kept once."""
        members = tuple(map(self._index_of_row, rows))
        return self._sets.setdefault(members, len(self._sets)) if members else NOTHING

    def _index_of_row(self, row: Row) -> int:
        index = self._index_of.get(id(row))
        if index is not None:
            return index
        content = repr(row)
        index = self._by_content.get(content)
        if index is None:
            index = self._by_content[content] = self._index(row)
        return index

    def _index(self, verdict: Verdict) -> int:
        index = self._index_of.get(id(verdict))
        if index is None:
            index = self._index_of[id(verdict)] = len(self._distinct)
            self._distinct.append(verdict)
        return index

    def judged(self, requests: pa.Table) -> pa.Table:
        """One row per pass with verdicts, with the columns JUDGED, in the order in which the requests arrived.

        `requests` has the columns IDENTITY, row by row as verdicts were added.
        """
        one_by_one = pa.table([pa.array(each, pa.int32()) for each in (self._rows, self._passes, self._found)], schema=_ADDED)
        added = pa.concat_tables([one_by_one, *self._alike]).combine_chunks()
        found = requests.take(added["row"])
        for name in ("pass", "set"):
            found = found.append_column(name, added[name])
        return in_arrival_order(found.select(JUDGED.names).cast(JUDGED))

    def sets(self) -> pa.Table:
        """The distinct sets of verdicts, with the columns SETS."""
        return pa.Table.from_arrays([pa.array([list(members) for members in self._sets], SETS.field(0).type)], schema=SETS)

    def verdicts(self) -> pa.Table:
        """The distinct verdicts, with the columns VERDICT_VALUES."""
        values = list(zip(*(verdict.row for verdict in self._distinct), strict=True)) or [()] * len(VERDICT_VALUES)
        columns = [pa.array(column, field.type) for field, column in zip(VERDICT_VALUES, values, strict=True)]
        return pa.Table.from_arrays(columns, schema=VERDICT_VALUES)


def numbered(passes: Iterable[JudgedPass]) -> tuple[Judged, int]:
    """Judged passes as tables, and how many requests they are of."""
    builder = VerdictBuilder()
    rows = [(*place, builder.set_of_rows(found)) for place, found in passes]
    columns = [pa.array([row[at] for row in rows], field.type) for at, field in enumerate(JUDGED)]
    every = pa.Table.from_arrays(columns, schema=JUDGED)
    requests = every.group_by(["cluster", "audit_id", "ts"]).aggregate([]).num_rows
    judged = every.filter(pc.not_equal(every["set"], pa.scalar(NOTHING, pa.int32())))
    return Judged(in_arrival_order(judged), builder.sets(), builder.verdicts()), requests


def in_arrival_order(judged: pa.Table) -> pa.Table:
    """Rows with the columns JUDGED in the order in which their requests arrived: the same wherever they lay in the lake."""
    return judged.take(pc.sort_indices(judged, sort_keys=_ARRIVAL))


def expanded(run_id: str, judged: pa.Table, sets: pa.Array[Any], verdicts: pa.Table) -> pa.Table:
    """Some rows of JUDGED as a table with the columns ENCODED: one row per verdict.

    `sets` has the members of each set by its number: places in `verdicts`, which has the columns VERDICT_VALUES. Texts are
    dictionary-encoded, so that each is held and written once.
    """
    members = sets.take(judged.column("set").combine_chunks())
    of_request, all_found = pc.list_parent_indices(members).cast(pa.int32()), pc.list_flatten(members)
    distinct = pc.unique(all_found)
    of_verdict = pc.index_in(all_found, value_set=distinct)
    columns: dict[str, pa.Array[Any]] = {
        "run_id": _repeated(pa.array([run_id]), pa.repeat(pa.scalar(0, pa.int32()), len(of_request)))
    }
    for name in ("cluster", "audit_id", "ts", "pass"):
        columns[name] = _repeated(judged.column(name).combine_chunks(), of_request)
    for field in VERDICT_VALUES:
        columns[field.name] = _repeated(verdicts.column(field.name).take(distinct).combine_chunks(), of_verdict)
    return pa.Table.from_arrays(list(columns.values()), schema=ENCODED)


def _repeated(values: pa.Array[Any], indices: pa.Array[Any]) -> pa.Array[Any]:
    """The values at these indices; texts as a dictionary of the distinct ones."""
    if not pa.types.is_string(values.type):
        return values.take(indices)
    encoded = values.dictionary_encode()
    return pa.DictionaryArray.from_arrays(encoded.indices.take(indices), encoded.dictionary)
