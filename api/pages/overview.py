"""The first page: every policy that was tried, with its newest verdict, and how good the evidence is."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any

from ingest.lag import Lag
from pipeline.readiness.assess import rows_of
from pipeline.readiness.model import PolicyReadiness, urgency
from pipeline.replay import BindingSummary
from pipeline.report.model import RecordedPolicy
from queries.rows import Loss

from .. import reads, run_reads
from ..asking import Asker
from ..behind import lag_of_lake
from ..checkup import Finding, ledger_findings
from ..errors import NotFoundError
from ..kept import about_lake, has_report, is_behind, plan_of, report_of, view_of
from ..reads import Source
from ..run_reads import Run
from ..waiting import in_time
from .charts import Timeline, timeline
from .html import address, counted, duration
from .newest import Chosen, newest, unspoken

RUNS_SHOWN = 15
RECORDED_SHOWN = 12
# A report of a large replay takes seconds, and is then kept. So long a page works on reports that nobody has asked for yet.
_REPORTS_SECONDS = 2.0
# What needs a decision first.
_LOST = "lost"


@dataclass(frozen=True, slots=True)
class Extent:
    """What the lake holds. `span` says of how many days, in words."""

    clusters: Sequence[dict[str, Any]]
    events: int
    first_ts: datetime | None
    last_ts: datetime | None
    span: str


@dataclass(frozen=True, slots=True)
class Losses:
    """The loss ledger in one line: how many kinds of evidence are known to be lost, and what else it says."""

    lost: int
    sentence: str


@dataclass(frozen=True, slots=True)
class Entry:
    """One (policy, binding) with the replay that speaks for it. `is_stale`: the lake has events that this replay did not see.

    `others` counts the further replays of the policy, which stand in the list at `others_href`.
    """

    policy: PolicyReadiness
    run: Run
    chart: Timeline | None
    href: str
    is_stale: bool
    others: int = 0
    others_href: str = ""


@dataclass(frozen=True, slots=True)
class Awaited:
    """One (policy, binding) whose newest replay is counted, and whose verdict has not been worked out yet."""

    counts: BindingSummary
    run: Run
    href: str


@dataclass(frozen=True, slots=True)
class Recorded:
    """What the log itself says of one (policy, binding)."""

    policy: str
    binding: str
    failures: int
    denied: int
    last_ts: datetime
    href: str


async def overview(asker: Asker, now: datetime) -> dict[str, Any]:
    """Everything that the first page shows. What would take too long is left out and said to be: the page itself always comes."""
    found = await asker.ask(extent)
    runs = run_reads.runs(asker.lake)
    (decided, awaited), ledger, log = await asyncio.gather(
        entries(asker, runs, found.last_ts),
        in_time(asker, "ledger", partial(findings, now=now)),
        in_time(asker, "recorded", recorded),
    )
    return {
        "extent": found,
        "entries": decided,
        "awaited": awaited,
        "losses": None if ledger is None else losses(ledger),
        "recorded": log,
        "is_behind": await asker.ask(is_behind, "view losses", "recorded"),
        "lag": await asker.ask(waiting),
        "runs": runs,
        "unspoken": unspoken(runs, newest(runs)),
        "runs_shown": RUNS_SHOWN,
        "recorded_shown": RECORDED_SHOWN,
    }


def run_overview(source: Source, run_id: str) -> dict[str, Any]:
    """Everything that the page of one replay shows. Raises NotFoundError for one that is not there or not finished."""
    run = run_reads.run(source.lake, run_id)
    if not run.finished or run.summary is None:
        raise NotFoundError(f"replay {run_id} is not finished", "it goes on when the same policies are tried again")
    report, plan = report_of(source, run_id), plan_of(source, run_id)
    left_out = [*run.summary.not_evaluated, *((item["reason"], item["requests"]) for item in plan["excluded"])]
    return {
        "run": run,
        "report": report,
        "entries": [_entry(policy, run, is_stale=False) for policy in report.policies],
        "left_out": sorted(((reason, count) for reason, count in left_out), key=lambda row: (-row[1], row[0])),
    }


def waiting(source: Source) -> Lag | None:
    """What was acknowledged and is not in the lake yet; None where the spool may not be looked at."""
    return lag_of_lake(source.lake)


def extent(source: Source) -> Extent:
    """What the lake holds, in one row."""
    found = about_lake(source, "clusters", lambda: reads.clusters(source))
    first = min((row["first_ts"] for row in found), default=None)
    last = max((row["last_ts"] for row in found), default=None)
    span = f"over {duration((last - first).total_seconds())}" if first and last else ""
    return Extent(found, sum(row["events"] for row in found), first, last, span)


def losses(findings: Sequence[Finding]) -> Losses:
    """The ledger in one line."""
    by_severity = {severity: [item for item in findings if str(item.severity) == severity] for severity in (_LOST, "possible")}
    lost, possible = by_severity[_LOST], by_severity["possible"]
    sentence = lost[0].found if lost else "no loss is known"
    others = len(lost[1:])
    if others:
        sentence += f", and {counted(others, 'other loss', 'other losses')}"
    if possible:
        sentence += f"; {counted(len(possible), 'possible one', 'possible ones')}"
    return Losses(len(lost), sentence)


def findings(source: Source, now: datetime) -> list[Finding]:
    """The loss ledger of the lake, the worst first."""
    return ledger_findings([Loss(**row) for row in view_of(source, "losses").to_pylist()], now)


async def entries(asker: Asker, runs: Sequence[Run], last_ts: datetime | None) -> tuple[list[Entry], list[Awaited]]:
    """The verdict on the newest version of every policy, what needs a decision first; and those for which there was no time."""
    found: list[Entry | Awaited] = []
    started = time.monotonic()
    by_run: dict[str, list[Chosen]] = {}
    for chosen in newest(runs):
        by_run.setdefault(chosen.run.run_id, []).append(chosen)
    # The replay that was asked for last first: its verdicts are wanted now, if there is no time for all.
    for members in sorted(by_run.values(), key=lambda members: members[0].run.asked_ts, reverse=True):
        run, others = members[0].run, {chosen.policy: chosen.others for chosen in members}
        report = None
        left = _REPORTS_SECONDS - (time.monotonic() - started)
        if left > 0 or await asker.ask(has_report, run.run_id):
            report = await in_time(asker, run.run_id, partial(report_of, run_id=run.run_id), max(left, 0.1))
        if report is None:
            for item in run.summary.bindings if run.summary else ():
                if item.policy in others:
                    found.append(Awaited(item, run, policy_address(run.run_id, item.policy, item.binding)))
            continue
        for policy in report.policies:
            is_stale = run.until is None and last_ts is not None and report.last_ts is not None and last_ts > report.last_ts
            if policy.policy in others:
                entry = _entry(policy, run, is_stale=is_stale)
                found.append(replace(entry, others=others[policy.policy], others_href=address("/runs", policy=policy.policy)))
    decided = [entry for entry in found if isinstance(entry, Entry)]
    return sorted(decided, key=lambda entry: urgency(entry.policy)), [entry for entry in found if isinstance(entry, Awaited)]


def policy_address(run_id: str, policy: str, binding: str | None) -> str:
    """Where one (policy, binding) of a replay is shown."""
    return address(f"/runs/{run_id}/policy", policy=policy, binding=binding)


def recorded(source: Source) -> list[Recorded]:
    """What the clusters recorded of their own policies, most first."""
    rows = about_lake(source, "recorded", lambda: rows_of(source.reader.connection, "recorded"))
    return [
        Recorded(
            row.policy,
            row.binding,
            row.failures,
            row.denied_requests,
            row.last_ts,
            address("/violations", kind="violations" if row.failures else "denials", policy=row.policy, binding=row.binding),
        )
        for row in (RecordedPolicy(**found) for found in rows)
    ]


def _entry(policy: PolicyReadiness, run: Run, *, is_stale: bool) -> Entry:
    return Entry(policy, run, timeline(policy.days), policy_address(run.run_id, policy.policy, policy.binding), is_stale)
