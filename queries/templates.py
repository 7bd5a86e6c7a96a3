"""Views and macros for new connections, copied from a database file that this user's first connection has made.

To create every view takes half a second, because DuckDB binds all views below it. To copy the schema of a database takes a
fiftieth of that.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import shutil
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

import duckdb

from ingest.durable import own_name
from ingest.schema import EVENTS, OBJECTS, REPEATS
from ingest.user_cache import user_cache

from .catalog import LakeFiles, configure, install, install_files, statements, text_literal

# Versions of Hindcast or of DuckDB whose templates are kept next to each other.
_VERSIONS_MAX = 4
_lock = threading.Lock()


def install_new(connection: duckdb.DuckDBPyConnection, files: LakeFiles) -> None:
    """As `install`, for a connection to an empty database in memory. This user's first one is as slow as `install`."""
    # One at a time, because DuckDB locks a file that is attached.
    with _lock:
        template = _folder() / f"views-{_digest()}.duckdb"
        if not _copied(connection, template):
            install(connection, LakeFiles())
            _save(connection, template)
    install_files(connection, files)


def _folder() -> Path:
    """The user's cache, or a folder of this process where that cannot be written."""
    with suppress(OSError, RuntimeError):
        folder = user_cache()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if os.access(folder, os.W_OK):
            return folder
    return _own_folder()


@cache
def _own_folder() -> Path:
    folder = tempfile.mkdtemp(prefix="hindcast-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


@cache
def _digest() -> str:
    """Of everything that decides the content of a template."""
    parts = (duckdb.__version__, *map(repr, statements()), *map(str, (EVENTS, OBJECTS, REPEATS)))
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def _copied(connection: duckdb.DuckDBPyConnection, path: Path) -> bool:
    """Whether the connection now has the schema of a template. A file that is missing or damaged is made again."""
    if not path.exists():
        return False
    configure(connection)
    try:
        with _attached(connection, path, "(READ_ONLY)"):
            connection.execute("COPY FROM DATABASE template TO memory (SCHEMA)")
    except duckdb.Error:
        return False
    return True


def _save(connection: duckdb.DuckDBPyConnection, path: Path) -> None:
    """Write the schema of a connection, and no rows, to a file. Without room for it, later connections take as long as this one."""
    unfinished = own_name(path)  # two processes may make one template at a time
    try:
        with _attached(connection, unfinished):
            connection.execute("COPY FROM DATABASE memory TO template (SCHEMA)")
        unfinished.replace(path)
        for old in sorted(path.parent.glob("views-*"), key=lambda file: file.stat().st_mtime)[:-_VERSIONS_MAX]:
            old.unlink()
    except (OSError, duckdb.Error):
        with suppress(OSError):
            unfinished.unlink(missing_ok=True)


@contextmanager
def _attached(connection: duckdb.DuckDBPyConnection, path: Path, options: str = "") -> Iterator[None]:
    connection.execute(f"ATTACH {text_literal(str(path))} AS template {options}")
    try:
        yield
    finally:
        connection.execute("DETACH template")
