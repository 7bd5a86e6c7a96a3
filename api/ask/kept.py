"""Answers that cost more than a page may take, kept while they hold, because a reader goes back and forth between pages."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import pyarrow as pa

from pipeline.history.world import LogHistory
from pipeline.readiness.report import Report
from pipeline.requests.kept.whole import losses_of
from pipeline.requests.past import load_history
from pipeline.runs.window import Window
from pipeline.stages.waves import Rollout

from .. import stored_runs
from . import run_reads
from .listing import Source, table_of
from .questions import TABLES

Answer = TypeVar("Answer")

_ENTRIES_MAX = 64
# The verdicts of a replay never change; the lake's data shown next to them may.
_REPORT_SECONDS = 600.0
_LEDGER_SECONDS = 30.0
# An answer that takes a minute is not made again every minute, and one that takes a moment soon shows new events.
_TIMES_ITS_COST_MIN, _TIMES_ITS_COST_MAX = 10.0, 100.0


@dataclass(frozen=True, slots=True)
class _Entry:
    answer: Any
    files: object
    made: float
    took: float

    def is_fresh(self, seconds: float) -> bool:
        """Whether it may stand for newer files yet; `seconds` is for how long an answer may that is neither cheap nor costly.

        Files never change an answer with infinite `seconds`.
        """
        most = seconds if seconds == float("inf") else min(seconds, _TIMES_ITS_COST_MAX * self.took)
        return time.monotonic() - self.made < max(_TIMES_ITS_COST_MIN * self.took, most)


class Kept:
    """Answers by name, good for some seconds, or for as long as the lake's files are the same. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entries: OrderedDict[tuple[object, ...], _Entry] = OrderedDict()

    def has(self, source: Source, name: tuple[object, ...]) -> bool:
        """Whether there is an answer of this name, old or new."""
        with self._lock:
            return (str(source.lake), *name) in self._entries

    def is_behind(self, source: Source, name: tuple[object, ...]) -> bool:
        """Whether the kept answer was made from other files than the lake holds now."""
        with self._lock:
            entry = self._entries.get((str(source.lake), *name))
        return entry is not None and entry.files != source.reader.files

    def get(self, source: Source, name: tuple[object, ...], seconds: float, make: Callable[[], Answer]) -> Answer:
        """The kept answer, or a new one. Two threads that ask at the same time may both make it."""
        key, files = (str(source.lake), *name), source.reader.files
        with self._lock:
            entry = self._entries.get(key)
            if entry is not None and (entry.files == files or entry.is_fresh(seconds)):
                self._entries.move_to_end(key)
                kept: Answer = entry.answer
                return kept
        started = time.monotonic()
        answer = make()
        with self._lock:
            self._entries[key] = _Entry(answer, files, time.monotonic(), time.monotonic() - started)
            self._entries.move_to_end(key)
            while len(self._entries) > _ENTRIES_MAX:
                self._entries.popitem(last=False)
        return answer


_kept = Kept()


def report_of(source: Source, run_id: str) -> Report:
    """The readiness report of a finished replay under the default rules. Raises NotFoundError, EvidenceError."""
    stored_runs.run(source.lake, run_id)
    return _kept.get(source, ("report", run_id), _REPORT_SECONDS, lambda: run_reads.readiness(source, run_id))


def has_report(source: Source, run_id: str) -> bool:
    """Whether the report of a replay is kept."""
    return _kept.has(source, ("report", run_id))


def rollout_of(source: Source, run_id: str) -> list[Rollout]:
    """The waves of a finished replay under the default rules. Raises NotFoundError, EvidenceError."""
    return _kept.get(source, ("rollout", run_id), _REPORT_SECONDS, lambda: run_reads.rollout(source, run_id))


def about_run(source: Source, run_id: str, name: str, make: Callable[[], Answer]) -> Answer:
    """An answer about the verdicts of a finished replay, such as its charts."""
    return _kept.get(source, (name, run_id), _REPORT_SECONDS, make)


def about_lake(source: Source, name: str, make: Callable[[], Answer]) -> Answer:
    """An answer about the whole lake, such as the loss ledger."""
    return _kept.get(source, (name,), _LEDGER_SECONDS, make)


def is_behind(source: Source, *names: str) -> bool:
    """Whether one of these answers about the lake may lack its newest events."""
    return any(_kept.is_behind(source, (name,)) for name in names)


def view_of(source: Source, name: str) -> pa.Table:
    """The whole of a small view in questions.TABLES. Such views read every event; `losses` compares each with every other one."""
    if name == "losses":
        return about_lake(source, f"view {name}", lambda: losses_of(source.reader))
    return about_lake(source, f"view {name}", lambda: table_of(source, f"FROM {TABLES[name]}"))


def history_of(source: Source) -> LogHistory:
    """Everything but requests that policies look up, over all times and clusters. It is only read."""
    return about_lake(source, "history", lambda: load_history(source.reader, (), Window()))


def plan_of(source: Source, run_id: str) -> dict[str, Any]:
    """The plan of a replay; the plan of a large lake has megabytes. Raises NotFoundError."""
    return _kept.get(source, ("plan", run_id), float("inf"), lambda: stored_runs.run_plan(source.lake, run_id))
