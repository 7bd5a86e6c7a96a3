"""GET /api/v1/runs/{run_id}/readiness: whether the policies of a run may go to Deny, and the figures behind the answer."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import RedirectResponse, Response

from pipeline.readiness.rules import ReadinessRules
from pipeline.report.data import document

from ..ask import reads, run_reads
from ..ask.formats import json_response
from ..ask.questions import Names
from ..state import Asking
from .answers import PREFIX, known_parameters
from .runs import RunId

router = APIRouter(prefix=PREFIX, tags=["readiness"], dependencies=[Depends(known_parameters)])

Rules = Annotated[Names, Query(description="replaces one readiness rule: `days_min=3`; repeatable")]


@router.get("/runs/{run_id}/readiness")
async def show_readiness(request: Request, asker: Asking, run_id: RunId, rule: Rules = []) -> Response:  # noqa: B006  # FastAPI copies it
    """Show the readiness report of a finished run, as `hindcast readiness -o json` prints it.

    The report has the agreement of the replay with the record only if the run was started with `calibrate=true`. It has exemptions
    and the steps to Deny only if the run was started with `exemptions=true`, and under the default rules. A browser, which accepts
    `text/html`, is sent to the report as a page.
    """
    if "text/html" in request.headers.get("accept", ""):
        return RedirectResponse(f"/runs/{run_id}/report{'?' if request.url.query else ''}{request.url.query}", 303)
    return json_response(document(await asker.ask(reads.readiness, run_id, ReadinessRules.written(rule, "rule") if rule else None)))


@router.get("/runs/{run_id}/rollout")
async def show_rollout(request: Request, asker: Asking, run_id: RunId, rule: Rules = []) -> Response:  # noqa: B006  # FastAPI copies it
    """Show where the manifests of a finished run can be enforced today, what has to change first elsewhere, and how to go back.

    Each wave has its manifests, those that go back, and the commands that remove what it adds. `tried` says how often the choice of
    the first wave by the earlier half of the log failed in the later half. A browser is sent to the page.
    """
    if "text/html" in request.headers.get("accept", ""):
        return RedirectResponse(f"/runs/{run_id}/rollout", 303)
    found = await asker.ask(run_reads.rollout, run_id, ReadinessRules.written(rule, "rule") if rule else None)
    return json_response({"run_id": run_id, "rollouts": [asdict(each) for each in found]})
