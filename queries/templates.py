"""Views and macros for new connections, copied from a database file that this process has made once.

To create every view takes half a second, because DuckDB binds all views below it. To copy the schema of a database takes a
hundredth of that.
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
import threading
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import TypeAlias

import duckdb

from .catalog import LakeFiles, Statement, configure, file_literal, install, install_files, statements

# Whether a file holds comments, and the names and texts of its statements.
_Key: TypeAlias = tuple[bool, tuple[tuple[str, str], ...]]
_templates: dict[_Key, Path] = {}
_lock = threading.Lock()


def install_new(connection: duckdb.DuckDBPyConnection, files: LakeFiles, needed: Iterable[Statement] | None = None) -> None:
    """As `install`, for a connection to an empty database in memory. The first one of a process is as slow as `install`."""
    wanted = statements() if needed is None else tuple(needed)
    key = (needed is None, tuple((statement.name, statement.body) for statement in wanted))
    # One at a time, because DuckDB locks a file that is attached.
    with _lock:
        template = _templates.get(key)
        # A long process may outlive the file: systems clean their temporary folders.
        if template is not None and template.exists():
            configure(connection)
            _copy(connection, template)
        else:
            install(connection, LakeFiles(), None if needed is None else wanted)
            _save(connection, key)
    install_files(connection, files)


@cache
def _folder() -> Path:
    """A folder of this process, which is removed when the process ends."""
    folder = tempfile.mkdtemp(prefix="hindcast-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def _save(connection: duckdb.DuckDBPyConnection, key: _Key) -> None:
    """Write the schema of a connection, and no rows, to a file. Without room for it, later connections take as long as this one."""
    try:
        path = Path(tempfile.mkdtemp(dir=_folder())) / "template.duckdb"
        connection.execute(f"ATTACH {file_literal(str(path))} AS template")
        try:
            connection.execute("COPY FROM DATABASE memory TO template (SCHEMA)")
        finally:
            connection.execute("DETACH template")
    except (OSError, duckdb.Error):
        return
    _templates[key] = path


def _copy(connection: duckdb.DuckDBPyConnection, path: Path) -> None:
    connection.execute(f"ATTACH {file_literal(str(path))} AS template (READ_ONLY)")
    connection.execute("COPY FROM DATABASE template TO memory (SCHEMA)")
    connection.execute("DETACH template")
