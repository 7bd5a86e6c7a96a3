"""Finds the other event of a request to an aggregated API, among new events and in the lake, and keeps one event of both.

The servers send their logs apart, so an event may arrive when its twin is stored. The file of the twin is then written again
without it. What is derived from files (counts, kept fields, histories) therefore never sees two.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from .aggregated import BUILT_IN_GROUPS, IN_URI, SHARED_MAX, Folding, Row, candidates, fold_table, repeated, without
from .engine import engine_cursor
from .lake import Lake
from .lake_writer import LakeWriter
from .maintain import Compacted, DamagedFileError, compact_unit, refuse_damaged
from .manifest import DataFile
from .old_rows import read_events
from .published.target import is_url
from .reviewed import CONNECTS, LONGEST, REVIEWED, WRITES, joined

# Two servers answer one request at nearly the same time. Events of its earlier stages may lie further back.
_APART_US = 10_000_000
_NAMED = ("audit_id", "stage", "ts")
# The stored events that share an auditID with new ones, with the file and the number of the row in it.
_SHARING = f"""
SELECT filename, file_row_number, audit_id, stage, ts
FROM read_parquet($files, hive_partitioning = false, filename = true, file_row_number = true)
    SEMI JOIN proxied USING (audit_id)
WHERE stage_ts BETWEEN make_timestamptz($low) AND make_timestamptz($high)
QUALIFY count(*) OVER (PARTITION BY audit_id) <= {SHARED_MAX}
ORDER BY filename, file_row_number"""

# A request may take a minute, its reviews lie in that time, and they may be near to other requests of that length.
_NEAR_US = 4 * int(LONGEST.total_seconds() * 1_000_000)
_NEAR = f"""
SELECT DISTINCT filename, file_row_number
FROM (
    SELECT * FROM read_parquet($files, hive_partitioning = false, filename = true, file_row_number = true)
    WHERE stage_ts BETWEEN make_timestamptz($low) AND make_timestamptz($high) AND stage = 'ResponseComplete'
        AND (list_contains({list(WRITES)}, verb) OR list_contains({list(CONNECTS)}, subresource))
) AS stored JOIN (SELECT DISTINCT * FROM written) AS written
    ON stored.resource = written.resource AND coalesce(stored.subresource, '') = coalesce(written.subresource, '')
    AND (stored.resource = 'namespaces' OR coalesce(stored.namespace, '') = coalesce(written.namespace, ''))
    AND (stored.name = written.name OR stored.name IS NULL OR written.name IS NULL)
