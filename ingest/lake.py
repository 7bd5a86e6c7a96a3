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
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import xxhash

from .durable import make_folder
from .errors import LakeError
from .inside import refuse_links
from .manifest import PUBLISHED, DataFile, Manifest, has_tables, refuse_name
from .published.target import is_url, open_object
from .schema import EVENTS, OBJECTS, REPEATS

if TYPE_CHECKING:
    from .lake_writer import LakeWriter

MANIFEST = "manifest.sqlite"
_SCHEMAS = {"events": EVENTS, "objects": OBJECTS, "repeats": REPEATS}


class Lake:
    """One lake. `Lake.open` to read, `writer()` to change it."""

    def __init__(self, path: Path, manifest: Manifest) -> None:
        self.path = path
        self.manifest = manifest

    @classmethod
    def open(cls, path: Path | str) -> Lake:
        """Open an existing lake for reading.

        Raises LakeError if the folder holds no lake or one of another version, and ForeignNameError if the lake leads out of it.
        """
        folder = Path(path)
        refuse_links(folder)
        return cls(folder, Manifest(folder / MANIFEST))

    @classmethod
    def create(cls, path: Path | str) -> Lake:
        """Open a lake, or make an empty one.

        Raises LakeError when the folder cannot be written, or has a name by which no engine would find its files again. Raises
        LakeError also when it holds events and no manifest: an empty manifest would let the next writer delete them.
        """
        from .lake_writer import write_empty  # its engines take a moment to load, and readers write nothing

        folder = Path(path)
        refuse_name(folder)
        refuse_links(folder)
        if not has_tables(folder / MANIFEST) and (found := _data_files(folder)):
            raise LakeError(
                f"{folder / MANIFEST}: the manifest is missing or empty, but there are {len(found)} data files, e.g. {found[0]}",
                "restore the manifest from a backup, or move the folder away to begin a new lake",
            )
        try:
            for name in ("", "spool", "quarantine", "runs", *_SCHEMAS):
                make_folder(folder / name)
            for kind, schema in _SCHEMAS.items():
                write_empty(folder / kind / "_empty.parquet", schema)
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
        from .lake_writer import LakeWriter

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
            self.manifest.upgrade()
            writer = LakeWriter(self)
            writer.sweep()
            yield writer
        finally:
            os.close(handle)

    def close(self) -> None:
        """Release the manifest."""
        self.manifest.close()


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
