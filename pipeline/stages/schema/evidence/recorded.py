"""The requests and snapshots of one kind, in the order of time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from itertools import groupby
from typing import Any

from queries import LakeReader

from ....history.event import Event
from ..definition import Definition
from .sql import statement

_ROWS = 500


def recorded(reader: LakeReader, definition: Definition, until: datetime | None) -> Iterator[Event | list[dict[str, Any]]]:
    """Each answered request, and each snapshot as the list of its rows (see sql/listed.sql)."""
    parameters = {"group": definition.group, "until": until}
    listed = _rows(reader, "listed", {**parameters, "kind": definition.kind})
    lists = [list(rows) for _, rows in groupby(listed, key=lambda row: (row["observed_ts"], row["cluster"], row["source"]))]
    for row in _rows(reader, "requests", {**parameters, "resource": definition.plural}):
        while lists and lists[0][0]["observed_ts"] <= row["stage_ts"]:
            yield lists.pop(0)
        yield Event.from_row(row)
    yield from lists


def _rows(reader: LakeReader, name: str, parameters: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    cursor = reader.connection.cursor().execute(statement(name), parameters)
    names = [column[0] for column in cursor.description or ()]
    while rows := cursor.fetchmany(_ROWS):
        for row in rows:
            yield dict(zip(names, row, strict=True))
