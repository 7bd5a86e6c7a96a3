"""GET /api/v1/...: the views of the lake, page by page, and single requests with all their data."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query, Request
from fastapi.responses import Response

from ingest.schema import EVENTS
from queries import DIMENSIONS
from queries.rows import Denial, Evidence, Loss, Source, Violation, ViolationCount

from ..ask import reads
from ..ask.formats import json_response, page_response
from ..ask.judged import judged_requests
from ..ask.questions import (
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
from ..errors import NotFoundError
from ..state import Asking
from .answers import PREFIX, Form, known_parameters, whole_view
from .described import rows_described

router = APIRouter(prefix=PREFIX, tags=["views"], dependencies=[Depends(known_parameters)])

Bodies = Annotated[bool, Query(description="add large columns: bodies, and workloads that bodies name; such pages are shorter")]
By = Annotated[list[str], Query(description=f"count by this; repeatable: {', '.join(DIMENSIONS)}", max_length=len(DIMENSIONS))]


@router.get("/clusters")
async def list_clusters(asker: Asking) -> Response:
    """List the clusters of the lake, each with its number of events and their first and last time."""
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
    """List audit events, one row for each stage of a request."""
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
    """List audit requests with the effective user and the outcome. The stages of a request are folded into one row."""
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
    """List the policy failures that the clusters recorded. Up to Kubernetes 1.36 a cluster records only the first of a request."""
    return page_response(request, await asker.ask(reads.view_page, "violations", filters, paging, large=bodies), form)


@router.get("/denials", responses=rows_described("denials", Denial))
async def list_denials(
    request: Request,
    asker: Asking,
    form: Form,
    filters: Annotated[DenialFilters, Query()],
    paging: Annotated[TimePaging, Query()],
) -> Response:
    """List the requests that a policy, a webhook, a quota or an authorizer refused. `denier=vap` selects the denials of
    policies."""
    return page_response(request, await asker.ask(reads.view_page, "denials", filters, paging), form)


@router.get("/violations/rollup", responses=rows_described("violation_rollup", ViolationCount))
async def count_violations(
    request: Request,
    asker: Asking,
    form: Form,
    filters: Annotated[RollupFilters, Query()],
    paging: Annotated[Paging, Query()],
    by: By = ["cluster", "policy", "binding"],  # noqa: B006  # FastAPI copies it
) -> Response:
    """Count recorded policy failures by policy, workload, day or other columns, most first.

    A row has the asked columns in the order in which they are asked (`user` as `user_name`), then the counts. Ask also for
    `cluster`, unless a filter selects one. Else the counts sum over clusters.
    """
    return page_response(request, await asker.ask(reads.rollup_page, by, filters, paging), form)


@router.get("/evidence", responses=rows_described("evidence", Evidence))
async def list_evidence(
    request: Request, asker: Asking, form: Form, filters: Annotated[EvidenceFilters, Query()], paging: Annotated[Paging, Query()]
) -> Response:
    """Count the events of each kind, and say which bodies they hold."""
    return page_response(request, await whole_view(asker, "evidence", filters, paging), form)


@router.get("/losses", responses=rows_described("losses", Loss))
async def list_losses(
    request: Request, asker: Asking, form: Form, filters: Annotated[LossFilters, Query()], paging: Annotated[Paging, Query()]
) -> Response:
    """List the evidence that is missing or doubtful."""
    return page_response(request, await whole_view(asker, "losses", filters, paging), form)


@router.get("/sources", responses=rows_described("sources", Source))
async def list_sources(
    request: Request, asker: Asking, form: Form, filters: Annotated[ClusterFilters, Query()], paging: Annotated[Paging, Query()]
) -> Response:
    """List the log files and the webhook, with the events that each brought."""
    return page_response(request, await whole_view(asker, "sources", filters, paging), form)


@router.get("/requests/{cluster}/{audit_id}")
async def show_request(
    asker: Asking,
    cluster: Annotated[str, Path(max_length=1_000, description="the cluster's name, as its events were ingested")],
    audit_id: Annotated[str, Path(max_length=1_000, description="auditID of the request, as recorded")],
) -> Response:
    """Show the requests of one auditID with their bodies, stages, failures and objects.

    Usually this is one request, but a client may choose an auditID and repeat it. `judged` holds the object and the old object that
    validating admission saw. A replay reconstructs them, and names their source or the reason why they are unknown. A request that
    deletes a collection has several entries. If there is no entry, `why` gives the reason.
    """
    found = await asker.ask(judged_requests, cluster, audit_id)
    if not found:
        raise NotFoundError("the lake has no such request", "auditIDs are in the lists of requests, violations and denials")
    return json_response({"requests": found})
