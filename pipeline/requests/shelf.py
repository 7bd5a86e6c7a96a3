"""Rows that are shelved by partition, in a file, so that a reader of some partitions reads only these."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

# Rows are held until they are this large together, so that each write of a partition has more than a few rows.
_HELD_BYTES_MAX = 64 * 1024 * 1024
_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4")
PARTITION = "partition"


class Entry(NamedTuple):
    """One batch of a file: the rows of one partition."""

    partition: int
    rows: int


class ShelfWriter:
    """Shelves tables with a column `partition`; a context manager: at its end the file is whole."""

    def __init__(self, folder: Path, name: str) -> None:
        self._file, self._index = _files(folder, name)
        self._held: list[pa.RecordBatch] = []
        self._held_bytes = 0
        self._writer: pa.ipc.RecordBatchFileWriter | None = None
        self._entries: list[Entry] = []

    def __enter__(self) -> ShelfWriter:
        return self

    def __exit__(self, *error: object) -> None:
        if not any(error):
            self._flush()
        if self._writer is not None:
            self._writer.close()
        if not any(error):
            self._index.write_bytes(msgspec.json.encode(self._entries))

    def add(self, batch: pa.RecordBatch) -> None:
        """Shelve rows; they are copied if their batch holds other rows too."""
        self._held.append(batch)
        self._held_bytes += batch.nbytes
        if self._held_bytes > _HELD_BYTES_MAX:
            self._flush()

    def _flush(self) -> None:
        if not self._held:
            return
        table = pa.Table.from_batches(self._held)
        self._held.clear()
        self._held_bytes = 0
        if self._writer is None:
            self._writer = pa.ipc.new_file(str(self._file), table.schema, options=_OPTIONS)
        ordered = table.take(pc.sort_indices(table, sort_keys=[(PARTITION, "ascending")])).combine_chunks()
        for batch in ordered.to_batches():
            first = 0
            partitions: list[Any] = batch.column(PARTITION).to_pylist()
            for partition, rows in sorted(Counter(partitions).items()):
                self._writer.write_batch(batch.slice(first, rows))
                self._entries.append(Entry(partition, rows))
                first += rows


def entries(folder: Path, name: str) -> list[Entry]:
    """The content of a file, batch by batch."""
    return msgspec.json.decode(_files(folder, name)[1].read_bytes(), type=list[Entry])


def read_shelf(folder: Path, name: str, first: int, end: int) -> Iterator[pa.RecordBatch]:
    """The batches of the partitions from `first` up to, but not including, `end`."""
    wanted = [number for number, entry in enumerate(entries(folder, name)) if first <= entry.partition < end]
    if wanted:
        with pa.memory_map(str(_files(folder, name)[0])) as source, pa.ipc.open_file(source) as file:
            for number in wanted:
                yield file.get_batch(number)


def copy_shelf(source: Path, target: Path, name: str, first: int, end: int) -> None:
    """Copy the partitions from `first` up to, but not including, `end` into a file of another folder."""
    file, index = _files(target, name)
    index.write_bytes(msgspec.json.encode([entry for entry in entries(source, name) if first <= entry.partition < end]))
    writer: pa.ipc.RecordBatchFileWriter | None = None
    for batch in read_shelf(source, name, first, end):
        writer = writer or pa.ipc.new_file(str(file), batch.schema, options=_OPTIONS)
        writer.write_batch(batch)
    if writer is not None:
        writer.close()


def _files(folder: Path, name: str) -> tuple[Path, Path]:
    return folder / f"{name}.arrow", folder / f"{name}.json"
