"""The error for a user when an engine fails on a lake: it names the damaged file and the next step, in place of the engine's
words."""

from __future__ import annotations

import errno
import sqlite3
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from ingest.errors import HindcastError, LakeError
from ingest.lake import MANIFEST, Lake
from ingest.maintain import verify
from pipeline.runs import RunStore

from .confinement import out_of_memory
from .exhausted import wants_memory

# What DuckDB, Arrow, SQLite and the operating system raise. A mistake in our own SQL raises these types, too.
ENGINE_ERRORS: tuple[type[Exception], ...] = (duckdb.Error, pa.ArrowException, sqlite3.Error, OSError, MemoryError)
_OURS = (duckdb.BinderException, duckdb.CatalogException, duckdb.ParserException, duckdb.InternalException)
_OF_THE_MACHINE = {
    errno.ENOSPC: ("the disk is full", "free some space, then run it again"),
    errno.EDQUOT: ("the quota of the disk is used up", "free some space, then run it again"),
    errno.EFBIG: ("a file would be larger than this process may write", "raise the limit (`ulimit -f`), then run it again"),
    errno.EROFS: ("the disk is read-only", "a replay keeps its verdicts in the lake: copy it to where it can be written"),
    errno.EIO: ("the disk cannot be read or written", "see what the kernel says of it; copy the lake to another one"),
    errno.EMFILE: ("too many files are open", "raise the limit (`ulimit -n`), then run it again"),
}
_NEXT = "`hindcast doctor --verify` names every damaged file, and says what to do"


def explained(error: Exception, folder: Path) -> HindcastError | None:
    """The error for a user, where the state of the machine or of the lake at `folder` is the cause; None for a defect of Hindcast.

    Where a file's content may be the cause, every file is compared with its checksum: that costs one reading of the disk.
    """
    # DuckDB gives some failed allocations another type, and says the same of them.
    if isinstance(error, (duckdb.OutOfMemoryException, MemoryError)) or str(error).startswith("Out of Memory Error"):
        return out_of_memory(error)
    if isinstance(error, sqlite3.Error):
        return LakeError(f"{folder / MANIFEST}: the lake's manifest cannot be read: {error}", "restore it from a backup")
    if isinstance(error, OSError) and error.errno in _OF_THE_MACHINE:
        problem, hint = _OF_THE_MACHINE[error.errno]
        return LakeError(f"{problem}: {error.filename or folder}", hint)
    try:
        damaged = _damaged(folder) or _damaged_run(folder)
    except MemoryError as wanting:
        return out_of_memory(wanting)
    if damaged is not None:
        return damaged
    if isinstance(error, OSError) and error.filename is not None:
        return LakeError(f"{error.filename}: {error.strerror}", "see whether the path is right, and who may read it")
    if isinstance(error, _OURS) or (isinstance(error, OSError) and error.errno is not None):
        return None
    return LakeError(f"{folder}: the lake cannot be read: {_first_line(error)}", _NEXT)


def _damaged(folder: Path) -> LakeError | None:
    """The first file of the lake that differs from its checksum, with the number of the others."""
    try:
        lake = Lake.open(folder)
        try:
            faults = verify(lake)
        finally:
            lake.close()
    except LakeError as error:
        return error if folder.exists() else None
    if not faults:
        return None
    more = f", and {len(faults) - 1} more" if len(faults) > 1 else ""
    return LakeError(f"{folder / faults[0].path}: the file is damaged: {faults[0].reason}{more}", _NEXT)


def _damaged_run(folder: Path) -> HindcastError | None:
    """The error of the first run whose verdicts cannot be read to the end, for damage or for want of memory."""
    for run in sorted(RunStore(folder).every(), key=lambda run: run.run_id):
        file = run.verdicts
        if not file.exists():
            continue
        try:
            with pq.ParquetFile(file) as verdicts:
                for _ in verdicts.iter_batches():
                    pass
        except (OSError, MemoryError, pa.ArrowException) as error:
            if wants_memory(error):
                return out_of_memory(error)
            return LakeError(
                f"{file}: the verdicts of this run are damaged: {_first_line(error)}",
                f"remove the folder {file.parent}: the replay makes the same run again",
            )
    return None


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
