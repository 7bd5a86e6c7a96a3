"""POST bodies that no API server sends: batches with one item spoiled in its structure, and bytes that are anything at all."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import zstandard

POST = Path(__file__).parents[1] / "cases" / "posts" / "000005.json.zst"
VALIDATION_FAILURE = "validation.policy.admission.k8s.io/validation_failure"

# Values as they stand in JSON text, because some of them are not values of Python's.
_SCALARS = [
    b"null", b"true", b"0", b"-1", b"-0", b"1e400", b"-1e-400", b"1" * 30, b"9223372036854775808", b"18446744073709551616",
    b"1" * 5000, b"0." + b"1" * 5000, b"70000", b"1.5", b"1e3", b'""', b'" "', b'"\\u0000"', b'"\\ud800"', b'"\\udc00\\ud800"',
    b'"\xff\xfe"', b'"\xed\xa0\x80"', b'"\xf4\x90\x80\x80"', b'"\xe2\x80\xa8"', b'"' + b"x" * 100_000 + b'"', b'"\\\\"', b'"-1"',
    b'"0001-01-01T00:00:00Z"', b'"9999-12-31T23:59:59.999999999Z"', b'"10000-01-01T00:00:00Z"', b'"2026-11-21T24:00:60Z"',
    b'"2026-11-21T03:24:15.123456789+23:59"', b'"2026-11-21T03:24:15"', b'"2026-11-21"', b'"../../etc/passwd"',
    b"\"'; DROP TABLE files; --\"", b'"$(reboot)"',
]  # fmt: skip
_CONTAINERS = [b"[]", b"{}", b"[null]", b"[[]]", b'[{"a":[]}]', b'{"":""}', b'{"a":1,"a":2}', b'[1,"a",null]', b'{"__proto__":{}}']
_DEPTHS = (10, 200, 900, 1100, 5_000, 9_000, 20_000)
# No JSON, but their brackets hold, so that what stands next to them can be told apart.
_MALFORMED = [
    b"NaN",
    b"Infinity",
    b"nul",
    b"'x'",
    b"01",
    b"+1",
    b".5",
    b"1.",
    b"\x00",
    b"\xff",
    b"a",
    b"// x",
    b"{1:2}",
    b"[1,,2]",
    b'{"a"}',
]
_INSIDE = ("user", "objectRef", "responseStatus", "annotations", "requestObject", "responseObject")


@dataclass(frozen=True, slots=True)
class Body:
    """`kept` are the audit IDs that must be in the lake if the body is acknowledged; None where nothing is promised of it."""

    data: bytes
    kept: tuple[str, ...] | None


@cache
def recorded() -> list[dict[str, Any]]:
    """The items of a recorded batch."""
    items: list[dict[str, Any]] = json.loads(zstandard.ZstdDecompressor().decompress(POST.read_bytes()))["items"]
    return items


def spoiled_body(chance: random.Random, number: int) -> Body:
    """A batch of two good events with a spoiled one between them; both must be kept. `number` makes their IDs."""
    names = (f"{number}-before", f"{number}-after")
    before, after = (json.dumps({**chance.choice(recorded()), "auditID": name}).encode() for name in names)
    return Body(_list_of([before, spoiled_item(chance, number), after]), names)


def spoiled_item(chance: random.Random, number: int) -> bytes:
    """One item with something wrong in it, of which the brackets hold."""
    item = dict(chance.choice(recorded()), auditID=f"{number}-odd")
    fields = {name: json.dumps(value).encode() for name, value in item.items()}
    spoil = chance.choice((_wrong_value, _wrong_inside, _repeated, _missing, _unknown, _deep, _annotated, _other))
    return spoil(chance, fields)


def anything(chance: random.Random, number: int) -> Body:
    """Bytes that may be a batch or not: nothing is promised but that they harm nobody."""
    good = bytearray(_list_of([json.dumps({**chance.choice(recorded()), "auditID": f"{number}-{n}"}).encode() for n in range(2)]))
    kind = chance.randrange(5)
    if kind == 0:
        return Body(chance.randbytes(chance.randrange(2000)), None)
    if kind == 1:
        return Body(bytes(good[: chance.randrange(len(good))]), None)
    if kind == 2:
        text = "".join(chance.choices('{}[]",:\\ \n1aitemskind', k=chance.randrange(400)))
        return Body(text.encode(), None)
    if kind == 3:
        return Body(
            chance.choice((b"[", b'{"items":', b'{"items":[', b'{"kind":"EventList","items":[{"a":'))
            * chance.choice((10, 2000, 50_000)),
            None,
        )
    for _ in range(chance.randrange(1, 6)):
        place = chance.randrange(len(good))
        good[place : place + 1] = chance.choice((b"", b"\xff", b'"', b"{", b"}", b"]", b"\\", b"\n", good[place : place + 1] * 2))
    return Body(bytes(good), None)


def _list_of(items: list[bytes]) -> bytes:
    return b'{"kind":"EventList","apiVersion":"audit.k8s.io/v1","metadata":{},"items":[%s]}\n' % b",".join(items)


def _object(fields: dict[str, bytes], more: bytes = b"") -> bytes:
    return b"{" + b",".join(b'"%s":%s' % (name.encode(), value) for name, value in fields.items()) + more + b"}"


def _value(chance: random.Random) -> bytes:
    return chance.choice(chance.choice((_SCALARS, _CONTAINERS, _MALFORMED)))


def _wrong_value(chance: random.Random, fields: dict[str, bytes]) -> bytes:
    for _ in range(chance.randrange(1, 4)):
        fields[chance.choice(list(fields))] = _value(chance)
    return _object(fields)


def _wrong_inside(chance: random.Random, fields: dict[str, bytes]) -> bytes:
    name = chance.choice(_INSIDE)
    inner = json.loads(fields.get(name, b"{}"))
    inside = {key: json.dumps(value).encode() for key, value in inner.items()} if isinstance(inner, dict) else {}
    inside[chance.choice([*inside, "extra", "groups", "code", "name", "metadata"])] = _value(chance)
    fields[name] = _object(inside)
    return _object(fields)


def _repeated(chance: random.Random, fields: dict[str, bytes]) -> bytes:
    name = chance.choice(list(fields))
    return _object(fields, b',"%s":%s' % (name.encode(), chance.choice((fields[name], _value(chance)))))


def _missing(chance: random.Random, fields: dict[str, bytes]) -> bytes:
    for name in chance.sample(list(fields), chance.randrange(1, len(fields))):
        del fields[name]
    return _object(fields)


def _unknown(chance: random.Random, fields: dict[str, bytes]) -> bytes:
    fields[chance.choice(("kind", "AUDITID", "audit_id", "requestobject", "", "\\u0061uditID", "x" * 70_000))] = _value(chance)
    return _object(fields)


def _deep(chance: random.Random, fields: dict[str, bytes]) -> bytes:
    depth = chance.choice(_DEPTHS)
    opening, closing = chance.choice(((b"[", b"]"), (b'{"a":', b"}"), (b'[{"a":', b"}]")))
    fields[chance.choice((*_INSIDE, "auditID", "other"))] = opening * depth + b"1" + closing * depth
    return _object(fields)


def _annotated(chance: random.Random, fields: dict[str, bytes]) -> bytes:
    failures: Callable[[bytes], str] = lambda value: '[{"policy":%s,"expressionIndex":%s}]' % ((value.decode("latin-1"),) * 2)  # noqa: E731
    text = chance.choice((failures(_value(chance)), "[" * chance.choice(_DEPTHS), "", "null", "[null]", "{}", '[{"message":1}]'))
    fields["annotations"] = json.dumps({VALIDATION_FAILURE: text, "hindcast/redacted": text}).encode()
    return _object(fields)


def _other(chance: random.Random, fields: dict[str, bytes]) -> bytes:
    return _value(chance)
