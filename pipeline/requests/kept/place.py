"""Writing derived data: a lake that cannot be written has none, and works without it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import pyarrow as pa

from ingest.durable import write_whole

_MADE_OF = b"hindcast.made_of"


def keep(file: Path, content: bytes) -> None:
    """Write a whole file. If the lake cannot be written, nothing is kept, and the next replay computes the content again."""
    with suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        write_whole(file, content)  # two replays may keep one file at a time


def digest_of(texts: Iterable[str]) -> str:
    """A short name for some texts."""
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:16]


def written_table(table: pa.Table, mark: bytes) -> bytes:
    """A table as a file that says what it was made of."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema.with_metadata({_MADE_OF: mark})) as file:
        file.write_table(table)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def read_table(file: Path, mark: bytes) -> pa.Table | None:
    """A table that `written_table` made; None if it is missing, damaged, or made of something else."""
    with suppress(OSError, pa.ArrowException), pa.ipc.open_file(pa.py_buffer(file.read_bytes())) as opened:
        if (opened.schema.metadata or {}).get(_MADE_OF) == mark:
            return opened.read_all().replace_schema_metadata(None)
    return None
