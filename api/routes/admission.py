"""POST /admission/{cluster}: a validating webhook that records what admission saw, and allows every request.

The answer is sent once the review is on disk. Its audit annotation names the review in the audit event of the request: the name has
the uid, because admission may run several times for a request, and the first value of a name stays (kubernetes/apiserver
pkg/audit/context.go). Where a review cannot be stored the request is allowed without the annotation.
"""

from __future__ import annotations

from typing import Any

import msgspec
import structlog
from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response

from ingest.sink import Accepted

from ..error_answers import error_response
from .audit import stored

router = APIRouter()
_log = structlog.get_logger("hindcast.admission")


class _Request(msgspec.Struct):
    uid: str


class _Review(msgspec.Struct, rename="camel"):
    request: _Request
    api_version: str = "admission.k8s.io/v1"


_review = msgspec.json.Decoder(_Review)


@router.post("/admission/{cluster}")
@router.post("/admission/{cluster}/{token}")
async def record(request: Request, cluster: str, token: str | None = None) -> Response:
    """Record one AdmissionReview of a cluster and allow its request; another status than 200 where none could be read.

    The API servers of managed clusters show a webhook no identity, so the path may have the token.
    """
    result = await stored(request, cluster, is_review=True, token=token)
    if isinstance(result, Response):
        return result
    body, accepted = result
    try:
        review = _review.decode(body)
    except (ValueError, RecursionError) as error:
        return error_response(400, "not_a_review", f"the body is not an AdmissionReview with a request: {error}", "post one")
    answer: dict[str, Any] = {"uid": review.request.uid, "allowed": True}
    if isinstance(accepted, Accepted):
        answer["auditAnnotations"] = {f"review-{review.request.uid}": ""}
    else:
        _log.warning("review_not_stored", cluster=cluster[:80], reason=accepted.reason, message=accepted.message)
    return JSONResponse({"kind": "AdmissionReview", "apiVersion": review.api_version, "response": answer})
