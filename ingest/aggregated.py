"""One request to an aggregated API is one event of the lake, though two servers log it.

kube-apiserver proxies such a request to an extension API server and hands on its auditID
(kubernetes/apiserver pkg/util/proxy/proxy.go). It logs an event without bodies, the outer one. The extension server authorizes the
request again, runs its own admission, and logs the inner event with the bodies. The lake keeps the inner event, with the
impersonation and the annotations that only the outer one has.

A client chooses its auditID, so an auditID alone makes no pair: see `_is_pair`.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from .schema import EVENTS

# The remark of ingestion on an inner event that took something from its outer event.
AGGREGATED = "aggregated"
# The groups that kube-apiserver serves itself, of all releases since 1.16: it proxies no request to them.
BUILT_IN_GROUPS = (
    *("", "apps", "autoscaling", "batch", "extensions", "policy"),
    *(
        f"{name}.k8s.io"
        for name in (
            *("admissionregistration", "apiextensions", "apiregistration", "auditregistration", "authentication", "authorization"),
            *("certificates", "coordination", "discovery", "events", "flowcontrol.apiserver", "internal.apiserver", "networking"),
            *("node", "rbac.authorization", "resource", "scheduling", "settings", "storage", "storagemigration"),
        )
    ),
)
# The clocks of two servers differ, but not by more than this where anything synchronizes them.
CLOCKS_APART = timedelta(milliseconds=100)
# Where the addresses prove that a proxy handed the request on, no client's repetition can look so. So clocks may differ by this.
PROVEN_APART = timedelta(seconds=5)
# An auditID that so many events share identifies nothing, and to compare all of them would take long.
SHARED_MAX = 32

IN_URI = r"^/apis/(?P<group>[^/?]+)"
_SAME = ("audit_id", "stage", "verb", "request_uri", "code", "api_group", "resource", "subresource", "namespace")
_USER = ("user_name", "user_uid", "user_groups", "user_extra", "impersonated_user")
# The remarks of ingestion on an event that had a body.
_BODY_GONE = frozenset({"truncated", "objects_expired"})
# Annotations about the outer event alone: how long the server took.
_OWN = ("apiserver.latency.k8s.io/",)

Row = dict[str, Any]


class Folding:
    """The folding of pairs among some events: `dropped` are the numbers of those that are no requests of their own, and `changed`
    has the new row of each inner event that takes something from its outer one."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self.dropped: set[int] = set()
        self.changed: dict[int, Row] = {}
        for same_id in _by_id(rows):
            if 1 < len(same_id) <= SHARED_MAX:
                self._fold(rows, same_id)

    def _fold(self, rows: Sequence[Row], numbers: Sequence[int]) -> None:
        answered = [number for number in numbers if rows[number]["code"] is not None and rows[number]["ts"] is not None]
        pairs = dict(_pairs(rows, answered))
        self.dropped |= pairs.keys()
        for outer, inner in pairs.items():
            merged = _merged(rows[outer], rows[inner])
            if merged is not rows[inner]:
                self.changed[inner] = merged
        # The outer request has events of earlier stages, too. An extension server may log fewer stages than kube-apiserver.
        ended = {rows[outer]["ts"] for outer in pairs} - {rows[inner]["ts"] for inner in pairs.values()}
        self.dropped |= {number for number in numbers if rows[number]["ts"] in ended}


def candidates(table: pa.Table) -> list[int]:
    """Which events are of API groups that kube-apiserver may proxy: their row numbers."""
    unnamed = pc.if_else(pc.is_null(table["api_group"]), table["request_uri"], pa.scalar(None, pa.string()))
    groups = pc.coalesce(table["api_group"], pc.struct_field(pc.extract_regex(unnamed, IN_URI), "group"))
    proxied = pc.and_(pc.is_valid(groups), pc.invert(pc.is_in(groups, value_set=pa.array(BUILT_IN_GROUPS, pa.string()))))
    numbers: list[Any] = pc.indices_nonzero(proxied).to_pylist()
    return numbers


def repeated(table: pa.Table, numbers: Sequence[int]) -> list[int]:
    """Those of these rows that share auditID and stage with another of them, and further rows with that auditID."""
    keys = table.select(["audit_id", "stage"]).take(pa.array(numbers, pa.int64()))
    ids: list[Any] = keys["audit_id"].to_pylist()
    counts = Counter(zip(ids, keys["stage"].to_pylist(), strict=True))
    shared = {audit_id for (audit_id, _), count in counts.items() if count > 1}
    return [number for number, each in zip(numbers, ids, strict=True) if each in shared]


