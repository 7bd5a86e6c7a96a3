"""Repairs open segments of a stopped process: keeps whole batches, cuts a torn tail, and sets lost evidence aside.

The bytes behind the last intact batch have one of two origins. A write was interrupted, so the batch was never acknowledged and its
sender still has it; or an acknowledged batch was damaged later. The mark next to the segment (mark.py) distinguishes the two. Where
it cannot, the bytes are kept in quarantine as possibly acknowledged, and never cut silently.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..durable import sync_folder
from ..quarantine import Quarantined, write_quarantine
from .mark import Mark, read_mark, write_mark
from .segment import announced, intact_bytes, repair_segment
from .segment_files import OPEN_SUFFIX, sealed_path, segment_files, segment_name

LOST_TAIL = "-lost-"  # part of a quarantine file's name


@dataclass(frozen=True, slots=True)
class LostTail:
    """Bytes of a segment that cannot be read. `is_certain` is false if they may not have been acknowledged."""

    start: int
    end: int
    is_certain: bool
    reason: str


@dataclass(frozen=True, slots=True)
class RepairedSegment:
    """A segment that a stopped process left open: the bytes kept, those cut from its end, and the lost evidence among these."""

    name: str
    bytes_kept: int
    bytes_cut: int
    lost: LostTail | None = None


def repair_folder(directory: Path, mark_handle: int, quarantine: Path) -> list[RepairedSegment]:
    """The segments that an earlier process left open in a spool, and acknowledged bytes that are missing. Raises OSError."""
    mark = read_mark(mark_handle)
    names = {segment_name(path) + OPEN_SUFFIX for path in segment_files(directory)}
    repaired = [repair_and_seal(path, mark, mark_handle, quarantine) for path in sorted(directory.glob(f"*{OPEN_SUFFIX}"))]
    if (missing := missing_segment(mark, names, quarantine)) is not None:
        repaired.append(missing)
        write_mark(mark_handle, missing.name, 0, sealing=True)
    return repaired


def repair_and_seal(path: Path, mark: Mark | None, mark_handle: int, quarantine: Path) -> RepairedSegment:
    """Repair one segment and seal the kept part; a segment without a kept part is removed. Raises OSError."""
    repaired = repair_open_segment(path, mark, quarantine)
    write_mark(mark_handle, path.name, repaired.bytes_kept, sealing=True)
    if repaired.bytes_kept:
        path.rename(sealed_path(path))
    else:
        path.unlink()
    sync_folder(path.parent)
    return repaired


def repair_open_segment(path: Path, mark: Mark | None, quarantine: Path) -> RepairedSegment:
    """Cut the segment after its last intact batch, once the bytes that are or may be evidence are in quarantine.

    Raises OSError. A repetition after a crash sets the same bytes aside in the same file.
    """
    data = path.read_bytes()
    known = mark if mark is not None and mark.segment == path.name else None
    lost = _lost_tail(data, known)
    if lost is not None:
        _set_aside(quarantine, path.name, lost, data[lost.start : lost.end])
    kept, cut = repair_segment(path)
    return RepairedSegment(path.name, kept, cut, lost)


def missing_segment(mark: Mark | None, names: set[str], quarantine: Path) -> RepairedSegment | None:
    """The segment that the mark names, if it is gone with its acknowledged batches. `names` are the files of the spool.

    Raises OSError when this cannot be written down.
    """
    if mark is None or not mark.is_exact or mark.is_sealing or not mark.bytes or mark.segment in names:
        return None
    lost = LostTail(0, 0, True, f"the open segment is gone, with {mark.bytes} acknowledged bytes")
    _set_aside(quarantine, mark.segment, lost, b"")
    return RepairedSegment(mark.segment, 0, 0, lost)


def _lost_tail(data: bytes, mark: Mark | None) -> LostTail | None:
    kept, size = intact_bytes(data), len(data)
    if mark is not None and mark.bytes > kept:
        end = min(size, mark.bytes) if mark.is_exact else size
        missing = f"; {mark.bytes - size} more bytes are missing" if mark.bytes > size else ""
        return LostTail(kept, end, True, f"acknowledged, and damaged since{missing}{_described(data[kept:end])}")
    if size > kept and (mark is None or not mark.is_exact):
        why = "no mark says how much was acknowledged" if mark is None else "the machine has been started again since"
        return LostTail(kept, size, False, f"possibly acknowledged, and torn or damaged: {why}{_described(data[kept:])}")
    return None


def _described(tail: bytes) -> str:
    found = [f"{header.n} events of cluster {header.cluster[:80]!a}" for header in announced(tail)]
    return f"; by their headers {', '.join(found)}" if found else ""


def _set_aside(quarantine: Path, name: str, lost: LostTail, raw: bytes) -> None:
    record = Quarantined("spool", "", 0.0, f"{name}, bytes {lost.start} to {lost.end}: {lost.reason}", raw)
    write_quarantine(quarantine, [record], f"{name}{LOST_TAIL}{lost.start}")
