"""/healthz, /readyz and /metrics: whether the server lives, whether it can keep its promise, and its counters."""

from __future__ import annotations

import time

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, PlainTextResponse, Response

from ingest.telemetry import CONTENT_TYPE

from ..error_answers import error_response
from ..sink.services import services_of

router = APIRouter()


@router.get("/healthz")
async def alive() -> Response:
    """200 while the process answers; it says nothing of the disk, because a restart would not mend that."""
    return PlainTextResponse("ok\n")


@router.get("/readyz")
async def ready(request: Request) -> Response:
    """200 when a batch posted now would be acknowledged durably; `warnings` say what only keeps it from being shown.

    A dead or stuck drain is only a warning. If the sink were not ready, Kubernetes would route no batch to it, and the API servers
    would drop their events. The spool can keep them until the disk is nearly full.
    """
    services = services_of(request)
    refusal = services.sink.trouble()
    if refusal is not None:
        return error_response(503, refusal.reason, refusal.message, refusal.hint)
    lag = services.behind.lag  # None until it was measured once
    drain_trouble = services.drain.trouble() if services.drain is not None else None
    return JSONResponse(
        {
            "ready": True,
            "backlog_bytes": services.spool.backlog_bytes,
            "lag_events": None if lag is None else lag.events,
            "lag_seconds": None if lag is None else round(lag.seconds(time.time()), 3),
            "drain": services.drain is not None,
            "drain_restarts": services.drain.restarts if services.drain is not None else 0,
            "warnings": [warning for warning in (drain_trouble, services.sink.warning()) if warning],
        }
    )


@router.get("/metrics")
async def metrics(request: Request) -> Response:
    """The counters in Prometheus' text format."""
    services = services_of(request)
    return Response(services.metrics.render(), media_type=CONTENT_TYPE)