ORDER BY filename, file_row_number"""
# What the manifest notes of a cluster with reviews.
REVIEWS_MARK = "reviews:"
# The files whose events of proxied groups share auditID and stage with another one.
_REPEATING = """
WITH proxied AS (
    SELECT filename, audit_id, stage FROM read_parquet($files, hive_partitioning = false, filename = true)
    WHERE coalesce(api_group, nullif(regexp_extract(request_uri, $in_uri, 1), '')) NOT IN (FROM unnest($built_in))
)
SELECT DISTINCT filename FROM proxied
    SEMI JOIN (SELECT audit_id, stage FROM proxied GROUP BY ALL HAVING count(*) > 1) USING (audit_id, stage)"""


@dataclass(slots=True)
class Folded:
    """New events to store, files to list in place of `replaced` ones, and how many stored events these leave out."""

    fresh: pa.Table
    rewritten: list[DataFile] = field(default_factory=list)
    replaced: list[str] = field(default_factory=list)
    removed: int = 0
    marks: dict[str, str] = field(default_factory=dict)


class Folder:
    """Folds new events of one lake; `connection` is a cursor of its caller."""

    def __init__(self, writer: LakeWriter, connection: duckdb.DuckDBPyConnection) -> None:
        self._writer = writer
        self._connection = connection

    def fold(self, cluster: str, fresh: pa.Table) -> Folded:
        """Fold new events of one cluster, which the lake does not hold, with each other and with stored ones.

        Files are written, and become part of the lake when the caller commits them. Raises LakeError if the disk is full.
        """
        proxied = candidates(fresh)
        if not proxied:
            return Folded(fresh)
        keys = fresh.select([*_NAMED, "stage_ts"]).take(proxied)
        sharing = self._sharing(cluster, keys)
        wanted = {row["audit_id"] for rows in sharing.values() for row in rows}
        again = set(repeated(fresh, proxied))
        ids: list[Any] = keys["audit_id"].to_pylist()
        new = [number for number, each in zip(proxied, ids, strict=True) if number in again or each in wanted]
        return self._folded(fresh, new, sharing) if new else Folded(fresh)

    def _folded(self, fresh: pa.Table, new: Sequence[int], sharing: dict[DataFile, list[Row]]) -> Folded:
        tables = {file: table for file in sharing if (table := self._read(file)) is not None}
        places: list[tuple[DataFile | None, int]] = [(None, number) for number in new]
        rows: list[Row] = fresh.take(new).to_pylist()
        for file, table in tables.items():
            numbers = [row["file_row_number"] for row in sharing[file]]
            places += [(file, number) for number in numbers]
            rows += table.take(numbers).to_pylist()
        folding = Folding(rows)
        leaving = [places[number] for number in (*folding.dropped, *folding.changed)]
        gone = [number for file, number in leaving if file is None]
        found = Folded(without(fresh, gone, folding.changed.values()) if leaving else fresh)
        for file, table in tables.items():
            self._rewrite(file, table, [number for place, number in leaving if place == file], found)
        return found

    def _sharing(self, cluster: str, proxied: pa.Table) -> dict[DataFile, list[Row]]:
        """The stored events that may be of one request with these, by file."""
        counts = Counter(proxied["audit_id"].to_pylist())
        few = [each for each, count in counts.items() if count <= SHARED_MAX]
        proxied = proxied.filter(pc.is_in(proxied["audit_id"], value_set=pa.array(few, pa.string())))
        if not proxied.num_rows:
            return {}
        span = pc.min_max(proxied["stage_ts"].cast(pa.int64()))
        low, high = span["min"].as_py() - _APART_US, span["max"].as_py() + _APART_US
        lake = self._writer.lake
        listed = {str(lake.path / file.path): file for file in lake.manifest.files("events", cluster, (low, high))}
        if not listed:
            return {}
        self._connection.register("proxied", proxied)
        parameters = {"files": list(listed), "low": low, "high": high}
        try:
            stored: list[Row] = _readable(lambda: self._connection.sql(_SHARING, params=parameters).to_arrow_table().to_pylist())
        finally:
            self._connection.unregister("proxied")
        by_file: dict[DataFile, list[Row]] = {}
        for row in _of_others(stored, proxied.select(_NAMED).to_pylist() if stored else []):
            by_file.setdefault(listed[row["filename"]], []).append(row)
        return by_file

    def _read(self, file: DataFile) -> pa.Table | None:
        """The events of a stored file. None if it is damaged: to write it again would give it a new checksum."""
        try:
            refuse_damaged(self._writer.lake, file)
        except DamagedFileError:
            return None
        return read_events(Path(self._writer.lake.path) / file.path)

    def _rewrite(self, file: DataFile, table: pa.Table, leaving: Sequence[int], found: Folded) -> None:
        if not leaving:
            return
        rest = without(table, leaving)
        if rest.num_rows:
            found.rewritten += self._writer.write("events", file.cluster, rest, compacted=bool(file.compacted))
        if file in found.rewritten:
            found.rewritten.remove(file)  # it was written just now, and no manifest lists it
        else:
            found.replaced.append(file.path)
        found.removed += len(leaving)

    def with_reviews(self, cluster: str, found: Folded) -> Folded:
        """Put the reviews among new events, and among those of the lake, into the events of their requests.

        It costs nothing as long as no review of the cluster has come.
        """
        mark = f"{REVIEWS_MARK}{cluster}"
        if pc.index(pc.list_flatten(found.fresh["flags"]), REVIEWED).as_py() >= 0:
            found.marks[mark] = "1"
        elif self._writer.lake.manifest.prop(mark) is None:
            return found
        if new := _writes(found.fresh):
            self._review(cluster, found, new)
        return found

    def _review(self, cluster: str, found: Folded, new: Sequence[int]) -> None:
        fresh = found.fresh.take(new)
        stored = self._near(cluster, fresh, found)
        tables = {file: table for file in stored if (table := self._read(file)) is not None}
        before: list[Row] = fresh.to_pylist()
        places: list[tuple[DataFile | None, int]] = [(None, number) for number in new]
        for file, table in tables.items():
            before += table.take(stored[file]).to_pylist()
            places += [(file, number) for number in stored[file]]
        known = {(row["audit_id"], row["stage_ts"]): row for row in before}
        after = [known[key] if row == known.get(key := (row["audit_id"], row["stage_ts"])) else row for row in joined(before)]
        was, kept = ({id(row) for row in rows} for rows in (before, after))
        leaving = [place for place, row in zip(places, before, strict=True) if id(row) not in kept]
        if not leaving:
            return
        gone = [number for file, number in leaving if file is None]
        found.fresh = without(found.fresh, gone, (row for row in after if id(row) not in was))
        for file, table in tables.items():
            self._rewrite(file, table, [number for place, number in leaving if place == file], found)

    def _near(self, cluster: str, fresh: pa.Table, found: Folded) -> dict[DataFile, list[int]]:
        """The stored writes of the objects of new ones, at about their time: the numbers of their rows, by file."""
        span = pc.min_max(fresh["stage_ts"].cast(pa.int64()))
        low, high = span["min"].as_py() - _NEAR_US, span["max"].as_py() + _NEAR_US
        lake = self._writer.lake
        files = [file for file in lake.manifest.files("events", cluster, (low, high)) if file.path not in found.replaced]
        listed = {str(lake.path / file.path): file for file in (*files, *found.rewritten)}
        if not listed:
            return {}
        self._connection.register("written", fresh.select(["resource", "subresource", "namespace", "name"]))
        parameters = {"files": list(listed), "low": low, "high": high}
        try:
            rows = _readable(lambda: self._connection.sql(_NEAR, params=parameters).fetchall())
        finally:
            self._connection.unregister("written")
        numbers: dict[DataFile, list[int]] = {}
        for name, number in rows:
            numbers.setdefault(listed[name], []).append(number)
        return numbers


def _writes(table: pa.Table) -> list[int]:
    """The numbers of the events that may have a review, and of the reviews."""
    rows = zip(*(table[name].to_pylist() for name in ("stage", "verb", "subresource")), strict=True)
    return [n for n, (stage, verb, sub) in enumerate(rows) if stage == "ResponseComplete" and (verb in WRITES or sub in CONNECTS)]


def unfolded(lake: Lake) -> Iterator[tuple[list[DataFile], int]]:
    """The files of each cluster and day that hold pairs, and how many events folding takes from them.

    Only lakes of earlier versions have such files. Damaged files and those in an object store are left out.
    """
    files = sorted(lake.manifest.files("events"), key=lambda file: (file.cluster, file.dt, file.path))
    for _, day in groupby(files, key=lambda file: (file.cluster, file.dt)):
        with closing(engine_cursor()) as connection:
            sharing = _repeating(connection, {place: file for file in day if not is_url(place := str(lake.located(file)))})
        if not sharing:
            continue
        try:
            table = pa.concat_tables([read_events(Path(place)) for place in sharing])
        except (OSError, pa.ArrowInvalid):
            continue  # damaged where the question did not look
        if left_out := table.num_rows - fold_table(table).num_rows:
            yield [*sharing.values()], left_out


def fold_stored(writer: LakeWriter, now_ts: float, done: Compacted) -> None:
    """Write the files again that hold pairs, with one event of each; adds to `done`. `now_ts` is seconds since the epoch."""
    for files, _ in list(unfolded(writer.lake)):
        compact_unit(writer, files, now_ts, done)


def _repeating(connection: duckdb.DuckDBPyConnection, files: dict[str, DataFile]) -> dict[str, DataFile]:
    """Those files of one cluster and day that may hold pairs, by their places."""
    if not files:
        return {}
    given = {"files": list(files), "in_uri": IN_URI, "built_in": list(BUILT_IN_GROUPS)}
    found = {name for (name,) in _readable(lambda: connection.execute(_REPEATING, given).fetchall())}
    return {place: file for place, file in files.items() if place in found}


def _readable(ask: Callable[[], list[Any]]) -> list[Any]:
    """The rows of a question over stored files. A damaged file must not stop the events of today; `doctor` names it.

    DuckDB has several errors for content that is not as the footer says.
    """
    try:
        return ask()
    except (duckdb.OutOfMemoryException, duckdb.InterruptException):
        raise
    except duckdb.Error:
        return []


def _of_others(stored: Sequence[Row], new: Sequence[Row]) -> list[Row]:
    """The stored events of auditIDs under which another request was stored: most are earlier stages of the same one."""
    times: dict[str, set[Any]] = {}
    stages: dict[str, list[tuple[str, Any]]] = {}
    for row in (*stored, *new):
        times.setdefault(row["audit_id"], set()).add(row["ts"])
        stages.setdefault(row["audit_id"], []).append((row["stage"], row["ts"]))
    return [
        row for row in stored if len(times[row["audit_id"]]) > 1 or len(set(stages[row["audit_id"]])) < len(stages[row["audit_id"]])
    ]
