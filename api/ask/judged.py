"""One request as JSON values: its record, and the objects that validating admission saw, as a replay reconstructs them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from pipeline.history.reconstruct import NotReplayed
from pipeline.request import AdmissionRequest, Evidence, Known, Object
from pipeline.requests.recall import recall

from .formats import DOCUMENTS
from .json_values import json_document
from .listing import Source
from .reads import RequestDetail, request_details

_UNFINISHED = "no finished stage of it is recorded"


def judged_requests(source: Source, cluster: str, audit_id: str) -> list[dict[str, Any]]:
    """The requests of one auditID, newest first: fields of RequestDetail with documents decoded, and `judged`."""
    details = request_details(source, cluster, audit_id)
    recalled = {event.ts: found for event, found in recall(source.reader, cluster, audit_id)} if details else {}
    return [{**_plain(detail), "judged": _judged(recalled.get(_ts(detail)))} for detail in details]


def _ts(detail: RequestDetail) -> datetime:
    found: datetime = detail.request["ts"]
    return found


def _plain(detail: RequestDetail) -> dict[str, Any]:
    """The fields with every recorded JSON text as the document that it is."""
    rows = {name: [_decoded(row) for row in getattr(detail, name)] for name in ("events", "violations")}
    objects = {name: json_document(getattr(detail, name)) for name in ("old_object", "new_object")}
    return {**dataclasses.asdict(detail), "request": _decoded(detail.request), **rows, **objects}


def _decoded(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: json_document(value) if name in DOCUMENTS else value for name, value in row.items()}


def _judged(found: Sequence[AdmissionRequest] | NotReplayed | None) -> dict[str, Any]:
    if found is None:
        return {"passes": [], "why": _UNFINISHED}
    if isinstance(found, NotReplayed):
        return {"passes": [], "why": found.reason}
    return {"passes": [_pass(item) for item in found], "why": None}


def _pass(item: AdmissionRequest) -> dict[str, Any]:
    return {
        "pass": item.pass_index,
        "operation": str(item.operation),
        "object": _evidence(item.object),
        "old_object": _evidence(item.old_object),
    }


def _evidence(found: Evidence[Object | None]) -> dict[str, Any]:
    """A value with its source and grade (`evidence`), or why it is unknown. A policy was given a known null as null."""
    if isinstance(found, Known):
        return {"is_known": True, "value": found.value, "source": found.source, "evidence": str(found.grade), "why": None}
    return {"is_known": False, "value": None, "source": None, "evidence": None, "why": found.reason}
