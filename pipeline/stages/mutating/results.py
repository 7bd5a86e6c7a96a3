"""The values of mutation expressions as JSON: operations of a JSON patch, or a configuration to merge.

Follows kubernetes/apiserver pkg/cel/mutation/{jsonpatch,dynamic/objects}.go at 1.36 and patch/json_patch.go, with cel-go's
conversions to protobuf's JSON values.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from ...cel import CelMap, Constructed, Duration, Optional, Timestamp, UInt, Value
from ...cel import Unknown as CelUnknown
from ...cel.evaluation.times import duration_text, timestamp_text
from ...cel.library.gotext import format_float
from ...cel.values import Opaque, runtime_type
from .nil_lists import NilList
from .unconverted import NULL, Unconverted

_JSON_INT_MAX: Final = 2**53 - 1
# Far more than any object that can be stored: etcd takes 1.5 MiB.
_RESULT_BYTES_MAX: Final = 16 * 1024 * 1024
_SMALL_BYTES_MAX: Final = 256 * 1024
_PARTED: Final = (list, dict, Optional)
_NOT_JSON: Final = "JSONPath valueExpression evaluated to a type that could not marshal to JSON: "


class ResultError(Exception):
    """A result that is no patch. `str()` is the API server's text."""


class PanicError(Exception):
    """A result on which the code of the API server panics: the client gets no answer."""


class UnknownResultError(Exception):
    """A part of a result is not known, or what the API server makes of it is not. `str()` says which part."""


def check_size(result: Value) -> None:
    """Refuse a result or an object whose JSON would take the memory of the machine. Raises UnknownResultError.

    Lists and maps may occur in a result many times: `[a, a]` of `[b, b]` and so on has few parts, and doubles with each. So each
    part is measured once.
    """
    if not _is_small(result) and _size(result) > _RESULT_BYTES_MAX:
        raise UnknownResultError(f"its patch has more than {_RESULT_BYTES_MAX >> 20} MiB, for which an API server may lack memory")


def _is_small(result: Value) -> bool:
    """Whether plain JSON is far from too large, as most objects are. It looks at no more than it takes to know."""
    size, waiting = 0, [result]
    while waiting and size < _SMALL_BYTES_MAX:
        part = waiting.pop()
        if part.__class__ is dict:
            size += 2 + sum(map(_scalar_size, part))
            waiting.extend(part.values())
        elif part.__class__ is list:
            size += 2
            waiting.extend(part)
        elif isinstance(part, _PARTED):
            return False
        else:
            size += _scalar_size(part)
    return not waiting


def _size(result: Value) -> int:
    """About how many bytes of JSON a result makes. Parts are measured from the innermost outwards, without recursion."""
    sizes: dict[int, int] = {}
    waiting = [result]
    while waiting:
        part = waiting[-1]
        if id(part) in sizes or not isinstance(part, _PARTED):
            waiting.pop()
            continue
        inner = _parts(part)
        missing = [each for each in inner if isinstance(each, _PARTED) and id(each) not in sizes]
        if missing:
            waiting += missing
            continue
        waiting.pop()
        sizes[id(part)] = 2 + sum(sizes[id(each)] if id(each) in sizes else _scalar_size(each) for each in inner)
    return sizes.get(id(result), 0)


def _parts(value: Value) -> list[Value]:
    if isinstance(value, Optional):
        return [value.value] if value.has_value else []
    return [*value] if isinstance(value, list) else [*value, *value.values()]


def _scalar_size(value: Value) -> int:
    return 3 + len(value) if isinstance(value, str | bytes) else 8


def operations_of(result: Value, is_data: Callable[[Value], bool], takes_lists: bool = False) -> list[dict[str, Any]]:
    """The operations of a JSONPatch expression; see configuration_of. `takes_lists`: a list of objects may be a value.

    Raises ResultError, PanicError and UnknownResultError.
    """
    found = []
    for item in result:
        if item.__class__ is CelUnknown:
            raise UnknownResultError(", ".join(sorted(item.attributes)))
        operation = {"op": item.get("op", ""), "path": item.get("path", "")}
        for name in ("op", "path", "from"):
            if not isinstance(item.get(name, ""), str):
                raise ResultError(f"unexpected type {_go_kind(item[name])} for JSONPatchType '{name}' field")
        if item.get("from"):
            operation["from"] = item["from"]
        if "value" in item:
            if item["value"].__class__ is Constructed:
                _check_names(item["value"])
            operation["value"] = _json(item["value"], is_data, takes_lists)
        found.append(operation)
    return found


def configuration_of(result: Constructed, is_data: Callable[[Value], bool]) -> dict[str, Any]:
    """The value of an ApplyConfiguration expression.

    `is_data` says whether a list or map is a part of the request's data: the server does not convert a literal within a literal.
    Raises ResultError and UnknownResultError.
    """
    _check_names(result)
    return {name: _field(value, is_data) for name, value in result.items()}


def _check_names(value: Constructed) -> None:
    """The names of nested types must repeat the path of fields; lists and maps do not count."""
    errors = list(_misnamed(value, value.type.name))
    if errors:
        raise ResultError("type mismatch: " + "\n".join(errors))


