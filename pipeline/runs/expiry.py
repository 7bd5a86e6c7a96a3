"""What runs keep of evidence that has expired: decisions and counts, and no text that quotes a body.

The verdicts on requests whose events expired leave a run. Those on requests whose bodies alone expired lose their messages, reasons
and details. A report next to a run may quote any request that the run judged. It is removed, and a page makes it again from
what is left.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ingest.errors import LakeError

from .store import RunStore, StoredRun
from .summary import RunSummary
from .verdicts import ENCODED, VerdictFile

_MARK = "expired.json"
# Files of a run that may quote bodies, which their readers make again.
_QUOTING = ("report.json", "costs.json", "gate-*.json")
_QUOTED = ("message", "why", "detail")
EXPIRED = "what decided has expired with its evidence"
_ROWS = 100_000


@dataclass(frozen=True, slots=True)
class Cut:
    """The first moment whose events are left, and the first one whose bodies are left; None where nothing expires."""

    events: datetime | None = None
    bodies: datetime | None = None

    @classmethod
    def of(cls, events: date | None, bodies: date | None) -> Cut:
        """The cut before UTC days."""
        return cls(*(None if day is None else datetime.combine(day, time(), UTC) for day in (events, bodies)))

    @property
    def last(self) -> datetime | None:
        """The later one of both."""
        return _later(self.events, self.bodies)


class _Mark(msgspec.Struct):
    """The cuts that a run has had."""

    events: datetime | None = None
    bodies: datetime | None = None


def expire_runs(lake: Path, cut: Cut) -> int:
    """Take expired evidence out of the runs of a lake; returns how many changed. One that is being made waits for the next time.

    Raises LakeError where a run cannot be written.
    """
    if cut.last is None:
        return 0
    try:
        return sum(_expire(run, cut) for run in RunStore(lake).every())
    except OSError as error:
        raise LakeError(f"{lake / 'runs'}: cannot be written: {error.strerror}", "fix the owner of the lake") from error


def expired_before(run: StoredRun) -> datetime | None:
    """The moment before which the evidence of a run has expired; None if none has."""
    mark = _mark_of(run)
    return Cut(mark.events, mark.bodies).last


def about_expired(lake: Path, cut: Cut) -> list[StoredRun]:
    """The runs that `expire_runs` would change."""
    return [run for run in RunStore(lake).every() if _is_about(run, cut)]


def _expire(run: StoredRun, cut: Cut) -> bool:
    if not _is_about(run, cut):
        return False
    summary = _summary_of(run)
    if summary is None:
        # It cannot go on: its plan names events that are gone.
        return run.remove() is not None
    with ExitStack() as held:
        if not held.enter_context(run.owned_now()):
            return False
        # A run without the summary of its new verdicts counts as unfinished, and without the mark the next cut writes both.
        run.summarize(_without_reasons(replace(summary, verdicts=_rewrite(run, cut))))
        for pattern in _QUOTING:
            for path in run.folder.glob(pattern):
                path.unlink(missing_ok=True)
        run.keep(_MARK, msgspec.json.encode(_joined(_mark_of(run), cut)))
    return True


def _is_about(run: StoredRun, cut: Cut) -> bool:
    """Whether a run has read events that a cut takes, and has not had this cut."""
    last, mark = cut.last, _mark_of(run)
    if last is None or all(new is None or (old is not None and old >= new) for new, old in _pairs(mark, cut)):
        return False
    try:
        since = msgspec.json.decode(run.plan_text).get("window", {}).get("since")
    except (OSError, ValueError, AttributeError):
        since = None
    return since is None or datetime.fromisoformat(since) < last


def _pairs(mark: _Mark, cut: Cut) -> Iterator[tuple[datetime | None, datetime | None]]:
    yield cut.events, mark.events
    # Bodies are gone where their events are.
    yield cut.bodies, _later(mark.bodies, mark.events)


def _later(*moments: datetime | None) -> datetime | None:
    return max((each for each in moments if each is not None), default=None)


def _joined(mark: _Mark, cut: Cut) -> _Mark:
    return _Mark(_later(mark.events, cut.events), _later(mark.bodies, cut.bodies))


def _rewrite(run: StoredRun, cut: Cut) -> int:
    """Write the verdicts again without what has expired; returns how many are left."""
    target = run.folder / ".verdicts.tmp"
    rows = 0
    with pq.ParquetFile(run.verdicts) as file, VerdictFile(target) as out:
        for batch in file.iter_batches(_ROWS):
            table = _left(pa.Table.from_batches([batch]), cut)
            rows += table.num_rows
            out.write(table.cast(ENCODED))
    with target.open("rb") as written:
        os.fsync(written.fileno())
    target.replace(run.verdicts)
    return rows


def _left(table: pa.Table, cut: Cut) -> pa.Table:
    if cut.events is not None:
        table = table.filter(pc.greater_equal(table["ts"], pa.scalar(cut.events, table["ts"].type)))
    if cut.bodies is None or not table.num_rows:
        return table
    is_old = pc.less(table["ts"], pa.scalar(cut.bodies, table["ts"].type))
    for name in _QUOTED:
        index = table.schema.get_field_index(name)
        field = table.schema.field(index)
        text: Any = pa.scalar(EXPIRED if name == "why" else None, field.type)
        gone = pc.and_(is_old, pc.is_valid(table[name]))
        table = table.set_column(index, field, pc.if_else(gone, text, table[name]))
    index = table.schema.get_field_index("audit_annotations")
    field = table.schema.field(index)
    kept: list[Any] = [
        [] if old else each for old, each in zip(is_old.to_pylist(), table["audit_annotations"].to_pylist(), strict=True)
    ]
    return table.set_column(index, field, pa.array(kept, field.type))


def _without_reasons(summary: RunSummary) -> RunSummary:
    """The summary without reasons, which may name a request or quote one."""
    left_out = sum(count for _, count in summary.not_evaluated)
    defects = tuple(replace(each, why=EXPIRED) for each in summary.defects)
    return replace(summary, not_evaluated=((EXPIRED, left_out),) if left_out else (), defects=defects)


def _summary_of(run: StoredRun) -> RunSummary | None:
    try:
        return run.summary
    except (ValueError, RecursionError):
        return None


def _mark_of(run: StoredRun) -> _Mark:
    with suppress(msgspec.DecodeError):
        return msgspec.json.decode(run.kept(_MARK) or b"{}", type=_Mark)
    return _Mark()
