"""How long a lake keeps its data: events by whole UTC days, their bodies for a shorter time, quarantine as long as events.

Files of events leave the manifest in one transaction. `remove_retired` deletes them later, when no reader can still have them
listed. Files derived from them are deleted at once, because they can be made again. A quarantined record has its body, so it goes
with the bodies.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from .derived import forget_derived
from .errors import LakeError
from .lake import Lake
from .lake_writer import LakeWriter
from .maintain import read_footer, refuse_damaged
from .manifest import DataFile
from .old_rows import read_events
from .quarantine import Quarantined, read_records, write_quarantine
from .reviewed import OBJECTS_EXPIRED, REVIEWED

# After so long without events, a day counts as present only if so many days of events follow: a clock may have jumped.
GAP = timedelta(days=7)
_SURE_DAYS = 3
_TIME = re.compile(
    rb'"(?:stageTimestamp|requestReceivedTimestamp)"\s*:\s*"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,6})?(?:Z|[+-]\d\d:\d\d))'
)
_BODIES = ("request_object", "response_object")


@dataclass(frozen=True, slots=True)
class Expired:
    """The data that retention removes from a lake: retired files, their rows, and the bytes by which the lake shrinks."""

    files: int
    rows: int
    bytes: int


def events_before(lake: Lake, before: date) -> list[DataFile]:
    """The files of the events of all UTC days before a date."""
    return [file for file in lake.manifest.files("events") if file.dt < before.isoformat()]


def bodies_before(lake: Lake, before: date) -> list[DataFile]:
    """The files of `events_before` in which any event still has a body, by their footers. Raises LakeError for a damaged file."""
    return [file for file in events_before(lake, before) if _has_bodies(lake.path / file.path)]


def quarantine_before(lake: Lake, before: date) -> dict[Path, list[Quarantined]]:
    """Finds each quarantine file that holds records from before a UTC day; returns the records that such a file keeps.

    A record is from the time of its event; without one, from when it arrived. Files that a killed process left unfinished, or that
    cannot be read, are from when they were written.
    """
    start_ts = datetime.combine(before, time(), UTC).timestamp()
    found: dict[Path, list[Quarantined]] = {}
    for path in sorted((lake.path / "quarantine").glob("*.jsonl.zst*")):
        status = path.stat()
        if _oldest_ts(path, status.st_mtime, status.st_size) < start_ts:
            timed = _timed(path, status.st_mtime)
            found[path] = [record for record, moment_ts in timed if moment_ts >= start_ts]
    return found


@lru_cache(maxsize=100_000)
def _oldest_ts(path: Path, written_ts: float, size_bytes: int) -> float:
    """The time of the oldest record of a quarantine file. A file that has not changed is read once in a process."""
    return min((moment_ts for _, moment_ts in _timed(path, written_ts)), default=written_ts)


def _timed(path: Path, written_ts: float) -> list[tuple[Quarantined, float]]:
    """The records of a file with their times; nothing for one that cannot be read."""
    try:
        records = read_records(path) if path.name.endswith(".zst") else []
    except (OSError, ValueError):
        return []
    return [(record, _time_of(record) or record.received_ts or written_ts) for record in records]


def _time_of(record: Quarantined) -> float | None:
    """When the event in a record was, in seconds since the epoch; None where it does not say."""
    for match in _TIME.finditer(record.raw):
        try:
            return datetime.fromisoformat(match[1].decode().replace("Z", "+00:00")).timestamp()
        except (ValueError, OverflowError):
            continue
    return None


def present_day(lake: Lake, now_ts: float) -> date | None:
    """The day from which retention counts back: the newest one with events that is not after the clock; None without events.

    Days after a gap of a week count once three of them have events. So neither a clock that jumps nor events from the future
    expire a lake: a wrong clock has to last for days first. `now_ts` is the clock, in seconds since the epoch.
    """
    clock = datetime.fromtimestamp(now_ts, UTC).date()
    days = sorted(day for day in {_day(file.dt) for file in lake.manifest.files("events")} if day is not None and day <= clock)
    stretches: list[list[date]] = []
    for day in days:
        if not stretches or day - stretches[-1][-1] > GAP:
            stretches.append([])
        stretches[-1].append(day)
    while len(stretches) > 1 and len(stretches[-1]) < _SURE_DAYS:
        stretches.pop()
    return stretches[-1][-1] if stretches else None


def days_after(lake: Lake, now_ts: float) -> list[date]:
    """The days with events that the clock has not reached: its sender's clock is ahead, or that of this machine went back."""
    clock = datetime.fromtimestamp(now_ts, UTC).date() + timedelta(days=1)
    return sorted(day for day in {_day(file.dt) for file in lake.manifest.files("events")} if day is not None and day > clock)


