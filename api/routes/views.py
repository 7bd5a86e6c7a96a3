"""GET /api/v1/...: the views of the lake, page by page, and single requests with all that is known of them."""

from __future__ import annotations

import dataclasses
from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query, Request
from fastapi.responses import Response

from ingest.schema import EVENTS
from queries import DIMENSIONS
from queries.rows import Denial, Evidence, Loss, Source, Violation, ViolationCount

from .. import reads
from ..errors import NotFoundError
from ..formats import json_response, page_response
from ..questions import (
    ClusterFilters,
    DenialFilters,
    EventFilters,
    EvidenceFilters,
    LossFilters,
    Paging,
    RequestFilters,
    RollupFilters,
    TimePaging,
    ViolationFilters,
)
from .answers import PREFIX, Asking, Form, known_parameters, whole_view
from .described import rows_described

router = APIRouter(prefix=PREFIX, tags=["views"], dependencies=[Depends(known_parameters)])

Bodies = Annotated[bool, Query(description="add what is large (bodies, workloads told from bodies); such pages are shorter")]
By = Annotated[list[str], Query(description=f"what to count by; repeat it: {', '.join(DIMENSIONS)}", max_length=len(DIMENSIONS))]


@router.get("/clusters")
async def list_clusters(asker: Asking) -> Response:
    """The clusters of the lake, and from when to when there are events of each."""
    return json_response({"rows": await asker.ask(reads.clusters)})


@router.get("/events", responses=rows_described("events", EVENTS))
async def list_events(
    request: Request,
    asker: Asking,
    form: Form,
    filters: Annotated[EventFilters, Query()],
    paging: Annotated[TimePaging, Query()],
    bodies: Bodies = False,
) -> Response:
    """One row per audit event."""
    return page_response(request, await asker.ask(reads.view_page, "events", filters, paging, large=bodies), form)


@router.get("/requests", responses=rows_described("requests"))
async def list_requests(
    request: Request,
    asker: Asking,
    form: Form,
    filters: Annotated[RequestFilters, Query()],
    paging: Annotated[TimePaging, Query()],
    bodies: Bodies = False,
) -> Response:
    """One row per audit request, its stages folded, with the effective user and the outcome."""
    return page_response(request, await asker.ask(reads.view_page, "requests", filters, paging, large=bodies), form)


@router.get("/violations", responses=rows_described("violations", Violation))
async def list_violations(
    request: Request,
    asker: Asking,
    form: Form,
    filters: Annotated[ViolationFilters, Query()],
    paging: Annotated[TimePaging, Query()],
    bodies: Bodies = False,
) -> Response:
    """One row per policy failure that a cluster recorded. Up to Kubernetes 1.36 it records only the first of a request."""
    return page_response(request, await asker.ask(reads.view_page, "violations", filters, paging, large=bodies), form)


@router.get("/denials", responses=rows_described("denials", Denial))
async def list_denials(
    request: Request,
    asker: Asking,
    form: Form,
    filters: Annotated[DenialFilters, Query()],
    paging: Annotated[TimePaging, Query()],
) -> Response:
    """One row per request that somebody refused on purpose; `denier=vap` are those of policies."""
    return page_response(request, await asker.ask(reads.view_page, "denials", filters, paging), form)


@router.get("/violations/rollup", responses=rows_described("violation_rollup", ViolationCount))
async def count_violations(
    request: Request,
    asker: Asking,
    form: Form,
    filters: Annotated[RollupFilters, Query()],
    paging: Annotated[Paging, Query()],
    by: By = ["policy", "binding"],  # noqa: B006  # FastAPI copies it
) -> Response:
    """Recorded policy failures, counted by some of their columns, most first."""
    return page_response(request, await asker.ask(reads.rollup_page, by, filters, paging), form)


@router.get("/evidence", responses=rows_described("evidence", Evidence))
async def list_evidence(
    request: Request, asker: Asking, form: Form, filters: Annotated[EvidenceFilters, Query()], paging: Annotated[Paging, Query()]
) -> Response:
    """How many events of each kind there are, and which bodies they hold."""
    return page_response(request, await whole_view(asker, "evidence", filters, paging), form)


@router.get("/losses", responses=rows_described("losses", Loss))
async def list_losses(
    request: Request, asker: Asking, form: Form, filters: Annotated[LossFilters, Query()], paging: Annotated[Paging, Query()]
) -> Response:
    """What evidence is missing or doubtful."""
    return page_response(request, await whole_view(asker, "losses", filters, paging), form)


@router.get("/sources", responses=rows_described("sources", Source))
async def list_sources(
    request: Request, asker: Asking, form: Form, filters: Annotated[ClusterFilters, Query()], paging: Annotated[Paging, Query()]
) -> Response:
    """What each log file and the webhook brought."""
    return page_response(request, await whole_view(asker, "sources", filters, paging), form)


@router.get("/requests/{cluster}/{audit_id}")
async def show_request(
    asker: Asking,
    cluster: Annotated[str, Path(max_length=1_000)],
    audit_id: Annotated[str, Path(max_length=1_000)],
) -> Response:
    """The requests of one auditID with their bodies, stages and failures, and the object as it was before.

    Usually there is one; a client may choose an auditID and repeat it.
    """
    found = await asker.ask(reads.request_details, cluster, audit_id)
    if not found:
        raise NotFoundError("the lake has no such request", "auditIDs are in the lists of requests, violations and denials")
    return json_response({"requests": [dataclasses.asdict(entry) for entry in found]})
