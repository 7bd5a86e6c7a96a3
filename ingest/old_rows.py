"""Rows of lakes of format 1, which kept Hindcast's notes among the annotations, next to what strangers sent.

They are read with their notes in the columns of today, and compaction writes them so. What redaction and translation noted is
believed: it can only make a verdict unknown. Reviews and dry runs are believed where one of Hindcast's own doors stored the row. In
a copy that came from elsewhere they stay annotations.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from .engine import engine_cursor
from .notes import DRY_RUN, PREFIX, REDACTED, REVIEW, SIGNER, TRANSLATED, WORDING
from .schema import EVENTS

_HARMLESS = ", ".join(f"'{PREFIX}{name}'" for name in (REDACTED, TRANSLATED, WORDING, SIGNER))
_DECIDING = ", ".join(f"'{PREFIX}{name}'" for name in (REVIEW, DRY_RUN))
_DOORS = "split_part(ingest_source, ':', 1) IN ('webhook', 'file')"


def as_now(rows: str, are_ours: bool = True) -> str:
    """A SELECT of rows of EVENTS; those of format 1 have null `notes`; `are_ours`: they are of a local lake."""
    is_reviewed = f"(list_contains(flags, 'reviewed') AND {_DOORS})" if are_ours else "false"
    is_note = f"(entry.key IN ({_HARMLESS}) OR (entry.key IN ({_DECIDING}) AND {is_reviewed}))"
    entries = "map_entries(annotations)"
    stripped = f"lambda entry: {{'key': entry.key[{len(PREFIX) + 1}:], 'value': entry.value}}"
    return f"""(
        SELECT * REPLACE (
            CASE WHEN notes IS NULL THEN map_from_entries(list_filter({entries}, lambda entry: NOT {is_note})) ELSE annotations END
                AS annotations,
            CASE
                WHEN notes IS NULL
                THEN map_from_entries(list_transform(list_filter({entries}, lambda entry: {is_note}), {stripped}))
                ELSE notes
            END AS notes,
            CASE WHEN notes IS NULL AND {is_reviewed} THEN extra ELSE review END AS review,
            CASE WHEN notes IS NULL AND {is_reviewed} THEN NULL ELSE extra END AS extra,
            CASE WHEN notes IS NULL AND NOT {is_reviewed} THEN list_filter(flags, lambda flag: NOT starts_with(flag, 'reviewed'))
                ELSE flags END AS flags
        )
        FROM {rows}
    )"""


@lru_cache(maxsize=100_000)
def is_old(path: str) -> bool:
    """Whether a file of events is of format 1. A file never changes. Raises OSError or ArrowException where it cannot be read."""
    return "notes" not in pq.read_schema(path).names


def read_events(path: Path) -> pa.Table:
    """The rows of a file of the lake in today's columns. Raises OSError or ArrowException where it cannot be read."""
    table = pq.read_table(path, partitioning=None)
    if "stage_ts" not in table.column_names or "level" not in table.column_names or "notes" in table.column_names:
        return table
    for name in ("notes", "review"):
        item: Any = EVENTS.field(name)
        table = table.append_column(item.with_nullable(True), pa.nulls(table.num_rows, item.type))
    connection = engine_cursor()
    try:
        connection.register("old_rows", table)
        found: pa.Table = connection.sql(f"FROM {as_now('old_rows')}").to_arrow_table()
    finally:
        connection.close()
    return found.select(EVENTS.names).cast(EVENTS)
