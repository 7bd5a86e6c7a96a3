"""Reviews add what the log lacks. They never overrule it, and a name alone attaches none."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from ingest.lake import Lake
from ingest.reviewed import CONTRADICTS
from tests.recording import Object

from .test_reviews import Rows, metadata, moment, review, store, uid

BODY = review(1)["request"]["object"]


def whole(event: int = 1, value: str = "new", **more: Any) -> Object:
    """An event that shows the object that was stored."""
    body = copy.deepcopy(BODY) | {"data": {"key": value}}
    body["metadata"] |= {"resourceVersion": "8", "uid": "u", "managedFields": [{}], "generation": 2}
    return metadata(event, **{"level": "RequestResponse", "requestURI": "/api/v1/namespaces/shop/configmaps/cm", **more}) | {
        "responseObject": body
    }


def unclear(row: dict[str, Any]) -> str:
    return str((row["review"] or "").partition('"unclear":"')[2].partition('"')[0])


@pytest.mark.parametrize("named", [[], [1]])
@pytest.mark.parametrize("first", ["event", "review"])
def test_a_review_that_shows_another_object_is_dropped(named: list[int], first: str, lake: Lake, rows: Rows) -> None:
    event, other = whole(named=named, value="evil"), review(1, value="good")
    store(lake, *([event], [other]) if first == "event" else ([other], [event]))
    (row,) = rows(lake)
    assert unclear(row) == CONTRADICTS
    assert '"evil"' in row["response_object"]
    assert (row["user_groups"], dict(row["notes"])) == ([], {})
    lake.close()


def test_one_that_agrees_adds_what_the_log_lacks(lake: Lake, rows: Rows) -> None:
    store(lake, [whole(named=[1]), review(1)])
    (row,) = rows(lake)
    assert unclear(row) == ""
    assert row["user_groups"] == ["devs", "system:authenticated"]
    assert dict(row["notes"])["review"] == uid(1)
    lake.close()


@pytest.mark.parametrize("changes", [{"user": "mallory"}, {"name": "other"}, {"at": 600_000}, {"verb": "create"}])
def test_a_named_review_has_to_fit(changes: dict[str, Any], lake: Lake, rows: Rows) -> None:
    store(lake, [metadata(1, named=[1], **changes), review(1)])
    assert [row["review"] for row in rows(lake) if row["audit_id"] == "event-1"] == [None]
    lake.close()


def test_a_uuid_as_a_value_names_no_review_and_keeps_none_away(lake: Lake, rows: Rows) -> None:
    stranger = metadata(2, user="mallory", name="q") | {"annotations": {"policy/owner": uid(1)}}
    genuine = metadata(1) | {"annotations": {"policy/owner": uid(9)}}
    store(lake, [stranger, genuine, review(1)])
    told = {row["audit_id"]: dict(row["notes"]).get("review") for row in rows(lake)}
    assert told == {"event-2": None, "event-1": uid(1)}
    lake.close()


def test_a_review_makes_no_recorded_write_a_dry_run(lake: Lake, rows: Rows) -> None:
    event = whole()
    del event["requestURI"]
    store(lake, [event, review(1, dryRun=True)])
    (row,) = rows(lake)
    assert "dry-run" not in dict(row["notes"])
    assert unclear(row) == CONTRADICTS
    assert moment(0) < moment(1)
    lake.close()
