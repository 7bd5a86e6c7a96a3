"""The first page: what was tried, by question, with its newest verdict, and how good the evidence is."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any

from api.stages.pages import is_of_policies
from ingest.spooling.lag import Lag
from pipeline.readiness.assess import rows_of
from pipeline.readiness.model import DayCount, PolicyReadiness, urgency
from pipeline.readiness.report import Report
from pipeline.runs import BindingSummary
from pipeline.stages.readiness import StageWords
from pipeline.stages.registry import STAGES
from queries.ledger import Severity, loss_answer
from queries.rows import Loss

from .. import stored_runs
from ..ask import reads
from ..ask.asking import Asker
from ..ask.kept import about_lake, has_report, is_behind, plan_of, report_of, view_of
from ..ask.reads import Source
from ..ask.run_reads import has_waves
from ..ask.waiting import in_time
from ..checks.checkup import Finding, ledger_findings
from ..errors import NotFoundError
from ..sink.behind import lag_of_lake
from ..stored_runs import Run
from .charts import Timeline, timeline
from .glance import Glance, Share, glance, shares
from .html import KEPT_EVERYWHERE, address, duration
from .newest import Chosen, newest, unspoken
from .selected import Counts, Key, bar_seconds, counted_days, narrows, selected_days, selected_recorded, selected_timelines
from .selection import Selection
from .tables import ROWS_MAX, Asked, Column, Table, table

_EVERYTHING = Selection()
RUNS_SHOWN = 15
RECORDED_SHOWN = 12
# A report of a large replay takes seconds, and is then kept. A page spends at most this time on reports that are not kept yet.
_REPORTS_SECONDS = 2.0
# A form waits at most this long for names to propose.
_PROPOSALS_SECONDS = 0.3


@dataclass(frozen=True, slots=True)
class Extent:
    """The content of the lake. `span` says how many days it covers, in words."""

    clusters: Sequence[dict[str, Any]]
    events: int
    first_ts: datetime | None
    last_ts: datetime | None
    span: str


@dataclass(frozen=True, slots=True)
class Losses:
    """The loss ledger in one line: how many kinds of evidence are lost, a word for the worst of it, and its other findings."""

    lost: int
    word: str
    sentence: str


@dataclass(frozen=True, slots=True)
class Entry:
    """One (policy, binding) with the replay shown for it. `is_stale`: the lake has events that this replay did not see.

    `counts` and `chart` cover the selected requests; `counts` is None until these are counted. `others` are the further replays of
    the policy, the newest first; `others_href` lists all.
    """

    policy: PolicyReadiness
    run: Run
    counts: Counts | None
    chart: Timeline | None
    href: str
    is_stale: bool
    others: tuple[Run, ...] = ()
    others_href: str = ""

    @property
    def title(self) -> str:
        """Its name in lists."""
        return self.run.title_of(self.policy.policy)

    @property
    def shares(self) -> tuple[Share, ...]:
        """The bar of its selected requests."""
        return shares(self.counts.denied, self.counts.unknown, self.counts.matched) if self.counts else ()


@dataclass(frozen=True, slots=True)
class Group:
    """What was tried to answer one question. `glance` is None where a filter leaves only some requests."""

    name: str
    words: StageWords
    table: Table[Entry]
    glance: Glance | None


@dataclass(frozen=True, slots=True)
class Awaited:
    """One (policy, binding) whose newest replay is counted, but whose verdict is not computed yet."""

    counts: BindingSummary
    run: Run
    href: str


@dataclass(frozen=True, slots=True)
class Recorded:
    """The log's own record of one (policy, binding) of a cluster."""

    cluster: str
    policy: str
    binding: str
    failures: int
    denied: int
    last_ts: datetime
    href: str


