"""The report as JSON, for machines. The model's own field names, with a schema version."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import date, datetime
from typing import Any

from .model import MODEL_VERSION, Report


def to_json(report: Report) -> str:
    """One JSON object: `{"apiVersion": "hindcast/v1", "kind": "ReadinessReport", ...}`; times are RFC 3339 in UTC."""
    head = {"apiVersion": f"hindcast/v{MODEL_VERSION}", "kind": "ReadinessReport"}
    return json.dumps(head | as_data(report), indent=2, default=_value, ensure_ascii=False) + "\n"


def as_data(report: Report) -> dict[str, Any]:
    """The model as plain dictionaries, with the figures that are derived from others."""
    data = asdict(report)
    for entry, policy in zip(data["policies"], report.policies, strict=True):
        entry["exposure"]["unknown_share"] = policy.exposure.unknown_share
        entry["fidelity"]["agreement"] = policy.fidelity.agreement
    return data


def _value(value: object) -> object:
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, date):
        return value.isoformat()
    raise TypeError(f"no JSON form for {type(value).__name__}")
