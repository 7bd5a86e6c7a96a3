"""Writes the verdicts of runs as one Parquet file, with what the log recorded of each request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from ingest.durable import own_name
from queries import LakeReader

from .sql import statement
from .verdict import EVIDENCE

_SOURCES = pa.schema([pa.field("ref", pa.string()), pa.field("file", pa.string())])


def export(
    reader: LakeReader, verdicts: Sequence[Path], file: Path, *, only: bool = False, sources: Mapping[str, str] | None = None
) -> int:
    """Write the verdicts of some runs to a Parquet file; returns the number of rows. The columns are in runs/sql/export.sql.

    `sources` has the file of each manifest, by `KIND/NAME`: the places of rules begin with it. `only`: policies that a run does not
    name count as removed, so they deny no request. The file is whole, or as it was before.
    """
    connection = reader.connection
    named = list((sources or {}).items())
    table = pa.table({"ref": [ref for ref, _ in named], "file": [path for _, path in named]}, _SOURCES)
    connection.register("sources", table)
    # A request as a whole is known as well as the weakest verdict that decides it.
    connection.execute(f"CREATE OR REPLACE TEMP MACRO evidence_names() AS {list(EVIDENCE)}")
    for index, path in enumerate(verdicts):
        found = f"CREATE OR REPLACE TEMP TABLE exported_{index} AS {statement('export')}"
        connection.execute(found, {"verdicts": str(path), "only": only})
    unfinished = own_name(file)
    try:
        tables = " UNION ALL BY NAME ".join(f"FROM exported_{index}" for index in range(len(verdicts)))
        target = str(unfinished).replace("'", "''")
        rows: int = connection.execute(f"COPY ({tables}) TO '{target}' (FORMAT parquet, COMPRESSION zstd)").fetchall()[0][0]
        unfinished.replace(file)
    finally:
        unfinished.unlink(missing_ok=True)
    return rows
