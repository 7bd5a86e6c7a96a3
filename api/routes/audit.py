"""POST /audit/{cluster}: the audit webhook of a kube-apiserver. 200 means that every event of the body is on disk."""

from __future__ import annotations

import asyncio

import structlog
from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response
from starlette.requests import ClientDisconnect

from ingest.flight import Flight
from ingest.sink import Accepted, Refused

from ..error_answers import error_response
from ..sink.services import Services, services_of

router = APIRouter()

# The rest of a refused body is received and dropped, so that its sender gets to read the answer.
_DISCARDED_BYTES_MAX = 1 << 30
# A slow body holds its request open at most this long, plus the time that its received bytes earn.
_GRACE_SECONDS = 5.0
_BYTES_PER_SECOND_MIN = 64 * 1024
_STEP_BYTES = 256 * 1024  # this many bytes count at one time, before they arrive
_BLOCK_BYTES = 2 * 1024 * 1024  # usually enough for a batch of an API server

_log = structlog.get_logger("hindcast.audit")


@router.post("/audit/{cluster}")
async def receive(request: Request, cluster: str) -> Response:
    """Store one EventList of a cluster. With any status but 200 no event of it is promised, and the sender should repeat it."""
    result = await stored(request, cluster)
    if isinstance(result, Response):
        return result
    _, accepted = result
    if isinstance(accepted, Refused):
        return _refused(cluster, accepted)
    return JSONResponse({"events": accepted.events, "quarantined": accepted.quarantined, "duplicate": accepted.duplicate})


async def stored(
    request: Request, cluster: str, *, is_review: bool = False, token: str | None = None
) -> tuple[bytearray, Accepted | Refused] | Response:
    """Receive and store the body of a cluster's API server; a response where no body was received. `token` is that of the path."""
    services = services_of(request)
    refusal = _refuse_sender(services, request, cluster, token, is_review) or _refuse_form(services, request)
    if refusal is not None:
        return refusal
    body_bytes = int(request.headers["content-length"])
    sender = _sender(services, request, cluster)
    _admit(request, sender)
    with services.sink.flight(cluster, body_bytes, sender) as flight:
        if isinstance(flight, Refused):
            return _refused(cluster, flight, body_bytes)
        try:
            body = await _received(request, body_bytes, flight, services.settings.body_seconds_max)
        except TimeoutError:
            limit = f"{services.settings.body_seconds_max} s, and {_BYTES_PER_SECOND_MIN} bytes a second after {_GRACE_SECONDS} s"
            return _rejected(services, 408, "body_too_slow", f"the body arrived too slowly; the limit is {limit}")
        except _NoRoomError as error:
            return _refused(cluster, services.sink.no_room(str(error)), body_bytes)
        except ClientDisconnect:
            return _rejected(services, 400, "disconnected", "the sender went away before the body was whole")
        # A sender that goes away does not stop this: a begun batch is stored, and its repetition is recognised as one.
        return body, await services.accept(cluster, body, sender, is_review=is_review)


async def _received(request: Request, body_bytes: int, flight: Flight, seconds_max: float) -> bytearray:
    """The body in one block; joining pieces would take twice the memory.

    Raises TimeoutError for a body that arrives too slowly, and _NoRoomError when too many bytes are in memory.
    """
    # A large body may be announced and never come, so its block grows with the received bytes.
    body = bytearray(min(body_bytes, _BLOCK_BYTES))
    offset = counted = 0
    started = asyncio.get_running_loop().time()
    async with asyncio.timeout_at(started + min(seconds_max, _GRACE_SECONDS)) as limit:
        async for piece in request.stream():
            if offset + len(piece) > counted:
                step = max(min(_STEP_BYTES, body_bytes - counted), offset + len(piece) - counted)
                if why := flight.take(step):
                    raise _NoRoomError(why)
                counted += step
                limit.reschedule(started + min(seconds_max, _GRACE_SECONDS + offset / _BYTES_PER_SECOND_MIN))
            body[offset : offset + len(piece)] = piece
            offset += len(piece)
    return body


class _NoRoomError(Exception):
    """Too many bytes of bodies are in memory."""


def _sender(services: Services, request: Request, cluster: str) -> str:
    """The sender to which the sink's shares apply: its proven identity, or else the address and the cluster that it names."""
    if services.identities is not None:
        return cluster
    certificate_name = request.scope.get("state", {}).get("certificate_name")
    peer = request.client.host if request.client else ""
    return f"{certificate_name or peer} {cluster[:80]}"


def _admit(request: Request, sender: str) -> None:
    """Mark the connection as one whose sender may write, so that it is not closed in favour of others."""
    admit = request.scope.get("state", {}).get("admit")
    if admit is not None:
        admit(sender)


def _refuse_sender(services: Services, request: Request, cluster: str, token: str | None, is_review: bool) -> Response | None:
    """Whether the sender may write as this cluster."""
    certificate_name = request.scope.get("state", {}).get("certificate_name")
    if services.identities is None and (services.settings.client_ca is None or certificate_name is not None):
        return None
    clusters = _clusters_of(services, request, certificate_name, token, is_review)
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


def _clusters_of(
    services: Services, request: Request, certificate_name: str | None, path_token: str | None, is_review: bool
) -> frozenset[str]:
    if services.identities is None:
        return frozenset()
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    shown = path_token or (token.strip() if scheme.lower() == "bearer" else None)
    return services.identities.clusters_of(shown, certificate_name, is_review=is_review)


def _refuse_form(services: Services, request: Request) -> Response | None:
    """Whether the request has the form of an API server's request."""
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
    # A browser sends this type across origins only after a preflight request, so no web page can post events to a sink on loopback.
    media_type = headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/json":
        return _rejected(services, 415, "not_json", f"content type {media_type[:40]!r} is not application/json")
    if not headers.get("content-length", "").isdecimal():
        return _rejected(
            services, 411, "no_length", "the request does not say how long its body is", "send Content-Length; an API server does"
        )
    return None


def _rejected(services: Services, status: int, code: str, message: str, hint: str = "") -> Response:
    """A refusal of a request that never reached the sink."""
    services.metrics.batches_refused.labels(code).inc()
    return error_response(status, code, message, hint)


def _refused(cluster: str, refusal: Refused, body_bytes: int = 0) -> Response:
    _log.warning("batch_refused", cluster=cluster[:80], reason=refusal.reason, message=refusal.message)
    response = error_response(
        refusal.status, refusal.reason, refusal.message, refusal.hint, retry_after_seconds=refusal.retry_after_seconds
    )
    if body_bytes > _DISCARDED_BYTES_MAX:
        # Closing at once resets the connection, and its sender never learns the reason. For larger bodies that is accepted.
        response.headers["Connection"] = "close"
    return response
