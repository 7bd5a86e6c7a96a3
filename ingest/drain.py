"""The drain: sealed spool segments become rows of the lake, each segment exactly once.

A segment is stored in units; after each unit the manifest says, in the transaction that lists the unit's files, how many batches of
the segment are done. Only when all of them are is the segment unlinked. Killed at any step, the next drain goes on from there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from .durable import sync_folder
from .errors import LakeError
from .lake import LakeWriter
from .quarantine import Quarantined, write_quarantine
from .segment import Batch, Damage, read_segment
from .spool import sealed_segments
from .store import Counts, EventStore, Lines

UNIT_EVENTS_MAX = 20_000
UNIT_BYTES_MAX = 128 << 20
_MARK = "segment:"


def drain(writer: LakeWriter, spool: Path, stopped: Callable[[], bool] = lambda: False) -> Counts:
    """Store every sealed segment of `spool`, oldest first, and return what became of the events; `stopped` ends it between units.

    Raises LakeError when the lake cannot be written or a segment cannot be read; what was committed stays, and nothing is lost.
    """
    counts = Counts()
    _forget_removed(writer, spool)
    store = EventStore(writer)
    try:
        for segment in sealed_segments(spool):
            if stopped():
                break
            _drain_segment(writer, store, segment, stopped, counts)
    finally:
        store.close()
    return counts


def _forget_removed(writer: LakeWriter, spool: Path) -> None:
    """Drop the marks of segments that are gone; their names are never used again, and the manifest need not grow for ever."""
    marks = writer.lake.manifest.props(_MARK)
    removed = [key for key in marks if not (spool / key.removeprefix(_MARK)).exists()]
    if removed:
        # A removal that a power cut undoes must not find its mark gone.
        try:
            sync_folder(spool)
        except OSError as error:
            raise LakeError(f"{spool}: the spool cannot be synced: {error}", "check the disk") from error
        writer.commit(props=dict.fromkeys(removed))


def _drain_segment(writer: LakeWriter, store: EventStore, segment: Path, stopped: Callable[[], bool], counts: Counts) -> None:
    key = f"{_MARK}{segment.name}"
    done = int(writer.lake.manifest.prop(key) or 0)
    finished = True
    for first, unit in _units(writer, segment, done):
        last = first + len(unit)
        parts = [Lines(batch.cluster, "webhook", batch.received_ts, batch.lines) for batch in unit]
        counts.add(store.store(parts, {key: str(last)}, f"{segment.name}-{first}"))
        if stopped():
            finished = False
            break
    if finished:
        try:
            segment.unlink(missing_ok=True)
        except OSError as error:
            raise LakeError(f"{segment}: a stored segment cannot be removed: {error}", "fix the owner of the spool") from error


def _units(writer: LakeWriter, segment: Path, done: int) -> Iterator[tuple[int, list[Batch]]]:
    """(index of the first batch, batches) of each unit after the first `done` batches. Damaged stretches go to quarantine."""
    unit: list[Batch] = []
    events = size = index = 0
    for found in _read(segment):
        if isinstance(found, Damage):
            _quarantine(writer, segment, found)
            continue
        index += 1
        if index <= done:
            continue
        unit.append(found)
        events += len(found.lines)
        size += sum(map(len, found.lines))
        if events >= UNIT_EVENTS_MAX or size >= UNIT_BYTES_MAX:
            yield index - len(unit), unit
            unit, events, size = [], 0, 0
    if unit:
        yield index - len(unit), unit


def _read(segment: Path) -> Iterator[Batch | Damage]:
    try:
        yield from read_segment(segment)
    except FileNotFoundError:
        return
    except OSError as error:
        raise LakeError(
            f"{segment}: the segment cannot be read: {error}", "check the disk; the segment stays in the spool"
        ) from error


def _quarantine(writer: LakeWriter, segment: Path, damage: Damage) -> None:
    try:
        with segment.open("rb") as handle:
            handle.seek(damage.start)
            raw = handle.read(damage.end - damage.start)
        record = Quarantined("spool", "", 0.0, f"{segment.name}, bytes {damage.start} to {damage.end}: {damage.reason}", raw)
        write_quarantine(writer.lake.path / "quarantine", [record], f"{segment.name}-damage-{damage.start}")
    except OSError as error:
        raise LakeError(f"{segment}: damage cannot be set aside: {error}", "free some space") from error
