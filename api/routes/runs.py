"""GET /api/v1/runs...: replay runs of every source, with their plans, results and single verdicts."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Query, Request
from fastapi.responses import Response

from api.stages.costs import RunCosts, costs_of_run
from pipeline.runs.verdict import VERDICTS

from ..ask import reads
from ..ask.formats import json_response, page_response
from ..ask.questions import TimePaging, VerdictFilters, VerdictGrain
from ..ask.run_reads import REQUEST_COLUMNS
from ..ask.run_removal import in_use_error, remove_runs
from ..errors import NotFoundError
from ..state import Asking, Working
from ..work.jobs import Order
from .answers import PREFIX, Form, known_parameters
from .described import page_described, schema_of
from .jobs import started

router = APIRouter(prefix=PREFIX, tags=["runs"], dependencies=[Depends(known_parameters)])

RunId = Annotated[str, Path(pattern="^[0-9a-f]{16}$", description="the name of a run: 16 hexadecimal digits")]
_VERDICT = schema_of(VERDICTS)
_VERDICT["properties"] |= {name: {"anyOf": [{"type": "string"}, {"type": "null"}]} for name in REQUEST_COLUMNS}


@router.get("/runs")
async def list_runs(asker: Asking) -> Response:
    """List the runs of the lake, the latest planned first, without their summaries."""
    found = await asyncio.to_thread(reads.runs, asker.lake)
    return json_response({"rows": [{**_as_dict(entry), "summary": None} for entry in found]})


@router.get("/runs/{run_id}")
async def show_run(asker: Asking, run_id: RunId) -> Response:
    """Show one run with its summary. The summary counts, for each (policy, binding), the matched requests by decision."""
    return json_response(_as_dict(await asyncio.to_thread(reads.run, asker.lake, run_id)))


@router.delete("/runs/{run_id}")
async def remove_run(asker: Asking, run_id: RunId) -> Response:
    """Remove a run with its verdicts. A run that a replay or a report uses stays: 409 `in_use`."""
    removed, kept = await asyncio.to_thread(remove_runs, asker.lake, [run_id])
    if kept:
        raise in_use_error(kept)
    return json_response(dataclasses.asdict(removed[0]))


@router.post("/runs/{run_id}/costs", status_code=202)
async def count_costs(request: Request, asker: Asking, jobs: Working, run_id: RunId) -> Response:
    """Start to count the costs of a run's policies over the recorded requests.

    The answer names a replay. Follow and cancel it under `/replays/{job_id}`.
    """
    await asyncio.to_thread(reads.run, asker.lake, run_id)
    return await started(request, jobs, Order(costs_of=run_id))


@router.get("/runs/{run_id}/costs", response_model=RunCosts)
async def show_costs(asker: Asking, run_id: RunId) -> Response:
    """Show the costs of a run's policies, as `hindcast policy cost` counts them, once they are counted.

    `figures` have the median, the 99th percentile and the maximum of each expression, with the `limit` of the API server. They
    have the same of all expressions that share a budget. A cost above its limit is a lower bound. `nearest` are the requests that
    come nearest to a limit. `grown` and `grown_cost` are estimates for objects whose lists are `growth` times as long.
    """
    await asyncio.to_thread(reads.run, asker.lake, run_id)
    found = await asyncio.to_thread(costs_of_run, asker.lake, run_id)
    if found is None:
        raise NotFoundError(f"the costs of run {run_id} were not counted", "POST to the same address starts that")
    return json_response(dataclasses.asdict(found))


@router.get("/runs/{run_id}/plan")
async def show_plan(asker: Asking, run_id: RunId) -> Response:
    """Show the plan of a run, with the policies in full."""
    return json_response(await asyncio.to_thread(reads.run_plan, asker.lake, run_id))


@router.get(
    "/runs/{run_id}/verdicts",
    responses=page_described("one row per verdict, of one expression or as a whole, and its request", _VERDICT),
)
async def list_verdicts(
    request: Request,
    asker: Asking,
    form: Form,
    run_id: RunId,
    filters: Annotated[VerdictFilters, Query()],
    paging: Annotated[TimePaging, Query()],
    grain: Annotated[
        VerdictGrain | None,
        Query(description="request: only verdicts as a whole; expression: only those of single expressions; both without it"),
    ] = None,
) -> Response:
    """List the verdicts of a finished run, newest request first.

    There are two kinds of rows. A row whose `expression_index` is null is the verdict as a whole: one for each (request, pass,
    policy, binding, param). The other rows are the verdicts of its single expressions. So one denial has at least two rows with
    `effect=deny`, unless an error of the configuration denied it. To count denials, ask with `grain=request`.
    """
    return page_response(request, await asker.ask(reads.verdicts_page, run_id, filters, paging, grain), form)


def _as_dict(run: reads.Run) -> dict[str, Any]:
    return dataclasses.asdict(run)
