"""Databases with all views and no files. To open one takes longer than to ask a small lake, so later readers of a process take
those that earlier ones gave back.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
import threading
import weakref
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeAlias

import duckdb

from .catalog import LakeFiles
from .store import has_store
from .templates import install_new

# The number of threads (None: one per core), and the limit of memory in bytes.
Limits: TypeAlias = tuple[int | None, int]

_KEPT_MAX = 4
_kept: defaultdict[Limits, list[Database]] = defaultdict(list)
_lock = threading.Lock()
# What a reader's caller may have changed: settings, tables, views, and attached databases. The views `lake_NAME` name the files.
_STATE = """
    SELECT
        (SELECT bit_xor(hash(name, value)) FROM duckdb_settings()),
        (SELECT count(*) FROM duckdb_tables() WHERE NOT temporary),
        (SELECT (count(*), bit_xor(hash(view_name, CASE WHEN NOT starts_with(view_name, 'lake_') THEN sql END)))
            FROM duckdb_views() WHERE NOT internal AND NOT temporary),
        (SELECT count(*) FROM duckdb_databases())"""


@dataclass(eq=False)
class Database:
    """A database in memory. Its users are the reader that took it, and those that share it.

    `state` is what later readers rely on.
    """

    root: duckdb.DuckDBPyConnection
    limits: Limits
    users: int = 0
    state: tuple[object, ...] | None = None

    def begin(self) -> duckdb.DuckDBPyConnection:
        """A cursor for one more user."""
        with _lock:
            self.users += 1
        return self.root.cursor()

    def end(self, cursor: duckdb.DuckDBPyConnection) -> None:
        """Close the cursor of a user. What is temporary in it is gone then."""
        with _lock:
            self.users -= 1
        cursor.close()


def take(limits: Limits) -> Database:
    """A database that no reader uses. Sorts and joins that need more memory than its limit spill to a private temporary folder."""
    with _lock:
        found = _kept[limits].pop() if _kept[limits] else None
    if found is not None:
        return found
    threads, memory_bytes_max = limits
    # Only the owner may read this folder, because bodies may be in it. DuckDB itself would use the working directory.
    spill = tempfile.mkdtemp(prefix="hindcast-")
    config: dict[str, str | bool | int | float | list[str]] = {"memory_limit": f"{memory_bytes_max}B", "temp_directory": spill}
    made = Database(duckdb.connect(config=config | ({} if threads is None else {"threads": threads})), limits)
    weakref.finalize(made, shutil.rmtree, spill, ignore_errors=True)
    install_new(made.root, LakeFiles())
    made.state = _state(made.root)
    return made


def give_back(database: Database) -> None:
    """Keep a database for a later reader, unless it is in use or was changed."""
    # A store has the credentials of its time.
    state = None if database.users or has_store(database.root) else _state(database.root)
    if state is not None and state == database.state:
        with _lock:
            if len(_kept[database.limits]) < _KEPT_MAX:
                _kept[database.limits].append(database)
                return
    database.root.close()


def _state(connection: duckdb.DuckDBPyConnection) -> tuple[object, ...] | None:
    """None for a database that answers no more, such as one whose limit of memory somebody lowered."""
    with suppress(duckdb.Error):
        return connection.execute(_STATE).fetchall()[0]
    return None


def _close_kept() -> None:
    """Before a fork, because the new process lacks the threads of these databases; and before the interpreter ends."""
    with _lock:
        for database in (each for kept in _kept.values() for each in kept):
            database.root.close()
        _kept.clear()


os.register_at_fork(before=_close_kept)
atexit.register(_close_kept)