def fold_table(table: pa.Table) -> pa.Table:
    """These events, with each pair among them as one event. Without a pair it is the same table."""
    numbers = repeated(table, candidates(table))
    if not numbers:
        return table
    folding = Folding(table.take(numbers).to_pylist())
    return without(table, (numbers[number] for number in (*folding.dropped, *folding.changed)), folding.changed.values())


def without(table: pa.Table, numbers: Iterable[int], more: Iterable[Row] = ()) -> pa.Table:
    """The events of a table except for those with these numbers, and then further ones."""
    left_out = pa.array(sorted(numbers), pa.int64())
    if not len(left_out):
        return table
    kept = pc.invert(pc.is_in(pa.array(range(table.num_rows), pa.int64()), value_set=left_out))
    added = list(more)
    rest = table.filter(kept)
    return pa.concat_tables([rest, pa.Table.from_pylist(added, schema=EVENTS)]) if added else rest


def _pairs(rows: Sequence[Row], numbers: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Outer and inner event of each pair. An event is in one pair at most: of several possible ones, the nearest in time."""
    possible = sorted(
        (abs(rows[inner]["ts"] - rows[outer]["ts"]), rows[outer]["stage_ts"], outer, inner)
        for outer in numbers
        for inner in numbers
        if outer != inner and _is_pair(rows[outer], rows[inner])
    )
    taken: set[int] = set()
    for _, _, outer, inner in possible:
        if not taken & {outer, inner}:
            taken |= {outer, inner}
            yield outer, inner


def _is_pair(outer: Row, inner: Row) -> bool:
    """Whether two events are of one request: all that both servers see is equal, and the differences are those of a proxy."""
    return (
        all(outer[name] == inner[name] for name in _SAME)
        and (outer["cluster"], _effective(outer)) == (inner["cluster"], _effective(inner))
        # The URI of a create has no name: the extension server takes it from the body.
        and outer["name"] in (None, inner["name"])
        and outer["stage_ts"] != inner["stage_ts"]
        and not _has_body(outer)
        and _overlap(outer, inner, _apart(outer["source_ips"], inner["source_ips"], _has_body(inner)))
    )


def _apart(outer_ips: Sequence[str], inner_ips: Sequence[str], has_body: bool) -> timedelta | None:
    """How far the times of a pair may lie apart, by its addresses; None where no proxy handed the request on.

    kube-apiserver adds the address of its client to X-Forwarded-For, and the extension server adds that of kube-apiserver. It adds
    no address that is last already (apimachinery pkg/util/net SourceIPs): then only the body tells the events apart.
    """
    if list(inner_ips) == list(outer_ips) or not outer_ips:
        return CLOCKS_APART if has_body else None
    return PROVEN_APART if len(inner_ips) == len(outer_ips) + 1 and list(inner_ips[:-1]) == list(outer_ips) else None


def _overlap(outer: Row, inner: Row, apart: timedelta | None) -> bool:
    begins: datetime = max(outer["ts"], inner["ts"])
    ends: datetime = min(outer["stage_ts"], inner["stage_ts"])
    return apart is not None and begins <= ends + apart


def _has_body(row: Row) -> bool:
    is_there = row["request_object"] is not None or row["response_object"] is not None
    return is_there or not _BODY_GONE.isdisjoint(row["flags"])


def _effective(row: Row) -> str | None:
    """The name of the user that authorization judged; kube-apiserver hands on only this user."""
    if row["impersonated_user"] is None:
        name: str | None = row["user_name"]
        return name
    try:
        user = json.loads(row["impersonated_user"])
    except (ValueError, RecursionError):
        return None
    found = user.get("username") if isinstance(user, dict) else None
    return found if isinstance(found, str) else None


def _merged(outer: Row, inner: Row) -> Row:
    """The inner event, with the impersonation, the user's details and the annotations that it lacks."""
    taken: Row = {name: outer[name] for name in _USER if outer[name] and not inner[name]}
    if outer["impersonated_user"] is not None and inner["impersonated_user"] is None:
        taken = {name: outer[name] for name in _USER}
    known = {key for key, _ in inner["annotations"]}
    lacked = [(key, value) for key, value in outer["annotations"] if key not in known and not key.startswith(_OWN)]
    if lacked:
        taken["annotations"] = [*inner["annotations"], *lacked]
    if not taken:
        return inner
    return inner | taken | {"flags": [*(flag for flag in inner["flags"] if flag != AGGREGATED), AGGREGATED]}


def _by_id(rows: Sequence[Row]) -> Iterable[list[int]]:
    found: dict[str, list[int]] = defaultdict(list)
    for number, row in enumerate(rows):
        found[row["audit_id"]].append(number)
    return found.values()
