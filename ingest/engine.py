"""One small database for the tables that a process holds in memory: to open one takes longer than most such queries."""

from __future__ import annotations

import atexit
import os
from functools import cache

import duckdb

# Files on a disk need no threads that wait for them. The default of eight takes 64 MiB of a process whose memory is bounded.
LOCAL: dict[str, str | bool | int | float | list[str]] = {"async_threads": 0}


def engine_cursor() -> duckdb.DuckDBPyConnection:
    """A cursor with tables of its own; close it after use. It takes one thread, and times are in UTC."""
    return _engine(os.getpid()).cursor()


@cache
def _engine(process: int) -> duckdb.DuckDBPyConnection:
    """The database of this process: one that was opened before a fork lacks its threads in the new process."""
    engine = duckdb.connect(config={"threads": 1, **LOCAL})
    engine.execute("SET GLOBAL timezone = 'UTC'")
    return engine


# DuckDB complains of a database that is open when the interpreter ends.
atexit.register(_engine.cache_clear)
