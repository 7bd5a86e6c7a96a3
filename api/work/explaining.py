"""Finds the recorded request of an explanation, and reports a question without a unique answer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, NamedTuple

from ingest.errors import InputError
from ingest.reviewed import CONTRADICTS, REVIEWED
from queries import LakeReader

from ..errors import NotFoundError

_IDS_SHOWN = 5
# Of a request without an end: why it is not replayed, and what helps.
UNFINISHED = ("ResponseComplete is not recorded", "ingest the rest of the log; an audit policy may also omit that stage")
_CONTRADICTED = f"""
    SELECT unnest(from_json(review -> '$.reviews[*].audit_id', '["VARCHAR"]')) AS uid
    FROM events
    WHERE audit_id = $audit_id AND cluster = $cluster AND ts = $ts AND list_contains(flags, '{REVIEWED}')
        AND review ->> '$.unclear' = '{CONTRADICTS}'"""
_FOUND = """
    SELECT cluster, coalesce(ts, stage_ts) AS ts, bool_or(stage = 'ResponseComplete') AS finished,
        any_value(verb) AS verb, any_value(resource) AS resource
    FROM events WHERE audit_id = $audit_id GROUP BY ALL ORDER BY ts DESC, cluster"""

_BEGINNING = """
    SELECT DISTINCT audit_id FROM events WHERE starts_with(audit_id, $beginning) AND ($cluster IS NULL OR cluster = $cluster)
    ORDER BY audit_id"""
# A shorter beginning of an audit ID says nothing.
_PREFIX_MIN = 4


@dataclass(frozen=True, slots=True)
class Wanted:
    """The request: its audit ID and, where several requests have it, the cluster and the time of receipt (RFC 3339)."""

    audit_id: str
    cluster: str | None = None
    at: str | None = None


class Found(NamedTuple):
    """The request that is meant, and whether the log shows its end."""

    cluster: str
    audit_id: str
    ts: datetime
    is_finished: bool


def request_of(reader: LakeReader, wanted: Wanted) -> Found:
    """The one request that is wanted.

    Raises NotFoundError for an audit ID that the lake does not have, and InputError where several requests have it.
    """
    found = one_request(reader, wanted)
    return Found(found["cluster"], wanted.audit_id, found["ts"], found["finished"])


def unused_reviews(reader: LakeReader, request: Found) -> list[str]:
    """A sentence on each AdmissionReview that seemed to be of the request and is not used, because the log contradicts it."""
    rows = reader.rows(_CONTRADICTED, {"cluster": request.cluster, "audit_id": request.audit_id, "ts": request.ts})
    return [
        f"request {request.audit_id}: the AdmissionReview {row['uid']} is not used, because the log itself shows another object"
        for row in rows
    ]


def completed(reader: LakeReader, wanted: Wanted) -> Wanted:
    """The wanted request by its whole audit ID; the beginning of one may be given. Raises InputError where several begin so."""
    if len(wanted.audit_id) < _PREFIX_MIN or _rows(reader, wanted.audit_id):
        return wanted
    relation = reader.sql(_BEGINNING, {"beginning": wanted.audit_id, "cluster": wanted.cluster})
    found = [str(row[0]) for row in relation.fetchall()]
    if len(found) > 1:
        more = f" and {len(found) - _IDS_SHOWN:,} more" if len(found) > _IDS_SHOWN else ""
        shown = f"{', '.join(found[:_IDS_SHOWN])}{more}"
        raise InputError(f"{len(found):,} audit IDs begin with {wanted.audit_id}", f"type more of one of them: {shown}")
    return replace(wanted, audit_id=found[0]) if found else wanted


def one_request(reader: LakeReader, wanted: Wanted) -> dict[str, Any]:
    """The request: cluster, ts, and whether it is finished. Raises NotFoundError, and InputError where several may be meant."""
    rows = _rows(reader, wanted.audit_id)
    if not rows:
        raise NotFoundError(
            f"the lake has no request with audit ID {ascii(wanted.audit_id)[:80]}",
            "`hindcast violations -o wide`, `hindcast gate -o wide` and the lists of requests have audit IDs",
        )
    here = [row for row in rows if wanted.cluster in (None, row["cluster"])]
    if not here:
        clusters = ", ".join(sorted({row["cluster"] for row in rows}))
        raise NotFoundError(f"cluster {wanted.cluster!r} has no request with this audit ID", f"it is of {clusters}")
    if wanted.at is not None:
        moment = _moment(wanted.at)
        here = [row for row in here if row["ts"] == moment] or [row for row in here if row["ts"].replace(microsecond=0) == moment]
    if len(here) != 1:
        times = [f"{row['cluster']}: {row['verb']} {row['resource']} at {_text(row['ts'])}" for row in rows[:_IDS_SHOWN]]
        found = f"{len(here)} requests have audit ID {wanted.audit_id}" if here else f"no request was received at {wanted.at}"
        raise InputError(found, f"choose one by its cluster and time (at): {'; '.join(times)}")
    return here[0]


def _rows(reader: LakeReader, audit_id: str) -> list[dict[str, Any]]:
    relation = reader.sql(_FOUND, {"audit_id": audit_id})
    return [dict(zip(relation.columns, row, strict=True)) for row in relation.fetchall()]


def _moment(text: str) -> datetime:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise InputError(f"at: {text!r} is not a time", "write it as 2026-11-21T03:24:15Z") from None
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)


def _text(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")
