"""/api/v1/replays: start a replay of posted policies, follow it, cancel it. What it finishes is a run like the command's."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query, Request
from fastapi.responses import Response, StreamingResponse

from ingest.errors import InputError

from ..commands.options import parse_time, parse_version
from ..errors import STATUS_BY_CODE, TooLargeError, WrongTypeError, error_response
from ..formats import json_bytes, json_response
from ..jobs import Job, Jobs, Order, State
from ..posted import BYTES_MAX
from ..questions import Moment
from .answers import PREFIX, Working, known_parameters

router = APIRouter(prefix=PREFIX, tags=["replays"], dependencies=[Depends(known_parameters)])

# Types that a browser sends across origins without asking first are not among them.
_MEDIA_TYPES = ("application/yaml", "application/x-yaml", "text/yaml", "application/json")
# So long the answer waits for the job to have read the policies, so that a mistake in them is told at once.
_SETTLE_SECONDS = 20.0
_HEARTBEAT_SECONDS = 15.0

JobId = Annotated[str, Path(pattern="^[0-9a-f]{32}$", description="the name of a replay: 32 hexadecimal digits")]
_BODY = {"schema": {"type": "string", "description": "manifests of policies, bindings and params, one YAML stream or JSON"}}
_POSTED = {
    "requestBody": {
        "required": True,
        "content": {
            "application/yaml": _BODY,
            "application/json": {"schema": {"type": "object", "description": "one manifest, or a List of them"}},
        },
    }
}


@router.post("/replays", status_code=202, openapi_extra=_POSTED)
async def start_replay(
    request: Request,
    jobs: Working,
    since: Annotated[Moment | None, Query(description="only requests from then on: `30d`, `12h` (before now), or RFC 3339")] = None,
    until: Annotated[Moment | None, Query(description="only requests before then; same forms")] = None,
    kubernetes_version: Annotated[str, Query(max_length=20, description="the API server's minor version")] = "1.36",
    calibrate: Annotated[bool, Query(description="also replay what was bound, to say how far the replay can be trusted")] = False,
    exemptions: Annotated[
        bool, Query(description="also look for exemptions with which a policy could deny, and the way there")
    ] = True,
) -> Response:
    """Start a replay of the policies in the body over the recorded requests. The answer names it; it goes on after the answer."""
    now = datetime.now(UTC)
    window = parse_time("since", since, now), parse_time("until", until, now)
    if window[0] is not None and window[1] is not None and window[0] >= window[1]:
        raise InputError(f"since: {since} is not before until={until}", "give an earlier one")
    version = parse_version(kubernetes_version)
    order = Order(await _posted(request), *window, kubernetes_version=version, calibrate=calibrate, exemptions=exemptions)
    reader = request.scope.get("state", {}).get("reader")
    job = await jobs.settled(jobs.start(order, reader.name if reader else "anyone"), _SETTLE_SECONDS)
    if job.state is State.FAILED and (error := job.error) is not None:
        return error_response(STATUS_BY_CODE.get(error["code"], 400), error["code"], error["message"], error["hint"])
    response = json_response(job.document(), 202)
    response.headers["Location"] = f"{request.url.path}/{job.job_id}"
    return response


@router.get("/replays")
async def list_replays(jobs: Working) -> Response:
    """List the replays that were started here since the server started, newest first."""
    return json_response({"rows": [job.document() for job in jobs.all()]})


@router.get("/replays/{job_id}")
async def show_replay(jobs: Working, job_id: JobId) -> Response:
    """Show how far a replay is."""
    return json_response(jobs.get(job_id).document())


@router.get("/replays/{job_id}/events", responses={200: {"content": {"text/event-stream": {}}, "description": "events `replay`"}})
async def follow_replay(jobs: Working, job_id: JobId) -> Response:
    """Follow a replay until it is over. A server-sent event named `replay` comes with each change."""
    job = jobs.get(job_id)
    return StreamingResponse(_told(jobs, job), media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})


@router.delete("/replays/{job_id}")
async def cancel_replay(jobs: Working, job_id: JobId) -> Response:
    """Cancel a replay. What it finished is kept: started again, it goes on from there. One that is over stays as it is."""
    return json_response((await jobs.cancel(job_id)).document())


async def _told(jobs: Jobs, job: Job) -> AsyncIterator[bytes]:
    async for changed in jobs.changes(job, _HEARTBEAT_SECONDS):
        yield b": still there\n\n" if changed is None else b"event: replay\ndata: " + json_bytes(changed.document()) + b"\n\n"


async def _posted(request: Request) -> str:
    """The body as text. Raises WrongTypeError, TooLargeError, InputError."""
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type not in _MEDIA_TYPES:
        found = ascii(media_type)[:60] if media_type else "none"
        raise WrongTypeError(f"Content-Type: found {found}, wanted one of {', '.join(_MEDIA_TYPES)}", "send manifests")
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > BYTES_MAX:
            raise TooLargeError(
                f"the body is larger than {BYTES_MAX:,} bytes", "send fewer policies at a time, without other objects"
            )
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"the body is no UTF-8 at byte {error.start}", "send YAML or JSON") from None
