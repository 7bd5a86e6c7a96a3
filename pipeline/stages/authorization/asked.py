"""The distinct questions of recorded requests: SQL groups the requests, and each question is judged once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import pyarrow as pa

from ingest.schema import EVENTS
from queries import LakeReader
from queries.reach_rules import AUTHORIZER_REASON, DECISION

from ...history.event import Event, Row
from .questions import Identity, identity_of
from .sql import statement

# How many rows are held at a time.
_BATCH_ROWS = 4096
_EPOCH, _MICROSECOND = datetime(1970, 1, 1, tzinfo=UTC), timedelta(microseconds=1)
_NO_COLUMNS: Mapping[str, Any] = dict.fromkeys(EVENTS.names)


class Question(NamedTuple):
    """Requests that need the same permissions, were decided alike, and met the same roles.

    `event` has the columns of `events` that decide; its bodies only where they do. `epoch` counts the changes of roles and bindings
    before. `example` is the auditID of the first request. `constraint` is the verb by which an impersonation was allowed; empty for
    the legacy one.
    """

    number: int
    event: Event
    identity: Identity
    epoch: int
    requests: int
    first_ts: datetime
    last_ts: datetime
    example: str
    constraint: str = ""


def asked_questions(
    reader: LakeReader,
    since: datetime | None = None,
    until: datetime | None = None,
    *,
    user: str | None = None,
    moments: Mapping[str, Iterable[datetime]] | None = None,
) -> Iterator[Question]:
    """The distinct questions of the requests received from `since` on and before `until`, by the time of their first request.

    `user` takes only the requests of that user, also those in which the user acted as another, or another as the user. `moments`
    are the times, by cluster, at which roles or bindings changed: requests on both sides of one are distinct.
    Leaves a table `asked` in the reader's connection, one row per request.
    """
    register_moments(reader, moments or {})
    reader.connection.execute(statement("asked"), {"since": since, "until": until, "user": user})
    bodies = {_own(row): row for row in _rows(reader, statement("bodies"))}
    for row in _rows(reader, statement("distinct")):
        found = bodies.get(row["own"]) if row["own"] else None
        full = dict(found) if found is not None else _row_of(row)
        yield Question(
            row["number"],
            Event.from_row(full),
            identity_of(full),
            row["epoch"] or 0,
            row["requests"],
            row["first_ts"],
            row["last_ts"],
            row["example"],
            row["impersonation_constraint"] or "",
        )


def register_moments(reader: LakeReader, moments: Mapping[str, Iterable[datetime]]) -> None:
    """Make the changes of roles and bindings known to the reader's SQL, as a table `rbac_moments`."""
    rows = [(cluster, moment, number) for cluster, found in moments.items() for number, moment in enumerate(sorted(found), 1)]
    columns: list[pa.Array[Any]] = [
        pa.array([row[0] for row in rows], pa.string()),
        pa.array([row[1] for row in rows], pa.timestamp("us", "UTC")),
        pa.array([row[2] for row in rows], pa.int64()),
    ]
    reader.connection.register("given_moments", pa.Table.from_arrays(columns, names=["rbac_cluster", "since", "epoch"]))
    reader.connection.execute("CREATE OR REPLACE TEMP TABLE rbac_moments AS FROM given_moments")
    reader.connection.unregister("given_moments")


def _rows(reader: LakeReader, query: str) -> Iterator[dict[str, Any]]:
    for batch in reader.sql(query).to_arrow_reader(_BATCH_ROWS):
        yield from batch.to_pylist()


def _own(row: Row) -> str:
    return f"{row['audit_id']} {(row['stage_ts'] - _EPOCH) // _MICROSECOND}"


def _row_of(row: Row) -> dict[str, Any]:
    """A row of `events` with the columns that decide."""
    decision = {} if row["decision"] is None else {DECISION: row["decision"]}
    return {
        **_NO_COLUMNS,
        "cluster": row["cluster"],
        "audit_id": row["example"],
        "stage": "ResponseComplete",
        "ts": row["first_ts"],
        "stage_ts": row["first_ts"],
        "verb": row["verb"],
        "request_uri": row["uri"],
        "user_name": row["user_name"],
        "user_groups": row["user_groups"] or [],
        "user_extra": row["user_extra"],
        "impersonated_user": row["impersonated_user"],
        "api_group": row["api_group"],
        "resource": row["resource"],
        "subresource": row["subresource"],
        "code": row["code"],
        "status_message": row["message"],
        "annotations": {**decision, AUTHORIZER_REASON: row["reason"]},
        "flags": ["translated"] if row["is_translated"] else [],
    }
