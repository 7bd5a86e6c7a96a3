"""GET /api/v1/runs/{run_id}/readiness: whether the policies of a run may go to Deny, and the figures behind the answer."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import RedirectResponse, Response

from pipeline.readiness.rules import ReadinessRules
from pipeline.report.data import document

from ..ask import reads
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
