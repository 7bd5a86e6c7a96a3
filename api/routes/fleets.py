"""GET /api/v1/fleets...: the reports of `hindcast fleet readiness`, as it kept them in the lake."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path
from fastapi.responses import Response
from pydantic import TypeAdapter

from pipeline.report.fleet import fleet_document, fleet_schema

from ..ask import fleet_reads
from ..ask.formats import json_response
from ..state import Asking
from .answers import PREFIX, known_parameters

router = APIRouter(prefix=PREFIX, tags=["fleets"], dependencies=[Depends(known_parameters)])

FleetId = Annotated[str, Path(pattern="^[0-9a-f]{16}$", description="the name of a question to a fleet: 16 hexadecimal digits")]
_ROW = TypeAdapter(fleet_reads.Fleet).json_schema()
_ROWS = {"type": "object", "required": ["rows"], "properties": {"rows": {"type": "array", "items": _ROW}}}


def _answer(promise: str, schema: dict[str, Any]) -> dict[int | str, dict[str, Any]]:
    return {200: {"description": promise, "content": {"application/json": {"schema": schema}}}}


@router.get(
    "/fleets",
    responses={200: {"description": "the last report of each question", "content": {"application/json": {"schema": _ROWS}}}},
)
async def list_fleets(asker: Asking) -> Response:
    """List the kept reports on the fleet, one row for each question, the newest first."""
    found = await asyncio.to_thread(fleet_reads.fleets, asker.lake)
    return json_response({"rows": [dataclasses.asdict(entry) for entry in found]})


@router.get("/fleets/{fleet_id}", responses=_answer("the report", fleet_schema()))
async def show_fleet(asker: Asking, fleet_id: FleetId) -> Response:
    """Show one kept report, as `hindcast fleet readiness -o json` prints it.

    It has the verdict on each manifest in each cluster, the worst cluster first, and the clusters that cannot be judged with the
    reason. No figure is pooled: each is that of one cluster.
    """
    return json_response(fleet_document(await asyncio.to_thread(fleet_reads.fleet, asker.lake, fleet_id)))
