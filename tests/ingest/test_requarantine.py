"""Records in quarantine are read again without losing one."""

from __future__ import annotations

from collections.abc import Callable

from ingest.lake import Lake
from ingest.quarantine import Quarantined, quarantine_files, read_quarantine, write_quarantine
from ingest.requarantine import retry


def test_events_leave_the_quarantine_and_the_others_stay(
    lake: Lake, event: Callable[..., bytes], ids: Callable[[Lake], list[str]]
) -> None:
    wrapped = b'{"log":"%s\\n","stream":"stdout"}' % event(1).replace(b'"', b'\\"')
    raws = [wrapped, b"no event", event(2), b'{"auditID":"3"}']
    directory = lake.path / "quarantine"
    write_quarantine(directory, [Quarantined("file:a", "c", 1.0, f"a:{n}: why", raw) for n, raw in enumerate(raws)], "one")
    write_quarantine(directory, [Quarantined("file:b", "c", 1.0, "b:1: why", event(1))], "two")
    counts = retry(lake, quarantine_files(directory), None)
    assert (counts.stored, counts.duplicate, counts.quarantined) == (2, 1, 2)
    assert len(ids(lake)) == 2
    assert [record.raw for record in read_quarantine(directory)] == [raws[1], raws[3]]
    assert [record.reason for record in read_quarantine(directory)] == ["a:1: why", "a:3: why"]
    again = retry(lake, quarantine_files(directory), None)
    assert (again.stored, again.quarantined) == (0, 2)
