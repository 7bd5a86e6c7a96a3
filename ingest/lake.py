"""The lake: a folder of Parquet files under a manifest.

    LAKE/manifest.sqlite
         events/dt=YYYY-MM-DD/*.parquet    audit events, by UTC date of stage_ts
         objects/dt=YYYY-MM-DD/*.parquet   snapshots of objects
         repeats/dt=YYYY-MM-DD/*.parquet   which events came again from another source
         spool/ quarantine/ runs/

Readers take the file list from the manifest and never wait. One process at a time writes.
"""

from __future__ import annotations

import fcntl
import os
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import xxhash

from .durable import make_folder, sync_folder, write_durably
from .errors import LakeError
from .manifest import DataFile, Manifest, has_tables, refuse_name
from .published.target import is_url, open_object
from .schema import EVENTS, OBJECTS, REPEATS, time_column

MANIFEST = "manifest.sqlite"
_SCHEMAS = {"events": EVENTS, "objects": OBJECTS, "repeats": REPEATS}
_ROW_GROUP_ROWS = 50_000
_WRITE_BYTES = 1 << 20
_SWEEPS = "sweeps"
# The URL of the published lake that a folder shows.
PUBLISHED = "published"
# Columns whose values hardly repeat grow with a dictionary; all others shrink.
_DISTINCT = ("request_object", "response_object", "object", "audit_id", "stage_ts", "ts", "uid")


