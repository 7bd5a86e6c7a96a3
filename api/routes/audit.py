"""POST /audit/{cluster}: the audit webhook of a kube-apiserver. 200 means that every event of the body is on disk."""

from __future__ import annotations

import asyncio
import time
from contextvars import copy_context

import structlog
from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response
from starlette.requests import ClientDisconnect

from ingest.sink import Refused

from ..errors import error_response
from ..services import Services, services_of

router = APIRouter()

# The rest of a body that was refused is received and thrown away, so that its sender gets to read the answer.
_DISCARDED_BYTES_MAX = 1 << 30

_log = structlog.get_logger("hindcast.audit")


@router.post("/audit/{cluster}")
async def receive(request: Request, cluster: str) -> Response:
    """Store one EventList of a cluster. Anything but 200 means that nothing of it is promised, and the sender should repeat it."""
    services = services_of(request)
    refusal = _refuse_sender(services, request, cluster) or _refuse_form(services, request)
    if refusal is not None:
        return refusal
    body_bytes = int(request.headers["content-length"])
    with services.sink.flight(cluster, body_bytes) as full:
        if full is not None:
            return _refused(cluster, full, body_bytes)
        try:
            async with asyncio.timeout(services.settings.body_seconds_max):
                body = await _received(request, body_bytes)
        except TimeoutError:
            limit_seconds = services.settings.body_seconds_max
            return _rejected(services, 408, "body_too_slow", f"the body took longer than {limit_seconds} s to arrive")
        except ClientDisconnect:
            return _rejected(services, 400, "disconnected", "the sender went away before the body was whole")
        loop = asyncio.get_running_loop()
        # A sender that goes away does not stop this: what was begun is stored, and its repetition will be found to be one.
        in_context = copy_context().run  # so that what is logged there carries the request's id
        executor = services.executor_for(body_bytes)
        result = await loop.run_in_executor(executor, in_context, services.sink.accept, cluster, body, time.time())
    if isinstance(result, Refused):
        return _refused(cluster, result)
    return JSONResponse({"events": result.events, "quarantined": result.quarantined, "duplicate": result.duplicate})


async def _received(request: Request, body_bytes: int) -> bytearray:
    """The body, in one block from the start: joining its pieces would take the memory of every body twice."""
    body = bytearray(body_bytes)
    offset = 0
    async for piece in request.stream():
        body[offset : offset + len(piece)] = piece
        offset += len(piece)
    return body


def _refuse_sender(services: Services, request: Request, cluster: str) -> Response | None:
    """Whether the sender may write as this cluster."""
    certificate_name = request.scope.get("state", {}).get("certificate_name")
    if services.identities is None and (services.settings.client_ca is None or certificate_name is not None):
        return None
    clusters = _clusters_of(services, request, certificate_name)
    if cluster in clusters:
        return None
    services.metrics.batches_refused.labels("identity").inc()
    _log.warning("sender_refused", cluster=cluster[:80], known=bool(clusters), peer=request.client.host if request.client else None)
    if clusters:
        return error_response(
            403, "wrong_cluster", "this identity may not write as this cluster", "correct the URL or the identities file"
        )
    response = error_response(
        401, "no_identity", "no known token or client certificate was shown", "set it in the webhook's kubeconfig"
    )
    response.headers["WWW-Authenticate"] = "Bearer"
    return response


def _clusters_of(services: Services, request: Request, certificate_name: str | None) -> frozenset[str]:
    if services.identities is None:
        return frozenset()
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    return services.identities.clusters_of(token.strip() if scheme.lower() == "bearer" else None, certificate_name)


def _refuse_form(services: Services, request: Request) -> Response | None:
    """Whether the request has the form in which an API server sends."""
    headers = request.headers
    encoding = headers.get("content-encoding", "identity")
    if encoding.strip().lower() not in ("identity", ""):
        return _rejected(
            services,
            415,
            "encoded_body",
            f"content encoding {encoding[:40]!r} is not taken",
            "send the body as it is; an API server does",
        )
    # A browser sends this type across origins only after asking, so no web page can post events to a sink on loopback.
    media_type = headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/json":
        return _rejected(services, 415, "not_json", f"content type {media_type[:40]!r} is not application/json")
    if not headers.get("content-length", "").isdecimal():
        return _rejected(
            services, 411, "no_length", "the request does not say how long its body is", "send Content-Length; an API server does"
        )
    return None


def _rejected(services: Services, status: int, code: str, message: str, hint: str = "") -> Response:
    """A refusal of what never came to the sink."""
    services.metrics.batches_refused.labels(code).inc()
    return error_response(status, code, message, hint)


def _refused(cluster: str, refusal: Refused, body_bytes: int = 0) -> Response:
    _log.warning("batch_refused", cluster=cluster[:80], reason=refusal.reason, message=refusal.message)
    response = error_response(
        refusal.status, refusal.reason, refusal.message, refusal.hint, retry_after_seconds=refusal.retry_after_seconds
    )
    if body_bytes > _DISCARDED_BYTES_MAX:
        # Closing at once resets the connection, and its sender never learns why. Beyond this size that is its own affair.
        response.headers["Connection"] = "close"
    return response
