"""Runs one command in this process, counts what it does, and writes the counts: `python -m tests.counted.child ASKED`.

ASKED is the JSON of an object: `words` of the command line, or `page` of a `lake`; `named` functions; and the places `kept`,
`profiles` and `out`.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

from tests.counted.instrument import Counts
from tests.counted.statements import pipe_of

# An exception would end with 1, as a gate does.
_DEFECT = 70


def _profile(folder: str) -> None:
    """Let every connection of DuckDB tell each statement's profile, through a pipe of its own."""
    import duckdb

    numbers = count()

    def telling(made: Callable[..., duckdb.DuckDBPyConnection]) -> Callable[..., duckdb.DuckDBPyConnection]:
        def connected(*given: Any, **options: Any) -> duckdb.DuckDBPyConnection:
            connection = made(*given, **options)
            path = pipe_of(folder, next(numbers))
            for setting in ("enable_profiling = 'json'", "profiling_coverage = 'ALL'", f"profiling_output = '{path}'"):
                connection.execute(f"SET {setting}")
            return connection

        return connected

    execute = duckdb.DuckDBPyConnection.execute

    def allowing(self: duckdb.DuckDBPyConnection, query: Any, parameters: Any = None) -> duckdb.DuckDBPyConnection:
        # Where a stranger's statements are confined, their profiles go to the pipe all the same.
        if query == "SET allowed_directories = ?":
            parameters = [[*parameters[0], folder]]
        elif query == "SET lock_configuration = true":
            return self
        return execute(self, query, parameters)

    duckdb.connect = telling(duckdb.connect)
    duckdb.DuckDBPyConnection.execute = allowing  # type: ignore[method-assign]
    # A cursor is a connection of its own, and has none of these settings.
    duckdb.DuckDBPyConnection.cursor = telling(duckdb.DuckDBPyConnection.cursor)  # type: ignore[method-assign]


def _page(lake: str, path: str) -> int:
    from api.settings import Settings
    from tests.querying import QueryClient

    with QueryClient(Settings(lake=Path(lake), sink=False)) as client:
        client.page(path)
    return 0


def main(text: str) -> int:
    """Run, count, write; returns the command's exit code."""
    asked = json.loads(text)
    counts = Counts(asked["named"])
    counts.install(Path(asked["kept"]))
    _profile(asked["profiles"])
    try:
        if asked["page"]:
            code = _page(asked["lake"], asked["page"])
        else:
            from api.cli import run

            code = run(["--lake", asked["lake"], "--quiet", *asked["words"]])
    except Exception:
        traceback.print_exc()
        code = _DEFECT
    finally:
        Path(asked["out"]).write_text(json.dumps(counts.read()), encoding="utf-8")
    sys.stdout.flush()
    sys.stderr.flush()
    return code


if __name__ == "__main__":
    # As fast as a crash, so that nothing counts after the counts were read.
    os._exit(main(sys.argv[1]))
