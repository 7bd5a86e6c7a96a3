"""What the sink promises: an accepted batch is stored whole, an odd event costs only itself, a refusal says why and until when."""

from __future__ import annotations

import errno
import json
import os
import threading
import tracemalloc
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import structlog
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest import eventlist
from ingest.apart import APART_BYTES, Apart, take_apart
from ingest.eventlist import NotAnEventListError, TooMuchError, parse_event_list
from ingest.flight import Flight
from ingest.notes import PREFIX, REDACTED
from ingest.quarantine import read_quarantine
from ingest.redaction.redact import Redactor
from ingest.sink import REFUSALS, Accepted, DigestWindow, Refused, Sink, is_cluster_name
from ingest.sink_limits import SinkLimits
from ingest.spooling.segment import Batch
from ingest.spooling.spool import Spool, read_segment, sealed_segments
from tests.drawing import MANY

# How a line carries the note.
ANNOTATION = PREFIX + REDACTED

POSTS = Path(__file__).parents[1] / "cases" / "posts"


def recorded() -> list[bytes]:
    return [zstandard.ZstdDecompressor().decompress(path.read_bytes()) for path in sorted(POSTS.glob("*.zst"))]


def event(number: int) -> bytes:
    return json.dumps({"auditID": f"a-{number}", "stage": "ResponseComplete", "level": "Metadata"}, separators=(",", ":")).encode()


def event_list(items: list[bytes], api_version: str = "audit.k8s.io/v1") -> bytes:
    return b'{"kind":"EventList","apiVersion":"%s","metadata":{},"items":[%s]}\n' % (api_version.encode(), b",".join(items))


class Bench:
    """A sink over an own folder, and what it stored."""

    def __init__(self, folder: Path, **limits: Any) -> None:
        self.folder = folder
        self.limits = SinkLimits(**{"disk_free_bytes_min": 0, **limits})
        self.open()

    def open(self) -> None:
        self.spool = Spool(self.folder / "spool")
        self.sink = Sink(self.spool, self.folder / "quarantine", redactor=Redactor(), limits=self.limits)

    def stored(self) -> list[bytes]:
        self.spool.seal()
        batches = [item for path in sealed_segments(self.spool.directory) for item in read_segment(path)]
        assert all(isinstance(batch, Batch) for batch in batches)
        return [line for batch in batches if isinstance(batch, Batch) for line in batch.lines]

    def metric(self, name: str, **labels: str) -> float:
        return self.sink.metrics.registry.get_sample_value(name, labels) or 0.0


@pytest.fixture
def bench(tmp_path: Path) -> Any:
    bench = Bench(tmp_path)
    yield bench
    bench.spool.close()


def test_recorded_posts_are_stored_byte_for_byte(bench: Bench) -> None:
    events = 0
    for body in recorded():
        result = bench.sink.accept("lab-1", body, 1.0)
        assert isinstance(result, Accepted)
        events += result.events
    assert events == 499
    stored = bench.stored()
    assert stored == [item for body in recorded() for item in parse_event_list(body).lines]
    assert b'"items":[' + b",".join(stored[-400:]) + b"]" in recorded()[-1]
    assert bench.metric("hindcast_sink_events_stored_total") == 499


@pytest.mark.parametrize(
    ("odd", "reason"),
    [
        (b"null", "must be a JSON object"),
        (b"5", "must be a JSON object"),
        (b'"text"', "must be a JSON object"),
        (b"[]", "must be a JSON object"),
        (b'{"auditID":"\\ud800"}', "truncated"),
        (b'{"auditID":NaN}', "JSON is malformed"),
        (b'{"auditID":"raw\nnewline"}', "JSON is malformed"),
        (b'{"auditID":1,}', "JSON is malformed"),
        (b'{"requestObject":' + b'{"a":' * 20_000 + b"1" + b"}" * 20_000 + b"}", "nested too deep"),
    ],
)
def test_one_odd_item_costs_only_itself(bench: Bench, odd: bytes, reason: str) -> None:
    result = bench.sink.accept("lab-1", event_list([event(1), odd, event(2)]), 7.0)
    assert result == Accepted(events=2, quarantined=1)
    assert bench.stored() == [event(1), event(2)]
    (record,) = read_quarantine(bench.folder / "quarantine")
    assert (record.source, record.cluster, record.received_ts, record.raw) == ("sink", "lab-1", 7.0, odd)
    assert reason in record.reason
    assert bench.metric("hindcast_sink_events_quarantined_total") == 1


