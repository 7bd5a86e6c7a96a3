"""What a replay takes from the kept inputs of plain requests, and what it keeps of them: see pipeline/derived/inputs.py.

A class is taken over as a whole or not at all. If the general path must find the verdicts of a single request, its events are read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from ..derived.inputs import INPUTS, OPTIONAL, find_inputs, make_room, name_of, publish_inputs
from .lanes import Lane

_INPUTS = "inputs.arrow"
_RECORDED = pa.schema([pa.field("class", pa.int32()), *INPUTS])
_LEFT_OUT = b"hindcast.left_out"


class InputKeeper:
    """Collects what policies read of the plain requests of one part, for the classes whose inputs are kept."""

    def __init__(self, numbers: Collection[int], columns: Mapping[int, Sequence[str]]) -> None:
        """`numbers` are those of the classes; `columns` are the columns of the record that policies read, by class."""
        self._numbers = frozenset(numbers)
        self._columns = columns
        self._left_out: set[int] = set()
        self._texts: dict[bytes, int] = {}
        self._tables: list[pa.Table] = []

    def add(self, batch: pa.RecordBatch, objects: Sequence[tuple[int, Any]], left: Sequence[int]) -> None:
        """Keep rows of a batch with the fields that policies read. A class is not kept if one of its plain rows is left out."""
        if not self._numbers:
            return
        numbers: list[Any] = batch.column("class").to_pylist()
        plains: list[Any] = batch.column("is_plain").to_pylist()
        self._left_out.update(numbers[row] for row in left if plains[row] and numbers[row] in self._numbers)
        kept = [(row, text) for row, text in objects if numbers[row] in self._numbers]
        if kept:
            texts = [self._texts.setdefault(text, len(self._texts)) for _, text in kept]
            names = ["class", *(field.name for field in INPUTS if field.name in batch.schema.names)]
            rows = batch.select([*names, "code"]).take(pa.array([row for row, _ in kept], pa.int32()))
            codes = pc.equal(rows.column("code"), pa.scalar(201, rows.schema.field("code").type)).fill_null(False)
            table = pa.Table.from_batches([rows.select(names)])
            self._tables.append(table.append_column("is_created", codes).append_column("text", pa.array(texts, pa.int32())))

    def write(self, folder: Path) -> None:
        """Write the collected inputs into the folder of a part."""
        if not self._numbers:
            return
        told = {_LEFT_OUT: msgspec.json.encode(sorted(self._left_out))}
        whole = pa.concat_tables(self._tables) if self._tables else None
        texts = pa.array([text.decode() for text in self._texts], pa.string())
        options = pa.ipc.IpcWriteOptions(compression="lz4")
        with pa.ipc.new_stream(str(folder / _INPUTS), _RECORDED.with_metadata(told), options=options) as file:
            for number in sorted(self._numbers) if whole is not None else ():
                assert whole is not None
                rows = whole.filter(pc.equal(whole["class"], pa.scalar(number, pa.int32())))
                if rows.num_rows:
                    file.write_table(self._encoded(rows, number, texts).replace_schema_metadata(told))

    def _encoded(self, rows: pa.Table, number: int, texts: pa.Array[Any]) -> pa.Table:
        """The rows of a class, without columns that no policy reads, and with the texts that they name."""
        used = pc.unique(rows["text"])
        object_ = pa.DictionaryArray.from_arrays(pc.index_in(rows["text"].combine_chunks(), used), texts.take(used))
        columns: list[Any] = [rows["class"].combine_chunks()]
        for field in INPUTS:
            if field.name == "object":
                columns.append(object_)
            elif field.name in OPTIONAL and field.name not in self._columns[number]:
                columns.append(pa.nulls(rows.num_rows, field.type))
            else:
                columns.append(rows[field.name].combine_chunks().cast(field.type))
        return pa.Table.from_arrays(columns, schema=_RECORDED)


def found_inputs(folder: Path, lanes: Sequence[Lane | None]) -> dict[int, Path]:
    """The kept inputs of lanes, by their numbers."""
    paths = ((number, find_inputs(folder, _name(lane))) for number, lane in enumerate(lanes) if lane is not None)
    return {number: path for number, path in paths if path is not None}


def keep_inputs(
    folder: Path, lanes: Sequence[Lane | None], numbers: Collection[int], parts: Iterable[Path], events_bytes: int
) -> None:
    """Keep the inputs that all parts of a finished run collected for lanes with these numbers."""
    tables: dict[int, list[pa.Table]] = {number: [] for number in numbers}
    left_out: set[int] = set()
    for part in parts:
        try:
            with pa.OSFile(str(part / _INPUTS), "rb") as source, pa.ipc.open_stream(source) as stream:
                left_out.update(msgspec.json.decode((stream.schema.metadata or {}).get(_LEFT_OUT, b"[]"), type=list[int]))
                for batch in stream:
                    number: Any = batch.column("class")[0].as_py()
                    tables[number].append(pa.Table.from_batches([batch]).drop_columns(["class"]).replace_schema_metadata(None))
        except (OSError, pa.ArrowException):
            return
    for number in sorted(set(tables) - left_out):
        publish_inputs(folder, _name(_there(lanes[number])), tables[number])
    make_room(folder, [_name(lane) for lane in lanes if lane is not None], events_bytes)


def _name(lane: Lane) -> str:
    return name_of(lane.name, lane.reads, lane.columns)


def _there(lane: Lane | None) -> Lane:
    assert lane is not None
    return lane
