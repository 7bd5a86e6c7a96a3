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

from ingest.engine import LOCAL

from .catalog import LakeFiles, Shown, install_files
from .store import has_store
from .templates import install_new

# The number of threads (None: one per core), and the limit of memory in bytes.
Limits: TypeAlias = tuple[int | None, int]

_KEPT_MAX = 4
_kept: defaultdict[Limits, list[Database]] = defaultdict(list)
# What a new database says of itself. The second one of a process is asked, because many commands need only one.
_expected: dict[Limits, tuple[object, ...]] = {}
_opened_once: set[Limits] = set()
_lock = threading.Lock()
# The settings that Hindcast changes; to ask DuckDB for all of them takes longer than to point a database at a lake.
SETTINGS = (
    *("threads", "async_threads", "memory_limit", "enable_external_access", "allowed_directories", "lock_configuration"),
    *("timezone", "parquet_metadata_cache", "enable_progress_bar", "python_enable_replacements"),
    *("autoinstall_known_extensions", "autoload_known_extensions"),
)
# What a reader's caller may have changed: settings, tables, views, and attached databases. The views `lake_NAME` and
# `deciding_events` depend on the files. A view that is made again has another number, which takes less time than its text.
_STATE = f"""
    SELECT
        ({", ".join(f"current_setting('{name}')" for name in SETTINGS)}),
        current_setting('temp_directory') = $spill,
        (SELECT count(*) FROM duckdb_tables() WHERE NOT temporary),
        (SELECT (count(*), sum(view_oid) FILTER (NOT starts_with(view_name, 'lake_') AND view_name <> 'deciding_events'))
            FROM duckdb_views() WHERE NOT internal AND NOT temporary),
        (SELECT count(*) FROM duckdb_databases())"""


@dataclass(eq=False)
class Database:
    """A database in memory. Its users are the reader that took it, and those that share it.

    Sorts and joins that need more memory than its limit spill to a private temporary folder.
    """

    root: duckdb.DuckDBPyConnection
    limits: Limits
    spill: str
    users: int = 0
    shown: Shown | None = None

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

    def show(self, cursor: duckdb.DuckDBPyConnection, files: LakeFiles) -> None:
        """Point the views of all its users at these files. Raises LakeError as `install_files`."""
        self.shown = install_files(cursor, files, self.shown)

    def state(self) -> tuple[object, ...] | None:
        """What later readers rely on; None if it answers no more, for example because its limit of memory was lowered."""
        with suppress(duckdb.Error):
            return self.root.execute(_STATE, {"spill": self.spill}).fetchall()[0]
        return None


def take(limits: Limits) -> Database:
    """A database that no reader uses, and that is as a new one."""
    while (found := _pop(limits)) is not None:
        if found.state() == _expected[limits]:
            return found
        found.root.close()
    made = _opened(limits)
    if limits in _opened_once and limits not in _expected and (state := made.state()) is not None:
        _expected[limits] = state
    _opened_once.add(limits)
    return made


def give_back(database: Database) -> None:
    """Keep a database for a later reader, unless it is in use or there are enough."""
    # A store has the credentials of its time.
    if not database.users and not has_store(database.root):
        with _lock:
            if len(_kept[database.limits]) < _KEPT_MAX:
                _kept[database.limits].append(database)
                return
    database.root.close()


def _pop(limits: Limits) -> Database | None:
    with _lock:
        return _kept[limits].pop() if limits in _expected and _kept[limits] else None


def _opened(limits: Limits) -> Database:
    threads, memory_bytes_max = limits
    # Only the owner may read this folder, because bodies may be in it. DuckDB itself would use the working directory.
    spill = tempfile.mkdtemp(prefix="hindcast-")
    config: dict[str, str | bool | int | float | list[str]] = {"memory_limit": f"{memory_bytes_max}B", "temp_directory": spill}
    config |= LOCAL
    made = Database(duckdb.connect(config=config | ({} if threads is None else {"threads": threads})), limits, spill)
    weakref.finalize(made, shutil.rmtree, spill, ignore_errors=True)
    install_new(made.root, LakeFiles())
    return made


def _close_kept() -> None:
    """Before a fork, because the new process lacks the threads of these databases; and before the interpreter ends."""
    with _lock:
        for kept in _kept.values():
            while kept:
                kept.pop().root.close()


os.register_at_fork(before=_close_kept)
atexit.register(_close_kept)
