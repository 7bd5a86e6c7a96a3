"""Once only: whatever comes again, in whatever order and after whatever restart, is stored once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.lake import Lake
from ingest.quarantine import read_quarantine
from ingest.store import Counts, EventStore, Lines

Event = Callable[..., bytes]


def store(lake: Lake, *lines: bytes, cluster: str = "c", source: str = "test") -> Counts:
    with lake.writer() as writer:
        stored = EventStore(writer)
        try:
            return stored.store([Lines(cluster, source, 0.0, lines, lambda index: f"FILE:{index + 1}")], {}, "q")
        finally:
            stored.close()


# A unit is a list of (cluster, event number, variant of its content).
EVENTS = st.tuples(st.sampled_from("ab"), st.sampled_from([0, 1, 2, 3, 3599, 86_399, 86_400]), st.sampled_from("xxy"))


@settings(max_examples=40, deadline=None)
@given(units=st.lists(st.lists(EVENTS, max_size=8), max_size=6), restarts=st.sets(st.integers(0, 6)))
def test_any_interleaving_of_duplicates_and_restarts_stores_each_event_once(
    tmp_path_factory: pytest.TempPathFactory,
    event: Event,
    rows: Callable[[Lake], list[dict[str, Any]]],
    units: list[list[tuple[str, int, str]]],
    restarts: set[int],
) -> None:
    path = tmp_path_factory.mktemp("lake")
    lake = Lake.create(path)
    kept: dict[tuple[str, str], str] = {}
    for index, unit in enumerate(units):
        if index in restarts:
            lake.close()
            lake = Lake.open(path)
        counts = Counts()
        expected = Counts(read=len(unit))
        for cluster in "ab":
            lines = [event(number, userAgent=variant) for name, number, variant in unit if name == cluster]
            counts.add(store(lake, *lines, cluster=cluster))
        for cluster, number, variant in unit:
            key = (cluster, f"id-{number}")
            if key in kept:
                expected.duplicate += 1
                expected.conflicting += kept[key] != variant
            else:
                expected.stored += 1
                kept[key] = variant
        assert counts == expected
    assert {(row["cluster"], row["audit_id"]): row["user_agent"] for row in rows(lake)} == kept
    assert len(rows(lake)) == len(kept)
    lake.close()


@pytest.mark.parametrize(
    ("change", "stored"),
    [
        ({"auditID": "other"}, 1),
        ({"stage": "Panic"}, 1),
        ({"stageTimestamp": "2026-11-01T00:00:01.000001Z"}, 1),
        ({"requestObject": None}, 0),
        ({"annotations": {"a": "b"}}, 0),
    ],
)
def test_identity_is_cluster_audit_id_stage_and_stage_time(lake: Lake, event: Event, change: dict[str, Any], stored: int) -> None:
    store(lake, event(1))
    assert store(lake, event(1, **change)) == Counts(read=1, stored=stored, duplicate=1 - stored, conflicting=1 - stored)


def test_the_first_copy_of_an_event_stays(lake: Lake, event: Event, rows: Callable[[Lake], list[dict[str, Any]]]) -> None:
    store(lake, event(1, userAgent="a"), event(1, userAgent="b"))
    store(lake, event(1, userAgent="c"))
    assert [row["user_agent"] for row in rows(lake)] == ["a"]


@pytest.mark.parametrize(
    ("change", "is_other"),
    [
        ({"verb": "delete"}, True),
        ({"user": {"username": "mallory"}}, False),
        ({"objectRef": {"resource": "secrets", "namespace": "n", "name": "p", "apiVersion": "v1"}}, True),
        ({"objectRef": {"resource": "pods", "namespace": "n", "name": "q", "apiVersion": "v1"}}, True),
        ({"requestURI": "/api/v1/namespaces/n/pods/q"}, True),
        ({"requestReceivedTimestamp": "2026-11-01T00:00:00.000900Z"}, True),
        # A store of whole seconds rounded it, and a trimmed log lacks it.
        ({"requestReceivedTimestamp": "2026-11-01T00:00:00Z"}, False),
        ({"requestReceivedTimestamp": None}, False),
        ({"requestURI": None}, False),
        ({"objectRef": None}, False),
        ({"requestURI": "/api/v1/namespaces/n/pods/p?pretty=true"}, False),
        ({"objectRef": {"resource": "pods", "namespace": "n", "name": "REDACTED", "apiVersion": "v1"}}, False),
        ({"sourceIPs": ["10.0.0.9"]}, False),
    ],
)
def test_several_requests_may_have_one_audit_id(
    lake: Lake, event: Event, rows: Callable[[Lake], list[dict[str, Any]]], change: dict[str, Any], is_other: bool
) -> None:
    told = {
        "verb": "get",
        "user": {"username": "alice", "groups": ["g"]},
        "requestURI": "/api/v1/namespaces/n/pods/p",
        "objectRef": {"resource": "pods", "namespace": "n", "name": "p", "apiVersion": "v1"},
        "requestReceivedTimestamp": "2026-11-01T00:00:00.000100Z",
        "stageTimestamp": "2026-11-01T00:00:01Z",
    }
    both = event(1, **told), event(1, **(told | change))
    counts = store(lake, *both)
    assert (counts.stored, counts.duplicate) == ((2, 0) if is_other else (1, 1))
    assert counts.conflicting == 0 or not is_other
    before = rows(lake)
    for again in (both, both[::-1]):
        assert store(lake, *again).stored == 0  # in any order
    assert rows(lake) == before
    ids = [row["audit_id"] for row in before]
    assert [each.partition("~")[0] for each in ids] == ["id-1"] * len(before)
    assert len(set(ids)) == len(before)
    assert [dict(row["notes"]).get("reused") for row in before] == [None, "id-1"][: len(before)]


def repeats(lake: Lake) -> list[tuple[str, str, bool]]:
    table = pa.concat_tables([pq.read_table(path, partitioning=None) for path in lake.files("repeats")])
    return sorted((row["audit_id"], row["ingest_source"], row["conflicting"]) for row in table.to_pylist())


def test_what_comes_again_from_elsewhere_or_differs_is_remembered(lake: Lake, event: Event) -> None:
    store(lake, event(1), event(2), source="file:audit.log")
    store(lake, event(1), source="file:audit-2026.log")
    assert repeats(lake) == []
    store(lake, event(2), event(3), source="webhook")
    store(lake, event(3), source="file:audit.log")
    store(lake, event(1, userAgent="other"), source="file:audit.log")
    assert repeats(lake) == [("id-1", "file:audit.log", True), ("id-2", "webhook", False), ("id-3", "file:audit.log", False)]


@pytest.mark.parametrize(
    ("before", "after", "conflicting"),
    [
        ({}, {"hindcast/wording": "forbidden"}, 0),
        ({"hindcast/redacted": "responseStatus"}, {"hindcast/redacted": "responseStatus", "hindcast/signer": "a/b"}, 0),
        ({"hindcast/redacted": "responseStatus"}, {"hindcast/redacted": "responseStatus,user"}, 0),
        ({"a": "b"}, {"a": "b", "hindcast/wording": ""}, 0),
        ({"a": "b"}, {"a": "c", "hindcast/wording": ""}, 1),
        ({"a": "b", "hindcast/wording": ""}, {"hindcast/wording": ""}, 1),
        ({"hindcast.example.com/a": "b"}, {"hindcast.example.com/a": "c"}, 1),
    ],
)
def test_annotations_of_another_version_of_hindcast_are_no_other_content(
    lake: Lake, event: Event, before: dict[str, str], after: dict[str, str], conflicting: int
) -> None:
    store(lake, event(1, annotations=before))
    assert store(lake, event(1, annotations=after)) == Counts(read=1, duplicate=1, conflicting=conflicting)


def test_what_is_no_event_costs_no_neighbour_and_is_kept(lake: Lake, event: Event) -> None:
    broken = b'{"auditID":"\xff'
    assert store(lake, event(1), broken, event(2)) == Counts(read=3, stored=2, quarantined=1)
    (kept,) = read_quarantine(lake.path / "quarantine")
    assert (kept.raw, kept.cluster, kept.source) == (broken, "c", "test")
    assert kept.reason == "FILE:2: no JSON: Input data was truncated"


def test_several_clusters_in_one_unit(lake: Lake, event: Event, ids: Callable[[Lake], list[str]]) -> None:
    with lake.writer() as writer:
        parts = [Lines(cluster, "test", 0.0, [event(1), event(2)]) for cluster in ("a", "b", "a")]
        assert EventStore(writer).store(parts, {"mark": "1"}, "q") == Counts(read=6, stored=4, duplicate=2)
    assert ids(lake) == ["id-1", "id-1", "id-2", "id-2"]
    assert lake.manifest.prop("mark") == "1"


def test_a_unit_of_nothing_still_leaves_its_mark(lake: Lake, tmp_path: Path) -> None:
    with lake.writer() as writer:
        assert EventStore(writer).store([], {"mark": "1"}, "q") == Counts()
    assert lake.manifest.prop("mark") == "1"


def test_an_event_of_long_ago_does_not_make_a_unit_read_what_lies_between(lake: Lake, event: Event) -> None:
    """One such event in each batch would otherwise make every unit cost as much as the whole lake."""
    with lake.writer() as writer:
        store = EventStore(writer)
        for number in (0, 1000, 2000):
            store.store([Lines("c", "test", 0.0, [event(number)])], {}, "q")
        between = lake.files()[1]
        between.write_bytes(b"not to be read")
        counts = store.store([Lines("c", "test", 0.0, [event(0), event(2000), event(3000)])], {}, "q")
        store.close()
    assert (counts.stored, counts.duplicate) == (1, 2)
