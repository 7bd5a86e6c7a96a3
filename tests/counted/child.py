"""Runs one command in this process, counts what it does, and writes the counts: `python -m tests.counted.child ASKED`.

ASKED is the JSON of an object: `words` of the command line, or `page` of a lake; `named` functions; files `kept`, `profiles`, `out`.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.counted.instrument import Counts


def _profile(path: str) -> None:
    """Let every connection of DuckDB tell each statement's profile; a pipe takes them one after the other."""
    import duckdb

    def telling(made: Callable[..., duckdb.DuckDBPyConnection]) -> Callable[..., duckdb.DuckDBPyConnection]:
        def connected(*given: Any, **options: Any) -> duckdb.DuckDBPyConnection:
            connection = made(*given, **options)
            for setting in ("enable_profiling = 'json'", "profiling_coverage = 'ALL'", f"profiling_output = '{path}'"):
                connection.execute(f"SET {setting}")
            return connection

        return connected

    execute = duckdb.DuckDBPyConnection.execute

    def allowing(self: duckdb.DuckDBPyConnection, query: Any, parameters: Any = None) -> duckdb.DuckDBPyConnection:
        # A stranger's statement may read the lake alone; its profile goes to the pipe all the same.
        if query == "SET allowed_directories = ?":
            parameters = [[*parameters[0], str(Path(path).parent)]]
        return execute(self, query, parameters)

    duckdb.connect = telling(duckdb.connect)
    duckdb.DuckDBPyConnection.execute = allowing  # type: ignore[method-assign, assignment]
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
    finally:
        Path(asked["out"]).write_text(json.dumps(counts.read()), encoding="utf-8")
    sys.stdout.flush()
    sys.stderr.flush()
    return code


if __name__ == "__main__":
    # As fast as a crash, so that nothing counts after the counts were read.
    os._exit(main(sys.argv[1]))
