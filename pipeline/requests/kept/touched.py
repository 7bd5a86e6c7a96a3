"""Which objects events are about, file by file, and which of them the events that came or went since some moment touch.

The history of a request is that of its object alone, while definitions of resources and lists of objects stay the same. So new
events make kept requests stale only where they touch the same object. Each file of events has a table of its objects with a digest
of their events: `LAKE/derived/facts/FILE.objects`. The digests add up over files, so a merged file touches nothing.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from contextlib import closing
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from ingest.engine import engine_cursor
from queries import LakeReader
from queries.catalog import needed_by, split_events

from .facts import facts_folder, state_of
from .place import digest_of, keep, read_table, written_table
from .sql import statement

# An object, by a number for its name, and a digest of its events.
OBJECTS = pa.schema([pa.field("object", pa.uint64(), nullable=False), pa.field("digest", pa.uint64(), nullable=False)])
_COUNTED_MAX = 32  # files that one query counts


def objects_of(reader: LakeReader) -> dict[str, pa.Table]:
    """The objects of each file that a reader reads, with the columns OBJECTS, sorted. They are counted where they are not kept yet,
    and kept if the lake can be written."""
    folder = facts_folder(reader.files.lake) if reader.files.lake else None
    marks = {path: _mark(path) for path in reader.files.events}
    found = {path: read_table(_kept(folder, path), mark) for path, mark in marks.items()} if folder else {}
    missing = [path for path in marks if found.get(path) is None]
    for first in range(0, len(missing), _COUNTED_MAX):
        chosen = tuple(missing[first : first + _COUNTED_MAX])
        for path, table in zip(chosen, _counted(reader, chosen), strict=True):
            found[path] = table
            if folder:
                keep(_kept(folder, path), written_table(table, marks[path]))
    return {path: table for path, table in found.items() if table is not None}


def totals(tables: Iterable[pa.Table]) -> pa.Table:
    """The objects of several files together, with the columns OBJECTS; an object whose events cancel out is left out."""
    every = pa.concat_tables([OBJECTS.empty_table(), *tables])
    with closing(engine_cursor()) as connection:
        connection.register("listed", every)
        found: pa.Table = connection.sql(statement("object_totals")).to_arrow_table()
    return found.cast(OBJECTS)


def touched(before: pa.Table, now: pa.Table) -> pa.Array[Any]:
    """The objects whose events differ between two states, each given as `totals`."""
    return one_chunk(totals([before, now])["object"])


def one_chunk(column: pa.ChunkedArray[Any]) -> pa.Array[Any]:
    """A column as one array."""
    found: Any = column.combine_chunks()
    return pa.concat_arrays(found.chunks) if isinstance(found, pa.ChunkedArray) else found


def _kept(folder: Path, path: str) -> Path:
    return folder / f"{Path(path).stem}.objects"


def _mark(path: str) -> bytes:
    return digest_of([_code(), *map(str, state_of(path))]).encode()


def _counted(reader: LakeReader, paths: tuple[str, ...]) -> list[pa.Table]:
    with reader.session() as split:
        split_events(split.connection, paths)
        every = split.arrow(statement("file_objects"))
    rows = every.select(OBJECTS.names).cast(OBJECTS)
    files: list[Any] = every["file"].to_pylist()
    ends = [bisect_left(files, number) for number in range(len(paths) + 1)]
    return [rows.slice(first, end - first) for first, end in pairwise(ends)]


@lru_cache(maxsize=1)
def _code() -> str:
    """What the tables depend on except for the events: the statements, and DuckDB, whose `hash` another version may change."""
    needed = needed_by([statement("file_objects")])
    return digest_of([duckdb.__version__, str(OBJECTS), statement("file_objects"), *(each.body for each in needed)])
