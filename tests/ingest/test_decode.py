"""One event in, one row or one reason out; bodies byte for byte."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from ingest.decode import decode_events
from ingest.nesting import DEPTH_MAX
from ingest.schema import EVENTS
from tests.conftest import DATA
from tests.yaml_text import load_yaml

CASES = load_yaml((Path(__file__).parents[1] / "cases/ingest/events.yaml").read_text())
NOW = datetime(2026, 11, 21, tzinfo=UTC)


def plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    return [plain(item) for item in value] if isinstance(value, (list, tuple)) else value


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["title"])
def test_case(case: dict[str, Any]) -> None:
    decoded = decode_events([case["line"].encode()], "c", NOW, "test")
    if "rejected" in case:
        assert decoded.table.num_rows == 0
        assert case["rejected"] in decoded.rejected[0].reason
        assert decoded.rejected[0].raw == case["line"].encode()
        return
    assert decoded.rejected == []
    assert decoded.table.schema == EVENTS
    row = decoded.table.to_pylist()[0]
    assert {name: plain(row[name]) for name in case["row"]} == case["row"]
    assert (row["cluster"], row["ingest_source"], row["ingest_ts"]) == ("c", "test", NOW)


def event(**fields: Any) -> bytes:
    head = {"auditID": "a", "level": "Metadata", "stage": "ResponseComplete", "stageTimestamp": "2026-11-21T03:24:16Z"}
    return json.dumps(head | fields).encode()


def test_invalid_utf8_in_a_body_is_replaced_and_flagged() -> None:
    line = event(requestObject="X").replace(b'"X"', b'{"a":"\xff"}')
    row = decode_events([line], "c", NOW, "t").table.to_pylist()[0]
    assert row["request_object"] == '{"a":"\N{REPLACEMENT CHARACTER}"}'
    assert row["flags"] == ["utf8_replaced"]


def test_invalid_utf8_in_a_field_is_replaced_and_flagged() -> None:
    decoded = decode_events([event(), event(verb="X").replace(b"X", b"\xff"), event()], "c", NOW, "t")
    assert decoded.table["verb"].to_pylist() == [None, "\N{REPLACEMENT CHARACTER}", None]
    assert decoded.table["flags"].to_pylist() == [[], ["utf8_replaced"], []]


@pytest.mark.parametrize(
    "body",
    [
        b"[" * DEPTH_MAX + b"]" * DEPTH_MAX,
        b"[" * 5_000 + b"]" * 5_000,
        b'{"a": [' * DEPTH_MAX + b"1" + b"] }" * DEPTH_MAX,
        # Brackets in texts neither open nor close a level.
        b'{"}":' * DEPTH_MAX + b"1" + b',"{":0}' * DEPTH_MAX,
        b'{"\\"}":' * DEPTH_MAX + b"1" + b',"\\"{":0}' * DEPTH_MAX,
    ],
)
def test_deep_nesting_costs_only_its_event(body: bytes) -> None:
    deep = event(requestObject="X").replace(b'"X"', body)
    decoded = decode_events([event(), deep, event()], "c", NOW, "t")
    assert decoded.table.num_rows == 2
    assert [(item.index, item.reason) for item in decoded.rejected] == [(1, "nested too deep to decode")]


@pytest.mark.parametrize(
    "body",
    [
        b"[" * (DEPTH_MAX - 1) + b"]" * (DEPTH_MAX - 1),
        b"[" + b",".join([b"{}"] * 2 * DEPTH_MAX) + b"]",
        b'{"a":"' + b"{" * 2 * DEPTH_MAX + b'"}',
    ],
)
def test_an_event_within_the_limit_is_decoded_under_every_interpreter(body: bytes) -> None:
    decoded = decode_events([event(requestObject="X").replace(b'"X"', body)], "c", NOW, "t")
    assert decoded.rejected == []
    assert decoded.table.column("request_object").to_pylist() == [body.decode()]


def test_an_empty_batch_has_the_schema() -> None:
    assert decode_events([], "c", NOW, "t").table.schema == EVENTS


@pytest.mark.parametrize("lacks", ["", "resource", "apiGroup", "apiVersion", "subresource", "namespace", "name"])
def test_the_uri_completes_a_reference_that_was_trimmed(lacks: str) -> None:
    """By the server's own references, of which a part, or for the empty one all, is taken away."""
    with zstandard.open(DATA / "audit.jsonl.zst", "rt", encoding="utf-8") as lines:
        recorded = [json.loads(line) for _, line in zip(range(1500), lines, strict=False)]
    # The server takes the name and, outside of a namespace, also the namespace of a new object from its body.
    whole = [each for each in recorded if "objectRef" in each and each["verb"] not in ("create", "list", "watch")]
    trimmed = [
        {**each, "objectRef": {name: value for name, value in each["objectRef"].items() if lacks and name != lacks}}
        for each in whole
    ]
    columns = ["api_group", "api_version", "resource", "subresource", "namespace", "name"]
    tables = [decode_events([json.dumps(each).encode() for each in events], "c", NOW, "t").table for events in (whole, trimmed)]
    assert tables[0].num_rows > 500
    assert tables[0].select(columns) == tables[1].select(columns)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
names = st.sampled_from(
    ["auditID", "stage", "level", "user", "objectRef", "requestObject", "annotations", "responseStatus", "sourceIPs"]
)


@given(st.lists(st.dictionaries(names, json_values), max_size=4))
def test_wrong_types_anywhere_never_escape_and_never_cost_a_neighbour(events: list[dict[str, Any]]) -> None:
    lines = [event(), *(event(**fields) for fields in events), event()]
    decoded = decode_events(lines, "c", NOW, "t")
    assert decoded.table.num_rows + len(decoded.rejected) == len(lines)
    assert not {0, len(lines) - 1} & {item.index for item in decoded.rejected}


@given(json_values.filter(lambda value: value is not None))
def test_bodies_are_kept_byte_for_byte(body: Any) -> None:
    text = json.dumps(body, indent=1, ensure_ascii=False).replace("\n", " ")
    try:
        text.encode()
    except UnicodeEncodeError:
        return
    line = event(verb="patch", requestObject="X").replace(b'"X"', text.encode())
    assert decode_events([line], "c", NOW, "t").table["request_object"].to_pylist() == [text]


@given(st.binary(max_size=200))
def test_random_bytes_are_rejected_with_a_reason(data: bytes) -> None:
    decoded = decode_events([data], "c", NOW, "t")
    assert decoded.table.num_rows == 0
    assert decoded.rejected[0].reason
