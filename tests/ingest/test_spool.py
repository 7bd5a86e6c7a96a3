"""The spool keeps every acknowledged batch exactly once, wherever a crash or a flipped bit hits it."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.errors import LakeError
from ingest.spooling.segment import Batch, Damage, Extent, encode_batch, read_segment, repair_segment, walk_segment
from ingest.spooling.spool import Spool, SpoolWriteError, sealed_segments

LINES = st.lists(st.binary(min_size=1, max_size=200).filter(lambda line: b"\n" not in line), max_size=4)
CLUSTERS = st.sampled_from(["lab-1", "prod.eu"])


def stored(directory: Path) -> list[Batch]:
    """Every batch of the sealed segments; damage is a failure here."""
    found = [item for path in sealed_segments(directory) for item in read_segment(path)]
    assert not [item for item in found if isinstance(item, Damage)]
    return [item for item in found if isinstance(item, Batch)]


def crash(spool: Spool) -> None:
    """Let go of the spool as the end of a process does: nothing is sealed, nothing is cut."""
    if spool._open is not None:
        os.close(spool._open.handle)
    os.close(spool._lock_handle)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_every_acknowledged_batch_is_there_once_after_any_crashes(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    directory = tmp_path_factory.mktemp("spool")
    acknowledged: list[tuple[str, float, list[bytes]]] = []
    for life in range(data.draw(st.integers(1, 4), label="lives")):
        spool = Spool(directory, segment_bytes_max=data.draw(st.sampled_from([1, 300, 1 << 20]), label="segment_bytes_max"))
        for _ in range(data.draw(st.integers(0, 4), label="batches")):
            batch = (data.draw(CLUSTERS), float(len(acknowledged)), data.draw(LINES))
            spool.append(batch[0], f"digest-{life}", batch[1], batch[2])
            acknowledged.append(batch)
            if data.draw(st.booleans(), label="seal"):
                spool.seal()
        opened = spool._open
        crash(spool)
        if opened is not None:
            # The next batch was on its way to disk: any part of it may have arrived, also as zeros of a page never written.
            torn = encode_batch("lab-1", "torn", 0.0, [b'{"never":"acknowledged"}'])
            arrived = torn[: data.draw(st.integers(0, len(torn) - 1), label="torn")]
            with opened.path.open("ab") as handle:
                handle.write(arrived + bytes(data.draw(st.sampled_from([0, 1, 4096]), label="zeros")))
    Spool(directory).close()
    assert [(batch.cluster, batch.received_ts, batch.lines) for batch in stored(directory)] == acknowledged
    assert [path.name for path in directory.iterdir() if path.name.endswith(".open")] == []


def test_cut_at_every_offset_keeps_exactly_the_whole_batches(tmp_path: Path) -> None:
    batches = [encode_batch("lab-1", f"d{n}", float(n), [b'{"n":%d}' % n] * (n + 1)) for n in range(4)]
    ends = [sum(map(len, batches[: n + 1])) for n in range(4)]
    whole = b"".join(batches)
    for cut in range(len(whole) + 1):
        path = tmp_path / "segment.open"
        path.write_bytes(whole[:cut])
        kept, cut_off = repair_segment(path)
        assert kept == max((end for end in ends if end <= cut), default=0)
        assert kept + cut_off == cut
        assert path.stat().st_size == kept


def test_any_flipped_byte_is_found_and_costs_one_batch() -> None:
    batches = [encode_batch("lab-1", f"d{n}", float(n), [b'{"n":%d,"pad":"%s"}' % (n, b"x" * 40)]) for n in range(3)]
    whole = b"".join(batches)
    first, last = len(batches[0]), len(batches[0]) + len(batches[1])
    for offset in range(first, last):
        for flip in (0x01, 0x80, 0xFF):
            spoiled = bytearray(whole)
            spoiled[offset] ^= flip
            found = list(walk_segment(bytes(spoiled)))
            assert [item.header.received_ts for item in found if isinstance(item, Extent)] == [0.0, 2.0]
            assert [(item.start, item.end) for item in found if isinstance(item, Damage)] == [(first, last)]


def test_damage_in_the_middle_survives_repair_together_with_what_follows(tmp_path: Path) -> None:
    batches = [encode_batch("lab-1", f"d{n}", float(n), [b"{}"]) for n in range(3)]
    path = tmp_path / "segment.open"
    path.write_bytes(batches[0] + b"\0" * 50 + batches[1] + batches[2][:-1])
    assert repair_segment(path) == (len(batches[0]) + 50 + len(batches[1]), len(batches[2]) - 1)
    kinds = [type(item) for item in read_segment(path)]
    assert kinds == [Batch, Damage, Batch]


def test_zstdcat_prints_the_events_line_by_line(tmp_path: Path) -> None:
    with Spool(tmp_path) as spool:
        spool.append("lab-1", "d1", 1.0, [b'{"a":1}', b'{"b":"\xc3\xa9"}'])
        spool.append("lab-1", "d2", 2.0, [b'{"c":3}'])
    zstdcat = shutil.which("zstdcat")
    if zstdcat is None:
        pytest.skip("zstdcat is not installed")
    (path,) = sealed_segments(tmp_path)
    printed = subprocess.run([zstdcat, str(path)], capture_output=True, check=True, timeout=20).stdout
    assert printed == b'{"a":1}\n{"b":"\xc3\xa9"}\n{"c":3}\n'


def test_many_senders_share_the_disk_and_none_is_forgotten(tmp_path: Path) -> None:
    syncs: list[float] = []
    with Spool(tmp_path, segment_bytes_max=2_000, on_sync=syncs.append) as spool:

        def send(sender: int) -> None:
            for n in range(25):
                spool.append("lab-1", f"{sender}-{n}", 0.0, [b'{"sender":%d,"n":%d}' % (sender, n)])

        senders = [threading.Thread(target=send, args=(sender,)) for sender in range(8)]
        for sender in senders:
            sender.start()
        for sender in senders:
            sender.join()
    digests = [batch.digest for batch in stored(tmp_path)]
    assert sorted(digests) == sorted(f"{sender}-{n}" for sender in range(8) for n in range(25))
    assert 0 < len(syncs) <= len(digests)


def test_the_headers_tell_what_waits(tmp_path: Path) -> None:
    with Spool(tmp_path) as spool:
        spool.append("lab-1", "d1", 1.5, [b"{}", b"{}"])
        spool.seal()
        (header,) = spool.headers()
    assert (header.cluster, header.digest, header.received_ts, header.n, header.bytes) == ("lab-1", "d1", 1.5, 2, 6)


def test_an_old_segment_is_sealed_and_a_young_one_is_not(tmp_path: Path) -> None:
    now = [100.0]
    with Spool(tmp_path, segment_seconds_max=30, clock=lambda: now[0]) as spool:
        spool.append("lab-1", "d", 0.0, [b"{}"])
        now[0] = 129.9
        assert spool.seal_if_old() is None
        now[0] = 130.0
        assert spool.seal_if_old() in sealed_segments(tmp_path)


def test_sealing_nothing_makes_no_file(tmp_path: Path) -> None:
    with Spool(tmp_path) as spool:
        assert spool.seal() is None
    assert sealed_segments(tmp_path) == []


def test_the_backlog_follows_appends_and_the_drain(tmp_path: Path) -> None:
    with Spool(tmp_path) as spool:
        spool.append("lab-1", "d", 0.0, [b"{}"])
        size = spool.backlog_bytes
        assert size == sum(path.stat().st_size for path in tmp_path.glob("*.open")) > 0
        sealed = spool.seal()
        assert sealed is not None
        sealed.unlink()
        assert spool.measure_backlog() == 0


def test_a_second_writer_is_refused(tmp_path: Path) -> None:
    with Spool(tmp_path), pytest.raises(LakeError, match="another process is writing this spool"):
        Spool(tmp_path)
    Spool(tmp_path).close()


def test_a_full_disk_refuses_the_batch_and_keeps_what_was_acknowledged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real_write = os.write

    def half_write(handle: int, data: bytes | memoryview) -> int:
        if full[0] == 1:
            full[0] = 2
            return real_write(handle, bytes(data)[: len(data) // 2])
        if full[0] == 2:
            raise OSError(28, "No space left on device")
        return real_write(handle, data)

    full = [0]
    with Spool(tmp_path) as spool:
        spool.append("lab-1", "kept", 0.0, [b'{"kept":1}'])
        monkeypatch.setattr(os, "write", half_write)
        full[0] = 1
        with pytest.raises(SpoolWriteError, match="No space left on device"):
            spool.append("lab-1", "refused", 0.0, [b'{"refused":1}'])
        full[0] = 0
        spool.append("lab-1", "later", 0.0, [b'{"later":1}'])
    assert [batch.digest for batch in stored(tmp_path)] == ["kept", "later"]


def test_a_failed_sync_is_not_acknowledged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(handle: int) -> None:
        raise OSError(5, "Input/output error")

    with Spool(tmp_path) as spool:
        spool.append("lab-1", "kept", 0.0, [b"{}"])
        with monkeypatch.context() as patch:
            patch.setattr(os, "fdatasync", fail)
            with pytest.raises(SpoolWriteError, match="Input/output error"):
                spool.append("lab-1", "refused", 0.0, [b"{}"])
        spool.append("lab-1", "later", 0.0, [b"{}"])
    assert [batch.digest for batch in stored(tmp_path)] == ["kept", "later"]
