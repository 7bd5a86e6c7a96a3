"""The page of the HTTP API: every route, as the application describes it in OpenAPI."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from api.ask.query_app import create_query_app
from api.settings import Settings

from .text import cell, join, table

_METHODS = ("get", "head", "post", "put", "patch", "delete")


def description() -> dict[str, Any]:
    """What the application says of itself, in OpenAPI."""
    with tempfile.TemporaryDirectory() as folder:
        found: dict[str, Any] = create_query_app(Settings(lake=Path(folder) / "lake")).openapi()
    return found


def page() -> str:
    """The page, as Markdown."""
    described = description()
    parts = ["# HTTP API", described["info"]["description"], _ABOUT]
    for path, methods in described["paths"].items():
        for method in _METHODS:
            if method in methods:
                parts += _route(path, method, methods[method], described)
    return join(parts)


def _route(path: str, method: str, route: Mapping[str, Any], described: Mapping[str, Any]) -> Iterator[str]:
    yield f"## {method.upper()} {path}"
    yield str(route.get("description") or route.get("summary", ""))
    parameters = [_parameter(each, described) for each in route.get("parameters", ())]
    yield table(["parameter", "in", "type", "meaning"], parameters)
    body = route.get("requestBody", {}).get("content", {})
    if body:
        yield "The body is " + ", or ".join(f"`{kind}`" for kind in body) + "."
        yield from _example(body)
    answers = route["responses"]
    rows = [
        (status, answers[status]["description"], ", ".join(f"`{kind}`" for kind in answers[status].get("content", ())))
        for status in answers
    ]
    yield table(["status", "meaning", "content"], rows)
    yield from _example(answers.get("200", answers.get("202", {})).get("content", {}))


def _parameter(parameter: Mapping[str, Any], described: Mapping[str, Any]) -> tuple[str, str, str, str]:
    schema = parameter.get("schema", {})
    meaning = parameter.get("description", "")
    if "default" in schema and schema["default"] is not None:
        meaning = f"{meaning} Default: `{schema['default']}`.".strip()
    return f"`{parameter['name']}`", parameter["in"], _type(schema, described), meaning


def _type(schema: Mapping[str, Any], described: Mapping[str, Any]) -> str:
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return _type(described["components"]["schemas"][name], described)
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    if "anyOf" in schema:
        return ", ".join(dict.fromkeys(_type(each, described) for each in schema["anyOf"] if each.get("type") != "null"))
    kind = schema.get("format") or schema.get("type", "")
    return f"list of {_type(schema['items'], described)}" if kind == "array" else cell(kind)


def _example(content: Mapping[str, Any]) -> Iterator[str]:
    """The first example of JSON, if it has one of a readable size."""
    for kind, each in content.items():
        examples = (
            [one["value"] for one in each.get("examples", {}).values()] or [each["example"]]
            if "example" in each or "examples" in each
            else []
        )
        if examples and kind == "application/json":
            text = json.dumps(examples[0], indent=1, ensure_ascii=False)
            lines = text.splitlines()
            if len(lines) <= _LINES_MAX:
                yield f"```json\n{text}\n```"
            else:
                yield f"```text\n{chr(10).join(lines[:_LINES_MAX])}\n… and {len(lines) - _LINES_MAX} more lines\n```"
            return


_LINES_MAX = 40
_ABOUT = """This page is made from the description that a running server serves at `/api/v1/openapi.json`. The sink's own routes are
on its port: an API server posts an EventList to `POST /audit/CLUSTER`, and an AdmissionReview to `POST /admission/CLUSTER`.
`/healthz`, `/readyz` and [`/metrics`](metrics.md) are on the same port."""
