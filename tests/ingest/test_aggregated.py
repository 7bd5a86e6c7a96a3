"""A request to an aggregated API is one event of the lake: whatever comes first, in one ingest or in two."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from ingest.aggregated import AGGREGATED, BUILT_IN_GROUPS, SHARED_MAX
from ingest.lake import Lake
from ingest.maintain import compact
from ingest.store import Counts, EventStore, Lines
from queries.built_in_kinds import BUILT_IN
from tests.aggregated_api import CLIENT, SERVER, event, inner, outer
from tests.recording import Object

Rows = Callable[[Lake], list[dict[str, Any]]]
RECEIVED = {"stage": "RequestReceived", "responseStatus": None}


def store(lake: Lake, *units: list[Object], cluster: str = "c") -> Counts:
    total = Counts()
    with lake.writer() as writer:
        stored = EventStore(writer)
        try:
            for number, unit in enumerate(units):
                total.add(
                    stored.store([Lines(cluster, "file", 0.0, [json.dumps(each).encode() for each in unit])], {}, f"q{number}")
                )
        finally:
            stored.close()
    return total


def received(of: Object) -> Object:
    """The event of the earlier stage of a request."""
    return {
        **{
            key: value
            for key, value in of.items()
            if key not in ("responseStatus", "requestObject", "responseObject", "annotations")
        },
        "stage": "RequestReceived",
        "stageTimestamp": of["requestReceivedTimestamp"],
    }


@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("outer_first", [False, True])
def test_five_pairs_are_five_events_with_bodies(lake: Lake, rows: Rows, apart: bool, outer_first: bool) -> None:
    logs = [[outer(number) for number in range(5)], [inner(number) for number in range(5)]]
    units = logs if outer_first else logs[::-1]
    counts = store(lake, *(units if apart else [units[0] + units[1]]))
    found = rows(lake)
    assert [row["audit_id"] for row in found] == [f"id-{number}" for number in range(5)]
    assert all(row["request_object"] and row["source_ips"] == [CLIENT, SERVER] for row in found)
    assert counts.read == 10 == counts.stored + counts.duplicate
    assert counts.conflicting == 0


def test_a_second_ingest_of_either_log_adds_nothing(lake: Lake, rows: Rows) -> None:
    impersonated = {"user": {"username": "admin"}, "impersonatedUser": {"username": "alice", "groups": ["system:authenticated"]}}
    logs = [[outer(0, **impersonated), outer(1)], [inner(0), inner(1)]]
    store(lake, *logs)
    before = rows(lake)
    counts = store(lake, *logs, logs[0], logs[1])
    assert rows(lake) == before
    assert (counts.stored, counts.duplicate, counts.conflicting) == (0, 8, 0)


@pytest.mark.parametrize("order", list(permutations(range(4))))
def test_the_stages_of_the_outer_event_go_with_it(lake: Lake, rows: Rows, order: tuple[int, ...]) -> None:
    """Whatever the order, the answered events are one. A stage that arrives after its own answer was folded may stay open."""
    events = [received(outer(0)), outer(0), received(inner(0)), inner(0)]
    store(lake, *([events[number]] for number in order))
    found = rows(lake)
    assert [row["source_ips"] for row in found if row["stage"] == "ResponseComplete"] == [[CLIENT, SERVER]]
    if order.index(0) < max(order.index(1), order.index(3)):
        assert all(row["source_ips"] == [CLIENT, SERVER] for row in found)


def test_an_earlier_stage_that_only_kube_apiserver_logs_is_no_request(lake: Lake, rows: Rows) -> None:
    store(lake, [received(outer(0)), outer(0)], [inner(0)])
    assert [(row["stage"], row["source_ips"]) for row in rows(lake)] == [("ResponseComplete", [CLIENT, SERVER])]


@pytest.mark.parametrize("outer_first", [False, True])
def test_the_impersonation_that_only_kube_apiserver_saw_is_kept(lake: Lake, rows: Rows, outer_first: bool) -> None:
    bob = {"username": "bob", "groups": ["dev"]}
    pair = [
        [outer(0, user={"username": "admin", "groups": ["admins"]}, impersonatedUser=bob)],
        [inner(0, user=bob, annotations={"mutation.webhook.admission.k8s.io/round_0_index_0": "{}"})],
    ]
    store(lake, *(pair if outer_first else pair[::-1]))
    (row,) = rows(lake)
    assert (row["user_name"], row["user_groups"], json.loads(row["impersonated_user"])) == ("admin", ["admins"], bob)
    assert {key for key, _ in row["annotations"]} == {
        "authorization.k8s.io/decision",
        "authorization.k8s.io/reason",
        "mutation.webhook.admission.k8s.io/round_0_index_0",
    }
    assert row["flags"] == [AGGREGATED]
    assert row["request_object"]


@pytest.mark.parametrize(("milliseconds", "requests"), [(-4_000, 1), (150, 1), (4_000, 1), (6_000, 2)])
@pytest.mark.parametrize("apart", [False, True])
def test_where_the_addresses_prove_a_proxy_clocks_may_differ_by_seconds(
    lake: Lake, rows: Rows, apart: bool, milliseconds: int, requests: int
) -> None:
    first, second = outer(1), event(1, 5 + milliseconds, 15 + milliseconds, [CLIENT, SERVER], True)
    store(lake, *([[first], [second]] if apart else [[first, second]]))
    assert len(rows(lake)) == requests


def test_without_another_address_the_body_tells_the_events_apart(lake: Lake, rows: Rows) -> None:
    """SourceIPs has no address twice in a row: the client may run on the node of kube-apiserver."""
    store(lake, [outer(0)], [inner(0, sourceIPs=[CLIENT])])
    (row,) = rows(lake)
    assert row["request_object"]


def test_discovery_of_an_aggregated_api_is_one_event(lake: Lake, rows: Rows) -> None:
    uri = {"requestURI": "/apis/wardle.example.com/v1alpha1?timeout=32s", "verb": "get", "objectRef": None, "level": "Metadata"}
    bare = {key: value for key, value in inner(0, **uri).items() if key not in ("requestObject", "responseObject")}
    store(lake, [outer(0, **uri)], [bare])
    (row,) = rows(lake)
    assert row["source_ips"] == [CLIENT, SERVER]


def test_the_outer_event_of_a_create_has_no_name(lake: Lake, rows: Rows) -> None:
    nameless = {key: value for key, value in outer(0)["objectRef"].items() if key != "name"}
    store(lake, [outer(0, objectRef=nameless)], [inner(0)])
    (row,) = rows(lake)
    assert row["name"] == "fl-0"


TIMES = {name: inner(0)[name] for name in ("requestReceivedTimestamp", "stageTimestamp")}
BUILT_IN_POD = {"requestURI": "/apis/apps/v1/x", "objectRef": {"resource": "deployments", "apiGroup": "apps", "apiVersion": "v1"}}
TWO_REQUESTS = {
    "both have bodies": (inner(0, sourceIPs=[CLIENT]), inner(0, stageTimestamp="2026-01-01T00:00:00.017000Z")),
    "no event has a body, and the addresses are equal": (outer(0), outer(0, stageTimestamp="2026-01-01T00:00:00.017000Z")),
    "another verb": (outer(0), inner(0, verb="update")),
    "another URI": (outer(0), inner(0, requestURI="/apis/wardle.example.com/v1alpha1/namespaces/shop/flunders?dryRun=All")),
    "no URI, and another object": (outer(0, requestURI=None), inner(1, requestURI=None, auditID="id-0", **TIMES)),
    "another answer": (outer(0), inner(0, responseStatus={"code": 403})),
    "another user": (outer(0), inner(0, user={"username": "bob"})),
    "another impersonated user": (outer(0, impersonatedUser={"username": "bob"}), inner(0)),
    "another address": (outer(0), inner(0, sourceIPs=["10.9.9.9", SERVER])),
    "two more addresses": (outer(0), inner(0, sourceIPs=[CLIENT, "10.9.9.9", SERVER])),
    "another time": (
        outer(0),
        inner(0, requestReceivedTimestamp="2026-01-01T00:00:07.005Z", stageTimestamp="2026-01-01T00:00:07.015Z"),
    ),
    "another auditID": (outer(0), inner(0, auditID="id-other")),
    "a group that kube-apiserver serves": (outer(0, **BUILT_IN_POD), inner(0, **BUILT_IN_POD)),
    "open: no server has answered": (received(outer(0)), received(inner(0))),
}


@pytest.mark.parametrize("name", TWO_REQUESTS)
@pytest.mark.parametrize("apart", [False, True])
def test_a_client_that_uses_an_audit_id_again_made_two_requests(lake: Lake, rows: Rows, name: str, apart: bool) -> None:
    first, second = TWO_REQUESTS[name]
    store(lake, *([[first], [second]] if apart else [[first, second]]))
    assert len(rows(lake)) == 2


@pytest.mark.parametrize("lone", [outer(0), inner(0)])
def test_an_event_of_one_server_alone_stays(lake: Lake, rows: Rows, lone: Object) -> None:
    store(lake, [lone])
    assert [row["flags"] for row in rows(lake)] == [[]]


def test_events_of_two_clusters_are_of_two_requests(lake: Lake, rows: Rows) -> None:
    store(lake, [outer(0)], cluster="a")
    store(lake, [inner(0)], cluster="b")
    assert len(rows(lake)) == 2


def test_two_pairs_under_one_audit_id_are_two_requests(lake: Lake, rows: Rows) -> None:
    again = {"auditID": "id-0", "requestURI": inner(0)["requestURI"], "objectRef": inner(0)["objectRef"]}
    store(lake, [outer(0), outer(1, **again)], [inner(1, **again), inner(0)])
    assert [row["source_ips"] for row in rows(lake)] == [[CLIENT, SERVER]] * 2


def test_an_audit_id_of_very_many_requests_identifies_nothing(lake: Lake, rows: Rows) -> None:
    many = [each(number, auditID="id-0") for number in range(SHARED_MAX) for each in (outer, inner)]
    store(lake, many, [outer(99, auditID="id-0")])
    assert len(rows(lake)) == len(many) + 1


def test_other_events_of_a_rewritten_file_stay(lake: Lake, rows: Rows) -> None:
    others = [inner(number, auditID=f"other-{number}") for number in range(3)]
    store(lake, [*others, outer(7)], [inner(7)])
    assert [row["audit_id"] for row in rows(lake)] == ["id-7", "other-0", "other-1", "other-2"]
    assert [file.rows for file in lake.manifest.files("events")] == [3, 1]


def test_a_damaged_file_stays_as_it_is(lake: Lake) -> None:
    store(lake, [outer(0)])
    (file,) = lake.files()
    Path(file).chmod(0o644)
    content = bytearray(Path(file).read_bytes())
    content[8] ^= 1
    Path(file).write_bytes(content)
    store(lake, [inner(0)])
    assert bytes(content) == Path(file).read_bytes()
    assert len(lake.files()) == 2


def test_compaction_folds_pairs_that_an_earlier_version_stored(lake: Lake, rows: Rows, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ingest.folding.candidates", lambda table: [])  # earlier versions looked for none
    store(lake, [outer(0), outer(1)], [inner(1), inner(0)])
    assert len(rows(lake)) == 4
    with lake.writer() as writer:
        assert compact(writer, 2e9).duplicate == 2
    assert [row["source_ips"] for row in rows(lake)] == [[CLIENT, SERVER]] * 2


def test_the_list_of_built_in_groups_has_every_group_of_the_kinds() -> None:
    """Only metrics.k8s.io of those is served by an extension server."""
    assert {row.group for row in BUILT_IN} - set(BUILT_IN_GROUPS) == {"metrics.k8s.io"}
