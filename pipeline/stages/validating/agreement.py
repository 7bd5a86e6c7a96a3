"""How far a replay of the policies in force agrees with the record, by policy and resource."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from functools import cache

import duckdb
import msgspec

from queries import LakeReader
from queries.catalog import statements

from ...runs import StoredRun
from ...runs.sql import statement as run_statement
from ..readiness import Agreed
from .compare import compare_with_log
from .sql import statement


def kept_agreement(reader: LakeReader, run: StoredRun, kubernetes_version: tuple[int, int]) -> list[Agreed]:
    """As `recorded_agreement`, of a run of the policies in force over what the reader shows.

    The first comparison of a run is kept next to it. A run is of one state of the lake, so a later one has nothing to add.
    """
    name = f"agreement-{_code_digest()}.json"
    kept = run.kept(name)
    with suppress(msgspec.DecodeError):
        if kept is not None:
            return msgspec.json.decode(kept, type=list[Agreed])
    compare_with_log(reader, run.verdicts, kubernetes_version)
    found = recorded_agreement(reader.connection)
    run.keep(name, msgspec.json.encode(found))
    return found


@cache
def _code_digest() -> str:
    """Of everything that decides what a comparison finds, and of how it is kept."""
    texts = (
        statement("compared"),
        run_statement("agreement"),
        ",".join(Agreed._fields),
        *map(repr, statements()),
        duckdb.__version__,
    )
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:16]


def recorded_agreement(connection: duckdb.DuckDBPyConnection) -> list[Agreed]:
    """The agreement of each policy with the record, by resource. `connection` holds the table `compared` of a comparison.

    A policy without a recorded outcome is not in it.
    """
    return [Agreed(*row) for row in connection.execute(run_statement("agreement")).fetchall()]
