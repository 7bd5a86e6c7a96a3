"""Publication: make the tables of a target equal to the lake, without a moment that doubles or lacks an event.

A publication reads the state of the table first and the lake's manifest after it, and commits only on top of that state. So a
commit never replaces a newer state of the lake with an older one, however many publishers there are. Files are uploaded before the
commit that lists them. A publication that was killed leaves objects that no snapshot lists; the next one uses or removes them.
"""

from __future__ import annotations

import os
import random
import secrets
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from pyarrow import fs

from ingest.durable import make_folder
from ingest.errors import LakeError
from ingest.holds import hold_files
from ingest.lake import Lake
from ingest.maintain import refuse_damaged
from ingest.manifest import PUBLISHED, DataFile

from .catalogs import CONFLICTS, Tables, open_tables
from .tables import KINDS, Change, change_of, commit, find_or_make, position_of, url_of
from .target import Target, path_of, reaching
from .upkeep import remove_unused

_ATTEMPTS = 12
_UPLOADS_AT_ONCE = 4
_WAIT_SECONDS = 0.2

# Called with the bytes that are published, and the bytes of the lake.
Progress: TypeAlias = Callable[[int, int], None]


@dataclass(slots=True)
class Published:
    """The result for one table. `files`, `rows` and `bytes` are those of the published lake."""

    kind: str
    files: int = 0
    rows: int = 0
    bytes: int = 0
    added: int = 0
    removed: int = 0
    uploaded_bytes: int = 0
    objects_deleted: int = 0
    attempts: int = 1
    snapshot: int | None = None


def publish(
    lake: Lake, target: Target, now_ts: float, unused_before_ts: float, progress: Progress = lambda done, total: None
) -> list[Published]:
    """Publish the present state of a lake; one result for each table.

    Snapshots before `unused_before_ts` are forgotten with the files that only they list: readers that began later keep theirs. Both
    times are seconds since the epoch. Raises LakeError when the target cannot be used. Finished commits stay, and a second
    call goes on after them.
    """
    if (source := lake.manifest.prop(PUBLISHED)) is not None:
        raise LakeError(f"{source}: is a published lake already", "publish the lake that it is a copy of")
    with hold_files(lake.path, now_ts):
        tables = open_tables(target, lake.path)
        try:
            publication = _Publication(lake, tables, progress)
            done = [publication.publish(kind) for kind in KINDS]
            publication.show()
            for result in done:
                if (table := tables.find(result.kind)) is not None:
                    result.objects_deleted = remove_unused(lake, target, table, now_ts, unused_before_ts)
            publication.show()  # expired snapshots make a new version of the metadata
        finally:
            tables.close()
    return done


class _Publication:
    """One publication of a lake to the tables of a target."""

    def __init__(self, lake: Lake, tables: Tables, progress: Progress) -> None:
        self._lake = lake
        self._tables = tables
        self._progress = progress
        self._identity = lake.manifest.identity()
        self._total_bytes = sum(file.bytes for kind in KINDS for file in lake.manifest.files(kind))
        self._done_bytes = 0

    def publish(self, kind: str) -> Published:
        """Make one table equal to the lake. Raises LakeError."""
        done = Published(kind)
        before = self._done_bytes
        for attempt in range(_ATTEMPTS):
            table = find_or_make(self._tables, kind, self._identity)
            listed = self._lake.manifest.files(kind)
            change = change_of(table, listed)
            done.files, done.rows, done.bytes = len(listed), sum(file.rows for file in listed), sum(file.bytes for file in listed)
            done.attempts = attempt + 1
            self._done_bytes = before + done.bytes - sum(file.bytes for file in change.add.values())
            if not change.add and not change.remove:
                return done
            done.uploaded_bytes += self._upload(kind, change)
            try:
                position = position_of(url_of(table.location(), file) for file in listed)
                done.snapshot = commit(table, change, position, self._identity)
            except CONFLICTS:
                time.sleep(random.uniform(0, _WAIT_SECONDS * (attempt + 1)))
                continue
            done.added, done.removed = len(change.add), len(change.remove)
            return done
        raise LakeError(
            f"{self._tables.target.table(kind)}: another publisher was first {_ATTEMPTS} times",
            "let one publisher do this, or try again later",
        )

    def show(self) -> None:
        """Let engines without the lake's own catalog find the current metadata. A configured catalog is there for all engines."""
        if self._tables.is_own:
            for kind in KINDS:
                self._tables.show(kind)

    def _upload(self, kind: str, change: Change) -> int:
        """Upload the files that are not there yet; returns the uploaded bytes."""
        target = self._tables.target
        there = _sizes(target, kind) if change.add else {}
        missing = {url: file for url, file in change.add.items() if there.get(path_of(url)) != file.bytes}
        total = sum(file.bytes for file in missing.values())
        self._uploaded(sum(file.bytes for file in change.add.values()) - total)
        with ThreadPoolExecutor(_UPLOADS_AT_ONCE, thread_name_prefix="publish") as executor:
            uploads = {executor.submit(_upload_one, self._lake, target, url, file): file for url, file in missing.items()}
            try:
                for upload in as_completed(uploads):
                    upload.result()
                    self._uploaded(uploads[upload].bytes)
            except BaseException:
                executor.shutdown(wait=True, cancel_futures=True)
                raise
        return total

    def _uploaded(self, size_bytes: int) -> None:
        self._done_bytes += size_bytes
        self._progress(self._done_bytes, self._total_bytes)


def _upload_one(lake: Lake, target: Target, url: str, file: DataFile) -> None:
    """One object, in one piece: it appears whole or not at all. Raises DamagedFileError for a file that differs from its digest."""
    refuse_damaged(lake, file)
    content = (lake.path / file.path).read_bytes()
    with reaching(url):
        _make_parent(target, url)
        unfinished = _unfinished(target, url)
        with target.filesystem().open_output_stream(unfinished) as stream:
            stream.write(content)
        if not target.is_bucket:
            target.filesystem().move(unfinished, path_of(url))


def _make_parent(target: Target, url: str) -> None:
    if not target.is_bucket:  # a store has no folders
        make_folder(_folder(url))


def _folder(url: str) -> Path:
    return Path(path_of(url)).parent


def _unfinished(target: Target, url: str) -> str:
    """Where to write: a store shows an object only when it is complete, a disk shows every byte. Each call gives another name."""
    return path_of(url) if target.is_bucket else f"{path_of(url)}.{os.getpid()}-{secrets.token_hex(4)}.tmp"


def _sizes(target: Target, kind: str) -> dict[str, int]:
    """The sizes of the data objects of a table, by their paths."""
    selector = fs.FileSelector(path_of(f"{target.table(kind)}/data"), allow_not_found=True, recursive=True)
    with reaching(target.table(kind)):
        return {info.path: info.size for info in target.filesystem().get_file_info(selector) if info.type == fs.FileType.File}
