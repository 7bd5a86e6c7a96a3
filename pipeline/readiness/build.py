"""One readiness report over one lake and one run: gathers, and leaves every decision to the other files of this room."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from queries import LakeReader

from ..replay import ReplayPlan, RunSummary, runs_folder
from ..report.model import EvidenceRow, RecordedPolicy, Report
from .assess import Key, assess, rows_of
from .model import Fidelity
from .rules import ReadinessRules

FIRST_FAILURE_ONLY = (
    "up to Kubernetes 1.36 the API server records only the first failure of a request: recorded counts are lower bounds, "
    "replayed ones are not"
)
OPEN_LOOP = "each request is judged against the history that really happened, not against one in which earlier requests were denied"


def build_report(
    reader: LakeReader,
    lake: Path,
    plan: ReplayPlan,
    summary: RunSummary,
    fidelity: Mapping[str, Fidelity],
    rules: ReadinessRules,
    title: str = "Policy readiness",
) -> Report:
    """Everything that a renderer needs. `fidelity` maps policy names to their agreement with the record; others are not known."""
    replayed: dict[Key, tuple[str, ...]] = {(entry.policy, entry.binding): entry.actions for entry in summary.bindings}
    verdicts = runs_folder(lake) / summary.run_id / "verdicts.parquet"
    connection = reader.connection
    policies = assess(connection, str(verdicts), replayed, fidelity, rules)
    extent = rows_of(connection, "extent")[0]
    return Report(
        title=title,
        clusters=tuple(extent["clusters"]),
        first_ts=extent["first_ts"],
        last_ts=extent["last_ts"],
        events=extent["events"],
        requests=extent["requests"],
        run_id=summary.run_id,
        kubernetes_version=".".join(map(str, plan.kubernetes_version)),
        rules=rules,
        policies=policies,
        recorded=tuple(RecordedPolicy(**row) for row in rows_of(connection, "recorded")),
        evidence=tuple(EvidenceRow(**row) for row in rows_of(connection, "evidence")),
        caveats=tuple(_caveats(extent, summary, lake)),
    )


def _caveats(extent: Mapping[str, Any], summary: RunSummary, lake: Path) -> list[str]:
    caveats = [OPEN_LOOP, FIRST_FAILURE_ONLY]
    caveats += [f"{count:,} requests were not replayed: {reason}" for reason, count in summary.not_evaluated]
    refused = len(list((lake / "quarantine").glob("*.jsonl.zst")))
    if refused:
        caveats.append(f"the quarantine has {refused} files of records that are no audit events")
    if not extent["events"]:
        caveats.append("the lake holds no events")
    return caveats
