"""The figures of a run of schemas: what becomes of requests, which fields are refused or changed, and who writes them."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from queries import LakeReader

from ..sql import statement


class Resulted(NamedTuple):
    """The requests on one kind; see results.sql."""

    definition: str
    requests: int
    admitted: int
    changed: int
    ratcheted: int
    warned: int
    refused: int
    newly_refused: int
    still_refused: int
    newly_admitted: int
    unknown: int
    unreached: int
    follow: int


class RefusedField(NamedTuple):
    """One error about one field; see fields.sql."""

    definition: str
    field: str
    error: str
    requests: int
    users: int
    objects: int
    example: str


class ChangedField(NamedTuple):
    """One change of one field; see changed.sql."""

    definition: str
    change: str
    path: str
    requests: int
    before: str | None
    after: str | None
    example: str


class Writer(NamedTuple):
    """A user whose requests are newly refused; see writers.sql."""

    user_name: str | None
    definition: str
    requests: int
    of_requests: int
    verbs: list[str]
    objects: int
    rule_ref: str | None
    last_ts: datetime


class WhyUnknown(NamedTuple):
    """A reason of unknown verdicts; see reasons.sql."""

    why: str
    requests: int
    admitted_otherwise: int
    refused_otherwise: int
    example: str


class Figures(NamedTuple):
    """All figures of one run."""

    results: tuple[Resulted, ...]
    fields: tuple[RefusedField, ...]
    changed: tuple[ChangedField, ...]
    writers: tuple[Writer, ...]
    unknown: tuple[WhyUnknown, ...]


def figures(reader: LakeReader, verdicts: Path) -> Figures:
    """The figures of the run with this verdict table."""

    def rows(name: str) -> list[tuple[Any, ...]]:
        return reader.connection.execute(statement(name), {"verdicts": str(verdicts)}).fetchall()

    return Figures(
        tuple(Resulted(*row) for row in rows("results")),
        tuple(RefusedField(*row) for row in rows("fields")),
        tuple(ChangedField(*row) for row in rows("changed")),
        tuple(Writer(*row) for row in rows("writers")),
        tuple(WhyUnknown(*row) for row in rows("reasons")),
    )


def as_rows(records: Iterable[Resulted | RefusedField | ChangedField | Writer | WhyUnknown]) -> list[dict[str, Any]]:
    """Some of the figures as dictionaries, for a data frame."""
    return [each._asdict() for each in records]
