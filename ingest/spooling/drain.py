"""The drain: sealed spool segments become rows of the lake, each segment exactly once.

Events are stored in units; a unit may be part of a segment, or many small segments that wait together. After each unit the manifest
says, in the transaction that lists the unit's files, how many batches of each segment are done. A segment is unlinked only when all
of its batches are done. If the drain is killed at any step, the next drain goes on from there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from ..durable import sync_folder
from ..errors import LakeError
from ..lake import Lake
from ..lake_writer import LakeWriter
from ..manifest import Manifest
from ..quarantine import Quarantined, write_quarantine
from ..store import Counts, EventStore, Lines, cut
from .attempts import Attempts
from .lag import Lag, Waiting
from .segment import Batch, Damage, read_headers, read_segment
from .segment_files import OPEN_SUFFIX, SEALED_SUFFIX, sealed_segments, segment_files, segment_name

UNIT_EVENTS_MAX = 20_000
UNIT_BYTES_MAX = 128 << 20
_MARK = "segment:"
# The property that counts the drains which died while they stored events.
DEATHS = "drain_deaths"


class _UnreadableError(LakeError):
    """One segment cannot be read; the other segments are not affected."""


@dataclass(slots=True)
class _Unit:
    """Batches that are stored together. They say how many batches of each segment are then done, and which segments end."""

    name: str = ""
    batches: list[Batch] = field(default_factory=list)
    marks: dict[str, str] = field(default_factory=dict)
    finished: list[Path] = field(default_factory=list)
    events: int = 0
    size_bytes: int = 0

    def add(self, batch: Batch, segment: Path, index: int) -> None:
        """Take one more batch, the `index`-th of its segment, counted from 1."""
        self.name = self.name or f"{segment.name}-{index - 1}"
        self.batches.append(batch)
        self.marks[f"{_MARK}{segment.name}"] = str(index)
        self.events += len(batch.lines)
        self.size_bytes += sum(map(len, batch.lines))

    def is_full(self) -> bool:
        return self.events >= UNIT_EVENTS_MAX or self.size_bytes >= UNIT_BYTES_MAX


def drain(
    writer: LakeWriter,
    spool: Path,
    stopped: Callable[[], bool] = lambda: False,
    unit_done: Callable[[Counts], None] = lambda counts: None,
) -> Counts:
    """Store every sealed segment of `spool`, oldest first, and count the stored, duplicate and rejected events; `stopped` ends it
    between units.

    `unit_done` gets the counts of each unit once the unit is durable. Raises LakeError when the lake cannot be written or a segment
    cannot be read; committed events stay, and nothing is lost.
    """
    counts = Counts()
    _forget_removed(writer, spool)
    store, attempts = EventStore(writer), Attempts(spool)
    if attempts.follows_a_death:
        writer.commit(props={DEATHS: str(deaths_of(writer.lake.manifest) + 1)})
    try:
        units = _units(writer, sealed_segments(spool))
        while not stopped() and (unit := next(units, None)) is not None:
            if unit.batches:
                found = _stored(store, unit, attempts)
                unit_done(found)
                counts.add(found)
            _remove(unit.finished)
    finally:
        attempts.end()
        store.close()
    return counts


def _stored(store: EventStore, unit: _Unit, attempts: Attempts) -> Counts:
    """Store a unit: in one piece, or in smaller ones after a drain was killed. The last piece sets the marks."""
    parts = [Lines(batch.cluster, "webhook", batch.received_ts, batch.lines) for batch in unit.batches]
    total, start = unit.events, 0
    counts = Counts()
    if attempts.follows_a_death:
        # The lake does not have the unit, so what an earlier attempt set aside comes again, perhaps in other pieces.
        folder = store.quarantine
        for path in (folder / f"{unit.name}.jsonl.zst", *folder.glob(f"{unit.name}-*.jsonl.zst")):
            with suppress(OSError):  # then a record is there twice
                path.unlink(missing_ok=True)
    while True:
        end = attempts.end_of(unit.name, start, total)
        is_whole = (start, end) == (0, total)
        piece, name = (parts, unit.name) if is_whole else (cut(parts, start, end), f"{unit.name}-{start}-{end}")
        marks = unit.marks if end == total else {}
        if attempts.begin(unit.name, start, end - start):
            counts.add(store.store(piece, marks, name))
        else:
            counts.add(store.set_aside(piece, marks, name, "the process that stores events died on this one, more than once"))
        start = end
        if end == total:
            return counts


def deaths_of(manifest: Manifest) -> int:
    """How many drains died while they stored events of this lake."""
    return int(manifest.prop(DEATHS) or 0)


def batches_done(manifest: Manifest) -> dict[str, int]:
    """How many batches of each segment the lake has, by the segment's name; a segment that is stored whole soon has no entry."""
    marks = manifest.props(_MARK)
    return {key.removeprefix(_MARK).removesuffix(SEALED_SUFFIX): int(done) for key, done in marks.items()}


