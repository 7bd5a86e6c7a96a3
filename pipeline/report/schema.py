"""The JSON Schema of the report's data, shipped as `schema/report-v1.json`; `python -m pipeline.report.schema` prints it."""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Mapping
from datetime import date, datetime
from enum import Enum
from importlib.resources import files
from typing import Any, get_args, get_origin

from pipeline.readiness.report import MODEL_VERSION, Report

from .data import API_VERSION, KIND
from .shape import classes, is_record, items_of, members, without_none

_SIMPLE: dict[Any, dict[str, Any]] = {
    str: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    datetime: {"type": "string", "format": "date-time"},
    date: {"type": "string", "format": "date"},
    type(None): {"type": "null"},
    Any: {},
}


def report_schema() -> dict[str, Any]:
    """The schema (2020-12) that the package ships, as data; validate the output of `-o json` against it."""
    text = files("pipeline.report").joinpath("schema", f"report-v{MODEL_VERSION}.json").read_text(encoding="utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema


def schema_of_model() -> dict[str, Any]:
    """The schema that follows from the model's classes. Within one version it may only grow."""
    return schema_of_record(Report, API_VERSION, KIND, f"urn:hindcast:report:v{MODEL_VERSION}")


def schema_of_record(cls: type, api_version: str, kind: str, urn: str) -> dict[str, Any]:
    """The schema of a document with the members of a class of the model."""
    own = _record(cls)
    head = {"apiVersion": {"const": api_version}, "kind": {"const": kind}}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": urn,
        "title": api_version,
        **own,
        "properties": {**head, **own["properties"]},
        "required": [*head, *own["required"]],
        "$defs": {each.__name__: _record(each) for each in sorted(classes(cls), key=lambda each: each.__name__) if each is not cls},
    }


def _record(cls: type) -> dict[str, Any]:
    properties = {name: _type(kind) for name, kind in members(cls)}
    return {
        "type": "object",
        "description": " ".join((inspect.getdoc(cls) or "").split()),
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _type(kind: Any) -> dict[str, Any]:
    kind, optional = without_none(kind)
    if optional:
        return {"anyOf": [_type(kind), {"type": "null"}]}
    if kind in _SIMPLE:
        return _SIMPLE[kind]
    if is_record(kind):
        return {"$ref": f"#/$defs/{kind.__name__}"}
    if isinstance(kind, type) and issubclass(kind, Enum):
        return {"enum": [member.value for member in kind]}
    if (item := items_of(kind)) is not None:
        return {"type": "array", "items": _type(item)}
    arguments = get_args(kind)
    if get_origin(kind) is tuple:
        return {"type": "array", "prefixItems": [_type(part) for part in arguments], "items": False, "minItems": len(arguments)}
    if isinstance(get_origin(kind), type) and issubclass(get_origin(kind), Mapping):
        return {"type": "object", "additionalProperties": _type(arguments[1])}
    raise TypeError(f"the report's schema has no words for {kind}")


if __name__ == "__main__":
    json.dump(schema_of_model(), sys.stdout, indent=2)
    sys.stdout.write("\n")
