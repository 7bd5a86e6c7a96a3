"""The load that webhooks would bring: calls per second with their bursts, their causes and their bytes.

A second without a call counts as a second. The figures are a lower bound: a conflict, or a delete whose store read an old copy,
asks webhooks again without a trace.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from queries import LakeReader

from ...runs.window import Window
from ..over_time import slot_width
from .sql import statement

CAUSES_SHOWN = 5


class Load(NamedTuple):
    """The load of one webhook in one cluster. Rates are calls per second of the window, `concurrent` are calls in flight.

    `unknown` passes may be calls, and `again` calls may come twice. `bytes` counts the objects of calls, without `unsized` passes.
    """

    cluster: str
    configuration: str
    webhook: str
    phase: str
    calls: int
    unknown: int
    again: int
    mean: float
    p50: int
    p99: int
    most: int
    burst_1s: int
    burst_10s: int
    bytes: int
    unsized: int
    concurrent_mean: float | None
    concurrent_most: float | None


class Cause(NamedTuple):
    """What caused calls of a webhook; see sql/causes.sql. `share` is of all calls of the webhook."""

    cluster: str
    configuration: str
    webhook: str
    dimension: str
    value: str
    calls: int
    share: float


class Slot(NamedTuple):
    """The calls of all webhooks in one span of time, and the most in one second of it."""

    cluster: str
    start: datetime
    calls: int
    most: int


class HookSlot(NamedTuple):
    """The calls of one webhook in one span of time, over all clusters."""

    configuration: str
    webhook: str
    start: datetime
    calls: int


class Loads(NamedTuple):
    """The load of a run. `slot_seconds` is the width of each slot."""

    webhooks: tuple[Load, ...]
    causes: tuple[Cause, ...]
    slots: tuple[Slot, ...]
    by_webhook: tuple[HookSlot, ...]
    slot_seconds: int
    spans: Mapping[str, tuple[datetime, datetime]]


def loads(reader: LakeReader, verdicts: Path, window: Window, latency_ms: float | None = None, *, with_bytes: bool = True) -> Loads:
    """The load of the webhooks of a finished run, whose verdicts are at a path.

    `latency_ms` is how long a webhook takes to answer; without it there is no concurrency. Without `with_bytes` no body is read.
    """
    connection = reader.connection
    connection.execute(statement("calls"), {"verdicts": str(verdicts), "with_bytes": with_bytes})
    spans = {cluster: _span(window, first, last) for cluster, first, last in _rows(reader, "span", window.parameters)}
    unknown = {tuple(row[:3]): row[3:] for row in _rows(reader, "unknown_calls", {"verdicts": str(verdicts)})}
    found = [
        _load(row, seconds_between(*spans[row[0]]), unknown.get(tuple(row[:3]), (0, 0)), latency_ms)
        for row in _rows(reader, "load", {})
    ]
    totals = {each[:3]: each.calls for each in found}
    told = _rows(reader, "causes", {"most": CAUSES_SHOWN})
    causes = (Cause(*(*row, row[5] / totals[row[:3]])) for row in told)
    width = slot_width(max((seconds_between(*each) for each in spans.values()), default=1))
    slots = tuple(Slot(*row) for row in _rows(reader, "series", {"width": width}))
    by_webhook = tuple(HookSlot(*row) for row in _rows(reader, "series_by_webhook", {"width": width}))
    return Loads(tuple(found), tuple(causes), slots, by_webhook, width, spans)


def _rows(reader: LakeReader, name: str, parameters: Mapping[str, object]) -> list[tuple[Any, ...]]:
    rows: list[tuple[Any, ...]] = reader.connection.execute(statement(name), dict(parameters)).fetchall()
    return rows


def _load(row: tuple[Any, ...], length: int, unsure: tuple[int, int], latency_ms: float | None) -> Load:
    """One row of sql/load.sql, with the rates over so many seconds."""
    cluster, configuration, webhook, phase, calls, seconds, burst_1s, burst_10s, size, unsized = row
    mean, most = calls / length, max(seconds)
    return Load(
        cluster, configuration, webhook, phase, calls, *unsure, mean, quantile(seconds, length, 0.5),
        quantile(seconds, length, 0.99), most, burst_1s, burst_10s, size, unsized, *_in_flight(mean, most, latency_ms),
    )  # fmt: skip


def _in_flight(mean: float, most: int, latency_ms: float | None) -> tuple[float | None, float | None]:
    """Calls in flight by Little's law: rate times latency. The busiest second counts as if its rate went on."""
    return (None, None) if latency_ms is None else (mean * latency_ms / 1000, most * latency_ms / 1000)


def _span(window: Window, first: datetime, last: datetime) -> tuple[datetime, datetime]:
    """The time that the rates are of: the window, or from the first to the last request where it is open."""
    return window.since or first, window.until - timedelta(microseconds=1) if window.until else last


def seconds_between(since: datetime, until: datetime) -> int:
    """How many seconds of the clock a span touches, so that each counted second is one of them."""
    return max(1, math.floor(until.timestamp()) - math.floor(since.timestamp()) + 1)


def quantile(seconds: Mapping[int, int], length: int, share: float) -> int:
    """The number of calls that a share of all seconds does not exceed, by nearest rank.

    `seconds` says how many seconds had so many calls; the others of `length` had none.
    """
    rank = max(1, math.ceil(share * length))
    passed = length - sum(seconds.values())
    if rank <= passed:
        return 0
    for calls in sorted(seconds):
        passed += seconds[calls]
        if rank <= passed:
            return calls
    return max(seconds, default=0)
