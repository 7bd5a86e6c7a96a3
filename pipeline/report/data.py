"""The report as data, for machines: the model's own names under a schema version (`schema/report-v1.json`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import is_dataclass
from datetime import date, datetime
from enum import Enum
from typing import Any

from pipeline.readiness.report import MODEL_VERSION, Report

from .shape import members
from .texts import json_text, yaml_text

API_VERSION = f"hindcast.report/v{MODEL_VERSION}"
KIND = "ReadinessReport"


def to_json(report: Report) -> str:
    """One JSON object: `{"apiVersion": "hindcast.report/v1", "kind": "ReadinessReport", ...}`; times are RFC 3339 in UTC."""
    return json_text(document(report), indent=2) + "\n"


def to_yaml(report: Report) -> str:
    """The same as YAML."""
    return yaml_text([document(report)], width=120)


def document(report: Report) -> dict[str, Any]:
    """The report as JSON values, with the figures that the model derives from others."""
    return {"apiVersion": API_VERSION, "kind": KIND, **plain(report)}


def plain(value: Any) -> Any:
    """Any part of the model as JSON values."""
    if is_dataclass(value) and not isinstance(value, type):
        return {name: plain(getattr(value, name)) for name, _ in members(type(value))}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, date):
        return value.isoformat()
    return value.value if isinstance(value, Enum) else value
