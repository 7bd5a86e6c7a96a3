"""What recorded webhooks did, from the traces of the log alone."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from queries import LakeReader

from ...runs.window import Window
from .sql import statement


class Behaviour(NamedTuple):
    """One webhook that left a trace, and what it did; see sql/behaviour.sql."""

    phase: str
    configuration: str | None
    webhook: str
    requests: int
    attempts: int
    second: int
    mutated: int
    patches: int
    operations: int
    denied: int
    failed_closed: int
    failed_open: int
    annotated: int
    first_ts: datetime
    last_ts: datetime


class Traced(NamedTuple):
    """Requests of a window that came to validating webhooks, and how many of them show a trace of any webhook."""

    reached: int
    traced: int


def behaviour(reader: LakeReader, window: Window) -> tuple[Behaviour, ...]:
    """What each webhook did in a window."""
    rows = reader.connection.execute(statement("behaviour"), window.parameters).fetchall()
    return tuple(Behaviour(*row) for row in rows)


def traced(reader: LakeReader, window: Window) -> Traced:
    """How many requests show a trace of any webhook."""
    return Traced(*reader.connection.execute(statement("traced"), window.parameters).fetchall()[0])
