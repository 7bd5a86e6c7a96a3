"""/api/v1/requests/{cluster}/{audit_id}/explain: the reasons for policies' verdicts on one recorded request."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query, Request
from fastapi.responses import Response

from pipeline.authorization import OtherAuthorizers
from pipeline.explaining.explanation import Explanation
from pipeline.stages.names import DEFAULT as DEFAULT_STAGE

from ..ask.formats import MEDIA_TYPES, RowFormat
from ..ask.questions import Names
from ..asked_values import parse_version
from ..state import Explaining
from ..work.explanations import Question, StageName
from .answers import PREFIX, known_parameters
from .jobs import POSTED, posted

router = APIRouter(prefix=PREFIX, tags=["explanations"], dependencies=[Depends(known_parameters)])

Cluster = Annotated[str, Path(max_length=1_000, description="the cluster's name, as its events were ingested")]
AuditId = Annotated[str, Path(max_length=1_000, description="auditID of the request, as recorded")]
Policies = Annotated[Names, Query(description="explain only the policy, webhook or configuration of this name; repeatable")]
At = Annotated[datetime | None, Query(description="when the request was received, where several have that auditID (RFC 3339)")]
Version = Annotated[
    str | None, Query(max_length=20, description="the API server's minor version; without it that of the run, or 1.36")
]

Others = Annotated[
    OtherAuthorizers | None,
    Query(description="what the cluster has in addition to RBAC; without it that of the run, or what the log shows"),
]


@dataclass(frozen=True, slots=True)
class Explained:
    """The explanations of one request: one, or several where it deleted a collection."""

    explanations: list[Explanation]


@router.get("/requests/{cluster}/{audit_id}/explain", response_model=Explained)
async def explain_request(
    explaining: Explaining,
    cluster: Cluster,
    audit_id: AuditId,
    run: Annotated[
        str | None,
        Query(
            pattern="^[0-9a-f]{16}$",
            description="explain with the policies, webhooks or mutating policies of this run; without it, with those in force",
        ),
    ] = None,
    stage: Annotated[
        StageName, Query(description="without `run`: the stage to explain, with the rules in force at the time of the request")
    ] = DEFAULT_STAGE,
    policy: Policies = [],  # noqa: B006  # FastAPI copies it
    at: At = None,
    kubernetes_version: Version = None,
    other_authorizers: Others = None,
) -> Response:
    """Explain the verdicts on one request. The policies are those of a run, or those in force at the time of the request.

    A run may be of policies, webhooks or mutating policies; `stage` chooses among those that were in force.

    For each policy: the expressions with the value of each operand, the fields that decided, and the params. Then the unknown parts
    with their remedies, and the nearest change that passes. `facts` are the steps of a webhook (rule, selectors, reach, what the
    log says) and the changes of a mutating policy. `pieces` are the judged object, the old object and the namespace, each
    with its source and grade, or the reason why it is unknown.
    """
    version = parse_version(kubernetes_version) if kubernetes_version else None
    question = Question(
        cluster,
        audit_id,
        _moment(at),
        run,
        names=tuple(policy),
        kubernetes_version=version,
        other_authorizers=other_authorizers,
        stage=stage,
    )
    return Response(await explaining.body(question), media_type=MEDIA_TYPES[RowFormat.JSON])


@router.post("/requests/{cluster}/{audit_id}/explain", response_model=Explained, openapi_extra=POSTED)
async def explain_request_with(
    request: Request,
    explaining: Explaining,
    cluster: Cluster,
    audit_id: AuditId,
    policy: Policies = [],  # noqa: B006  # FastAPI copies it
    at: At = None,
    kubernetes_version: Version = None,
    other_authorizers: Others = None,
) -> Response:
    """Explain the verdicts of the policies, webhooks and mutating policies in the body on one request.

    The answer has the form of GET's, with an explanation of each stage that the body has manifests of.
    """
    version = parse_version(kubernetes_version) if kubernetes_version else None
    text = await posted(request)
    question = Question(
        cluster,
        audit_id,
        _moment(at),
        policies=text,
        names=tuple(policy),
        kubernetes_version=version,
        other_authorizers=other_authorizers,
    )
    return Response(await explaining.body(question), media_type=MEDIA_TYPES[RowFormat.JSON])


def _moment(at: datetime | None) -> str | None:
    return None if at is None else (at.replace(tzinfo=UTC) if at.tzinfo is None else at).isoformat()