def test_bytes_that_are_not_utf8_reach_the_spool_or_the_quarantine_unchanged(bench: Bench) -> None:
    odd, bad = b'{"auditID":"\xff\xfe"}', b"{\xff}"
    assert bench.sink.accept("lab-1", event_list([odd, bad]), 1.0) == Accepted(events=1, quarantined=1)
    assert bench.stored() == [odd]
    assert [record.raw for record in read_quarantine(bench.folder / "quarantine")] == [bad]


def test_a_list_printed_over_many_lines_is_taken(bench: Bench) -> None:
    body = json.dumps(json.loads(event_list([event(1), event(2)])), indent=2).encode()
    assert bench.sink.accept("lab-1", body, 1.0) == Accepted(events=2, quarantined=0)
    assert [json.loads(line) for line in bench.stored()] == [json.loads(event(1)), json.loads(event(2))]


def test_v1beta1_is_tolerated(bench: Bench) -> None:
    assert bench.sink.accept("lab-1", event_list([event(1)], "audit.k8s.io/v1beta1"), 1.0) == Accepted(1, 0)


def test_an_empty_list_is_acknowledged_and_writes_nothing(bench: Bench) -> None:
    assert bench.sink.accept("lab-1", event_list([]), 1.0) == Accepted(0, 0)
    assert bench.sink.accept("lab-1", b'{"kind":"EventList","apiVersion":"audit.k8s.io/v1","items":null}', 1.0) == Accepted(0, 0)
    assert bench.stored() == []


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"[]",
        b"{}",
        b"\x1f\x8b\x08\x00",
        event(1),
        b'{"kind":"PodList","apiVersion":"v1","items":[{}]}',
        event_list([event(1)], "audit.k8s.io/v2"),
        event_list([event(1)])[:-5],
        event_list([event(1), b'{"open":"']),
        event_list([event(1)]) + b"{}",
        b'{"kind":"EventList","apiVersion":"audit.k8s.io/v1","items":{}}',
        b"\xef\xbb\xbf" + event_list([]),
    ],
)
def test_what_is_no_event_list_is_refused(bench: Bench, body: bytes) -> None:
    result = bench.sink.accept("lab-1", body, 1.0)
    assert isinstance(result, Refused)
    assert (result.reason, result.status, result.retry_after_seconds) == ("not_an_event_list", 400, None)
    assert bench.stored() == []


@pytest.mark.parametrize("spoil", [b"", b"01"])
def test_a_list_of_more_items_than_any_server_sends_is_refused_whole(tmp_path: Path, spoil: bytes) -> None:
    bench = Bench(tmp_path, items_max=3)
    assert bench.sink.accept("lab-1", event_list([event(number) for number in range(3)]), 1.0) == Accepted(3, 0)
    result = bench.sink.accept("lab-1", event_list([event(4), event(5), event(6), spoil or event(7)]), 1.0)
    assert isinstance(result, Refused)
    assert (result.reason, result.status) == ("too_much", 413)
    assert result.message == "the list has more than 3 items"
    bench.spool.close()


def test_a_large_body_of_tiny_items_is_refused_before_each_costs_a_hundred_bytes(bench: Bench) -> None:
    inside = b"1," * 1_100_000 + b"1"
    tracemalloc.start()
    result = bench.sink.accept("lab-1", event_list([inside]), 1.0)
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert isinstance(result, Refused)
    assert (result.reason, result.status) == ("too_much", 413)
    assert peak_bytes < 40_000_000


