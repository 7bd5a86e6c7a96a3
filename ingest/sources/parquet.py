"""Parquet tables of audit events: each row becomes a JSON object of its columns."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from .compressed import DamagedError

MAGIC = b"PAR1"
_ROWS = 500
_MEMORY_BYTES = 64 << 20
_encoder = msgspec.json.Encoder()


def parquet_rows(name: str, blocks: Iterator[bytes]) -> Iterator[bytes]:
    """Each row as a JSON object on one line. Parquet is read from its end, so the content is copied first.

    Raises DamagedError for content that is not a whole Parquet file.
    """
    with tempfile.SpooledTemporaryFile(max_size=_MEMORY_BYTES) as copy:
        copy.writelines(blocks)
        copy.seek(0)
        try:
            with pq.ParquetFile(pa.PythonFile(copy, mode="r")) as file:
                for batch in file.iter_batches(_ROWS):
                    yield b"".join(_encoder.encode(_plain(row)) + b"\n" for row in batch.to_pylist())
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            raise DamagedError(f"the Parquet file is damaged: {error}") from error


def _plain(value: Any) -> Any:
    """A value as JSON has it; absent members of a struct are left out, and a map is an object."""
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items() if item is not None}
    if isinstance(value, list):
        if value and all(isinstance(item, tuple) and len(item) == 2 for item in value):
            return {str(name): _plain(item) for name, item in value}
        return [_plain(item) for item in value]
    if isinstance(value, datetime):
        return value.isoformat()
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