async def overview(asker: Asker, now: datetime, selection: Selection, asked: Asked) -> dict[str, Any]:
    """Everything that the first page shows. Parts that would take too long are left out and named, so that the page itself
    always comes."""
    found = await asker.ask(extent)
    runs = await asyncio.to_thread(stored_runs.runs, asker.lake)
    (decided, awaited), ledger, log = await asyncio.gather(
        entries(asker, runs, found.last_ts, selection),
        in_time(asker, "ledger", partial(findings, now=now)),
        in_time(asker, f"recorded {selection}", partial(recorded, selection=selection)),
    )
    groups = groups_of(decided, asked, narrows(selection))
    tables = {
        **{group.table.name: group.table for group in groups},
        "awaited": table(asked, "awaited", "Hindcast computes a verdict when its page is first opened", _AWAITED_COLUMNS, awaited),
        "recorded": None if log is None else table(asked, "recorded", _RECORDED_CAPTION, _RECORDED_COLUMNS, log, RECORDED_SHOWN),
        "replays": runs_table(asked, [run for run in runs if selection.policy in ("", *run.policies)], RUNS_SHOWN),
    }
    return {
        "extent": found,
        "groups": groups,
        "awaited": awaited,
        "losses": None if ledger is None else losses(ledger),
        "is_narrowed": narrows(selection),
        "is_behind": await asker.ask(is_behind, "view losses", "recorded"),
        "lag": await asker.ask(waiting),
        "runs": runs,
        "unspoken": unspoken(runs, newest(runs)),
        "tables": tables,
    }


def groups_of(entries: Sequence[Entry], asked: Asked, is_narrowed: bool) -> list[Group]:
    """The entries by question, in the order of the stages of the API server."""
    words = {stage.name: stage.readiness.words for stage in STAGES}
    order = dict.fromkeys([*words, *(entry.run.stage for entry in entries)])
    found = []
    for stage in order:
        own = [entry for entry in entries if entry.run.stage == stage]
        if own:
            about = words.get(stage, StageWords())
            # The anchor of a table, such as `mutating-policies`.
            name = about.things.replace(" ", "-")
            shown = table(asked, name, _FIRST, _POLICY_COLUMNS, own)
            found.append(Group(name, about, shown, None if is_narrowed else _glance(own)))
    return found


def _glance(entries: Sequence[Entry]) -> Glance:
    return glance([(entry.title, entry.href, entry.policy) for entry in entries])


def runs_table(asked: Asked, runs: Sequence[Run], at_most: int = ROWS_MAX) -> Table[Run]:
    """Replays, as shown by the overview and by the list of all."""
    return table(asked, "replays", "Replays, newest first", _RUN_COLUMNS, runs, at_most)


def run_overview(source: Source, run_id: str, asked: Asked, selection: Selection) -> dict[str, Any]:
    """Everything that the page of one replay shows. Raises NotFoundError for one that does not exist or is not finished."""
    run = stored_runs.run(source.lake, run_id)
    if not run.finished or run.summary is None:
        raise NotFoundError(f"replay {run_id} is not finished", "it goes on when the same policies are tried again")
    report, plan = report_of(source, run_id), plan_of(source, run_id)
    left_out = [*run.summary.not_evaluated, *((item["reason"], item["requests"]) for item in plan["excluded"])]
    by_count = sorted(((reason, count) for reason, count in left_out), key=lambda row: (-row[1], row[0]))
    width = bar_seconds(report) if is_of_policies(run) else None
    charts = selected_timelines(source, run_id, _EVERYTHING, width) if width is not None else None
    found = [
        _entry(
            policy,
            run,
            policy.days,
            selection,
            timeline(policy.days) if charts is None else charts.get((policy.policy, policy.binding)),
            is_stale=False,
        )
        for policy in sorted(report.policies, key=urgency)
    ]
    return {
        "run": run,
        "report": report,
        "has_waves": has_waves(source, run_id),
        "glance": _glance(found),
        "tables": {
            "policies": table(asked, "policies", _FIRST, _POLICY_COLUMNS, found),
            "left-out": table(asked, "left-out", "Not judged: never reached a policy", _LEFT_OUT_COLUMNS, by_count),
        },
    }


def waiting(source: Source) -> Lag | None:
    """The acknowledged events that are not in the lake yet; None where the spool may not be read."""
    return lag_of_lake(source.lake)


def extent(source: Source) -> Extent:
    """The content of the lake, in one row."""
    found = about_lake(source, "clusters", lambda: reads.clusters(source))
    first = min((row["first_ts"] for row in found), default=None)
    last = max((row["last_ts"] for row in found), default=None)
    span = f"over {duration((last - first).total_seconds())}" if first and last else ""
    return Extent(found, sum(row["events"] for row in found), first, last, span)


def losses(findings: Sequence[Finding]) -> Losses:
    """The ledger in one line."""
    lost = sum(each.severity is Severity.LOST for each in findings)
    found = {each.severity for each in findings}
    less = "possible" if Severity.POSSIBLE in found else "withheld" if Severity.WITHHELD in found else "none"
    return Losses(lost, f"{lost:,}" if lost else less, loss_answer((each.severity, each.found) for each in findings))


