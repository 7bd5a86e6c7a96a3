"""The page about the evidence itself: what was lost, at which levels writes were recorded, who brought them, when nobody did."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

from ingest.lag import Lag

from ..asking import Asker
from ..checkup import Finding
from ..kept import about_lake, is_behind
from ..reads import Source
from ..waiting import in_time, view_in_time
from .overview import findings, waiting

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


Rows = Sequence[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class EvidenceView:
    """Everything that the page shows; `more_*` count what was left out. None is what is still being worked out.

    `is_behind`: some of it was worked out before the newest events came. `lag`: what was acknowledged and is not in the lake yet;
    None where the spool may not be looked at.
    """

    findings: Sequence[Finding] | None
    levels: Rows | None
    more_levels: int
    sources: Rows | None
    more_sources: int
    gaps: Rows | None
    more_gaps: int
    is_behind: bool
    lag: Lag | None

    @property
    def is_whole(self) -> bool:
        """Whether nothing is being worked out any more."""
        return None not in (self.findings, self.levels, self.sources, self.gaps)


async def evidence_view(asker: Asker, now: datetime) -> EvidenceView:
    """What the lake knows about itself. `now` tells what may still be on its way."""
    levels, sources, gaps, found = await asyncio.gather(
        in_time(asker, "levels", partial(_rows, text=_LEVELS)),
        view_in_time(asker, "sources"),
        in_time(asker, "gaps", partial(_rows, text=_GAPS)),
        in_time(asker, "ledger", partial(findings, now=now)),
    )
    return EvidenceView(
        found,
        *_shown(levels, LEVELS_SHOWN),
        *_shown(None if sources is None else sources.to_pylist(), SOURCES_SHOWN),
        *_shown(gaps, GAPS_SHOWN),
        await asker.ask(is_behind, "view losses", "view sources", _LEVELS, _GAPS),
        await asker.ask(waiting),
    )


def _rows(source: Source, text: str) -> list[dict[str, Any]]:
    return about_lake(source, text, lambda: source.reader.arrow(text).to_pylist())


def _shown(rows: list[dict[str, Any]] | None, at_most: int) -> tuple[Rows | None, int]:
    return (None, 0) if rows is None else (rows[:at_most], max(0, len(rows) - at_most))