def lag_of(lake: Lake) -> Lag:
    """The acknowledged events that are not in the lake yet, as any process can see them.

    Reads the headers of all waiting batches, reading each sealed segment once. Raises OSError when the spool cannot be read,
    LakeError when the manifest cannot.
    """
    done = batches_done(lake.manifest)
    waiting = Waiting()
    for path in segment_files(lake.path / "spool"):
        name = segment_name(path)
        for events, received_ts in _batches_of(path.with_name(name)):
            waiting.add(name, events, received_ts)
    return waiting.lag(done)


def _batches_of(stem: Path) -> Sequence[tuple[int, float]]:
    """Events and time of each batch of a segment, open or sealed; none if the drain stored it meanwhile."""
    with suppress(FileNotFoundError):
        return [(header.n, header.received_ts) for header in read_headers(stem.with_name(stem.name + OPEN_SUFFIX))]
    with suppress(FileNotFoundError):
        return _sealed_batches(stem.with_name(stem.name + SEALED_SUFFIX))
    return ()


@lru_cache(maxsize=1024)
def _sealed_batches(path: Path) -> Sequence[tuple[int, float]]:
    """A sealed segment never changes, and its name is never used again."""
    return [(header.n, header.received_ts) for header in read_headers(path)]


def _forget_removed(writer: LakeWriter, spool: Path) -> None:
    """Drop the marks of segments that are gone; their names are never used again, and the manifest need not grow for ever."""
    marks = writer.lake.manifest.props(_MARK)
    removed = [key for key in marks if not (spool / key.removeprefix(_MARK)).exists()]
    if removed:
        # If a power cut undoes the removal of a segment, its mark must still be there.
        try:
            sync_folder(spool)
        except OSError as error:
            raise LakeError(f"{spool}: the spool cannot be synced: {error}", "check the disk") from error
        writer.commit(props=dict.fromkeys(removed))


def _remove(segments: Sequence[Path]) -> None:
    for segment in segments:
        try:
            segment.unlink(missing_ok=True)
        except OSError as error:
            raise LakeError(f"{segment}: a stored segment cannot be removed: {error}", "fix the owner of the spool") from error


def _units(writer: LakeWriter, segments: Sequence[Path]) -> Iterator[_Unit]:
    """The rest of the segments, in units; damaged stretches go to quarantine.

    A segment that cannot be read does not stop the others; the first such error is raised after all others are stored.
    """
    unit = _Unit()
    troubles: list[LakeError] = []
    for segment in segments:
        try:
            for index, batch in _batches(writer, segment):
                if unit.is_full():
                    yield unit
                    unit = _Unit()
                unit.add(batch, segment, index)
        except _UnreadableError as error:
            troubles.append(error)
        else:
            unit.finished.append(segment)
    yield unit
    if troubles:
        raise troubles[0]


def _batches(writer: LakeWriter, segment: Path) -> Iterator[tuple[int, Batch]]:
    """The batches of a segment that the lake does not have, each with its number, from 1."""
    done = int(writer.lake.manifest.prop(f"{_MARK}{segment.name}") or 0)
    index = 0
    for found in _read(segment):
        if isinstance(found, Damage):
            _quarantine(writer, segment, found)
            continue
        index += 1
        if index > done:
            yield index, found


def _read(segment: Path) -> Iterator[Batch | Damage]:
    try:
        yield from read_segment(segment)
    except FileNotFoundError:
        return
    except OSError as error:
        raise _UnreadableError(
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
