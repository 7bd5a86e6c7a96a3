"""Once-only storage: decode a unit of raw events, drop the events that the lake holds, write the rest, and count both.

Two servers log a request to an aggregated API. The lake keeps one event of it (`ingest/folding.py`).

A row's identity is (cluster, audit_id, stage, stage_ts). A retried batch, a log file read again, and the log file of a server whose
webhook was received repeat all four exactly. So a duplicate lies in a file whose range of stage_ts covers it, and no other state is
kept.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from .aggregated import AGGREGATED
from .decode import Decoded, Rejected, decode_events
from .engine import engine_cursor
from .errors import LakeError
from .folding import Folder
from .lake_writer import LakeWriter
from .manifest import DataFile
from .quarantine import Quarantined, write_quarantine
from .refusals import Refusals
from .reused import COMPARED, IS_OTHER, MACROS, told_apart
from .schema import EVENT_KEY, EVENTS, REPEATS

# Only files of the same cluster are read, so the cluster need not be compared.
_KEY = tuple(name for name in EVENT_KEY if name != "cluster")
# Fields in which Hindcast itself may make copies of one event differ.
_OURS = ("ingest_ts", "ingest_source", "flags", "notes", "review")
_CONTENT = tuple(name for name in EVENTS.names if name not in EVENT_KEY and name not in _OURS)


@dataclass(slots=True)
class Counts:
    """The counts of a unit's events. `conflicting` counts those of `duplicate` whose content differs from the stored event.
    The second event of a request to an aggregated API is a duplicate, too.
    `refusals` says why records were quarantined.

    A log file and a webhook may keep different copies of one event, for example when one of them truncates.
    """

    read: int = 0
    stored: int = 0
    duplicate: int = 0
    conflicting: int = 0
    quarantined: int = 0
    refusals: Refusals = field(default_factory=Refusals, compare=False)

    @property
    def is_fruitless(self) -> bool:
        """Whether there were records, and each of them was quarantined."""
        return 0 < self.read == self.quarantined

    def add(self, other: Counts) -> None:
        """The sum, field by field."""
        for item in fields(self):
            setattr(self, item.name, getattr(self, item.name) + getattr(other, item.name))


@dataclass(frozen=True, slots=True)
class Lines:
    """Raw events of one source in one cluster. `where` names the place of an event by its index (`FILE:7`), for quarantine."""

    cluster: str
    source: str
    received_ts: float
    lines: Sequence[bytes]
    where: Callable[[int], str] | None = None

    def cut(self, start: int, end: int) -> Lines:
        """The events from one index to another."""
        told = self.where
        where = None if told is None else lambda index: told(start + index)
        return Lines(self.cluster, self.source, self.received_ts, self.lines[start:end], where)


# What Python raises where code meets a value that it did not expect. Errors of disks, of the engine and of memory are others.
_OF_DATA = (ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError, RecursionError)
_KEYS = ", ".join(_KEY)
_STORED = """
    FROM read_parquet($files, hive_partitioning = false)
    WHERE stage_ts BETWEEN make_timestamptz($low) AND make_timestamptz($high)"""
_FIRST = f"SELECT min(row) AS row, {_KEYS} FROM incoming GROUP BY {_KEYS}"
_FRESH = {
    False: f"SELECT row FROM ({_FIRST}) ORDER BY row",
    True: f"SELECT row FROM ({_FIRST}) ANTI JOIN (SELECT {_KEYS} {_STORED}) USING ({_KEYS}) ORDER BY row",
}
_COLUMNS = ", ".join((*_KEY, *_CONTENT, "ingest_source", "flags"))
# Lakes of format 1 have Hindcast's own notes among the annotations.
_OWN_ANNOTATION = "hindcast/"
_COMPARED = {"annotations": f"list_filter(map_entries({{}}), lambda entry: NOT starts_with(entry.key, '{_OWN_ANNOTATION}'))"}
_DIFFERENT = " OR ".join(
    f"{own.format(f'a.{name}')} IS DISTINCT FROM {own.format(f'b.{name}')}"
    for name, own in ((name, _COMPARED.get(name, "{}")) for name in _CONTENT)
)
_DIFFER = f"NOT list_contains(b.flags, '{AGGREGATED}') AND ({_DIFFERENT})"
# Which repeats to record: those from a kind of source that no stored copy has, or with other content.
_AGAIN = {
    has_stored: f"""
    SELECT a.row, bool_and({_DIFFER}) AS conflicting
    FROM repeats AS a JOIN (SELECT {_COLUMNS} FROM fresh {union}) AS b USING ({_KEYS})
    GROUP BY a.row
    HAVING conflicting OR bool_and(split_part(a.ingest_source, ':', 1) <> split_part(b.ingest_source, ':', 1))
    ORDER BY a.row"""
    for has_stored, union in ((False, ""), (True, f"UNION ALL SELECT {_COLUMNS} {_STORED}"))
}


_IDENTITY = ", ".join(dict.fromkeys((*_KEY, *COMPARED)))
# Repeats that are no copies: requests with the identity of another one.
_OTHERS = {
    has_stored: f"""
    SELECT a.row
    FROM repeats AS a JOIN (SELECT {_IDENTITY} FROM fresh {union}) AS b USING ({_KEYS})
    GROUP BY a.row
    HAVING bool_and({IS_OTHER})
    ORDER BY a.row"""
    for has_stored, union in ((False, ""), (True, f"UNION ALL SELECT {_IDENTITY} {_STORED}"))
}


class _NotNewError(Exception):
    """A unit has events that are not simply new."""


class EventStore:
    """Takes units of raw events into the lake, each in one transaction with the marks that say it was read."""

    def __init__(self, writer: LakeWriter) -> None:
        self._writer = writer
        self._connection = engine_cursor()
        for macro in MACROS:
            self._connection.execute(macro)
        self._folder = Folder(writer, self._connection)

    def store(self, unit: Iterable[Lines], marks: Mapping[str, str], quarantine_name: str) -> Counts:
        """Store a unit and set `marks` in the manifest, all or nothing; a repetition after a crash stores no event twice.

        An event on which storing fails stops no other: the unit is halved until that event is alone, and goes into quarantine. Then
        the marks are set once all others are stored. Raises LakeError when the disk cannot take the unit; then no part of it is in
        the lake, or, where it was halved, a part that a repetition finds.
        """
        parts = list(unit)
        try:
            return self._store(parts, marks, quarantine_name)
        except _OF_DATA as error:
            if not any(part.lines for part in parts):
                raise
            counts = self._halved(parts, quarantine_name, error)
            self._store((), marks, "")
            return counts

    def store_new(self, parts: Sequence[Lines], marks: Mapping[str, str]) -> bool:
        """Store a unit as `store` does, if each of its events is well-formed and new, and changes no stored one.

        Otherwise nothing is stored, and the answer is False. Raises LakeError when the disk cannot take the unit.
        """
        try:
            self._store(parts, marks, "", only_new=True)
        except _OF_DATA:
            return False
        except _NotNewError:
            return False
        return True

    def _halved(self, parts: Sequence[Lines], name: str, error: Exception) -> Counts:
        """Store the parts of a unit that failed one half after the other; the events that fail alone go into quarantine."""
        if sum(len(part.lines) for part in parts) == 1:
            why = f"Hindcast cannot store this event, which is a defect of Hindcast: {type(error).__name__}: {error}"
            return self.set_aside(parts, {}, name, why)
        counts = Counts()
        total = sum(len(part.lines) for part in parts)
        for number, half in enumerate((cut(parts, 0, total // 2), cut(parts, total // 2, total))):
            own = f"{name}-{number}" if name else ""
            try:
                counts.add(self._store(half, {}, own))
            except _OF_DATA as found:
                counts.add(self._halved(half, own, found))
        return counts

    def set_aside(self, parts: Sequence[Lines], marks: Mapping[str, str], name: str, why: str) -> Counts:
        """Put all events of some parts into quarantine for one reason, then set `marks`. Raises LakeError."""
        counts = Counts()
        refused: list[Quarantined] = []
        for part in parts:
            rejected = [Rejected(index, line, why) for index, line in enumerate(part.lines)]
            refused += _refused(part, Decoded(EVENTS.empty_table(), rejected), counts.refusals)
        counts.read = counts.quarantined = len(refused)
        self._quarantine(refused, name)
        if marks:
            self._store((), marks, "")
        return counts

    @property
    def quarantine(self) -> Path:
        """The folder of refused records."""
        return self._writer.lake.path / "quarantine"

    def _quarantine(self, refused: Sequence[Quarantined], name: str) -> None:
        try:
            write_quarantine(self.quarantine, refused, name)
        except OSError as error:
            raise LakeError(f"{self._writer.lake.path}: the quarantine cannot be written: {error}", "free some space") from error

    def _store(self, unit: Iterable[Lines], marks: Mapping[str, str], quarantine_name: str, *, only_new: bool = False) -> Counts:
        counts = Counts()
        refused: list[Quarantined] = []
        files: list[DataFile] = []
        ready: list[tuple[str, str, pa.Table]] = []
        replaced: list[str] = []
        found = dict(marks)
        tables: dict[str, list[pa.Table]] = {}
        for part in unit:
            decoded = decode_events(part.lines, part.cluster, datetime.fromtimestamp(part.received_ts, UTC), part.source)
            counts.read += len(part.lines)
            refused += _refused(part, decoded, counts.refusals)
            tables.setdefault(part.cluster, []).append(decoded.table)
        counts.quarantined = len(refused)
        if refused and only_new:
            raise _NotNewError
        for cluster, parts in tables.items():
            unseen, again = self._sorted_out(cluster, pa.concat_tables(parts), counts)
            folded = self._folder.with_reviews(cluster, self._folder.fold(cluster, unseen))
            found |= folded.marks
            fresh = folded.fresh
            if only_new and (folded.replaced or folded.removed or fresh.num_rows != sum(part.num_rows for part in parts)):
                raise _NotNewError
            files += folded.rewritten
            replaced += folded.replaced
            ready += [("events", cluster, fresh), ("repeats", cluster, again)]
            # An event whose twin in the lake gives way to it adds none.
            stored = max(0, fresh.num_rows - folded.removed)
            counts.stored += stored
            counts.duplicate += unseen.num_rows - stored
        # Nothing is written before it is sure that all of it will be.
        for kind, cluster, table in ready:
            if table.num_rows:
                files += self._writer.write(kind, cluster, table)
        if refused:
            self._quarantine(refused, quarantine_name)
        self._writer.commit(files, replaced, props=found, retired_ts=time.time() if replaced else 0.0)
        return counts

    def _sorted_out(self, cluster: str, table: pa.Table, counts: Counts) -> tuple[pa.Table, pa.Table]:
        """The rows that are neither in the lake nor earlier in this table, and the repeats to record.

        A row that has the identity of another request gets one of its own first.
        """
        if not table.num_rows:
            return table, REPEATS.empty_table()
        keys = table.select(_KEY).append_column("row", pa.array(range(table.num_rows), pa.int64()))
        stage_times: list[Any] = pc.unique(table["stage_ts"].cast(pa.int64())).to_pylist()
        times_us: list[int] = sorted(stage_times)
        span_us = (times_us[0], times_us[-1])
        listed = self._writer.lake.manifest.files("events", cluster, span_us)
        # One very old event must not make the unit read all files stored since.
        stored = [str(self._writer.lake.path / file.path) for file in listed if _may_hold(file, times_us)]
        with self._registered("incoming", keys):
            fresh = _column(self._query(_FRESH[bool(stored)], stored, span_us), "row")
        if len(fresh) == table.num_rows:
            return table, REPEATS.empty_table()
        others = self._others(table, fresh, stored, span_us)
        if len(others):
            is_other = pc.is_in(pa.array(range(table.num_rows), pa.int64()), value_set=others)
            kept, found = table.filter(pc.invert(is_other)), told_apart(table.take(others))
            return self._sorted_out(cluster, pa.concat_tables([kept, found]), counts)
        again = self._again(table, fresh, stored, span_us)
        counts.duplicate += table.num_rows - len(fresh)
        counts.conflicting += pc.sum(again["conflicting"], min_count=0).as_py()
        return table.take(fresh), again

    def _others(self, table: pa.Table, fresh: pa.Array[Any], stored: list[str], span_us: tuple[int, int]) -> pa.Array[Any]:
        """The places of those rows that are other requests than all rows with their identity."""
        rows = table.select(list(dict.fromkeys((*_KEY, *COMPARED)))).append_column(
            "row", pa.array(range(table.num_rows), pa.int64())
        )
        repeats = rows.filter(pc.invert(pc.is_in(rows["row"], value_set=fresh)))
        with self._registered("repeats", repeats), self._registered("fresh", rows.take(fresh)):
            return _column(self._query(_OTHERS[bool(stored)], stored, span_us), "row")

    def _again(self, table: pa.Table, fresh: pa.Array[Any], stored: list[str], span_us: tuple[int, int]) -> pa.Table:
        """Rows of REPEATS for the rows that are not fresh. It reads stored bodies, so it is called only if there are repeats."""
        rows = table.append_column("row", pa.array(range(table.num_rows), pa.int64()))
        repeats = rows.filter(pc.invert(pc.is_in(rows["row"], value_set=fresh)))
        with self._registered("repeats", repeats), self._registered("fresh", rows.take(fresh)):
            found = self._query(_AGAIN[bool(stored)], stored, span_us)
        named = table.take(_column(found, "row")).append_column("conflicting", found["conflicting"])
        return named.select(REPEATS.names).cast(REPEATS)

    def _query(self, sql: str, stored: list[str], span_us: tuple[int, int]) -> pa.Table:
        parameters = {"files": stored, "low": span_us[0], "high": span_us[1]} if stored else None
        table: pa.Table = self._connection.sql(sql, params=parameters).to_arrow_table()
        return table

    @contextmanager
    def _registered(self, name: str, table: pa.Table) -> Iterator[None]:
        self._connection.register(name, table)
        try:
            yield
        finally:
            self._connection.unregister(name)

    def close(self) -> None:
        """Release its session of the engine."""
        self._connection.close()


def cut(parts: Sequence[Lines], start: int, end: int) -> list[Lines]:
    """The events of some parts from one number to another, counted over all of them."""
    found: list[Lines] = []
    before = 0
    for part in parts:
        low, high = max(start - before, 0), min(end - before, len(part.lines))
        if low < high:
            found.append(part.cut(low, high))
        before += len(part.lines)
    return found


def _may_hold(file: DataFile, times_us: Sequence[int]) -> bool:
    """Whether one of these times, in ascending order, lies in the range of a file."""
    first = bisect_left(times_us, file.min_us)
    return first < len(times_us) and times_us[first] <= file.max_us


def _column(table: pa.Table, name: str) -> pa.Array[Any]:
    column: pa.Array[Any] = table[name].combine_chunks()
    return column


def _refused(part: Lines, decoded: Decoded, refusals: Refusals) -> list[Quarantined]:
    """The rejected records with their places; `refusals` counts them."""
    found: list[Quarantined] = []
    for item in decoded.rejected:
        reason = f"{part.where(item.index)}: {item.reason}" if part.where else item.reason
        refusals.note(item.reason, reason)
        found.append(Quarantined(part.source, part.cluster, part.received_ts, reason, item.raw, sealed=True))
    return found
