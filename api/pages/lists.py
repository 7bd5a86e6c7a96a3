"""Lists of requests: those behind a figure of a replay, and those that the clusters themselves recorded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Literal

from ingest.errors import InputError

from ..ask import reads, run_reads
from ..ask.listing import Parameters, rows_of
from ..ask.questions import DenialFilters, TimePaging, VerdictFilters, ViolationFilters
from ..ask.reads import Source
from .html import address, place
from .selection import Selection
from .tables import ROWS_MAX, Asked, Column, Table, heads, sorted_rows

PAGE_ROWS = 50
OUTCOMES: Mapping[str, Mapping[str, list[str]]] = {
    "deny": {"effect": ["deny"]},
    "unknown": {"decision": ["unknown"]},
    "error": {"decision": ["error"]},
    "admit": {"decision": ["admit"]},
}
KINDS = ("violations", "denials")
_FILTERED = ("since", "until", "namespace", "cluster", "policy")
# Objects whose names the server generated: not the request but its body or the answer has the name.
_NAMES = """
    SELECT cluster, audit_id, ts,
        coalesce(object ->> '$.metadata.name', (object ->> '$.metadata.generateName') || '…') AS name
    FROM (
        SELECT cluster, audit_id, ts, recorded_object(response_object, request_object) AS object
        FROM requests WHERE ts >= {first} AND ts <= {last} AND list_contains({ids}, audit_id)
    )
"""


@dataclass(frozen=True, slots=True)
class Wanted:
    """The filters of a list, in addition to those of all pages, as the form has them; empty means any."""

    selection: Selection = field(default_factory=Selection)
    binding: str = ""
    outcome: str = "deny"
    user: str = ""
    kind: str = "violations"

    def filters(self) -> dict[str, Any]:
        """In the form of the filters in questions.py."""
        own = {name: [getattr(self, name)] for name in ("binding", "user") if getattr(self, name)}
        return {**self.selection.filters(*_FILTERED), **own}

    def given(self, choice: str) -> dict[str, str]:
        """The parts that an address repeats; `choice` is `outcome` or `kind`."""
        own = {name: getattr(self, name) for name in ("binding", "user") if getattr(self, name)}
        return {**self.selection.given(), **own, choice: getattr(self, choice)}


@dataclass(frozen=True, slots=True)
class RequestList:
    """One page of a list. `next` leads to the following one; `data_href` has all rows, page by page, for programs."""

    table: Table[dict[str, Any]]
    next: str | None
    data_href: str


def verdict_list(source: Source, run_id: str, wanted: Wanted, asked: Asked, after: str | None) -> RequestList:
    """Verdicts of a replay, newest first: one row for each request and (policy, binding) with that verdict."""
    if wanted.outcome not in OUTCOMES:
        raise InputError(f"outcome: {wanted.outcome!r} is not an outcome", f"it is one of {', '.join(OUTCOMES)}")
    given: dict[str, Any] = {**OUTCOMES[wanted.outcome], **wanted.filters()}
    asked = asked.of("requests")
    page = run_reads.verdicts_page(source, run_id, VerdictFilters(**given), _paging(asked, after), find=asked.find)
    rows = _merged(page.dicts())
    href = address(f"/api/v1/runs/{run_id}/verdicts", **given)
    return _listed(source, asked, "requests", "Requests, newest first", _VERDICT_COLUMNS, rows, page.next, href)


def recorded_list(source: Source, wanted: Wanted, asked: Asked, after: str | None) -> RequestList:
    """The clusters' own records: failures of policies, or requests that were denied."""
    if wanted.kind not in KINDS:
        raise InputError(f"kind: {wanted.kind!r} is not a kind of record", "it is violations or denials")
    given, asked = wanted.filters(), asked.of(wanted.kind)
    filters = DenialFilters(**given) if wanted.kind == "denials" else ViolationFilters(**given)
    page = reads.view_page(source, wanted.kind, filters, _paging(asked, after), find=asked.find)
    columns = _DENIAL_COLUMNS if wanted.kind == "denials" else _VIOLATION_COLUMNS
    href = address(f"/api/v1/{wanted.kind}", **given)
    return _listed(source, asked, wanted.kind, "Newest first", columns, page.dicts(), page.next, href)


