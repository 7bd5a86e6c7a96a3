"""The page about the evidence itself: what was lost, at which levels writes were recorded, who brought them, when nobody did."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ..checkup import Finding
from ..reads import Source
from .kept import about_lake
from .overview import findings

LEVELS_SHOWN = 60
SOURCES_SHOWN = 100
GAPS_SHOWN = 50
# By resource: bodies are not read, so that this stays fast whatever they hold.
_LEVELS = """
    SELECT
        resource_label(api_group, resource, subresource) AS resource,
        count(*) AS writes,
        count(*) FILTER (level = 'RequestResponse') AS request_response,
        count(*) FILTER (level = 'Request') AS request,
        count(*) FILTER (level = 'Metadata') AS metadata,
        count(*) FILTER (list_contains(flags, 'truncated')) AS truncated,
        count(*) FILTER (list_contains(flags, 'redacted')) AS redacted
    FROM admission_writes
    WHERE ran <> 'no'
    GROUP BY ALL
    ORDER BY writes DESC, resource
"""
_GAPS = "SELECT cluster, first_ts, last_ts, seconds, usual_seconds FROM silences ORDER BY seconds DESC, first_ts"


@dataclass(frozen=True, slots=True)
class EvidenceView:
    """Everything that the page shows; `more_*` count what was left out."""

    findings: Sequence[Finding]
    levels: Sequence[dict[str, Any]]
    more_levels: int
    sources: Sequence[dict[str, Any]]
    more_sources: int
    gaps: Sequence[dict[str, Any]]
    more_gaps: int


def evidence_view(source: Source, now: datetime) -> EvidenceView:
    """What the lake knows about itself. `now` tells what may still be on its way."""

    def ask(text: str) -> list[dict[str, Any]]:
        return about_lake(source, text, lambda: source.reader.arrow(text).to_pylist())

    levels, sources, gaps = map(ask, (_LEVELS, "FROM sources", _GAPS))
    return EvidenceView(
        findings(source, now),
        levels[:LEVELS_SHOWN],
        max(0, len(levels) - LEVELS_SHOWN),
        sources[:SOURCES_SHOWN],
        max(0, len(sources) - SOURCES_SHOWN),
        gaps[:GAPS_SHOWN],
        max(0, len(gaps) - GAPS_SHOWN),
    )
