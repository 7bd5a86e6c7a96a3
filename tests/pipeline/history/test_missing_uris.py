"""The history of objects in a log without URIs is that of the whole log, or unknown: a dry run asks for it in the URI."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ingest.decode import decode_events
from pipeline.history.event import Event
from pipeline.history.patching import PatchType, patch_type
from pipeline.history.version import object_key
from pipeline.history.world import LogHistory
from pipeline.request import Known, Unknown
from tests.recording import START, Object, recorded
from tests.yaml_text import load_yaml

CASES = load_yaml((Path(__file__).parents[2] / "cases" / "history" / "missing_uris.yaml").read_text())
UNSEEN = "unseen"


def event_of(number: int, case: dict[str, Any]) -> Object:
    metadata = {"name": case["name"], "namespace": "shop"}
    body: Object = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
    answer: Object = {"apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Success"}
    if "answer" in case:
        told = metadata | {"uid": case.get("uid", case["name"]), **({"resourceVersion": case["answer"]} if case["answer"] else {})}
        answer = body | {"metadata": told, "data": {"v": case["v"]}}
    event = recorded(f"id-{number}", START + timedelta(minutes=number), case["verb"], body, answer=answer)
    sent = {"create": answer, "patch": {"data": {"v": case.get("v")}}, "update": answer}.get(case["verb"])
    if case["verb"] == "update":
        sent = answer | {"metadata": answer["metadata"] | {"resourceVersion": case["sent"]}}
    if case["verb"] == "delete" and ("sent" in case or case.get("dry") == "body"):
        sent = {"apiVersion": "v1", "kind": "DeleteOptions", **({"dryRun": ["All"]} if "dry" in case else {})}
    uri = f"/api/v1/namespaces/shop/configmaps/{case['name']}{'?dryRun=All' if case.get('dry') == 'uri' else ''}"
    return event | {"requestObject": sent, "requestURI": uri}


def history_of(events: list[Object]) -> LogHistory:
    rows = decode_events([msgspec.json.encode(event) for event in events], "lab", START, "log").table.to_pylist()
    return LogHistory.from_rows(row | {name: dict(row[name]) for name in ("annotations", "notes")} for row in rows)


def states(events: list[Object]) -> Iterator[dict[str, Any]]:
    """What each object's value is after each request; UNSEEN where there is no record, an Unknown where a record leaves it open."""
    history = history_of(events)
    for number in range(len(events)):
        moment = START + timedelta(minutes=number, seconds=30)
        found: dict[str, Any] = {}
        for name in "abcdef":
            key = object_key("lab", "", "configmaps", "shop", name)
            if history.versions.current(key, moment) is None:
                found[name] = UNSEEN
                continue
            evidence = history.object_at(key, moment)
            value = evidence.value if isinstance(evidence, Known) else None
            found[name] = evidence if isinstance(evidence, Unknown) else value and value["data"]["v"]
        yield found


def without_uris(events: list[Object]) -> list[Object]:
    return [{name: value for name, value in event.items() if name != "requestURI"} for event in events]


def test_an_object_is_as_in_the_whole_log_or_unknown() -> None:
    events = [event_of(*each) for each in enumerate(CASES)]
    trimmed = without_uris(events)
    lost = set()
    for case, whole, found in zip(CASES, states(events), states(trimmed), strict=True):
        for name, value in found.items():
            assert value == whole[name] or value == UNSEEN or isinstance(value, Unknown), (case, name, value, whole[name])
        assert {name: found[name] for name in case.get("known", {})} == case.get("known", {})
        lost |= {value.reason for value in found.values() if isinstance(value, Unknown)}
    assert any("URI" in reason and "dry run" in reason for reason in lost)


@pytest.mark.parametrize("uri", ["", "/api/v1/namespaces/shop/configmaps/a"])
def test_a_whole_object_may_be_applied_where_the_uri_is_not_recorded(uri: str) -> None:
    (row,) = decode_events([msgspec.json.encode(event_of(0, CASES[0]))], "lab", START, "log").table.to_pylist()
    event = Event.from_row(row)
    whole = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"v": "one"}}
    assert patch_type(whole, uri, event.resource, "") is (PatchType.STRATEGIC if uri else PatchType.UNTOLD)
    assert patch_type({"data": {"v": "one"}}, uri, event.resource, "") is PatchType.STRATEGIC