def findings(source: Source, now: datetime) -> list[Finding]:
    """The loss ledger of the lake, the worst first."""
    return ledger_findings([Loss(**row) for row in view_of(source, "losses").to_pylist()], now)


async def entries(
    asker: Asker, runs: Sequence[Run], last_ts: datetime | None, selection: Selection
) -> tuple[list[Entry], list[Awaited]]:
    """The verdict on the newest version of every policy, those that need a decision first; and the policies for which there was no
    time.

    The verdict covers the whole replay, the figures cover the selected requests.
    """
    found: list[Entry | Awaited] = []
    started = time.monotonic()
    by_run: dict[str, list[Chosen]] = {}
    for chosen in newest(runs):
        if selection.policy not in ("", chosen.policy):
            continue
        by_run.setdefault(chosen.run.run_id, []).append(chosen)
    # The latest requested replay comes first: if there is no time for all, its verdicts are wanted most.
    for members in sorted(by_run.values(), key=lambda members: members[0].run.asked_ts, reverse=True):
        run, others = members[0].run, {chosen.policy: chosen.others for chosen in members}
        report = None
        left = _REPORTS_SECONDS - (time.monotonic() - started)
        if left > 0 or await asker.ask(has_report, run.run_id):
            report = await in_time(asker, run.run_id, partial(report_of, run_id=run.run_id), max(left, 0.1))
        if report is None:
            for item in run.summary.bindings if run.summary else ():
                if item.policy in others:
                    found.append(Awaited(item, run, policy_address(run.run_id, item.policy, item.binding, selection)))
            continue
        days = await _days(asker, run, selection, max(left, 0.1))
        charts = await _charts(asker, run, report, selection, max(left, 0.1))
        for policy in report.policies:
            is_stale = run.until is None and last_ts is not None and report.last_ts is not None and last_ts > report.last_ts
            if policy.policy in others:
                own: Sequence[DayCount] | None = None
                if days is not None:
                    own = policy.days if days is _ALL else days.get((policy.policy, policy.binding), ())
                chart = charts.get((policy.policy, policy.binding)) if charts is not None else timeline(own or ())
                entry = _entry(policy, run, own, selection, chart, is_stale=is_stale)
                found.append(replace(entry, others=others[policy.policy], others_href=address("/runs", policy=policy.policy)))
    decided = [entry for entry in found if isinstance(entry, Entry)]
    return sorted(decided, key=lambda entry: urgency(entry.policy)), [entry for entry in found if isinstance(entry, Awaited)]


async def _days(asker: Asker, run: Run, selection: Selection, seconds: float) -> Mapping[Key, tuple[DayCount, ...]] | None:
    """The selected requests per day; `_ALL` if all are selected, None without time to count them."""
    if not narrows(selection):
        return _ALL
    work = partial(selected_days, run_id=run.run_id, selection=selection)
    return await in_time(asker, f"selected {run.run_id} {selection}", work, seconds)


async def _charts(asker: Asker, run: Run, report: Report, selection: Selection, seconds: float) -> Mapping[Key, Timeline] | None:
    """The charts of a log that is too short for bars of days; None for another one, and without time to count them."""
    width = bar_seconds(report)
    if width is None or not is_of_policies(run):
        return None
    work = partial(selected_timelines, run_id=run.run_id, selection=selection, seconds=width)
    return await in_time(asker, f"charts {run.run_id} {selection}", work, seconds)


_ALL: Mapping[Key, tuple[DayCount, ...]] = {}


def policy_address(run_id: str, policy: str, binding: str | None, selection: Selection = _EVERYTHING) -> str:
    """The address of one (policy, binding) of a replay, under the filters that hold on every page."""
    return address(f"/runs/{run_id}/policy", policy=policy, binding=binding, **selection.given(*KEPT_EVERYWHERE))


def recorded(source: Source, selection: Selection) -> list[Recorded]:
    """The clusters' own records of their policies, most first."""
    if narrows(selection):
        rows = selected_recorded(source, selection)
    else:
        rows = about_lake(source, "recorded", lambda: rows_of(source.reader.connection, "recorded"))
    kept = selection.given(*KEPT_EVERYWHERE)
    return [
        Recorded(
            row["cluster"],
            row["policy"],
            row["binding"],
            row["failures"],
            row["denied_requests"],
            row["last_ts"],
            address(
                "/violations",
                kind="violations" if row["failures"] else "denials",
                policy=row["policy"],
                binding=row["binding"],
                **{**kept, "cluster": row["cluster"]},
            ),
        )
        for row in rows
        if selection.policy in ("", row["policy"])
    ]


