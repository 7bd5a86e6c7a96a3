"""What a built-in type makes of JSON: decoded strictly after a JSON patch, and written without empty fields.

Follows the strict decoder of apimachinery pkg/runtime/serializer/json with sigs.k8s.io/json, whose errors are Go's.
Custom resources have no Go type: every JSON object decodes as it is.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from typing import Any, Final

from ...history.creation import default_parts
from ...history.group_defaults import default_group
from ...openapi.go_fields import is_left_out, lists_written
from ...request import GroupVersionKind, GroupVersionResource, Json, Object
from ..schema.pruning import set_defaults
from ..schema.writing import ObjectKind
from .nil_lists import NilList
from .results import UnknownResultError
from .shapes import Shape, built_in_shape
from .unconverted import go_print

_INTS: Final = {"int32": 2**31, "int64": 2**63}
_QUANTITY: Final = re.compile(r"[+-]?[0-9.]+([eEinumkKMGTP]*[-+]?[0-9]*)")
_QUANTITY_ERROR: Final = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"


class DecodeError(Exception):
    """JSON that a built-in type refuses: the API server answers 500, also under failurePolicy Ignore."""


def decode_strictly(value: Json, kind: GroupVersionKind, own: Shape) -> Object:
    """The object that JSON of a built-in kind becomes. Raises DecodeError with the server's text, and UnknownResultError."""
    if not isinstance(value, dict):
        raise UnknownResultError("a patched document that is no object")
    group, _, version = str(value.get("apiVersion", "")).rpartition("/")
    found = GroupVersionKind(group, version, str(value.get("kind", "")))
    shape = own if found == kind else built_in_shape(found)
    if shape is None:
        raise UnknownResultError(f"the fields of {found.kind} of {value.get('apiVersion')} are not known here")
    reader = _Strict()
    reader.read(value, shape, "", "", _struct_name(shape) or found.kind)
    if reader.unknown:
        raise DecodeError(f"strict decoding error: {', '.join(f'unknown field {_quoted(each)}' for each in reader.unknown)}")
    if found != kind:
        raise UnknownResultError(f"a patch that makes a {found.kind} of a {kind.kind}")
    result: Object = written(value, shape)
    return result


def defaulted(value: Object, resource: GroupVersionResource, custom: ObjectKind | None) -> Object:
    """The object with the defaults of the API, which the server sets after each mutation. It changes the given object."""
    if custom is not None:
        set_defaults(value, custom.schema)
    else:
        default_parts(value, resource)
        default_group(value, resource)
    return value


def written(value: Json, shape: Shape) -> Any:
    """A value of a Go type as JSON, without what its tags leave out. A nil slice of a field without omitempty is null."""
    map_ = shape.map
    if isinstance(value, dict) and map_ is not None and not shape.is_anything:
        if not map_.fields:
            element = map_.others
            assert element is not None
            return {key: _zero(item, element) for key, item in value.items()}
        found = {}
        for key, item in value.items():
            within = map_.fields.get(key)
            if within is None or item is None or isinstance(item, NilList):
                continue
            result = written(item, within)
            if not (_is_plain(result, within) and is_left_out(result, shape.name, key, key in map_.required)):
                found[key] = result
        return found | {key: None for key in lists_written(shape.name) if key not in found}
    if isinstance(value, list) and shape.list is not None and not shape.is_anything:
        return [written(item, shape.list.element) for item in value]
    return value


def _zero(value: Json, shape: Shape) -> Json:
    """The value of an entry of a Go map: null is the zero of its type."""
    if value is None:
        return {"string": "", "numeric": 0, "boolean": False}.get(shape.scalar)
    return written(value, shape)


def _is_plain(value: Json, shape: Shape) -> bool:
    """Whether a value has a type that may have omitempty; a struct is written even if it is empty."""
    if shape.is_anything:
        return False
    return value != {} or (shape.map is not None and not shape.map.fields)


