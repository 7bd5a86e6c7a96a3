"""Writing derived data: a lake that cannot be written has none, and works without it."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Collection, Iterable
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import xxhash

from ingest.durable import write_whole

_MADE_OF = b"hindcast.made_of"


def keep(file: Path, content: bytes) -> None:
    """Write a whole file. If the lake cannot be written, nothing is kept, and the next replay computes the content again."""
    with suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        write_whole(file, content)  # two replays may keep one file at a time


def digest_of(texts: Iterable[str]) -> str:
    """A short name for some texts."""
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:16]


def file_digest(path: Path) -> str:
    """The digest of a file, which is part of its name, so that a damaged one does not count. Raises OSError."""
    digest = xxhash.xxh3_128()
    with path.open("rb") as file:
        while part := file.read(1 << 20):
            digest.update(part)
    return digest.hexdigest()


def is_whole(path: Path) -> bool:
    """Whether a file is as its name, `STEM-DIGEST.parquet`, says. Raises OSError."""
    return path.stem.rpartition("-")[2] == file_digest(path)


def by_events(folder: Path) -> dict[str, list[Path]]:
    """The files of a folder, `STEM-DIGEST.parquet`, by the stem of the file of events that each is of."""
    found: dict[str, list[Path]] = {}
    with suppress(OSError):
        for path in sorted(folder.glob("*-*.parquet")):
            found.setdefault(path.stem.rpartition("-")[0], []).append(path)
    return found


def forget_gone(folder: Path, there: Collection[str]) -> None:
    """Remove what other code kept next to a folder, and in it what is of files of events that are not among these stems."""
    with suppress(OSError):
        for other in folder.parent.iterdir():
            if other != folder:
                shutil.rmtree(other, ignore_errors=True)
        for stem, paths in by_events(folder).items():
            for path in paths if stem not in there else ():
                path.unlink(missing_ok=True)


def written_table(table: pa.Table, mark: bytes) -> bytes:
    """A table as a file that says what it was made of."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema.with_metadata({_MADE_OF: mark})) as file:
        file.write_table(table)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def read_table(file: Path, mark: bytes) -> pa.Table | None:
    """A table that `written_table` made; None if it is missing, damaged, or made of something else."""
    with suppress(OSError, pa.ArrowException), pa.ipc.open_file(pa.py_buffer(file.read_bytes())) as opened:
        if (opened.schema.metadata or {}).get(_MADE_OF) == mark:
            return opened.read_all().replace_schema_metadata(None)
    return None