async def recorded_policies(asker: Asker) -> list[str]:
    """Names of the policies with records of the clusters; empty until these are computed."""
    work = partial(recorded, selection=_EVERYTHING)
    rows = await in_time(asker, f"recorded {_EVERYTHING}", work, _PROPOSALS_SECONDS)
    return sorted({row.policy for row in rows or ()})


def _entry(
    policy: PolicyReadiness,
    run: Run,
    days: Sequence[DayCount] | None,
    selection: Selection,
    chart: Timeline | None,
    *,
    is_stale: bool,
) -> Entry:
    href = policy_address(run.run_id, policy.policy, policy.binding, selection)
    counts: Counts | None
    if days is policy.days:
        exposure = policy.exposure
        counts = Counts(exposure.requests_matched, policy.denials.requests, exposure.requests_unknown)
    else:
        counts = None if days is None else counted_days(days)
    return Entry(policy, run, counts, chart, href, is_stale)


_FIRST = "What was tried, what needs a decision first"
_POLICY_COLUMNS: tuple[Column[Entry], ...] = (
    Column("policy", "Name", lambda entry: entry.title),
    Column("binding", "", lambda entry: entry.policy.binding),
    Column("verdict", "Verdict", lambda entry: str(entry.policy.status)),
    Column("matched", "Matched", lambda entry: entry.counts and entry.counts.matched, "n"),
    Column("denied", "Would deny", lambda entry: entry.counts and entry.counts.denied, "n"),
    Column("unknown", "Unknown", lambda entry: entry.counts and entry.counts.unknown, "n"),
    Column("replayed", "Replayed", lambda entry: entry.run.planned_ts, "time"),
    Column("reason", "", lambda entry: entry.policy.reasons[0] if entry.policy.reasons else ""),
    Column("run_id", "", lambda entry: entry.run.run_id),
    Column("name", "", lambda entry: entry.run.name),
)
_AWAITED_COLUMNS: tuple[Column[Awaited], ...] = (
    Column("policy", "Name", lambda entry: entry.run.title_of(entry.counts.policy), "name"),
    Column("binding", "Binding", lambda entry: entry.counts.binding, "name"),
    Column("matched", "Matched", lambda entry: entry.counts.matched, "n"),
    Column("denied", "Would deny", lambda entry: entry.counts.deny, "n"),
    Column("unknown", "Unknown", lambda entry: entry.counts.unknown, "n"),
)
_RECORDED_CAPTION = (
    "Policies that left failures or denials in the log. "
    "Up to Kubernetes 1.36 the API server records only the first failure of a request, so these are lower bounds."
)
_RECORDED_COLUMNS: tuple[Column[Recorded], ...] = (
    Column("policy", "Policy", lambda row: row.policy, "name"),
    Column("failures", "Failures", lambda row: row.failures, "n"),
    Column("denied", "Requests denied", lambda row: row.denied, "n"),
    Column("last_ts", "Last seen", lambda row: row.last_ts, "time"),
    Column("binding", "Binding", lambda row: row.binding, "name"),
    Column("cluster", "Cluster", lambda row: row.cluster, "name"),
)
_RUN_COLUMNS: tuple[Column[Run], ...] = (
    Column("run_id", "Replay", lambda run: run.run_id),
    Column("policies", "What was tried", lambda run: [run.title_of(policy) for policy in run.policies], "text"),
    Column("name", "", lambda run: run.name),
    Column("kind", "Kind", lambda run: run.kind),
    Column("planned_ts", "Planned", lambda run: run.planned_ts, "time"),
    Column("since", "Window", lambda run: run.since, "time"),
    Column("until", "", lambda run: run.until),
    Column("requests", "Requests", lambda run: run.requests, "n"),
    Column("finished", "", lambda run: run.finished),
)
_LEFT_OUT_COLUMNS: tuple[Column[tuple[str, int]], ...] = (
    Column("reason", "Reason", lambda row: row[0], "wide"),
    Column("requests", "Requests", lambda row: row[1], "n"),
)