def _misnamed(value: Value, path: str) -> Iterator[str]:
    if value.__class__ is Constructed:
        if value.type.name != path:
            yield (
                f'unexpected type name "{value.type.name}", expected "{path}", which matches field name path from root Object type'
            )
        for name, item in value.items():
            yield from _misnamed(item, f"{path}.{name}")
    elif isinstance(value, list):
        for item in value:
            yield from _misnamed(item, path)
    elif isinstance(value, dict):
        for item in value.values():
            yield from _misnamed(item, path)


def _field(value: Value, is_data: Callable[[Value], bool]) -> Any:
    """A field of an object, as convertField makes it: one level of lists and maps, and objects at any level."""
    if isinstance(value, list):
        return value if is_data(value) else [_native(item, is_data) for item in value] or NilList()
    if isinstance(value, dict) and value.__class__ is not Constructed:
        return value if is_data(value) else {name: _native(item, is_data) for name, item in value.items()}
    if value.__class__ is CelMap:
        key = next(each for each in value if not isinstance(each, str))
        raise ResultError(f'fail to convert field: map key "{_go_value(key)}" is of type {_go_kind(key)}, not string')
    return _native(value, is_data)


def _native(value: Value, is_data: Callable[[Value], bool]) -> Any:
    if value.__class__ is CelUnknown:
        raise UnknownResultError(", ".join(sorted(value.attributes)))
    if value is None:
        return NULL
    if value.__class__ is Constructed:
        return {name: _field(item, is_data) for name, item in value.items()}
    if isinstance(value, list | dict):
        if is_data(value):
            return value
        return Unconverted(_go_value(value), type="[]ref.Val" if isinstance(value, list) else "map[ref.Val]ref.Val")
    if isinstance(value, bool | float | str) or value.__class__ is int:
        return value
    if isinstance(value, UInt):
        return int(value)
    if isinstance(value, Timestamp | Duration | bytes | Opaque | Optional | CelMap):
        return Unconverted(_go_value(value))
    raise UnknownResultError(f"a value of type {runtime_type(value)} in a configuration")


def _json(value: Value, is_data: Callable[[Value], bool], takes_lists: bool) -> Any:
    """A value as protobuf's JSON: integers that a double cannot hold are text."""
    if value.__class__ is CelUnknown:
        raise UnknownResultError(", ".join(sorted(value.attributes)))
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        return int(value) if abs(value) <= _JSON_INT_MAX else str(int(value))
    if isinstance(value, float):
        return _number(value)
    if isinstance(value, list):
        if not takes_lists and any(item.__class__ is Constructed for item in value):
            raise PanicError("a list of objects as the value of a JSON patch")
        return [_json(item, is_data, takes_lists) for item in value]
    if value.__class__ is Constructed:
        return _plain({name: _field(item, is_data) for name, item in value.items()})
    if isinstance(value, dict):
        return {name: _json(item, is_data, takes_lists) for name, item in value.items()}
    return _json_of_other(value, is_data, takes_lists)


def _number(value: float) -> int | float:
    if not math.isfinite(value):
        raise ResultError(f"{_NOT_JSON}json: error calling MarshalJSON for type *structpb.Value: invalid google.protobuf.Value")
    return int(value) if value.is_integer() and abs(value) < 1e21 else value


def _json_of_other(value: Value, is_data: Callable[[Value], bool], takes_lists: bool) -> Any:
    if value.__class__ is CelMap:
        key = next(each for each in value if not isinstance(each, str))
        kind = runtime_type(key).name
        raise ResultError(f"{_NOT_JSON}unsupported type conversion from '{kind}' to string")
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, Timestamp):
        return timestamp_text(value)
    if isinstance(value, Duration):
        return duration_text(value)
    if isinstance(value, Optional):
        return _json(value.value, is_data, takes_lists) if value.has_value else None
    raise UnknownResultError(f"a value of type {runtime_type(value)} in a JSON patch")


def _plain(value: Any) -> Any:
    """The fields of an object in a JSON patch: their numbers become doubles (structpb.NewStruct)."""
    if isinstance(value, Unconverted):
        if not value.type:
            raise UnknownResultError(f"the value {value.text} in an object of a JSON patch")
        raise ResultError(f"{_NOT_JSON}proto: invalid type: {value.type}")
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return _number(float(value)) if isinstance(value, int | float) and not isinstance(value, bool) else value


def _go_kind(value: Value) -> str:
    return {bool: "bool", int: "int64", float: "float64", UInt: "uint64", bytes: "[]uint8"}.get(value.__class__, "<nil>")


def _go_value(value: Value) -> str:
    """A value of CEL as Go prints it with %v: lists of CEL have commas, maps of Go have none."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return format_float(value)
    if isinstance(value, list):
        return f"[{', '.join(map(_go_value, value))}]"
    if isinstance(value, dict):
        return f"map[{' '.join(f'{name}:{_go_value(value[name])}' for name in sorted(value))}]"
    if isinstance(value, Timestamp):
        return timestamp_text(value)
    if isinstance(value, Duration):
        return duration_text(value)
    return "" if isinstance(value, Opaque | Optional | CelMap | bytes) else str(value)


def is_part_of(roots: Sequence[Value]) -> Callable[[Value], bool]:
    """A test whether a list or map is a part of some data, by identity. The data is walked on first use."""
    known: set[int] = set()

    def test(value: Value) -> bool:
        if not known:
            known.add(0)
            waiting = list(roots)
            while waiting:
                part = waiting.pop()
                if isinstance(part, dict | list) and id(part) not in known:
                    known.add(id(part))
                    waiting += part.values() if isinstance(part, dict) else part
        return id(value) in known

    return test
