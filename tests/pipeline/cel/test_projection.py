"""Decoding: numbers and keys as apimachinery reads them, and everything where the data is not of the expected kinds."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.cel import Environment
from pipeline.cel.projection import decode, decoder, projector
from pipeline.cel.readset import Reads, ReadSet
from pipeline.cel.types import DYN
from pipeline.cel.values import Unknown

READS = (
    Environment((1, 36), {"object": DYN})
    .compile("object.a.b == 1 && object.list.all(x, x.n > 0) && object.whole == object.a.c")
    .reads
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("9223372036854775807", 9223372036854775807),
        ("-9223372036854775808", -9223372036854775808),
        ("9223372036854775808", 9223372036854775808.0),
        ("-9223372036854775809", -9223372036854775809.0),
        ("123456789012345678901234567890", 123456789012345678901234567890.0),
        ("1.0", 1.0),
        ("1e2", 100.0),
        ('{"a": 1, "a": 2}', {"a": 2}),
        (r'"\ud800"', "\ufffd"),
        ("null", None),
    ],
)
def test_values_are_read_as_apimachinery_reads_them(text: str, value: Any) -> None:
    for document, wanted in ((text, value), (f'{{"list": [{text}]}}', {"list": [value]})):
        found = decode(document.encode())
        assert repr(found) == repr(wanted)


@pytest.mark.parametrize("text", ["", "{", "nothing", "[1,]"])
def test_what_is_no_json_is_refused(text: str) -> None:
    for read in (decode, decoder(READS.of("object"))):
        with pytest.raises(ValueError, match=r"."):
            read(text.encode())


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": {"b": 1, "z": 1}, "z": {}}', {"a": {"b": 1}}),
        ('{"list": [{"n": 1, "z": 1}, {"z": 1}]}', {"list": [{"n": 1}, {}]}),
        ('{"a": 1, "list": [1, null, "x"], "z": 1}', {"a": 1, "list": [1, None, "x"]}),
        ('{"whole": {"x": [1]}}', {"whole": {"x": [1]}}),
        ('{"a": null, "list": null}', {"a": None, "list": None}),
        ('{"a": {"b": 9223372036854775808}}', {"a": {"b": 9223372036854775808.0}}),
        ('{"a": {"b": 1, "b": 2}}', {"a": {"b": 2}}),
    ],
)
def test_only_what_is_read_is_decoded(text: str, value: Any) -> None:
    for document in (text, text.encode()):
        assert repr(decoder(READS.of("object"))(document)) == repr(value)


@pytest.mark.parametrize(
    "text", ['{"a": [1], "z": 1}', '{"list": {"k": 1}, "z": 1}', '{"list": [[1]], "z": 1}', '"text"', "[1, 2]"]
)
def test_everything_is_decoded_where_the_kinds_differ(text: str) -> None:
    assert decoder(READS.of("object"))(text.encode()) == decode(text.encode())


_TEXTS = st.sampled_from(["a", "b", "x", ""])
_SCALARS = st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False) | _TEXTS
_VALUES = st.recursive(
    _SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXTS, inner, max_size=3), max_leaves=12
)


@st.composite
def _reads(draw: st.DrawFn, depth: int = 3) -> Reads:
    if not depth:
        return Reads(whole=draw(st.booleans()))
    elements = draw(_reads(depth - 1)) if draw(st.booleans()) else None
    fields = {name: draw(_reads(depth - 1)) for name in draw(st.sets(_TEXTS, max_size=2))}
    return Reads(draw(st.integers(0, 5)) == 0, draw(st.booleans()), elements, fields, draw(st.booleans()))


@given(st.dictionaries(_TEXTS, _reads(2), max_size=2), st.dictionaries(_TEXTS, _VALUES, max_size=3))
def test_the_compiled_projection_is_the_plain_one(roots: dict[str, Reads], activation: dict[str, Any]) -> None:
    reads = ReadSet(Reads(fields=roots))
    wanted = json.dumps(reads.project(activation), sort_keys=True)
    assert json.dumps(projector(reads)(activation), sort_keys=True) == wanted


def test_what_is_no_json_is_projected_too() -> None:
    unknown = Unknown("request.name")
    reads = ReadSet(Reads(fields={"request": Reads(fields={"name": Reads()})}))
    assert projector(reads)({"request": {"name": unknown, "uid": "1"}}) == {"request": {"name": unknown}}