def _day(text: str) -> date | None:
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None


def sizes(files: Iterable[DataFile]) -> Expired:
    """The number of some files, and their rows and bytes."""
    listed = list(files)
    return Expired(len(listed), sum(file.rows for file in listed), sum(file.bytes for file in listed))


def expire(writer: LakeWriter, before: date, now_ts: float) -> Expired:
    """Remove the events of all UTC days before a date from the lake, in one transaction; `now_ts` is seconds since the epoch."""
    old = events_before(writer.lake, before)
    repeats = [file for file in writer.lake.manifest.files("repeats") if file.dt < before.isoformat()]
    if old or repeats:
        writer.commit(remove=[file.path for file in (*old, *repeats)], retired_ts=now_ts)
        forget_derived(writer.lake.path)
    return sizes(old)


def expire_objects(writer: LakeWriter, before: date, now_ts: float) -> Expired:
    """Remove the bodies of the events of all UTC days before a date from the lake, and keep the events.

    Rows that lost a body get the flag OBJECTS_EXPIRED. Each file is one transaction; a second call finds nothing to do. Raises
    LakeError when a file is damaged or the disk cannot take the rest; the files before it are done.
    """
    old = bodies_before(writer.lake, before)
    saved_bytes = 0
    for file in old:
        refuse_damaged(writer.lake, file)
        table = read_events(writer.lake.path / file.path)
        written = writer.write("events", file.cluster, _without_bodies(table), compacted=bool(file.compacted))
        writer.commit(written, [file.path], retired_ts=now_ts)
        forget_derived(writer.lake.path)
        saved_bytes += file.bytes - sum(new.bytes for new in written)
    return Expired(len(old), sum(file.rows for file in old), saved_bytes)


def expire_quarantine(writer: LakeWriter, before: date) -> int:
    """Delete the quarantined records from before a UTC day; returns of how many files. Raises LakeError."""
    old = quarantine_before(writer.lake, before)
    for path, left in old.items():
        try:
            if left:
                write_quarantine(path.parent, left, path.name.removesuffix(".jsonl.zst"))
            else:
                path.unlink(missing_ok=True)
        except OSError as error:
            raise LakeError(f"{path}: cannot be deleted: {error.strerror}", "fix the owner of the lake") from error
    return len(old)


def _has_bodies(path: Path) -> bool:
    """Whether any row of a file has a body, by the counts of nulls in its footer."""
    footer = read_footer(path)
    for index in range(footer.num_row_groups):
        group = footer.row_group(index)
        for number in range(group.num_columns):
            column = group.column(number)
            if column.path_in_schema in (*_BODIES, "extra", "review"):
                nulls = column.statistics.null_count if column.statistics is not None else None
                is_filled = nulls is None or nulls < group.num_rows
                if is_filled and (column.path_in_schema in _BODIES or _has_reviews(path)):
                    return True
    return False


def _has_reviews(path: Path) -> bool:
    """Whether any row of a file has the bodies of a review: in `review`, or in `extra` of a file of format 1."""
    flags = pq.read_table(path, columns=["flags"], partitioning=None)["flags"].to_pylist()
    return any(REVIEWED in (known or ()) and OBJECTS_EXPIRED not in (known or ()) for known in flags)


def _without_bodies(table: pa.Table) -> pa.Table:
    request, response = (pc.is_valid(table[name]) for name in _BODIES)
    before = table["flags"].to_pylist()
    reviewed = [REVIEWED in (known or ()) for known in before]
    gone = pc.or_(pc.or_(request, response), pa.array(reviewed)).to_pylist()
    flags = [
        list(dict.fromkeys([*(known or ()), OBJECTS_EXPIRED])) if lost else known for known, lost in zip(before, gone, strict=True)
    ]
    columns: dict[str, list[Any]] = {"flags": flags, **dict.fromkeys((*_BODIES, "review"), [None] * table.num_rows)}
    for name, values in columns.items():
        index = table.schema.get_field_index(name)
        item = table.schema.field(index)
        table = table.set_column(index, item, pa.array(values, item.type))
    return table
