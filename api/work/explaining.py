"""Finds the recorded request of an explanation, and reports a question without a unique answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, TypeAlias

from ingest.errors import EvidenceError, InputError
from pipeline.authorization import OtherAuthorizers
from pipeline.readiness.explaining.explain import Asked, explain_request, policies_met
from pipeline.readiness.explaining.explanation import Explanation, NotExplained
from queries import LakeReader

from ..errors import NotFoundError

_IDS_SHOWN = 5
_NAMES_SHOWN = 30
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


def explain_one(
    reader: LakeReader, wanted: Wanted, asked: Asked, other_authorizers: OtherAuthorizers | None = None
) -> list[Explanation]:
    """The explanation of one request; several if it deleted a collection.

    Raises NotFoundError for an audit ID that the lake does not have. Raises InputError where several requests have it or no policy
    has an asked name. Raises EvidenceError for a request that a replay leaves out.
    """
    cluster, moment = _request(reader, wanted)
    if other_authorizers is not None:
        asked = replace(asked, other_authorizers={cluster: other_authorizers})
    found = [each for each in explain_request(reader, cluster, wanted.audit_id, asked) if each.ts == moment]
    made = [each for each in found if isinstance(each, Explanation)]
    for each in found:
        if isinstance(each, NotExplained):
            hint = each.remedy or "no policy can be asked about it"
            raise EvidenceError(f"request {wanted.audit_id} was not replayed: {each.reason}", hint)
    _check_names(reader, cluster, wanted, asked, made)
    return made


# Explains one request at a time, by cluster, audit ID and moment.
OfStage: TypeAlias = Callable[[str, str, datetime], Sequence[Explanation | NotExplained]]


def explain_stage(reader: LakeReader, wanted: Wanted, names: frozenset[str], explain: OfStage) -> list[Explanation]:
    """The explanation of one request by a stage other than that of validating policies; raises as `explain_one` does."""
    cluster, moment = _request(reader, wanted)
    found = explain(cluster, wanted.audit_id, moment)
    for each in found:
        if isinstance(each, NotExplained):
            raise EvidenceError(f"request {wanted.audit_id} was not replayed: {each.reason}", each.remedy)
    made = [each for each in found if isinstance(each, Explanation)]
    if not made:
        raise EvidenceError(f"request {wanted.audit_id} was not replayed: it ended before this stage, or had nothing for it")
    if not any(each.policies for each in made):
        if names:
            raise InputError(
                f"policy: {', '.join(sorted(names))} is not among those of this stage", "leave out --policy to see all"
            )
        raise EvidenceError("the log shows none of this stage at the time of the request", "give them with -f")
    return made


def _check_names(reader: LakeReader, cluster: str, wanted: Wanted, asked: Asked, made: list[Explanation]) -> None:
    named = {entry.policy for each in made for entry in each.policies}
    missing = sorted(asked.names - named)
    if missing or not named:
        there = sorted(policies_met(reader, cluster, wanted.audit_id, asked))
        shown = ", ".join(there[:_NAMES_SHOWN]) or "none"
        which = "were given" if asked.policies is not None else "were in force at the time of the request"
        if missing:
            raise InputError(f"policy: {', '.join(missing)} is not among the policies", f"these {which}: {shown}")
        raise EvidenceError(
            "neither the log nor a snapshot shows a policy that was in force at the time of the request",
            "give policies: with -f, over HTTP in the body of a POST",
        )


def _request(reader: LakeReader, wanted: Wanted) -> tuple[str, datetime]:
    """The cluster and time of a request that ended. Raises NotFoundError, InputError, EvidenceError."""
    found = one_request(reader, wanted)
    if not found["finished"]:
        raise EvidenceError(
            f"request {wanted.audit_id} was not replayed: its stage ResponseComplete is not recorded",
            "ingest the rest of the log; an audit policy may also omit that stage",
        )
    return found["cluster"], found["ts"]


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
