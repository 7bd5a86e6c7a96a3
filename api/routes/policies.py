"""GET /api/v1/policies: the policies and bindings that a cluster had in force at a moment, and all that it ever had."""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import Response

from pipeline.report.texts import yaml_text
from queries.rows import KnownPolicy

from ..ask import reads
from ..ask.formats import json_response, page_response
from ..ask.questions import ClusterFilters, Moment, Paging, Text
from ..asked_values import parse_time
from ..state import Asking
from .answers import PREFIX, Form, known_parameters, whole_view
from .described import rows_described

router = APIRouter(prefix=PREFIX, tags=["policies"], dependencies=[Depends(known_parameters)])


class ManifestFormat(StrEnum):
    """How policies are written."""

    JSON = "json"
    YAML = "yaml"


@router.get(
    "/policies",
    responses={200: {"content": {"application/json": {}, "application/yaml": {}}, "description": "policies and bindings in force"}},
)
async def list_policies(
    asker: Asking,
    cluster: Annotated[Text | None, Query(description="may be left out where the lake has one cluster")] = None,
    at: Annotated[Moment | None, Query(description="`30d` (before now) or RFC 3339; now without it")] = None,
    form: Annotated[ManifestFormat, Query(alias="format", description="yaml: the known manifests, fit for `hindcast replay -f`")]
    = ManifestFormat.JSON,
) -> Response:  # fmt: skip
    """List the policies and bindings that were in force in a cluster at a time, as its log and snapshots tell."""
    found = await asker.ask(reads.policies, cluster, parse_time("at", at, datetime.now(UTC)))
    if form is ManifestFormat.JSON:
        return json_response({"rows": found})
    manifests = [entry["object"] for entry in found if entry["object"] is not None]
    return Response(yaml_text(manifests), media_type="application/yaml")


@router.get("/policies/known", responses=rows_described("known_policies", KnownPolicy))
async def list_known_policies(
    request: Request, asker: Asking, form: Form, filters: Annotated[ClusterFilters, Query()], paging: Annotated[Paging, Query()]
) -> Response:
    """List every policy that the lake has seen by name: in a snapshot, a write, a failure or a denial."""
    return page_response(request, await whole_view(asker, "known_policies", filters, paging), form)
