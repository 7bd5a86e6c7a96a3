"""Recorded requests that wait for the history of their objects, in groups that fit into memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

# Requests that wait for the history of their objects are held up to this many bytes.
WAITING_BYTES_MAX = 256 * 1024 * 1024


def groups_of(batches: Iterable[pa.RecordBatch]) -> Iterator[list[pa.RecordBatch]]:
    """The batches in groups that end once they take more than WAITING_BYTES_MAX."""
    held: list[pa.RecordBatch] = []
    held_bytes = 0
    for batch in batches:
        held.append(batch)
        held_bytes += batch.nbytes
        if held_bytes > WAITING_BYTES_MAX:
            yield held
            held, held_bytes = [], 0
    if held:
        yield held
