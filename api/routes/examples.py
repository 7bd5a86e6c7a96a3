"""The parts of the OpenAPI description that a reader needs first: a summary of each route, and an example of its answer
(examples.json)."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any

_METHODS = frozenset({"get", "post", "delete"})


def explain_routes(schema: dict[str, Any]) -> None:
    """Give every route its summary, the first sentence of its description, and its example."""
    for path, routes in schema["paths"].items():
        for method in routes.keys() & _METHODS:
            operation = routes[method]
            operation["summary"] = " ".join(operation["description"].split()).partition(". ")[0].rstrip(".")
            if (example := examples().get(f"{method.upper()} {path}")) is not None:
                _add_example(operation, example)


@cache
def examples() -> dict[str, Any]:
    """The examples by method and path: JSON values, or texts of other media types.

    Those of a fleet are taken from a made-up one, all others from the demonstration's lake.
    """
    found: dict[str, Any] = json.loads((files("api.routes") / "examples.json").read_text(encoding="utf-8"))
    return found


def _add_example(operation: dict[str, Any], example: object) -> None:
    """The example belongs to its own media type: an event stream is text, all else is JSON."""
    answers = operation["responses"]
    content = answers["202" if "202" in answers else "200"].setdefault("content", {})
    wanted = "text/event-stream" if isinstance(example, str) else "application/json"
    content.setdefault(wanted, {})["example"] = example