class _Strict:
    """One strict decoding: it stops at the first value of a wrong type, and collects unknown fields."""

    def __init__(self) -> None:
        self.unknown: list[str] = []

    def read(self, value: Json, shape: Shape, shown: str, go_path: str, struct: str) -> None:
        """Read a value. `shown` is its path with indexes, `go_path` without; `struct` is the Go struct around it."""
        if value is None or shape.is_anything:
            return
        if shape.map is not None and not shape.scalar:
            self._map(value, shape, shown, go_path, struct)
        elif shape.list is not None:
            if not isinstance(value, list):
                raise _wrong(value, go_path, struct, f"[]{_go_name(shape.list.element)}")
            for number, item in enumerate(value):
                self.read(item, shape.list.element, f"{shown}[{number}]", go_path, struct)
        else:
            _scalar(value, shape, go_path, struct)

    def _map(self, value: Json, shape: Shape, shown: str, go_path: str, struct: str) -> None:
        map_ = shape.map
        assert map_ is not None
        if not isinstance(value, dict):
            raise _wrong(value, go_path, struct, _go_name(shape))
        if not map_.fields:
            assert map_.others is not None
            for name in sorted(value):
                self.read(value[name], map_.others, f"{shown}.{name}" if shown else name, go_path, struct)
            return
        own = _struct_name(shape) or struct
        for name in sorted(value):
            path = f"{shown}.{name}" if shown else name
            if name in map_.fields:
                self.read(value[name], map_.fields[name], path, f"{go_path}.{name}" if go_path else name, own)
            else:
                self.unknown.append(path)


def _scalar(value: Json, shape: Shape, go_path: str, struct: str) -> None:
    match shape.go:
        case "string" if not isinstance(value, str):
            raise _wrong(value, go_path, struct, "string")
        case "bool" if not isinstance(value, bool):
            raise _wrong(value, go_path, struct, "bool")
        case "int32" | "int64":
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise _wrong(value, go_path, struct, shape.go)
            if isinstance(value, float) or not -_INTS[shape.go] <= value < _INTS[shape.go]:
                raise _wrong(value, go_path, struct, shape.go, show=True)
        case "float64" if isinstance(value, bool) or not isinstance(value, int | float):
            raise _wrong(value, go_path, struct, "float64")
        case "bytes":
            _base64(value, go_path, struct)
        case "quantity" if not isinstance(value, str | int | float) or not _QUANTITY.fullmatch(str(value)):
            raise DecodeError(_QUANTITY_ERROR)
        case "time" | "int-or-string" if not isinstance(value, str | int):
            raise UnknownResultError(f"the value of {go_path}")
        case "" if shape.scalar == "numeric" and (isinstance(value, bool) or not isinstance(value, int | float)):
            raise UnknownResultError(f"the error for {go_path}, which is not a number")


def _base64(value: Json, go_path: str, struct: str) -> None:
    if not isinstance(value, str):
        raise _wrong(value, go_path, struct, "[]uint8")
    text = value.replace("\n", "").replace("\r", "")
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise DecodeError(f"illegal base64 data at input byte {_bad_byte(text)}") from None


def _bad_byte(text: str) -> int:
    """Where Go's decoder stops: at the first byte that is not of the alphabet, or at the start of an incomplete group."""
    for number, character in enumerate(text):
        if not re.match(r"[A-Za-z0-9+/]", character):
            return number
    return len(text) - len(text) % 4


def _wrong(value: Json, go_path: str, struct: str, wanted: str, show: bool = False) -> DecodeError:
    kinds: Mapping[type, str] = {bool: "bool", str: "string", list: "array", dict: "object"}
    kind = kinds.get(value.__class__, "number")
    shown = f"{kind} {go_print(value)}" if show else kind
    return DecodeError(f"json: cannot unmarshal {shown} into Go struct field {struct}.{go_path} of type {wanted}")


def _struct_name(shape: Shape) -> str:
    return shape.name.rpartition(".")[2]


def _go_name(shape: Shape) -> str:
    """The Go type of a list, map or struct, as far as its shape tells."""
    if shape.name:
        return ".".join(shape.name.split(".")[-2:])
    if shape.list is not None:
        return f"[]{_go_name(shape.list.element)}"
    if shape.map is not None and shape.map.others is not None:
        return f"map[string]{_go_name(shape.map.others)}"
    return {"bytes": "[]uint8", "quantity": "resource.Quantity"}.get(shape.go, shape.go)


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
