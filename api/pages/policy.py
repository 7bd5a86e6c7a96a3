"""A policy's page: its verdict with everything behind it, and its text with the expressions that would deny."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from api.stages.pages import is_of_policies
from ingest.counted import counted
from pipeline.readiness.counting.writers import Writer, last_writers
from pipeline.readiness.model import DayCount, PolicyReadiness
from pipeline.readiness.report import Report
from pipeline.report.workloads import Denied
from pipeline.runs import RunStore

from .. import stored_runs
from ..ask.kept import plan_of, report_of
from ..ask.reads import Source
from ..beside_runs import kept_manifests
from ..errors import NotFoundError
from ..stored_runs import Run
from .charts import Timeline, timeline
from .html import address
from .manifest import SourceLine, binding_manifest, policy_manifest, source_lines
from .policy_tables import policy_tables
from .selected import Counts, bar_seconds, counted_days, narrows, selected_days, selected_timelines
from .selection import Selection, of_day
from .tables import Asked, Table

# As everywhere in a report, dry runs do not count.
_DENIALS = """
    SELECT expression_index, count(*) AS verdicts, count(DISTINCT (cluster, audit_id)) AS requests,
        arg_max(message, ts) AS message
    FROM read_parquet(?) ANTI JOIN dry_runs USING (cluster, audit_id, ts)
    WHERE policy = ? AND binding IS NOT DISTINCT FROM ? AND effect = 'deny' AND expression_index IS NOT NULL
    GROUP BY expression_index
"""


@dataclass(frozen=True, slots=True)
class Links:
    """Links from one (policy, binding) of a replay to other pages."""

    run_id: str
    policy: str
    binding: str | None
    cluster: str | None

    def requests(self, **filters: object) -> str:
        """The list of requests, filtered."""
        return address(f"/runs/{self.run_id}/requests", policy=self.policy, binding=self.binding, **filters)

    def day(self, day: date) -> str:
        """The would-be denials of one UTC day."""
        return self.requests(outcome="deny", **of_day(day))

    @property
    def edit(self) -> str:
        """The form with this policy in it."""
        return address("/try", run=self.run_id, policy=self.policy)

    def request(self, audit_id: str) -> str:
        """One request."""
        return address(f"/runs/{self.run_id}/request", cluster=self.cluster, audit_id=audit_id, policy=self.policy)


@dataclass(frozen=True, slots=True)
class PolicyView:
    """One (policy, binding) of a replay. `marks` gives, for each validation with denials, their number and message.

    `selected` counts the selected requests; None if all are selected. `chart` covers the same requests.
    """

    run: Run
    report: Report
    entry: PolicyReadiness
    chart: Timeline | None
    link: Links
    source: tuple[SourceLine, ...]
    binding_source: tuple[SourceLine, ...]
    marks: Mapping[int, str]
    selection: Selection
    selected: Counts | None
    tables: Mapping[str, Table[Any] | None]
    writers: Mapping[tuple[str, str], Writer]
    things: str = "policies"


def policy_view(source: Source, run_id: str, policy: str, binding: str | None, selection: Selection, asked: Asked) -> PolicyView:
    """Everything that the page of one (policy, binding) shows. Raises NotFoundError for a policy that this replay did not try.

    The selection has figures of its own; everything else covers the whole replay.
    """
    run, report = stored_runs.run(source.lake, run_id), report_of(source, run_id)
    entry = next((item for item in report.policies if (item.policy, item.binding) == (policy, binding)), None)
    if entry is None:
        name = f"{policy!r} with binding {binding!r}" if binding else repr(policy)
        raise NotFoundError(f"replay {run_id} did not try the policy {name}", "the overview lists the policies of each replay")
    if is_of_policies(run):
        text, binding_text = manifests(plan_of(source, run_id), policy, binding)
    else:
        text, binding_text = _given_lines(source, run_id), ()
    days = selected_days(source, run_id, selection).get((policy, binding), ()) if narrows(selection) else entry.days
    tables = policy_tables(entry, days, asked)
    owners = tables["owners"]
    return PolicyView(
        run=run,
        report=report,
        entry=entry,
        chart=_chart(source, run, report, entry, days, selection),
        link=Links(run_id, policy, binding, report.clusters[0] if len(report.clusters) == 1 else None),
        source=text,
        binding_source=binding_text,
        marks=_marks(source, run_id, policy, binding) if entry.denials.requests and is_of_policies(run) else {},
        things=report.things,
        selection=selection,
        selected=counted_days(days) if narrows(selection) else None,
        tables=tables,
        writers=_writers(source, owners.rows) if owners is not None else {},
    )


def _chart(
    source: Source, run: Run, report: Report, entry: PolicyReadiness, days: Sequence[DayCount], selection: Selection
) -> Timeline | None:
    """The bars of days, or of shorter stretches over a short log."""
    seconds = bar_seconds(report)
    if seconds is None or not is_of_policies(run):
        return timeline(days)
    return selected_timelines(source, run.run_id, selection, seconds).get((entry.policy, entry.binding))


def _writers(source: Source, found: Iterable[Denied]) -> Mapping[tuple[str, str], Writer]:
    return last_writers(source.reader.connection, ((row.namespace, row.unit) for row in found))


def manifests(plan: Mapping[str, Any], policy: str, binding: str | None) -> tuple[tuple[SourceLine, ...], tuple[SourceLine, ...]]:
    """The lines of a policy and of its binding from a plan; empty where the plan took the policies in force at the time."""
    given = plan.get("policies", "")
    if isinstance(given, str):
        return (), ()
    text = next((source_lines(policy_manifest(item)) for item in given["policies"] if item["name"] == policy), ())
    bound = (item for item in given["bindings"] if (item["name"], item["policy_name"]) == (binding, policy))
    return text, next((source_lines(binding_manifest(item)) for item in bound), ())


def _given_lines(source: Source, run_id: str) -> tuple[SourceLine, ...]:
    """The lines of the manifests of another stage, which are judged together; empty where they are not kept."""
    text = kept_manifests(source.lake, run_id) or ""
    return tuple(SourceLine(number, line, None) for number, line in enumerate(text.splitlines(), start=1))


def _marks(source: Source, run_id: str, policy: str, binding: str | None) -> dict[int, str]:
    verdicts = str(RunStore(source.lake).run(run_id).verdicts)
    rows = source.reader.connection.execute(_DENIALS, [verdicts, policy, binding]).fetchall()
    return {index: f"would have denied {counted(requests, 'request')}: {message}" for index, _, requests, message in rows}
