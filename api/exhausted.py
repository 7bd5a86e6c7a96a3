"""Recognizes the errors of a confined process that has no memory left."""

from __future__ import annotations

import duckdb


def wants_memory(error: BaseException) -> bool:
    """Whether the memory bound caused an error of a confined process. Not every library raises a MemoryError when an allocation
    fails: some lose it, and Python then raises a SystemError."""
    if isinstance(error, (MemoryError, RecursionError, SystemError, duckdb.OutOfMemoryException)):
        return True
    return any(words in str(error).lower() for words in ("memory", "allocat", "can't start new thread", "launch worker thread"))
