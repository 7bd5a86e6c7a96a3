"""Decodes only the fields that a read set names: msgspec skips the rest of the JSON without making objects of it.

The result consists of plain dicts and lists. Where the data is not of the kinds that the read set suggests, the whole document is
decoded. Numbers are as in apimachinery: integers that int64 cannot hold become doubles. For a repeated key, the last value counts.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cache
from typing import Annotated, Any, TypedDict

import msgspec

from .readset import Reads, ReadSet
from .values import INT_MAX, INT_MIN, Value

_Int64 = Annotated[int, msgspec.Meta(ge=INT_MIN, le=INT_MAX)]
_SCALAR: Any = None | bool | _Int64 | float | str
# A projected decoder decodes values that are read as a whole down to this depth; deeper ones make it decode everything. The type of
# such values doubles in size with each level.
_DEPTH_MAX = 3


# A map whose content is not read.
class _Opaque(TypedDict):
    pass


# Every digit becomes 0, every other character a space: a number too long for int64 is then easy to find.
_DIGITS = bytes(0x30 if 0x30 <= octet <= 0x39 else 0x20 for octet in range(256))
_LONG_NUMBER = b"0" * len(str(INT_MAX))
_decode_any = msgspec.json.Decoder().decode
# A decoder of many fields takes longer to make than to decode hundreds of documents, and many classes of requests share one.
_decoders: dict[tuple[object, ...], Callable[[str | bytes], Any]] = {}
_DECODERS_MAX = 256


@cache
def _json(depth: int) -> Any:
    """The type of any JSON value down to a depth, without integers that int64 cannot hold."""
    if depth == 0:
        return _SCALAR
    inner = _json(depth - 1)
    return _SCALAR | list[inner] | dict[str, inner]  # type: ignore[valid-type]


def decode(document: str | bytes) -> Value:
    """A whole JSON document. Raises ValueError if the text is not JSON."""
    data = document.encode("utf-8", "surrogatepass") if isinstance(document, str) else document
    try:
        value = _decode_any(data)
    except msgspec.DecodeError:
        # Half of a surrogate pair: Go reads it as U+FFFD, msgspec rejects it.
        value = _without_surrogates(json.loads(data))
    return _with_doubles(value) if _LONG_NUMBER in data.translate(_DIGITS) else value


def decoder(reads: Reads) -> Callable[[str | bytes], Value]:
    """A decoder for documents, limited to these reads. It raises ValueError if a document is not JSON."""
    projected = _decoders.get(reads.shape)
    if projected is None:
        if len(_decoders) > _DECODERS_MAX:
            _decoders.clear()
        projected = _decoders[reads.shape] = msgspec.json.Decoder(_type_of(reads)).decode

    def decode_projected(document: str | bytes) -> Value:
        try:
            return projected(document)
        except msgspec.DecodeError:
            return decode(document)

    return decode_projected


def projector(reads: ReadSet) -> Callable[[Mapping[str, Value]], Mapping[str, Value]]:
    """The result of `reads.project`, from compiled code for JSON of the kinds that the read set suggests."""
    roots = {name: _part_of(node) for name, node in reads.root.fields.items()}
    shape: Any = TypedDict("Projected", roots, total=False)  # type: ignore[misc]

    def project(activation: Mapping[str, Value]) -> Mapping[str, Value]:
        try:
            projected: Mapping[str, Value] = msgspec.convert(activation, shape)
        except msgspec.ValidationError:
            projected = reads.project(activation)
        return projected

    return project


def _part_of(reads: Reads) -> Any:
    """The type of the read part of a value. It has no list if the reads only need to know that the value is a list."""
    if reads.whole:
        return Any
    fields = {name: _part_of(node) for name, node in reads.fields.items()}
    is_shaped = reads.elements is None and not reads.keys
    maps = TypedDict("Part", fields, total=False) if is_shaped else dict[str, Any]  # type: ignore[operator]
    if reads.members:
        return None | bool | int | float | str | maps | list[Any]
    if reads.elements is None:
        return None | bool | int | float | str | maps
    return None | bool | int | float | str | maps | list[_part_of(reads.elements)]  # type: ignore[misc]


def _type_of(reads: Reads) -> Any:
    """The type that decodes exactly the read parts."""
    if reads.keys and not (reads.whole or reads.members or reads.elements or reads.fields):
        return _SCALAR | dict[str, _SCALAR | _Opaque]
    if reads.whole or (reads.elements is not None and (reads.fields or reads.members)) or not (reads.elements or reads.fields):
        return _json(_DEPTH_MAX)
    if reads.elements is not None:
        return _SCALAR | list[_type_of(reads.elements)]  # type: ignore[misc]
    shape = {name: _type_of(node) for name, node in reads.fields.items()}
    projected = _SCALAR | TypedDict("Projected", shape, total=False)  # type: ignore[operator]
    return projected | list[_json(_DEPTH_MAX - 1)] if reads.members else projected  # type: ignore[misc]


def _with_doubles(value: Value) -> Value:
    """The value with integers that int64 cannot hold as doubles, changed in place."""
    if value.__class__ is int:
        return value if INT_MIN <= value <= INT_MAX else float(value)
    pending = [value]
    while pending:
        holder = pending.pop()
        if holder.__class__ is dict:
            items: Any = holder.items()
        elif holder.__class__ is list:
            items = enumerate(holder)
        else:
            continue
        for key, each in items:
            kind = each.__class__
            if kind is dict or kind is list:
                pending.append(each)
            elif kind is int and not INT_MIN <= each <= INT_MAX:
                holder[key] = float(each)
    return value


def _without_surrogates(value: Value) -> Value:
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list):
        return [_without_surrogates(each) for each in value]
    if isinstance(value, dict):
        return {_without_surrogates(key): _without_surrogates(each) for key, each in value.items()}
    return value
