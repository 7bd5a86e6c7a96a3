"""The distinct questions of recorded requests: SQL groups the requests, and each question is judged once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

import pyarrow as pa

from ingest.notes import REDACTED, WORDING
from ingest.schema import EVENTS
from queries import LakeReader
from queries.reach_rules import AUTHORIZER_REASON, DECISION

from ...history.event import Event, Row
from .questions import Identity, identity_of
from .sql import statement

# How many rows are held at a time.
_BATCH_ROWS = 4096
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# See sql/asked.sql.
_UNTOLD = "?"
_NO_COLUMNS: Mapping[str, Any] = dict.fromkeys(EVENTS.names)


class Question(NamedTuple):
    """Requests that need the same permissions, and that were decided alike.

    `event` has the columns of `events` that decide; its bodies only where they do. `example` is the auditID of the first request.
    `constraint` is the verb by which an impersonation was allowed; empty for the legacy one, None where the log does not tell.
    """

    event: Event
    identity: Identity
    requests: int
    first_ts: datetime
    last_ts: datetime
    example: str
    constraint: str | None = ""


def asked_questions(
    reader: LakeReader, since: datetime | None = None, until: datetime | None = None, *, user: str | None = None
) -> Iterator[Question]:
    """The distinct questions of the requests received from `since` on and before `until`, by the time of their first request.

    `user` takes only the requests of that user, also those in which the user acted as another, or another as the user.
    """
    gather_asked(reader, since, until, user=user)
    return distinct_asked(reader)


def nameless_asked(reader: LakeReader) -> Iterator[Question]:
    """As `distinct_asked`. Names of objects do not count where no role of the table `rbac_named` names some."""
    return distinct_asked(reader, statement("distinct_nameless").replace("$unnamed", statement("unnamed")))


def distinct_asked(reader: LakeReader, query: str = statement("distinct")) -> Iterator[Question]:
    """The distinct questions of the table `asked`, by the time of their first request."""
    bodies = bodies_asked(reader)
    for row in _rows(reader, query):
        full = event_row(row, bodies, row["first_ts"], row["example"])
        yield Question(
            Event.from_row(full),
            identity_of(full),
            row["requests"],
            row["first_ts"],
            row["last_ts"],
            row["example"],
            None if row["impersonation_constraint"] == _UNTOLD else row["impersonation_constraint"],
        )


def gather_asked(
    reader: LakeReader, since: datetime | None = None, until: datetime | None = None, *, user: str | None = None
) -> None:
    """Leave a table `asked` in the reader's connection: one row per request of a window, with what its permissions depend on."""
    reader.connection.execute(statement("asked"), {"since": since, "until": until, "user": user})


def bodies_asked(reader: LakeReader) -> Mapping[str, Row]:
    """The rows of `events` whose bodies decide, by the column `own` of the table `asked`."""
    return {row["own"]: row for row in _rows(reader, statement("bodies"))}


def event_row(asked: Mapping[str, Any], bodies: Mapping[str, Row], ts: datetime = _EPOCH, audit_id: str = "") -> Row:
    """A row of `events` for a row of `asked` or a question: the whole one if its bodies decide, else with the columns that do."""
    if (found := bodies.get(asked["own"])) is not None:
        return found
    told = {DECISION: asked["decision"], AUTHORIZER_REASON: asked["reason"]}
    noted = {WORDING: asked["wording"], REDACTED: asked["redacted"]}
    return {
        **_NO_COLUMNS,
        "cluster": asked["cluster"],
        "audit_id": audit_id,
        "stage": "ResponseComplete",
        "ts": ts,
        "stage_ts": ts,
        "verb": asked["verb"],
        "request_uri": asked["uri"],
        "user_name": asked["user_name"],
        "user_groups": asked["user_groups"],
        "user_extra": asked["user_extra"] or None,
        "impersonated_user": asked["impersonated_user"] or None,
        "api_group": asked["api_group"],
        "api_version": asked["version"],
        "resource": asked["resource"],
        "subresource": asked["subresource"],
        "namespace": asked["namespace"],
        "name": asked["name"],
        "code": asked["code"],
        "status_message": asked["message"],
        "annotations": {name: value for name, value in told.items() if value or name == AUTHORIZER_REASON},
        "notes": {name: value for name, value in noted.items() if value},
        "flags": [],
    }


# No recorded role allows only some names of the resource, and redaction replaced none. A Node's permissions depend on the names of
# the objects that its Pods use.
NAME_BLIND = "NOT starts_with(user_name, 'system:node:') AND " + statement("unnamed")


def passes_sql(is_only: bool, is_name_blind: bool | str, *, with_creates: bool = False) -> str:
    """The SQL of the passes: see sql/passes.sql.

    `is_only`: the files replace all roles. `is_name_blind`: no outcome depends on the name of an object; or a condition for that.
    """
    given = {"$is_only": str(is_only), "$is_name_blind": f"({is_name_blind})", "$with_creates": str(with_creates)}
    found = statement("passes")
    for name, value in given.items():
        found = found.replace(name, value)
    return found


def register_named(reader: LakeReader, named: Mapping[str, Iterable[tuple[str, str]]]) -> None:
    """Make known to the reader's SQL, as a table `rbac_named`, the resources whose names some roles tell apart: by cluster."""
    rows = [(cluster, group, resource) for cluster, found in named.items() for group, resource in sorted(found)]
    columns = [pa.array([row[at] for row in rows], pa.string()) for at in range(3)]
    reader.put_table("rbac_named", pa.Table.from_arrays(columns, names=["cluster", "api_group", "resource"]))


def register_moments(reader: LakeReader, moments: Mapping[str, Iterable[datetime]]) -> None:
    """Make the changes of roles and bindings known to the reader's SQL, as a table `rbac_moments`."""
    rows = [(cluster, moment, number) for cluster, found in moments.items() for number, moment in enumerate(found, 1)]
    columns: list[pa.Array[Any]] = [
        pa.array([row[0] for row in rows], pa.string()),
        pa.array([row[1] for row in rows], pa.timestamp("us", "UTC")),
        pa.array([row[2] for row in rows], pa.int64()),
    ]
    reader.put_table("rbac_moments", pa.Table.from_arrays(columns, names=["rbac_cluster", "since", "epoch"]))


def register_settled(reader: LakeReader, settled: Iterable[tuple[str, str]]) -> None:
    """Make the reasons that stand at any time known to the reader's SQL, by cluster, as a table `settled_reasons`."""
    rows = list(settled)
    columns: list[pa.Array[Any]] = [pa.array([row[place] for row in rows], pa.string()) for place in (0, 1)]
    reader.put_table("settled_reasons", pa.Table.from_arrays(columns, names=["cluster", "reason"]))


def _rows(reader: LakeReader, query: str) -> Iterator[dict[str, Any]]:
    for batch in reader.sql(query).to_arrow_reader(_BATCH_ROWS):
        yield from batch.to_pylist()
