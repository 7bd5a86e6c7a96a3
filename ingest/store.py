"""Once-only storage: decode a unit of raw events, drop what the lake already holds, write the rest, and say what was read.

A row's identity is (cluster, audit_id, stage, stage_ts). A retried batch, a re-read log file and the log file of a server whose
webhook was received repeat all four exactly, so a duplicate lies in a file whose range of stage_ts covers it. No other state is
kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from .decode import Decoded, decode_events
from .errors import LakeError
from .lake import LakeWriter
from .manifest import DataFile
from .quarantine import Quarantined, write_quarantine

_KEY = "cluster, audit_id, stage, stage_ts"
# What a log file and a webhook may have kept differently of one event. ingest_* and flags are ours and do not count.
_CONTENT = "n.request_object IS DISTINCT FROM s.request_object OR n.response_object IS DISTINCT FROM s.response_object"


@dataclass(slots=True)
class Counts:
    """What became of events. `conflicting` are duplicates whose bodies differ from what is stored; they are also in `duplicate`."""

    read: int = 0
    stored: int = 0
    duplicate: int = 0
    conflicting: int = 0
    quarantined: int = 0

    def add(self, other: Counts) -> None:
        """Sum up, field by field."""
        for item in fields(self):
            setattr(self, item.name, getattr(self, item.name) + getattr(other, item.name))


@dataclass(frozen=True, slots=True)
class Lines:
    """Raw events of one source in one cluster. `where` names a line in a quarantine record (`FILE:7`)."""

    cluster: str
    source: str
    received_ts: float
    lines: Sequence[bytes]
    where: Sequence[str] = ()


class EventStore:
    """Takes units of raw events into the lake, each in one transaction with the marks that say it was read."""

    def __init__(self, writer: LakeWriter) -> None:
        self._writer = writer
        self._connection = duckdb.connect(config={"threads": 1})
        self._connection.execute("SET timezone = 'UTC'")

    def store(self, unit: Iterable[Lines], marks: Mapping[str, str], quarantine_name: str) -> Counts:
        """Store a unit and set `marks` in the manifest, all or nothing; a repetition after a crash changes nothing twice.

        Raises LakeError when the disk cannot take it; then nothing of the unit is part of the lake.
        """
        counts = Counts()
        refused: list[Quarantined] = []
        files: list[DataFile] = []
        tables: dict[str, list[pa.Table]] = {}
        for part in unit:
            decoded = decode_events(part.lines, part.cluster, datetime.fromtimestamp(part.received_ts, UTC), part.source)
            counts.read += len(part.lines)
            refused += _refused(part, decoded)
            tables.setdefault(part.cluster, []).append(decoded.table)
        counts.quarantined = len(refused)
        for cluster, parts in tables.items():
            fresh = self._fresh(cluster, pa.concat_tables(parts), counts)
            if fresh.num_rows:
                files += self._writer.write("events", cluster, fresh)
        counts.stored = sum(file.rows for file in files)
        if refused:
            try:
                write_quarantine(self._writer.lake.path / "quarantine", refused, quarantine_name)
            except OSError as error:
                raise LakeError(
                    f"{self._writer.lake.path}: the quarantine cannot be written: {error}", "free some space"
                ) from error
        self._writer.commit(files, props=marks)
        return counts

    def _fresh(self, cluster: str, table: pa.Table, counts: Counts) -> pa.Table:
        """The rows that neither an earlier row of this table nor the lake has."""
        if not table.num_rows:
            return table
        numbered = table.append_column("row_number", pa.array(range(table.num_rows), pa.int64()))
        self._connection.register("incoming", numbered)
        try:
            span = pc.min_max(table["stage_ts"].cast(pa.int64()))
            overlap = (span["min"].as_py(), span["max"].as_py())
            stored = self._writer.lake.manifest.files("events", cluster, overlap)
            keep = self._connection.sql(f"SELECT min(row_number) AS row FROM incoming GROUP BY {_KEY} ORDER BY row")
            repeats = table.num_rows - len(keep)
            if stored:
                known = self._known([str(self._writer.lake.path / file.path) for file in stored], overlap)
                counts.conflicting += known.filter("conflicting").shape[0]
                repeats += len(known)
                keep = self._connection.sql("SELECT row FROM keep ANTI JOIN known ON keep.row = known.row ORDER BY row")
            counts.duplicate += repeats
            return table if not repeats else table.take(keep.to_arrow_table()["row"].combine_chunks())
        finally:
            self._connection.unregister("incoming")

    def _known(self, files: list[str], span_us: tuple[int, int]) -> duckdb.DuckDBPyRelation:
        """Rows of `incoming` (the first of each key) that the files hold already, and whether the bodies differ."""
        self._connection.execute(
            f"""CREATE OR REPLACE TEMP TABLE known AS
            WITH first AS (SELECT * FROM incoming QUALIFY row_number() OVER (PARTITION BY {_KEY} ORDER BY row_number) = 1),
            stored AS (
                SELECT {_KEY}, request_object, response_object FROM read_parquet($files, hive_partitioning = false)
                WHERE stage_ts >= make_timestamptz($low) AND stage_ts <= make_timestamptz($high)
            )
            SELECT n.row_number AS row, bool_and({_CONTENT}) AS conflicting
            FROM first AS n JOIN stored AS s USING ({_KEY}) GROUP BY n.row_number""",
            {"files": files, "low": span_us[0], "high": span_us[1]},
        )
        return self._connection.table("known")

    def close(self) -> None:
        """Release the engine."""
        self._connection.close()


def _refused(part: Lines, decoded: Decoded) -> list[Quarantined]:
    return [
        Quarantined(
            source=part.source,
            cluster=part.cluster,
            received_ts=part.received_ts,
            reason=f"{part.where[item.index]}: {item.reason}" if part.where else item.reason,
            raw=item.raw,
        )
        for item in decoded.rejected
    ]
