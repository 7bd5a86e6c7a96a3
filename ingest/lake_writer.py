"""The writing end of a lake: rows become Parquet files, and the manifest lists them."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from .durable import sync_folder, write_durably
from .errors import LakeError
from .lake import Lake, file_digest
from .manifest import DataFile
from .schema import time_column

_ROW_GROUP_ROWS = 50_000
_WRITE_BYTES = 1 << 20
_SWEEPS = "sweeps"
# Columns whose values hardly repeat grow with a dictionary; all others shrink.
_DISTINCT = ("request_object", "response_object", "object", "audit_id", "stage_ts", "ts", "uid")


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
        if table.num_rows and pc.unique(table["cluster"]).to_pylist() != [cluster]:
            raise AssertionError(f"rows of another cluster among those of {cluster!r}")
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


def write_empty(path: Path, schema: pa.Schema) -> None:
    """Make the file without rows that gives engines a schema, unless it is there. Raises OSError."""
    if not path.exists():
        write_durably(path, lambda target: pq.write_table(schema.empty_table(), target))
