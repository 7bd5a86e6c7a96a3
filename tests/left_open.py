"""SQLite databases that are open although nothing uses them any more: found on every Python, and told of the test that opened them.

Only Python from 3.13 on warns of them, and it warns when its collector runs: during any later test.
"""

from __future__ import annotations

import gc
import os
import sqlite3
import sys
import traceback

# Each connection that is not known to be closed, with the test that opened it and from where. The reference keeps it from being
# collected, so nothing but its owner closes it.
_opened: list[tuple[sqlite3.Connection, str, traceback.StackSummary]] = []


def watch() -> None:
    """From now on see each connection that this process opens (docs.python.org/3/library/audit_events.html)."""
    sys.addaudithook(_see)


def left_open() -> list[str]:
    """The open connections that nothing refers to, each with its test and the lines that opened it. They are closed then.

    What survives a collection is not looked at by the next one (`gc.freeze`): the objects of all tests before would take most of
    its time. A connection among them is found by `left_open_at_all`.
    """
    _forget_closed()
    if not _opened:
        return []
    gc.collect()
    gc.freeze()
    return _alone()


def left_open_at_all() -> list[str]:
    """As `left_open`, after a look at every object of the process."""
    gc.unfreeze()
    gc.collect()
    return _alone()


def _alone() -> list[str]:
    _forget_closed()
    found = []
    for entry in [*_opened]:
        connection, test, lines = entry
        # Referred to by the entry, by `connection` and by the argument of the call.
        if sys.getrefcount(connection) <= _ALONE:
            connection.close()
            _opened.remove(entry)
            found.append(f"{test} left a database open. It was opened here:\n{''.join(lines.format())}")
    return found


def _forget_closed() -> None:
    _opened[:] = [entry for entry in _opened if _is_open(entry[0])]


def _see(event: str, arguments: tuple[object, ...]) -> None:
    if event == "sqlite3.connect/handle":
        (connection,) = arguments
        assert isinstance(connection, sqlite3.Connection)
        lines = traceback.StackSummary.extract(traceback.walk_stack(None), limit=25, lookup_lines=False)
        _opened.append((connection, os.environ.get("PYTEST_CURRENT_TEST", "what ran before the first test"), lines))


def _is_open(connection: sqlite3.Connection) -> bool:
    try:
        return connection.total_changes >= 0
    except sqlite3.ProgrammingError:
        return False


def _count() -> int:
    entry = (sqlite3.connect(":memory:"), "", "")
    connection, _, _ = entry
    count = sys.getrefcount(connection)
    connection.close()
    return count


_ALONE = _count()
