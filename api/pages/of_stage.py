"""The page of a replay of another stage than policies: how its verdicts differ from the record, and for whom."""

from __future__ import annotations

from typing import Any

from api.stages.pages import own_parts
from pipeline.runs import RunStore
from pipeline.runs.flips import Flipped, count_flips, flips
from pipeline.runs.verdict import Flip
from pipeline.stages.registry import stage_of

from .. import stored_runs
from ..ask.reads import Source
from ..stored_runs import Run
from .examples import examples_of
from .overview import run_overview
from .selection import Selection
from .tables import Asked, Column, table

# Each kind of difference in words, what needs a look first.
WORDS = {
    Flip.NEWLY_DENIED: "newly denied",
    Flip.NEWLY_ALLOWED: "newly allowed",
    Flip.CHANGED: "changed",
    Flip.UNKNOWN: "unknown",
    Flip.STILL_DENIED: "still denied",
    Flip.SAME: "same",
}
_UNCHANGED = (Flip.STILL_DENIED, Flip.SAME)
_AFFECTED_SHOWN = 20
_COUNT_COLUMNS: tuple[Column[tuple[str, int]], ...] = (
    Column("flip", "Against the record", lambda row: row[0]),
    Column("requests", "Requests", lambda row: row[1], "n"),
)
_COLUMNS: tuple[Column[Flipped], ...] = (
    Column("flip", "Outcome", lambda row: WORDS[Flip(row.flip)]),
    Column("requests", "Requests", lambda row: row.requests, "n"),
    Column("user", "User", lambda row: row.user_name or ""),
    Column("verb", "Verb", lambda row: row.verb),
    Column("resource", "Resource", lambda row: row.resource),
    Column("namespace", "Namespace", lambda row: row.namespace or ""),
    Column("why", "Why", lambda row: row.why or ""),
    Column("rule", "", lambda row: row.rule_ref or ""),
    Column("last_ts", "Last", lambda row: row.last_ts, "time"),
    Column("example", "", lambda row: row.example),
)


def question_of(run: Run) -> str:
    """What a user asks about the manifests of a replay."""
    return stage_of(run.stage).readiness.words.question


def stage_overview(source: Source, run_id: str, asked: Asked, selection: Selection) -> dict[str, Any]:
    """Everything that the page shows, next to that of run_overview. Raises NotFoundError for a replay that is not finished."""
    found_run = run_overview(source, run_id, asked, selection)
    run = found_run["run"]
    found = flips(source.reader, RunStore(source.lake).run(run_id).verdicts)
    counts = count_flips(found)
    totals = [(words, counts[flip]) for flip, words in WORDS.items() if counts[flip]]
    changed = [row for row in found if row.flip not in _UNCHANGED]
    manifests = stored_runs.run_plan(source.lake, run_id).get("manifests", [])
    own = own_parts(source, run, asked)
    shown = (row for each in own.tables.values() for row in each.rows if hasattr(row, "example"))
    return {
        **found_run,
        "examples": examples_of(source, run_id, shown),
        **own.figures,
        "manifests": len(manifests),
        "things": stage_of(run.stage).readiness.words.things,
        "tables": {
            **found_run["tables"],
            **own.first,
            "counts": table(asked, "counts", "Requests by outcome, compared with the record", _COUNT_COLUMNS, totals),
            "affected": table(
                asked, "affected", "Requests whose outcome changes or is unknown", _COLUMNS, changed, _AFFECTED_SHOWN
            ),
            **own.tables,
            **own.last,
        },
    }
