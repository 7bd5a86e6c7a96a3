"""What was acknowledged and cannot be read is told as lost evidence; what was never acknowledged is cut without a word."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from ingest.quarantine import read_quarantine
from ingest.spooling import mark
from ingest.spooling.segment import Batch, encode_batch, read_segment
from ingest.spooling.spool import DisplacedError, Spool, sealed_segments


def crash(spool: Spool) -> Path | None:
    """Let go of the spool as the end of a process does; returns the segment that is left open."""
    os.close(spool._lock_handle)
    if spool._open is None:
        return None
    os.close(spool._open.handle)
    return spool._open.path


def digests(directory: Path) -> list[str]:
    found = [item for path in sealed_segments(directory) for item in read_segment(path)]
    return [item.digest for item in found if isinstance(item, Batch)]


def left_open(lake: Path, batches: int = 3) -> Path:
    """A segment with so many acknowledged batches of 20 events, after a crash."""
    lake.mkdir(exist_ok=True)
    spool = Spool(lake / "spool")
    for number in range(batches):
        spool.append(
            "lab-1", f"d{number}", 1.0, [b'{"n":"%s"}' % hashlib.sha256(b"%d" % n).hexdigest().encode() for n in range(20)]
        )
    path = crash(spool)
    assert path is not None
    return path


def start(lake: Path) -> list[str]:
    """Start once more; the reasons in quarantine afterwards."""
    with Spool(lake / "spool"):
        pass
    return [record.reason for record in read_quarantine(lake / "quarantine")]


def flip(path: Path, from_end: int) -> None:
    data = bytearray(path.read_bytes())
    data[-from_end] ^= 0x20
    path.write_bytes(data)


TORN = encode_batch("lab-1", "torn", 0.0, [b'{"never":"acknowledged"}'])


@pytest.mark.parametrize("from_end", [1, 20, 60, 150, 400])
def test_damage_of_the_last_acknowledged_batch_is_lost_evidence(tmp_path: Path, from_end: int) -> None:
    path = left_open(tmp_path / "lake")
    whole = path.read_bytes()
    flip(path, from_end)
    (reason,) = start(tmp_path / "lake")
    assert "acknowledged, and damaged since" in reason
    assert path.name in reason
    assert digests(tmp_path / "lake" / "spool") == ["d0", "d1"]
    (record,) = read_quarantine(tmp_path / "lake" / "quarantine")
    assert len(record.raw) == len(whole) // 3
    # Started once more, nothing is told twice.
    assert len(start(tmp_path / "lake")) == 1


def test_what_the_header_of_damaged_events_says_is_told(tmp_path: Path) -> None:
    path = left_open(tmp_path / "lake")
    flip(path, 400)
    assert start(tmp_path / "lake")[0].endswith("by their headers 20 events of cluster 'lab-1'")


def test_damage_of_everything_keeps_every_byte(tmp_path: Path) -> None:
    path = left_open(tmp_path / "lake")
    size = path.stat().st_size
    path.write_bytes(bytes(size))
    assert "acknowledged, and damaged since" in start(tmp_path / "lake")[0]
    assert read_quarantine(tmp_path / "lake" / "quarantine")[0].raw == bytes(size)
    assert sealed_segments(tmp_path / "lake" / "spool") == []


@pytest.mark.parametrize("size", [1, 30, len(TORN) - 1])
@pytest.mark.parametrize("batches", [0, 2])
def test_a_torn_write_that_was_never_acknowledged_is_cut_without_a_word(tmp_path: Path, size: int, batches: int) -> None:
    lake = tmp_path / "lake"
    lake.mkdir()
    spool = Spool(lake / "spool")
    for number in range(batches):
        spool.append("lab-1", f"d{number}", 1.0, [b"{}"])
    opened = spool._open or spool._start()
    os.write(opened.handle, TORN[:size])
    crash(spool)
    assert start(lake) == []
    assert digests(lake / "spool") == [f"d{number}" for number in range(batches)]


def test_acknowledged_damage_is_kept_and_the_torn_write_behind_it_is_not(tmp_path: Path) -> None:
    path = left_open(tmp_path / "lake")
    size = path.stat().st_size
    flip(path, 60)
    with path.open("ab") as handle:
        handle.write(TORN[:30])
    start(tmp_path / "lake")
    (record,) = read_quarantine(tmp_path / "lake" / "quarantine")
    assert len(record.raw) == size // 3


def test_an_end_that_is_missing_is_told(tmp_path: Path) -> None:
    path = left_open(tmp_path / "lake")
    os.truncate(path, path.stat().st_size - 10)
    assert "10 more bytes are missing" in start(tmp_path / "lake")[0]


def test_an_open_segment_that_is_gone_is_told_once(tmp_path: Path) -> None:
    path = left_open(tmp_path / "lake")
    path.unlink()
    assert "the open segment is gone" in start(tmp_path / "lake")[0]
    assert len(start(tmp_path / "lake")) == 1


def other_boot(spool: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mark, "_BOOT_ID", "another")


def no_mark(spool: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.truncate(spool / "lock", 0)


def damaged_mark(spool: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flip(spool / "lock", 200)


@pytest.mark.parametrize("spoil", [other_boot, no_mark, damaged_mark])
def test_where_it_cannot_be_told_the_bytes_are_kept_as_possibly_acknowledged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spoil: Callable[[Path, pytest.MonkeyPatch], None]
) -> None:
    path = left_open(tmp_path / "lake")
    with path.open("ab") as handle:
        handle.write(TORN[:-1])
    spoil(path.parent, monkeypatch)
    assert "possibly acknowledged" in start(tmp_path / "lake")[0]
    assert read_quarantine(tmp_path / "lake" / "quarantine")[0].raw == TORN[:-1]
    assert digests(path.parent) == ["d0", "d1", "d2"]


@pytest.mark.parametrize("seal", [False, True])
def test_a_drained_spool_raises_no_alarm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seal: bool) -> None:
    left_open(tmp_path / "lake")
    spool = Spool(tmp_path / "lake" / "spool")
    if seal:
        spool.append("lab-1", "more", 1.0, [b"{}"])
        spool.seal()
    crash(spool)
    for path in sealed_segments(tmp_path / "lake" / "spool"):
        path.unlink()
    assert start(tmp_path / "lake") == []


def replace(lake: Path) -> None:
    lake.rename(lake.with_name("moved"))
    (lake / "spool").mkdir(parents=True)


def move(lake: Path) -> None:
    lake.rename(lake.with_name("moved"))


def remove_spool(lake: Path) -> None:
    (lake / "spool").rename(lake.with_name("moved"))


def link_elsewhere(lake: Path) -> None:
    lake.rename(lake.with_name("moved"))
    lake.with_name("other").mkdir()
    lake.symlink_to(lake.with_name("other"))


@pytest.mark.parametrize("displace", [replace, move, remove_spool, link_elsewhere])
@pytest.mark.parametrize("is_open", [True, False])
def test_nothing_is_acknowledged_into_a_folder_that_is_not_the_one_that_was_opened(
    tmp_path: Path, displace: Callable[[Path], None], is_open: bool
) -> None:
    lake = tmp_path / "lake"
    lake.mkdir()
    spool = Spool(lake / "spool")
    if is_open:
        spool.append("lab-1", "before", 1.0, [b"{}"])
    displace(lake)
    there = sorted(tmp_path.rglob("*"))
    with pytest.raises(DisplacedError, match="the lake is not where it was opened"):
        spool.append("lab-1", "after", 1.0, [b"{}"])
    with pytest.raises(DisplacedError):
        spool.probe()
    assert spool.why_displaced()
    # Nothing was made where the lake was, and nothing is left of the refused batch.
    assert sorted(tmp_path.rglob("*")) == there
    crash(spool)
    (moved,) = {path.parent for path in tmp_path.rglob("lock")}
    Spool(moved).close()
    assert digests(moved) == ["before"] * is_open


def test_a_folder_that_is_put_back_is_used_again(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    lake.mkdir()
    with Spool(lake / "spool") as spool:
        spool.append("lab-1", "before", 1.0, [b"{}"])
        move(lake)
        with pytest.raises(DisplacedError):
            spool.append("lab-1", "between", 1.0, [b"{}"])
        lake.with_name("moved").rename(lake)
        spool.append("lab-1", "after", 1.0, [b"{}"])
    assert digests(lake / "spool") == ["before", "after"]


def test_a_folder_that_moves_during_the_sync_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = tmp_path / "lake"
    lake.mkdir()
    spool = Spool(lake / "spool")
    real_sync = os.fdatasync

    def sync_and_move(handle: int) -> None:
        real_sync(handle)
        move(lake)

    monkeypatch.setattr(os, "fdatasync", sync_and_move)
    with pytest.raises(DisplacedError):
        spool.append("lab-1", "refused", 1.0, [b"{}"])
    crash(spool)
    Spool(tmp_path / "moved" / "spool").close()
    assert digests(tmp_path / "moved" / "spool") == []


@pytest.mark.parametrize("by", ["a batch", "sealing"])
def test_an_open_segment_that_is_deleted_is_written_again(tmp_path: Path, by: str) -> None:
    lake = tmp_path / "lake"
    lake.mkdir()
    with Spool(lake / "spool") as spool:
        spool.append("lab-1", "before", 1.0, [b"{}"])
        assert spool._open is not None
        spool._open.path.unlink()
        if by == "a batch":
            # Where it was written is found out behind the write, so the sender has to repeat it.
            with pytest.raises(DisplacedError):
                spool.append("lab-1", "after", 1.0, [b"{}"])
            spool.append("lab-1", "after", 1.0, [b"{}"])
    assert digests(lake / "spool") == ["before"] + ["after"] * (by == "a batch")
    assert read_quarantine(lake / "quarantine") == []


def test_a_segment_that_cannot_be_sealed_is_trouble(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Path, target: Path) -> None:
        raise OSError(5, "Input/output error")

    lake = tmp_path / "lake"
    lake.mkdir()
    with Spool(lake / "spool", segment_bytes_max=1) as spool:
        with monkeypatch.context() as patch:
            patch.setattr(Path, "rename", fail)
            spool.append("lab-1", "d0", 1.0, [b"{}"])
            assert spool.seal_error is not None
            assert spool.seal_error.strerror == "Input/output error"
        spool.append("lab-1", "d1", 1.0, [b"{}"])
        assert spool.seal_error is None
    assert digests(lake / "spool") == ["d0", "d1"]
