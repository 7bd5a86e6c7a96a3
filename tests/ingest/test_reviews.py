"""AdmissionReviews: every form of a recording, and the audit event of the same request, whatever comes first."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import reduce
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.decode import decode_events
from ingest.lake import Lake
from ingest.redaction.redact import Redactor
from ingest.retention import bodies_before, expire_objects
from ingest.reviewed import REVIEWED, is_review, joined
from ingest.sources.files import ingest_files
from ingest.sources.reviews import event_of_review
from ingest.store import EventStore, Lines
from tests.recording import START, Object

Rows = Callable[[Lake], list[dict[str, Any]]]
USERS = ("alice", "bob")


def moment(ms: int) -> str:
    return f"{START + timedelta(milliseconds=ms):%Y-%m-%dT%H:%M:%S.%f}Z"


def uid(number: int) -> str:
    return f"00000000-0000-0000-0000-{number:012}"


def metadata(event: int, at: int = 0, *, user: str = "alice", name: str = "cm", named: Sequence[int] = (), **more: Any) -> Object:
    """An audit event of an update, without bodies, groups and URI, as GKE logs it. `named`: the reviews that it names."""
    return {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "level": "Metadata",
        "auditID": f"event-{event}",
        "stage": "ResponseComplete",
        "verb": "update",
        "user": {"username": user},
        "objectRef": {"resource": "configmaps", "namespace": "shop", "name": name, "apiVersion": "v1"},
        "responseStatus": {"code": 200},
        "requestReceivedTimestamp": moment(at),
        "stageTimestamp": moment(at + 10),
        "annotations": {f"recorder.example.com/review-{uid(number)}": "" for number in named},
        **more,
    }


def review(number: int, at: int = 5, *, user: str = "alice", name: str = "cm", value: str = "new", **more: Any) -> Object:
    """The request of an AdmissionReview of such an update, with the time at which it was recorded, as kube-audit-rest adds it."""
    place = {"group": "", "version": "v1", "resource": "configmaps"}
    kind = {"group": "", "version": "v1", "kind": "ConfigMap"}
    body = {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": name, "namespace": "shop", "resourceVersion": "7"}}
    request = {
        "uid": uid(number),
        "kind": kind,
        "resource": place,
        "requestKind": kind,
        "requestResource": place,
        "name": name,
        "namespace": "shop",
        "operation": "UPDATE",
        "userInfo": {"username": user, "groups": ["devs", "system:authenticated"]},
        "object": body | {"data": {"key": value}},
        "oldObject": body | {"data": {"key": "old"}},
        "dryRun": False,
        "options": {"kind": "UpdateOptions", "apiVersion": "meta.k8s.io/v1", "fieldManager": "kubectl"},
        **more,
    }
    return {
        "kind": "AdmissionReview",
        "apiVersion": "admission.k8s.io/v1",
        "request": request,
        "requestReceivedTimestamp": moment(at),
    }


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text)
    return path


def store(lake: Lake, *units: Sequence[Object]) -> None:
    with lake.writer() as writer:
        stored = EventStore(writer)
        try:
            for number, unit in enumerate(units):
                stored.store([Lines("c", "file", 0.0, list(map(line_of, unit)))], {}, f"q{number}")
        finally:
            stored.close()


def line_of(record: Object) -> bytes:
    if record["kind"] == "Event":
        return json.dumps(record).encode()
    event = event_of_review(json.dumps(record).encode(), record["requestReceivedTimestamp"])
    assert event is not None
    return event


def told(rows: Sequence[dict[str, Any]]) -> set[tuple[Any, ...]]:
    """What rows say: an event with the review that is its evidence, and reviews that are requests of their own."""
    return {(row["audit_id"], tuple(row["user_groups"]), dict(row["notes"]).get("review"), row["response_object"]) for row in rows}


RECORDS = {
    "kube-audit-rest": lambda each: json.dumps(each),
    "a webhook's log": lambda each: json.dumps({"t": 1762000000.5, "review": each, "response": {"uid": "x", "allowed": True}}),
    "answered": lambda each: json.dumps({"time": moment(3), "body": json.dumps(each | {"response": {"allowed": True}})}),
}


@pytest.mark.parametrize("form", RECORDS)
def test_recordings_are_requests_without_an_answer(lake: Lake, rows: Rows, tmp_path: Path, form: str) -> None:
    path = written(tmp_path, "reviews.jsonl", "".join(RECORDS[form](review(n, n)) + "\n" for n in range(3)))
    summary = ingest_files(lake, [path], "c", 0.0)
    assert (summary.counts.stored, summary.counts.quarantined) == (3, 0)
    found = rows(lake)
    assert [row["audit_id"] for row in found] == [uid(number) for number in range(3)]
    assert all(row["code"] is None and row["response_object"] is None and is_review(row) for row in found)
    assert {tuple(row["user_groups"]) for row in found} == {("devs", "system:authenticated")}


@pytest.mark.parametrize("printed", [json.dumps([review(1), review(2)], indent=2), json.dumps({"items": [review(1), review(2)]})])
def test_documents_of_reviews(lake: Lake, rows: Rows, tmp_path: Path, printed: str) -> None:
    assert ingest_files(lake, [written(tmp_path, "reviews.json", printed)], "c", 0.0).counts.stored == 2
    assert len(rows(lake)) == 2


def test_a_review_of_a_mutating_webhook_is_not_what_policies_saw(lake: Lake, tmp_path: Path) -> None:
    patched = {"time": moment(1), "review": review(1), "response": {"allowed": True, "patch": "W10=", "patchType": "JSONPatch"}}
    path = written(tmp_path, "log", json.dumps(patched) + "\n" + json.dumps({"time": moment(2), "review": review(2)}) + "\n")
    assert ingest_files(lake, [path], "c", 0.0).counts.stored == 1


def test_a_review_without_a_time_goes_into_quarantine(lake: Lake, tmp_path: Path) -> None:
    records = [{name: value for name, value in review(1).items() if name != "requestReceivedTimestamp"}, review(2)]
    summary = ingest_files(lake, [written(tmp_path, "log", "".join(json.dumps(each) + "\n" for each in records))], "c", 0.0)
    assert (summary.counts.stored, summary.counts.quarantined) == (1, 1)


@pytest.mark.parametrize("order", [(0, 1), (1, 0), (0, 1, 1), (1, 0, 0, 1)])
def test_event_and_review_are_one_request(lake: Lake, rows: Rows, order: Sequence[int]) -> None:
    units = [[metadata(1, named=[1])], [review(1)]]
    store(lake, *(units[number] for number in order))
    (row,) = rows(lake)
    assert (row["audit_id"], row["verb"], row["code"], row["user_groups"]) == (
        "event-1",
        "update",
        200,
        ["devs", "system:authenticated"],
    )
    assert REVIEWED in row["flags"]
    stored = json.loads(row["response_object"])
    assert stored["data"] == {"key": "new"}
    assert "resourceVersion" not in stored["metadata"], "only the store knows the new version"


def test_what_the_event_has_stays(lake: Lake, rows: Rows) -> None:
    answer = {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "cm", "resourceVersion": "8"}}
    whole = metadata(1, named=[1], level="RequestResponse", responseObject=answer)
    whole["user"] |= {"groups": ["own"]}
    store(lake, [whole, review(1)])
    (row,) = rows(lake)
    assert (row["user_groups"], json.loads(row["response_object"])) == (["own"], answer)


@pytest.mark.parametrize(
    "event",
    [
        metadata(1, responseStatus={"code": 409}, named=[1]),
        metadata(1, named=[1, 2]),  # the second pass counted, and its review is missing
    ],
)
def test_no_object_is_stored_where_that_is_not_sure(lake: Lake, rows: Rows, event: Object) -> None:
    store(lake, [event, review(1)])
    (row,) = rows(lake)
    assert row["response_object"] is None


def test_dry_runs_are_marked(lake: Lake, rows: Rows) -> None:
    store(lake, [metadata(1, named=[1]), review(1, dryRun=True)])
    (row,) = rows(lake)
    assert dict(row["notes"])["dry-run"] == "true"
    assert row["response_object"] is None


def test_a_later_event_parts_what_was_one_choice(lake: Lake, rows: Rows) -> None:
    store(lake, [metadata(1)], [review(1)])
    assert told(rows(lake)) != told(decoded([metadata(1)]))
    store(lake, [metadata(2, 3)])
    assert all(row["user_groups"] == [] for row in rows(lake)), "either event may be the one that was reviewed"


@pytest.mark.parametrize("other", [{"user": "bob"}, {"name": "other"}, {"at": 500}, {"operation": "DELETE"}])
def test_another_request_is_another_request(lake: Lake, rows: Rows, other: dict[str, Any]) -> None:
    store(lake, [metadata(1), review(1, **other)])
    assert [row["audit_id"] for row in rows(lake)] == [uid(1), "event-1"]


def test_a_deletecollection_has_a_review_for_each_object() -> None:
    event = metadata(1, verb="deletecollection", objectRef={"resource": "configmaps", "namespace": "shop", "apiVersion": "v1"})
    gone = [review(n, name=name, operation="DELETE", object=None) for n, name in enumerate(("b", "a"))]
    (row,) = joined(decoded([event, *gone]))
    assert dict(row["notes"])["review"] == f"{uid(0)},{uid(1)}"


def test_credentials_of_reviewed_objects_never_reach_the_lake() -> None:
    secret = {"kind": "Secret", "apiVersion": "v1", "metadata": {"name": "cm"}, "data": {"key": "aHVudGVyMg=="}}
    place = {"group": "", "version": "v1", "resource": "secrets"}
    request = review(1, object=secret, oldObject=secret, resource=place, requestResource=place)
    cleaned = Redactor().apply(line_of(request))
    assert b"aHVudGVyMg" not in cleaned
    assert b"reviewObject" in cleaned, "the note names the missing fields"


def test_retention_takes_the_objects_of_reviews(lake: Lake, rows: Rows) -> None:
    store(lake, [metadata(1, named=[1]), review(1), review(2, name="alone")])
    until = (START + timedelta(days=1)).date()
    with lake.writer() as writer:
        expire_objects(writer, until, 0.0)
    assert bodies_before(lake, until) == []
    assert all(row["extra"] is None and "objects_expired" in row["flags"] for row in rows(lake))


def decoded(records: Sequence[Object]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = decode_events(
        map(line_of, records), "c", datetime(2026, 1, 1, tzinfo=UTC), "file"
    ).table.to_pylist()
    return rows


PLACES = st.tuples(st.integers(0, 120), st.sampled_from(USERS), st.sampled_from(("cm", "other")))
EVENTS = st.lists(st.tuples(PLACES, st.sets(st.integers(0, 3), max_size=2)), max_size=4)
REVIEWS = st.lists(st.tuples(PLACES, st.sampled_from(("new", "newer"))), max_size=4)


@given(EVENTS, REVIEWS, st.randoms(use_true_random=False))
def test_the_order_of_arrival_does_not_matter(events: list[Any], reviews: list[Any], random: Any) -> None:
    claimed: set[int] = set()
    records = []
    for number, ((at, user, name), named) in enumerate(events):
        records.append(metadata(number, at, user=user, name=name, named=sorted(named - claimed)))
        claimed |= named
    records += [review(n, at, user=user, name=name, value=value) for n, ((at, user, name), value) in enumerate(reviews)]
    whole = joined(decoded(records))
    arriving = [*records, *(each for each in records if each["kind"] != "Event")]
    random.shuffle(arriving)
    arrivals = [decoded([each]) for each in arriving]
    assert told(reduce(lambda state, more: joined([*state, *more]), arrivals, [])) == told(whole)
    assert sum(not is_review(row) for row in whole) == len(events), "no event is lost"
    evidence = [uid for row in whole for uid in dict(row["notes"]).get("review", "").split(",") if uid]
    assert len(evidence) == len(set(evidence)), "a review is the evidence of one request"
