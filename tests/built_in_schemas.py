"""Makes the schemas of built-in kinds that come with Hindcast, from what a recorded API server published.

`python -m tests.built_in_schemas SHARED` writes the file from `SHARED/data`; a test compares the two.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import zstandard

FILE = Path(__file__).parents[1] / "pipeline" / "openapi" / "kubernetes-1.36.json"
_RECORDED = ("core", "apps", "autoscaling")  # The rest of the recording is of custom resources.
_KINDS = "x-kubernetes-group-version-kind"


def built_in_text(shared: Path) -> str:
    """One OpenAPI v3 document as JSON, one schema or path a line, sorted; descriptions are left out."""
    packed = (shared / "data" / "mutating-policies-a" / "openapi-v3.json.zst").read_bytes()
    recorded = json.loads(zstandard.ZstdDecompressor().decompress(packed, max_output_size=1 << 26))
    schemas: dict[str, Any] = {}
    paths: dict[str, Any] = {}
    for group in _RECORDED:
        for name, schema in recorded[group]["components"]["schemas"].items():
            schemas[name] = _joined(schemas.get(name), _bare(schema))
        for path, item in recorded[group]["paths"].items():
            # Every action of a path is of the same kind, but a watch, which `Schemas` leaves out.
            kinds = [action[_KINDS] for action in item.values() if isinstance(action, dict) and _KINDS in action]
            if kinds:
                paths[path] = {"get": {_KINDS: kinds[0]}}
    return "\n".join(('{"paths": {', _lines(paths), '}, "components": {"schemas": {', _lines(schemas), "}}}\n"))


def _bare(value: Any) -> Any:
    if isinstance(value, dict):
        is_named = "properties" in value  # A field may be called `description`.
        return {
            name: {field: _bare(item) for field, item in each.items()} if is_named and name == "properties" else _bare(each)
            for name, each in value.items()
            if name != "description"
        }
    return [_bare(item) for item in value] if isinstance(value, list) else value


def _joined(known: Any, schema: Any) -> Any:
    """The schema; some stand in several documents, and each document lists the kinds of its own group."""
    if known is None or known == schema:
        return schema
    kinds = known[_KINDS] + [each for each in schema[_KINDS] if each not in known[_KINDS]]
    if {**known, _KINDS: kinds} != {**schema, _KINDS: kinds}:
        raise ValueError("two documents disagree about a schema")
    return {**known, _KINDS: kinds}


def _lines(values: dict[str, Any]) -> str:
    return ",\n".join(f"{json.dumps(name)}: {json.dumps(each, separators=(',', ':'))}" for name, each in sorted(values.items()))


if __name__ == "__main__":
    FILE.write_text(built_in_text(Path(sys.argv[1])), encoding="utf-8")
