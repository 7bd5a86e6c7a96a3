"""What a replay of a chain of authorizers proved about lists and watches, on the pages of the replay and of one request."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from api.ask.reads import Source
from api.pages.tables import Asked, Column, table
from pipeline.report.texts import yaml_text
from pipeline.runs import RunStore
from pipeline.stages.conditions.figures import Decided, Read, by_finding, decided, reads
from pipeline.stages.conditions.ruling import NAME, Finding

_SHOWN = 20
_UNCONDITIONAL = "unconditional"
_VACUOUS = "Proved: no object can match these selectors, so that the request can show nothing."
_SENTENCES: Mapping[str, str] = {
    Finding.PROVED: "Proved: the chain allows every object that these selectors can select.",
    Finding.KNOWN: "Refuted: these selectors select a recorded object that the chain does not allow.",
    Finding.HYPOTHETICAL: "Refuted: these selectors can select an object that the chain does not allow; none is recorded.",
    Finding.UNKNOWN: "Unknown: the proof did not come to an end.",
    _UNCONDITIONAL: "The chain decided without a condition.",
}


class ReadView(NamedTuple):
    """Lists and watches that are not proved, with the counterexample as YAML and the selectors to ask for instead."""

    read: Read
    counterexample: str
    suggestions: Sequence[str]


_PROOFS: tuple[Column[tuple[str, int]], ...] = (
    Column("finding", "Finding", lambda row: row[0]),
    Column("requests", "Requests", lambda row: row[1], "n"),
)
_READS: tuple[Column[ReadView], ...] = (
    Column("requests", "Requests", lambda row: row.read.requests, "n"),
    Column("user", "User", lambda row: row.read.user_name),
    Column("verb", "Verb", lambda row: row.read.verb),
    Column("resource", "Resource", lambda row: row.read.resource),
    Column("selection", "Selects", lambda row: row.read.selection, "name"),
    Column("counterexample", "Selected and not allowed", lambda row: row.read.counterexample or row.read.why or "", "text"),
    Column("suggestions", "Ask instead", lambda row: " | ".join(row.suggestions), "text"),
    Column("example", "Latest", lambda row: row.read.example),
    Column("finding", "", lambda row: row.read.finding),
    Column("known", "", lambda row: row.read.known),
)
_DECIDED: tuple[Column[Decided], ...] = (
    Column("requests", "Requests", lambda row: row.requests, "n"),
    Column("decision", "Decision", lambda row: row.decision),
    Column("code", "Code", lambda row: row.code, "n"),
    Column("reason", "Reason", lambda row: row.reason, "wide"),
    Column("example", "Latest", lambda row: row.example),
)


def chain_tables(source: Source, run_id: str, asked: Asked) -> dict[str, Any]:
    """The tables of one replay, by name; those without rows are left out."""
    verdicts = RunStore(source.lake).run(run_id).verdicts
    found = reads(source.reader, verdicts)
    counts = by_finding(found)
    totals = [(_SENTENCES[name], counts[name]) for name in _SENTENCES if counts[name]]
    refuted = [_view(each) for each in found if each.finding not in (Finding.PROVED, _UNCONDITIONAL)]
    others = [each for each in decided(source.reader, verdicts) if each.decision != "admit"]
    tables: dict[str, Any] = {}
    if totals:
        tables["proofs"] = table(asked, "proofs", "Lists and watches by finding", _PROOFS, totals)
    if refuted:
        tables["refuted"] = table(asked, "refuted", "Lists and watches that are not proved", _READS, refuted, _SHOWN)
    if others:
        caption = "Other requests that the chain refuses, or whose outcome is unknown"
        tables["decided"] = table(asked, "decided", caption, _DECIDED, others, _SHOWN)
    return tables


def _view(read: Read) -> ReadView:
    suggestions = json.loads(read.suggestions) if read.suggestions else []
    return ReadView(read, _as_yaml(json.loads(read.counterexample)) if read.counterexample else "", suggestions)


def _as_yaml(value: Any) -> str:
    return yaml_text([value]).rstrip() if value else ""


@dataclass(frozen=True, slots=True)
class ChainAnswer:
    """What one chain makes of a request. The fields after `why` are empty where no condition was asked about a list or a watch.

    `finding` and `selects` are in words; `counterexample` is YAML; `examples` are names of `known` recorded objects that the
    selectors select and the chain refuses; `downgrade` is the
    selection that the server answers instead, or the reason why it cannot answer one.
    """

    chain: str
    decision: str
    code: int | None
    reason: str
    why: str
    finding: str
    selects: str
    ignored: str
    allowed: str
    counterexample: str
    because: str
    known: int
    examples: Sequence[str]
    suggestions: Sequence[str]
    downgrade: str
    is_refuted: bool


def chain_answers(rows: Sequence[Mapping[str, Any]]) -> list[ChainAnswer]:
    """What the chains of a replay make of one request, from its verdicts; empty for verdicts of other stages."""
    return [_answer(row, json.loads(row["detail"] or "{}")) for row in rows if row["stage"] == NAME]


def _answer(row: Mapping[str, Any], detail: Mapping[str, Any]) -> ChainAnswer:
    finding = detail.get("proof", "")
    words = _VACUOUS if detail.get("vacuous") else _SENTENCES.get(finding, "")
    return ChainAnswer(
        chain=row["policy"],
        decision=row["decision"],
        code=row["code"],
        reason=detail.get("reason", ""),
        why=row["why"] or "",
        finding=words,
        selects=detail.get("selection", ""),
        ignored=detail.get("ignored", ""),
        allowed=detail.get("allowedIf", ""),
        counterexample=_as_yaml(detail.get("counterexample") or detail.get("object")),
        because=detail.get("because", ""),
        known=detail.get("known", 0),
        examples=detail.get("examples", ()),
        suggestions=detail.get("suggestions", ()),
        downgrade=detail.get("downgrade", ""),
        is_refuted=finding in (Finding.KNOWN, Finding.HYPOTHETICAL),
    )
