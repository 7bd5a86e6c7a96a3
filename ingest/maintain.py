"""Maintains a lake: compacts it, removes files that no reader needs any more, and checks the stored files.

Each step is one manifest transaction, so a reader sees either the old files or the new ones. A killed step leaves only orphans,
which the next writer deletes. Files that a step replaced stay on disk for a while, because a reader may have listed them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from types import MappingProxyType

import pyarrow as pa
import pyarrow.parquet as pq
import xxhash

from .aggregated import fold_table
from .errors import LakeError
from .holds import oldest_hold
from .lake import Lake, file_digest
from .lake_writer import LakeWriter
from .manifest import OLD_ROWS, DataFile
from .old_rows import is_old, read_events
from .published.target import is_url, open_object, size_of
from .redaction.stored import files_with_tokens, without_tokens
from .schema import EVENT_KEY, SORT_ORDER

# Sorting needs about three times a unit's uncompressed size in memory.
UNIT_ROWS_MAX = 150_000
UNIT_BYTES_MAX = 256 << 20
FILES_MIN = 8
GRACE_SECONDS = 900.0

# The files in which no token of the recorder is left: a digest in the manifest.
_LOOKED_AT = "without_recorder_tokens"
# Tables that are merged and expire: the key of their rows, and how a merged file is sorted.
_KEY = {"events": EVENT_KEY, "repeats": (*EVENT_KEY, "ingest_source")}
_ORDER = {"events": (*SORT_ORDER, "stage_ts"), "repeats": ("stage_ts", "audit_id")}


class DamagedFileError(LakeError):
    """One file of the lake differs from the file that was written; the others are not affected."""


@dataclass(slots=True)
class Compacted:
    """The result of compaction. A `duplicate` row is a repeat that was noted several times, or the second event of a request to an
    aggregated API in a lake of an earlier version. Ingest stores each other event once."""

    units: int = 0
    files_before: int = 0
    files_after: int = 0
    rows: int = 0
    duplicate: int = 0
    bytes_before: int = 0
    bytes_after: int = 0
    is_whole: bool = True  # False when it was stopped after one of the units


@dataclass(frozen=True, slots=True)
class Fault:
    """A file that differs from its entry in the manifest, and how."""

    path: str
    reason: str


def compact(
    writer: LakeWriter, now_ts: float, files_min: int = FILES_MIN, stopped: Callable[[], bool] = lambda: False
) -> Compacted:
    """Rewrite small files of events as larger ones sorted by object, unit by unit; `now_ts` is seconds since the epoch.

    Files that show a token of the recorder are rewritten without it, those of snapshots too.

    A unit lies within one cluster and one day. It is rewritten once it has `files_min` files, or once its day is over. `stopped` is
    asked after each unit, so that every call makes progress; the next call goes on with the rest. A damaged file stops its own unit
    only; DamagedFileError names it at the end. Raises LakeError when the disk cannot take the result; the units before it are done,
    and nothing is lost.
    """
    done = Compacted()
    today = datetime.fromtimestamp(now_ts, UTC).date().isoformat()
    damaged: list[DamagedFileError] = []
    shown = with_tokens(writer.lake)
    for unit in _units(writer.lake, damaged, shown):
        is_over = unit[0].dt < today and (len(unit) > 1 or not unit[0].compacted)
        if len(unit) >= files_min or is_over or _has_old_rows(writer.lake, unit) or _show_tokens(unit, shown):
            try:
                compact_unit(writer, unit, now_ts, done, shown)
            except DamagedFileError as error:
                damaged.append(error)
            if stopped():
                done.is_whole = False
                break
    for file in writer.lake.manifest.files("objects"):
        if file.path in shown:
            table = without_tokens(pq.read_table(writer.lake.path / file.path, partitioning=None))
            writer.commit(writer.write("objects", file.cluster, table), [file.path], retired_ts=now_ts)
    if damaged:
        raise damaged[0]
    if done.is_whole and (known := _files_digest(writer.lake)) != writer.lake.manifest.prop(_LOOKED_AT):
        writer.commit(props={_LOOKED_AT: known})
    if done.is_whole and writer.lake.manifest.has_old_rows and not _has_old_rows(writer.lake, writer.lake.manifest.files("events")):
        writer.commit(props={OLD_ROWS: None})
    return done


def with_tokens(lake: Lake) -> dict[str, int]:
    """The files of a lake that show a token of its own recorder, with the number of such rows: see redaction/stored.py."""
    found: dict[str, int] = {}
    if lake.manifest.prop(_LOOKED_AT) == _files_digest(lake):
        return found
    for kind in ("events", "objects"):
        files = {str(lake.path / file.path): file.path for file in lake.manifest.files(kind) if not is_url(file.path)}
        found |= {files[path]: rows for path, rows in files_with_tokens(map(Path, files), kind).items()}
    return found


def _files_digest(lake: Lake) -> str:
    """A digest of the names of all files of events and objects, which never change once they are written."""
    names = sorted(file.path for kind in ("events", "objects") for file in lake.manifest.files(kind))
    return xxhash.xxh3_128_hexdigest("\n".join(names).encode())


def _show_tokens(files: Sequence[DataFile], shown: Mapping[str, int]) -> bool:
    return any(file.path in shown for file in files)


def _has_old_rows(lake: Lake, files: Sequence[DataFile]) -> bool:
    """Whether some of these files are of format 1, which had the notes among the annotations; see old_rows.py."""
    if not lake.manifest.has_old_rows:
        return False
    return any(file.kind == "events" and not is_url(file.path) and is_old(str(lake.path / file.path)) for file in files)


def remove_retired(writer: LakeWriter, now_ts: float, grace_seconds: float = GRACE_SECONDS) -> int:
    """Delete files that were replaced or expired longer ago than a reader needs; returns how many. Raises LakeError.

    Files that a living reader holds stay (holds.py). A file is retired as of the beginning of a pass, and a reader may list it a
    while after that. So the grace also counts back from the hold.
    """
    writer.lake.manifest.retire_by(now_ts)
    held_ts = oldest_hold(writer.lake.path, now_ts)
    gone = writer.lake.manifest.retired(min(now_ts, now_ts if held_ts is None else held_ts) - grace_seconds)
    for name in gone:
        path = writer.lake.path / name
        try:
            path.unlink(missing_ok=True)
            if path.parent.is_dir() and not any(path.parent.iterdir()):
                path.parent.rmdir()
        except OSError as error:
            raise LakeError(f"{path}: cannot be deleted: {error.strerror}", "fix the owner of the lake") from error
    writer.lake.manifest.forget(gone)
    return len(gone)


def verify(lake: Lake) -> list[Fault]:
    """Read every file of the lake again and compare it with its checksum in the manifest; costs one reading of the disk."""
    return [
        Fault(file.path, reason)
        for kind in ("events", "objects", "repeats")
        for file in lake.manifest.files(kind)
        if (reason := _fault(lake, file)) is not None
    ]


def _units(lake: Lake, damaged: list[DamagedFileError], shown: Mapping[str, int]) -> Iterator[list[DataFile]]:
    """Files to merge into one: neighbours in time of one table, cluster and day, as many as a unit may hold.

    A file whose footer cannot be read is left out and added to `damaged`.
    """
    listed = [file for kind in _KEY for file in lake.manifest.files(kind)]
    files = sorted(listed, key=lambda file: (file.kind, file.cluster, file.dt, file.min_us, file.path))
    for _, day in groupby(files, key=lambda file: (file.kind, file.cluster, file.dt)):
        unit: list[DataFile] = []
        rows = size_bytes = 0
        for file in day:
            if file.compacted and file.rows >= UNIT_ROWS_MAX // 2:
                # Large enough already; merging it again and again would rewrite the day many times.
                if _has_old_rows(lake, [file]) or _show_tokens([file], shown):
                    yield [file]
                continue
            try:
                file_bytes = _uncompressed_bytes(lake.path / file.path)
            except DamagedFileError as error:
                damaged.append(error)
                continue
            if unit and (rows + file.rows > UNIT_ROWS_MAX or size_bytes + file_bytes > UNIT_BYTES_MAX):
                yield unit
                unit, rows, size_bytes = [], 0, 0
            unit.append(file)
            rows += file.rows
            size_bytes += file_bytes
        if unit:
            yield unit


def compact_unit(
    writer: LakeWriter, unit: list[DataFile], now_ts: float, done: Compacted, shown: Mapping[str, int] = MappingProxyType({})
) -> None:
    """Make one file of some of a cluster and day, and add to `done`. Raises DamagedFileError, LakeError."""
    lake = writer.lake
    for file in unit:
        refuse_damaged(lake, file)
    table = pa.concat_tables([read_events(lake.path / file.path) for file in unit])
    kind = unit[0].kind
    once = _once(table, _KEY[kind])
    if kind == "events":
        once = fold_table(once)
        if _show_tokens(unit, shown):
            once = without_tokens(once)
    ordered = once.sort_by([(name, "ascending") for name in _ORDER[kind]])
    written = writer.write(kind, unit[0].cluster, ordered, compacted=True)
    writer.commit(written, [file.path for file in unit], retired_ts=now_ts)
    done.units += 1
    done.files_before += len(unit)
    done.files_after += len(written)
    done.rows += once.num_rows
    done.duplicate += table.num_rows - once.num_rows
    done.bytes_before += sum(file.bytes for file in unit)
    done.bytes_after += sum(file.bytes for file in written)


def _once(table: pa.Table, key: Sequence[str]) -> pa.Table:
    """The first row of each key. Ingest already drops duplicate events; for events this is a safety net."""
    keys = table.select(list(key)).append_column("row", pa.array(range(table.num_rows), pa.int64()))
    first = keys.group_by(list(key)).aggregate([("row", "min")])
    return table if len(first) == table.num_rows else table.take(first.sort_by("row_min")["row_min"])


def _uncompressed_bytes(path: Path) -> int:
    metadata = read_footer(path)
    return sum(metadata.row_group(index).total_byte_size for index in range(metadata.num_row_groups))


def read_footer(path: Path | str) -> pq.FileMetaData:
    """The metadata in the footer of a Parquet file or object. Raises DamagedFileError when it cannot be read."""
    try:
        if is_url(path):
            with open_object(str(path)) as stream:
                return pq.read_metadata(stream)
        return pq.read_metadata(path)
    except (OSError, pa.ArrowException) as error:
        raise DamagedFileError(f"{path}: cannot be read: {error}", "`hindcast doctor` names every damaged file") from error


def refuse_damaged(lake: Lake, file: DataFile) -> None:
    """Raise DamagedFileError for a file that differs from its checksum: rewriting it would give it a new checksum."""
    if (reason := _fault(lake, file)) is not None:
        raise DamagedFileError(f"{lake.path / file.path}: {reason}", "restore it from a backup; it was left as it is")


def _fault(lake: Lake, file: DataFile) -> str | None:
    place = lake.located(file)
    try:
        found_bytes = size_of(place) if is_url(place) else Path(place).stat().st_size
        if found_bytes != file.bytes:
            return f"has {found_bytes:,} bytes, the manifest says {file.bytes:,}"
        return None if file_digest(place) == file.digest else "its content was altered: the checksum differs"
    except FileNotFoundError:
        return "is missing"
    except OSError as error:
        return f"cannot be read: {error.strerror or str(error).splitlines()[0]}"
