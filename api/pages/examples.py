"""The request that stands for a row of a table, by its object's name in place of an audit ID."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..ask.reads import Source
from .html import address, place

_ROWS = "SELECT audit_id, cluster, verb, namespace, name FROM requests WHERE audit_id IN (SELECT unnest($ids))"


def examples_of(source: Source, run_id: str, rows: Iterable[Any]) -> Mapping[str, tuple[str, str]]:
    """For each audit ID in `example` of a row: the verb and the object in words, and the address of its page."""
    ids = sorted({row.example for row in rows if row.example})
    if not ids:
        return {}
    cursor = source.reader.connection.execute(_ROWS, {"ids": ids})
    names = [column[0] for column in cursor.description]
    found = {}
    for values in cursor.fetchall():
        row = dict(zip(names, values, strict=True))
        href = address(f"/runs/{run_id}/request", cluster=row["cluster"], audit_id=row["audit_id"])
        found[row["audit_id"]] = (f"{row['verb']} {place(row)}".strip(), href)
    return found
