"""The page about the evidence: lost evidence, the levels of recorded writes, their sources, and gaps in time."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

from ingest.spooling.lag import Lag
from queries.ledger import loss_answer

from ..ask.asking import Asker
from ..ask.kept import about_lake, is_behind
from ..ask.listing import Parameters, conditions, rows_of
from ..ask.questions import RequestedObject
from ..ask.reads import Source
from ..ask.waiting import in_time, view_in_time
from ..checks.checkup import Finding
from .overview import findings, waiting
from .selected import narrows
from .selection import Selection
from .tables import Asked, Column, Table, table

LEVELS_SHOWN = 20
SOURCES_SHOWN = 20
GAPS_SHOWN = 20
# Grouped by resource: this does not read bodies, so it stays fast for any bodies.
_LEVELS = """
    SELECT
        resource_label(api_group, resource, subresource) AS resource,
        count(*) AS writes,
        count(*) FILTER (level = 'RequestResponse') AS request_response,
        count(*) FILTER (level = 'Request') AS request,
        count(*) FILTER (level = 'Metadata') AS metadata,
        count(*) FILTER (level NOT IN ('Metadata', 'Request', 'RequestResponse')) AS unknown,
        count(*) FILTER (list_contains(flags, 'truncated')) AS truncated,
        count(*) FILTER (list_contains(flags, 'redacted')) AS redacted
    FROM admission_writes
    WHERE ran <> 'no' AND true
    GROUP BY ALL
    ORDER BY writes DESC, resource
"""
_GAPS = "SELECT cluster, first_ts, last_ts, seconds, usual_seconds FROM silences ORDER BY seconds DESC, first_ts"


Rows = Sequence[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class EvidenceView:
    """Everything that the page shows. None means that a part is not computed yet.

    `is_behind`: some of it was computed before the newest events came. `lag` is the acknowledged events that are not in the lake
    yet; None if the spool may not be read.
    """

    findings: Sequence[Finding] | None
    tables: Mapping[str, Table[dict[str, Any]] | None]
    is_behind: bool
    lag: Lag | None

    @property
    def answer(self) -> str:
        """The sentence over the whole ledger."""
        return loss_answer((each.severity, each.found) for each in self.findings or ())


async def evidence_view(asker: Asker, now: datetime, selection: Selection, asked: Asked) -> EvidenceView:
    """The lake's knowledge about the selected evidence. `now` shows which events may still arrive."""
    levels, sources, gaps, found = await asyncio.gather(
        in_time(asker, f"levels {selection}", partial(_levels, selection=selection)),
        view_in_time(asker, "sources"),
        in_time(asker, "gaps", partial(_rows, text=_GAPS)),
        in_time(asker, "ledger", partial(findings, now=now)),
    )

    def is_selected(cluster: str | None, first: datetime | None, last: datetime | None) -> bool:
        return selection.cluster in ("", cluster or selection.cluster) and selection.overlaps(first, last, now)

    def of(name: str, caption: str, columns: Columns, rows: Rows | None, at_most: int) -> Table[dict[str, Any]] | None:
        return None if rows is None else table(asked, name, caption, columns, rows, at_most)

    def chosen(rows: Rows | None) -> Rows | None:
        return None if rows is None else [row for row in rows if is_selected(row["cluster"], row["first_ts"], row["last_ts"])]

    return EvidenceView(
        None if found is None else [item for item in found if is_selected(item.cluster, item.first_ts, item.last_ts)],
        {
            "levels": of("levels", "Recorded writes by audit level", _LEVEL_COLUMNS, levels, LEVELS_SHOWN),
            "sources": of(
                "sources",
                _SOURCES_CAPTION,
                _SOURCE_COLUMNS,
                chosen(None if sources is None else sources.to_pylist()),
                SOURCES_SHOWN,
            ),
            "gaps": of("gaps", _GAPS_CAPTION, _GAP_COLUMNS, chosen(gaps), GAPS_SHOWN),
        },
        await asker.ask(is_behind, "view losses", "view sources", _LEVELS, _GAPS),
        await asker.ask(waiting),
    )


def _levels(source: Source, selection: Selection) -> list[dict[str, Any]]:
    """The answer for the whole lake is kept; the answer for a selection is computed."""
    if not narrows(selection):
        return _rows(source, _LEVELS)
    parameters = Parameters()
    where = conditions(RequestedObject(**selection.filters("since", "until", "namespace", "cluster")), parameters)
    return rows_of(source, _LEVELS.replace("AND true", f"AND {' AND '.join(where)}"), parameters)


def _rows(source: Source, text: str) -> list[dict[str, Any]]:
    return about_lake(source, text, lambda: source.reader.arrow(text).to_pylist())


Columns = tuple[Column[dict[str, Any]], ...]


def _field(name: str, label: str, kind: str = "") -> Column[dict[str, Any]]:
    return Column(name, label, lambda row: row[name], kind)


_LEVEL_COLUMNS = (
    _field("resource", "Resource", "name"),
    _field("writes", "Writes", "n"),
    _field("request_response", "RequestResponse", "n"),
    _field("request", "Request", "n"),
    _field("metadata", "Metadata", "n"),
    _field("unknown", "Unknown level", "n"),
    _field("truncated", "Truncated", "n"),
    _field("redacted", "Redacted", "n"),
)
_SOURCES_CAPTION = "Log files and the webhook. An event that several sources hold is stored once."
_SOURCE_COLUMNS = (
    _field("ingest_source", "Source", "name"),
    _field("events", "Events", "n"),
    _field("stored", "Stored from it", "n"),
    _field("first_ts", "First and last event", "time"),
    _field("last_ts", ""),
    _field("last_ingest_ts", "Last ingested", "time"),
    _field("cluster", "Cluster", "name"),
)
_GAPS_CAPTION = "Times in which a cluster recorded nothing for longer than it usually does"
_GAP_COLUMNS = (
    _field("seconds", "Length", "n"),
    _field("first_ts", "From", "time"),
    _field("last_ts", "Until", "time"),
    _field("usual_seconds", "Usual longest", "n"),
    _field("cluster", "Cluster", "name"),
)
