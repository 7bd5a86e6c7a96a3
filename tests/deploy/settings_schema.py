"""`python -m tests.deploy.settings_schema`: writes the options of `hindcast serve` to the chart's schema, for `settings`."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any, get_args, get_type_hints

from api.settings import Settings

from .rendering import CHART

# The chart gives these itself, from other values.
OF_THE_CHART = frozenset(
    {
        "lake", "host", "port", "sink", "query", "tls_certificate", "tls_key", "identities", "client_ca", "query_host",
        "query_port", "query_tokens", "oidc_issuer", "oidc_audience", "oidc_groups", "oidc_users",
    }
)  # fmt: skip
SCHEMA = CHART / "values.schema.json"
_TYPES = {bool: "boolean", int: "integer", float: "number"}


def settings() -> dict[str, Any]:
    """The JSON schema of `settings`: every option of the server but those that the chart gives."""
    hints = get_type_hints(Settings, include_extras=True)
    options = {
        each.name.replace("_", "-"): _option(*get_args(hints[each.name])[:2])
        for each in fields(Settings)
        if each.name not in OF_THE_CHART
    }
    return {"type": "object", "additionalProperties": False, "properties": options}


def _option(kind: Any, text: str) -> dict[str, Any]:
    if kind == tuple[str, ...]:
        return {"description": text, "type": ["array", "string"], "items": {"type": "string"}}
    own = next((each for each in get_args(kind) if each is not type(None)), kind)
    return {"description": text, "type": _TYPES.get(own, "string")}


def schema_text() -> str:
    """The schema of the chart's values, with these options."""
    value = json.loads(SCHEMA.read_text(encoding="utf-8"))
    value["properties"]["settings"] = settings()
    return json.dumps(value, indent=1) + "\n"


if __name__ == "__main__":
    SCHEMA.write_text(schema_text(), encoding="utf-8")
    print(SCHEMA)