def test_a_large_dense_list_that_an_api_server_may_send_is_taken(bench: Bench) -> None:
    numbers = b'{"auditID":"a-1","requestObject":[%s]}' % (b"1," * 1_100_000 + b"1")
    assert bench.sink.accept("lab-1", event_list([event(1), numbers, event(2)]), 1.0) == Accepted(3, 0)
    assert bench.stored() == [event(1), numbers, event(2)]


def test_a_tangle_of_brackets_is_refused(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(eventlist, "_BRACKETS_MAX", 1000)
    assert isinstance(bench.sink.accept("lab-1", event_list([b"[]," * 400 + b"01"]), 1.0), Accepted)
    result = bench.sink.accept("lab-1", event_list([b"[" + b"[]," * 600 + b"01]"]), 1.0)
    assert isinstance(result, Refused)
    assert (result.reason, result.status) == ("too_much", 413)
    assert result.message == "the list does not decode and has more than 1000 brackets"


def test_strings_without_end_are_gone_through_once() -> None:
    for odd in (b'""' * 500_000 + b'"', b'"' + b"\\" * 1_000_001, b'{"a":"' * 150_000, b'"items":[' * 100_000):
        with pytest.raises((NotAnEventListError, TooMuchError)):
            parse_event_list(event_list([odd]), 100_000)


@settings(max_examples=MANY, deadline=None)
@given(st.data())
def test_no_bytes_crash_the_parser_and_none_cost_a_neighbour(data: st.DataObject) -> None:
    odd = data.draw(
        st.one_of(
            st.binary(max_size=60),
            st.text(alphabet='{}[]",:\\\n 1aitems', max_size=40).map(str.encode),
            st.sampled_from([b"null", b'{"items":[1]}', b'{"a":"\\u12"}', b'{"items":[{"items":[', b'"', b"]", b"}", b","]),
        )
    )
    body = event_list([event(1), odd, event(2)])
    try:
        found = parse_event_list(body)
    except NotAnEventListError:
        return
    assert found.lines[0] == event(1)
    assert found.lines[-1] == event(2)
    assert all(
        b"\n" not in line and isinstance(json.loads(line.decode("utf-8", "replace"), strict=False), dict) for line in found.lines
    )


@settings(max_examples=MANY, deadline=None)
@given(
    st.binary(max_size=300)
    | st.recursive(st.none() | st.integers() | st.text(), lambda inner: st.lists(inner)).map(repr).map(str.encode)
)
def test_random_bodies_are_refused_and_never_crash(body: bytes) -> None:
    with pytest.raises(NotAnEventListError):
        parse_event_list(body)


def test_a_repeated_body_is_acknowledged_and_not_stored_again_also_after_a_restart(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    body = event_list([event(1)])
    assert bench.sink.accept("lab-1", body, 1.0) == Accepted(1, 0)
    assert bench.sink.accept("lab-1", body, 2.0) == Accepted(1, 0, duplicate=True)
    assert bench.sink.accept("lab-2", body, 2.0) == Accepted(1, 0)
    bench.spool.close()
    bench.open()
    assert bench.sink.accept("lab-1", body, 3.0) == Accepted(1, 0, duplicate=True)
    assert bench.stored() == [event(1), event(1)]
    assert bench.metric("hindcast_sink_batches_duplicate_total") == 1
    bench.spool.close()


def test_the_digest_window_forgets_by_age_and_by_number() -> None:
    window = DigestWindow(seconds=10, count_max=2)
    window.add("lab-1", "a", 0.0)
    window.add("lab-1", "b", 5.0)
    assert ("lab-1", "a") in window
    window.add("lab-1", "c", 6.0)
    assert ("lab-1", "a") not in window
    window.add("lab-1", "d", 15.5)
    assert [("lab-1", name) in window for name in "bcd"] == [False, True, True]


@pytest.mark.parametrize("name", ["lab-1", "a", "prod.eu-west_1", "0", "a" * 63])
def test_names_of_clusters(name: str) -> None:
    assert is_cluster_name(name)


@pytest.mark.parametrize("name", ["", ".", "..", "../x", "a/b", "A", "-a", "a-", ".a", "a b", "a\n", "ä", "a" * 64, "a\0"])
def test_what_names_no_cluster_is_refused(bench: Bench, name: str) -> None:
    result = bench.sink.accept(name, event_list([event(1)]), 1.0)
    assert isinstance(result, Refused)
    assert (result.reason, result.status) == ("cluster_name", 400)


def test_limits_are_refused_with_a_time_to_try_again(tmp_path: Path) -> None:
    body = event_list([event(n) for n in range(5)])
    big = Bench(tmp_path / "big", body_bytes_max=len(body) - 1)
    refused = big.sink.accept("lab-1", body, 1.0)
    assert isinstance(refused, Refused)
    assert (refused.reason, refused.status, refused.retry_after_seconds) == ("body_too_large", 413, None)
    big.spool.close()

    full = Bench(tmp_path / "full", disk_free_bytes_min=1 << 62)
    refused = full.sink.accept("lab-1", body, 1.0)
    assert isinstance(refused, Refused)
    assert (refused.reason, refused.status, refused.retry_after_seconds) == ("disk_full", 503, 5)
    full.spool.close()


def test_room_is_shared_and_none_takes_all_of_it(tmp_path: Path) -> None:
    bench = Bench(tmp_path, in_flight_bytes_max=6400, body_bytes_max=10_000, requests_per_sender_max=3)
    with ExitStack() as stack:

        def flight(sender: str) -> Flight:
            begun = stack.enter_context(bench.sink.flight("lab-1", 6000, sender))
            assert isinstance(begun, Flight)
            return begun

        # What is announced takes nothing; what arrives does.
        first, second, _ = flight("a"), flight("a"), flight("a")
        assert first.take(3000) == ""
        assert "there is no room for 300 more" in second.take(300)
        assert second.take(200) == ""
        with bench.sink.flight("lab-1", 6000, "a") as fourth:
            assert isinstance(fourth, Refused)
            assert (fourth.reason, fourth.status, fourth.retry_after_seconds) == ("busy", 503, 1)
        assert flight("b").take(1600) == ""
        # The rest is kept for senders that have little.
        assert flight("c").take(101) != ""
        assert flight("c").take(100) == ""
        assert bench.metric("hindcast_sink_in_flight_bytes") == 4900
    # One body alone may be larger than the room for all; else it could never be stored.
    with bench.sink.flight("lab-1", 9000, "a") as alone:
        assert isinstance(alone, Flight)
        assert alone.take(9000) == ""
    assert bench.metric("hindcast_sink_in_flight_bytes") == 0
    refused = bench.sink.no_room("full")
    assert (refused.reason, refused.status, refused.retry_after_seconds) == ("busy", 503, 1)
    bench.sink.stop_accepting()
    with bench.sink.flight("lab-1", 1, "a") as late:
        assert isinstance(late, Refused)
        assert late.reason == "stopping"
    bench.spool.close()


def test_a_large_list_is_taken_apart_in_another_process_with_the_same_result(bench: Bench) -> None:
    secret = b'{"auditID":"s","objectRef":{"resource":"secrets"},"requestObject":{"data":"aHVudGVyMg=="}}'
    filler = b'{"auditID":"filler","requestObject":"%s"}' % (b"x" * APART_BYTES)
    body = event_list([event(1), secret, b"5", filler, event(2)])
    try:
        assert bench.sink.accept("lab-1", body, 1.0) == Accepted(4, 1)
        here = take_apart(body, None, Redactor())
        assert bench.stored() == here.lines
        assert bench.metric("hindcast_sink_events_redacted_total") == here.redacted == 1
        assert [record.raw for record in read_quarantine(bench.folder / "quarantine")] == [b"5"]
        refused = bench.sink.accept("lab-1", body[:-3], 1.0)
        assert isinstance(refused, Refused)
        assert (refused.reason, refused.status) == ("not_an_event_list", 400)
        refused = bench.sink.accept("lab-1", event_list([b"1," * APART_BYTES + b"1"]), 1.0)
        assert isinstance(refused, Refused)
        assert (refused.reason, refused.status) == ("too_much", 413)
    finally:
        bench.sink.close()


def test_a_list_that_costs_too_much_time_is_refused_and_the_next_is_taken() -> None:
    hurried = Apart(None, processes_max=1, seconds_max=0.001)
    body = event_list([b'"' + b"\\" * APART_BYTES])
    try:
        for _ in range(2):
            with pytest.raises(TooMuchError, match="taking the list apart took more than"):
                hurried.take_apart(body, None)
        hurried._seconds_max = 60.0
        assert hurried.take_apart(event_list([event(1)]), None).lines == [event(1)]
    finally:
        hurried.close()


def test_a_list_for_which_the_machine_is_too_busy_is_refused_for_now(bench: Bench) -> None:
    bench.sink._apart._wait_seconds_max = 0.0
    body = event_list([b'"' + b"x" * APART_BYTES + b'"', event(1)])
    try:
        refused = bench.sink.accept("lab-1", body, 1.0)
        assert isinstance(refused, Refused)
        assert (refused.reason, refused.status) == ("busy", 503)
        assert "too busy to take a large list apart" in refused.message
        bench.sink._apart._wait_seconds_max = 600.0
        assert bench.sink.accept("lab-1", body, 1.0) == Accepted(1, 1)
    finally:
        bench.sink.close()


@pytest.mark.parametrize(
    ("number", "reason"),
    [
        (errno.ENOSPC, "disk_full"),
        (errno.EDQUOT, "disk_full"),
        (errno.EIO, "disk_failed"),
        (errno.EROFS, "disk_failed"),
        (errno.EACCES, "disk_failed"),
    ],
)
def test_a_disk_that_refuses_is_a_refusal_and_the_repetition_is_stored(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, number: int, reason: str
) -> None:
    def fail(handle: int) -> None:
        raise OSError(number, os.strerror(number))

    body = event_list([event(1)])
    with monkeypatch.context() as patch:
        patch.setattr("os.fdatasync", fail)
        refused = bench.sink.accept("lab-1", body, 1.0)
    assert isinstance(refused, Refused)
    assert (refused.reason, refused.status, refused.retry_after_seconds) == (reason, 503, 5)
    assert bench.sink.trouble() == refused
    assert bench.sink.accept("lab-1", body, 2.0) == Accepted(1, 0)
    assert bench.sink.trouble() is None
    assert bench.stored() == [event(1)]


def test_a_disk_that_recovered_is_ready_again_without_a_batch(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(handle: int) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr("os.fdatasync", fail)
        patch.setattr("os.fsync", fail)
        bench.sink.accept("lab-1", event_list([event(1)]), 1.0)
        bench.sink.look_around()
        assert bench.sink.trouble() is not None
    bench.sink.look_around()
    assert bench.sink.trouble() is None


def test_credentials_reach_neither_spool_nor_quarantine(bench: Bench) -> None:
    secret = b'{"auditID":"s","objectRef":{"resource":"secrets"},"requestObject":{"data":"aHVudGVyMg=="}}'
    broken = secret[:-1] + b',"x":"\\ud800"}'
    assert bench.sink.accept("lab-1", event_list([event(1), secret, broken]), 1.0) == Accepted(2, 1)
    bench.spool.seal()
    everything = b"".join(
        zstandard.ZstdDecompressor().stream_reader(path.read_bytes(), read_across_frames=True).read()
        for folder in ("spool", "quarantine")
        for path in (bench.folder / folder).glob("*.zst")
    )
    assert b"aHVudGVyMg" not in everything
    assert everything.count(ANNOTATION.encode()) == 2
    assert bench.metric("hindcast_sink_events_redacted_total") == 1


def test_many_senders_at_once(bench: Bench) -> None:
    def send(sender: int) -> None:
        for n in range(10):
            assert bench.sink.accept("lab-1", event_list([event(sender * 100 + n)]), 1.0) == Accepted(1, 0)

    senders = [threading.Thread(target=send, args=(sender,)) for sender in range(8)]
    for sender in senders:
        sender.start()
    for sender in senders:
        sender.join()
    assert sorted(bench.stored()) == sorted(event(sender * 100 + n) for sender in range(8) for n in range(10))


def test_every_reason_for_a_refusal_has_a_status_that_an_api_server_repeats_or_a_hint() -> None:
    for kind in REFUSALS.values():
        assert kind.hint
        # An API server looks at Retry-After only on 429 and from 500 on.
        assert (kind.retry_after_seconds is not None) == (kind.status >= 500)


def test_names_of_metrics(bench: Bench) -> None:
    bench.sink.accept("lab-1", event_list([event(1)]), 5.0)
    text = bench.sink.metrics.render().decode()
    for name in (
        "hindcast_sink_batches_received_total",
        "hindcast_sink_batches_duplicate_total",
        "hindcast_sink_batches_refused_total",
        "hindcast_sink_events_received_total",
        "hindcast_sink_events_stored_total",
        "hindcast_sink_events_duplicate_total",
        "hindcast_sink_events_quarantined_total",
        "hindcast_sink_events_redacted_total",
        "hindcast_sink_bytes_received_total",
        "hindcast_spool_backlog_bytes",
        "hindcast_sink_in_flight_bytes",
        "hindcast_spool_fsync_seconds_bucket",
        "hindcast_sink_ack_seconds_bucket",
        'hindcast_sink_last_event_timestamp_seconds{cluster="lab-1"} 5.0',
        'hindcast_drain_events_total{result="stored"}',
        "hindcast_drain_passes_failed_total",
        "hindcast_drain_last_stored_timestamp_seconds",
        "hindcast_process_restarts_total",
        "hindcast_process_up",
    ):
        assert name.removesuffix("_total") in text, name
    assert bench.metric("hindcast_sink_ack_seconds_count") == 1


def test_names_in_urls_do_not_make_endless_metrics(bench: Bench) -> None:
    for n in range(300):
        bench.sink.metrics.saw_cluster(f"c-{n}", 1.0)
    assert bench.sink.metrics.render().decode().count("hindcast_sink_last_event_timestamp_seconds{") == 201


def test_a_drain_that_is_behind_costs_no_batch(tmp_path: Path) -> None:
    """What would be refused is lost after five tries; what waits in the spool is safe as long as the disk has room."""
    bench = Bench(tmp_path, backlog_bytes_max=1)
    assert bench.sink.warning() == ""
    with structlog.testing.capture_logs() as logs:
        for number in range(3):
            assert isinstance(bench.sink.accept("lab-1", event_list([event(number)]), 1.0), Accepted)
            bench.sink.look_around()
        assert "bytes wait for the drain, more than 1: batches are taken until the disk is nearly full" in bench.sink.warning()
        assert bench.sink.why_not_ready() is None
        bench.spool.seal()
        for path in sealed_segments(bench.spool.directory):
            path.unlink()
        bench.sink.look_around()
    assert bench.sink.warning() == ""
    assert [entry["event"] for entry in logs] == ["drain_is_behind", "drain_caught_up"]
    bench.spool.close()
