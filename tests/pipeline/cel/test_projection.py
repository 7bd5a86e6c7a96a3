"""Decoding: numbers and keys as apimachinery reads them, and everything where the data is not of the expected kinds."""

from __future__ import annotations

from typing import Any

import pytest

from pipeline.cel import Environment
from pipeline.cel.projection import decode, decoder
from pipeline.cel.types import DYN

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