class Lake:
    """One lake. `Lake.open` to read, `writer()` to change it."""

    def __init__(self, path: Path, manifest: Manifest) -> None:
        self.path = path
        self.manifest = manifest

    @classmethod
    def open(cls, path: Path | str) -> Lake:
        """Open an existing lake for reading. Raises LakeError if the folder holds no lake or a lake of another version."""
        folder = Path(path)
        return cls(folder, Manifest(folder / MANIFEST))

    @classmethod
    def create(cls, path: Path | str) -> Lake:
        """Open a lake, or make an empty one.

        Raises LakeError when the folder cannot be written, or has a name by which no engine would find its files again. Raises
        LakeError also when it holds events and no manifest: an empty manifest would let the next writer delete them.
        """
        folder = Path(path)
        refuse_name(folder)
        if not has_tables(folder / MANIFEST) and (found := _data_files(folder)):
            raise LakeError(
                f"{folder / MANIFEST}: the manifest is missing or empty, but there are {len(found)} data files, e.g. {found[0]}",
                "restore the manifest from a backup, or move the folder away to begin a new lake",
            )
        try:
            for name in ("", "spool", "quarantine", "runs", *_SCHEMAS):
                make_folder(folder / name)
            for kind, schema in _SCHEMAS.items():
                _write_empty(folder / kind / "_empty.parquet", schema)
            return cls(folder, Manifest(folder / MANIFEST, create=True))
        except OSError as error:
            raise LakeError(f"{folder}: the lake cannot be made here: {error}", "give a writable folder with --lake") from error

    @classmethod
    def is_begun(cls, path: Path | str) -> bool:
        """Whether a folder holds a lake or what remains of one. No new lake may be made there silently."""
        folder = Path(path)
        return has_tables(folder / MANIFEST) or bool(_data_files(folder))

    def check_place(self) -> None:
        """Raise LakeError when the lake's name leads to another lake than the one that was opened, or does not exist."""
        if why := self.manifest.why_displaced():
            raise LakeError(f"the lake is not where it was opened: {why}", "put the folder back, or start again with the new one")

    def located(self, file: DataFile) -> str:
        """Where a listed file is: a path, or the URL of an object of a published lake."""
        return file.path if is_url(file.path) else str(self.path / file.path)

    def paths(self, kind: str, cluster: str | None = None) -> list[str]:
        """Where the files of a table are, as `files`; also of one cluster alone."""
        return [self.located(file) for file in self.manifest.files(kind, cluster)] or [str(self.path / kind / "_empty.parquet")]

    def files(self, kind: str = "events", span_us: tuple[int, int] | None = None) -> list[Path]:
        """The Parquet files of a table, in the order of time; at least one, because an engine needs a schema to read.

        `span_us` narrows to files that may hold rows of that range of stage_ts, in microseconds since the epoch.
        """
        listed = [self.path / file.path for file in self.manifest.files(kind, span_us=span_us)]
        return listed or [self.path / kind / "_empty.parquet"]

    def unlisted(self) -> list[Path]:
        """Files in the tables' folders that no manifest lists. A writer is at work, or was killed; the next writer deletes them."""
        listed = self.manifest.listed()
        found = _data_files(self.path)
        return [path for path in found if str(path.relative_to(self.path)) not in listed]

    @contextmanager
    def writer(self) -> Iterator[LakeWriter]:
        """Take the right to write. Raises LakeError when another process has it, or when the lake was moved or replaced."""
        self.check_place()
        if (source := self.manifest.prop(PUBLISHED)) is not None:
            raise LakeError(f"{source}: a published lake is a copy and cannot be written", "write to the lake that was published")
        try:
            handle = os.open(self.path / ".writer", os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise LakeError(f"{self.path}: the lake cannot be written: {error.strerror}", "fix its owner or free space") from error
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise LakeError(
                    f"{self.path}: another process is writing to this lake", "wait for it, or let `hindcast serve` do the work"
                ) from error
            writer = LakeWriter(self)
            writer.sweep()
            yield writer
        finally:
            os.close(handle)

    def close(self) -> None:
        """Release the manifest."""
        self.manifest.close()


class LakeWriter:
    """The one writing end of a lake."""

    def __init__(self, lake: Lake) -> None:
        self.lake = lake
        self._named: set[Path] = set()  # days whose folders have their names on disk

    def write(self, kind: str, cluster: str, table: pa.Table, *, compacted: bool = False) -> list[DataFile]:
        """Write rows as one durable Parquet file per UTC day; they are part of the lake once `commit` lists them.

        Raises LakeError when the disk cannot take them; the earlier content is untouched.
        """
        column = time_column(kind)
        days = pc.cast(pc.floor_temporal(table[column], unit="day"), pa.date32())
        found = sorted(day for day in pc.unique(days).to_pylist() if day is not None)
        written: list[DataFile] = []
        self.lake.check_place()
        try:
            for day in found:
                part = table if len(found) == 1 else table.filter(pc.equal(days, pa.scalar(day, pa.date32())))
                written.append(self._write_day(kind, cluster, day, part, column, compacted))
        except (OSError, pa.ArrowException) as error:
            raise LakeError(f"{self.lake.path}: events cannot be written: {error}", "free some space, then run it again") from error
        return written

    def commit(
        self,
        add: Sequence[DataFile] = (),
        remove: Sequence[str] = (),
        props: Mapping[str, str | None] | None = None,
        retired_ts: float = 0.0,
    ) -> None:
        """Add files to the lake and remove others, in one transaction with the marks of the input that was read.

        Raises LakeError, also when the lake was moved or replaced meanwhile: its new files would be in one folder, and the list of
        them in the other. The caller must then not remove the segment that it read.
        """
        self.lake.check_place()
        self.lake.manifest.commit(add, remove, props, retired_ts)
        self.lake.check_place()

    def sweep(self) -> int:
        """Delete files that no manifest lists. A writer leaves them if it is killed between writing and committing.

        Raises LakeError when the manifest cannot be written or a file cannot be deleted.
        """
        if not self.lake.unlisted():
            return 0
        # A commit that failed may still be whole in SQLite's log, and a crash would bring it back. This commit takes its place, so
        # that the files that are not listed now never become listed.
        manifest = self.lake.manifest
        manifest.commit(props={_SWEEPS: str(int(manifest.prop(_SWEEPS) or 0) + 1)})
        orphans = self.lake.unlisted()
        for path in orphans:
            try:
                path.unlink(missing_ok=True)
            except OSError as error:
                raise LakeError(f"{path}: cannot be deleted: {error.strerror}", "fix the owner of the lake") from error
        return len(orphans)

    def _write_day(self, kind: str, cluster: str, day: date, part: pa.Table, column: str, compacted: bool) -> DataFile:
        name = f"{kind}/dt={day.isoformat()}/{secrets.token_hex(8)}.parquet"
        path = self.lake.path / name
        # A folder that exists may be one that a killed writer had just made.
        unnamed = path.parent not in self._named or not path.parent.is_dir()
        write_durably(path, lambda target: _write_parquet(target, part, level=3 if compacted else 1))
        if unnamed:
            sync_folder(path.parent.parent)
            self._named.add(path.parent)
        span = pc.min_max(part[column].cast(pa.int64()))
        return DataFile(
            path=name,
            kind=kind,
            cluster=cluster,
            dt=day.isoformat(),
            rows=part.num_rows,
            bytes=path.stat().st_size,
            min_us=span["min"].as_py(),
            max_us=span["max"].as_py(),
            digest=file_digest(path),
            compacted=int(compacted),
        )


def stems_of_events(folder: Path) -> set[str]:
    """The names, without their suffixes, of the files of events on disk, or of those in the published lake that a folder shows."""
    found = {path.stem for path in (folder / "events").glob("*/*.parquet")}
    if not found and has_tables(folder / MANIFEST):
        with closing(Lake.open(folder)) as lake:
            found = {Path(file.path).stem for file in lake.manifest.files("events")}
    return found


def _data_files(folder: Path) -> list[Path]:
    return [path for kind in _SCHEMAS for path in sorted((folder / kind).glob("dt=*/*"))]


def file_digest(path: Path | str) -> str:
    """xxh3-128 of the bytes of a file or an object, in hexadecimal. Raises OSError."""
    digest = xxhash.xxh3_128()
    with open_object(str(path)) if is_url(path) else Path(path).open("rb") as handle:
        while block := handle.read(1 << 22):
            digest.update(block)
    return digest.hexdigest()


def _write_parquet(target: Path, table: pa.Table, level: int) -> None:
    leaves: Any = [leaf for field in table.schema if field.name not in _DISTINCT for leaf in _leaves(field)]
    # The bloom filter finds one audit ID in milliseconds, for one percent of the size.
    bloom = {"audit_id": {"ndv": max(table.num_rows, 1), "fpp": 0.01}} if "audit_id" in table.column_names else None
    # Without a buffer, each page and each part of the footer would be a system call of its own.
    with pa.output_stream(str(target), buffer_size=_WRITE_BYTES) as stream:
        pq.write_table(
            table,
            stream,
            row_group_size=_ROW_GROUP_ROWS,
            compression="zstd",
            compression_level=level,
            use_dictionary=leaves,
            write_page_index=True,
            bloom_filter_options=bloom,
        )


def _leaves(field: pa.Field[Any], prefix: str = "") -> list[str]:
    """The Parquet columns of a field, by the names of the format's nested types (parquet-format, LogicalTypes.md)."""
    path = f"{prefix}{field.name}"
    kind: Any = field.type
    if pa.types.is_map(kind):
        return _leaves(kind.key_field.with_name("key"), f"{path}.key_value.") + _leaves(
            kind.item_field.with_name("value"), f"{path}.key_value."
        )
    if pa.types.is_list(kind):
        return _leaves(kind.value_field.with_name("element"), f"{path}.list.")
    if pa.types.is_struct(kind):
        return [leaf for index in range(kind.num_fields) for leaf in _leaves(kind.field(index), f"{path}.")]
    return [path]


def _write_empty(path: Path, schema: pa.Schema) -> None:
    if not path.exists():
        write_durably(path, lambda target: pq.write_table(schema.empty_table(), target))
