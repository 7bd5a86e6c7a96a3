"""Hindcast recognizes the form of a file by content, and its events come out byte for byte."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.errors import InputError
from ingest.sources import envelopes, nested
from ingest.sources.envelopes import LineReader, expand, looks_complete, not_an_audit_log
from ingest.sources.forms import form_of
from ingest.sources.nested import nested_values
from tests.ingest.reading import values_of
from tests.yaml_text import load_yaml

CASES = load_yaml((Path(__file__).parents[1] / "cases/ingest/files.yaml").read_text())


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["title"])
def test_layout(case: dict[str, Any]) -> None:
    data = case["text"].encode()
    form = form_of(data)
    assert (form.name if form else None) == case["layout"]
    if case["layout"] is None:
        error = not_an_audit_log("FILE", data)
        assert error.message == f"FILE: found {case['found']}, wanted audit events"
        return
    assert [audit_id(event) for value in values_of(data) for event in expand(value).events] == case["events"]


def audit_id(event: bytes) -> str | None:
    try:
        return str(json.loads(event)["auditID"])
    except ValueError:
        return None


@given(st.lists(st.binary(max_size=12).filter(lambda line: b"\n" not in line), max_size=12), st.data())
def test_lines_do_not_depend_on_where_blocks_end(lines: list[bytes], data: st.DataObject) -> None:
    content = b"\n".join(lines)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(content)), max_size=6)))
    blocks = [content[start:end] for start, end in zip([0, *cuts], [*cuts, len(content)], strict=True)]
    reader = LineReader(blocks)
    found = [line for part in reader for line in part]
    assert [*found, reader.rest] == content.split(b"\n")


def test_a_line_without_an_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(envelopes, "RECORD_BYTES_MAX", 100)
    reader = LineReader(iter([b"a\n", *[b"x" * 30] * 1000]))
    assert [line for part in reader for line in part] == [b"a"]
    assert reader.is_overlong


def test_a_document_that_is_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nested, "DOCUMENT_BYTES_MAX", 100)
    with pytest.raises(InputError, match=r"FILE: a JSON document of more than 0 MiB"):
        list(nested_values("FILE", [b"{\n", *[b'  "a": 1,\n'] * 100], None))


@pytest.mark.parametrize(
    ("line", "complete"),
    [
        (b'{"a":1}', True),
        (b'{"a":1', False),
        (b'{"a":"', False),
        (b"", False),
        (b"12", False),
        (b'2026-11-21T03:24:16.123Z {"a":1}', True),
        (b'2026-11-21T03:24:16.123Z {"a":1', False),
        (b'{"a":' + b"[" * 3000 + b"]" * 3000 + b"}", True),
    ],
)
def test_a_last_line_is_complete_if_it_is_json(line: bytes, complete: bool) -> None:
    assert looks_complete(line) is complete


def test_the_items_of_a_list_are_kept_byte_for_byte() -> None:
    items = [b'{"auditID":"1", "n": 1.0}', b'{"n":1e3,"n":2,"auditID":"2"}']
    body = b'{"kind":"EventList","apiVersion":"audit.k8s.io/v1","metadata":{},"items":[' + b",".join(items) + b"]}"
    assert expand(body).events == items
    assert expand(b"[" + b" , ".join(items) + b"]").events == items
