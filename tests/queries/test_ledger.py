"""The loss ledger over the bundled recording: it finds real losses, and nothing else."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import zstandard

from ingest.altered import ALTERED_WORDS
from ingest.lake import Lake
from ingest.quarantine import Quarantined, write_quarantine
from ingest.store import EventStore, Lines
from queries import LakeReader, open_lake
from queries.catalog import statements
from queries.ledger import LOSS_KINDS, LOSS_PARTS, Severity, loss_caveats, losses_by_part

ROOT = Path(__file__).parents[2]
# The batch that was never posted, because one of its 51 events could not be encoded; that one is in the log file neither.
LOST = slice(15_117, 15_167)
# [when it was received, events in it] of each batch that was.
DELIVERIES = json.loads((ROOT / "tests" / "cases" / "posts" / "deliveries.json").read_text())


@pytest.fixture(scope="module")
def log() -> list[bytes]:
    return zstandard.ZstdDecompressor().decompress((ROOT / "api" / "demo" / "audit.jsonl.zst").read_bytes()).splitlines()


def batches(log: list[bytes]) -> list[Lines]:
    posted = iter(log[: LOST.start] + log[LOST.stop :])
    return [Lines("lab", "webhook", received_ts, [next(posted) for _ in range(size)]) for received_ts, size in DELIVERIES]


def file_of(log: list[bytes]) -> list[Lines]:
    return [Lines("lab", "file:audit.log", 1_795_300_000.0, log)]


def reader_of(path: Path, *units: list[Lines]) -> LakeReader:
    lake = Lake.create(path)
    with lake.writer() as writer:
        store = EventStore(writer)
        for unit in units:
            store.store(unit, {}, "q")
        store.close()
    lake.close()
    return open_lake(path)


def kinds(reader: LakeReader) -> dict[str, int]:
    return dict(reader.sql("SELECT kind, sum(count)::BIGINT FROM losses GROUP BY kind").fetchall())


@pytest.mark.parametrize("webhook_first", [True, False])
def test_the_batch_that_was_never_posted_is_found(tmp_path: Path, log: list[bytes], webhook_first: bool) -> None:
    units = [batches(log), file_of(log)]
    reader = reader_of(tmp_path / "lake", *(units if webhook_first else reversed(units)))
    found = reader.sql("SELECT audit_id FROM unshared_events WHERE missing_from = 'webhook'").fetchall()
    assert sorted(audit_id for (audit_id,) in found) == sorted(json.loads(line)["auditID"] for line in log[LOST])
    # The audit policy of the recording keeps 3,546 writes at Metadata; nothing else is wrong with it.
    assert kinds(reader) == {"never_posted": 50, "lost_batch": 1, "level_metadata": 3_546}
    assert reader.sql("SELECT events FROM lost_batches").fetchall() == [(50,)]
    assert reader.sql("SELECT count(*), sum(events) FROM deliveries").fetchall() == [(73, 16_325)]
    assert [caveat.split(":")[0] for caveat in loss_caveats(losses_by_part(reader))] == [
        "1 batches were dropped whole",
        "50 requests are in a log file and were never posted by the webhook",
        "3,546 writes were recorded at level Metadata, without bodies",
    ]


def test_writes_that_are_taken_out_of_the_log_are_missed_and_no_others(tmp_path: Path, log: list[bytes]) -> None:
    writes = [index for index, line in enumerate(log) if json.loads(line)["verb"] in ("update", "patch")]
    dropped = set(random.Random(3).sample(writes, 300))
    reader = reader_of(tmp_path / "lake", file_of([line for index, line in enumerate(log) if index not in dropped]))
    made = {json.loads(log[index]).get("responseObject", {}).get("metadata", {}).get("resourceVersion") for index in dropped}
    proven = {replaced for (replaced,) in reader.sql("SELECT replaced_rv FROM unseen_writes").fetchall()}
    assert proven <= made
    assert len(proven) > 100


def event(number: int, at_ts: float, **fields: Any) -> bytes:
    stamp = (datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=at_ts)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    head = {"auditID": f"id-{number}", "stage": "ResponseComplete", "level": "Metadata", "verb": "get", "stageTimestamp": stamp}
    head |= {"requestURI": "/api/v1/pods", "user": {"username": "dana", "groups": ["system:authenticated"]}}
    return json.dumps(head | {"requestReceivedTimestamp": stamp, "objectRef": {"resource": "pods"}} | fields).encode()


@pytest.mark.parametrize(("pause_seconds", "count"), [(60, 0), (61, 1)])
def test_a_silence_is_longer_than_a_minute(tmp_path: Path, pause_seconds: float, count: int) -> None:
    times = [number * 2.0 + (pause_seconds - 2 if number > 600 else 0) for number in range(1_200)]
    reader = reader_of(tmp_path / "lake", [Lines("c", "file:a", 0.0, [event(*pair) for pair in enumerate(times)])])
    assert kinds(reader) == ({"silence": 1} if count else {})


def test_quiet_nights_of_a_small_cluster_are_no_silence(tmp_path: Path) -> None:
    times = [number * 20.0 for number in range(1_200)] + [23_980.0 + 200]
    reader = reader_of(tmp_path / "lake", [Lines("c", "file:a", 0.0, [event(*pair) for pair in enumerate(times)])])
    assert kinds(reader) == {}


def full_batches(count: int, per_second: float) -> Iterator[Lines]:
    start_ts = datetime(2026, 1, 1, tzinfo=UTC).timestamp()
    for number in range(count):
        at_ts = number / per_second
        lines = [event(number * 400 + index, at_ts, objectRef=None) for index in range(400)]
        yield Lines("c", "webhook", start_ts + at_ts, lines)


@pytest.mark.parametrize(("per_second", "bursts"), [(7.0, 0), (9.0, 1)])
def test_a_burst_is_near_what_a_server_can_send(tmp_path: Path, per_second: float, bursts: int) -> None:
    reader = reader_of(tmp_path / "lake", list(full_batches(95, per_second)))
    assert reader.sql("SELECT count(*) FROM bursts").fetchall() == [(bursts,)]
    assert kinds(reader) == ({"burst": 1} if bursts else {})


def test_what_was_refused_is_in_the_ledger_until_it_is_removed(tmp_path: Path) -> None:
    path = tmp_path / "lake"
    Lake.create(path).close()
    records = [Quarantined("sink", "c", 1.0, "no JSON", b"x" * 9), Quarantined("spool", "", 0.0, "damage", b"\xff")]
    file = write_quarantine(path / "quarantine", records)
    reader = open_lake(path)
    assert reader.losses().fetchall() == [
        ("", "quarantined", 1, None, None, "spool"),
        ("c", "quarantined", 1, datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC), datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC), "sink"),
    ]
    file.write_bytes(b"damaged")
    assert "the quarantine file itself cannot be read" in open_lake(path).sql("SELECT reason FROM quarantined").fetchall()[0][0]
    file.unlink()
    assert reader.refresh() is True
    assert reader.losses().fetchall() == []


def test_every_kind_of_the_view_is_explained() -> None:
    bodies = {statement.name: statement.body for statement in statements() if statement.name.startswith("losses_of_")}
    assert set(bodies) == {f"losses_of_{part}" for part in LOSS_PARTS}
    words = set(re.findall(r"'([a-z_]+)'", "".join(bodies.values())))
    assert words - {"no", "webhook", "authentication", "altered", *ALTERED_WORDS} == set(LOSS_KINDS)


def test_what_is_only_noted_is_no_caveat(tmp_path: Path) -> None:
    early = (datetime(2026, 1, 1, tzinfo=UTC) - timedelta(seconds=5)).timestamp()
    reader = reader_of(tmp_path / "lake", [Lines("c", "webhook", early, [event(1, 0.0)])])
    assert [LOSS_KINDS[kind].severity for kind in kinds(reader)] == [Severity.NOTE]
    assert loss_caveats(losses_by_part(reader)) == ()


def test_the_ledger_by_parts_is_the_whole_ledger(demo_lake: Path) -> None:
    reader = open_lake(demo_lake)
    whole = reader.arrow("FROM losses")
    assert whole.num_rows
    assert losses_by_part(reader).to_pylist() == whole.to_pylist()
    reader.close()
