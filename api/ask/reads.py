"""The questions of the read API and the pages to a lake: one typed function per question, each with a bounded result.

Every function takes a `Source`, which is one thread's session. Values of callers are bound as parameters; texts of SQL come only
from the tables in questions.py. Raises InputError for mistakes that a caller can correct, EvidenceError if the lake lacks the
evidence, LakeError if the lake cannot be read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import chain
from typing import Any

import pyarrow as pa

from ingest.errors import InputError
from pipeline.history.in_force import InForce, PolicyTimeline
from pipeline.request import Known
from queries import DIMENSIONS, rollup_columns

from ..stored_runs import Run, run, run_plan, runs
from .kept import history_of
from .listing import Listing, Page, Parameters, Source, conditions, counted_page, holding, keyset_page, rows_of
from .questions import LARGE_LIMIT_MAX, VIEWS, Filters, Paging, RollupFilters, TimeFilters, TimePaging
from .run_reads import readiness, verdicts_page

__all__ = [
    "Page",
    "RequestDetail",
    "Run",
    "Source",
    "clusters",
    "policies",
    "readiness",
    "request_details",
    "rollup_page",
    "run",
    "run_plan",
    "runs",
    "table_page",
    "verdicts_page",
    "view_count",
    "view_page",
]

# A client may choose an auditID and repeat it as often as it likes.
SAME_ID_MAX = 10
# An API server ends a write that takes longer than a minute (--request-timeout); clocks may differ.
_ANSWERED_WITHIN = timedelta(hours=1)
# How far back to search for the version before a request. Near times come first, because it is mostly near.
_LOOK_BACK = (timedelta(hours=1), timedelta(days=1), timedelta(days=30))


@dataclass(frozen=True, slots=True)
class RequestDetail:
    """One audit request with all its recorded data. Objects are JSON texts as recorded, None if not recorded.

    `old_object` is the newest recorded version of the same object in the month before the request, with its time. It is the object
    that the request met, if no unrecorded write came between.
    """

    request: Mapping[str, Any]
    events: Sequence[Mapping[str, Any]]
    violations: Sequence[Mapping[str, Any]]
    old_object: str | None
    old_object_ts: datetime | None
    new_object: str | None


def view_page(source: Source, name: str, filters: TimeFilters, paging: TimePaging, *, large: bool = False, find: str = "") -> Page:
    """One page of a view in questions.VIEWS (events, requests, violations, denials), newest first unless asked otherwise.

    `large` adds the columns that cost most: bodies, and the workloads, which come from bodies; such pages are shorter. `find` keeps
    rows whose texts contain it.
    """
    view = VIEWS[name]
    parameters = Parameters()
    where = conditions(filters, parameters)
    where += [holding(find, view.texts, parameters)] if find else []
    left_out = "" if large or not view.large else f" EXCLUDE ({', '.join(view.large)})"
    listing = Listing(name, view.keys, name, f"SELECT *{left_out} FROM {name}", where)
    return keyset_page(source, listing, parameters, paging, LARGE_LIMIT_MAX if large else paging.limit)


def view_count(source: Source, name: str, filters: TimeFilters, at_most: int = 10_001) -> int:
    """How many rows of a view there are, counted up to `at_most`."""
    parameters = Parameters()
    where = conditions(filters, parameters)
    text = f"SELECT count(*) AS rows FROM (SELECT 1 FROM {VIEWS[name].name} WHERE {' AND '.join(where)} LIMIT {int(at_most)})"
    return int(rows_of(source, text, parameters)[0]["rows"])


def rollup_page(source: Source, by: Sequence[str], filters: RollupFilters, paging: Paging) -> Page:
    """Recorded failures counted by some of queries.DIMENSIONS, most first; columns as LakeReader.violation_rollup.

    Raises InputError for a dimension that does not exist.
    """
    for dimension in by:
        if dimension not in DIMENSIONS:
            raise InputError(f"by: violations cannot be counted by {dimension!r}", f"use some of {', '.join(DIMENSIONS)}")
    parameters = Parameters()
    since, until = filters.window()
    window = ", ".join(parameters.bind(value) for value in (list(by), since, until))
    kept = {name: getattr(filters, field) or None for name, field in _ROLLUP_FILTERS.items()}
    given = "".join(f", {name} := {parameters.bind(values)}" for name, values in kept.items() if values)
    return counted_page(source, "rollup", f"SELECT {rollup_columns(by)} FROM violation_rollup({window}{given})", parameters, paging)


_ROLLUP_FILTERS = {
    "clusters": "cluster",
    "policies": "policy",
    "bindings": "binding",
    "namespaces": "namespace",
    "users": "user",
    "resources": "resource",
}


def table_page(source: Source, name: str, rows: pa.Table, filters: Filters, paging: Paging) -> Page:
    """One page of a small view in questions.TABLES (evidence, losses, sources, known_policies), computed whole, in the order of its
    columns.
    """
    parameters = Parameters()
    where = conditions(filters, parameters)
    source.reader.connection.register("whole_view", rows)
    try:
        text = f"SELECT * FROM whole_view WHERE {' AND '.join(where)} ORDER BY ALL"
        return counted_page(source, name, text, parameters, paging)
    finally:
        source.reader.connection.unregister("whole_view")


def clusters(source: Source) -> list[dict[str, Any]]:
    """One row per cluster: cluster, events, first_ts, last_ts."""
    text = (
        "SELECT cluster, count(*) AS events, min(ts) AS first_ts, max(ts) AS last_ts FROM events GROUP BY cluster ORDER BY cluster"
    )
    return rows_of(source, text)


def request_details(source: Source, cluster: str, audit_id: str) -> list[RequestDetail]:
    """The requests of one auditID, newest first, with bodies; usually one, because clients may choose an auditID and repeat it."""
    parameters = Parameters()
    where = f"WHERE cluster = {parameters.bind(cluster)} AND audit_id = {parameters.bind(audit_id)}"
    # Find the times first, from an index of auditIDs: then the views read few files, and few rows of them.
    text = f"SELECT ts, min(stage_ts) AS first, max(stage_ts) AS last FROM events {where} GROUP BY ts"
    times = rows_of(source, f"{text} ORDER BY ts DESC LIMIT {SAME_ID_MAX}", parameters)
    if not times:
        return []
    where += f" AND ts IN ({', '.join(parameters.bind(row['ts']) for row in times)})"
    with source.reader.between(min(row["first"] for row in times), max(row["last"] for row in times)) as near:
        found, events, violations = _recorded(replace(source, reader=near), where, parameters)
    return [_detail(source, row, events, violations) for row in found]


def _recorded(source: Source, where: str, parameters: Parameters) -> tuple[list[dict[str, Any]], ...]:
    """The requests that match some conditions, with bodies, newest first, their events, and their violations."""
    found = rows_of(
        source,
        f"SELECT *, recorded_object(response_object, request_object) AS recorded FROM requests {where} "
        f"ORDER BY ts DESC LIMIT {SAME_ID_MAX}",
        parameters,
    )
    left_out = "request_object, response_object, extra"
    events = rows_of(source, f"SELECT * EXCLUDE ({left_out}) FROM events {where} ORDER BY stage_ts, stage LIMIT 100", parameters)
    violations = rows_of(
        source, f"SELECT * FROM violations {where} ORDER BY policy, binding, expression_index LIMIT 500", parameters
    )
    return found, events, violations


def _detail(
    source: Source, request: dict[str, Any], events: Sequence[Mapping[str, Any]], violations: Sequence[Mapping[str, Any]]
) -> RequestDetail:
    recorded = request.pop("recorded")
    old, old_ts = _version_before(source, request)
    ts = request["ts"]
    return RequestDetail(
        request=request,
        events=[row for row in events if row["ts"] == ts],
        violations=[row for row in violations if row["ts"] == ts],
        old_object=old,
        old_object_ts=old_ts,
        # The body of a patch or of a delete is not an object. If the answer is not an object either, the object is unknown.
        new_object=recorded if request["verb"] in ("create", "update") or recorded == request["response_object"] else None,
    )


def _version_before(source: Source, request: Mapping[str, Any]) -> tuple[str | None, datetime | None]:
    """The newest recorded version of a request's object before the request; None if that version deleted the object."""
    if not request["resource"] or not request["name"] or request["verb"] == "create":
        return None, None
    # Requests for a Namespace name it as their namespace, but the object itself has no namespace.
    namespace = "" if request["resource"] == "namespaces" else request["namespace"] or ""
    for span in _LOOK_BACK:
        parameters = Parameters()
        named = [request["cluster"], request["api_group"] or "", request["resource"], namespace, request["name"]]
        history = f"object_history({', '.join(map(parameters.bind, named))})"
        bounds = f"ts < {parameters.bind(request['ts'])} AND ts >= {parameters.bind(request['ts'] - span)} AND NOT dry_run"
        text = f"SELECT object, ts, deleted FROM {history} WHERE {bounds} ORDER BY stage_ts DESC, position DESC LIMIT 1"
        with source.reader.between(request["ts"] - span - _ANSWERED_WITHIN, request["ts"] + _ANSWERED_WITHIN) as near:
            rows = rows_of(replace(source, reader=near), text, parameters)
        for row in rows:
            return (None, None) if row["deleted"] else (row["object"], row["ts"])
    return None, None


