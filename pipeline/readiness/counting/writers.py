"""Who last wrote a workload: a person or a pipeline behind the controller that was denied."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

import duckdb

from ..sql import statement


@dataclass(frozen=True, slots=True)
class Writer:
    """Who last wrote a workload, and when."""

    user: str
    ts: datetime


def last_writers(connection: duckdb.DuckDBPyConnection, found: Iterable[tuple[str, str]]) -> Mapping[tuple[str, str], Writer]:
    """The last writers of workloads, by (namespace, unit), as in (`shop`, `Deployment/web`); one without a recorded write lacks."""
    named = {(namespace, *_kind_and_name(unit)): unit for namespace, unit in found if "/" in unit}
    if not named:
        return {}
    columns = dict(zip(("namespaces", "kinds", "names"), map(list, zip(*named, strict=True)), strict=True))
    rows = connection.execute(statement("last_writers"), columns).fetchall()
    return {(namespace, named[namespace, kind, name]): Writer(user, ts) for namespace, kind, name, user, ts in rows}


def _kind_and_name(unit: str) -> tuple[str, str]:
    kind, _, name = unit.partition("/")
    return kind.lower(), name
