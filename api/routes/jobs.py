"""/api/v1/replays: start a replay of posted manifests, follow it, cancel it. Its result is a run like the command's."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query, Request
from fastapi.responses import Response, StreamingResponse

from ingest.errors import InputError
from pipeline.authorization import OtherAuthorizers
from pipeline.cel.minors import DEFAULT, words_of
from pipeline.readiness.rules import ReadinessRules

from ..ask.formats import json_response
from ..ask.json_values import json_bytes
from ..ask.questions import Moment, Names
from ..asked_values import parse_time, parse_version
from ..beside_runs import kept_gate
from ..error_answers import error_response
from ..errors import STATUS_BY_CODE, NotFoundError, TooLargeError, WrongTypeError
from ..posted import BYTES_MAX
from ..state import Asking, Working
from ..work.gating import GateQuestion
from ..work.jobs import Job, Jobs, Order, State
from .answers import PREFIX, known_parameters

Rules = Annotated[Names, Query(description="replaces one readiness rule of the report: `days_min=3`; repeatable")]
router = APIRouter(prefix=PREFIX, tags=["replays"], dependencies=[Depends(known_parameters)])

# The media types that a browser sends across origins without a preflight request are not among these.
_MEDIA_TYPES = ("application/yaml", "application/x-yaml", "text/yaml", "application/json")
# The answer waits this long until the job has read the policies, so that it reports a mistake in them at once.
_SETTLE_SECONDS = 20.0
_HEARTBEAT_SECONDS = 15.0

JobId = Annotated[str, Path(pattern="^[0-9a-f]{32}$", description="the name of a replay: 32 hexadecimal digits")]
_BODY = {
    "schema": {
        "type": "string",
        "description": "manifests of any stage, such as policies with bindings and params, or roles: one YAML stream or JSON",
    }
}
POSTED = {
    "requestBody": {
        "required": True,
        "content": {
            "application/yaml": _BODY,
            "application/json": {"schema": {"type": "object", "description": "one manifest, or a List of them"}},
        },
    }
}
# Two sets of policies, as JSON texts.
_GATE_BYTES_MAX = 4 * BYTES_MAX
_TEXTS = {
    "type": "array",
    "items": {"type": "array", "items": {"type": "string"}, "minItems": 2, "maxItems": 2},
    "description": "pairs of a file's name and its text",
}
_GATE = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {
                "schema": {"type": "object", "required": ["policies"], "properties": {"policies": _TEXTS, "against": _TEXTS}}
            }
        },
    }
}


@router.post("/replays", status_code=202, openapi_extra=POSTED)
async def start_replay(
    request: Request,
    jobs: Working,
    since: Annotated[Moment | None, Query(description="only requests from then on: `30d`, `12h` (before now), or RFC 3339")] = None,
    until: Annotated[Moment | None, Query(description="only requests before then; same forms")] = None,
    kubernetes_version: Annotated[str, Query(max_length=20, description="the API server's minor version")] = words_of(DEFAULT),
    calibrate: Annotated[bool, Query(description="also replay the policies in force, and compare with the record")] = False,
    exemptions: Annotated[
        bool, Query(description="also look for exemptions with which a policy could deny, and the way there")
    ] = True,
    rule: Rules = [],  # noqa: B006  # FastAPI copies it
    other_authorizers: Annotated[
        OtherAuthorizers | None, Query(description="what the clusters have in addition to RBAC; without it, what the log shows")
    ] = None,
    only: Annotated[bool, Query(description="the given roles and bindings replace all others in the cluster")] = False,
) -> Response:
    """Start a replay of the manifests in the body over the recorded requests. The answer names it; it goes on after the answer.

    The kind of a manifest says which stage judges by it. Each stage has a run of its own: `runs` names them by stage, once they
    are planned, and `run_id` is the first of them.
    """
    now = datetime.now(UTC)
    window = parse_time("since", since, now), parse_time("until", until, now)
    if window[0] is not None and window[1] is not None and window[0] >= window[1]:
        raise InputError(f"since: {since} is not before until={until}", "give an earlier one")
    version = parse_version(kubernetes_version)
    policies = await posted(request)
    order = Order(
        policies,
        *window,
        kubernetes_version=version,
        calibrate=calibrate,
        exemptions=exemptions,
        rules=asdict(ReadinessRules.written(rule, "rule")) if rule else {},
        other_authorizers=other_authorizers,
        only=only,
    )
    return await started(request, jobs, order)


@router.post("/gates", status_code=202, openapi_extra=_GATE)
async def start_gate(request: Request, jobs: Working) -> Response:
    """Start a gate: may these manifests be put into force, or do they deny anything new? The answer names its replay.

    The replay goes on afterwards.

    `hindcast gate --server` asks this way. The body is JSON: `policies` and `against` are lists of pairs of a file's name and its
    text; `renamed`, `since`, `until`, `kubernetes_version`, `rules`, `review_by`, `calibrate`, `redact`, `counterexamples_max`,
    `other_authorizers` and `only` may stand next to them. Follow and cancel it under `/replays/{job_id}`.
    """
    body = await _posted(request, ("application/json",), _GATE_BYTES_MAX)
    question = GateQuestion.from_json(body.encode())
    if not question.policies:
        raise InputError("the question has no policies", "send the name and the text of each file under `policies`")
    return await started(request, jobs, Order(gate=question.to_json()))


@router.get("/gates/{job_id}")
async def show_gate(asker: Asking, jobs: Working, job_id: JobId) -> Response:
    """Show the answer to a gate once its replay is finished.

    It has the report, its window in words, and under `defects` the policies that Hindcast failed to judge.
    """
    job = jobs.get(job_id)
    if not job.gate_digest:
        raise NotFoundError(f"replay {job_id} is not a gate", "its run has a report of its own")
    found = kept_gate(asker.lake, job.run_id, job.gate_digest) if job.run_id and job.state is State.FINISHED else None
    if found is None:
        hint = "ask again when it is finished, or start it again"
        raise NotFoundError(f"gate {job_id} has no answer: its replay is {job.state}", hint)
    return Response(found, media_type="application/json")


async def started(request: Request, jobs: Jobs, order: Order) -> Response:
    """The job of an order, or the error of its policies.

    A client that went away meanwhile never learns its name, so the job ends.
    """
    await jobs.check(order)
    reader = request.scope.get("state", {}).get("reader")
    job = await jobs.settled(jobs.start(order, reader.name if reader else "anyone"), _SETTLE_SECONDS)
    if job.state is State.FAILED and (error := job.error) is not None:
        return error_response(STATUS_BY_CODE.get(error["code"], 400), error["code"], error["message"], error["hint"])
    if await request.is_disconnected():
        await jobs.cancel(job.job_id)
    response = json_response(job.document(), 202)
    response.headers["Location"] = f"{PREFIX}/replays/{job.job_id}"
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
    """Follow a replay until it is over. Each change sends a server-sent event named `replay`."""
    job = jobs.get(job_id)
    return StreamingResponse(_told(jobs, job), media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})


@router.delete("/replays/{job_id}")
async def cancel_replay(jobs: Working, job_id: JobId) -> Response:
    """Cancel a replay. Its finished parts are kept: started again, it goes on from there. A finished replay stays as it is."""
    return json_response((await jobs.cancel(job_id)).document())


async def _told(jobs: Jobs, job: Job) -> AsyncIterator[bytes]:
    async for changed in jobs.changes(job, _HEARTBEAT_SECONDS):
        yield b": still there\n\n" if changed is None else b"event: replay\ndata: " + json_bytes(changed.document()) + b"\n\n"


async def posted(request: Request) -> str:
    """The manifests in the body as text. Raises WrongTypeError, TooLargeError, InputError."""
    return await _posted(request, _MEDIA_TYPES, BYTES_MAX)


async def _posted(request: Request, media_types: tuple[str, ...], bytes_max: int) -> str:
    """The body as text. Raises WrongTypeError, TooLargeError, InputError."""
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type not in media_types:
        found = ascii(media_type)[:60] if media_type else "none"
        raise WrongTypeError(f"Content-Type: found {found}, wanted one of {', '.join(media_types)}", "send manifests")
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > bytes_max:
            raise TooLargeError(
                f"the body is larger than {bytes_max:,} bytes", "send fewer policies at a time, without other objects"
            )
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"the body is not UTF-8 at byte {error.start}", "send YAML or JSON") from None