def policies(source: Source, cluster: str | None, at: datetime | None) -> list[dict[str, Any]]:
    """Policies and bindings in force in a cluster at a moment (now), according to log and snapshots, ordered by kind and name.

    Each has kind, name, source (where it was read), object (None if unknown), why (the reason then) and in_flight. in_flight says
    that it was changed just before, so that another version may have been in force. `cluster` may be left out if the lake has one.
    Raises InputError naming the clusters otherwise.
    """
    names = [row["cluster"] for row in rows_of(source, "SELECT DISTINCT cluster FROM events ORDER BY cluster")]
    if cluster is None and len(names) != 1:
        raise InputError(f"cluster: the lake has {', '.join(names) or 'no cluster'}", "say whose policies are meant")
    if cluster is not None and cluster not in names:
        raise InputError(f"cluster: the lake has no events of {cluster!r}", f"it has {', '.join(names) or 'none'}")
    moment = at or datetime.now(UTC)
    timeline = PolicyTimeline(history_of(source), cluster or names[0])
    kinds = (
        ("ValidatingAdmissionPolicy", timeline.policies_at(moment)),
        ("ValidatingAdmissionPolicyBinding", timeline.bindings_at(moment)),
    )
    return list(chain.from_iterable(map(_in_force, [kind] * len(found), found) for kind, found in kinds))


def _in_force(kind: str, item: InForce) -> dict[str, Any]:
    found = item.object
    known = found if isinstance(found, Known) else None
    return {
        "kind": kind,
        "name": item.name,
        "object": known.value if known else None,
        "source": known.source if known else None,
        "why": None if isinstance(found, Known) else found.reason,
        "in_flight": item.is_in_flight,
    }
