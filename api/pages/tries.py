"""The addresses where a user tries a policy and looks at the replays that this server started."""

from __future__ import annotations

from datetime import UTC, datetime

from fastapi import Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from ingest.errors import InputError
from pipeline.stages.registry import STAGES

from ..ask.asking import Asker
from ..state import Asking, Working
from ..work.jobs import Jobs, State
from . import overview
from .html import page
from .routing import Asks, Selected, page_router
from .selection import Text
from .tables import Asked, file_of
from .trial import KUBERNETES_VERSIONS, Problem, TrialForm, form_of_run, job_view, jobs_table, problem_of, read_form

# A page waits this long until a started replay has read its policies, so that a mistake in them is shown at once.
_SETTLE_SECONDS = 20.0
_MISTAKES = ("bad_input", "too_large")
# The form as it comes back with a mistake: nothing is asked of its table.
_FORM_ASKED = Asked("/try")

router = page_router()


@router.get("/try")
async def show_form(
    request: Request, asker: Asking, working: Working, selection: Selected, asked: Asks, run: Text = ""
) -> Response:
    """Show the form to try a policy; with `run` and `policy` it holds that policy from that replay, to be edited."""
    if asked.form:
        return file_of({"jobs": jobs_table(working.all(), asked)}, asked)
    form = TrialForm(since=selection.since, until=selection.until)
    if run and selection.policy:
        form = await asker.ask(form_of_run, run, selection.policy, form)
    return await _form_page(request, asker, working, form, asked=asked)


@router.post("/try")
async def try_policy(request: Request, asker: Asking, working: Working) -> Response:
    """Start a replay with the values of the form; a mistake is shown with the form unchanged."""
    form = await read_form(request)
    reader = request.scope.get("state", {}).get("reader")
    try:
        order = form.order(datetime.now(UTC))
        await working.check(order)
        job = working.start(order, reader.name if reader else "anyone")
    except InputError as error:
        return await _form_page(request, asker, working, form, problem_of(form, error.message, error.hint))
    await working.settled(job, _SETTLE_SECONDS)
    if job.state is State.FAILED and job.error is not None and job.error["code"] in _MISTAKES:
        return await _form_page(request, asker, working, form, problem_of(form, job.error["message"], job.error["hint"]))
    return RedirectResponse(f"/replays/{job.job_id}", 303)


@router.get("/replays/{job_id}")
async def show_replay(request: Request, working: Working, job_id: str) -> Response:
    """Show how far a replay is, and its result once it is finished."""
    job = working.get(job_id)
    if job.state is State.FINISHED and job.run_id is not None:
        return RedirectResponse(f"/runs/{job.run_id}", 303)
    return page(request, "replay.html.j2", section="/try", view=job_view(job))


@router.post("/replays/{job_id}/cancel")
async def cancel_replay(working: Working, job_id: str) -> Response:
    """End a replay."""
    await working.cancel(job_id)
    return RedirectResponse(f"/replays/{job_id}", 303)


async def _form_page(
    request: Request, asker: Asker, working: Jobs, form: TrialForm, problem: Problem | None = None, asked: Asked = _FORM_ASKED
) -> HTMLResponse:
    extent = await asker.ask(overview.extent)
    status = 200 if problem is None else 400
    return page(
        request,
        "try.html.j2",
        status,
        section="/try",
        form=form,
        problem=problem,
        extent=extent,
        jobs=jobs_table(working.all(), asked),
        versions=KUBERNETES_VERSIONS,
        stages=[(stage.name, ", ".join(sorted(kind.kind for kind in stage.kinds))) for stage in STAGES],
    )