def what(row: Mapping[str, Any]) -> str:
    """`create pods/exec default/web-1`."""
    resource = "/".join(part for part in (row["resource"], row["subresource"]) if part)
    return " ".join(part for part in (row["verb"], resource, place(row)) if part)


def _listed(
    source: Source,
    asked: Asked,
    name: str,
    caption: str,
    columns: tuple[Column[dict[str, Any]], ...],
    rows: list[dict[str, Any]],
    following: str | None,
    data_href: str,
) -> RequestList:
    _name(source, rows)
    if asked.sort and not _is_by_time(asked):
        rows = sorted_rows(rows, columns, asked.sort)
    own = heads(asked if asked.sort else Asked(asked.path, asked.others, name, "-ts", asked.find), name, columns)
    table = Table(name, caption, columns, rows, len(rows), len(rows), asked, own, is_part=following is not None)
    return RequestList(table, following, data_href)


def _is_by_time(asked: Asked) -> bool:
    return asked.sort in ("", "ts", "-ts")


def _paging(asked: Asked, after: str | None) -> TimePaging:
    """Rows in the order of time come page by page; for another order, and for a file, as many as a table holds are read."""
    is_whole = bool(asked.form) or not _is_by_time(asked)
    order: Literal["newest", "oldest"] = "oldest" if asked.sort == "ts" else "newest"
    return TimePaging(limit=ROWS_MAX if is_whole else PAGE_ROWS, after=after, order=order)


def _name(source: Source, rows: Sequence[dict[str, Any]]) -> None:
    """Fill in generated names of objects from the bodies."""
    nameless = [row for row in rows if not row["name"] and row["verb"] == "create"]
    if not nameless:
        return
    parameters = Parameters()
    times, ids = [row["ts"] for row in nameless], sorted({row["audit_id"] for row in nameless})
    text = _NAMES.format(first=parameters.bind(min(times)), last=parameters.bind(max(times)), ids=parameters.bind(ids))
    found = {(row["cluster"], row["audit_id"], row["ts"]): row["name"] for row in rows_of(source, text, parameters)}
    for row in nameless:
        row["name"] = found.get((row["cluster"], row["audit_id"], row["ts"]))


def _merged(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """One row for each request and (policy, binding), with the verdict of each expression."""
    found: list[dict[str, Any]] = []
    for _, group in groupby(rows, lambda row: [row[name] for name in ("ts", "cluster", "audit_id", "pass", "policy", "binding")]):
        members = list(group)
        texts = dict.fromkeys(row["message"] or row["why"] for row in members if row["message"] or row["why"])
        expressions = sorted({row["expression_index"] for row in members if row["expression_index"] is not None})
        found.append({**members[0], "texts": list(texts), "expressions": expressions})
    return found


def _field(name: str, label: str = "", kind: str = "") -> Column[dict[str, Any]]:
    return Column(name, label, lambda row: row[name], kind)


def _denier(row: dict[str, Any]) -> Any:
    return row["policy"] or row["webhook"] or row["denier"]


_REQUEST: Column[dict[str, Any]] = Column("request", "Request", what, "name")
_WHEN, _WHO, _POLICY = _field("ts", "When", "time"), _field("user_name", "Who", "who"), _field("policy", "Policy", "name")
_ABOUT = tuple(map(_field, ("binding", "verb", "api_group", "resource", "subresource", "namespace", "name", "cluster", "audit_id")))
_VERDICT_COLUMNS: tuple[Column[dict[str, Any]], ...] = (
    _REQUEST,
    Column("message", "Message", lambda row: row["texts"] or [row["decision"]], "text"),
    _WHEN,
    _WHO,
    _POLICY,
    *map(_field, ("expressions", "decision", "effect", "evidence")),
    *_ABOUT,
)
_RECORDED = (_REQUEST, _field("message", "Message", "text"), _WHEN, _WHO)
_VIOLATION_COLUMNS = (*_RECORDED, _POLICY, *map(_field, ("admitted", "actions")), *_ABOUT)
_DENIAL_COLUMNS: tuple[Column[dict[str, Any]], ...] = (
    *_RECORDED,
    Column("denied_by", "Denied by", _denier, "name"),
    *map(_field, ("denier", "policy", "webhook", "code")),
    *_ABOUT,
)
