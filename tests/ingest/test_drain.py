"""The drain stores every acknowledged batch once, whatever stops it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.errors import LakeError
from ingest.lake import Lake
from ingest.lake_writer import LakeWriter
from ingest.quarantine import read_quarantine
from ingest.spooling import drain as drain_module
from ingest.spooling.attempts import Attempts
from ingest.spooling.drain import deaths_of, drain
from ingest.spooling.spool import Spool, sealed_segments
from ingest.store import Counts, EventStore, Lines

Event = Callable[..., bytes]
Ids = Callable[[Lake], list[str]]


def drained(lake: Lake, spool: Path) -> Counts:
    with lake.writer() as writer:
        return drain(writer, spool)


def spooled(folder: Path, *batches: list[bytes], cluster: str = "c") -> None:
    with Spool(folder) as spool:
        for number, lines in enumerate(batches):
            spool.append(cluster, f"digest-{number}", float(number), lines)


def test_a_segment_is_stored_and_removed(lake: Lake, tmp_path: Path, event: Event, ids: Ids) -> None:
    spool = tmp_path / "spool"
    spooled(spool, [event(1), event(2)], [event(2), b"broken", event(3)])
    assert drained(lake, spool) == Counts(read=5, stored=3, duplicate=1, quarantined=1)
    assert sealed_segments(spool) == []
    assert drained(lake, spool) == Counts()
    assert ids(lake) == ["id-1", "id-2", "id-3"]
    assert [record.raw for record in read_quarantine(lake.path / "quarantine")] == [b"broken"]


def test_what_is_being_written_is_left_alone(lake: Lake, tmp_path: Path, event: Event, ids: Ids) -> None:
    with Spool(tmp_path / "spool") as spool:
        spool.append("c", "digest", 0.0, [event(1)])
        assert drained(lake, spool.directory) == Counts()
        spool.seal()
        assert drained(lake, spool.directory) == Counts(read=1, stored=1)
    assert ids(lake) == ["id-1"]


def test_damage_in_a_segment_costs_only_its_batch(lake: Lake, tmp_path: Path, event: Event, ids: Ids) -> None:
    spool = tmp_path / "spool"
    spooled(spool, [event(1)], [event(2)], [event(3)])
    (segment,) = sealed_segments(spool)
    data = bytearray(segment.read_bytes())
    data[len(data) // 2] ^= 0xFF
    segment.write_bytes(data)
    assert drained(lake, spool).stored == 2
    assert ids(lake) == ["id-1", "id-3"]
    (kept,) = read_quarantine(lake.path / "quarantine")
    assert kept.raw in bytes(data)


class StopError(Exception):
    """Stands for the death of the process."""


@settings(max_examples=40, deadline=None)
@given(
    segments=st.lists(st.lists(st.lists(st.integers(0, 12), max_size=3), min_size=1, max_size=4), max_size=3),
    unit=st.integers(1, 5),
    deaths=st.lists(st.tuples(st.sampled_from(["write", "commit", "committed"]), st.integers(1, 3)), max_size=4),
)
def test_a_drain_that_dies_at_any_step_is_repeated_without_loss(
    tmp_path_factory: pytest.TempPathFactory,
    event: Event,
    ids: Ids,
    segments: list[list[list[int]]],
    unit: int,
    deaths: list[tuple[str, int]],
) -> None:
    folder = tmp_path_factory.mktemp("drain")
    for batches in segments:
        spooled(folder / "spool", *([event(number) for number in batch] for batch in batches))
    lake = Lake.create(folder / "lake")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(drain_module, "UNIT_EVENTS_MAX", unit)
        for step, count in deaths:
            with pytest.MonkeyPatch.context() as death:
                die(death, step, count)
                try:
                    drained(lake, folder / "spool")
                except StopError:
                    continue
        drained(lake, folder / "spool")
    assert ids(lake) == sorted({f"id-{number}" for batches in segments for batch in batches for number in batch})
    assert sealed_segments(folder / "spool") == []
    assert drained(lake, folder / "spool") == Counts()
    assert lake.manifest.props("segment:") == {}
    lake.close()


def die(patch: pytest.MonkeyPatch, step: str, count: int) -> None:
    """Raise at the count-th time that the writer comes to a step."""
    left = count
    name = "write" if step == "write" else "commit"
    function = getattr(LakeWriter, name)

    def dying(*args: object, **options: object) -> object:
        nonlocal left
        left -= 1
        if left == 0 and step != "committed":
            raise StopError
        result = function(*args, **options)
        if left == 0:
            raise StopError
        return result

    patch.setattr(LakeWriter, name, dying)


def test_a_segment_of_two_units_resumes_at_the_second(
    lake: Lake, tmp_path: Path, event: Event, ids: Ids, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drain_module, "UNIT_EVENTS_MAX", 1)
    spool = tmp_path / "spool"
    spooled(spool, [event(1)], [event(2)], [event(3)])
    with lake.writer() as writer:
        answers = iter([False, True])
        assert drain(writer, spool, lambda: next(answers)) == Counts(read=1, stored=1)
    assert len(sealed_segments(spool)) == 1
    assert drained(lake, spool) == Counts(read=2, stored=2)
    assert ids(lake) == ["id-1", "id-2", "id-3"]


def test_many_small_segments_are_stored_together(
    lake: Lake, tmp_path: Path, event: Event, ids: Ids, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drain_module, "UNIT_EVENTS_MAX", 4)
    spool = tmp_path / "spool"
    for number in range(6):
        spooled(spool, [event(2 * number), event(2 * number + 1)])
    with lake.writer() as writer:
        answers = iter([False, True])
        assert drain(writer, spool, lambda: next(answers)) == Counts(read=4, stored=4)
    assert len(sealed_segments(spool)) >= 4
    assert drained(lake, spool) == Counts(read=8, stored=8)
    assert len(lake.files()) == 3
    assert len(ids(lake)) == 12


def test_a_segment_that_cannot_be_read_stays_and_holds_up_no_other(lake: Lake, tmp_path: Path, event: Event, ids: Ids) -> None:
    spool = tmp_path / "spool"
    (spool / "00.jsonl.zst").mkdir(parents=True)
    spooled(spool, [event(1)])
    with pytest.raises(LakeError, match="the segment cannot be read"):
        drained(lake, spool)
    assert ids(lake) == ["id-1"]
    assert [path.name for path in sealed_segments(spool)] == ["00.jsonl.zst"]


class Fragile(EventStore):
    """Fails on events with a mark, as a defect of Hindcast would."""

    def _store(self, unit: Iterable[Lines], marks: Mapping[str, str], quarantine_name: str) -> Counts:
        parts = list(unit)
        if any(b"bad" in line for part in parts for line in part.lines):
            raise KeyError("bad")
        return super()._store(parts, marks, quarantine_name)


@pytest.mark.parametrize("bad", [[0], [6], [2, 3, 5], list(range(7))])
def test_an_event_that_cannot_be_stored_stops_no_other(bad: list[int], lake: Lake, event: Event, ids: Ids) -> None:
    lines = [event(number, verb="bad" if number in bad else "get") for number in range(7)]
    parts = [Lines("c", "webhook", 1.0, lines[:3]), Lines("c", "webhook", 2.0, lines[3:])]
    with lake.writer() as writer:
        store = Fragile(writer)
        counts = store.store(parts, {"mark": "1"}, "unit")
        store.close()
    assert (counts.read, counts.stored, counts.quarantined) == (7, 7 - len(bad), len(bad))
    assert lake.manifest.prop("mark") == "1"
    kept = read_quarantine(lake.path / "quarantine")
    assert sorted(record.raw for record in kept) == sorted(lines[number] for number in bad)
    assert all("a defect of Hindcast: KeyError" in record.reason for record in kept)
    if len(bad) < 7:
        assert ids(lake) == [f"id-{number}" for number in range(7) if number not in bad]


@given(total=st.integers(1, 20_000), data=st.data())
def test_a_drain_that_dies_on_an_event_sets_it_aside_and_gets_on(
    tmp_path_factory: pytest.TempPathFactory, total: int, data: st.DataObject
) -> None:
    spool = tmp_path_factory.mktemp("spool")
    deadly = data.draw(st.integers(0, total - 1))
    set_aside: list[int] = []
    for _ in range(12):
        attempts, start, died = Attempts(spool), 0, False
        while start < total and not died:
            end = attempts.end_of("unit", start, total)
            assert start < end <= total
            if not attempts.begin("unit", start, end - start):
                set_aside.append(start)
            else:
                died = start <= deadly < end
            start = end
        if not died:
            attempts.end()
            break
    assert set_aside == [deadly]
    assert not Attempts(spool).follows_a_death


def test_a_death_is_counted_and_the_next_drain_stores_less_at_a_time(lake: Lake, tmp_path: Path, event: Event, ids: Ids) -> None:
    spool = tmp_path / "spool"
    spooled(spool, [event(number) for number in range(8)])
    (segment,) = sealed_segments(spool)
    Attempts(spool).begin(f"{segment.name}-0", 0, 8)
    assert drained(lake, spool) == Counts(read=8, stored=8)
    assert deaths_of(lake.manifest) == 1
    assert ids(lake) == [f"id-{number}" for number in range(8)]
    assert len(lake.files()) == 4
    assert not Attempts(spool).follows_a_death
